//! Helpers shared by opening, building and repairing a store.

use std::{path::Path, sync::Arc};

use sled::Db;

use super::{OpenError, SledConfig, sled_error::sled_error, values};
use crate::{
    Space, StoreError,
    journal::{ChainLink, CheckpointReader, DiskSpace, Frame, FramePart, JournalDamage, JournalError, SegmentKind, WriterSettings},
};

/// Segment lengths are a multiple of this, in bytes.
const PAGE: u64 = 4 * 1024;

/// A tree larger than this many times the bytes of its rows is rebuilt. sled normally leaves up to five times.
const LOOSE: u64 = 8;

/// The frame that a journal starts after.
#[derive(Debug, Clone, Copy)]
pub(super) struct JournalBase {
    pub(super) sequence: u64,
    pub(super) link: ChainLink,
}

/// The spaces that remain to be verified while the store is open.
#[derive(Debug, Default)]
pub(super) struct RemainingCheck {
    /// Frames up to this number.
    pub(super) until: u64,
    pub(super) spaces: Vec<Space>,
}

/// The fault of a tree, which can be rebuilt.
pub(super) struct TreeUnusable(pub(super) String);

impl From<StoreError> for TreeUnusable {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// Why a tree could not be brought up to the end of the journal.
pub(super) enum ReplayError {
    Journal(JournalError),
    Tree(TreeUnusable),
}

impl From<JournalError> for ReplayError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        Self::Tree(error.into())
    }
}

pub(super) fn parts_of(store: &Path, frame: &Frame) -> Result<[FramePart; 2], JournalError> {
    let damage = || JournalDamage::new(&store.join(SegmentKind::Segment.folder()), format!("frame {} is of no form", frame.sequence()));
    frame.parts().ok_or_else(|| damage().into())
}

pub(super) fn base_of(checkpoint: Option<&CheckpointReader>) -> JournalBase {
    checkpoint
        .map_or(JournalBase { sequence: 0, link: ChainLink::default() }, |found| JournalBase { sequence: found.sequence, link: found.link })
}

/// Returns whether a tree of `bytes` bytes on disk should be rebuilt. `rows` is the size of its rows in bytes.
pub(super) fn is_loose(bytes: u64, rows: u64, config: &SledConfig) -> bool {
    bytes > config.tree_bytes && bytes > LOOSE * rows
}

pub(super) fn format(db: &Db) -> Result<Option<String>, StoreError> {
    let found = db.get(values::FORMAT_KEY).map_err(sled_error)?;
    Ok(found.map(|found| String::from_utf8_lossy(&found).into_owned()))
}

pub(super) fn writer_settings(store: &Path, config: &SledConfig) -> WriterSettings {
    // Use whole pages: a segment must be as long as its header says.
    let segment_bytes = config.segment_bytes.max(PAGE).next_multiple_of(PAGE);
    WriterSettings { segment_bytes, room: room(store, config), before_sync: Arc::clone(&config.before_sync) }
}

pub(super) fn room(store: &Path, config: &SledConfig) -> DiskSpace {
    DiskSpace { store: store.to_owned(), reserved: config.reserved_bytes, ask: Arc::clone(&config.free_bytes) }
}

pub(super) fn damaged(store: &Path, error: JournalError) -> OpenError {
    match error {
        JournalError::Damaged(damage) => OpenError::Damaged { path: store.to_owned(), damage },
        JournalError::Io { path, source } => OpenError::Io { path, source },
    }
}

pub(super) fn corrupt(store: &Path, detail: String) -> OpenError {
    OpenError::Corrupt { path: store.to_owned(), detail }
}
