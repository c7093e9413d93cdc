//! Additions, which the writer applies.

use super::harness::*;

const FLOOR: SumLimit = SumLimit::Floor(0);
const NONE: SumLimit = SumLimit::Ceiling(i128::MAX);

fn add(key: &[u8], by: i128, limit: SumLimit) -> Add {
    Add { space: Space::Credits, key: key.to_vec(), by, limit }
}

async fn apply(store: &impl Store, adds: Vec<Add>) -> Result<Vec<i128>, StoreError> {
    store.apply(Batch { adds, ..Batch::default() }, Buffered).await
}

/// Returns the sum under a key of one byte, as tables read it.
async fn sum(store: &impl Store, key: u8) -> i128 {
    const SUMS: Counter<u8> =
        DeclaredTable::new(&TablePlan { name: "SUMS", space: Space::Credits, prefix: "", key: "u8", index_of: "", followed: false })
            .counting();
    SUMS.get(store, &key).await.unwrap()
}

pub async fn additions_start_from_nothing_and_answer_their_sums(store: impl Store) {
    assert_eq!(sum(&store, b'a').await, 0);
    assert_eq!(apply(&store, vec![add(b"a", 5, FLOOR), add(b"b", 0, FLOOR)]).await.unwrap(), [5, 0]);
    assert_eq!(apply(&store, vec![add(b"a", -2, FLOOR)]).await.unwrap(), [3]);
    assert_eq!((sum(&store, b'a').await, sum(&store, b'b').await), (3, 0));
    assert_eq!(all(&store, Space::Credits).await.len(), 2);
}

pub async fn additions_keep_to_their_limits(store: impl Store) {
    apply(&store, vec![add(b"a", 10, NONE)]).await.unwrap();
    let cases = [
        (-11_i128, SumLimit::Floor(0), false),
        (-10, SumLimit::Floor(0), true),
        (10, SumLimit::Ceiling(9), false),
        (10, SumLimit::Ceiling(10), true),
        (-30, SumLimit::Floor(-20), true),
        (-1, SumLimit::Floor(-20), false),
    ];
    for (by, limit, fits) in cases {
        let before = sum(&store, b'a').await;
        let other = Write::put(Space::Logs, b"other", by.to_be_bytes());
        let batch = Batch { writes: vec![other], adds: vec![add(b"b", 1, NONE), add(b"a", by, limit)], ..Batch::default() };
        let others = (all(&store, Space::Logs).await, sum(&store, b'b').await);
        match store.apply(batch, Buffered).await {
            Ok(sums) => assert!(fits && sums[1] == before + by, "{by} {limit:?}"),
            Err(StoreError::Beyond { position: 1, limit: reported, sum: stood }) => {
                assert!(!fits && reported == limit && stood == before, "{by} {limit:?}");
                assert_eq!((all(&store, Space::Logs).await, sum(&store, b'b').await), others, "all of it or nothing");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(sum(&store, b'a').await, if fits { before + by } else { before });
    }
}

pub async fn additions_of_one_batch_are_decided_in_order(store: impl Store) {
    let adds = vec![add(b"a", 3, FLOOR), add(b"a", -3, FLOOR), add(b"a", -1, FLOOR)];
    assert!(matches!(apply(&store, adds).await, Err(StoreError::Beyond { position: 2, sum: 0, .. })));
    assert_eq!(apply(&store, vec![add(b"a", 3, FLOOR), add(b"a", -3, FLOOR), add(b"a", 4, FLOOR)]).await.unwrap(), [3, 0, 4]);
    // Additions are applied after the writes of the batch.
    let batch = Batch { writes: vec![Write::delete(Space::Credits, b"a")], adds: vec![add(b"a", 1, FLOOR)], ..Batch::default() };
    assert_eq!(store.apply(batch, Buffered).await.unwrap(), [1]);
    assert_eq!(sum(&store, b'a').await, 1);
}

pub async fn additions_go_with_their_checks(store: impl Store) {
    let batch = |check| Batch { checks: vec![check], adds: vec![add(b"a", 1, FLOOR)], ..Batch::default() };
    let refused = store.apply(batch(Check::holds(Space::Kv, b"k", b"there")), Durable).await;
    assert!(matches!(refused, Err(StoreError::Conflict)));
    assert_eq!(sum(&store, b'a').await, 0);
    assert_eq!(store.apply(batch(Check::absent(Space::Kv, b"k")), Durable).await.unwrap(), [1]);
}

/// For a balance of 1,000 with many concurrent additions: no more than that is taken, and no caller
/// gets a conflict.
pub async fn concurrent_additions_do_not_conflict_and_stop_at_the_limit(store: impl Store) {
    let store = Arc::new(store);
    apply(&*store, vec![add(b"a", 1_000, NONE)]).await.unwrap();
    let tasks: Vec<_> = (0..64_u64)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut taken = 0;
                for _ in 0..10 {
                    let batch = Batch { adds: vec![add(b"a", -3, FLOOR), add(b"t", 3, NONE)], ..Batch::default() };
                    match store.apply(batch, if task % 2 == 0 { Durable } else { Buffered }).await {
                        Ok(_) => taken += 3,
                        Err(StoreError::Beyond { position: 0, limit: FLOOR, sum: 0..=2 }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                taken
            })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        taken += task.await.unwrap();
    }
    assert_eq!((taken, sum(&*store, b'a').await, sum(&*store, b't').await), (999, 1, 999));
}

pub async fn sums_stop_at_the_limits_of_their_numbers(store: impl Store) {
    apply(&store, vec![add(b"a", i128::MAX, NONE), add(b"b", i128::MIN, NONE)]).await.unwrap();
    for (key, by) in [(b"a", 1), (b"b", -1)] {
        for limit in [NONE, SumLimit::Floor(i128::MIN)] {
            assert!(matches!(apply(&store, vec![add(key, by, limit)]).await, Err(StoreError::Beyond { .. })), "{by} {limit:?}");
        }
    }
    assert_eq!((sum(&store, b'a').await, sum(&store, b'b').await), (i128::MAX, i128::MIN));
}

pub async fn value_that_is_not_a_sum_is_not_added_to(store: impl Store) {
    put(&store, Space::Credits, b"a", b"no sum").await;
    assert!(matches!(apply(&store, vec![add(b"a", 1, FLOOR)]).await, Err(StoreError::Away(_))));
    assert_eq!(store.get(Space::Credits, b"a").await.unwrap(), Some(b"no sum".to_vec()));
}
