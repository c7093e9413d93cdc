//! The log of changes.

use super::harness::*;

fn change(number: u64, keys: &[&str]) -> CommittedChange {
    CommittedChange { number, keys: keys.iter().map(|key| (Space::Builders, key.as_bytes().to_vec())).collect() }
}

/// Returns a commit that writes these keys and announces them in the log of changes.
pub fn followed_batch(keys: &[&str]) -> Batch {
    let writes = keys.iter().map(|key| Write::put(Space::Builders, *key, b"")).collect();
    Batch { writes, changelog: change(0, keys).keys, ..Batch::default() }
}

pub async fn changes_report_each_commit_once_and_whole(store: impl Store) {
    let nothing = store.changes(0, 10).await.unwrap();
    assert!(nothing.changes.is_empty() && nothing.newest == 0 && !nothing.truncated);
    store.apply(followed_batch(&["a", "b"]), Buffered).await.unwrap();
    put(&store, Space::Builders, b"not told", b"").await;
    store.apply(followed_batch(&["a"]), Durable).await.unwrap();
    let changes = store.changes(0, 10).await.unwrap();
    assert_eq!(changes.changes, [change(1, &["a", "b"]), change(2, &["a"])]);
    assert!(changes.newest == 2 && !changes.truncated);
    assert_eq!(store.changes(1, 10).await.unwrap().changes, [change(2, &["a"])]);
    assert_eq!(store.changes(2, 10).await.unwrap().changes, []);
}

pub async fn failed_commits_report_no_changes(store: impl Store) {
    let checked = Batch { checks: vec![Check::holds(Space::Kv, b"k", b"there")], ..followed_batch(&["a"]) };
    assert!(matches!(store.apply(checked, Buffered).await, Err(StoreError::Conflict)));
    let add = Add { space: Space::Kv, key: b"n".to_vec(), by: -1, limit: SumLimit::Floor(0) };
    assert!(matches!(store.apply(Batch { adds: vec![add], ..followed_batch(&["a"]) }, Buffered).await, Err(StoreError::Beyond { .. })));
    assert_eq!(store.changes(0, 10).await.unwrap().newest, 0);
}

pub async fn changes_follow_in_pages(store: impl Store) {
    for n in 1..=10 {
        store.apply(followed_batch(&[&n.to_string()]), Buffered).await.unwrap();
    }
    let (mut seen, mut position) = (vec![], 0);
    loop {
        let page = store.changes(position, 3).await.unwrap();
        assert!(page.newest == 10 && !page.truncated && page.changes.len() <= 3);
        let Some(last) = page.changes.last() else { break };
        position = last.number;
        seen.extend(page.changes);
    }
    assert_eq!(seen, (1..=10).map(|n| change(n, &[&n.to_string()])).collect::<Vec<_>>());
    assert_eq!(store.changes(0, 0).await.unwrap().changes, []);
}

pub async fn expired_changes_are_reported_as_gone(store: impl Store) {
    let newest = MAX_CHANGES + 5;
    for n in 1..=newest {
        store.apply(followed_batch(&[&n.to_string()]), Buffered).await.unwrap();
    }
    for (after, removed) in [(0, true), (4, true), (5, false), (newest - 1, false), (newest, false), (newest + 1, true)] {
        let page = store.changes(after, 1).await.unwrap();
        assert_eq!((page.truncated, page.newest), (removed, newest), "after {after}");
        let requested = if removed || after == newest { vec![] } else { vec![change(after + 1, &[&(after + 1).to_string()])] };
        assert_eq!(page.changes, requested, "after {after}");
    }
    let stored = store.changes(5, usize::MAX).await.unwrap().changes;
    assert_eq!(stored.len() as u64, MAX_CHANGES);
}

pub async fn concurrent_changes_leave_no_gap(store: impl Store) {
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..20 {
                    store.apply(followed_batch(&[&format!("{task} {round}")]), Buffered).await.unwrap();
                }
            })
        })
        .collect();
    // Read the log meanwhile, as another process would.
    let mut seen: Vec<CommittedChange> = vec![];
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
