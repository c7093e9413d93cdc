//! Immutable packed texts: all stems in one string, and their postings as variable-length
//! differences.

use std::{collections::HashMap, sync::Arc};

use super::text::{Slot, Text, length, weighed};

/// A posting: a stem in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) slot: Slot,
    /// Sum of the field weights of all occurrences.
    pub(super) weight: u16,
    /// Length of the text, stored here so that a search need not look it up.
    pub(super) length: u16,
}

/// An immutable set of texts.
pub struct Segment {
    /// The slot of each text, by its number in this segment.
    slots: Box<[Slot]>,
    lengths: Box<[u16]>,
    /// All stems concatenated in order.
    stems: Box<str>,
    /// The end of each stem in `stems`.
    ends: Box<[u32]>,
    /// The end of each stem's postings in `places`.
    place_ends: Box<[u32]>,
    /// For each stem the number of postings. For each posting the difference to the previous text's
    /// number, and the weight.
    positions: Box<[u8]>,
    /// Sum of all lengths.
    length: u64,
}

/// Postings of a stem in one part of an index.
pub(super) enum Postings<'i> {
    /// In the recent texts.
    Recent(&'i [Occurrence]),
    /// In a segment: their number, and their bytes.
    Packed(&'i Segment, usize, &'i [u8]),
}

impl Postings<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Recent(positions) => positions.len(),
            Self::Packed(_, count, _) => *count,
        }
    }

    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = Occurrence> + '_> {
        match self {
            Self::Recent(positions) => Box::new(positions.iter().copied()),
            Self::Packed(segment, _, bytes) => Box::new(numbered(bytes).map(|(number, weight)| segment.place(number, weight))),
        }
    }
}

/// Iterates over the text numbers and weights of packed postings.
fn numbered(mut bytes: &[u8]) -> impl Iterator<Item = (usize, u16)> {
    let mut number = 0;
    std::iter::from_fn(move || {
        number += take(&mut bytes)? as usize;
        Some((number, u16::try_from(take(&mut bytes)?).unwrap_or(u16::MAX)))
    })
}

/// Takes a number from the front of `bytes`: seven bits per byte, lowest first.
fn take(bytes: &mut &[u8]) -> Option<u32> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

fn give(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

impl Segment {
    /// Creates a segment of texts with their slots.
    #[must_use]
    pub fn of<'t>(texts: impl IntoIterator<Item = (Slot, Text<'t>)>) -> Self {
        let mut packed = Packer::default();
        let mut stems = HashMap::<String, Vec<(u32, u16)>>::new();
        for (slot, text) in texts {
            let weighed = weighed(&text);
            let number = packed.text(slot, length(weighed.values()));
            weighed.into_iter().for_each(|(stem, weight)| stems.entry(stem).or_default().push((number, weight)));
        }
        let mut stems: Vec<_> = stems.into_iter().collect();
        stems.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        stems.iter().for_each(|(stem, positions)| packed.stem(stem, positions));
        packed.done()
    }

    /// Returns the number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are no texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the sum of all lengths.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Iterates over slot and length of each text, by number.
    pub(super) fn texts(&self) -> impl Iterator<Item = (Slot, u16)> {
        self.slots.iter().copied().zip(self.lengths.iter().copied())
    }

    /// Iterates over all stems in order, with text numbers and weights.
    pub(super) fn stems(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = (usize, u16)>)> {
        (0..self.ends.len()).map(|number| (self.stem(number), numbered(self.packed(number).1)))
    }

    pub(super) fn find(&self, stem: &str) -> Option<Postings<'_>> {
        let number = self.first_from(stem);
        (number < self.ends.len() && self.stem(number) == stem).then(|| {
            let (count, bytes) = self.packed(number);
            Postings::Packed(self, count, bytes)
        })
    }

    /// Iterates over the stems with a prefix, in order.
    pub(super) fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        (self.first_from(start)..self.ends.len()).map(|number| self.stem(number)).take_while(move |stem| stem.starts_with(start))
    }

    /// Returns the number of the first stem that is not before this one.
    fn first_from(&self, stem: &str) -> usize {
        let (mut from, mut to) = (0, self.ends.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if self.stem(middle) < stem { from = middle + 1 } else { to = middle }
        }
        from
    }

    fn stem(&self, number: usize) -> &str {
        &self.stems[range(&self.ends, number)]
    }

    /// Returns the number of postings of a stem, and their bytes.
    fn packed(&self, number: usize) -> (usize, &[u8]) {
        let mut bytes = &self.positions[range(&self.place_ends, number)];
        (take(&mut bytes).unwrap_or_default() as usize, bytes)
    }

    fn place(&self, number: usize, weight: u16) -> Occurrence {
        Occurrence { slot: self.slots[number], weight, length: self.lengths[number] }
    }
}

fn range(ends: &[u32], number: usize) -> std::ops::Range<usize> {
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    begin as usize..ends[number] as usize
}

/// Builds a segment: first its texts, then their stems in order.
#[derive(Default)]
pub(super) struct Packer {
    slots: Vec<Slot>,
    lengths: Vec<u16>,
    stems: String,
    ends: Vec<u32>,
    place_ends: Vec<u32>,
    positions: Vec<u8>,
}

impl Packer {
    /// Creates a packer with enough capacity for all of these segments.
    pub(super) fn for_all_of(segments: &[Arc<Segment>]) -> Self {
        let sum = |bytes: fn(&Segment) -> usize| segments.iter().map(|segment| bytes(segment)).sum();
        let texts = sum(|segment| segment.slots.len());
        Self {
            slots: Vec::with_capacity(texts),
            lengths: Vec::with_capacity(texts),
            // In a joined segment, differences may need a few more bytes.
            positions: Vec::with_capacity(sum(|segment| segment.positions.len() + segment.ends.len())),
            ..Self::default()
        }
    }

    /// Adds a text, and returns its number.
    pub(super) fn text(&mut self, slot: Slot, length: u16) -> u32 {
        self.slots.push(slot);
        self.lengths.push(length);
        offset(self.slots.len() - 1)
    }

    /// Adds a stem, which must come after all before, with text numbers in order and weights.
    pub(super) fn stem(&mut self, stem: &str, positions: &[(u32, u16)]) {
        self.stems.push_str(stem);
        self.ends.push(offset(self.stems.len()));
        give(&mut self.positions, offset(positions.len()));
        let mut before = 0;
        for (number, weight) in positions {
            give(&mut self.positions, number - before);
            give(&mut self.positions, u32::from(*weight));
            before = *number;
        }
        self.place_ends.push(offset(self.positions.len()));
    }

    pub(super) fn done(self) -> Segment {
        let length = self.lengths.iter().copied().map(u64::from).sum();
        let Self { slots, lengths, stems, ends, place_ends, positions } = self;
        Segment {
            slots: slots.into(),
            lengths: lengths.into(),
            stems: stems.into(),
            ends: ends.into(),
            place_ends: place_ends.into(),
            positions: positions.into(),
            length,
        }
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("the words of a full catalogue are within 4 GiB")
}
