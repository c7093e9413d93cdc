//! Ranges: a part of a space, or of a table, by its keys.

use std::{fmt, marker::PhantomData, ops::Bound};

use super::key::{Key, StartOf};

/// A part of a space, by key.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// Where it begins.
    pub start: Bound<Vec<u8>>,
    /// Where it ends.
    pub end: Bound<Vec<u8>>,
    /// A scan of it ends with the pair that brings it to so many bytes of keys and values. It counts keys all the same.
    pub bytes: usize,
}

impl KeyRange {
    /// Every key that starts with `prefix`.
    #[must_use]
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

    /// Every key of the space.
    #[must_use]
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded, bytes: usize::MAX }
    }

    /// The keys of this range that come after `key`: the next page of a forward scan that ended with it.
    #[must_use]
    pub fn after(self, key: &[u8]) -> Self {
        Self { start: Bound::Excluded(key.to_vec()), ..self }
    }

    /// The keys of this range that come before `key`: the next page of a backward scan that ended with it.
    #[must_use]
    pub fn before(self, key: &[u8]) -> Self {
        Self { end: Bound::Excluded(key.to_vec()), ..self }
    }

    /// Whether no key can be in it, because its end lies before its start.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        }
    }
}

/// Some of the rows of a table, by their keys.
pub struct Range<K> {
    prefix: &'static str,
    pub(super) bounds: KeyRange,
    keys: PhantomData<fn(K) -> K>,
}

impl<K: Key> Range<K> {
    /// The rows of a table whose keys start with `start`, as it is stored.
    pub(super) fn of(prefix: &'static str, start: &[u8]) -> Self {
        Self { prefix, bounds: KeyRange::prefix(start), keys: PhantomData }
    }

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

    /// The same rows, of which a page ends with the one that brings it to so many bytes as they are stored.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        self.bounds.bytes = bytes;
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
