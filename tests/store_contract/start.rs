//! Starts: stores that are too large to check before the start, and kills in the middle of a start.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    harness::*,
    history::Chance,
    questions::{counted, rows_of},
};

/// Opens a store that checks nothing before it is open.
fn open_at_once(folder: &TempDir) -> SledStore {
    let config = SledConfig { segment_bytes: 16 * 1024, start_bytes: 0, ..SledConfig::default() };
    SledStore::open(folder.path().join("store"), config).unwrap()
}

async fn receipts(store: &SledStore, count: usize) {
    for n in 0..count {
        store.apply(Batch::of(vec![], vec![Write::put(Space::Receipts, key(n), bytes(700))]), Durable).await.unwrap();
    }
}

#[tokio::test]
async fn a_long_journal_is_read_while_the_store_is_open_and_mended_from_the_tree() {
    let folder = folder();
    let store = open_at_once(&folder);
    receipts(&store, 60).await;
    drop(store);
    flip(&segments(&folder)[1], 700);
    assert!(matches!(try_open(&folder), Err(OpenError::Damaged { .. })));
    let store = open_at_once(&folder);
    assert_eq!(all(&store, Space::Receipts).await.len(), 60);
    until(|| folder.path().join("store/checkpoint").read_dir().is_ok_and(|found| found.flatten().any(|file| is_whole(&file.path())))).await;
    let alongside = segments(&folder)[0].with_file_name("x");
    until(|| {
        alongside.parent().unwrap().read_dir().unwrap().flatten().any(|file| file.path().extension().is_some_and(|at| at == "damaged"))
    })
    .await;
    drop(store);
    let store = try_open(&folder).unwrap();
    assert_eq!(all(&store, Space::Receipts).await.len(), 60);
    assert_eq!(rows_of(&store).await, counted(&store).await);
}

fn is_whole(checkpoint: &std::path::Path) -> bool {
    checkpoint.extension().is_some_and(|extension| extension == "checkpoint")
}

#[tokio::test]
async fn money_that_is_counted_later_stops_commits_where_it_is_missing() {
    let folder = folder();
    let store = open_at_once(&folder);
    receipts(&store, 60).await;
    let path = store.path().to_owned();
    drop(store);
    let tree = tree_of(&path);
    tree.remove([&[Space::Receipts as u8][..], &key(7)].concat()).unwrap().unwrap();
    tree.flush().unwrap();
    drop(tree);
    let store = open_at_once(&folder);
    until(|| path.join("tree-is-wrong").exists()).await;
    let refused = store.apply(Batch::new(), Buffered).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Away(reason) if reason.contains("Receipts")), "{refused}");
    drop(store);
    assert_eq!(all(&open_at_once(&folder), Space::Receipts).await.len(), 60);
}

/// The variable with the folder that the killed child opens: see
/// [`no_kill_of_a_start_loses_anything`].
const CHILD_FOLDER: &str = "TOLLHOUSE_TEST_OPENED_FOLDER";

/// Kills interrupt the reconstruction of a tree from the journal, which causes no permanent harm.
#[tokio::test]
async fn no_kill_of_a_start_loses_anything() {
    let mut chance = Chance::seeded();
    let mut max_len = Duration::from_millis(200);
    for round in 0..20 {
        let folder = folder();
        let path = folder.path().join("store");
        let store = open(&folder);
        let rows = (0..2_000).map(|n| Write::put(Space::Receipts, key(n), bytes(n % 300)));
        let rows = rows.chain([Write::put(Space::Kv, b"large", bytes(10_000))]).collect();
        store.apply(Batch::of(vec![], rows), Durable).await.unwrap();
        drop(store);
        std::fs::write(path.join("tree-is-wrong"), b"").unwrap();
        for _ in 0..chance.below(3) {
            let mut child = opening(&folder);
            std::thread::sleep(max_len.mul_f64(chance.below(1_000) as f64 / 1_000.0));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let started = Instant::now();
        let store = open(&folder);
        max_len = started.elapsed() * 2;
        assert_eq!(all(&store, Space::Receipts).await.len(), 2_000, "round {round}");
        assert_eq!(store.get(Space::Kv, b"large").await.unwrap(), Some(bytes(10_000)));
        assert_eq!(rows_of(&store).await, counted(&store).await);
    }
}

fn opening(folder: &TempDir) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "start::child_opens_a_store", "--ignored"])
        .env(CHILD_FOLDER, folder.path().join("store"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test: the process that [`no_kill_of_a_start_loses_anything`] starts and kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn child_opens_a_store() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    drop(SledStore::open(folder, SledConfig::default()).unwrap());
}
