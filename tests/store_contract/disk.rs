//! What only the disk is asked: restarts, kills, damage. And its figures.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use tollhouse::store::sled::OpenError;

use super::{
    changes::telling,
    harness::*,
    history::{Chance, same_as, step},
    questions::{counted, told},
};

#[tokio::test]
async fn what_was_committed_survives_a_restart() {
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
        assert_eq!(told(&store).await, counted(&store).await);
        store = store.reopen().unwrap();
        assert_eq!(told(&store).await, counted(&store).await);
    }
}

#[tokio::test]
async fn changes_and_sums_survive_a_restart() {
    let folder = folder();
    let mut store = open(&folder);
    for round in 1..=5 {
        let key = round.to_string();
        let add = Add { space: Space::Credits, key: b"sum".to_vec(), by: 2, limit: Limit::Floor(0) };
        let sums = store.apply(Batch { adds: vec![add], ..telling(&[&key]) }, Durable).await.unwrap();
        assert_eq!(sums, [2 * i64::try_from(round).unwrap()]);
        store = store.reopen().unwrap();
        let changes = store.changes(0, 10).await.unwrap();
        assert_eq!((changes.newest, changes.changes.len()), (round, usize::try_from(round).unwrap()));
        assert_eq!(changes.changes.last().unwrap().keys, [(Space::Builders, key.into_bytes())]);
    }
    assert_eq!(told(&store).await, counted(&store).await);
}

/// A host that runs already has a store without sizes. It is counted while others write, and after a restart amid that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_an_older_version_is_counted_while_it_serves() {
    let folder = folder();
    let mut store = open(&folder);
    for space in [Space::Endpoints, Space::Kv, Space::Calls] {
        let writes = (0..20_000).map(|n| Write::put(space, key(n), bytes(n % 50))).collect();
        store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    }
    put(&store, Space::Kv, b"large", &bytes(100_000)).await;
    let path = store.path().to_owned();
    drop(store);
    // The closed store lets go of its lock a moment later.
    let tree = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        ::sled::open(&path).ok()
    });
    tree.unwrap().remove(b"\xfesizes").unwrap().unwrap();
    store = open(&folder);
    let mut chance = Chance::seeded();
    let mut turns = 0;
    while !store.sizes().complete || turns < 300 {
        turns += 1;
        let n = chance.below(20_000);
        match chance.below(3) {
            0 => delete(&store, Space::Kv, &key(n)).await,
            1 => put(&store, Space::Calls, &key(n + 10_000), &bytes(n % 9_000)).await,
            _ => put(&store, Space::Endpoints, &key(n), b"other").await,
        }
        if turns == 5 {
            assert!(!store.sizes().complete, "there is nothing left to test");
            store = store.reopen().unwrap();
        }
    }
    assert_eq!(told(&store).await, counted(&store).await);
}

#[tokio::test]
async fn folder_in_use_is_refused_by_name() {
    let folder = folder();
    let store = open(&folder);
    let config = SledConfig { lock_patience: std::time::Duration::ZERO, ..SledConfig::default() };
    let refused = SledStore::open(store.path(), config).unwrap_err();
    assert!(matches!(&refused, OpenError::Locked(path) if path == store.path()), "{refused:?}");
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
}

#[tokio::test]
async fn damaged_folder_is_refused_with_advice() {
    let folder = folder();
    let store = open(&folder);
    fill(&store, 2_000).await;
    let path = store.path().to_owned();
    drop(store);
    let conf = path.join("conf");
    let mut settings = std::fs::read(&conf).unwrap();
    settings[10] ^= 0xff;
    std::fs::write(&conf, settings).unwrap();
    let refused = SledStore::open(&path, SledConfig::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused:?}");
    assert!(refused.to_string().contains("restore the newest backup"), "{refused}");
}

#[tokio::test]
async fn file_in_place_of_the_folder_is_an_io_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refused = SledStore::open(file.path(), SledConfig::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }), "{refused:?}");
}

/// What the killed child was doing: see [`killed_process_loses_nothing_durable`].
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
        let wanted = 1 + chance.below(40);
        let acknowledged = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok()));
        let last = acknowledged.take(wanted).last().expect("the child commits");
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
    let store = SledStore::open(folder, SledConfig::default()).unwrap();
    for n in number(&store, b"n").await + 1.. {
        let writes = vec![Write::put(Space::Kv, b"n", n.to_be_bytes()), Write::put(Space::Receipts, b"n", receipt_of(n))];
        let durability = if n % 3 == 0 { Buffered } else { Durable };
        store.apply(Batch::of(vec![], writes), durability).await.unwrap();
        if durability == Durable {
            println!("durable {n}");
        }
    }
}

/// Large for every fifth number, so that kills fall between the pieces of a value too.
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
        let start = std::time::Instant::now();
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
        let took = start.elapsed();
        println!("{durability:?}, {tasks} tasks: {:.0} commits/s", (tasks * each) as f64 / took.as_secs_f64());
    }
    let start = std::time::Instant::now();
    for n in 0..100_000 {
        store.get(Space::Receipts, &[key(3), key(0), key(n % 20_000)].concat()).await.unwrap().unwrap();
    }
    println!("get: {:.0}/s", 100_000.0 / start.elapsed().as_secs_f64());
    println!("{} KiB on disk", store.disk_bytes().unwrap() / 1_024);
}

#[tokio::test]
async fn who_counts_many_keys_lets_others_go_between() {
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
