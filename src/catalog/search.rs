//! Full-text search: an inverted index of short texts, ranked by BM25 over stems.
//!
//! An [`Index`] is an immutable value with cheap clones, which share its contents and are not
//! affected by later changes. So readers need no lock, and the cost of a change depends on the
//! changed texts and not on their number.
//!
//! Recently added texts are in maps ([`recent`]), the others in packed, immutable segments
//! ([`segment`]). A background task turns recent texts into a segment, and joins segments
//! ([`segments`], [`merge`]). Nothing is missing meanwhile.
//!
//! The work is bounded: a [`Query`] has a maximum number of words, each has a maximum number of
//! stems, and a search reads at most [`MAX_POSTINGS`] postings, those of the rarest stems first.

#[cfg(test)]
mod corpus;
mod merge;
mod recent;
mod segment;
mod segments;
mod stemming;
#[cfg(test)]
mod tests;
mod text;

use std::{cmp::Ordering, collections::BTreeSet, fmt, sync::Arc};

use imbl::Vector;

pub use self::{
    merge::{Merge, Merged},
    segment::Segment,
    segments::Segments,
    stemming::Query,
    text::{Slot, Text},
};
use self::{recent::RecentIndex, segment::Postings, stemming::MAX_ENDINGS, text::UNIT};

/// Maximum postings that one search reads. If a stem has more, only its first texts are found.
const MAX_POSTINGS: usize = 200_000;

/// How fast repetitions of a word lose weight (BM25's k1).
const SATURATION: f32 = 1.2;
/// How much less a word counts in a longer text (BM25's b).
const LENGTH: f32 = 0.5;

/// The item that a text belongs to.
pub trait Item: Clone {
    /// Returns the name that breaks ties.
    fn name(&self) -> &str;
}

/// An index of texts with their items.
#[derive(Clone)]
pub struct Index<T> {
    /// Items by slot. `None` if the text was removed.
    items: Vector<Option<T>>,
    recent: RecentIndex,
    segments: Vec<Arc<Segment>>,
    /// Unused slots.
    free: Vector<Slot>,
    /// Slots of removed recent texts, which a running [`Merge`] may still use.
    retired: Vector<Slot>,
    live: usize,
    /// Number of removed texts that are still in segments.
    dead: usize,
}

/// The best matches of a search.
#[derive(Debug)]
pub struct SearchHits<T> {
    /// Matches, best first. Ties break by name.
    pub items: Vec<T>,
    /// Total number of matches.
    pub total: usize,
}

impl<T: Clone> Default for Index<T> {
    fn default() -> Self {
        Self {
            items: Vector::new(),
            recent: RecentIndex::default(),
            segments: Vec::new(),
            free: Vector::new(),
            retired: Vector::new(),
            live: 0,
            dead: 0,
        }
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Index");
        debug.field("texts", &self.live).field("recent", &self.recent.len()).field("segments", &self.segments.len());
        debug.finish_non_exhaustive()
    }
}

impl<T: Item> Index<T> {
    /// Creates an index of items whose words are added later with [`Index::add`]. The slot of each
    /// is its position.
    #[must_use]
    pub fn of(items: Vec<T>) -> Self {
        Self { live: items.len(), items: items.into_iter().map(Some).collect(), ..Self::default() }
    }

    /// Adds a text. `make` creates its item from its slot.
    pub fn put(&mut self, text: &Text<'_>, make: impl FnOnce(Slot) -> T) -> T {
        let slot = self.free.pop_back().unwrap_or_else(|| {
            self.items.push_back(None);
            Slot::try_from(self.items.len() - 1).expect("a host has fewer texts than 2^32")
        });
        let item = make(slot);
        self.items.set(slot as usize, Some(item.clone()));
        self.recent.put(slot, text);
        self.live += 1;
        item
    }

    /// Replaces the item of a slot.
    pub fn replace(&mut self, slot: Slot, item: T) {
        if let Some(there @ Some(_)) = self.items.get_mut(slot as usize) {
            *there = Some(item);
        }
    }

    /// Removes a text.
    pub fn remove(&mut self, slot: Slot) {
        let Some(there) = self.items.get_mut(slot as usize) else { return };
        if there.take().is_none() {
            return;
        }
        self.live -= 1;
        match self.recent.remove(slot) {
            true => self.retired.push_back(slot),
            false => self.dead += 1,
        }
    }

    /// Adds the words of existing items, from [`Segment::of`].
    pub fn add(&mut self, segments: Segments) {
        self.segments.extend(segments.into_inner());
    }

    /// Returns the item of a slot.
    #[must_use]
    pub fn item(&self, slot: Slot) -> Option<&T> {
        self.items.get(slot as usize)?.as_ref()
    }

    /// Returns the number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Returns whether there are no texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns texts with any of the query's words, whose items pass `keep`: `limit` of them after
    /// the first `skip`.
    #[must_use]
    pub fn search(&self, query: &Query, skip: usize, limit: usize, keep: impl Fn(&T) -> bool) -> SearchHits<T> {
        let scores = self.scores(query);
        let mut hits = Vec::new();
        for (&score, item) in scores.iter().zip(&self.items).filter(|(score, _)| **score > 0.0) {
            if let Some(item) = item
                && keep(item)
            {
                hits.push((score, item));
            }
        }
        let total = hits.len();
        let order = |a: &(f32, &T), b: &(f32, &T)| better(a.0, b.0).then_with(|| a.1.name().cmp(b.1.name()));
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
        let mut target: Vec<_> = query.stems(|stem| self.known(stem), |start| self.beginning(start)).collect();
        target.sort_by_key(|(positions, _)| texts(positions));
        let mut scores = vec![0.0; self.items.len()];
        let (mut all, mut length) = self.recent.size();
        for segment in &self.segments {
            (all, length) = (all + segment.len(), length + segment.length());
        }
        let mean = length as f32 / all.max(1) as f32;
        let mut remaining = MAX_POSTINGS;
        for (positions, weight) in target {
            let weight = weight * rarity(all, texts(&positions)) * (SATURATION + 1.0);
            for position in positions.iter().flat_map(Postings::iter).take(remaining) {
                let norm = SATURATION * (1.0 - LENGTH + LENGTH * f32::from(position.length) / mean);
                let here = f32::from(position.weight) * UNIT;
                scores[position.slot as usize] += weight * here / (here + norm);
            }
            remaining = remaining.saturating_sub(texts(&positions));
        }
        scores
    }

    /// Returns the postings of a stem, or `None` if there are none.
    fn known(&self, stem: &str) -> Option<Vec<Postings<'_>>> {
        let segments = self.segments.iter().filter_map(|segment| segment.find(stem));
        let positions: Vec<_> = self.recent.find(stem).into_iter().chain(segments).collect();
        (!positions.is_empty()).then_some(positions)
    }

    /// Returns the postings of the first stems with this prefix, in order.
    fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = Vec<Postings<'a>>> {
        let mut stems: BTreeSet<&str> = self.recent.beginning(start).take(MAX_ENDINGS).collect();
        stems.extend(self.segments.iter().flat_map(|segment| segment.beginning(start).take(MAX_ENDINGS)));
        stems.into_iter().take(MAX_ENDINGS).filter_map(|stem| self.known(stem))
    }
}

/// Returns the number of texts with a stem.
fn texts(positions: &[Postings<'_>]) -> usize {
    positions.iter().map(Postings::len).sum()
}

/// Returns the weight of a stem that is in `texts` of `all` texts (BM25's idf).
fn rarity(all: usize, texts: usize) -> f32 {
    let (all, texts) = (all as f32, texts as f32);
    (1.0 + (all - texts + 0.5) / (texts + 0.5)).ln()
}

fn better(a: f32, b: f32) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}
