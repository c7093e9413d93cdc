//! Rows walked out of the tree, some at a time: the log of changes too.

use std::ops::Bound;

use sled::Tree;

use super::{away::away, told, values};
use crate::store::StoreError;

/// Rows walked at once; the next commit waits for them.
const SOME: usize = 100;

/// Hands some rows to `add`, bytes of about `most`: the number of their space, or what else the tree keeps, the key and the value. Answers
/// where the last of them is.
pub(super) fn walk_some(
    tree: &Tree,
    from: Bound<Vec<u8>>,
    most: usize,
    mut add: impl FnMut(u8, Vec<u8>, Vec<u8>) -> Result<(), StoreError>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let (mut last, mut bytes) = (None, 0);
    for row in tree.range::<Vec<u8>, _>((from, Bound::Excluded(vec![told::ENTRIES + 1]))).take(SOME) {
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
