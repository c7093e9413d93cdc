//! The texts that were put in last: in maps, where one is put in and taken out for what its own words cost.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::{
    segment::{Place, Places},
    text::{Slot, Text, length, weighed},
};

/// A value, as the index.
#[derive(Clone, Default)]
pub(super) struct Recent {
    /// Where each stem stands.
    stems: OrdMap<Arc<str>, Arc<Vec<Place>>>,
    texts: OrdMap<Slot, Known>,
    /// Sum of all lengths.
    length: u64,
}

/// A text.
#[derive(Clone)]
struct Known {
    /// Its stems, each once.
    stems: Arc<[Arc<str>]>,
    length: u16,
}

impl Recent {
    /// Puts a text in whose slot is not there.
    pub(super) fn put(&mut self, slot: Slot, text: &Text<'_>) {
        let weighed = weighed(text);
        let length = length(weighed.values());
        let mut stems = Vec::with_capacity(weighed.len());
        for (stem, weight) in weighed {
            let stem = self.stems.get_key_value(stem.as_str()).map_or_else(|| stem.into(), |(known, _)| Arc::clone(known));
            let place = Place { slot, weight, length };
            match self.stems.get_mut(&stem) {
                Some(places) => Arc::make_mut(places).push(place),
                None => _ = self.stems.insert(Arc::clone(&stem), Arc::new(vec![place])),
            }
            stems.push(stem);
        }
        self.texts.insert(slot, Known { stems: stems.into(), length });
        self.length += u64::from(length);
    }

    /// Takes a text out; false where it is not there.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(known) = self.texts.remove(&slot) else { return false };
        for stem in &*known.stems {
            match self.stems.get_mut(stem) {
                Some(places) if places.len() > 1 => Arc::make_mut(places).retain(|place| place.slot != slot),
                _ => _ = self.stems.remove(stem),
            }
        }
        self.length -= u64::from(known.length);
        true
    }

    /// How many texts are in, and how long they are together.
    pub(super) fn size(&self) -> (usize, u64) {
        (self.len(), self.length)
    }

    /// How many texts are in.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether the text of a slot is in.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.texts.contains_key(&slot)
    }

    /// The slots of all texts, in their order.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.texts.keys().copied()
    }

    /// Every stem, in their order, with where it stands.
    pub(super) fn stems(&self) -> impl Iterator<Item = (&str, &[Place])> {
        self.stems.iter().map(|(stem, places)| (&**stem, places.as_slice()))
    }

    /// How long a text is.
    pub(super) fn length_of(&self, slot: Slot) -> u16 {
        self.texts.get(&slot).map_or(0, |known| known.length)
    }

    pub(super) fn find(&self, stem: &str) -> Option<Places<'_>> {
        self.stems.get(stem).map(|places| Places::Recent(places))
    }

    /// The stems that begin so, in their order.
    pub(super) fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let from = (Bound::Included(start), Bound::Unbounded);
        self.stems.range::<_, str>(from).map(|(stem, _)| &**stem).take_while(move |stem| stem.starts_with(start))
    }
}
