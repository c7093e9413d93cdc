//! Sort orders of endpoints, updated with each change, so that a page costs only its own entries.

use std::{cmp::Ordering, sync::Arc};

use tollhouse_tool::Slug;

use super::{
    Entry,
    sorted_set::{Items, SortedSet},
};

/// A requested order. Ties break by name, or by relevance in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By maximum price, lowest first.
    Price,
    /// By publication time, latest first.
    Newest,
}

/// The position of an endpoint in an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderPosition {
    /// The sort key, see [`Order::rank`].
    pub rank: u64,
    pub slug: Slug,
}

impl Order {
    pub fn rank(self, entry: &Entry) -> u64 {
        match self {
            Self::Price => entry.max_usd.0,
            Self::Newest => u64::MAX - entry.created_at.0,
        }
    }

    pub fn place(self, entry: &Entry) -> OrderPosition {
        OrderPosition { rank: self.rank(entry), slug: entry.slug.clone() }
    }
}

/// Compares two entries in a sort order.
pub(super) type Compare = fn(&Entry, &Entry) -> Ordering;

/// Sorted entries. A clone is cheap, and the cost of a change hardly depends on the number of
/// entries.
#[derive(Clone)]
pub(super) struct OrderedEntries {
    entries: SortedSet<Arc<Entry>>,
    compare: Compare,
}

impl OrderedEntries {
    /// Sorts entries that are in order of name. `rank` is the key before the name.
    pub(super) fn of<'e, R: Ord>(compare: Compare, entries: impl Iterator<Item = &'e Arc<Entry>>, rank: impl Fn(&'e Entry) -> R) -> Self {
        let mut all: Vec<_> = entries.map(|entry| (rank(entry), entry)).collect();
        // The sort is stable, so entries of equal rank keep their order.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let entries: SortedSet<_> = all.into_iter().map(|(_, entry)| Arc::clone(entry)).collect();
        debug_assert!(entries.iter().is_sorted_by(|one, other| compare(one, other).is_lt()), "entries that do not come by name");
        Self { entries, compare }
    }

    /// Returns the entry for which `position` returns `Equal`. It compares an entry with the
    /// requested position.
    pub(super) fn get(&self, position: impl Fn(&Entry) -> Ordering) -> Option<&Arc<Entry>> {
        self.entries.get(|entry| position(entry))
    }

    /// Iterates over the entries after a position.
    pub(super) fn after(&self, position: impl Fn(&Entry) -> Ordering) -> Items<'_, Arc<Entry>> {
        self.entries.after(|entry| position(entry))
    }

    pub(super) fn put(&mut self, entry: &Arc<Entry>) {
        self.entries.insert(Arc::clone(entry), |other| (self.compare)(other, entry));
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.entries.remove(|other| (self.compare)(other, entry));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> Items<'_, Arc<Entry>> {
        self.entries.iter()
    }
}
