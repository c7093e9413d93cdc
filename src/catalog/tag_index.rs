//! Tags of endpoints: counts, and endpoints by tag and name.

use std::{collections::HashMap, sync::Arc};

use imbl::OrdMap;

use super::{Entry, sorted_set::SortedSet};

/// A persistent value: clones are cheap, and a change costs only the tags of one endpoint.
#[derive(Clone, Default)]
pub(super) struct TagIndex {
    /// Number of endpoints by tag.
    counts: OrdMap<Arc<str>, usize>,
    all: SortedSet<TaggedEntry>,
}

/// An entry, and the index of its tag.
#[derive(Clone)]
struct TaggedEntry(Arc<Entry>, u32);

impl TaggedEntry {
    fn key(&self) -> (&str, &str) {
        (&self.0.tags[self.1 as usize], self.0.slug.as_str())
    }
}

impl TagIndex {
    /// Collects the tags of these entries, which must be sorted by name.
    pub(super) fn of<'e>(entries: impl Iterator<Item = &'e Arc<Entry>> + Clone) -> Self {
        let mut counts = HashMap::<&Arc<str>, usize>::new();
        entries.clone().flat_map(|entry| &entry.tags).for_each(|tag| *counts.entry(tag).or_default() += 1);
        // Allocated with the final capacity, because there may be millions.
        let mut kinds: HashMap<_, _> = counts.into_iter().map(|(tag, count)| (tag, Vec::with_capacity(count))).collect();
        for tagged in entries.flat_map(tagged) {
            if let Some(all) = kinds.get_mut(&tagged.0.tags[tagged.1 as usize]) {
                all.push(tagged);
            }
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_unstable_by_key(|(tag, _)| *tag);
        let counts = kinds.iter().map(|(tag, all)| (Arc::clone(*tag), all.len())).collect();
        let all: SortedSet<_> = kinds.into_iter().flat_map(|(_, all)| all).collect();
        debug_assert!(all.iter().is_sorted_by_key(TaggedEntry::key), "entries that do not come by name");
        Self { counts, all }
    }

    /// Returns the stored copy of a tag, so that it is in memory only once.
    pub(super) fn known(&self, tag: &Arc<str>) -> Arc<str> {
        Arc::clone(self.counts.get_key_value(tag).map_or(tag, |(known, _)| known))
    }

    pub(super) fn put(&mut self, entry: &Arc<Entry>) {
        for tagged in tagged(entry) {
            increment(&mut self.counts, &entry.tags[tagged.1 as usize]);
            self.all.insert(tagged.clone(), |other| other.key().cmp(&tagged.key()));
        }
    }

    pub(super) fn remove(&mut self, entry: &Arc<Entry>) {
        for tagged in tagged(entry) {
            decrement(&mut self.counts, &entry.tags[tagged.1 as usize]);
            self.all.remove(|other| other.key().cmp(&tagged.key()));
        }
    }

    /// Returns the number of entries with a tag, ignoring case.
    pub(super) fn count(&self, tag: &str) -> usize {
        self.counts.get(tag.to_ascii_lowercase().as_str()).copied().unwrap_or_default()
    }

    /// Iterates over entries with a tag, ignoring case, after a name, by name.
    pub(super) fn having<'a>(&'a self, tag: &str, after: &str) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let tag = tag.to_ascii_lowercase();
        let tagged = self.all.after(|tagged| tagged.key().cmp(&(&tag, after)));
        tagged.take_while(move |tagged| tagged.key().0 == tag).map(|tagged| &tagged.0)
    }
}

fn tagged(entry: &Arc<Entry>) -> impl Iterator<Item = TaggedEntry> + use<> {
    let entry = Arc::clone(entry);
    (0..u32::try_from(entry.tags.len()).unwrap_or(u32::MAX)).map(move |number| TaggedEntry(Arc::clone(&entry), number))
}

pub(super) fn increment<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: &K) {
    *counts.entry(key.clone()).or_default() += 1;
}

pub(super) fn decrement<K: Ord + Clone>(counts: &mut OrdMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => _ = counts.remove(key),
    }
}
