//! The orders that endpoints are found in: kept with each change, so that a page costs what stands on it.

use std::{cmp::Ordering, marker::PhantomData, sync::Arc};

use equivalent::{Comparable, Equivalent};
use tollhouse_base::id::EndpointId;
use tollhouse_tool::{EndpointState, Owner, Slug};

use super::{Entry, sorted::Sorted};

/// An order that is asked for. Among equals it is that of the names, or of how well they fit the words that are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By the most that a call costs, the least first.
    Price,
    /// By when they were published, the last first.
    Newest,
}

/// Where an endpoint stands in an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// [`Order::rank`].
    pub rank: u64,
    /// Among equals.
    pub slug: Slug,
}

impl Order {
    /// How far from the beginning an endpoint stands.
    #[must_use]
    pub fn rank(self, entry: &Entry) -> u64 {
        match self {
            Self::Price => entry.most_usd.0,
            Self::Newest => u64::MAX - entry.created_at.0,
        }
    }

    /// Where an endpoint stands.
    #[must_use]
    pub fn place(self, entry: &Entry) -> Place {
        Place { rank: self.rank(entry), slug: entry.slug.clone() }
    }
}

/// What entries are put in order by.
pub(super) trait By: 'static {
    /// A place in the order.
    type Key<'k>: Copy;

    /// Where an entry stands.
    fn key(entry: &Entry) -> Self::Key<'_>;

    /// How a place and that of an entry stand.
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
    /// As [`Order::Price`].
    Price(rank: u64, slug: &'k str) of entry: (Order::Price.rank(entry), entry.slug.as_str());
    /// As [`Order::Newest`].
    Newest(rank: u64, slug: &'k str) of entry: (Order::Newest.rank(entry), entry.slug.as_str());
    /// By whose they are, then by name.
    Owned(share: &'k str, slug: &'k str) of entry: (entry.owner.share(), entry.slug.as_str());
    /// By where they stand, then by name.
    Standing(state: EndpointState, slug: &'k str) of entry: (entry.state(), entry.slug.as_str());
    /// By since when an admin has something to decide, then by name.
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

/// A place that is looked for.
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

/// Entries in an order. A clone costs nothing, and a change the same however many there are.
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
    /// Of entries by name, of which `rank` is what the order goes by before the name.
    pub(super) fn of<'e, R: Ord>(entries: impl Iterator<Item = &'e Arc<Entry>>, rank: impl Fn(&'e Entry) -> R) -> Self {
        let mut all: Vec<_> = entries.map(|entry| (rank(entry), entry)).collect();
        // Those of one rank stay as they are.
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

    /// Those behind a place.
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
    /// Those of an owner behind a slug, by slug.
    pub(super) fn of_owner<'a>(&'a self, owner: &'a Owner, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        self.behind((owner.share(), after)).take_while(move |entry| *entry.owner == *owner)
    }
}
