//! Sort orders of endpoints, updated with each change, so that a page costs only its own entries.

use std::{cmp::Ordering, marker::PhantomData, sync::Arc};

use equivalent::{Comparable, Equivalent};
use tollhouse_base::id::EndpointId;
use tollhouse_tool::{EndpointState, Owner, Slug};

use super::{Entry, sorted_set::SortedSet};

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
    /// Breaks ties.
    pub slug: Slug,
}

impl Order {
    /// Returns the sort key of an endpoint.
    #[must_use]
    pub fn rank(self, entry: &Entry) -> u64 {
        match self {
            Self::Price => entry.max_usd.0,
            Self::Newest => u64::MAX - entry.created_at.0,
        }
    }

    /// Returns the position of an endpoint.
    #[must_use]
    pub fn place(self, entry: &Entry) -> OrderPosition {
        OrderPosition { rank: self.rank(entry), slug: entry.slug.clone() }
    }
}

/// A sort order of entries.
pub(super) trait OrderKey: 'static {
    /// A position in the order.
    type Key<'k>: Copy;

    /// Returns the position of an entry.
    fn key(entry: &Entry) -> Self::Key<'_>;

    /// Compares a position with that of an entry.
    fn compare(key: Self::Key<'_>, entry: &Entry) -> Ordering;
}

macro_rules! orders {
    ($($(#[$what:meta])* $name:ident($($part:ident: $type:ty),+) of $entry:ident: ($($from:expr),+);)+) => {$(
        $(#[$what])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name;

        impl OrderKey for $name {
            type Key<'k> = ($($type,)+);

            fn key($entry: &Entry) -> Self::Key<'_> {
                ($($from,)+)
            }

            fn compare(key: Self::Key<'_>, $entry: &Entry) -> Ordering {
                key.cmp(&($($from,)+))
            }
        }
    )+};
}

orders! {
    /// By name.
    Name(slug: &'k str) of entry: (entry.slug.as_str());
    /// By id.
    Id(id: [u8; 16]) of entry: (entry.id);
    /// See [`Order::Price`].
    Price(rank: u64, slug: &'k str) of entry: (Order::Price.rank(entry), entry.slug.as_str());
    /// See [`Order::Newest`].
    Newest(rank: u64, slug: &'k str) of entry: (Order::Newest.rank(entry), entry.slug.as_str());
    /// By owner, then by name.
    Owned(share: &'k str, slug: &'k str) of entry: (entry.owner.share(), entry.slug.as_str());
    /// By state, then by name.
    Standing(state: EndpointState, slug: &'k str) of entry: (entry.state(), entry.slug.as_str());
    /// By the time since when an admin has something to decide, then by name.
    Waiting(since: u64, slug: &'k str) of entry: (entry.waits_since().map_or(0, |since| since.0), entry.slug.as_str());
}

/// An entry in an order.
struct OrderedEntry<O>(Arc<Entry>, PhantomData<O>);

impl<O> Clone for OrderedEntry<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), PhantomData)
    }
}

impl<O: OrderKey> PartialEq for OrderedEntry<O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<O: OrderKey> Eq for OrderedEntry<O> {}

impl<O: OrderKey> PartialOrd for OrderedEntry<O> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: OrderKey> Ord for OrderedEntry<O> {
    fn cmp(&self, other: &Self) -> Ordering {
        O::compare(O::key(&self.0), &other.0)
    }
}

/// A position to search for.
struct SoughtPosition<'k, O: OrderKey>(O::Key<'k>);

impl<O: OrderKey> Equivalent<OrderedEntry<O>> for SoughtPosition<'_, O> {
    fn equivalent(&self, entry: &OrderedEntry<O>) -> bool {
        O::compare(self.0, &entry.0).is_eq()
    }
}

impl<O: OrderKey> Comparable<OrderedEntry<O>> for SoughtPosition<'_, O> {
    fn compare(&self, entry: &OrderedEntry<O>) -> Ordering {
        O::compare(self.0, &entry.0)
    }
}

/// Sorted entries. A clone is cheap, and the cost of a change hardly depends on the number of
/// entries.
pub(super) struct OrderedEntries<O: OrderKey>(SortedSet<OrderedEntry<O>>);

impl<O: OrderKey> Clone for OrderedEntries<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: OrderKey> Default for OrderedEntries<O> {
    fn default() -> Self {
        Self(SortedSet::default())
    }
}

impl<O: OrderKey> OrderedEntries<O> {
    /// Sorts entries that are in order of name. `rank` is the key before the name.
    pub(super) fn of<'e, R: Ord>(entries: impl Iterator<Item = &'e Arc<Entry>>, rank: impl Fn(&'e Entry) -> R) -> Self {
        let mut all: Vec<_> = entries.map(|entry| (rank(entry), entry)).collect();
        // The sort is stable, so entries of equal rank keep their order.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let set = Self(all.into_iter().map(|(_, entry)| OrderedEntry::<O>(Arc::clone(entry), PhantomData)).collect());
        debug_assert!(set.0.iter().is_sorted(), "entries that do not come by name");
        set
    }

    pub(super) fn get(&self, key: O::Key<'_>) -> Option<&Arc<Entry>> {
        self.0.get(&SoughtPosition::<O>(key)).map(|found| &found.0)
    }

    pub(super) fn put(&mut self, entry: &Arc<Entry>) {
        self.0.insert(OrderedEntry(Arc::clone(entry), PhantomData));
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.0.remove(&SoughtPosition::<O>(O::key(entry)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.iter().map(|found| &found.0)
    }

    /// Iterates over the entries after a position.
    pub(super) fn behind(&self, key: O::Key<'_>) -> impl Iterator<Item = &Arc<Entry>> + use<'_, O> {
        self.0.behind(&SoughtPosition::<O>(key)).map(|found| &found.0)
    }
}

impl OrderedEntries<Id> {
    pub(super) fn of_id(&self, id: &EndpointId) -> Option<&Arc<Entry>> {
        self.get((id.packed(),))
    }
}

impl OrderedEntries<Owned> {
    /// Iterates over an owner's entries after a slug, by slug.
    pub(super) fn of_owner<'a>(&'a self, owner: &'a Owner, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.behind((owner.share(), after)).take_while(move |entry| *entry.owner == *owner)
    }
}
