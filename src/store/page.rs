//! Pages: what a store is copied in, and what all of it comes to.

use serde::{Deserialize, Serialize};

use super::{
    journal::{Total, Totals, Weight, checksum},
    space::Space,
    write::Write,
};

/// A part of a copy of all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// Rows in order of space and key, none twice: each as it was when the walk came by.
    Rows(Vec<Write>),
    /// What commits did since the walk began, in their order: written over the rows it makes them those of one moment.
    Changes(Vec<Write>),
    /// The last page: what all rows come to at that moment.
    End(Box<Sums>),
}

/// What rows come to, by their spaces: how many there are, their bytes, and a print of all of them, in whatever order they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums(Totals);

/// As it lies in a file.
#[derive(Serialize, Deserialize)]
struct Listed(Vec<(u8, Total)>);

impl Sums {
    pub(super) fn of(totals: Totals) -> Self {
        Self(totals)
    }

    /// Counts a row.
    pub(super) fn add(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.count(space, |weight| (None, Some(weight)), key, value);
    }

    /// Counts a row no more.
    pub(super) fn take(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.count(space, |weight| (Some(weight), None), key, value);
    }

    fn count(&mut self, space: Space, change: impl Fn(Weight) -> (Option<Weight>, Option<Weight>), key: &[u8], value: &[u8]) {
        let number = space as u8;
        let (before, after) = change(Weight::of(number, key, value.len(), checksum(number, key, value)));
        if let Some(total) = self.0.of(number) {
            total.change(before, after);
        }
    }

    /// The spaces in which these are not the same.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<Space> {
        self.0.differing(&other.0)
    }

    /// How many rows there are in all spaces.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.0.spaces().map(|(_, total)| total.entries).sum()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        postcard::to_stdvec(&Listed(self.0.listed())).expect("numbers are plain data, and memory takes them")
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (Listed(listed), rest) = postcard::take_from_bytes(bytes).ok()?;
        let mut totals = Totals::default();
        totals.set(&listed);
        // A space that this version does not know would be lost.
        (rest.is_empty() && totals.listed() == listed).then_some(Self(totals))
    }
}
