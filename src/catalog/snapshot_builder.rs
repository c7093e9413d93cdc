//! Builds a snapshot of all endpoints at once, in about the time that reading them takes.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::{Arc, RwLock},
};

use tollhouse_tool::Owner;

use super::{
    Entry, Snapshot,
    order::{Compare, Order, OrderedEntries},
    snapshot::CatalogCounts,
    tag_index::TagIndex,
};
use crate::search::Index;

/// Entries for a snapshot, sorted by name.
#[derive(Default)]
pub(super) struct SnapshotBuilder {
    all: Vec<Arc<Entry>>,
    owners: HashMap<Arc<Owner>, usize>,
    requested: HashMap<Arc<String>, usize>,
    tags: HashSet<Arc<str>>,
    prices: HashMap<u64, usize>,
    counts: CatalogCounts,
}

impl SnapshotBuilder {
    pub(super) fn add(&mut self, mut entry: Entry) {
        // Shared values are stored only once.
        entry.owner = intern(&mut self.owners, entry.owner);
        entry.requested = entry.requested.map(|request| intern(&mut self.requested, request));
        for tag in &mut entry.tags {
            match self.tags.get(tag) {
                Some(known) => *tag = Arc::clone(known),
                None => _ = self.tags.insert(Arc::clone(tag)),
            }
        }
        entry.words = u32::try_from(self.all.len()).expect("a host has fewer endpoints than 2^32");
        self.counts.add(&entry);
        if entry.listed() {
            *self.prices.entry(entry.max_usd.0).or_default() += 1;
        }
        self.all.push(Arc::new(entry));
    }

    /// Returns the snapshot without search words, which [`Snapshot::add_words`] adds.
    pub(super) fn build(self) -> Snapshot {
        let Self { all, owners, requested: request, tags: _, prices, counts } = self;
        let mut by_share: Vec<_> = owners.keys().map(|owner| owner.share()).collect();
        by_share.sort_unstable();
        let shares: HashMap<&str, usize> = by_share.into_iter().enumerate().map(|(rank, share)| (share, rank)).collect();
        let listed = || all.iter().filter(|entry| entry.listed());
        let by_price: Compare = |one, other| one.max_usd.cmp(&other.max_usd).then_with(|| one.slug.cmp(&other.slug));
        let newest: Compare = |one, other| other.created_at.cmp(&one.created_at).then_with(|| one.slug.cmp(&other.slug));
        let owned: Compare = |one, other| one.owner.share().cmp(other.owner.share()).then_with(|| one.slug.cmp(&other.slug));
        let by_state: Compare = |one, other| one.state().cmp(&other.state()).then_with(|| one.slug.cmp(&other.slug));
        let by_wait: Compare = |one, other| one.waits_since().cmp(&other.waits_since()).then_with(|| one.slug.cmp(&other.slug));
        let waiting = all.iter().filter(|entry| entry.waits_since().is_some());
        Snapshot {
            all: OrderedEntries::of(|one, other| one.slug.cmp(&other.slug), all.iter(), |_| ()),
            ids: OrderedEntries::of(|one, other| one.id.cmp(&other.id), all.iter(), |entry| entry.id),
            owned: OrderedEntries::of(owned, all.iter(), |entry| shares[entry.owner.share()]),
            others: OrderedEntries::of(by_state, all.iter().filter(|entry| !entry.is_active()), Entry::state),
            waiting: OrderedEntries::of(by_wait, waiting, Entry::waits_since),
            by_price: OrderedEntries::of(by_price, listed(), |entry| Order::Price.rank(entry)),
            newest: OrderedEntries::of(newest, listed(), |entry| Order::Newest.rank(entry)),
            prices: prices.into(),
            tags: TagIndex::of(listed()),
            is_searchable: all.is_empty(),
            counts,
            owners: owners.into(),
            requested: request.into(),
            words: Arc::new(RwLock::new(Index::of(all))),
        }
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        SnapshotBuilder::default().build()
    }
}

/// Returns the shared copy of a value, and counts its uses.
fn intern<T: Eq + Hash>(known: &mut HashMap<Arc<T>, usize>, value: Arc<T>) -> Arc<T> {
    let value = known.get_key_value(&value).map_or(value, |(known, _)| Arc::clone(known));
    *known.entry(Arc::clone(&value)).or_default() += 1;
    value
}
