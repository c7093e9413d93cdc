//! Additions: sums that the commit writer computes.
//!
//! Two commits that read a sum, check it and write a new one conflict. An addition gives only an amount and a limit, so
//! that commits that add to the same key never conflict. Only the limit can reject them.

use super::{
    error::StoreError,
    space::Space,
    value,
    write::{Add, Write},
};

/// Applies `adds` in order to the `stored` sums as changed by `writes`. Appends the resulting writes to `writes` and
/// returns the new sums.
pub(super) fn decide(
    adds: Vec<Add>,
    writes: &mut Vec<Write>,
    stored: impl Fn(Space, &[u8]) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Vec<i128>, StoreError> {
    let mut sums = Vec::with_capacity(adds.len());
    for (position, Add { space, key, by, limit }) in adds.into_iter().enumerate() {
        let written = writes.iter().rev().find(|write| write.space == space && write.key == key);
        let before = match written {
            Some(write) => write.value.clone(),
            None => stored(space, &key)?,
        };
        let before = before.map_or(Some(0), |bytes| value::sum_of(&bytes)).ok_or_else(|| value::not_a_sum(&key))?;
        let sum = limit.add(before, by).ok_or(StoreError::Beyond { position, limit, sum: before })?;
        sums.push(sum);
        writes.push(Write { space, key, value: Some(value::sum_bytes(sum)) });
    }
    Ok(sums)
}
