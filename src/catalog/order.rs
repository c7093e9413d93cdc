//! Sort orders of endpoints, updated with each change, so that a page costs only its own entries.

use std::{cmp::Ordering, marker::PhantomData, sync::Arc};

use equivalent::{Comparable, Equivalent};
use tollhouse_base::id::EndpointId;
use tollhouse_tool::{EndpointState, Owner, Slug};

use super::{Entry, sorted::Sorted};

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
pub struct Place {
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
            Self::Price => entry.most_usd.0,
            Self::Newest => u64::MAX - entry.created_at.0,
        }
    }

    /// Returns the position of an endpoint.
    #[must_use]
    pub fn place(self, entry: &Entry) -> Place {
        Place { rank: self.rank(entry), slug: entry.slug.clone() }
    }
}

/// A sort order of entries.
pub(super) trait By: 'static {
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

        impl By for $name {
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
struct In<O>(Arc<Entry>, PhantomData<O>);

impl<O> Clone for In<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), PhantomData)
    }
}

impl<O: By> PartialEq for In<O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<O: By> Eq for In<O> {}

impl<O: By> PartialOrd for In<O> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: By> Ord for In<O> {
    fn cmp(&self, other: &Self) -> Ordering {
        O::compare(O::key(&self.0), &other.0)
    }
}

/// A position to search for.
struct At<'k, O: By>(O::Key<'k>);

impl<O: By> Equivalent<In<O>> for At<'_, O> {
    fn equivalent(&self, entry: &In<O>) -> bool {
        O::compare(self.0, &entry.0).is_eq()
    }
}

impl<O: By> Comparable<In<O>> for At<'_, O> {
    fn compare(&self, entry: &In<O>) -> Ordering {
        O::compare(self.0, &entry.0)
    }
}

/// Sorted entries. A clone is cheap, and the cost of a change hardly depends on the number of
/// entries.
pub(super) struct Ordered<O: By>(Sorted<In<O>>);

impl<O: By> Clone for Ordered<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<O: By> Default for Ordered<O> {
    fn default() -> Self {
        Self(Sorted::default())
    }
}

impl<O: By> Ordered<O> {
    /// Sorts entries that are in order of name. `rank` is the key before the name.
    pub(super) fn of<'e, R: Ord>(entries: impl Iterator<Item = &'e Arc<Entry>>, rank: impl Fn(&'e Entry) -> R) -> Self {
        let mut all: Vec<_> = entries.map(|entry| (rank(entry), entry)).collect();
        // The sort is stable, so entries of equal rank keep their order.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let set = Self(all.into_iter().map(|(_, entry)| In::<O>(Arc::clone(entry), PhantomData)).collect());
        debug_assert!(set.0.iter().is_sorted(), "entries that do not come by name");
        set
    }

    pub(super) fn get(&self, key: O::Key<'_>) -> Option<&Arc<Entry>> {
        self.0.get(&At::<O>(key)).map(|found| &found.0)
    }

    pub(super) fn put(&mut self, entry: &Arc<Entry>) {
        self.0.insert(In(Arc::clone(entry), PhantomData));
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.0.remove(&At::<O>(O::key(entry)));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.0.iter().map(|found| &found.0)
    }

    /// Iterates over the entries after a position.
    pub(super) fn behind(&self, key: O::Key<'_>) -> impl Iterator<Item = &Arc<Entry>> + use<'_, O> {
        self.0.behind(&At::<O>(key)).map(|found| &found.0)
    }
}

impl Ordered<Id> {
    pub(super) fn of_id(&self, id: &EndpointId) -> Option<&Arc<Entry>> {
        self.get((id.packed(),))
    }
}

impl Ordered<Owned> {
    /// Iterates over an owner's entries after a slug, by slug.
    pub(super) fn of_owner<'a>(&'a self, owner: &'a Owner, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.behind((owner.share(), after)).take_while(move |entry| *entry.owner == *owner)
    }
}
