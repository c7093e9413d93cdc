//! Tests for the disk backend only: restarts, kills, damage. Also measures it.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use super::{
    changes::followed_batch,
    harness::*,
    history::{Chance, same_as, step},
    questions::{counted, rows_of},
};

#[tokio::test]
async fn commits_survive_a_restart() {
    let folder = folder();
    let mut chance = Chance::seeded();
    let mut model = BTreeMap::new();
    let mut store = open(&folder);
    for _ in 0..6 {
        for _ in 0..150 {
            step(&store, &mut model, &mut chance).await;
        }
        store = store.reopen().unwrap();
        same_as(&store, &model).await;
    }
}

#[tokio::test]
async fn sizes_survive_a_restart() {
    let folder = folder();
    let (mut chance, mut model) = (Chance::seeded(), BTreeMap::new());
    let mut store = open(&folder);
    for _ in 0..4 {
        for _ in 0..100 {
            step(&store, &mut model, &mut chance).await;
        }
        assert_eq!(rows_of(&store).await, counted(&store).await);
        store = store.reopen().unwrap();
        assert_eq!(rows_of(&store).await, counted(&store).await);
    }
}

#[tokio::test]
async fn changes_and_sums_survive_a_restart() {
    let folder = folder();
    let mut store = open(&folder);
    for round in 1..=5 {
        let key = round.to_string();
        let add = Add { space: Space::Credits, key: b"sum".to_vec(), by: 2, limit: SumLimit::Floor(0) };
        let sums = store.apply(Batch { adds: vec![add], ..followed_batch(&[&key]) }, Durable).await.unwrap();
        assert_eq!(sums, [2 * i128::from(round)]);
        store = store.reopen().unwrap();
        let changes = store.changes(0, 10).await.unwrap();
        assert_eq!((changes.newest, changes.changes.len()), (round, usize::try_from(round).unwrap()));
        assert_eq!(changes.changes.last().unwrap().keys, [(Space::Builders, key.into_bytes())]);
    }
    assert_eq!(rows_of(&store).await, counted(&store).await);
}

#[tokio::test]
async fn folder_in_use_is_refused_by_name() {
    let folder = folder();
    let store = open(&folder);
    let config = SledConfig { lock_timeout: Duration::ZERO, ..SledConfig::default() };
    let refused = SledStore::open(store.path(), config).unwrap_err();
    assert!(matches!(&refused, OpenError::Locked(path) if path == store.path()), "{refused:?}");
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
}

#[tokio::test]
async fn a_later_or_an_earlier_format_is_refused() {
    for format in ["2", "4"] {
        let folder = folder();
        let store = open(&folder);
        let path = store.path().to_owned();
        drop(store);
        let tree = tree_of(&path);
        tree.insert(b"\xfeformat", format).unwrap();
        tree.flush().unwrap();
        drop(tree);
        assert!(matches!(try_open(&folder), Err(OpenError::Format { found, .. }) if found == format));
        // The same without a journal.
        std::fs::remove_dir_all(path.join("journal")).unwrap();
        assert!(matches!(try_open(&folder), Err(OpenError::Format { found, .. }) if found == format));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_sees_a_durable_commit_before_its_sync() {
    let folder = folder();
    let synced = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&synced);
    // The commit is in the journal, and its sync is slow.
    let before_sync = Arc::new(move || {
        std::thread::sleep(Duration::from_millis(20));
        count.fetch_add(1, SeqCst);
        Ok(())
    });
    let config = SledConfig { before_sync, ..SledConfig::default() };
    let store = Arc::new(SledStore::open(folder.path().join("store"), config).unwrap());
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for n in 1..=20_u64 {
                store.apply(Batch::of(vec![], vec![Write::put(Space::Kv, b"n", n.to_be_bytes())]), Durable).await.unwrap();
            }
        })
    };
    let mut reads = 0;
    while !writer.is_finished() {
        let found = number(&*store, b"n").await;
        assert!(found <= synced.load(SeqCst), "{found} was seen while it was synced");
        reads += 1;
        tokio::task::yield_now().await;
    }
    assert!(reads > 100, "{reads} reads");
    writer.await.unwrap();
}

#[tokio::test]
async fn a_sync_that_fails_is_no_commit_and_refuses_what_follows() {
    let folder = folder();
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let before_sync = Arc::new(move || if fails.load(SeqCst) { Err(std::io::Error::other("the disk is gone")) } else { Ok(()) });
    let config = SledConfig { before_sync, ..SledConfig::default() };
    let store = SledStore::open(folder.path().join("store"), config).unwrap();
    increment(&store, b"n", Durable).await;
    failing.store(true, SeqCst);
    let write = || Batch::of(vec![], vec![Write::put(Space::Kv, b"n", 7_u64.to_be_bytes())]);
    assert!(matches!(store.apply(write(), Durable).await, Err(StoreError::Unknown(reason)) if reason.contains("the disk is gone")));
    assert_eq!(number(&store, b"n").await, 1, "a commit was visible before it was on disk");
    failing.store(false, SeqCst);
    assert!(matches!(store.apply(write(), Durable).await, Err(StoreError::Away(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn checkpoints_are_made_while_others_write() {
    let folder = folder();
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 128 * 1024, ..SledConfig::default() };
    let open = || SledStore::open(folder.path().join("store"), config.clone()).unwrap();
    let store = open();
    let (mut chance, mut model) = (Chance::seeded(), BTreeMap::new());
    let checkpoints = || std::fs::read_dir(folder.path().join("store/checkpoint")).map_or(0, Iterator::count);
    let archived = || std::fs::read_dir(folder.path().join("store/archive")).map_or(0, Iterator::count);
    let mut turns = 0_u64;
    while archived() < 3 {
        turns += 1;
        step(&store, &mut model, &mut chance).await;
        put(&store, Space::Audit, b"turns", &turns.to_be_bytes()).await;
        // Only money is archived.
        put(&store, Space::Receipts, b"turns", &turns.to_be_bytes()).await;
    }
    assert!(checkpoints() <= 2, "{} checkpoints", checkpoints());
    assert!(segments(&folder)[0].file_name().unwrap() != "00000000000000000001.journal", "the first segment is still there");
    drop(store);
    flip(&folder.path().join("store/conf"), 10);
    let store = open();
    assert_eq!(store.get(Space::Audit, b"turns").await.unwrap().unwrap(), turns.to_be_bytes());
    same_as(&store, &model).await;
    assert_eq!(rows_of(&store).await, counted(&store).await);
}

#[tokio::test]
async fn file_in_place_of_the_folder_is_an_io_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = SledStore::open(file.path(), SledConfig::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }), "{refused:?}");
}

/// The variable with the folder of the killed child: see [`killed_process_loses_nothing_durable`].
const CHILD_FOLDER: &str = "TOLLHOUSE_TEST_CHILD_FOLDER";

#[tokio::test]
async fn killed_process_loses_nothing_durable() {
    let mut chance = Chance::seeded();
    let folder = folder();
    let mut floor = 0;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::child_commits_until_killed", "--ignored", "--nocapture"])
            .env(CHILD_FOLDER, folder.path().join("store"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requested = 1 + chance.below(40);
        let acknowledged = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok()));
        let last = acknowledged.take(requested).last().expect("the child commits");
        child.kill().unwrap();
        child.wait().unwrap();

        let store = open(&folder);
        let found = number(&store, b"n").await;
        assert!(found >= last && last > floor, "round {round}: {last} was acknowledged, {found} is there, {floor} was before");
        let pair = store.get(Space::Receipts, b"n").await.unwrap().unwrap();
        assert!(pair == receipt_of(found), "round {round}: one half of a commit is of another");
        floor = found;
    }
}

/// Not a test: the process that [`killed_process_loses_nothing_durable`] starts and kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn child_commits_until_killed() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    // Small sizes, so that kills also hit new segments and checkpoints.
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 128 * 1024, ..SledConfig::default() };
    let store = SledStore::open(folder, config).unwrap();
    for n in number(&store, b"n").await + 1.. {
        let writes = vec![Write::put(Space::Kv, b"n", n.to_be_bytes()), Write::put(Space::Receipts, b"n", receipt_of(n))];
        let durability = if n % 3 == 0 { Buffered } else { Durable };
        store.apply(Batch::of(vec![], writes), durability).await.unwrap();
        if durability == Durable {
            println!("durable {n}");
        }
    }
}

/// Every fifth value is large, so that kills also hit the space between the pieces of a value.
fn receipt_of(n: u64) -> Vec<u8> {
    n.to_be_bytes().repeat(if n.is_multiple_of(5) { 4_000 } else { 40 })
}

/// `cargo test --release --test store_contract -- --ignored --nocapture figures`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, asserts nothing"]
async fn figures_of_the_disk() {
    let folder = folder();
    let store = Arc::new(open(&folder));
    let rounds =
        [(Durable, 1, 500), (Durable, 16, 200), (Durable, 64, 100), (Buffered, 1, 20_000), (Buffered, 16, 2_000), (Durable, 1, 500)];
    for (round, (durability, tasks, each)) in rounds.into_iter().enumerate() {
        let (start, synced) = (std::time::Instant::now(), store.syncs());
        let running: Vec<_> = (0..tasks)
            .map(|task| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for n in 0..each {
                        let key = [key(round), key(task), key(n)].concat();
                        let receipt = Write::put(Space::Receipts, key.clone(), bytes(400));
                        let payment = Write::put(Space::Payments, key.clone(), bytes(200));
                        store
                            .apply(Batch::of(vec![Check::absent(Space::Payments, key)], vec![receipt, payment]), durability)
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for task in running {
            task.await.unwrap();
        }
        let elapsed = start.elapsed();
        let (commits, syncs) = ((tasks * each) as f64, store.syncs() - synced);
        let (rate, share) = (commits / elapsed.as_secs_f64(), syncs as f64 / commits);
        println!("{durability:?}, {tasks} tasks: {rate:.0} commits/s, {share:.3} syncs each");
    }
    // Let the background work finish first.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let max = 1_000_000;
    let start = std::time::Instant::now();
    for n in 0..max {
        store.get(Space::Receipts, &[key(3), key(0), key(n % 20_000)].concat()).await.unwrap().unwrap();
    }
    println!("get: {:.0}/s", max as f64 / start.elapsed().as_secs_f64());
    let start = std::time::Instant::now();
    for n in 0..max / 100 {
        let range = KeyRange { start: Bound::Included([key(3), key(0), key(n % 19_900)].concat()), ..KeyRange::all() };
        assert_eq!(store.scan(Space::Receipts, range, 100, Forward).await.unwrap().len(), 100);
    }
    println!("scan: {:.0} rows/s", max as f64 / start.elapsed().as_secs_f64());
    println!("{} KiB on disk", store.disk_bytes().unwrap() / 1_024);
}

#[tokio::test]
async fn counting_many_keys_yields_to_others() {
    let folder = folder();
    let store = open(&folder);
    let writes = (0..2_500_u32).map(|n| Write::put(Space::Kv, n.to_be_bytes(), b"")).collect();
    store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    let mut counting = std::pin::pin!(store.count(Space::Kv, KeyRange::all(), usize::MAX));
    tokio::select! {
        biased;
        counted = &mut counting => panic!("{counted:?} in one go"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(counting.await.unwrap(), 2_500);
}
