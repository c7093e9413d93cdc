//! Tests that need access to the store's internals.

use std::time::{Duration, Instant};

use super::*;
use crate::{
    Write,
    journal::{SegmentFile, SegmentKind},
};

#[tokio::test]
async fn damaged_money_stops_commits() {
    let folder = tempfile::tempdir().unwrap();
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 64 * 1024, ..SledConfig::default() };
    let store = SledStore::open(folder.path(), config).unwrap();
    let put = |space, key: &[u8]| store.apply(Batch::of(vec![], vec![Write::put(space, key, vec![1; 3_000])]), Durability::Durable);
    put(Space::Receipts, b"one").await.unwrap();
    put(Space::Receipts, b"two").await.unwrap();
    store.state.handle.tree().remove(b"\x03one").unwrap().unwrap();
    let started = Instant::now();
    let refused = loop {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing stops commits");
        if let Err(refused) = put(Space::Kv, b"n").await {
            break refused;
        }
    };
    assert!(matches!(&refused, StoreError::Away(reason) if reason.contains("Receipts")), "{refused:?}");
    let store = store.reopen().unwrap();
    assert!(store.get(Space::Receipts, b"one").await.unwrap().is_some(), "it is not back");
    store.apply(Batch::new(), Durability::Durable).await.unwrap();
}

#[tokio::test]
async fn tree_is_written_out_before_it_is_far_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path(), SledConfig::default()).unwrap();
    for n in 0..64_u8 {
        let write = Write::put(Space::Kv, [n], vec![n; 60_000]);
        store.apply(Batch::of(vec![], vec![write]), Durability::Buffered).await.unwrap();
        let behind = store.state.handle.behind.load(Relaxed);
        assert!(behind < disk::BEHIND + 61_000, "{behind} bytes after {n} commits");
    }
}

/// Polls a condition that work in the background fulfills.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn tree_that_is_much_larger_than_its_rows_is_rebuilt_by_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = SledConfig { segment_bytes: 1 << 20, checkpoint_bytes: 1 << 20, ..SledConfig::default() };
    let store = SledStore::open(folder.path(), config.clone()).unwrap();
    let write = |write| store.apply(Batch::of(vec![], vec![write]), Durability::Buffered);
    for n in 0..200_u8 {
        write(Write::put(Space::Kv, [n], vec![n; 60_000])).await.unwrap();
    }
    for n in 3..200_u8 {
        write(Write::delete(Space::Kv, [n])).await.unwrap();
    }
    let deleted = store.state.handle.still().sequence;
    for _ in 0..20 {
        write(Write::put(Space::Kv, [2], vec![2; 60_000])).await.unwrap();
    }
    let rows = store.scan(Space::Kv, KeyRange::all(), 9, Direction::Forward).await.unwrap();
    let last = || SegmentFile::all(folder.path(), SegmentKind::Checkpoint).unwrap().pop();
    until("there is a checkpoint", || last().is_some_and(|last| last.sequence >= deleted)).await;
    let store = store.reopen().unwrap();
    let before = store.disk_bytes().unwrap();
    assert!(before > 8 << 20, "{before}");
    drop(store);
    let store = SledStore::open(folder.path(), SledConfig { tree_bytes: 1 << 20, ..config }).unwrap();
    let after = store.disk_bytes().unwrap();
    assert!(after < before / 4 && !folder.path().join("aside").exists(), "{before} -> {after}");
    assert_eq!(store.scan(Space::Kv, KeyRange::all(), 9, Direction::Forward).await.unwrap(), rows);
    assert_eq!(rows.len(), 3);
}

#[tokio::test]
async fn tree_that_is_much_larger_than_its_rows_yields_to_another_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let config = SledConfig { tree_bytes: 4 << 20, ..SledConfig::default() };
    let store = SledStore::open(folder.path(), config).unwrap();
    let write = |write| store.apply(Batch::of(vec![], vec![write]), Durability::Buffered);
    for n in 0..200_u8 {
        write(Write::put(Space::Kv, [n], vec![n; 60_000])).await.unwrap();
    }
    let before = store.disk_bytes().unwrap();
    assert!(before > 8 << 20, "{before}");
    // In one commit, so that all rows are deleted before the new tree is begun.
    let deletes = (3..200_u8).map(|n| Write::delete(Space::Kv, [n])).collect();
    store.apply(Batch::of(vec![], deletes), Durability::Buffered).await.unwrap();
    until("the old tree is deleted", || !folder.path().join("db").exists()).await;
    let after = store.disk_bytes().unwrap();
    assert!(after < before / 4, "{before} -> {after}");
    let rows = store.scan(Space::Kv, KeyRange::all(), 9, Direction::Forward).await.unwrap();
    assert_eq!(rows, (0..3).map(|n| (vec![n], vec![n; 60_000])).collect::<Vec<_>>());
    assert_eq!(store.sizes().renewal_fails, None);
}

/// Regression: a report of a long history blocked every task of its thread, and the whole host if others waited for it.
#[tokio::test]
async fn reading_many_rows_does_not_block_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path(), SledConfig::default()).unwrap();
    let writes = (0..1_000_u32).map(|n| Write::put(Space::Kv, n.to_be_bytes(), vec![1; 10])).collect();
    store.apply(Batch::of(vec![], writes), Durability::Buffered).await.unwrap();
    let handle = Arc::clone(&store.state.handle);
    let (held, is_held) = oneshot::channel();
    let (let_go, may_go) = std::sync::mpsc::channel::<()>();
    let holds = std::thread::spawn(move || {
        let _alone = handle.alone();
        held.send(()).unwrap();
        _ = may_go.recv_timeout(Duration::from_secs(60));
    });
    is_held.await.unwrap();
    // This runtime has one thread, so that waiting on it for the lock would deadlock.
    let (scanned, counted, ()) = tokio::join!(
        store.scan(Space::Kv, KeyRange::all(), 1_000, Direction::Forward),
        store.count(Space::Kv, KeyRange::all(), 1_000),
        async { let_go.send(()).unwrap() },
    );
    assert_eq!((scanned.unwrap().len(), counted.unwrap()), (1_000, 1_000));
    holds.join().unwrap();
}
