//! Recently added texts, in maps. Adding or removing one costs only its own words.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::{
    segment::{Occurrence, Postings},
    text::{Slot, Text, length, weighed},
};

/// An immutable value with cheap clones, like the index.
#[derive(Clone, Default)]
pub(super) struct RecentIndex {
    /// Postings of each stem.
    stems: OrdMap<Arc<str>, Arc<Vec<Occurrence>>>,
    texts: OrdMap<Slot, IndexedText>,
    /// Sum of all lengths.
    length: u64,
}

/// A text.
#[derive(Clone)]
struct IndexedText {
    /// Its stems, without duplicates.
    stems: Arc<[Arc<str>]>,
    length: u16,
}

impl RecentIndex {
    /// Adds a text in an unused slot.
    pub(super) fn put(&mut self, slot: Slot, text: &Text<'_>) {
        let weighed = weighed(text);
        let length = length(weighed.values());
        let mut stems = Vec::with_capacity(weighed.len());
        for (stem, weight) in weighed {
            let stem = self.stems.get_key_value(stem.as_str()).map_or_else(|| stem.into(), |(known, _)| Arc::clone(known));
            let position = Occurrence { slot, weight, length };
            match self.stems.get_mut(&stem) {
                Some(positions) => Arc::make_mut(positions).push(position),
                None => _ = self.stems.insert(Arc::clone(&stem), Arc::new(vec![position])),
            }
            stems.push(stem);
        }
        self.texts.insert(slot, IndexedText { stems: stems.into(), length });
        self.length += u64::from(length);
    }

    /// Removes a text. Returns false if it is not here.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(known) = self.texts.remove(&slot) else { return false };
        for stem in &*known.stems {
            match self.stems.get_mut(stem) {
                Some(positions) if positions.len() > 1 => Arc::make_mut(positions).retain(|position| position.slot != slot),
                _ => _ = self.stems.remove(stem),
            }
        }
        self.length -= u64::from(known.length);
        true
    }

    /// Returns the number of texts, and the sum of their lengths.
    pub(super) fn size(&self) -> (usize, u64) {
        (self.len(), self.length)
    }

    /// Returns the number of texts.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns whether the text of a slot is here.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.texts.contains_key(&slot)
    }

    /// Iterates over the slots of all texts in order.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.texts.keys().copied()
    }

    /// Iterates over all stems in order, with their postings.
    pub(super) fn stems(&self) -> impl Iterator<Item = (&str, &[Occurrence])> {
        self.stems.iter().map(|(stem, positions)| (&**stem, positions.as_slice()))
    }

    /// Returns the length of a text.
    pub(super) fn length_of(&self, slot: Slot) -> u16 {
        self.texts.get(&slot).map_or(0, |known| known.length)
    }

    pub(super) fn find(&self, stem: &str) -> Option<Postings<'_>> {
        self.stems.get(stem).map(|positions| Postings::Recent(positions))
    }

    /// Iterates over the stems with a prefix, in order.
    pub(super) fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let from = (Bound::Included(start), Bound::Unbounded);
        self.stems.range::<_, str>(from).map(|(stem, _)| &**stem).take_while(move |stem| stem.starts_with(start))
    }
}
