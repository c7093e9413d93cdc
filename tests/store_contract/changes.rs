//! The log of changes.

use super::harness::*;

fn told(number: u64, keys: &[&str]) -> Change {
    Change { number, keys: keys.iter().map(|key| (Space::Builders, key.as_bytes().to_vec())).collect() }
}

/// Returns a commit that writes these keys and announces them in the log of changes.
pub fn telling(keys: &[&str]) -> Batch {
    let writes = keys.iter().map(|key| Write::put(Space::Builders, *key, b"")).collect();
    Batch { writes, told: told(0, keys).keys, ..Batch::default() }
}

pub async fn changes_tell_each_commit_once_and_whole(store: impl Store) {
    let nothing = store.changes(0, 10).await.unwrap();
    assert!(nothing.changes.is_empty() && nothing.newest == 0 && !nothing.gone);
    store.apply(telling(&["a", "b"]), Buffered).await.unwrap();
    put(&store, Space::Builders, b"not told", b"").await;
    store.apply(telling(&["a"]), Durable).await.unwrap();
    let changes = store.changes(0, 10).await.unwrap();
    assert_eq!(changes.changes, [told(1, &["a", "b"]), told(2, &["a"])]);
    assert!(changes.newest == 2 && !changes.gone);
    assert_eq!(store.changes(1, 10).await.unwrap().changes, [told(2, &["a"])]);
    assert_eq!(store.changes(2, 10).await.unwrap().changes, []);
}

pub async fn changes_of_what_did_not_happen_are_not_told(store: impl Store) {
    let checked = Batch { checks: vec![Check::holds(Space::Kv, b"k", b"there")], ..telling(&["a"]) };
    assert!(matches!(store.apply(checked, Buffered).await, Err(StoreError::Conflict)));
    let add = Add { space: Space::Kv, key: b"n".to_vec(), by: -1, limit: Limit::Floor(0) };
    assert!(matches!(store.apply(Batch { adds: vec![add], ..telling(&["a"]) }, Buffered).await, Err(StoreError::Beyond { .. })));
    assert_eq!(store.changes(0, 10).await.unwrap().newest, 0);
}

pub async fn changes_follow_in_pages(store: impl Store) {
    for n in 1..=10 {
        store.apply(telling(&[&n.to_string()]), Buffered).await.unwrap();
    }
    let (mut seen, mut place) = (vec![], 0);
    loop {
        let page = store.changes(place, 3).await.unwrap();
        assert!(page.newest == 10 && !page.gone && page.changes.len() <= 3);
        let Some(last) = page.changes.last() else { break };
        place = last.number;
        seen.extend(page.changes);
    }
    assert_eq!(seen, (1..=10).map(|n| told(n, &[&n.to_string()])).collect::<Vec<_>>());
    assert_eq!(store.changes(0, 0).await.unwrap().changes, []);
}

pub async fn changes_that_fell_out_are_said_to_be_gone(store: impl Store) {
    let newest = CHANGES_KEPT + 5;
    for n in 1..=newest {
        store.apply(telling(&[&n.to_string()]), Buffered).await.unwrap();
    }
    for (after, gone) in [(0, true), (4, true), (5, false), (newest - 1, false), (newest, false), (newest + 1, true)] {
        let page = store.changes(after, 1).await.unwrap();
        assert_eq!((page.gone, page.newest), (gone, newest), "after {after}");
        let wanted = if gone || after == newest { vec![] } else { vec![told(after + 1, &[&(after + 1).to_string()])] };
        assert_eq!(page.changes, wanted, "after {after}");
    }
    let kept = store.changes(5, usize::MAX).await.unwrap().changes;
    assert_eq!(kept.len() as u64, CHANGES_KEPT);
}

pub async fn concurrent_changes_leave_no_gap(store: impl Store) {
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..20 {
                    store.apply(telling(&[&format!("{task} {round}")]), Buffered).await.unwrap();
                }
            })
        })
        .collect();
    // Read the log meanwhile, as another process would.
    let mut seen: Vec<Change> = vec![];
    while seen.len() < 320 {
        let page = store.changes(seen.last().map_or(0, |change| change.number), 7).await.unwrap();
        seen.extend(page.changes);
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(seen.iter().zip(1..).all(|(change, number)| change.number == number));
    let keys: std::collections::BTreeSet<_> = seen.iter().flat_map(|change| &change.keys).collect();
    assert_eq!(keys.len(), 320);
}
