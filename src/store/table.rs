//! Tables: rows of one kind, with typed keys and values.
//!
//! [`super::schema`] declares each table. The module that owns the rows gives values their type once
//! ([`super::DeclaredTable::holding`]). Code above the store never sees the bytes of a key.

use std::{fmt, marker::PhantomData, ops::Bound};

use bytes::Bytes;
use tollhouse_telemetry::counters::REMOVED;

use super::{
    Batch, CommittedChange, Direction, Durability, Store, StoreError,
    key::{Key, KeyPrefix},
    range::Range,
    table_plan::{IndexFn, TablePlan, stored_key},
    value::{self, Sum, Value},
};

/// Number of rows deleted in one commit.
const CLEARED: usize = 500;
/// Maximum number of rows that [`Table::newest`] examines, wanted or not.
const EXAMINED: usize = 5_000;
/// Number of rows that [`Table::newest`] reads at once.
const NEWEST: usize = 250;

/// A table with typed keys and values.
pub struct Table<K: 'static, V: 'static> {
    pub(super) plan: &'static TablePlan,
    pub(super) indexes: &'static [IndexFn<K, V>],
    pub(super) types: PhantomData<fn(K, V) -> V>,
}

/// A table of sums. The commit writer applies additions to them, so that they need no check and never conflict.
pub struct Counter<K> {
    pub(super) plan: &'static TablePlan,
    pub(super) keys: PhantomData<fn(K) -> K>,
}

/// A row as it was read.
#[derive(Debug, Clone)]
pub struct Row<K, V> {
    /// The decoded key.
    pub key: K,
    /// The decoded value.
    pub value: V,
    /// The stored key.
    pub(super) at: Vec<u8>,
    /// The stored value. A commit that depends on the row checks that it is unchanged.
    pub(super) bytes: Bytes,
}

/// A stored row that is not decoded yet.
#[derive(Debug, Clone)]
pub struct RawRow {
    pub(super) at: Vec<u8>,
    pub(super) bytes: Bytes,
}

impl RawRow {
    /// Returns the stored size of key and value, in bytes.
    pub fn bytes(&self) -> usize {
        self.at.len() + self.bytes.len()
    }
}

impl<K: Key, V: Value> Table<K, V> {
    /// Returns the value at `key`.
    pub async fn get(&self, store: &(impl Store + ?Sized), key: &K) -> Result<Option<V>, StoreError> {
        let at = stored_key(self.plan, key);
        let bytes = store.get(self.plan.space, &at).await?;
        bytes.map(|bytes| self.value(&at, &bytes)).transpose()
    }

    /// Returns the row at `key`.
    pub async fn row(&self, store: &(impl Store + ?Sized), key: &K) -> Result<Option<Row<K, V>>, StoreError> {
        self.found(store, key).await?.map(|found| self.read(found)).transpose()
    }

    /// Returns a snapshot of up to `limit` rows of a range, from the end that `direction` names. The range can also
    /// [limit the bytes](Range::within).
    pub async fn page(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Row<K, V>>, StoreError> {
        self.unread(store, range, limit, direction).await?.into_iter().map(|found| self.read(found)).collect()
    }

    /// Like [`Table::page`], but returns `None` in place of a malformed value.
    pub async fn readable(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<(K, Option<V>)>, StoreError> {
        let found = self.unread(store, range, limit, direction).await?;
        found.into_iter().map(|found| Ok((self.key(&found)?, V::of_bytes(&found.bytes)))).collect()
    }

    /// Returns up to `limit` values that `wants` accepts, from the end of a range backward. Malformed values are left out.
    /// If there may be more, also returns the key before which to continue: only so many rows are examined at once.
    pub async fn newest(
        &self,
        store: &(impl Store + ?Sized),
        mut range: Range<K>,
        limit: usize,
        wants: impl Fn(&V) -> bool,
    ) -> Result<(Vec<V>, Option<K>), StoreError> {
        let (mut values, mut examined) = (Vec::new(), 0);
        while !range.is_empty() {
            let rows = self.unread(store, &range, NEWEST, Direction::Backward).await?;
            let is_last = rows.len() < NEWEST;
            for row in rows {
                examined += 1;
                values.extend(V::of_bytes(&row.bytes).filter(&wants));
                if values.len() >= limit || examined == EXAMINED {
                    return Ok((values, Some(self.key(&row)?)));
                }
                range.bounds.end = Bound::Excluded(row.at);
            }
            if is_last {
                break;
            }
        }
        Ok((values, None))
    }

    /// Like [`Table::page`], but leaves decoding to [`Table::read`], which can run on another thread.
    pub async fn unread(
        &self,
        store: &(impl Store + ?Sized),
        range: &Range<K>,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<RawRow>, StoreError> {
        let pairs = store.scan(self.plan.space, range.bounds.clone(), limit, direction).await?;
        Ok(pairs.into_iter().map(|(at, bytes)| RawRow { at, bytes: bytes.into() }).collect())
    }

    /// Like [`Self::next`], for code that goes through all rows: a malformed row is logged and skipped.
    pub async fn sound(
        &self,
        store: &(impl Store + ?Sized),
        range: &mut Range<K>,
        limit: usize,
    ) -> Result<Option<Vec<Row<K, V>>>, StoreError> {
        Ok(self.next(store, range, limit).await?.map(sound_of))
    }

    /// Returns up to `limit` rows from the start of the range, each decoded or an error, and moves the start of the
    /// range after them. Returns `None` at its end.
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

    /// Returns the row at `key` without decoding it.
    pub async fn found(&self, store: &(impl Store + ?Sized), key: &K) -> Result<Option<RawRow>, StoreError> {
        let at = stored_key(self.plan, key);
        Ok(store.get(self.plan.space, &at).await?.map(|bytes| RawRow { at, bytes: bytes.into() }))
    }

    /// Decodes a row.
    pub fn read(&self, RawRow { at, bytes }: RawRow) -> Result<Row<K, V>, StoreError> {
        let (key, value) = (self.read_key(&at)?, self.value(&at, &bytes)?);
        Ok(Row { key, value, at, bytes })
    }

    /// Returns the row that a commit of this process wrote, so that the next commit can depend on it without reading
    /// it.
    pub fn own(&self, key: K, value: V) -> Row<K, V> {
        let (at, bytes) = (stored_key(self.plan, &key), value.to_bytes().into());
        Row { key, value, at, bytes }
    }

    /// Counts the rows of a range, up to `max`.
    pub async fn count(&self, store: &(impl Store + ?Sized), range: &Range<K>, max: usize) -> Result<usize, StoreError> {
        store.count(self.plan.space, range.bounds.clone(), max).await
    }

    /// Returns the key of the first row in a range.
    pub async fn first(&self, store: &(impl Store + ?Sized), range: &Range<K>) -> Result<Option<K>, StoreError> {
        self.unread(store, range, 1, Direction::Forward).await?.first().map(|first| self.key(first)).transpose()
    }

    /// Deletes up to `max` first rows of a range. Returns how many were deleted. For rows without indexes that nobody
    /// changes.
    /// Rows deleted before an error stay deleted.
    pub async fn clear(&self, store: &(impl Store + ?Sized), range: &Range<K>, max: u64) -> Result<u64, StoreError> {
        debug_assert!(self.indexes.is_empty(), "{self:?} has indexes: they need the rows");
        let mut cleared = 0;
        while cleared < max {
            let some = usize::try_from(max - cleared).unwrap_or(CLEARED).min(CLEARED);
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

    /// [Clears](Self::clear) a range of rows that are too old or too many, and counts them in the metrics.
    /// Rows deleted before an error stay deleted.
    pub async fn expire(&self, store: &(impl Store + ?Sized), range: &Range<K>) -> Result<(), StoreError> {
        let removed = self.clear(store, range, u64::MAX).await?;
        self.expired(removed);
        Ok(())
    }

    /// Counts `rows` rows in the metrics as removed because they were too old or too many.
    pub fn expired(&self, rows: u64) {
        // The size of free calls' receipts is reported by another count, under the same name.
        let kind = self.plan.space.kind().unwrap_or("freeReceipts");
        REMOVED.add([kind], rows);
    }

    /// Returns a batch that puts `value` at `key`.
    pub fn put(&self, key: &K, value: &V) -> Batch {
        let mut batch = Batch::new();
        batch.put(self, key, value);
        batch
    }

    /// Returns the stored size of a key, in bytes.
    pub fn bytes_of(&self, key: &K) -> usize {
        stored_key(self.plan, key).len()
    }

    /// Returns the range of all rows.
    pub fn all(&self) -> Range<K> {
        Range::of(self.plan.prefix, self.plan.prefix.as_bytes())
    }

    /// Returns the range of all rows whose keys start with `start`.
    pub fn under(&self, start: &impl KeyPrefix<K>) -> Range<K> {
        Range::of(self.plan.prefix, &stored_key(self.plan, start))
    }

    /// Returns the keys of this table among those of a change. Only followed tables have any.
    pub fn changed<'a>(&self, change: &'a CommittedChange) -> impl Iterator<Item = K> + use<'a, K, V> {
        let TablePlan { space, prefix, .. } = *self.plan;
        let own = change.keys.iter().filter(move |(of, _)| *of == space);
        own.filter_map(move |(_, at)| K::read(at.strip_prefix(prefix.as_bytes())?))
    }

    /// Decodes the key of a row.
    pub fn key(&self, found: &RawRow) -> Result<K, StoreError> {
        self.read_key(&found.at)
    }

    fn read_key(&self, at: &[u8]) -> Result<K, StoreError> {
        at.strip_prefix(self.plan.prefix.as_bytes()).and_then(K::read).ok_or_else(|| self.unreadable("key", at))
    }

    fn value(&self, at: &[u8], bytes: &[u8]) -> Result<V, StoreError> {
        V::of_bytes(bytes).ok_or_else(|| self.unreadable("value", at))
    }

    fn unreadable(&self, what: &str, at: &[u8]) -> StoreError {
        StoreError::Away(format!("the {what} at `{}` of {} is malformed", value::shown(at), self.plan.name))
    }
}

impl<K: Key, V> Table<K, V> {
    /// Returns the sums that are stored among this table's rows.
    pub const fn counting(&self) -> Counter<K> {
        Counter { plan: self.plan, keys: PhantomData }
    }
}

impl<K: Key> Counter<K> {
    /// Returns the sums as a table of rows, for reading.
    pub const fn rows(&self) -> Table<K, Sum> {
        Table { plan: self.plan, indexes: &[], types: PhantomData }
    }

    /// Returns the sum at `key`, or zero if there is none.
    pub async fn get(&self, store: &(impl Store + ?Sized), key: &K) -> Result<i128, StoreError> {
        let at = stored_key(self.plan, key);
        match store.get(self.plan.space, &at).await? {
            None => Ok(0),
            Some(bytes) => value::sum_of(&bytes).ok_or_else(|| value::not_a_sum(&at)),
        }
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plan.name)
    }
}

/// Returns the rows that could be decoded. Malformed rows are logged and skipped.
pub(super) fn sound_of<K, V>(page: Vec<Result<Row<K, V>, StoreError>>) -> Vec<Row<K, V>> {
    let logged = |error| tracing::error!(%error, "a malformed row is skipped");
    page.into_iter().filter_map(|row| row.map_err(logged).ok()).collect()
}
