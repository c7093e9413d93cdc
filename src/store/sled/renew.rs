//! Making the tree anew while it is in use, so that it is never much larger than what it holds.
//!
//! sled adds to its file what changes, and cleans later what that leaves behind. It cleans slower than many small writes leave,
//! so a file would grow for as long as they come. Once it is [`TIMES`] as large as its rows, they are copied to a tree in a
//! folder of its own, some at a time as for a checkpoint, and what is committed meanwhile goes to both. When the new one has
//! been counted and is on disk it takes the place of the other, between two commits.

use std::{
    io,
    ops::Bound,
    path::PathBuf,
    sync::{
        PoisonError,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Instant,
};

use sled::{Batch, Db};

use super::{away::away, home, keeper::Kept, tree};
use crate::store::{Space, StoreError};

/// How much larger than its rows a tree gets before it is made anew.
const TIMES: u64 = 4;
/// How much larger than its rows a new one is, at most, about.
const NEW: u64 = 3;
/// What a row takes beside key and value, in bytes, about.
const ROW: u64 = 64;
/// Rows copied at once, and bytes of them, about; the next commit waits for them.
const SOME: usize = 100;
const SOME_BYTES: usize = 256 * 1024;

/// A tree being made. Dropped before it is the store's, nothing of it stays.
struct Next<'a> {
    kept: &'a Kept,
    home: PathBuf,
    tree: Db,
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        self.kept.moment.unfollow();
    }
}

impl Kept {
    /// Makes the tree anew if it is large. What keeps it from that is tried again later.
    pub(super) fn renew_if_due(&self, ended: &AtomicBool) -> Result<(), StoreError> {
        let (before, held) = (self.tree_bytes()?, self.row_bytes());
        // Where rows are so small that a new tree is hardly smaller, it is not made for nothing.
        let renewed = self.renewed.load(Relaxed);
        let large = self.config.tree_bytes.max(held.saturating_mul(TIMES)).max(renewed.saturating_add(renewed / 2));
        if before <= large || tree::is_distrusted(&self.store) {
            return Ok(());
        }
        let begun = Instant::now();
        match self.renew(held, ended) {
            Ok(true) => {
                let after = self.tree_bytes()?;
                self.renewed.store(after, SeqCst);
                let ms = begun.elapsed().as_millis();
                tracing::info!(before, after, held, ms, "the store's tree is made anew, for it was large for what it holds");
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, bytes = before, "the store's tree is large and could not be made anew; it is tried again in a minute");
                return Err(error);
            }
        }
        Ok(())
    }

    fn tree_bytes(&self) -> Result<u64, StoreError> {
        self.moment.tree().size_on_disk().map_err(away)
    }

    /// What the rows take, each with what it takes itself.
    fn row_bytes(&self) -> u64 {
        let totals = self.moment.position.read().unwrap_or_else(PoisonError::into_inner).totals;
        totals.spaces().map(|(_, total)| total.bytes.saturating_add(total.entries.saturating_mul(ROW))).fold(0, u64::saturating_add)
    }

    /// `false` if the store is closed first.
    fn renew(&self, held: u64, ended: &AtomicBool) -> Result<bool, StoreError> {
        let io = |error: io::Error| StoreError::Away(error.to_string());
        // What fills the disk would stop commits.
        self.room.check(held.saturating_mul(NEW)).map_err(io)?;
        let home = home::next(&self.store).map_err(io)?;
        let renewed = self.fill(home.clone(), ended);
        let before = match renewed {
            Ok(Some(before)) => before,
            Ok(None) | Err(_) => {
                home::forget(&home).map_err(io)?;
                return renewed.map(|_| false);
            }
        };
        drop(before);
        home::forget_others(&self.store).map_err(io)?;
        Ok(true)
    }

    /// Makes a tree in `home` and puts it in the place of the other, which it answers; `None` if the store is closed first.
    fn fill(&self, home: PathBuf, ended: &AtomicBool) -> Result<Option<Db>, StoreError> {
        let io = |error: io::Error| StoreError::Away(error.to_string());
        let tree = tree::open_in(&home, &self.config).map_err(|error| StoreError::Away(error.to_string()))?;
        self.moment.follow(tree.clone());
        let next = Next { kept: self, home, tree };
        let mut place = Bound::Unbounded;
        while let Some(last) = next.copy_some(place)? {
            if ended.load(Relaxed) {
                return Ok(None);
            }
            self.room.check(0).map_err(io)?;
            place = Bound::Excluded(last);
            // Whoever waits to write goes first.
            std::thread::yield_now();
        }
        if !next.is_right(ended)? {
            return Ok(None);
        }
        next.tree.flush().map_err(away)?;
        home::name_whole(&next.home).map_err(io)?;
        self.moment.replace().map(Some).ok_or_else(left_behind)
    }
}

impl Next<'_> {
    /// Copies some rows, the pieces of large ones and what else the tree keeps; answers where the last of them is.
    fn copy_some(&self, from: Bound<Vec<u8>>) -> Result<Option<Vec<u8>>, StoreError> {
        let _still = self.kept.moment.position.read().unwrap_or_else(PoisonError::into_inner);
        let (mut batch, mut last, mut bytes) = (Batch::default(), None, 0);
        for row in self.kept.moment.tree().range::<Vec<u8>, _>((from, Bound::Unbounded)).take(SOME) {
            let (place, value) = row.map_err(away)?;
            bytes += place.len() + value.len();
            batch.insert(place.clone(), value);
            last = Some(place.to_vec());
            if bytes > SOME_BYTES {
                break;
            }
        }
        self.tree.apply_batch(batch).map_err(away)?;
        if self.kept.moment.is_followed() { Ok(last) } else { Err(left_behind()) }
    }

    /// Counts all spaces of it; `false` if the store is closed first.
    fn is_right(&self, ended: &AtomicBool) -> Result<bool, StoreError> {
        for space in Space::ALL {
            match self.kept.moment.recount(&self.tree, space, || ended.load(Relaxed)) {
                None => return Ok(false),
                Some(Ok(true)) => {}
                Some(Ok(false)) => return Err(StoreError::Away(format!("what was copied of {space:?} is not what its total says"))),
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cold]
fn left_behind() -> StoreError {
    StoreError::Away("a commit could not be applied to the new tree".to_owned())
}
