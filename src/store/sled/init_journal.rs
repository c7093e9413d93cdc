//! Begins a journal where there is none, for a new store or one of an older version.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use sled::Db;

use super::{
    OpenError, SledConfig,
    common::{JournalBase, base_of, corrupt, damaged, format, writer_settings},
    legacy_values,
    position::TreePosition,
    tree,
    tree_builder::make,
    tree_dir, values,
};
use crate::{
    StoreError,
    journal::{CheckpointReader, JournalDamage, JournalWriter, SegmentKind},
};

/// Begins a journal and builds a tree from it.
pub(super) fn begin(store: &Path, config: &SledConfig, has_checkpoint: bool) -> Result<(Db, TreePosition, JournalWriter), OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    let has_tree = tree::is_there(store);
    if !has_tree && has_checkpoint {
        let missing = JournalDamage::new(&store.join(SegmentKind::Segment.folder()), "the journal is missing, and so is the tree");
        return Err(damaged(store, missing.into()));
    }
    if !has_tree {
        tree_dir::forget(store).map_err(io)?;
    }
    let taken_over = has_tree && take_over(store, config, has_checkpoint)?;
    let checkpoint = CheckpointReader::newest(store).map_err(|error| damaged(store, error))?;
    let JournalBase { sequence, link } = base_of(checkpoint.as_ref());
    drop(JournalWriter::begin(writer_settings(store, config), sequence, link).map_err(io)?);
    if taken_over {
        tree::quarantine(store).map_err(io)?;
    }
    let (db, position, end) = make(store, config)?;
    if taken_over {
        tree::clear_quarantine(store).map_err(io)?;
        tracing::info!("the store is of this version now");
    }
    Ok((db, position, JournalWriter::next_file(writer_settings(store, config), &end).map_err(io)?))
}

/// Copies the tree of an older version into a checkpoint. Returns false if the store is new.
fn take_over(store: &Path, config: &SledConfig, has_checkpoint: bool) -> Result<bool, OpenError> {
    let refused = |error: StoreError| corrupt(store, error.to_string());
    let db = tree::open(store, config)?;
    match format(&db).map_err(refused)? {
        None if db.is_empty() && !has_checkpoint => Ok(false),
        Some(found) if legacy_values::FORMATS.contains(&found.as_str()) => {
            tracing::info!("the store is of an older version, and is taken over; that takes a while where it is large");
            let walked = catch_unwind(AssertUnwindSafe(|| legacy_values::take_over(store, &db)));
            walked.unwrap_or_else(|_| Err(corrupt(store, "its files contradict each other".to_owned())))?;
            Ok(true)
        }
        // The takeover was interrupted before the journal was begun.
        Some(found) if found == values::FORMAT && has_checkpoint && TreePosition::of(&db).map_err(refused)?.is_none() => Ok(true),
        Some(found) if found == values::FORMAT => {
            Err(damaged(store, JournalDamage::new(&store.join(SegmentKind::Segment.folder()), "the journal is missing").into()))
        }
        found => Err(OpenError::Format { path: store.to_owned(), found: found.unwrap_or_else(|| "none".to_owned()) }),
    }
}
