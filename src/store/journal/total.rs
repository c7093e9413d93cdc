//! Totals: what each space holds, in numbers that follow from each change and can be counted again.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::cut::Cut;
use crate::Space;

/// What a space holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Total {
    pub(crate) entries: u64,
    /// Of keys and values.
    pub(crate) bytes: u64,
    /// The sum of the rows' prints: the same for the same rows, in whatever order they came.
    pub(crate) print: u64,
}

/// What a row adds to the total of its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) bytes: u64,
    pub(crate) print: u64,
}

impl Weight {
    /// Of a row, by the length of its value and by its checksum: so it is known without the value.
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

/// The checksum that a row keeps. Each read asks for it: space and the key's length come in without a step of their own.
pub(crate) fn checksum(space: u8, key: &[u8], value: &[u8]) -> u32 {
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut hasher = crc32fast::Hasher::new_with_initial(length.wrapping_shl(8) | u32::from(space));
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

impl Total {
    /// Takes a row away, where there was one, and adds one, where there is one.
    pub(crate) fn change(&mut self, before: Option<Weight>, after: Option<Weight>) {
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

    pub(super) fn read(cut: &mut Cut<'_>) -> Option<Self> {
        Some(Self { entries: cut.u64()?, bytes: cut.u64()?, print: cut.u64()? })
    }
}

/// The totals of all spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals([Total; Space::ALL.len()]);

impl Default for Totals {
    fn default() -> Self {
        Self([Total::default(); Space::ALL.len()])
    }
}

impl Totals {
    /// Of a space by its number; what is of none, as the log of changes, has no total.
    pub(crate) fn of(&mut self, space: u8) -> Option<&mut Total> {
        self.0.get_mut(usize::from(space))
    }

    /// Sets what a frame or a checkpoint says.
    pub(crate) fn set(&mut self, said: &[(u8, Total)]) {
        for (space, total) in said {
            if let Some(of_it) = self.of(*space) {
                *of_it = *total;
            }
        }
    }

    /// Each space that holds something.
    pub(crate) fn listed(&self) -> Vec<(u8, Total)> {
        (0..).zip(self.0).filter(|(_, total)| *total != Total::default()).collect()
    }

    /// Each space and its total.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = (Space, Total)> {
        Space::ALL.into_iter().zip(self.0)
    }

    /// The spaces whose totals differ.
    pub(crate) fn differing(&self, other: &Self) -> Vec<Space> {
        Space::ALL.into_iter().filter(|space| self.0[*space as usize] != other.0[*space as usize]).collect()
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|total| total.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(key: &[u8], value: &[u8]) -> Weight {
        Weight::of(3, key, value.len(), checksum(3, key, value))
    }

    #[test]
    fn totals_follow_from_changes_in_any_order() {
        let (mut one, mut other) = (Total::default(), Total::default());
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
    fn where_key_and_value_part_counts() {
        assert_ne!(checksum(3, b"ab", b"c"), checksum(3, b"a", b"bc"));
        assert_ne!(weight(b"ab", b"c").print, weight(b"a", b"bc").print);
    }
}
