//! Renewals: a new tree replaces the current one without any visible effect.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tollhouse::store::{Changes, CopyPage, SpaceSizes};

use super::{
    changes::followed_batch,
    harness::*,
    history::{Chance, same_as, step},
    questions::{counted, rows_of},
};

/// Number of commits between two renewals.
const COMMITS: u64 = 3;

/// A store whose tree is renewed all the time, during the commits.
pub struct Renewed {
    store: Arc<SledStore>,
    commits: AtomicU64,
    in_progress: Arc<AtomicBool>,
    failed: Arc<Mutex<Vec<StoreError>>>,
}

impl Renewed {
    pub fn open(folder: &TempDir) -> Self {
        Self { store: Arc::new(open(folder)), commits: AtomicU64::new(0), in_progress: Arc::default(), failed: Arc::default() }
    }
}

impl Drop for Renewed {
    fn drop(&mut self) {
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty() || std::thread::panicking(), "{failed:?}");
    }
}

#[async_trait]
impl Store for Renewed {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(space, key).await
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.store.scan(space, range, limit, direction).await
    }

    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        self.store.count(space, range, max).await
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        if self.commits.fetch_add(1, SeqCst).is_multiple_of(COMMITS) && !self.in_progress.swap(true, SeqCst) {
            let (store, in_flight, failed) = (Arc::clone(&self.store), Arc::clone(&self.in_progress), Arc::clone(&self.failed));
            tokio::spawn(async move {
                let outcome = store.renew().await;
                failed.lock().unwrap().extend(outcome.err());
                in_flight.store(false, SeqCst);
            });
        }
        self.store.apply(batch, durability).await
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        self.store.changes(after, limit).await
    }

    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        self.store.copy(to).await
    }

    fn sizes(&self) -> SpaceSizes {
        self.store.sizes()
    }
}

/// Returns the folders of trees in the store's folder.
fn trees(folder: &TempDir) -> Vec<String> {
    let names = folder.path().join("store").read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.strip_prefix("tree-").is_some_and(|number| number.parse::<u32>().is_ok())).collect()
}

/// Returns the folder of the current tree.
fn home(folder: &TempDir) -> PathBuf {
    let store = folder.path().join("store");
    store.join(std::fs::read_to_string(store.join("tree-in-force")).unwrap())
}

#[tokio::test]
async fn rows_sums_and_changes_are_the_same_in_another_tree() {
    let folder = folder();
    let (mut chance, mut model) = (Chance::seeded(), BTreeMap::new());
    let mut store = open(&folder);
    for round in 1..=4 {
        for _ in 0..100 {
            step(&store, &mut model, &mut chance).await;
        }
        let add = Add { space: Space::Credits, key: b"sum".to_vec(), by: 2, limit: SumLimit::Floor(0) };
        let sums = store.apply(Batch { adds: vec![add], ..followed_batch(&[&round.to_string()]) }, Buffered).await.unwrap();
        assert_eq!(sums, [2 * round]);
        let changes = store.changes(0, 100).await.unwrap();
        store.renew().await.unwrap();
        for reopened in [false, true] {
            same_as(&store, &model).await;
            assert_eq!(rows_of(&store).await, counted(&store).await);
            assert_eq!(store.changes(0, 100).await.unwrap(), changes);
            assert_eq!(trees(&folder), [format!("tree-{round}")], "reopened: {reopened}");
            assert!(home(&folder).join("db").exists() && !folder.path().join("store/db").exists());
            if !reopened {
                store = store.reopen().unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_sees_two_trees_at_once() {
    let folder = folder();
    let store = Arc::new(open(&folder));
    let ended = Arc::new(AtomicBool::new(false));
    // Write the same number under each key, some with values in pieces.
    let write = |n: u8| Batch::of(vec![], (0..12).map(|k| Write::put(Space::Kv, key(k), vec![n; 1 + k % 3 * 5_000])).collect());
    store.apply(write(0), Buffered).await.unwrap();
    let writer = {
        let (store, ended) = (Arc::clone(&store), Arc::clone(&ended));
        tokio::spawn(async move {
            for n in (0..=u8::MAX).cycle() {
                if ended.load(SeqCst) {
                    return;
                }
                store.apply(write(n), Buffered).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    };
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, ended) = (Arc::clone(&store), Arc::clone(&ended));
            tokio::spawn(async move {
                while !ended.load(SeqCst) {
                    let rows = all(&*store, Space::Kv).await;
                    let numbers: Vec<u8> = rows.iter().map(|(_, value)| value[0]).collect();
                    assert!(rows.len() == 12 && numbers.iter().all(|n| *n == numbers[0]), "{numbers:?}");
                    assert!(store.get(Space::Kv, &key(2)).await.unwrap().is_some());
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..3 {
        store.renew().await.unwrap();
    }
    ended.store(true, SeqCst);
    writer.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test]
async fn a_renewal_without_room_is_dropped_and_reported_until_there_is_room() {
    let folder = folder();
    let free = Arc::new(AtomicU64::new(1 << 40));
    let reported = Arc::clone(&free);
    let free_bytes = Arc::new(move |_: &std::path::Path| Ok(reported.load(SeqCst)));
    let config = SledConfig { reserved_bytes: 0, free_bytes, ..SledConfig::default() };
    let store = SledStore::open(folder.path().join("store"), config).unwrap();
    fill(&store, 300).await;
    free.store(1_000, SeqCst);
    for _ in 0..2 {
        let refused = store.renew().await.unwrap_err();
        assert!(matches!(&refused, StoreError::Away(reason) if reason.contains("1000 bytes are free")), "{refused:?}");
        assert!(store.sizes().renewal_fails.is_some_and(|reason| reason.contains("1000 bytes are free")));
        assert_eq!(trees(&folder), [""; 0], "an unfinished tree is still there");
        put(&store, Space::Kv, b"later", b"value").await;
        assert_eq!(all(&store, Space::Kv).await.len(), 301, "the tree there is goes on");
    }
    free.store(1 << 40, SeqCst);
    store.renew().await.unwrap();
    assert_eq!(store.sizes().renewal_fails, None);
    assert_eq!(all(&store, Space::Kv).await.len(), 301);
}

/// Simulates a failure to create the folder, or to open sled in it.
#[tokio::test]
async fn a_renewal_that_fails_in_flight_leaves_the_tree_there_is() {
    let folder = folder();
    let mut store = open(&folder);
    fill(&store, 300).await;
    // Block the file that names the current tree.
    let obstacle = folder.path().join("store/tree-in-force.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    for _ in 0..2 {
        store.renew().await.unwrap_err();
        assert!(store.sizes().renewal_fails.is_some());
        assert_eq!(trees(&folder), [""; 0], "an unfinished tree is still there");
        put(&store, Space::Kv, b"later", b"value").await;
    }
    std::fs::remove_dir(&obstacle).unwrap();
    store = store.reopen().unwrap();
    store.renew().await.unwrap();
    assert_eq!(all(&store, Space::Kv).await.len(), 301);
}

#[tokio::test]
async fn half_made_trees_are_never_read_and_go_at_the_next_start() {
    let folder = folder();
    let path = folder.path().join("store");
    let mut store = open(&folder);
    fill(&store, 300).await;
    for in_a_folder in [false, true] {
        if in_a_folder {
            store.renew().await.unwrap();
        }
        drop(store);
        let half = path.join("tree-7");
        std::fs::create_dir_all(half.join("blobs")).unwrap();
        std::fs::write(half.join("db"), bytes(10_000)).unwrap();
        std::fs::write(path.join("tree-in-force.tmp"), "tree-7").unwrap();
        store = open(&folder);
        assert_eq!(all(&store, Space::Kv).await.len(), 300);
        assert!(!half.exists() && !path.join("tree-in-force.tmp").exists());
    }
}

#[tokio::test]
async fn a_tree_in_force_that_is_damaged_or_not_there_is_rebuilt() {
    let folder = folder();
    let (mut chance, mut model) = (Chance::seeded(), BTreeMap::new());
    let damages: [fn(&TempDir); 7] = [
        |folder| flip(&home(folder).join("db"), 20_000),
        |folder| flip(&home(folder).join("conf"), 10),
        |folder| std::fs::remove_file(home(folder).join("db")).unwrap(),
        |folder| std::fs::remove_dir_all(home(folder)).unwrap(),
        |folder| std::fs::write(folder.path().join("store/tree-in-force"), "").unwrap(),
        |folder| flip(&folder.path().join("store/tree-in-force"), 5),
        |folder| std::fs::remove_file(folder.path().join("store/tree-in-force")).unwrap(),
    ];
    for damage in damages {
        let store = open(&folder);
        for _ in 0..100 {
            step(&store, &mut model, &mut chance).await;
        }
        store.renew().await.unwrap();
        drop(store);
        damage(&folder);
        let store = open(&folder).reopen().unwrap();
        same_as(&store, &model).await;
        assert_eq!(rows_of(&store).await, counted(&store).await);
        assert!(trees(&folder).is_empty() && folder.path().join("store/db").exists());
    }
}

#[tokio::test]
async fn checkpoints_and_starts_continue_from_another_tree() {
    let folder = folder();
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 128 * 1024, ..SledConfig::default() };
    let open = || SledStore::open(folder.path().join("store"), config.clone()).unwrap();
    let store = open();
    let (mut chance, mut model) = (Chance::seeded(), BTreeMap::new());
    let mut checkpoint = None;
    for _ in 0..3 {
        store.renew().await.unwrap();
        let before = checkpoint.clone();
        while checkpoint == before {
            for _ in 0..50 {
                step(&store, &mut model, &mut chance).await;
            }
            checkpoint =
                files_of(&folder.path().join("store")).into_iter().rfind(|file| file.extension().is_some_and(|at| at == "checkpoint"));
        }
    }
    drop(store);
    same_as(&open(), &model).await;
    std::fs::remove_dir_all(home(&folder)).unwrap();
    same_as(&open(), &model).await;
}

/// The variable with the folder of the killed child: see [`no_kill_of_a_renewal_loses_anything`].
const CHILD_FOLDER: &str = "TOLLHOUSE_TEST_RENEWED_FOLDER";
/// The variable with the number of kills. `cargo xtask renewals` sets a higher one.
const ROUNDS: &str = "TOLLHOUSE_RENEWAL_ROUNDS";
/// Number of rows that each renewal must walk.
const ROWS: usize = 300;

#[tokio::test]
async fn no_kill_of_a_renewal_loses_anything() {
    #[expect(clippy::disallowed_methods, reason = "how the long form asks for more")]
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    let mut chance = Chance::seeded();
    let folder = folder();
    fill(&open(&folder), ROWS).await;
    let (mut floor, mut unfinished) = (0, 0);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "renewal::child_renews_until_killed", "--ignored", "--nocapture"])
            .env(CHILD_FOLDER, folder.path().join("store"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut durable = lines.filter_map(|line| line.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok()));
        // Some kills come in the first renewal, others in a later one.
        let requested = 1 + chance.below(if round % 2 == 0 { 40 } else { 400 });
        let last = durable.by_ref().take(requested).last().expect("the child commits");
        child.kill().unwrap();
        child.wait().unwrap();
        // The last output before the child was gone.
        let last = durable.last().unwrap_or(last);

        unfinished += usize::from(trees(&folder).len() > usize::from(folder.path().join("store/tree-in-force").exists()));
        let store = open(&folder);
        let found = number(&store, b"n").await;
        assert!(found >= last && last > floor, "round {round}: {last} was acknowledged, {found} is there, {floor} was before");
        let pair = store.get(Space::Receipts, b"n").await.unwrap().unwrap();
        assert!(pair == found.to_be_bytes().repeat(900), "round {round}: one half of a commit is of another");
        assert_eq!(store.count(Space::Kv, KeyRange::all(), usize::MAX).await.unwrap(), ROWS + 1, "round {round}");
        assert_eq!(rows_of(&store).await, counted(&store).await, "round {round}");
        assert!(trees(&folder).len() <= 1, "round {round}: {:?}", trees(&folder));
        floor = found;
    }
    println!("{rounds} kills, {unfinished} of them while another tree was made");
}

/// Not a test: the process that [`no_kill_of_a_renewal_loses_anything`] starts and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by another test"]
async fn child_renews_until_killed() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let config = SledConfig { segment_bytes: 64 * 1024, checkpoint_bytes: 128 * 1024, ..SledConfig::default() };
    let store = Arc::new(SledStore::open(folder, config).unwrap());
    let renewed = Arc::clone(&store);
    tokio::spawn(async move {
        loop {
            renewed.renew().await.unwrap();
        }
    });
    for n in number(&*store, b"n").await + 1.. {
        // Values in pieces, so that kills also come between these.
        let writes = vec![Write::put(Space::Kv, b"n", n.to_be_bytes()), Write::put(Space::Receipts, b"n", n.to_be_bytes().repeat(900))];
        let durability = if n % 3 == 0 { Buffered } else { Durable };
        store.apply(Batch::of(vec![], writes), durability).await.unwrap();
        if durability == Durable {
            println!("durable {n}");
        }
    }
}

/// `cargo test --release --test store_contract -- --ignored --nocapture figures_of_a_renewal`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, asserts nothing"]
async fn figures_of_a_renewal() {
    let folder = folder();
    let store = Arc::new(open(&folder));
    for n in 0..1_000 {
        let writes = (0..100).map(|k| Write::put(Space::Receipts, [key(n), key(k)].concat(), bytes(500))).collect();
        store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    }
    for (durability, tasks) in [(Durable, 1), (Durable, 32), (Buffered, 32)] {
        for renewing in [false, true] {
            let ended = Arc::new(AtomicBool::new(false));
            let running: Vec<_> =
                (0..tasks).map(|task| tokio::spawn(commit(Arc::clone(&store), Arc::clone(&ended), durability, task))).collect();
            let started = Instant::now();
            let before = store.disk_bytes().unwrap();
            if renewing {
                store.renew().await.unwrap();
            } else {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            let elapsed = started.elapsed();
            ended.store(true, SeqCst);
            let mut waits = Vec::new();
            for task in running {
                waits.extend(task.await.unwrap());
            }
            waits.sort_unstable();
            let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
            println!(
                "{durability:?}, {tasks} tasks, renewing: {renewing}: {elapsed:.1?}, {:.0} commits/s, p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, longest {:.2?}; {} -> {} KiB",
                waits.len() as f64 / elapsed.as_secs_f64(),
                at(0.5),
                at(0.99),
                at(0.999),
                at(1.0),
                before / 1_024,
                store.disk_bytes().unwrap() / 1_024,
            );
        }
    }
}

/// Makes commits like those of calls until `ended` is set: a new row, a sum, and a deleted row.
/// Returns the duration of each.
async fn commit(store: Arc<SledStore>, ended: Arc<AtomicBool>, durability: Durability, task: usize) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !ended.load(SeqCst) {
        let n = waits.len();
        let position = |n: usize| [key(task), key(n)].concat();
        let mut writes = vec![Write::put(Space::Logs, position(n), bytes(400))];
        writes.extend(n.checked_sub(500).map(|old| Write::delete(Space::Logs, position(old))));
        let add = Add { space: Space::Credits, key: key(task).to_vec(), by: 1, limit: SumLimit::Floor(0) };
        let started = Instant::now();
        store.apply(Batch { adds: vec![add], ..Batch::of(vec![], writes) }, durability).await.unwrap();
        waits.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    waits
}

#[tokio::test]
async fn a_store_that_is_closed_ends_its_renewal() {
    let folder = folder();
    let store = Arc::new(open(&folder));
    for n in 0..40 {
        put(&*store, Space::Kv, &key(n), &bytes(100_000)).await;
    }
    let renewed = Arc::clone(&store);
    let renewing = tokio::spawn(async move { renewed.renew().await });
    until(|| !trees(&folder).is_empty()).await;
    renewing.abort();
    _ = renewing.await;
    drop(Arc::into_inner(store).unwrap());
    let store = open(&folder);
    assert_eq!(all(&store, Space::Kv).await.len(), 40);
    assert!(trees(&folder).len() <= 1);
}
