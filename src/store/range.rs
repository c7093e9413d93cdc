//! Ranges of keys in a space or a table.

use std::{fmt, marker::PhantomData, ops::Bound};

use super::key::{Key, KeyPrefix};

/// A range of keys in a space.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// The start of the range.
    pub start: Bound<Vec<u8>>,
    /// The end of the range.
    pub end: Bound<Vec<u8>>,
    /// A scan ends with the pair that reaches this many bytes of keys and values. Counting ignores it.
    pub bytes: usize,
}

impl KeyRange {
    /// Returns the range of all keys that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if *last < u8::MAX {
                *last += 1;
                return Self { start: Bound::Included(prefix.to_vec()), end: Bound::Excluded(end), bytes: usize::MAX };
            }
            end.pop();
        }
        Self { start: Bound::Included(prefix.to_vec()), ..Self::all() }
    }

    /// Returns the range of all keys in the space.
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded, bytes: usize::MAX }
    }

    /// Returns the part of this range after `key`: the next page of a forward scan that ended with it.
    pub fn after(self, key: &[u8]) -> Self {
        Self { start: Bound::Excluded(key.to_vec()), ..self }
    }

    /// Returns the part of this range before `key`: the next page of a backward scan that ended with it.
    pub fn before(self, key: &[u8]) -> Self {
        Self { end: Bound::Excluded(key.to_vec()), ..self }
    }

    /// Returns whether the range contains no key because its end is before its start.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        }
    }
}

/// A range of rows in a table, by key.
pub struct Range<K> {
    prefix: &'static str,
    pub(super) bounds: KeyRange,
    keys: PhantomData<fn(K) -> K>,
}

impl<K: Key> Range<K> {
    /// Returns the rows of a table whose stored keys start with `start`.
    pub(super) fn of(prefix: &'static str, start: &[u8]) -> Self {
        Self { prefix, bounds: KeyRange::prefix(start), keys: PhantomData }
    }

    /// Starts the range at `start`, inclusive.
    pub fn from(mut self, start: &impl KeyPrefix<K>) -> Self {
        self.bounds.start = Bound::Included(self.stored(start));
        self
    }

    /// Starts the range after the row at `key`.
    pub fn after(mut self, key: &K) -> Self {
        self.bounds.start = Bound::Excluded(self.stored(key));
        self
    }

    /// Starts the range after all keys that start with `start`.
    pub fn behind(mut self, start: &impl KeyPrefix<K>) -> Self {
        self.bounds.start = match KeyRange::prefix(&self.stored(start)).end {
            Bound::Excluded(end) | Bound::Included(end) => Bound::Included(end),
            // There is no key after it in the table.
            Bound::Unbounded => Bound::Excluded(self.stored(start)),
        };
        self
    }

    /// Ends the range before the first key that starts with `end`.
    pub fn before(mut self, end: &impl KeyPrefix<K>) -> Self {
        self.bounds.end = Bound::Excluded(self.stored(end));
        self
    }

    /// Ends the range at `key`, inclusive.
    pub fn up_to(mut self, key: &K) -> Self {
        self.bounds.end = Bound::Included(self.stored(key));
        self
    }

    /// Limits a page: it ends with the row that reaches `bytes` stored bytes.
    pub fn within(mut self, bytes: usize) -> Self {
        self.bounds.bytes = bytes;
        self
    }

    /// Returns whether the range contains no row because its end is before its start.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    fn stored(&self, start: &impl KeyPrefix<K>) -> Vec<u8> {
        let mut at = self.prefix.as_bytes().to_vec();
        start.begin(&mut at);
        at
    }
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
