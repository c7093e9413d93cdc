//! Additions: sums that the writer decides.
//!
//! Whoever reads a sum, checks it and writes another conflicts with everyone who does the same. An addition says only by how
//! much, and within what limit: commits that add to one key never conflict, and are refused by the limit alone.

use std::fmt;

use super::{Space, StoreError, Write, value};

/// One addition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    /// Where the sum lies.
    pub space: Space,
    /// Its key.
    pub key: Vec<u8>,
    /// Below zero it takes away.
    pub by: i64,
    /// What the sum must not pass.
    pub limit: Limit,
}

/// What a sum must not pass. A key without a sum counts as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// At least this much is left.
    Floor(i64),
    /// At most this much is there.
    Ceiling(i64),
}

impl Limit {
    /// `sum` and `by` together, where they keep to it. Sums end where `i64` does.
    fn add(self, sum: i64, by: i64) -> Option<i64> {
        sum.checked_add(by).filter(|sum| match self {
            Self::Floor(floor) => *sum >= floor,
            Self::Ceiling(ceiling) => *sum <= ceiling,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor(floor) => write!(f, "floor of {floor}"),
            Self::Ceiling(ceiling) => write!(f, "ceiling of {ceiling}"),
        }
    }
}

/// Decides `adds` in their order, on what `stored` has and `writes` will have put there; appends the writes that they come
/// to, and answers the sums.
pub(super) fn decide(
    adds: Vec<Add>,
    writes: &mut Vec<Write>,
    stored: impl Fn(Space, &[u8]) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Vec<i64>, StoreError> {
    let mut sums = Vec::with_capacity(adds.len());
    for (place, Add { space, key, by, limit }) in adds.into_iter().enumerate() {
        let written = writes.iter().rev().find(|write| write.space == space && write.key == key);
        let before = match written {
            Some(write) => write.value.clone(),
            None => stored(space, &key)?,
        };
        let before = before.map_or(Some(0), |bytes| value::sum_of(&bytes)).ok_or_else(|| value::no_sum(&key))?;
        let sum = limit.add(before, by).ok_or(StoreError::Beyond { place, limit, sum: before })?;
        sums.push(sum);
        writes.push(Write { space, key, value: Some(value::sum_bytes(sum)) });
    }
    Ok(sums)
}
