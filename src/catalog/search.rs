//! Full-text search: an inverted index of short texts, ranked by BM25 over stems.
//!
//! The work is bounded: a [`Query`] has a maximum number of words, each has a maximum number of
//! stems, and a search reads at most [`MAX_POSTINGS`] postings, those of the rarest stems first.

mod postings;
mod stemming;
#[cfg(test)]
mod tests;
mod text;

use std::{collections::BTreeMap, fmt, ops::Bound};

use self::{postings::Postings, stemming::MAX_ENDINGS, text::UNIT};
pub use self::{
    stemming::Query,
    text::{Slot, Text, WeighedText},
};

/// Maximum postings that one search reads. If a stem has more, only its first texts are found.
const MAX_POSTINGS: usize = 200_000;

/// How fast repetitions of a word lose weight (BM25's k1).
const SATURATION: f32 = 1.2;
/// How much less a word counts in a longer text (BM25's b).
const LENGTH: f32 = 0.5;

/// Removed texts that may stay in the index, besides half as many as there are others.
const MIN_REMOVED: usize = 1_024;

/// The item that a text belongs to.
pub trait Item: Clone {
    /// Returns the name that breaks ties.
    fn name(&self) -> &str;
}

/// An index of texts with their items. The postings of removed texts stay until [`Index::compact`].
pub struct Index<T> {
    /// Items by slot. `None` if the text was removed.
    items: Vec<Option<T>>,
    /// Lengths of the texts by slot. 0 if the words were not added yet.
    lengths: Vec<u16>,
    stems: BTreeMap<Box<str>, Postings>,
    /// Slots without postings.
    free: Vec<Slot>,
    /// Number of texts.
    live: usize,
    /// Number of removed texts whose postings may still be here.
    removed: usize,
    /// Sum of the lengths of both.
    length: u64,
}

/// The best matches of a search.
#[derive(Debug)]
pub struct SearchHits<T> {
    /// Matches, best first. Ties break by name.
    pub items: Vec<T>,
    /// Total number of matches.
    pub total: usize,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        let (items, lengths, stems, free) = Default::default();
        Self { items, lengths, stems, free, live: 0, removed: 0, length: 0 }
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("texts", &self.live).field("removed", &self.removed).finish_non_exhaustive()
    }
}

impl<T: Item> Index<T> {
    /// Creates an index of items whose words are added later with [`Index::add_words`]. The slot of
    /// each is its position.
    pub fn of(items: Vec<T>) -> Self {
        Self { live: items.len(), lengths: vec![0; items.len()], items: items.into_iter().map(Some).collect(), ..Self::default() }
    }

    /// Adds a text. `make` creates its item from its slot.
    pub fn put(&mut self, text: &Text<'_>, make: impl FnOnce(Slot) -> T) -> T {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.lengths.push(0);
            Slot::try_from(self.items.len() - 1).expect("a host has fewer texts than 2^32")
        });
        let item = make(slot);
        self.items[slot as usize] = Some(item.clone());
        self.live += 1;
        self.index(slot, WeighedText::of(text));
        item
    }

    /// Adds the words of the item with this name in this slot, unless it has words or is gone.
    pub fn add_words(&mut self, slot: Slot, name: &str, text: WeighedText) {
        if self.lengths[slot as usize] == 0 && self.items[slot as usize].as_ref().is_some_and(|item| item.name() == name) {
            self.index(slot, text);
        }
    }

    fn index(&mut self, slot: Slot, text: WeighedText) {
        self.lengths[slot as usize] = text.length();
        self.length += u64::from(text.length());
        for (stem, weight) in text.stems {
            match self.stems.get_mut(stem.as_str()) {
                Some(postings) => postings.push(slot, weight),
                None => self.stems.entry(stem.into()).or_default().push(slot, weight),
            }
        }
    }

    pub fn replace(&mut self, slot: Slot, item: T) {
        if let Some(there @ Some(_)) = self.items.get_mut(slot as usize) {
            *there = Some(item);
        }
    }

    pub fn remove(&mut self, slot: Slot) {
        if self.items.get_mut(slot as usize).and_then(Option::take).is_some() {
            self.live -= 1;
            self.removed += 1;
        }
    }

    /// Returns whether so many texts were removed that [`Index::compact`] is due.
    pub fn needs_compaction(&self) -> bool {
        self.removed > self.live / 2 + MIN_REMOVED
    }

    /// Drops the postings of removed texts. Takes less than a second for a million texts.
    pub fn compact(&mut self) {
        self.stems.retain(|_, postings| {
            *postings = postings.iter().filter(|(slot, _)| self.items[*slot as usize].is_some()).collect();
            postings.len() > 0
        });
        self.free = (0..).zip(&self.items).filter(|(_, item)| item.is_none()).map(|(slot, _)| slot).collect();
        self.free.iter().for_each(|slot| self.lengths[*slot as usize] = 0);
        self.length = self.lengths.iter().copied().map(u64::from).sum();
        self.removed = 0;
    }

    pub fn len(&self) -> usize {
        self.live
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns texts with any of the query's words, whose items pass `keep`: `limit` of them after
    /// the first `skip`.
    pub fn search(&self, query: &Query, skip: usize, limit: usize, keep: impl Fn(&T) -> bool) -> SearchHits<T> {
        let scored = self.scores(query).into_iter().zip(&self.items).filter(|(score, _)| *score > 0.0);
        let mut hits: Vec<_> = scored.filter_map(|(score, item)| Some((score, item.as_ref().filter(|item| keep(item))?))).collect();
        let total = hits.len();
        let order = |a: &(f32, &T), b: &(f32, &T)| b.0.total_cmp(&a.0).then_with(|| a.1.name().cmp(b.1.name()));
        let end = skip.saturating_add(limit);
        if end < total {
            hits.select_nth_unstable_by(end, order);
            hits.truncate(end);
        }
        hits.sort_unstable_by(order);
        SearchHits { items: hits.into_iter().skip(skip).map(|(_, item)| item.clone()).collect(), total }
    }

    /// Returns the score of each text by slot.
    fn scores(&self, query: &Query) -> Vec<f32> {
        let mut matches: Vec<_> = query.stems(|stem| self.find(stem), |prefix| self.with_prefix(prefix)).collect();
        matches.sort_by_key(|(postings, _)| postings.len());
        let mut scores = vec![0.0; self.items.len()];
        let texts = self.live + self.removed;
        let mean = self.length as f32 / texts.max(1) as f32;
        let mut remaining = MAX_POSTINGS;
        for (postings, weight) in matches {
            let weight = weight * rarity(texts, postings.len()) * (SATURATION + 1.0);
            for (slot, here) in postings.iter().take(remaining) {
                let norm = SATURATION * (1.0 - LENGTH + LENGTH * f32::from(self.lengths[slot as usize]) / mean);
                let here = f32::from(here) * UNIT;
                scores[slot as usize] += weight * here / (here + norm);
            }
            remaining = remaining.saturating_sub(postings.len());
        }
        scores
    }

    /// Returns the postings of the first stems with this prefix, in order.
    fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = &Postings> {
        let from = self.stems.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let postings = from.take_while(move |(stem, _)| stem.starts_with(prefix)).map(|(_, postings)| postings);
        postings.filter(move |postings| self.has_texts(postings)).take(MAX_ENDINGS)
    }

    /// Returns the postings of a stem, if a text still has it.
    fn find(&self, stem: &str) -> Option<&Postings> {
        self.stems.get(stem).filter(|postings| self.has_texts(postings))
    }

    fn has_texts(&self, postings: &Postings) -> bool {
        postings.iter().any(|(slot, _)| self.items[slot as usize].is_some())
    }
}

/// Returns the weight of a stem that is in `some` of `all` texts (BM25's idf).
fn rarity(all: usize, some: usize) -> f32 {
    let (all, some) = (all as f32, some as f32);
    (1.0 + (all - some + 0.5) / (some + 0.5)).ln()
}
