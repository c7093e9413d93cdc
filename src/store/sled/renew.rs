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
    away::away,
    disk,
    footing::parts_of,
    home,
    kept::Kept,
    make::{count, mark},
    position::Position,
    rows::walk_some,
    sink::Sink,
    tree::{self, FLUSH_EVERY_MS},
    values::Change,
};
use crate::{
    StoreError,
    journal::{End, JournalError, Part, Row, Totals, Walk},
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
const LETTING_GO: Duration = Duration::from_secs(5);

/// Renews the tree.
pub(super) fn renew(kept: &Kept, ended: &AtomicBool) -> Result<(), StoreError> {
    let store = &kept.store;
    let before = home::of(store);
    kept.room().check(ROOM * kept.moment.still().totals.bytes()).map_err(refused)?;
    let half = Half { store, home: home::make(store).map_err(refused)? };
    let db = tree::open_in(store, &half.home, &kept.config).map_err(|error| StoreError::Away(error.to_string()))?;
    let mut made = Making { kept, ended, db, at: *kept.moment.still(), found: Totals::default(), end: None };
    made.fill()?;
    made.follow_all()?;
    made.write_out()?;
    let in_force = home::put_in_force(store, &half.home).map_err(refused);
    let replaced = in_force.and_then(|()| made.take_over()).inspect_err(|_| {
        // Not essential: the next start would bring the new tree up to date or rebuild it.
        if let Err(error) = home::put_in_force(store, &before) {
            tracing::error!(%error, "the next start may take a tree that did not take over");
        }
    })?;
    let_go(replaced);
    if let Err(error) = home::remove(store, &before) {
        tracing::warn!(%error, "a tree that was replaced could not be removed; the next start does");
    }
    Ok(())
}

/// The folder of an unfinished tree. Dropping it removes the folder unless its tree is current.
struct Half<'a> {
    store: &'a Path,
    home: PathBuf,
}

impl Drop for Half<'_> {
    fn drop(&mut self) {
        if home::is_out_of_force(self.store, &self.home) {
            // If removal fails, the next start removes it.
            _ = fs::remove_dir_all(&self.home);
        }
    }
}

/// A tree that is being built.
struct Making<'a> {
    kept: &'a Kept,
    ended: &'a AtomicBool,
    db: Db,
    /// Its position, with the totals that the frames state.
    at: Position,
    /// The totals of its actual rows.
    found: Totals,
    /// How far frames have been followed.
    end: Option<End>,
}

impl Making<'_> {
    /// Fills it with the rows of the current tree, each as it is when the walk reaches it. Later changes are in the frames since then.
    fn fill(&mut self) -> Result<(), StoreError> {
        let Self { kept, ended, db, found, .. } = self;
        let mut to = Gentle { kept, ended, db, pause: PAUSE, bytes: 0 };
        let mut place = Bound::Unbounded;
        loop {
            let mut rows = Vec::new();
            let add = |space, key, value| {
                rows.push(Row { space, key, value: Some(value) });
                Ok(())
            };
            let last = {
                let _still = kept.moment.still();
                walk_some(&kept.moment.tree(), place, SOME_BYTES, add)?
            };
            let Some(last) = last else { return Ok(()) };
            let part = Part { rows, ..Part::default() };
            count(found, &disk::write(db, [part, Part::default()], &mut Position::default(), &mut to)?);
            place = Bound::Excluded(last);
        }
    }

    /// Follows frames until only few are left.
    fn follow_all(&mut self) -> Result<(), StoreError> {
        let (kept, ended, db) = (self.kept, self.ended, self.db.clone());
        let mut to = Gentle { kept, ended, db: &db, pause: PAUSE, bytes: 0 };
        for round in 0..ROUNDS {
            let written = kept.counts.bytes.load(Relaxed);
            let until = kept.moment.still().sequence;
            self.follow(until, |tree, parts, at| disk::write(tree, parts, at, &mut to))?;
            if self.is_close(written, round) {
                return Ok(());
            }
            to.pause /= 2;
        }
        Err(too_fast())
    }

    /// Syncs it as a tree that a start can bring up to the end of the journal.
    fn write_out(&mut self) -> Result<(), StoreError> {
        self.check()?;
        self.at.synced = self.kept.moment.still().synced;
        sleep(SETTLED);
        mark(&self.db, &self.at)
    }

    /// Brings it up to date and makes it current. Returns the old tree.
    fn take_over(&mut self) -> Result<Arc<Db>, StoreError> {
        for round in 0..ROUNDS {
            let written = self.kept.counts.bytes.load(Relaxed);
            let there = *self.kept.moment.still();
            self.at.synced = there.synced;
            self.follow(there.sequence, disk::replay)?;
            if !self.is_close(written, round) {
                continue;
            }
            let there = self.kept.moment.alone();
            // Check again, for frames written since then or about to be applied.
            if !self.is_close(written, round) {
                continue;
            }
            self.at.synced = there.synced;
            self.follow(there.sequence, disk::replay)?;
            self.check()?;
            if self.at != *there {
                return Err(StoreError::Away("the journal does not lead to where the tree is".to_owned()));
            }
            return Ok(self.kept.moment.replace(self.db.clone(), &there));
        }
        Err(too_fast())
    }

    /// Follows the journal up to frame `until`, which has been written.
    fn follow<W>(&mut self, until: u64, mut write: W) -> Result<(), StoreError>
    where
        W: FnMut(&Tree, [Part; 2], &mut Position) -> Result<Vec<Change>, StoreError>,
    {
        if self.at.sequence >= until {
            return Ok(());
        }
        let store = &self.kept.store;
        let wrong = |error: JournalError| StoreError::Away(error.to_string());
        let walk = match self.end.take() {
            Some(end) => Walk::go_on(store, end),
            None => Walk::start(store, self.at.sequence, self.at.link),
        };
        let mut walk = walk.map_err(wrong)?;
        while self.at.sequence < until {
            let part = self.gather(&mut walk, until)?;
            let changes = write(&self.db, [part, Part::default()], &mut self.at)?;
            count(&mut self.found, &changes);
        }
        self.end = Some(walk.end());
        Ok(())
    }

    /// Combines frames up to `until`, or some of them, keeping the last row of each key.
    fn gather(&mut self, walk: &mut Walk, until: u64) -> Result<Part, StoreError> {
        let wrong = |error: JournalError| StoreError::Away(error.to_string());
        let (mut rows, mut told, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
        while self.at.sequence < until && bytes < GATHERED {
            let ends = || StoreError::Away("the journal ends before a frame that was written".to_owned());
            let frame = walk.next().map_err(wrong)?.ok_or_else(ends)?;
            (self.at.sequence, self.at.link) = (frame.sequence(), frame.link());
            for part in parts_of(&self.kept.store, &frame).map_err(wrong)? {
                self.at.totals.set(&part.totals);
                told.extend(part.told);
                for Row { space, key, value } in part.rows {
                    bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                    rows.insert((space, key), value);
                }
            }
        }
        let rows = rows.into_iter().map(|((space, key), value)| Row { space, key, value }).collect();
        Ok(Part { rows, told, ..Part::default() })
    }

    /// Returns whether few bytes of frames have come since `written`.
    fn is_close(&self, written: u64, round: u32) -> bool {
        self.kept.counts.bytes.load(Relaxed).saturating_sub(written) <= CLOSE << round.min(DOUBLED)
    }

    /// Fails if the new tree's rows do not match its totals.
    fn check(&self) -> Result<(), StoreError> {
        let wrong = self.at.totals.differing(&self.found);
        if wrong.is_empty() { Ok(()) } else { Err(StoreError::Away(format!("rows of {wrong:?} are missing or damaged on disk"))) }
    }
}

/// Writes to a tree one row at a time, with pauses in which it can write itself out.
struct Gentle<'a> {
    kept: &'a Kept,
    ended: &'a AtomicBool,
    db: &'a Db,
    pause: Duration,
    bytes: usize,
}

impl Gentle<'_> {
    fn written(&mut self, bytes: usize) -> Result<(), StoreError> {
        self.bytes += bytes;
        if self.bytes < SLICE {
            return Ok(());
        }
        self.bytes = 0;
        if self.ended.load(Relaxed) {
            return Err(StoreError::Away("the store is closed".to_owned()));
        }
        self.kept.room().check(0).map_err(refused)?;
        sleep(self.pause);
        self.db.flush().map(|_| ()).map_err(away)
    }
}

impl Sink for Gentle<'_> {
    fn put(&mut self, place: IVec, value: IVec) -> Result<(), StoreError> {
        let bytes = place.len() + value.len();
        self.db.insert(place, value).map_err(away)?;
        self.written(bytes)
    }

    fn take(&mut self, place: IVec) -> Result<(), StoreError> {
        self.db.remove(&place).map_err(away)?;
        self.written(place.len())
    }
}

/// Closes a replaced tree once nobody reads it. Closing is faster after it has written itself out.
fn let_go(replaced: Arc<Db>) {
    let give_up_at = Instant::now() + LETTING_GO;
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

fn too_fast() -> StoreError {
    StoreError::Away("commits came faster than they could be followed".to_owned())
}
