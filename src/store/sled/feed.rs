//! Feeding: all rows are walked out of the tree while others write to it; what these write meanwhile is read in the journal.
//!
//! A row is as it was when the walk came by. Every frame since the walk began says what is there after it: written over the rows, in
//! their order, frames make of them what the tree held after the last. No checkpoint is made meanwhile, for it would have the journal let
//! go of them.

use std::{collections::BTreeMap, ops::Bound, path::PathBuf, sync::Arc};

use tokio::sync::OwnedMutexGuard;

use super::{footing::parts_of, moment::Moment, position::Position, rows::walk_some};
use crate::{
    Space, StoreError, Sums, Write,
    journal::{End, JournalError, Row, Walk},
};

/// Bytes of rows walked at once, about; the next commit waits for them.
const SOME_BYTES: usize = 256 * 1024;
/// Bytes of frames that go together, each key once.
const GATHERED: usize = 1024 * 1024;

/// A walk, and what follows it.
pub(crate) struct Feed {
    store: PathBuf,
    moment: Arc<Moment>,
    place: Bound<Vec<u8>>,
    /// The last frame that was handed out, with what the spaces hold there.
    at: Position,
    end: Option<End>,
    /// The journal keeps its frames as long as this is held.
    _kept: OwnedMutexGuard<()>,
}

impl Feed {
    pub(super) fn begin(store: PathBuf, moment: Arc<Moment>, kept: OwnedMutexGuard<()>) -> Self {
        let at = *moment.still();
        Self { store, moment, place: Bound::Unbounded, at, end: None, _kept: kept }
    }

    /// The next rows; `None` behind the last.
    pub(crate) fn rows(&mut self) -> Result<Option<Vec<Write>>, StoreError> {
        let mut rows = Vec::new();
        let add = |space, key, value| {
            // The log of changes is of no space, and stays where it is.
            rows.extend(Space::of_number(space).map(|space| Write { space, key, value: Some(value) }));
            Ok(())
        };
        let last = {
            let _still = self.moment.still();
            walk_some(&self.moment.tree(), self.place.clone(), SOME_BYTES, add)?
        };
        let Some(last) = last else { return Ok(None) };
        self.place = Bound::Excluded(last);
        Ok(Some(rows))
    }

    /// The number of the newest frame.
    pub(crate) fn newest(&self) -> u64 {
        self.moment.still().sequence
    }

    /// What the next frames up to this one come to, or some of them; `None` where all are handed out.
    pub(crate) fn changes(&mut self, until: u64) -> Result<Option<Vec<Write>>, StoreError> {
        if self.at.sequence >= until {
            return Ok(None);
        }
        let wrong = |error: JournalError| StoreError::Away(error.to_string());
        let walk = match self.end.take() {
            Some(end) => Walk::go_on(&self.store, end),
            None => Walk::start(&self.store, self.at.sequence, self.at.link),
        };
        let mut walk = walk.map_err(wrong)?;
        let (mut rows, mut bytes) = (BTreeMap::new(), 0);
        while self.at.sequence < until && bytes < GATHERED {
            let ends = || StoreError::Away("the journal ends before a frame that was written".to_owned());
            let frame = walk.next().map_err(wrong)?.ok_or_else(ends)?;
            (self.at.sequence, self.at.link) = (frame.sequence(), frame.link());
            for part in parts_of(&self.store, &frame).map_err(wrong)? {
                self.at.totals.set(&part.totals);
                for Row { space, key, value } in part.rows {
                    bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                    rows.insert((space, key), value);
                }
            }
        }
        self.end = Some(walk.end());
        let write = |((space, key), value)| Some(Write { space: Space::of_number(space)?, key, value });
        Ok(Some(rows.into_iter().filter_map(write).collect()))
    }

    /// What all rows come to after the frames that were handed out.
    pub(crate) fn sums(&self) -> Sums {
        Sums::of(self.at.totals)
    }
}
