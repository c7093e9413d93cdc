//! A round visits everything, and a turn reads no more than its limit.

use super::*;
use crate::{Space, TerminatedText, Write, memory::MemoryStore, test_wrappers::CountingStore};

/// Two rows of each owner.
const ROWS: Table<(TerminatedText<String>, String), ()> = schema::RETIRED_OF.holding();
const NOW: Timestamp = Timestamp(1_800_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

async fn of_owners(count: usize) -> std::sync::Arc<CountingStore<MemoryStore>> {
    let store = CountingStore::of(MemoryStore::new());
    for owner in 0..count {
        for row in ["a", "b"] {
            let put = ROWS.put(&(TerminatedText(format!("{owner:06}")), row.to_owned()), &());
            put.commit(&*store, Durability::Buffered).await.unwrap();
        }
    }
    store.rows();
    store
}

/// Returns the owners that a turn visits, each with the row that it reads.
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
async fn a_round_visits_every_part_once_and_turns_are_limited() {
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
        assert_eq!(all.into_iter().map(|(owner, _)| owner).collect::<Vec<_>>(), (0..owners).map(|n| format!("{n:06}")).collect::<Vec<_>>());
        assert!(!is_due(&*store, "test", HOUR, NOW).await.unwrap(), "it has come by all");
        assert!(is_due(&*store, "test", HOUR, NOW.plus_millis(3_600_000)).await.unwrap());
        assert_eq!(turn(&*store, direction).await.len(), TURN, "the next round starts from the beginning");
    }
}

#[tokio::test]
async fn a_full_turn_and_an_empty_table_end_a_round() {
    for owners in [0, 1, TURN] {
        let store = of_owners(owners).await;
        let met = turn(&*store, Direction::Forward).await.len() + turn(&*store, Direction::Forward).await.len();
        // A turn that ends with the last part does not yet know that it is the last.
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
async fn malformed_rows_are_skipped() {
    let store = of_owners(TURN / 2).await;
    // The last part of the first turn.
    let of_last = format!("retired-slugs/{:06}\0", TURN / 2 - 1).into_bytes();
    let [good, bad] = [b'b', 0xff].map(|last| [&of_last[..], &[last]].concat());
    let writes = vec![Write::delete(Space::Meta, good), Write::put(Space::Meta, bad, b"")];
    store.apply(Batch::of(vec![], writes), Durability::Buffered).await.unwrap();
    let count = async || {
        let (mut round, mut seen) = (ROWS.round(&*store, "test", Direction::Forward, NOW).await.unwrap(), 0);
        while let Some(rows) = round.rows(300).await.unwrap() {
            seen += rows.len();
        }
        round.end().await.unwrap();
        seen
    };
    assert_eq!((count().await, count().await), (TURN - 1, 0));
}

#[tokio::test]
async fn one_of_two_concurrent_turns_stores_its_position() {
    let store = of_owners(TURN + 5).await;
    let mut slow = ROWS.round(&*store, "test", Direction::Forward, NOW).await.unwrap();
    let (first, _) = slow.next().await.unwrap().unwrap();
    slow.past(&first);
    assert_eq!(turn(&*store, Direction::Forward).await.len(), TURN);
    slow.end().await.unwrap();
    assert_eq!(turn(&*store, Direction::Forward).await.len(), 5, "it goes on behind the faster one");
}
