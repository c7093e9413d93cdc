//! A tree that is made anew while it is in use: what is on the disk stays in proportion to what is held, and nothing else changes.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use super::{
    damage::until,
    harness::*,
    history::{Chance, same_as, step},
    questions::{counted, told},
};

/// A store whose tree is large at once.
pub fn eager() -> SledConfig {
    SledConfig { tree_bytes: 1, segment_bytes: 256 * 1024, checkpoint_bytes: 512 * 1024, ..SledConfig::default() }
}

/// The folders of trees that were made anew, whole or not.
pub fn renewed(store: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = store.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir() && path.file_name().unwrap().to_str().unwrap().starts_with("tree-"));
    found
}

/// What a busy machine may need.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes the same rows over and over, spread over the tree, until it `is_so`.
async fn overwrite(store: &SledStore, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    for round in 0.. {
        if is_so() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "it did not come to be");
        let writes = (0..40).map(|n| Write::put(Space::Kv, key((round * 40 + n) * 97 % 300), bytes_of(round % 200, 1_000))).collect();
        store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_on_disk_stays_in_proportion_to_what_it_holds() {
    let folder = folder();
    let path = folder.path().join("store");
    let config = SledConfig { tree_bytes: 4 << 20, ..SledConfig::default() };
    let store = SledStore::open(&path, config).unwrap();
    for n in 1..=3 {
        let home = path.join(format!("tree-{n}"));
        overwrite(&store, || home.join("whole").exists()).await;
        // Those before it go.
        until(|| renewed(&path) == [home.clone()] && !path.join("db").exists() && !path.join("conf").exists()).await;
        until(|| store.disk_bytes().unwrap() <= 4 << 20).await;
    }
    assert_eq!(told(&store).await, counted(&store).await);
    let rows = all(&store, Space::Kv).await;
    let store = store.reopen().unwrap();
    assert!(all(&store, Space::Kv).await == rows && rows.len() == 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_and_reads_go_on_while_a_tree_is_made_anew() {
    let folder = folder();
    let path = folder.path().join("store");
    let mut chance = Chance::seeded();
    let mut model = BTreeMap::new();
    let mut store = SledStore::open(&path, eager()).unwrap();
    let mut trees = 0;
    while trees < 4 {
        let before = renewed(&path);
        for _ in 0..50 {
            step(&store, &mut model, &mut chance).await;
        }
        overwrite_beside(&store).await;
        let is_another = renewed(&path) != before;
        trees += usize::from(is_another);
        if trees == 2 && is_another {
            store = store.reopen().unwrap();
        }
    }
    same_as(&store, &model).await;
    assert_eq!(told(&store).await, counted(&store).await);
    same_as(&store.reopen().unwrap(), &model).await;
}

/// Makes the tree large, in a space that the histories leave alone.
async fn overwrite_beside(store: &SledStore) {
    for n in 0..20 {
        put(store, Space::Files, &key(n % 4), &bytes(30_000 + n)).await;
    }
}

/// A tree is cut off while it is filled, or the one before while it is removed.
#[tokio::test]
async fn what_a_cut_off_renewal_leaves_is_told_apart() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = open(&folder);
    fill(&store, 300).await;
    drop(store);
    let rows = all(&open(&folder), Space::Kv).await;
    let next = path.join("tree-1");

    // Nothing of it says that it is whole.
    std::fs::create_dir(&next).unwrap();
    std::fs::copy(path.join("conf"), next.join("conf")).unwrap();
    std::fs::write(next.join("db"), &std::fs::read(path.join("db")).unwrap()[..10_000]).unwrap();
    assert!(all(&open(&folder), Space::Kv).await == rows);
    assert!(!next.exists() && path.join("db").exists());

    // All of it is there, and the one before is not yet gone.
    copy_tree(&path, &next);
    std::fs::write(next.join("whole"), "").unwrap();
    put(&open(&folder), Space::Kv, b"later", b"value").await;
    assert!(next.exists() && !path.join("db").exists() && !path.join("conf").exists());
    assert_eq!(all(&open(&folder), Space::Kv).await.len(), rows.len() + 1);

    // A part of the one before is gone.
    std::fs::write(path.join("conf"), "half").unwrap();
    assert_eq!(all(&open(&folder), Space::Kv).await.len(), rows.len() + 1);
    assert!(!path.join("conf").exists());

    // It is damaged.
    for damage in [|tree: &Path| flip(&tree.join("conf"), 10), |tree: &Path| std::fs::remove_file(tree.join("db")).unwrap()] {
        std::fs::create_dir_all(&next).unwrap();
        if path.join("db").exists() {
            copy_tree(&path, &next);
        }
        std::fs::write(next.join("whole"), "").unwrap();
        damage(&next);
        assert_eq!(all(&open(&folder), Space::Kv).await.len(), rows.len() + 1);
        assert!(!next.exists() && path.join("db").exists() && path.join("aside/tree-1").exists());
    }
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("blobs")).unwrap();
    for file in files_of(from) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if name == "db" || name == "conf" || name.starts_with("snap.") {
            std::fs::copy(&file, to.join(name)).unwrap();
        }
    }
}

/// Full before it is begun, and at any time while it is filled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_does_not_fit_on_the_disk_goes_and_the_one_before_stays() {
    for full_at in [0, 1, 4] {
        let folder = folder();
        let path = folder.path().join("store");
        let asked = Arc::new(AtomicU64::new(0));
        let asking = Arc::clone(&asked);
        let free_bytes = Arc::new(move |_: &Path| {
            let of_the_tree = std::thread::current().name() == Some("store-keeper");
            Ok(if of_the_tree && asking.fetch_add(1, SeqCst) == full_at { 0 } else { 1 << 40 })
        });
        let config = SledConfig { tree_bytes: 1, kept_free_bytes: 1, free_bytes, ..SledConfig::default() };
        let store = SledStore::open(&path, config).unwrap();
        overwrite(&store, || asked.load(SeqCst) > full_at).await;
        until(|| renewed(&path).is_empty()).await;
        assert!(path.join("db").exists());
        put(&store, Space::Kv, b"more", b"value").await;
        assert_eq!(told(&store).await, counted(&store).await);
        let store = store.reopen().unwrap();
        overwrite(&store, || !path.join("db").exists()).await;
        assert_eq!(told(&store).await, counted(&store).await);
        assert_eq!(store.get(Space::Kv, b"more").await.unwrap(), Some(b"value".to_vec()));
    }
}

/// What the killed child writes to: see [`no_kill_while_a_tree_is_made_anew_loses_anything`].
const CHILD_FOLDER: &str = "TOLLHOUSE_TEST_RENEWED_FOLDER";
/// How many kills there are to be: `cargo xtask crash` asks for more.
const ASKED: &str = "TOLLHOUSE_CRASH_ROUNDS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_while_a_tree_is_made_anew_loses_anything() {
    #[expect(clippy::disallowed_methods, reason = "how the long form asks for more")]
    let rounds = std::env::var(ASKED).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(8);
    let mut chance = Chance::seeded();
    let folder = folder();
    let path = folder.path().join("store");
    let (mut acknowledged, mut halves, mut wholes) = (0, 0, 0);
    for round in 0..rounds {
        let mut child = writing(&path);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let begun = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("wrote "))).unwrap().unwrap();
        acknowledged = acknowledged.max(number_of(&begun));
        // Half of them while a tree is being filled, where there is one in time.
        for _ in 0..300 {
            if round % 2 == 1 || renewed(&path).iter().any(|home| !home.join("whole").exists()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(chance.below(if round % 2 == 1 { 1_500 } else { 60 }) as u64));
        child.kill().unwrap();
        acknowledged = lines.map_while(Result::ok).map(|line| number_of(&line)).fold(acknowledged, u64::max);
        child.wait().unwrap();
        halves += renewed(&path).iter().filter(|home| !home.join("whole").exists()).count();
        wholes += usize::from(!path.join("db").exists());
        let store = SledStore::open(&path, SledConfig::default()).unwrap();
        let held = all(&store, Space::Receipts).await;
        assert!(held.len() as u64 >= acknowledged, "round {round}: {} of {acknowledged} receipts", held.len());
        assert!((0..).zip(&held).all(|(n, (found, value))| *found == key(n) && *value == bytes(300)), "round {round}");
        assert_eq!(told(&store).await, counted(&store).await, "round {round}");
    }
    println!("{rounds} kills, {halves} of them in the middle of a new tree, {wholes} on one");
}

fn number_of(line: &str) -> u64 {
    line.strip_prefix("wrote ").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn writing(store: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "renewal::child_writes_to_a_store", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, store)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test: the process that [`no_kill_while_a_tree_is_made_anew_loses_anything`] starts and kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn child_writes_to_a_store() {
    #[expect(clippy::disallowed_methods, reason = "how the parent names the folder")]
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = SledStore::open(folder, eager()).unwrap();
    fill(&store, 1_500).await;
    let first = all(&store, Space::Receipts).await.len();
    for n in first.. {
        let receipt = Write::put(Space::Receipts, key(n), bytes(300));
        let mut writes = vec![receipt];
        writes.extend((0..30).map(|m| Write::put(Space::Logs, key(m * 97 % 400), bytes_of(n % 200, 1_000))));
        store.apply(Batch::of(vec![], writes), Durable).await.unwrap();
        println!("wrote {}", n + 1);
    }
}
