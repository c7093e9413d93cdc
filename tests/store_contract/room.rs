//! A full disk: commits are refused with a specific error, and accepted again when there is space.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use super::{
    harness::*,
    questions::{counted, rows_of},
};

/// Maximum time for background work on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A store on a disk whose free space a test sets.
struct Filling {
    free: Arc<AtomicU64>,
    config: SledConfig,
}

impl Filling {
    fn new(kept_free_bytes: u64) -> Self {
        let free = Arc::new(AtomicU64::new(1 << 40));
        let reported = Arc::clone(&free);
        let free_bytes = Arc::new(move |_: &std::path::Path| Ok(reported.load(SeqCst)));
        Self { free, config: SledConfig { segment_bytes: 16 * 1024, reserved_bytes: kept_free_bytes, free_bytes, ..SledConfig::default() } }
    }

    fn open(&self, folder: &TempDir) -> SledStore {
        SledStore::open(folder.path().join("store"), self.config.clone()).unwrap()
    }
}

async fn commit(store: &SledStore, n: usize) -> Result<Vec<i128>, StoreError> {
    store.apply(Batch::of(vec![], vec![Write::put(Space::Receipts, key(n), bytes(700))]), Durable).await
}

/// Commits until one is refused. Returns how many succeeded, and the error.
async fn commit_until_refused(store: &SledStore, mut n: usize) -> (usize, StoreError) {
    let started = Instant::now();
    while started.elapsed() < TIMEOUT {
        match commit(store, n).await {
            Ok(_) => n += 1,
            Err(refused) => return (n, refused),
        }
    }
    panic!("no commit is refused");
}

async fn until_taken(store: &SledStore) {
    // The same as a readiness check.
    until_async(async || store.apply(Batch::new(), Buffered).await.is_ok()).await;
}

#[tokio::test]
async fn a_segment_that_does_not_fit_refuses_commits_until_it_does() {
    let (folder, filling) = (folder(), Filling::new(0));
    let store = filling.open(&folder);
    let mut n = 0;
    for round in 0..3 {
        filling.free.store(1_000, SeqCst);
        let (all_taken, refused) = commit_until_refused(&store, n).await;
        assert!(matches!(&refused, StoreError::Away(reason) if reason.contains("1000 bytes are free")), "{refused:?}");
        assert!(all_taken > n || round > 0, "no commit fits");
        assert!(store.apply(Batch::new(), Buffered).await.is_err(), "a readiness check passes");
        assert_eq!(all(&store, Space::Receipts).await.len(), all_taken, "reads go on");
        filling.free.store(1 << 40, SeqCst);
        until_taken(&store).await;
        commit(&store, all_taken).await.unwrap();
        n = all_taken + 1;
    }
    assert_eq!(rows_of(&store).await, counted(&store).await);
    drop(store);
    std::fs::remove_file(folder.path().join("store/db")).unwrap();
    assert_eq!(all(&filling.open(&folder), Space::Receipts).await.len(), n);
}

#[tokio::test]
async fn reserved_disk_space_is_not_written_to() {
    let (folder, filling) = (folder(), Filling::new(1_000_000));
    let store = filling.open(&folder);
    commit(&store, 0).await.unwrap();
    put(&store, Space::Kv, b"buffered", b"value").await;
    filling.free.store(999_999, SeqCst);
    let (_, refused) = commit_until_refused(&store, 1).await;
    assert!(matches!(&refused, StoreError::Away(reason) if reason.contains("999999 bytes are free")), "{refused:?}");
    filling.free.store(1 << 40, SeqCst);
    until_taken(&store).await;
    commit(&store, 0).await.unwrap();
}

#[tokio::test]
async fn a_segment_that_cannot_be_made_for_any_reason_is_tried_again() {
    let (folder, filling) = (folder(), Filling::new(0));
    let store = filling.open(&folder);
    // Block the file that becomes the next segment.
    let obstacle = folder.path().join("store/journal/next.tmp");
    let (n, _) = loop {
        _ = std::fs::remove_file(&obstacle);
        if std::fs::create_dir(&obstacle).is_ok() {
            break commit_until_refused(&store, 0).await;
        }
    };
    assert!(n > 0);
    std::fs::remove_dir(&obstacle).unwrap();
    until_taken(&store).await;
    let store = store.reopen().unwrap();
    assert_eq!(all(&store, Space::Receipts).await.len(), n);
}
