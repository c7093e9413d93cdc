//! Renewal: replaces a tree that is much larger than its rows with a new one, while the host runs.
//!
//! The new tree is filled with rows read from the current tree while others write to it. Then frames of the journal bring it up to date,
//! as at a start. It takes over between two commits: only writers and readers of more than one key wait, and only for the last frames.
//! Until then nothing depends on it, so that an error ends the renewal and nothing else.
//!
//! While sled applies a batch or waits for a flush, it blocks all its trees in the process. So the new tree is filled by single writes,
//! and is flushed only after it has had time to write itself out.

use std::{
    fs,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use sled::{Db, IVec, Tree};

use super::{
    background::BackgroundState,
    disk,
    follower::FrameFollower,
    position::TreePosition,
    sink::Sink,
    tree::{self, FLUSH_EVERY_MS},
    tree_builder::mark,
    tree_dir,
    values::KeyChange,
};
use crate::{
    StoreError,
    journal::{FramePart, RowPart, SpaceTotals},
};

/// Disk space required for a new tree, as a multiple of the bytes of its rows.
const ROOM: u64 = 3;
/// Approximate bytes of rows read at once. The next commit waits for them.
const PAGE_BYTES: usize = 64 * 1024;
/// Bytes written to the new tree between two pauses.
const SLICE: usize = 128 * 1024;
/// The pause that lets the new tree write itself out.
const PAUSE: Duration = Duration::from_millis(FLUSH_EVERY_MS + 10);
/// Time in which a tree without new writes writes itself out.
const SETTLED: Duration = Duration::from_millis(3 * FLUSH_EVERY_MS);
/// Bytes of frames that are combined before they are written to the new tree, so that each key is written once.
const COMBINED_BYTES: usize = 256 * 1024;
/// Approximate bytes of frames that commits may have to wait for when the new tree takes over.
const CLOSE: u64 = 128 * 1024;
/// How often [`CLOSE`] may double if commits are too fast or too large for it.
const DOUBLED: u32 = 6;
/// Maximum number of rounds of following frames before giving up because they come too fast. The pauses halve with each round.
const ROUNDS: u32 = 20;
/// How long readers may keep the replaced tree.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// Renews the tree.
pub(super) fn rebuild(background: &BackgroundState, ended: &AtomicBool) -> Result<(), StoreError> {
    let store = &background.store;
    let before = tree_dir::of(store);
    background.room().check(ROOM * background.handle.still().totals.bytes()).map_err(StoreError::away)?;
    let half = HalfBuiltTree { store, home: tree_dir::make(store).map_err(StoreError::away)? };
    let db = tree::open_in(store, &half.home, &background.config).map_err(StoreError::away)?;
    let frames = FrameFollower::new(store.clone(), *background.handle.still());
    let mut made = TreeBuild { background, ended, db, frames, found: SpaceTotals::default() };
    made.fill()?;
    made.follow_all()?;
    made.write_out()?;
    let in_force = tree_dir::put_in_force(store, &half.home).map_err(StoreError::away);
    let replaced = in_force.and_then(|()| made.take_over()).inspect_err(|_| {
        // Not essential: the next start would bring the new tree up to date or rebuild it.
        if let Err(error) = tree_dir::put_in_force(store, &before) {
            tracing::error!(%error, "the next start may use a new tree that is not in use now");
        }
    })?;
    drop_tree(replaced);
    if let Err(error) = tree_dir::remove(store, &before) {
        tracing::warn!(%error, "a replaced tree could not be removed; the next start removes it");
    }
    Ok(())
}

/// The folder of an unfinished tree. Dropping it removes the folder unless its tree is current.
struct HalfBuiltTree<'a> {
    store: &'a Path,
    home: PathBuf,
}

impl Drop for HalfBuiltTree<'_> {
    fn drop(&mut self) {
        if tree_dir::is_out_of_force(self.store, &self.home) {
            // If removal fails, the next start removes it.
            _ = fs::remove_dir_all(&self.home);
        }
    }
}

/// A tree that is being built.
struct TreeBuild<'a> {
    background: &'a BackgroundState,
    ended: &'a AtomicBool,
    db: Db,
    /// The frames to follow, and its own position.
    frames: FrameFollower,
    /// The totals of its actual rows.
    found: SpaceTotals,
}

impl TreeBuild<'_> {
    /// Fills it with the rows of the current tree, each as it is when the walk reaches it. Later changes are in the frames since then.
    fn fill(&mut self) -> Result<(), StoreError> {
        let Self { background, ended, db, found, .. } = self;
        let mut to = ThrottledSink { background, ended, db, pause: PAUSE, bytes: 0 };
        let mut position = Bound::Unbounded;
        loop {
            let mut rows = Vec::new();
            let add = |space, key, value| {
                rows.push(RowPart { space, key, value: Some(value) });
                Ok(())
            };
            if !background.handle.walk(&mut position, PAGE_BYTES, add)? {
                return Ok(());
            }
            let part = FramePart { rows, ..FramePart::default() };
            let changes = disk::write(db, [part, FramePart::default()], &mut TreePosition::default(), &mut to)?;
            changes.iter().for_each(|change| change.count(found));
        }
    }

    /// Follows frames until only few are left.
    fn follow_all(&mut self) -> Result<(), StoreError> {
        let (background, ended, db) = (self.background, self.ended, self.db.clone());
        let mut to = ThrottledSink { background, ended, db: &db, pause: PAUSE, bytes: 0 };
        for round in 0..ROUNDS {
            let written = background.counts.bytes.load(Relaxed);
            let until = background.handle.still().sequence;
            self.follow(until, |tree, parts, at| disk::write(tree, parts, at, &mut to))?;
            if self.is_caught_up(written, round) {
                return Ok(());
            }
            to.pause /= 2;
        }
        Err(is_outpaced())
    }

    /// Syncs the new tree, so that a start can bring it up to the end of the journal.
    fn write_out(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.frames.at.synced = self.background.handle.still().synced;
        sleep(SETTLED);
        mark(&self.db, &self.frames.at)
    }

    /// Brings the new tree up to date and makes it current. Returns the old tree.
    fn take_over(&mut self) -> Result<Arc<Db>, StoreError> {
        for round in 0..ROUNDS {
            let written = self.background.counts.bytes.load(Relaxed);
            let there = *self.background.handle.still();
            self.frames.at.synced = there.synced;
            self.follow(there.sequence, disk::replay)?;
            if !self.is_caught_up(written, round) {
                continue;
            }
            let there = self.background.handle.alone();
            // Check again, for frames written since then or about to be applied.
            if !self.is_caught_up(written, round) {
                continue;
            }
            self.frames.at.synced = there.synced;
            self.follow(there.sequence, disk::replay)?;
            self.check()?;
            if self.frames.at != *there {
                return Err(StoreError::Away("replaying the journal does not produce the state of the tree".to_owned()));
            }
            return Ok(self.background.handle.replace(self.db.clone(), &there));
        }
        Err(is_outpaced())
    }

    /// Follows the journal up to frame `until`, which has been written.
    fn follow<W>(&mut self, until: u64, mut write: W) -> Result<(), StoreError>
    where
        W: FnMut(&Tree, [FramePart; 2], &mut TreePosition) -> Result<Vec<KeyChange>, StoreError>,
    {
        while let Some(part) = self.frames.next(until, COMBINED_BYTES)? {
            let changes = write(&self.db, [part, FramePart::default()], &mut self.frames.at)?;
            changes.iter().for_each(|change| change.count(&mut self.found));
        }
        Ok(())
    }

    /// Returns whether few bytes of frames have come since `written`.
    fn is_caught_up(&self, written: u64, round: u32) -> bool {
        self.background.counts.bytes.load(Relaxed).saturating_sub(written) <= CLOSE << round.min(DOUBLED)
    }

    /// Fails if the new tree's rows do not match its totals.
    fn check(&self) -> Result<(), StoreError> {
        let wrong = self.frames.at.totals.differing(&self.found);
        if wrong.is_empty() { Ok(()) } else { Err(StoreError::Away(format!("rows of {wrong:?} are missing or damaged on disk"))) }
    }
}

/// Writes to a tree one row at a time, with pauses in which it can write itself out.
struct ThrottledSink<'a> {
    background: &'a BackgroundState,
    ended: &'a AtomicBool,
    db: &'a Db,
    pause: Duration,
    bytes: usize,
}

impl ThrottledSink<'_> {
    fn written(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.bytes += bytes;
        if self.bytes < SLICE {
            return Ok(());
        }
        self.bytes = 0;
        if self.ended.load(Relaxed) {
            return Err(StoreError::Away("the store is closed".to_owned()));
        }
        self.background.room().check(0).map_err(StoreError::away)?;
        sleep(self.pause);
        self.db.flush().map(|_| ()).map_err(StoreError::away)
    }
}

impl Sink for ThrottledSink<'_> {
    fn put(&mut self, position: IVec, value: IVec) -> Result<(), StoreError> {
        let bytes = position.len() + value.len();
        self.db.insert(position, value).map_err(StoreError::away)?;
        self.written(bytes)
    }

    fn take(&mut self, position: IVec) -> Result<(), StoreError> {
        self.db.remove(&position).map_err(StoreError::away)?;
        self.written(position.len())
    }
}

/// Closes a replaced tree once nobody reads it. Closing is faster once the tree has written its changes to disk.
fn drop_tree(replaced: Arc<Db>) {
    let give_up_at = Instant::now() + DROP_TIMEOUT;
    while Arc::strong_count(&replaced) > 1 && Instant::now() < give_up_at {
        sleep(Duration::from_millis(1));
    }
    sleep(SETTLED);
    drop(replaced);
}

fn is_outpaced() -> StoreError {
    StoreError::Away("commits came faster than they could be followed".to_owned())
}
