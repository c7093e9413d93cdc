//! Search by words: an inverted index of short texts, ranked by BM25 over stems.
//!
//! An [`Index`] is a value. Its clone shares everything with it and stays as it is when the original changes, so that
//! readers take no lock and a change costs the texts it is about, not the number of texts.
//!
//! Work is bounded: a [`Query`] has so many words, each stands for so many stems, and a search reads
//! [`MAX_POSTINGS`] places at most, those of the rarest stems first.

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
mod words;

use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc};

use rpds::{RedBlackTreeMapSync, StackSync, VectorSync};

pub use self::words::Query;
use self::words::Stemmer;

/// Places that one search reads, at most. One stem that stands in every text of a full catalogue is within it.
const MAX_POSTINGS: usize = 200_000;

/// Words of a text that are indexed: those behind them are not found.
const MAX_WORDS: usize = 500;

/// How soon a word that is repeated says no more (BM25's k1).
const SATURATION: f32 = 1.2;
/// How much a word of a long text says less than one of a short text (BM25's b).
const LENGTH: f32 = 0.5;

/// What a place of each field weighs.
const SLUG: f32 = 1.5;
const TITLE: f32 = 2.0;
const TAG: f32 = 1.5;
const DESCRIPTION: f32 = 1.0;

/// The fields of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// What it is called by.
    pub slug: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Its tags.
    pub tags: &'a [String],
    /// What it says of itself.
    pub description: &'a str,
}

/// Texts, and the items they tell of, by key.
#[derive(Clone)]
pub struct Index<T> {
    /// Where each stem stands.
    stems: RedBlackTreeMapSync<Arc<str>, Arc<Vec<Posting>>>,
    entries: VectorSync<Option<Entry<T>>>,
    /// The place of each key in `entries`.
    slots: RedBlackTreeMapSync<Arc<str>, u32>,
    /// Places in `entries` that nothing has.
    free: StackSync<u32>,
    /// Sum of all lengths.
    length: f64,
}

/// A stem in a text.
#[derive(Debug, Clone, Copy)]
struct Posting {
    slot: u32,
    /// The fields' weights, added up over the places where it stands.
    weight: f32,
    /// The text's length, which is here so that a search need not look for it.
    length: f32,
}

/// A text in the index.
#[derive(Clone)]
struct Entry<T> {
    key: Arc<str>,
    /// Its stems, each once.
    stems: Arc<[Arc<str>]>,
    length: f32,
    item: T,
}

/// The best of what a search found.
#[derive(Debug)]
pub struct Found<T> {
    /// Best first; among equals by key.
    pub items: Vec<T>,
    /// All that were found.
    pub total: usize,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self {
            stems: RedBlackTreeMapSync::new_sync(),
            entries: VectorSync::new_sync(),
            slots: RedBlackTreeMapSync::new_sync(),
            free: StackSync::new_sync(),
            length: 0.0,
        }
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("texts", &self.slots.size()).field("stems", &self.stems.size()).finish_non_exhaustive()
    }
}

impl<T: Clone> Index<T> {
    /// Puts a text in, in place of the one that has its key.
    pub fn put(&mut self, key: &str, text: &Text<'_>, item: T) {
        self.remove(key);
        let weighed = weighed(text);
        let length = weighed.values().sum::<f32>();
        let slot = self.take_slot();
        let mut stems = Vec::with_capacity(weighed.len());
        for (stem, weight) in weighed {
            let stem = self.stems.get_key_value(stem.as_str()).map_or_else(|| stem.into(), |(known, _)| Arc::clone(known));
            let posting = Posting { slot, weight, length };
            match self.stems.get_mut(&stem) {
                Some(postings) => Arc::make_mut(postings).push(posting),
                None => self.stems.insert_mut(Arc::clone(&stem), Arc::new(vec![posting])),
            }
            stems.push(stem);
        }
        let key: Arc<str> = key.into();
        self.slots.insert_mut(Arc::clone(&key), slot);
        self.entries.set_mut(slot as usize, Some(Entry { key, stems: stems.into(), length, item }));
        self.length += f64::from(length);
    }

    /// Puts another item in place of the one whose text has this key. False where there is none.
    pub fn replace(&mut self, key: &str, item: &T) -> bool {
        let Some(&slot) = self.slots.get(key) else { return false };
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return false };
        entry.item = item.clone();
        true
    }

    /// Takes a text out.
    pub fn remove(&mut self, key: &str) {
        let Some(&slot) = self.slots.get(key) else { return };
        let Some(Some(entry)) = self.entries.get(slot as usize).cloned() else { return };
        for stem in &*entry.stems {
            let Some(postings) = self.stems.get_mut(stem) else { continue };
            if postings.len() > 1 {
                Arc::make_mut(postings).retain(|posting| posting.slot != slot);
            } else {
                self.stems.remove_mut(stem);
            }
        }
        self.slots.remove_mut(key);
        self.entries.set_mut(slot as usize, None);
        self.free.push_mut(slot);
        self.length -= f64::from(entry.length);
    }

    /// How many texts are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.size()
    }

    /// Whether nothing can be found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The texts with any of the query's words, of those whose item `keep` takes: `limit` of them behind the first `skip`.
    #[must_use]
    pub fn search(&self, query: &Query, skip: usize, limit: usize, keep: impl Fn(&T) -> bool) -> Found<T> {
        let scores = self.scores(query);
        let mut hits = Vec::new();
        for (slot, &score) in scores.iter().enumerate().filter(|(_, score)| **score > 0.0) {
            if let Some(Some(entry)) = self.entries.get(slot)
                && keep(&entry.item)
            {
                hits.push((score, entry));
            }
        }
        let total = hits.len();
        let order = |a: &(f32, &Entry<T>), b: &(f32, &Entry<T>)| better(a.0, b.0).then_with(|| a.1.key.cmp(&b.1.key));
        let end = skip.saturating_add(limit);
        if end < total {
            hits.select_nth_unstable_by(end, order);
            hits.truncate(end);
        }
        hits.sort_unstable_by(order);
        Found { items: hits.into_iter().skip(skip).map(|(_, entry)| entry.item.clone()).collect(), total }
    }

    /// What each text scores, by its place in `entries`.
    fn scores(&self, query: &Query) -> Vec<f32> {
        let mut sought: Vec<_> = query.sought(|stem| self.known(stem), |start| self.beginning(start)).collect();
        sought.sort_by_key(|(postings, _)| postings.len());
        let mut scores = vec![0.0; self.entries.len()];
        let mean = (self.length / self.len().max(1) as f64) as f32;
        let mut left = MAX_POSTINGS;
        for (postings, weight) in sought {
            let Some(rest) = left.checked_sub(postings.len()) else { break };
            left = rest;
            let weight = weight * self.rarity(postings.len()) * (SATURATION + 1.0);
            for posting in postings {
                let norm = SATURATION * (1.0 - LENGTH + LENGTH * posting.length / mean);
                scores[posting.slot as usize] += weight * posting.weight / (posting.weight + norm);
            }
        }
        scores
    }

    /// What finding a stem says that stands in so many texts (BM25's idf).
    fn rarity(&self, texts: usize) -> f32 {
        let (all, texts) = (self.len() as f32, texts as f32);
        (1.0 + (all - texts + 0.5) / (texts + 0.5)).ln()
    }

    fn known(&self, stem: &str) -> Option<&[Posting]> {
        self.stems.get(stem).map(|postings| postings.as_slice())
    }

    /// The stems that begin so, in their order.
    fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a [Posting]> {
        let from = (std::ops::Bound::Included(start), std::ops::Bound::Unbounded);
        let stems = self.stems.range::<str, _>(from).take_while(move |(stem, _)| stem.starts_with(start));
        stems.map(|(_, postings)| postings.as_slice())
    }

    fn take_slot(&mut self) -> u32 {
        if let Some(&slot) = self.free.peek() {
            self.free.pop_mut();
            return slot;
        }
        self.entries.push_back_mut(None);
        u32::try_from(self.entries.len() - 1).expect("a host has fewer texts than 2^32")
    }
}

fn better(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}

/// The stems of a text, with what the fields that they stand in weigh.
fn weighed(text: &Text<'_>) -> BTreeMap<String, f32> {
    let mut stems = BTreeMap::new();
    let stemmer = Stemmer::default();
    let tags = text.tags.iter().map(|tag| (tag.as_str(), TAG));
    let fields = [(text.slug, SLUG), (text.title, TITLE)].into_iter().chain(tags);
    // Names are written together or apart: `time-zone` is found as `timezone` too.
    for (field, weight) in fields {
        for stem in stemmer.stems(field).chain(stemmer.joined(field)).take(MAX_WORDS) {
            *stems.entry(stem).or_default() += weight;
        }
    }
    for stem in stemmer.stems(text.description).take(MAX_WORDS) {
        *stems.entry(stem).or_default() += DESCRIPTION;
    }
    stems
}
