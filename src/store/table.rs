//! Tables: the rows of one kind, with keys and values that have types.
//!
//! [`super::schema`] declares each table; the module whose rows they are says once what type its values have
//! ([`Declared::holding`]). Nothing above the store sees the bytes of a key.

use std::{fmt, marker::PhantomData, ops::Bound};

use super::{
    Batch, Change, Direction, Durability, KeyRange, Space, Store, StoreError, Write,
    key::{Key, StartOf},
    value::{self, Value},
};

/// Rows taken away in one commit.
const CLEARED: usize = 500;

/// What the schema says of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// As the schema names it.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Where its rows lie.
    pub space: Space,
    /// What its keys start with; tells tables of one space apart.
    pub prefix: &'static str,
    /// The type of its keys.
    pub key: &'static str,
    /// The type of its values.
    pub value: &'static str,
    /// What becomes of its rows.
    pub kept: Kept,
    /// The table whose rows it finds, where it is an index; else empty.
    pub index_of: &'static str,
    /// Whether its changes are in the log of changes.
    pub followed: bool,
}

/// How long rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// For good, or until someone deletes them.
    Forever,
    /// As long as what is named here.
    With(&'static str),
    /// Until what is named here.
    Until(&'static str),
}

/// A table of the schema, whose values have no type yet.
pub struct Declared<K> {
    pub(super) plan: &'static Plan,
    keys: PhantomData<fn(K) -> K>,
}

/// A table.
pub struct Table<K: 'static, V: 'static> {
    plan: &'static Plan,
    indexes: &'static [Index<K, V>],
    types: PhantomData<fn(K, V) -> V>,
}

/// A table of sums, changed by additions that the writer decides: no check, no conflict.
pub struct Counter<K> {
    pub(super) plan: &'static Plan,
    keys: PhantomData<fn(K) -> K>,
}

/// The entry that a row has in an index of its table; `None` for rows that have none. Written with the row.
pub type Index<K, V> = fn(&K, &V) -> Option<Entry>;

/// A row of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(Write);

/// A row as it was read.
#[derive(Debug, Clone)]
pub struct Row<K, V> {
    /// What it is found by.
    pub key: K,
    /// What it holds.
    pub value: V,
    /// The key as it is stored.
    pub(super) at: Vec<u8>,
    /// The value as it is stored: what a commit that builds on it wants to be there still.
    pub(super) bytes: Vec<u8>,
}

/// A row that was found and not read yet.
#[derive(Debug, Clone)]
pub struct Unread {
    at: Vec<u8>,
    bytes: Vec<u8>,
}

/// Some of the rows of a table, by their keys.
pub struct Range<K> {
    prefix: &'static str,
    bounds: KeyRange,
    keys: PhantomData<fn(K) -> K>,
}

impl<K: Key> Declared<K> {
    /// The table that this plan is of.
    #[must_use]
    pub const fn new(plan: &'static Plan) -> Self {
        Self { plan, keys: PhantomData }
    }

    /// What the schema says of it.
    #[must_use]
    pub const fn plan(self) -> &'static Plan {
        self.plan
    }

    /// The table, with values of type `V`.
    #[must_use]
    pub const fn holding<V: Value>(self) -> Table<K, V> {
        Table { plan: self.plan, indexes: &[], types: PhantomData }
    }

    /// The table, with values of type `V` and its indexes.
    #[must_use]
    pub const fn indexed<V: Value>(self, indexes: &'static [Index<K, V>]) -> Table<K, V> {
        Table { plan: self.plan, indexes, types: PhantomData }
    }

    /// The table as one of sums.
    #[must_use]
    pub const fn counting(self) -> Counter<K> {
        Counter { plan: self.plan, keys: PhantomData }
    }
}

impl<K: Key> Declared<K> {
    /// A row of it, where it is an index.
    #[must_use]
    pub fn entry<V: Value>(self, key: &K, value: &V) -> Entry {
        Entry(Write { space: self.plan.space, key: stored_key(self.plan, key), value: Some(value.to_bytes()) })
    }
}

impl<K: Key, V: Value> Table<K, V> {
    /// The value at `key`.
    ///
    /// # Errors
    ///
    /// The store's; a value that does not read is [`StoreError::Away`].
    pub async fn get(&self, store: &(impl Store + ?Sized), key: &K) -> Result<Option<V>, StoreError> {
        let at = stored_key(self.plan, key);
        let bytes = store.get(self.plan.space, &at).await?;
        bytes.map(|bytes| self.value(&at, &bytes)).transpose()
    }

    /// The row at `key`.
    ///
    /// # Errors
    ///
    /// As [`Table::get`].
    pub async fn row(&self, store: &(impl Store + ?Sized), key: &K) -> Result<Option<Row<K, V>>, StoreError>
    where
        K: Clone,
    {
        let at = stored_key(self.plan, key);
        let Some(bytes) = store.get(self.plan.space, &at).await? else { return Ok(None) };
        let value = self.value(&at, &bytes)?;
        Ok(Some(Row { key: key.clone(), value, at, bytes }))
    }

    /// At most `limit` rows of a range, from the end that `direction` names. One moment, not a walk.
    ///
    /// # Errors
    ///
    /// The store's; a row that does not read is [`StoreError::Away`].
    pub async fn page(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Row<K, V>>, StoreError> {
        let pairs = store.scan(self.plan.space, range.bounds.clone(), limit, direction).await?;
        pairs.into_iter().map(|(at, bytes)| self.read(Unread { at, bytes })).collect()
    }

    /// As [`Table::page`], for readers who pass over values that do not read: `None` stands for those.
    ///
    /// # Errors
    ///
    /// The store's; a key that does not read is [`StoreError::Away`].
    pub async fn readable(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<(K, Option<V>)>, StoreError> {
        let pairs = store.scan(self.plan.space, range.bounds.clone(), limit, direction).await?;
        pairs.into_iter().map(|(at, bytes)| Ok((self.read_key(&at)?, V::of_bytes(&bytes)))).collect()
    }

    /// As [`Table::page`], for readers of so much that it is to be read elsewhere: by [`Table::read`].
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn unread(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Unread>, StoreError> {
        let pairs = store.scan(self.plan.space, range.bounds.clone(), limit, direction).await?;
        Ok(pairs.into_iter().map(|(at, bytes)| Unread { at, bytes }).collect())
    }

    /// The row at `key`, not read yet.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn found(&self, store: &(impl Store + ?Sized), key: &K) -> Result<Option<Unread>, StoreError> {
        let at = stored_key(self.plan, key);
        Ok(store.get(self.plan.space, &at).await?.map(|bytes| Unread { at, bytes }))
    }

    /// The row that was found.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] where it does not read.
    pub fn read(&self, Unread { at, bytes }: Unread) -> Result<Row<K, V>, StoreError> {
        let key = self.read_key(&at)?;
        let value = self.value(&at, &bytes)?;
        Ok(Row { key, value, at, bytes })
    }

    /// The row that a commit of this process put there: what it left is what the next one builds on.
    #[must_use]
    pub fn own(&self, key: K, value: V) -> Row<K, V> {
        let (at, bytes) = (stored_key(self.plan, &key), value.to_bytes());
        Row { key, value, at, bytes }
    }

    /// How many rows of a range there are; no more than `most` are counted.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn count(&self, store: &(impl Store + ?Sized), range: &Range<K>, most: usize) -> Result<usize, StoreError> {
        store.count(self.plan.space, range.bounds.clone(), most).await
    }

    /// The key of the first row of a range.
    ///
    /// # Errors
    ///
    /// The store's; a key that does not read is [`StoreError::Away`].
    pub async fn first(&self, store: &(impl Store + ?Sized), range: &Range<K>) -> Result<Option<K>, StoreError> {
        let first = store.scan(self.plan.space, range.bounds.clone(), 1, Direction::Forward).await?;
        first.into_iter().next().map(|(at, _)| self.read_key(&at)).transpose()
    }

    /// Takes away the first rows of a range, at most `most`; answers how many. For rows without indexes that nobody changes.
    ///
    /// # Errors
    ///
    /// The store's; what was taken away until then stays so.
    pub async fn clear(&self, store: &(impl Store + ?Sized), range: &Range<K>, most: u64) -> Result<u64, StoreError> {
        debug_assert!(self.indexes.is_empty(), "{self:?} has indexes: they need the rows");
        let mut cleared = 0;
        while cleared < most {
            let some = usize::try_from(most - cleared).unwrap_or(CLEARED).min(CLEARED);
            let pairs = store.scan(self.plan.space, range.bounds.clone(), some, Direction::Forward).await?;
            if pairs.is_empty() {
                break;
            }
            cleared += pairs.len() as u64;
            let mut batch = Batch::new();
            pairs.into_iter().for_each(|(at, _)| _ = batch.write(self.plan, at, None));
            batch.commit(store, Durability::Buffered).await?;
        }
        Ok(cleared)
    }

    /// Puts `value` at `key`, by itself.
    #[must_use]
    pub fn put(&self, key: &K, value: &V) -> Batch {
        let mut batch = Batch::new();
        batch.put(self, key, value);
        batch
    }

    /// How many bytes a key is stored as.
    #[must_use]
    pub fn bytes_of(&self, key: &K) -> usize {
        stored_key(self.plan, key).len()
    }

    /// Every row.
    #[must_use]
    pub fn all(&self) -> Range<K> {
        Range { prefix: self.plan.prefix, bounds: KeyRange::prefix(self.plan.prefix.as_bytes()), keys: PhantomData }
    }

    /// Every row whose key starts with `start`.
    #[must_use]
    pub fn under(&self, start: &impl StartOf<K>) -> Range<K> {
        let bounds = KeyRange::prefix(&stored_key(self.plan, start));
        Range { prefix: self.plan.prefix, bounds, keys: PhantomData }
    }

    /// The keys of this table among those that a change touched. Only those of tables that are followed are told.
    pub fn changed<'a>(&self, change: &'a Change) -> impl Iterator<Item = K> + use<'a, K, V> {
        let Plan { space, prefix, .. } = *self.plan;
        let own = change.keys.iter().filter(move |(of, _)| *of == space);
        own.filter_map(move |(_, at)| K::read(at.strip_prefix(prefix.as_bytes())?))
    }

    pub(super) fn plan(&self) -> &'static Plan {
        self.plan
    }

    pub(super) fn indexes(&self) -> &'static [Index<K, V>] {
        self.indexes
    }

    /// The key of a row that was found.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] where it does not read.
    pub fn key(&self, found: &Unread) -> Result<K, StoreError> {
        self.read_key(&found.at)
    }

    fn read_key(&self, at: &[u8]) -> Result<K, StoreError> {
        at.strip_prefix(self.plan.prefix.as_bytes()).and_then(K::read).ok_or_else(|| self.unreadable("key", at))
    }

    pub(super) fn value(&self, at: &[u8], bytes: &[u8]) -> Result<V, StoreError> {
        V::of_bytes(bytes).ok_or_else(|| self.unreadable("value", at))
    }

    fn unreadable(&self, what: &str, at: &[u8]) -> StoreError {
        StoreError::Away(format!("the {what} at `{}` of {} does not read", value::shown(at), self.plan.name))
    }
}

impl<K: Key> Counter<K> {
    /// The sum at `key`; nothing was added where there is none.
    ///
    /// # Errors
    ///
    /// The store's; a value that is no sum is [`StoreError::Away`].
    pub async fn get(&self, store: &(impl Store + ?Sized), key: &K) -> Result<i64, StoreError> {
        let at = stored_key(self.plan, key);
        match store.get(self.plan.space, &at).await? {
            None => Ok(0),
            Some(bytes) => value::sum_of(&bytes).ok_or_else(|| value::no_sum(&at)),
        }
    }
}

impl<K: Key> Range<K> {
    /// The rows of it at and behind `start`.
    #[must_use]
    pub fn from(mut self, start: &impl StartOf<K>) -> Self {
        self.bounds.start = Bound::Included(self.stored(start));
        self
    }

    /// The rows of it behind the one at `key`.
    #[must_use]
    pub fn after(mut self, key: &K) -> Self {
        self.bounds.start = Bound::Excluded(self.stored(key));
        self
    }

    /// The rows of it behind all that start with `start`.
    #[must_use]
    pub fn behind(mut self, start: &impl StartOf<K>) -> Self {
        self.bounds.start = match KeyRange::prefix(&self.stored(start)).end {
            Bound::Excluded(end) | Bound::Included(end) => Bound::Included(end),
            // Nothing is behind it: the table's own end.
            Bound::Unbounded => Bound::Excluded(self.stored(start)),
        };
        self
    }

    /// The rows of it before the first whose key starts with `end`.
    #[must_use]
    pub fn before(mut self, end: &impl StartOf<K>) -> Self {
        self.bounds.end = Bound::Excluded(self.stored(end));
        self
    }

    /// The rows of it up to the one at `key`, which belongs to them.
    #[must_use]
    pub fn up_to(mut self, key: &K) -> Self {
        self.bounds.end = Bound::Included(self.stored(key));
        self
    }

    /// Whether no row can be in it, because its end lies before its start.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    fn stored(&self, start: &impl StartOf<K>) -> Vec<u8> {
        let mut at = self.prefix.as_bytes().to_vec();
        start.begin(&mut at);
        at
    }
}

impl Entry {
    /// The write that puts it.
    pub(super) fn put(self) -> Write {
        self.0
    }

    /// The write that takes it away.
    pub(super) fn delete(self) -> Write {
        Write { value: None, ..self.0 }
    }
}

/// The key as it is stored: the table's prefix, then the key.
pub(super) fn stored_key<K>(plan: &Plan, key: &impl StartOf<K>) -> Vec<u8> {
    let mut at = Vec::with_capacity(plan.prefix.len() + 64);
    at.extend_from_slice(plan.prefix.as_bytes());
    key.begin(&mut at);
    at
}

impl<K> Clone for Range<K> {
    fn clone(&self) -> Self {
        Self { prefix: self.prefix, bounds: self.bounds.clone(), keys: PhantomData }
    }
}

impl<K> fmt::Debug for Range<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bounds.fmt(f)
    }
}

impl<K> Clone for Declared<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Declared<K> {}

impl<K> fmt::Debug for Declared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plan.name)
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plan.name)
    }
}

impl<K> fmt::Debug for Counter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plan.name)
    }
}
