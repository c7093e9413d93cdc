//! Reads rows from the tree, some at a time, including the change log.

use std::ops::Bound;

use sled::{IVec, Tree};

use super::{changelog, values};
use crate::StoreError;

/// Number of rows read at once. The next commit waits for them.
const PAGE_ROWS: usize = 100;

/// A walk looks up its current page again after this many rows.
const AGAIN: usize = 4;

/// Returns the rows in a range of tree keys, from either end.
///
/// sled evicts cached pages only when one of its 256 cache shards has been accessed sixty-four times, and a walk
/// accesses each page of 8 to 16 rows once. Up to 16,384 pages could stay beyond the cache limit. Looking pages up
/// again reduces that to a third at most.
pub(super) fn range<'t>(
    tree: &'t Tree,
    positions: (Bound<Vec<u8>>, Bound<Vec<u8>>),
) -> impl DoubleEndedIterator<Item = sled::Result<(IVec, IVec)>> + use<'t> {
    let mut walked = 0_usize;
    tree.range::<Vec<u8>, _>(positions).inspect(move |row| {
        walked += 1;
        if let Ok((position, _)) = row
            && walked.is_multiple_of(AGAIN)
        {
            // If the row is damaged, the next reader will report it.
            _ = tree.contains_key(position);
        }
    })
}

/// Passes about `max` bytes of rows, from `position` on, to `add`. Its arguments are the number of the space or of
/// other data in the tree, the key, and the value. Moves `position` after these rows. Returns whether there were any.
pub(super) fn walk_some(
    tree: &Tree,
    position: &mut Bound<Vec<u8>>,
    max: usize,
    mut add: impl FnMut(u8, Vec<u8>, Vec<u8>) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let (mut last, mut bytes) = (None, 0);
    for row in range(tree, (position.clone(), Bound::Excluded(vec![changelog::ENTRIES + 1]))).take(PAGE_ROWS) {
        let (at, head) = row.map_err(StoreError::away)?;
        let Some((space, key)) = at.split_first() else { continue };
        let value = if *space == changelog::ENTRIES { head.to_vec() } else { values::resolve(tree, *space, key, &head)? };
        bytes += value.len();
        add(*space, key.to_vec(), value)?;
        last = Some(at);
        if bytes > max {
            break;
        }
    }
    let Some(last) = last else { return Ok(false) };
    *position = Bound::Excluded(last.to_vec());
    Ok(true)
}
