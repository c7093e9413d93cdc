//! Additions: sums that the writer decides.
//!
//! Whoever reads a sum, checks it and writes another conflicts with everyone who does the same. An addition says only by how
//! much, and within what limit: commits that add to one key never conflict, and are refused by the limit alone.

use super::{error::StoreError, limit::Limit, space::Space, value, write::Write};

/// One addition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    /// Where the sum lies.
    pub space: Space,
    /// Its key.
    pub key: Vec<u8>,
    /// Below zero it takes away.
    pub by: i128,
    /// What the sum must not pass.
    pub limit: Limit,
}

/// Decides `adds` in their order, on what `stored` has and `writes` will have put there; appends the writes that they come
/// to, and answers the sums.
pub(super) fn decide(
    adds: Vec<Add>,
    writes: &mut Vec<Write>,
    stored: impl Fn(Space, &[u8]) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Vec<i128>, StoreError> {
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
