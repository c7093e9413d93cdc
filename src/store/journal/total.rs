//! Totals: the contents of each space as numbers that are updated with each change and can be recomputed.

use bytes::Buf as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Space;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SpaceTotal {
    pub(crate) entries: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    /// Sum of the rows' fingerprints. It does not depend on their order.
    pub(crate) print: u64,
}

/// A row's contribution to the total of its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowWeight {
    pub(crate) bytes: u64,
    pub(crate) print: u64,
}

impl RowWeight {
    /// Computes the contribution of a row.
    pub(crate) fn of_row(space: u8, key: &[u8], value: &[u8]) -> Self {
        Self::of(space, key, value.len(), checksum(space, key, value))
    }

    /// Computes a row's contribution from the length and checksum of its value, without the value itself.
    pub(crate) fn of(space: u8, key: &[u8], value_bytes: usize, checksum: u32) -> Self {
        let mut hasher = Sha256::new();
        hasher.update([space]);
        hasher.update(checksum.to_be_bytes());
        hasher.update((value_bytes as u64).to_be_bytes());
        hasher.update(key);
        let hash: [u8; 32] = hasher.finalize().into();
        let print = hash.first_chunk().copied().map_or(0, u64::from_be_bytes);
        Self { bytes: (key.len() + value_bytes) as u64, print }
    }
}

/// Returns the checksum that is stored with a row. Every read verifies it, so space and key length are mixed in without
/// an extra step.
pub(crate) fn checksum(space: u8, key: &[u8], value: &[u8]) -> u32 {
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut hasher = crc32fast::Hasher::new_with_initial(length.wrapping_shl(8) | u32::from(space));
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

impl SpaceTotal {
    /// Subtracts the row before the change and adds the row after it, if any.
    pub(crate) fn change(&mut self, before: Option<RowWeight>, after: Option<RowWeight>) {
        if let Some(weight) = before {
            self.entries = self.entries.wrapping_sub(1);
            self.bytes = self.bytes.wrapping_sub(weight.bytes);
            self.print = self.print.wrapping_sub(weight.print);
        }
        if let Some(weight) = after {
            self.entries = self.entries.wrapping_add(1);
            self.bytes = self.bytes.wrapping_add(weight.bytes);
            self.print = self.print.wrapping_add(weight.print);
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for number in [self.entries, self.bytes, self.print] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }

    pub(super) fn read(cut: &mut &[u8]) -> Option<Self> {
        Some(Self { entries: cut.try_get_u64().ok()?, bytes: cut.try_get_u64().ok()?, print: cut.try_get_u64().ok()? })
    }
}

/// The total of every space. They are stored as a list of the non-empty ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u8, SpaceTotal)>", into = "Vec<(u8, SpaceTotal)>")]
pub(crate) struct SpaceTotals([SpaceTotal; Space::ALL.len()]);

impl Default for SpaceTotals {
    fn default() -> Self {
        Self([SpaceTotal::default(); Space::ALL.len()])
    }
}

impl From<Vec<(u8, SpaceTotal)>> for SpaceTotals {
    fn from(listed: Vec<(u8, SpaceTotal)>) -> Self {
        let mut totals = Self::default();
        totals.set(&listed);
        totals
    }
}

impl From<SpaceTotals> for Vec<(u8, SpaceTotal)> {
    fn from(totals: SpaceTotals) -> Self {
        totals.listed()
    }
}

impl SpaceTotals {
    /// Returns the total of a space by its number, or `None` for data without a total, such as the change log.
    pub(crate) fn of(&mut self, space: u8) -> Option<&mut SpaceTotal> {
        self.0.get_mut(usize::from(space))
    }

    /// Counts a change of a row in the total of its space, if that has one.
    pub(crate) fn change(&mut self, space: u8, before: Option<RowWeight>, after: Option<RowWeight>) {
        if let Some(total) = self.of(space) {
            total.change(before, after);
        }
    }

    /// Sets the totals that a frame or a checkpoint states.
    pub(crate) fn set(&mut self, stated: &[(u8, SpaceTotal)]) {
        for (space, total) in stated {
            if let Some(of_it) = self.of(*space) {
                *of_it = *total;
            }
        }
    }

    /// Returns the non-empty totals with their spaces.
    pub(crate) fn listed(&self) -> Vec<(u8, SpaceTotal)> {
        (0..).zip(self.0).filter(|(_, total)| *total != SpaceTotal::default()).collect()
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = (Space, SpaceTotal)> {
        Space::ALL.into_iter().zip(self.0)
    }

    pub(crate) fn differing(&self, other: &Self) -> Vec<Space> {
        Space::ALL.into_iter().filter(|space| self.0[*space as usize] != other.0[*space as usize]).collect()
    }

    /// Returns the bytes of all keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|total| total.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(key: &[u8], value: &[u8]) -> RowWeight {
        RowWeight::of(3, key, value.len(), checksum(3, key, value))
    }

    #[test]
    fn totals_follow_from_changes_in_any_order() {
        let (mut one, mut other) = (SpaceTotal::default(), SpaceTotal::default());
        one.change(None, Some(weight(b"a", b"1")));
        one.change(Some(weight(b"a", b"1")), Some(weight(b"a", b"22")));
        one.change(None, Some(weight(b"b", b"")));
        other.change(None, Some(weight(b"b", b"")));
        other.change(None, Some(weight(b"a", b"22")));
        assert_eq!((one, one.entries, one.bytes), (other, 2, 4));
        other.change(Some(weight(b"b", b"")), None);
        assert_ne!(one, other);
    }

    #[test]
    fn checksums_depend_on_the_length_of_the_key() {
        assert_ne!(checksum(3, b"ab", b"c"), checksum(3, b"a", b"bc"));
        assert_ne!(weight(b"ab", b"c").print, weight(b"a", b"bc").print);
    }
}
