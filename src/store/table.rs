//! Tables: the rows of one kind, with keys and values that have types.
//!
//! [`super::schema`] declares each table; the module whose rows they are says once what type its values have
//! ([`super::Declared::holding`]). Nothing above the store sees the bytes of a key.

use std::{fmt, marker::PhantomData, ops::Bound};

use bytes::Bytes;
use tollhouse_telemetry::counted::REMOVED;

use super::{
    Batch, Change, Direction, Durability, Store, StoreError,
    key::{Key, StartOf},
    plan::{Index, Plan, stored_key},
    range::Range,
    value::{self, Sum, Value},
};

/// Rows taken away in one commit.
const CLEARED: usize = 500;

/// A table.
pub struct Table<K: 'static, V: 'static> {
    pub(super) plan: &'static Plan,
    pub(super) indexes: &'static [Index<K, V>],
    pub(super) types: PhantomData<fn(K, V) -> V>,
}

/// A table of sums, changed by additions that the writer decides: no check, no conflict.
pub struct Counter<K> {
    pub(super) plan: &'static Plan,
    pub(super) keys: PhantomData<fn(K) -> K>,
}

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
    pub(super) bytes: Bytes,
}

/// A row that was found and not read yet.
#[derive(Debug, Clone)]
pub struct Unread {
    at: Vec<u8>,
    bytes: Vec<u8>,
}

impl Unread {
    pub(super) fn new(at: Vec<u8>, bytes: Vec<u8>) -> Self {
        Self { at, bytes }
    }

    /// How many bytes key and value are stored as.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.at.len() + self.bytes.len()
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
        Ok(Some(Row { key: key.clone(), value, at, bytes: bytes.into() }))
    }

    /// At most `limit` rows of a range, and of [its bytes](Range::within), from the end that `direction` names. One moment, not a walk.
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

    /// As [`Table::page`] from the start on, for those who go through all rows and whom one that does not read is not to stop: it is
    /// logged and left out. With the rest of the range; `None` at its end.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn sound(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
    ) -> Result<Option<(Vec<Row<K, V>>, Range<K>)>, StoreError> {
        let mut rest = range.clone();
        let Some(page) = self.next(store, &mut rest, limit).await? else { return Ok(None) };
        Ok(Some((sound_of(page), rest)))
    }

    /// At most `limit` rows from the start of a range, each by itself whether or not it reads, and leaves of the range what is behind
    /// them; `None` at its end.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn next(
        &self,
        store: &(impl Store + ?Sized),
        range: &mut Range<K>,
        limit: usize,
    ) -> Result<Option<Vec<Result<Row<K, V>, StoreError>>>, StoreError> {
        let found = self.unread(store, range, limit, Direction::Forward).await?;
        let Some(last) = found.last() else { return Ok(None) };
        range.bounds.start = Bound::Excluded(last.at.clone());
        Ok(Some(found.into_iter().map(|found| self.read(found)).collect()))
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
        Ok(Row { key, value, at, bytes: bytes.into() })
    }

    /// The row that a commit of this process put there: what it left is what the next one builds on.
    #[must_use]
    pub fn own(&self, key: K, value: V) -> Row<K, V> {
        let (at, bytes) = (stored_key(self.plan, &key), value.to_bytes().into());
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

    /// [Clears](Self::clear) a range whose rows are too old or too many, and counts them as such.
    ///
    /// # Errors
    ///
    /// The store's; what was taken away until then stays so.
    pub async fn expire(&self, store: &(impl Store + ?Sized), range: &Range<K>) -> Result<(), StoreError> {
        let removed = self.clear(store, range, u64::MAX).await?;
        self.expired(removed);
        Ok(())
    }

    /// Counts so many rows as removed because they were too old or too many.
    pub fn expired(&self, rows: u64) {
        // Of receipts of free calls operators are told the size by another count, and of both under the same name.
        let kind = self.plan.space.kind().unwrap_or("freeReceipts");
        REMOVED.add([kind], rows);
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
        Range::of(self.plan.prefix, self.plan.prefix.as_bytes())
    }

    /// Every row whose key starts with `start`.
    #[must_use]
    pub fn under(&self, start: &impl StartOf<K>) -> Range<K> {
        Range::of(self.plan.prefix, &stored_key(self.plan, start))
    }

    /// The keys of this table among those that a change touched. Only those of tables that are followed are told.
    pub fn changed<'a>(&self, change: &'a Change) -> impl Iterator<Item = K> + use<'a, K, V> {
        let Plan { space, prefix, .. } = *self.plan;
        let own = change.keys.iter().filter(move |(of, _)| *of == space);
        own.filter_map(move |(_, at)| K::read(at.strip_prefix(prefix.as_bytes())?))
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

impl<K: Key, V> Table<K, V> {
    /// The sums that lie among its rows.
    #[must_use]
    pub const fn counting(&self) -> Counter<K> {
        Counter { plan: self.plan, keys: PhantomData }
    }
}

impl<K: Key> Counter<K> {
    /// The sums as rows, to be read.
    #[must_use]
    pub const fn rows(&self) -> Table<K, Sum> {
        Table { plan: self.plan, indexes: &[], types: PhantomData }
    }

    /// The sum at `key`; nothing was added where there is none.
    ///
    /// # Errors
    ///
    /// The store's; a value that is no sum is [`StoreError::Away`].
    pub async fn get(&self, store: &(impl Store + ?Sized), key: &K) -> Result<i128, StoreError> {
        let at = stored_key(self.plan, key);
        match store.get(self.plan.space, &at).await? {
            None => Ok(0),
            Some(bytes) => value::sum_of(&bytes).ok_or_else(|| value::no_sum(&at)),
        }
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

/// Those that read; one that does not is logged and left out.
pub(super) fn sound_of<K, V>(page: Vec<Result<Row<K, V>, StoreError>>) -> Vec<Row<K, V>> {
    let logged = |error| tracing::error!(%error, "a row is passed over; it stays as it is");
    page.into_iter().filter_map(|row| row.map_err(logged).ok()).collect()
}
