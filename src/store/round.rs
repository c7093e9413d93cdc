//! Rounds: the way through all of a table, part by part, so much of it at a turn. A part is the rows whose keys share a start: those of an
//! owner, of an endpoint.
//!
//! What is to be found in some parts, and is in no list of its own, is looked for so: however many parts there are, a turn reads no more than
//! [`TURN`] rows of those in which there is nothing to do. The store knows how far a round has come, so that the next turn goes on from there,
//! whichever host it is.

use std::{fmt, ops::Bound, time::Duration};

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;

use super::{
    Batch, Direction, Durability, Range, Row, Store, StoreError, Table, key::StartOf, postcard_values, schema, table::sound_of,
    value::Value,
};
use crate::Key;

const ROUNDS: Table<String, Standing> = schema::ROUNDS.holding();

/// Rows that a turn reads to find its way.
pub const TURN: usize = 2_000;

/// How far a round has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    /// When it began: milliseconds since 1970.
    begun_ms: u64,
    /// The end of what it has come by, as it is stored; `None` where it has come by all.
    place: Option<Vec<u8>>,
}
postcard_values!(Standing);

/// A turn of a round.
pub struct Round<'a, K: 'static, V: 'static> {
    store: &'a dyn Store,
    table: &'a Table<K, V>,
    name: String,
    direction: Direction,
    rest: Range<K>,
    /// Rows that may still be read.
    left: usize,
    is_over: bool,
    before: Option<Row<String, Standing>>,
    begun_ms: u64,
}

/// Whether the round with this name is under way, or is to begin: once so long after the last one began.
///
/// # Errors
///
/// The store's.
pub async fn is_due(store: &(impl Store + ?Sized), name: &str, every: Duration, now: Timestamp) -> Result<bool, StoreError> {
    let Some(standing) = ROUNDS.get(store, &name.to_owned()).await? else { return Ok(true) };
    let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
    // A clock that was put back does not hold it up.
    Ok(standing.place.is_some() || now.0 >= standing.begun_ms.saturating_add(every) || now.0 < standing.begun_ms)
}

impl<K: Key, V: Value> Table<K, V> {
    /// The next turn of a round through all rows, from the end that `direction` names: it goes on where the last turn ended, or begins.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn round<'a>(
        &'a self,
        store: &'a dyn Store,
        name: &str,
        direction: Direction,
        now: Timestamp,
    ) -> Result<Round<'a, K, V>, StoreError> {
        let name = name.to_owned();
        let before = ROUNDS.row(store, &name).await?;
        let (mut rest, mut begun_ms) = (self.all(), now.0);
        if let Some(Standing { begun_ms: begun, place: Some(place) }) = before.as_ref().map(|row| &row.value) {
            begun_ms = *begun;
            match direction {
                Direction::Forward => rest.bounds.start = Bound::Included(place.clone()),
                Direction::Backward => rest.bounds.end = Bound::Excluded(place.clone()),
            }
        }
        Ok(Round { store, table: self, name, direction, rest, left: TURN, is_over: false, before, begun_ms })
    }
}

impl<K: Key, V: Value> Round<'_, K, V> {
    /// Whether the round has just begun.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.before.as_ref().is_none_or(|row| row.value.place.is_none()) && self.left == TURN
    }

    /// The key of the next row, which stands at the edge of the next part; `None` where the turn, or the round, is over.
    ///
    /// # Errors
    ///
    /// The store's; a key that does not read is [`StoreError::Away`].
    pub async fn next(&mut self) -> Result<Option<K>, StoreError> {
        if self.is_over || self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let found = self.table.unread(self.store, &self.rest, 1, self.direction).await?;
        self.is_over = found.is_empty();
        found.first().map(|found| self.table.key(found)).transpose()
    }

    /// Whether it has come by all, so that the next turn begins another round.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Leaves the part that starts so behind.
    pub fn past(&mut self, part: &impl StartOf<K>) {
        let rest = self.rest.clone();
        self.rest = match self.direction {
            Direction::Forward => rest.behind(part),
            Direction::Backward => rest.before(part),
        };
    }

    /// The next rows of a round that goes forward, of which each is a part, at most `limit`; `None` where the turn, or the round, is over. One
    /// that does not read is logged and left out.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn rows(&mut self, limit: usize) -> Result<Option<Vec<Row<K, V>>>, StoreError> {
        debug_assert!(self.direction == Direction::Forward, "rows come forward");
        if self.is_over || self.left == 0 {
            return Ok(None);
        }
        let limit = limit.min(self.left);
        self.left -= limit;
        let page = self.table.next(self.store, &mut self.rest, limit).await?;
        self.is_over = page.as_ref().is_none_or(|page| page.len() < limit);
        Ok(page.map(sound_of))
    }

    /// Ends the turn: the next one goes on from here.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn end(self) -> Result<(), StoreError> {
        let place = match (self.direction, &self.rest.bounds.start, &self.rest.bounds.end) {
            _ if self.is_over => None,
            (Direction::Forward, Bound::Included(place), _) | (Direction::Backward, _, Bound::Excluded(place)) => Some(place.clone()),
            // The first key behind it.
            (Direction::Forward, Bound::Excluded(last), _) => Some([&last[..], &[0]].concat()),
            // Nothing was come by.
            (Direction::Forward | Direction::Backward, _, _) => None,
        };
        let standing = Standing { begun_ms: self.begun_ms, place };
        let mut batch = Batch::new();
        match &self.before {
            Some(row) => batch.replace(&ROUNDS, row, &standing),
            None => batch.insert(&ROUNDS, &self.name, &standing),
        };
        match batch.commit(self.store, Durability::Buffered).await {
            // Who stood still, and goes on with a turn that another has taken, does not put it back.
            Ok(_) | Err(StoreError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<K, V> fmt::Debug for Round<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("name", &self.name).field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
