//! Walks through more rows than may stay in memory.

use std::process::Command;

use super::{harness::*, process};

const CHILD_FOLDER: &str = "TOLLHOUSE_TEST_WALKED_FOLDER";
const ROWS: usize = 160_000;
const BYTES: usize = 1_000;
const MIB: u64 = 1 << 20;

/// Runs in its own process, so that memory of other tests is not counted.
#[tokio::test]
async fn walk_keeps_little_in_memory() {
    let folder = folder();
    let store = open(&folder);
    for first in (0..ROWS).step_by(1_000) {
        let writes = (first..first + 1_000).map(|n| Write::put(Space::Receipts, key(n), bytes(BYTES))).collect();
        store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    }
    drop(store);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "walked::child_walks_a_store", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, folder.path().join("store"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    println!("{text}");
    assert!(child.status.success() && text.contains("walked"), "{text}{}", String::from_utf8_lossy(&child.stderr));
}

/// Not a test: the process that [`walk_keeps_little_in_memory`] starts.
#[tokio::test]
#[ignore = "started by another test"]
async fn child_walks_a_store() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let held = || process::resident(i32::try_from(std::process::id()).unwrap());
    let store = SledStore::open(folder, SledConfig { cache_bytes: MIB, start_bytes: 0, ..SledConfig::default() }).unwrap();
    let before = held();
    for direction in [Forward, Backward] {
        let (mut remaining, mut walked) = (KeyRange::all(), 0);
        loop {
            let page = store.scan(Space::Receipts, remaining.clone(), 100, direction).await.unwrap();
            let Some((last, _)) = page.last() else { break };
            walked += page.len();
            remaining = if direction == Forward { remaining.after(last) } else { remaining.before(last) };
        }
        assert_eq!(walked, ROWS);
        let grown = held().saturating_sub(before) / MIB;
        println!("walked {}: {grown} MiB of {}", if direction == Forward { "on" } else { "back" }, (ROWS * BYTES) as u64 / MIB);
        assert!(grown < 80, "{grown} MiB stay");
    }
}
