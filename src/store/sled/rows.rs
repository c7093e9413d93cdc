//! Rows walked out of the tree, some at a time: the log of changes too.

use std::ops::Bound;

use sled::{IVec, Tree};

use super::{away::away, told, values};
use crate::StoreError;

/// Rows walked at once; the next commit waits for them.
const SOME: usize = 100;

/// A walk asks once more for the page that it is at after so many rows.
const AGAIN: usize = 4;

/// The rows of a range of places, in their order or from the end.
///
/// sled lets go of pages only where it was asked sixty-four times for those of one of its 256 parts, and a walk asks once for each page, of 8
/// to 16 rows: 16,384 of them would stay beyond what it may cache. Of those that are asked for again a third at most does.
pub(super) fn range<'t>(
    tree: &'t Tree,
    places: (Bound<Vec<u8>>, Bound<Vec<u8>>),
) -> impl DoubleEndedIterator<Item = sled::Result<(IVec, IVec)>> + use<'t> {
    let mut walked = 0_usize;
    tree.range::<Vec<u8>, _>(places).inspect(move |row| {
        walked += 1;
        if let Ok((place, _)) = row
            && walked.is_multiple_of(AGAIN)
        {
            // What is wrong with it, who reads it next tells.
            _ = tree.contains_key(place);
        }
    })
}

/// Hands some rows to `add`, bytes of about `most`: the number of their space, or what else the tree keeps, the key and the value. Answers
/// where the last of them is.
pub(super) fn walk_some(
    tree: &Tree,
    from: Bound<Vec<u8>>,
    most: usize,
    mut add: impl FnMut(u8, Vec<u8>, Vec<u8>) -> Result<(), StoreError>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let (mut last, mut bytes) = (None, 0);
    for row in range(tree, (from, Bound::Excluded(vec![told::ENTRIES + 1]))).take(SOME) {
        let (place, head) = row.map_err(away)?;
        let Some((space, key)) = place.split_first() else { continue };
        let value = if *space == told::ENTRIES { head.to_vec() } else { values::resolve(tree, *space, key, &head)? };
        bytes += value.len();
        add(*space, key.to_vec(), value)?;
        last = Some(place.to_vec());
        if bytes > most {
            break;
        }
    }
    Ok(last)
}
