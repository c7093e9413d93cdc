//! Builds a tree from a checkpoint and the journal.

use std::{fs::File, path::Path};

use sled::Db;

use super::{
    OpenError, SledConfig,
    common::{JournalBase, ReplayError, base_of, corrupt, damaged, parts_of, refusal},
    disk,
    position::TreePosition,
    tree, values,
};
use crate::{
    StoreError,
    journal::{CheckpointItem, CheckpointReader, FramePart, FrameWalk, JournalDamage, JournalEnd, SegmentKind, SpaceTotals},
};

/// Builds a tree and syncs it.
pub(super) fn make(store: &Path, config: &SledConfig) -> Result<(Db, TreePosition, JournalEnd), OpenError> {
    let refused = |stopped| refusal(store, stopped);
    let db = tree::open(store, config)?;
    let mut filled = TreeBuilder::with_rows(store, &db).map_err(refused)?;
    let end = filled.add_frames(store, &db, u64::MAX).map_err(refused)?;
    let wrong = filled.position.totals.differing(&filled.found);
    if !wrong.is_empty() {
        let what = format!("the rows of checkpoint and journal do not match their totals: {wrong:?}");
        return Err(damaged(store, JournalDamage::new(&store.join(SegmentKind::Segment.folder()), what).into()));
    }
    // A host that was killed had no time to sync, and the tree is about to record that all its frames are on disk.
    let synced = File::open(&end.segment).and_then(|segment| segment.sync_all());
    synced.map_err(|source| OpenError::Io { path: end.segment.clone(), source })?;
    finish(&db, &mut filled.position).map_err(|error| corrupt(store, error.to_string()))?;
    Ok((db, filled.position, end))
}

/// A tree that is being built.
pub(super) struct TreeBuilder {
    base: JournalBase,
    /// Its position, with the totals that the frames state.
    pub(super) position: TreePosition,
    /// The totals of its actual rows.
    found: SpaceTotals,
    /// The frame from which it is consistent.
    holds_from: u64,
}

impl TreeBuilder {
    /// Starts with the rows of the newest checkpoint.
    pub(super) fn with_rows(store: &Path, db: &Db) -> Result<Self, ReplayError> {
        let mut checkpoint = CheckpointReader::newest(store)?;
        let base = base_of(checkpoint.as_ref());
        let position = TreePosition { sequence: base.sequence, link: base.link, ..TreePosition::default() };
        let mut filled = Self { base, position, found: SpaceTotals::default(), holds_from: 0 };
        while let Some(reading) = &mut checkpoint {
            match reading.next()? {
                CheckpointItem::Rows(rows) => {
                    let mut nowhere = TreePosition::default();
                    let changes = disk::replay(db, [FramePart { rows, ..FramePart::default() }, FramePart::default()], &mut nowhere)?;
                    changes.iter().for_each(|change| change.count(&mut filled.found));
                }
                CheckpointItem::End { until, totals } => {
                    (filled.holds_from, filled.position.totals) = (until, *totals);
                    break;
                }
            }
        }
        Ok(filled)
    }

    /// Adds the frames up to number `until`. Returns where the walk ended.
    pub(super) fn add_frames(&mut self, store: &Path, db: &Db, until: u64) -> Result<JournalEnd, ReplayError> {
        let mut walk = FrameWalk::start(store, self.base.sequence, self.base.link)?;
        while self.position.sequence < until
            && let Some(frame) = walk.next()?
        {
            (self.position.sequence, self.position.link) = (frame.sequence(), frame.link());
            let changes = disk::replay(db, parts_of(store, &frame)?, &mut self.position)?;
            changes.iter().for_each(|change| change.count(&mut self.found));
        }
        let end = walk.end();
        end.reaches(self.holds_from)?;
        Ok(end)
    }
}

/// Marks a tree as complete in the current format, with its whole journal on disk, and syncs it.
pub(super) fn finish(db: &Db, position: &mut TreePosition) -> Result<(), StoreError> {
    position.synced = position.sequence;
    mark(db, position)
}

/// Marks a tree as one of the current format at `position`, and syncs it.
pub(super) fn mark(db: &Db, position: &TreePosition) -> Result<(), StoreError> {
    let mut batch = sled::Batch::default();
    batch.insert(values::FORMAT_KEY, values::FORMAT);
    position.keep(&mut batch)?;
    db.apply_batch(batch).map_err(StoreError::away)?;
    db.flush().map_err(StoreError::away)?;
    Ok(())
}
