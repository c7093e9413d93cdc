//! Rounds: the way through all of a table, part by part, so much of it at a turn. A part is the rows whose keys share a start: those of an
//! owner, of an endpoint.
//!
//! What is to be found in some parts, and is in no list of its own, is looked for so: however many parts there are, a turn reads no more than
//! [`TURN`] rows of those in which there is nothing to do. The store knows how far a round has come, so that the next turn goes on from there,
//! whichever host it is.

use std::{fmt, ops::Bound, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Batch, Direction, Durability, Range, Row, Store, StoreError, Table, key::StartOf, postcard_values, schema, value::Value};
use crate::{base::clock::Timestamp, store::Key};

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

    /// Leaves the part that starts so behind.
    pub fn past(&mut self, part: &impl StartOf<K>) {
        let rest = self.rest.clone();
        self.rest = match self.direction {
            Direction::Forward => rest.behind(part),
            Direction::Backward => rest.before(part),
        };
    }

    /// The next rows, of which each is a part, some hundreds of them; `None` where the turn, or the round, is over.
    ///
    /// # Errors
    ///
    /// As [`Table::page`].
    pub async fn rows(&mut self, limit: usize) -> Result<Option<Vec<Row<K, V>>>, StoreError> {
        if self.is_over || self.left == 0 {
            return Ok(None);
        }
        let limit = limit.min(self.left);
        self.left -= limit;
        let rows = self.table.page(self.store, &self.rest, limit, self.direction).await?;
        self.is_over = rows.len() < limit;
        if let Some(last) = rows.last() {
            self.past(&last.key);
        }
        Ok((!rows.is_empty()).then_some(rows))
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
            // Nothing was come by, or nothing is behind.
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
mod tests {
    use super::*;
    use crate::store::{Ended, around::Reading, memory::MemoryStore};

    /// Two rows of each owner.
    const ROWS: Table<(Ended<String>, String), ()> = schema::RETIRED_OF.holding();
    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    async fn of_owners(count: usize) -> std::sync::Arc<Reading<MemoryStore>> {
        let store = Reading::of(MemoryStore::new());
        for owner in 0..count {
            for row in ["a", "b"] {
                let put = ROWS.put(&(Ended(format!("{owner:06}")), row.to_owned()), &());
                put.commit(&*store, Durability::Buffered).await.unwrap();
            }
        }
        store.rows();
        store
    }

    /// The owners that a turn comes by, each with the row that it meets.
    async fn turn(store: &dyn Store, direction: Direction) -> Vec<(String, String)> {
        let mut round = ROWS.round(store, "test", direction, NOW).await.unwrap();
        let mut met = vec![];
        while let Some((owner, row)) = round.next().await.unwrap() {
            round.past(&owner);
            met.push((owner.0, row));
        }
        round.end().await.unwrap();
        met
    }

    #[tokio::test]
    async fn a_round_comes_by_every_part_once_and_no_turn_reads_more_than_it_may() {
        for (direction, met) in [(Direction::Forward, "a"), (Direction::Backward, "b")] {
            let owners = 2 * TURN + 7;
            let store = of_owners(owners).await;
            let mut all = vec![];
            for expected in [TURN, TURN, 7] {
                assert!(is_due(&*store, "test", HOUR, NOW).await.unwrap());
                store.rows();
                let some = turn(&*store, direction).await;
                assert_eq!(some.len(), expected);
                assert!(store.rows() <= TURN + 1, "and where it stands");
                all.extend(some);
            }
            assert!(all.iter().all(|(_, row)| row == met), "the edge from which it comes");
            if direction == Direction::Backward {
                all.reverse();
            }
            assert_eq!(
                all.into_iter().map(|(owner, _)| owner).collect::<Vec<_>>(),
                (0..owners).map(|n| format!("{n:06}")).collect::<Vec<_>>()
            );
            assert!(!is_due(&*store, "test", HOUR, NOW).await.unwrap(), "it has come by all");
            assert!(is_due(&*store, "test", HOUR, NOW.plus_millis(3_600_000)).await.unwrap());
            assert_eq!(turn(&*store, direction).await.len(), TURN, "the next one begins anew");
        }
    }

    #[tokio::test]
    async fn a_table_of_as_many_parts_as_a_turn_and_one_of_none_are_come_by() {
        for owners in [0, 1, TURN] {
            let store = of_owners(owners).await;
            let met = turn(&*store, Direction::Forward).await.len() + turn(&*store, Direction::Forward).await.len();
            // A turn that ends with the last part does not know yet that it is the last.
            assert_eq!(met, if owners == 1 { 2 } else { owners });
        }
    }

    #[tokio::test]
    async fn rows_that_are_parts_come_in_pages() {
        let store = of_owners(TURN).await;
        let (mut seen, mut turns) = (vec![], 0);
        while turns == 0 || !is_due(&*store, "test", HOUR, NOW).await.unwrap() || seen.len() < 2 * TURN {
            let mut round = ROWS.round(&*store, "test", Direction::Forward, NOW).await.unwrap();
            assert_eq!(round.begins(), turns == 0);
            let mut some = 0;
            while let Some(rows) = round.rows(300).await.unwrap() {
                some += rows.len();
                seen.extend(rows.into_iter().map(|row| row.key));
            }
            assert!(some <= TURN);
            round.end().await.unwrap();
            turns += 1;
        }
        assert_eq!((seen.len(), turns), (2 * TURN, 2));
        assert!(seen.is_sorted() && seen.windows(2).all(|two| two[0] != two[1]));
    }

    #[tokio::test]
    async fn of_two_that_are_at_the_same_turn_one_says_how_far_it_is() {
        let store = of_owners(TURN + 5).await;
        let mut slow = ROWS.round(&*store, "test", Direction::Forward, NOW).await.unwrap();
        let (first, _) = slow.next().await.unwrap().unwrap();
        slow.past(&first);
        assert_eq!(turn(&*store, Direction::Forward).await.len(), TURN);
        slow.end().await.unwrap();
        assert_eq!(turn(&*store, Direction::Forward).await.len(), 5, "it goes on behind the faster one");
    }
}
