//! Rounds: background sweeps through all of a table, part by part, a limited amount in each turn. A part is the rows
//! whose keys share a prefix, such as those of an owner or a tool.
//!
//! A round finds work that only some parts have and that no index lists. However many parts there are, a turn reads at
//! most [`TURN`] rows of parts in which there is nothing to do. Its position is in the store, so that the next turn
//! continues from there, on whichever host it runs.

use std::{ops::Bound, time::Duration};

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;

use super::{
    Batch, Direction, Durability, Range, Row, Store, StoreError, Table, key::KeyPrefix, postcard_values, schema, table::sound_of,
    value::Value,
};
use crate::Key;

const ROUNDS: Table<String, SweepState> = schema::ROUNDS.holding();

/// Maximum number of rows that a turn reads to find its way.
pub const TURN: usize = 2_000;

/// The stored position of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SweepState {
    /// When the round began, in milliseconds since 1970.
    #[serde(rename = "begun_ms")]
    started_ms: u64,
    /// The stored key that the round has reached, or `None` if it is complete.
    #[serde(rename = "place")]
    position: Option<Vec<u8>>,
}
postcard_values!(SweepState);

/// A turn of a round.
pub struct SweepTurn<'a, K: 'static, V: 'static> {
    store: &'a dyn Store,
    table: &'a Table<K, V>,
    name: String,
    direction: Direction,
    rest: Range<K>,
    /// Number of rows that may still be read.
    remaining: usize,
    is_over: bool,
    before: Option<Row<String, SweepState>>,
    started_ms: u64,
}

/// Returns whether the named round is in progress or due to begin. A round begins once `every` has passed since the
/// last one began.
pub async fn is_due(store: &(impl Store + ?Sized), name: &str, every: Duration, now: Timestamp) -> Result<bool, StoreError> {
    let Some(state) = ROUNDS.get(store, &name.to_owned()).await? else { return Ok(true) };
    let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
    // A clock that was set back does not delay it.
    Ok(state.position.is_some() || now.0 >= state.started_ms.saturating_add(every) || now.0 < state.started_ms)
}

impl<K: Key, V: Value> Table<K, V> {
    /// Starts the next turn of a round through all rows, from the end that `direction` names. It continues where the
    /// last turn ended, or begins a new round.
    pub async fn round<'a>(
        &'a self,
        store: &'a dyn Store,
        name: &str,
        direction: Direction,
        now: Timestamp,
    ) -> Result<SweepTurn<'a, K, V>, StoreError> {
        let name = name.to_owned();
        let before = ROUNDS.row(store, &name).await?;
        let (mut rest, mut started_ms) = (self.all(), now.0);
        if let Some(SweepState { started_ms: started, position: Some(position) }) = before.as_ref().map(|row| &row.value) {
            started_ms = *started;
            match direction {
                Direction::Forward => rest.bounds.start = Bound::Included(position.clone()),
                Direction::Backward => rest.bounds.end = Bound::Excluded(position.clone()),
            }
        }
        Ok(SweepTurn { store, table: self, name, direction, rest, remaining: TURN, is_over: false, before, started_ms })
    }
}

impl<K: Key, V: Value> SweepTurn<'_, K, V> {
    /// Returns whether the round has just begun.
    pub fn begins(&self) -> bool {
        self.before.as_ref().is_none_or(|row| row.value.position.is_none()) && self.remaining == TURN
    }

    /// Returns the key of the next row, which is the first of the next part. Returns `None` if the turn or the round is
    /// over.
    pub async fn next(&mut self) -> Result<Option<K>, StoreError> {
        if self.is_over || self.remaining == 0 {
            return Ok(None);
        }
        self.remaining -= 1;
        let found = self.table.unread(self.store, &self.rest, 1, self.direction).await?;
        self.is_over = found.is_empty();
        found.first().map(|found| self.table.key(found)).transpose()
    }

    /// Returns whether the round is complete, so that the next turn begins a new one.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Skips the rest of the part with this prefix.
    pub fn past(&mut self, part: &impl KeyPrefix<K>) {
        let rest = self.rest.clone();
        self.rest = match self.direction {
            Direction::Forward => rest.behind(part),
            Direction::Backward => rest.before(part),
        };
    }

    /// Returns up to `limit` next rows of a forward round in which each row is a part. Returns `None` if the turn or
    /// the round is over. A malformed row is logged and skipped.
    pub async fn rows(&mut self, limit: usize) -> Result<Option<Vec<Row<K, V>>>, StoreError> {
        debug_assert!(self.direction == Direction::Forward, "rows come forward");
        if self.is_over || self.remaining == 0 {
            return Ok(None);
        }
        let limit = limit.min(self.remaining);
        self.remaining -= limit;
        let page = self.table.next(self.store, &mut self.rest, limit).await?;
        self.is_over = page.as_ref().is_none_or(|page| page.len() < limit);
        Ok(page.map(sound_of))
    }

    /// Ends the turn and stores the position for the next one.
    pub async fn end(self) -> Result<(), StoreError> {
        let position = match (self.direction, &self.rest.bounds.start, &self.rest.bounds.end) {
            _ if self.is_over => None,
            (Direction::Forward, Bound::Included(position), _) | (Direction::Backward, _, Bound::Excluded(position)) => {
                Some(position.clone())
            }
            // The first key after the last one read.
            (Direction::Forward, Bound::Excluded(last), _) => Some([&last[..], &[0]].concat()),
            // Nothing was passed.
            (Direction::Forward | Direction::Backward, _, _) => None,
        };
        let state = SweepState { started_ms: self.started_ms, position };
        let mut batch = Batch::new();
        batch.replace_or_insert(&ROUNDS, self.before.as_ref(), &self.name, &state);
        // A host that was suspended in its turn must not undo the progress of another host.
        batch.commit_if_unchanged(self.store, Durability::Buffered).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
