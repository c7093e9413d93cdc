//! Values as older versions wrote them: without checksums and without a journal.
//!
//! Such a store is copied into a first checkpoint, from which a tree of the current version is built.

use std::path::Path;

use sled::Tree;

use super::{OpenError, changelog, common::corrupt, sled_error::sled_error, values};
use crate::{
    Space, StoreError,
    journal::{ChainLink, CheckpointWriter, SpaceTotals},
};

/// The layouts that can be taken over.
pub(super) const FORMATS: [&str; 2] = ["1", "2"];

const INLINE: u8 = 0;
const IN_PIECES: u8 = 1;

/// Copies a tree of an older version into the first checkpoint. After that, it is no longer opened as one of that
/// version.
pub(super) fn take_over(store: &Path, tree: &Tree) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    let refused = |error: StoreError| corrupt(store, error.to_string());
    let unavailable = |error| refused(sled_error(error));
    let mut dump = CheckpointWriter::begin(store, 0, ChainLink::default()).map_err(io)?;
    for row in tree.iter() {
        let (position, head) = row.map_err(unavailable)?;
        let Some((space, key)) = position.split_first() else { continue };
        if Space::of_number(*space).is_some() {
            dump.add(*space, key.to_vec(), value(tree, *space, key, &head).map_err(refused)?).map_err(io)?;
        } else if *space == changelog::ENTRIES {
            dump.add(*space, key.to_vec(), head.to_vec()).map_err(io)?;
        }
    }
    let totals: SpaceTotals = dump.totals();
    dump.finish(0, &totals).map_err(io)?;
    tree.insert(values::FORMAT_KEY, values::FORMAT).map_err(unavailable)?;
    tree.flush().map_err(unavailable)?;
    Ok(())
}

fn value(tree: &Tree, space: u8, key: &[u8], head: &[u8]) -> Result<Vec<u8>, StoreError> {
    let damaged = |what: &str| StoreError::Away(format!("a value of {} {what}", crate::journal::name(space, key)));
    let (kind, rest) = head.split_first().ok_or_else(|| damaged("has no head"))?;
    match *kind {
        INLINE => Ok(rest.to_vec()),
        IN_PIECES => {
            let bytes = u32::from_be_bytes(rest.try_into().map_err(|_| damaged("has a head of no known kind"))?) as usize;
            let mut value = Vec::new();
            let mut number = 0;
            while value.len() < bytes {
                let piece =
                    tree.get(values::piece_key(space, key, number)).map_err(sled_error)?.ok_or_else(|| damaged("misses a piece"))?;
                value.extend_from_slice(&piece);
                number += 1;
            }
            if value.len() == bytes { Ok(value) } else { Err(damaged("has another length than its head says")) }
        }
        _ => Err(damaged("has a head of no known kind")),
    }
}
