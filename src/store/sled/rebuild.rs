//! Renewal: replaces a tree that is much larger than its rows by a new one, while the host runs.
//!
//! The new tree is filled with rows read from the current tree while others write to it. Then frames of the journal bring it up to date,
//! as at a start. It takes over between two commits: only writers and readers of more than one key wait, and only for the last frames.
//! Until then nothing depends on it, so that an error ends the renewal and nothing else.
//!
//! While sled applies a batch or waits for a flush, it blocks all its trees in the process. So the new tree is filled by single writes,
//! and is flushed only after it has had time to write itself out.

use std::{
    collections::BTreeMap,
    fs, io,
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
    common::parts_of,
    disk,
    position::TreePosition,
    rows::walk_some,
    sink::Sink,
    sled_error::sled_error,
    tree::{self, FLUSH_EVERY_MS},
    tree_builder::{count, mark},
    tree_dir,
    values::KeyChange,
};
use crate::{
    StoreError,
    journal::{FramePart, FrameWalk, JournalEnd, JournalError, RowPart, SpaceTotals},
};

/// Disk space required for a new tree, as a multiple of the bytes of its rows.
const ROOM: u64 = 3;
/// Approximate bytes of rows read at once. The next commit waits for them.
const SOME_BYTES: usize = 64 * 1024;
/// Bytes written to the new tree between two pauses.
const SLICE: usize = 128 * 1024;
/// The pause that lets the new tree write itself out.
const PAUSE: Duration = Duration::from_millis(FLUSH_EVERY_MS + 10);
/// Time in which a tree without new writes writes itself out.
const SETTLED: Duration = Duration::from_millis(3 * FLUSH_EVERY_MS);
/// Bytes of frames that are combined before they are written to the new tree, so that each key is written once.
const GATHERED: usize = 256 * 1024;
/// Approximate bytes of frames that commits may have to wait for when the new tree takes over.
const CLOSE: u64 = 128 * 1024;
/// How often that limit may double if commits are too fast or too long for it.
const DOUBLED: u32 = 6;
/// Maximum number of rounds of following frames before giving up because they come too fast. The pauses halve with each round.
const ROUNDS: u32 = 20;
/// How long readers may keep the replaced tree.
const DROP_THREAD: Duration = Duration::from_secs(5);

/// Renews the tree.
pub(super) fn rebuild(stored: &BackgroundState, ended: &AtomicBool) -> Result<(), StoreError> {
    let store = &stored.store;
    let before = tree_dir::of(store);
    stored.room().check(ROOM * stored.moment.still().totals.bytes()).map_err(refused)?;
    let half = HalfBuiltTree { store, home: tree_dir::make(store).map_err(refused)? };
    let db = tree::open_in(store, &half.home, &stored.config).map_err(|error| StoreError::Away(error.to_string()))?;
    let mut made = TreeBuild { background: stored, ended, db, at: *stored.moment.still(), found: SpaceTotals::default(), end: None };
    made.fill()?;
    made.follow_all()?;
    made.write_out()?;
    let in_force = tree_dir::put_in_force(store, &half.home).map_err(refused);
    let replaced = in_force.and_then(|()| made.take_over()).inspect_err(|_| {
        // Not essential: the next start would bring the new tree up to date or rebuild it.
        if let Err(error) = tree_dir::put_in_force(store, &before) {
            tracing::error!(%error, "the next start may take a tree that did not take over");
        }
    })?;
    drop_tree(replaced);
    if let Err(error) = tree_dir::remove(store, &before) {
        tracing::warn!(%error, "a tree that was replaced could not be removed; the next start does");
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
    /// Its position, with the totals that the frames state.
    at: TreePosition,
    /// The totals of its actual rows.
    found: SpaceTotals,
    /// How far frames have been followed.
    end: Option<JournalEnd>,
}

impl TreeBuild<'_> {
    /// Fills it with the rows of the current tree, each as it is when the walk reaches it. Later changes are in the frames since then.
    fn fill(&mut self) -> Result<(), StoreError> {
        let Self { background: stored, ended, db, found, .. } = self;
        let mut to = ThrottledSink { background: stored, ended, db, pause: PAUSE, bytes: 0 };
        let mut position = Bound::Unbounded;
        loop {
            let mut rows = Vec::new();
            let add = |space, key, value| {
                rows.push(RowPart { space, key, value: Some(value) });
                Ok(())
            };
            let last = {
                let _still = stored.moment.still();
                walk_some(&stored.moment.tree(), position, SOME_BYTES, add)?
            };
            let Some(last) = last else { return Ok(()) };
            let part = FramePart { rows, ..FramePart::default() };
            count(found, &disk::write(db, [part, FramePart::default()], &mut TreePosition::default(), &mut to)?);
            position = Bound::Excluded(last);
        }
    }

    /// Follows frames until only few are left.
    fn follow_all(&mut self) -> Result<(), StoreError> {
        let (stored, ended, db) = (self.background, self.ended, self.db.clone());
        let mut to = ThrottledSink { background: stored, ended, db: &db, pause: PAUSE, bytes: 0 };
        for round in 0..ROUNDS {
            let written = stored.counts.bytes.load(Relaxed);
            let until = stored.moment.still().sequence;
            self.follow(until, |tree, parts, at| disk::write(tree, parts, at, &mut to))?;
            if self.is_caught_up(written, round) {
                return Ok(());
            }
            to.pause /= 2;
        }
        Err(is_outpaced())
    }

    /// Syncs it as a tree that a start can bring up to the end of the journal.
    fn write_out(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.at.synced = self.background.moment.still().synced;
        sleep(SETTLED);
        mark(&self.db, &self.at)
    }

    /// Brings it up to date and makes it current. Returns the old tree.
    fn take_over(&mut self) -> Result<Arc<Db>, StoreError> {
        for round in 0..ROUNDS {
            let written = self.background.counts.bytes.load(Relaxed);
            let there = *self.background.moment.still();
            self.at.synced = there.synced;
            self.follow(there.sequence, disk::replay)?;
            if !self.is_caught_up(written, round) {
                continue;
            }
            let there = self.background.moment.alone();
            // Check again, for frames written since then or about to be applied.
            if !self.is_caught_up(written, round) {
                continue;
            }
            self.at.synced = there.synced;
            self.follow(there.sequence, disk::replay)?;
            self.check()?;
            if self.at != *there {
                return Err(StoreError::Away("the journal does not lead to where the tree is".to_owned()));
            }
            return Ok(self.background.moment.replace(self.db.clone(), &there));
        }
        Err(is_outpaced())
    }

    /// Follows the journal up to frame `until`, which has been written.
    fn follow<W>(&mut self, until: u64, mut write: W) -> Result<(), StoreError>
    where
        W: FnMut(&Tree, [FramePart; 2], &mut TreePosition) -> Result<Vec<KeyChange>, StoreError>,
    {
        if self.at.sequence >= until {
            return Ok(());
        }
        let store = &self.background.store;
        let wrong = |error: JournalError| StoreError::Away(error.to_string());
        let walk = match self.end.take() {
            Some(end) => FrameWalk::next_segment(store, end),
            None => FrameWalk::start(store, self.at.sequence, self.at.link),
        };
        let mut walk = walk.map_err(wrong)?;
        while self.at.sequence < until {
            let part = self.gather(&mut walk, until)?;
            let changes = write(&self.db, [part, FramePart::default()], &mut self.at)?;
            count(&mut self.found, &changes);
        }
        self.end = Some(walk.end());
        Ok(())
    }

    /// Combines frames up to `until`, or some of them, keeping the last row of each key.
    fn gather(&mut self, walk: &mut FrameWalk, until: u64) -> Result<FramePart, StoreError> {
        let wrong = |error: JournalError| StoreError::Away(error.to_string());
        let (mut rows, mut reported, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
        while self.at.sequence < until && bytes < GATHERED {
            let ends = || StoreError::Away("the journal ends before a frame that was written".to_owned());
            let frame = walk.next().map_err(wrong)?.ok_or_else(ends)?;
            (self.at.sequence, self.at.link) = (frame.sequence(), frame.link());
            for part in parts_of(&self.background.store, &frame).map_err(wrong)? {
                self.at.totals.set(&part.totals);
                reported.extend(part.change);
                for RowPart { space, key, value } in part.rows {
                    bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                    rows.insert((space, key), value);
                }
            }
        }
        let rows = rows.into_iter().map(|((space, key), value)| RowPart { space, key, value }).collect();
        Ok(FramePart { rows, change: reported, ..FramePart::default() })
    }

    /// Returns whether few bytes of frames have come since `written`.
    fn is_caught_up(&self, written: u64, round: u32) -> bool {
        self.background.counts.bytes.load(Relaxed).saturating_sub(written) <= CLOSE << round.min(DOUBLED)
    }

    /// Fails if the new tree's rows do not match its totals.
    fn check(&self) -> Result<(), StoreError> {
        let wrong = self.at.totals.differing(&self.found);
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
        self.background.room().check(0).map_err(refused)?;
        sleep(self.pause);
        self.db.flush().map(|_| ()).map_err(sled_error)
    }
}

impl Sink for ThrottledSink<'_> {
    fn put(&mut self, position: IVec, value: IVec) -> Result<(), StoreError> {
        let bytes = position.len() + value.len();
        self.db.insert(position, value).map_err(sled_error)?;
        self.written(bytes)
    }

    fn take(&mut self, position: IVec) -> Result<(), StoreError> {
        self.db.remove(&position).map_err(sled_error)?;
        self.written(position.len())
    }
}

/// Closes a replaced tree once nobody reads it. Closing is faster after it has written itself out.
fn drop_tree(replaced: Arc<Db>) {
    let give_up_at = Instant::now() + DROP_THREAD;
    while Arc::strong_count(&replaced) > 1 && Instant::now() < give_up_at {
        sleep(Duration::from_millis(1));
    }
    sleep(SETTLED);
    drop(replaced);
}

#[expect(clippy::needless_pass_by_value, reason = "fits `map_err`")]
fn refused(error: io::Error) -> StoreError {
    StoreError::Away(error.to_string())
}

fn is_outpaced() -> StoreError {
    StoreError::Away("commits came faster than they could be followed".to_owned())
}
