//! Pages and totals of a copy of a store.

use super::{
    journal::{RowWeight, SpaceTotal, SpaceTotals},
    space::Space,
    write::Write,
};

/// A part of a copy of all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPage {
    /// Rows in order of space and key, each once, as it was when the walk reached it.
    Rows(Vec<Write>),
    /// Changes committed since the walk began, in commit order. Applied to the rows, they give a snapshot.
    Changes(Vec<Write>),
    /// The last page: the totals of all rows in the snapshot.
    End(Box<RowSums>),
}

/// Totals by space: the number of rows, their bytes, and a fingerprint that does not depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowSums(SpaceTotals);

impl RowSums {
    pub(super) fn of(totals: SpaceTotals) -> Self {
        Self(totals)
    }

    pub(super) fn add(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.0.change(space as u8, None, Some(RowWeight::of_row(space as u8, key, value)));
    }

    /// Subtracts a row.
    pub(super) fn take(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.0.change(space as u8, Some(RowWeight::of_row(space as u8, key, value)), None);
    }

    /// Returns the spaces in which the totals differ.
    pub fn differing(&self, other: &Self) -> Vec<Space> {
        self.0.differing(&other.0)
    }

    /// Returns the number of rows in all spaces.
    pub fn entries(&self) -> u64 {
        self.0.spaces().map(|(_, total)| total.entries).sum()
    }

    /// Returns the bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        postcard::to_stdvec(&self.0).expect("numbers are plain data, and memory takes them")
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (listed, rest) = postcard::take_from_bytes::<Vec<(u8, SpaceTotal)>>(bytes).ok()?;
        let totals = SpaceTotals::from(listed.clone());
        // Reject a space that this version does not know: its rows would be lost.
        (rest.is_empty() && totals.listed() == listed).then_some(Self(totals))
    }
}
