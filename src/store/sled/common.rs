//! Helpers shared by opening, building and repairing a store.

use std::{path::Path, sync::Arc};

use sled::Db;

use super::{OpenError, SledConfig, values};
use crate::{
    Space, StoreError,
    journal::{
        ChainLink, CheckpointItem, CheckpointReader, DiskSpace, Frame, FramePart, FrameWalk, JournalDamage, JournalEnd, JournalError,
        SegmentKind, WriterSettings,
    },
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
    let damage =
        || JournalDamage::new(&store.join(SegmentKind::Segment.folder()), format!("frame {} has an unknown format", frame.sequence()));
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
    let found = db.get(values::FORMAT_KEY).map_err(StoreError::away)?;
    Ok(found.map(|found| String::from_utf8_lossy(&found).into_owned()))
}

pub(super) fn writer_settings(store: &Path, config: &SledConfig) -> WriterSettings {
    // Use whole pages: a segment must be as long as its header says.
    let segment_bytes = config.segment_bytes.max(PAGE).next_multiple_of(PAGE);
    WriterSettings { segment_bytes, room: room(store, config), before_sync: Arc::clone(&config.before_sync) }
}

pub(super) fn room(store: &Path, config: &SledConfig) -> DiskSpace {
    DiskSpace { store: store.to_owned(), reserved: config.reserved_bytes, free_bytes: Arc::clone(&config.free_bytes) }
}

pub(super) fn damaged(store: &Path, error: JournalError) -> OpenError {
    match error {
        JournalError::Damaged(damage) => OpenError::Damaged { path: store.to_owned(), damage },
        JournalError::Io { path, source } => OpenError::Io { path, source },
    }
}

pub(super) fn refusal(store: &Path, stopped: ReplayError) -> OpenError {
    match stopped {
        ReplayError::Journal(error) => damaged(store, error),
        ReplayError::Tree(TreeUnusable(reason)) => corrupt(store, reason),
    }
}

pub(super) fn corrupt(store: &Path, detail: String) -> OpenError {
    OpenError::Corrupt { path: store.to_owned(), detail }
}

/// The result of reading a whole checkpoint. Without a checkpoint it is empty.
pub(super) struct CheckpointContents {
    pub(super) base: JournalBase,
    pub(super) rows: usize,
    /// The frame from which the checkpoint is consistent.
    pub(super) holds_from: u64,
}

/// Reads the whole checkpoint.
pub(super) fn check_checkpoint(store: &Path) -> Result<CheckpointContents, JournalError> {
    let mut checkpoint = CheckpointReader::newest(store)?;
    let (base, mut rows) = (base_of(checkpoint.as_ref()), 0);
    while let Some(reading) = &mut checkpoint {
        match reading.next()? {
            CheckpointItem::Rows(some) => rows += some.len(),
            CheckpointItem::End { until, .. } => return Ok(CheckpointContents { base, rows, holds_from: until }),
        }
    }
    Ok(CheckpointContents { base, rows, holds_from: 0 })
}

/// Reads the frames after a checkpoint while `goes_on` returns true. Sets `last` to the number of the last frame read.
pub(super) fn check_frames(
    store: &Path,
    base: JournalBase,
    last: &mut u64,
    goes_on: impl Fn(u64) -> bool,
) -> Result<JournalEnd, JournalError> {
    let mut walk = FrameWalk::start(store, base.sequence, base.link)?;
    while goes_on(*last)
        && let Some(frame) = walk.next()?
    {
        *last = frame.sequence();
    }
    Ok(walk.end())
}

/// Damage that shows only beside the tree.
pub(super) const JOURNAL_IS_SHORT: &str = "the journal ends before frames that were on disk; the tree still contains their rows";

/// Verifies that checkpoint and journal are intact, so that a tree can be built from them.
pub(super) fn check_all(store: &Path) -> Result<(), JournalError> {
    let CheckpointContents { base, holds_from, .. } = check_checkpoint(store)?;
    check_frames(store, base, &mut 0, |_| true)?.reaches(holds_from)
}
