//! The same questions to every backend of the store.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests fail by panicking and print their seeds")]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    ops::Bound,
    process::{Command, Stdio},
    sync::Arc,
};

use tempfile::TempDir;
use tollhouse::store::{
    Check, Direction, Durability, KeyRange, MAX_KEY_BYTES, MAX_VALUE_BYTES, Pairs, Space, Store, StoreError, Write,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
    sled::{OpenError, SledConfig, SledStore},
};

use Direction::{Backward, Forward};
use Durability::{Buffered, Durable};

/// Runs each question once per backend, on a store of its own.
macro_rules! contract {
    ($($question:ident),* $(,)?) => {
        mod memory { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() { super::$question(super::MemoryStore::new()).await; }
        )* }
        mod sled { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $question() {
                let folder = super::folder();
                super::$question(super::open(&folder)).await;
            }
        )* }
    };
}

contract! {
    absent_key_has_no_value,
    written_value_is_read_back,
    values_of_every_size_are_read_back,
    large_value_gives_way_to_a_small_one,
    empty_key_and_value_are_a_key_and_a_value,
    scan_is_in_key_order,
    scan_keeps_to_its_limit_from_either_end,
    bounds_are_kept,
    pages_follow_each_other,
    prefix_of_0xff_reaches_the_end_of_its_space_only,
    spaces_do_not_mix,
    failed_check_leaves_nothing,
    absent_check_wants_absence,
    check_compares_whole_values,
    checks_span_spaces,
    many_writes_are_all_or_nothing,
    deleted_key_is_gone,
    same_key_twice_takes_the_last_write,
    too_long_is_refused_and_nothing_written,
    commit_without_writes_still_checks,
    concurrent_increments_lose_nothing,
    one_of_many_claims_wins,
    scan_never_sees_half_a_commit,
    random_history_matches_a_map,
    faults_are_as_planned,
}

// ---- questions ----

async fn absent_key_has_no_value(store: impl Store) {
    assert_eq!(store.get(Space::Kv, b"nothing").await.unwrap(), None);
    assert_eq!(all(&store, Space::Kv).await, Pairs::new());
}

async fn written_value_is_read_back(store: impl Store) {
    put(&store, Space::Kv, b"k", b"v").await;
    assert_eq!(store.get(Space::Kv, b"k").await.unwrap(), Some(b"v".to_vec()));
    put(&store, Space::Kv, b"k", b"w").await;
    assert_eq!(store.get(Space::Kv, b"k").await.unwrap(), Some(b"w".to_vec()));
}

async fn values_of_every_size_are_read_back(store: impl Store) {
    let sizes = [0, 1, 4_095, 4_096, 4_097, 8_192, 8_193, 65_536, 262_144, 1_048_577];
    for size in sizes {
        put(&store, Space::Files, &key(size), &bytes(size)).await;
    }
    for size in sizes {
        assert!(store.get(Space::Files, &key(size)).await.unwrap() == Some(bytes(size)), "{size} bytes");
    }
    let found = all(&store, Space::Files).await;
    assert!(found == sizes.map(|size| (key(size).to_vec(), bytes(size))), "a scan gives them whole and once");
}

async fn large_value_gives_way_to_a_small_one(store: impl Store) {
    for size in [100_000, 10, 9_000, 50_000, 5_000, 0] {
        put(&store, Space::Files, b"k", &bytes(size)).await;
        assert!(all(&store, Space::Files).await == [(b"k".to_vec(), bytes(size))], "{size} bytes");
    }
    delete(&store, Space::Files, b"k").await;
    put(&store, Space::Files, b"k", &bytes(4_097)).await;
    assert!(store.get(Space::Files, b"k").await.unwrap() == Some(bytes(4_097)));
}

async fn empty_key_and_value_are_a_key_and_a_value(store: impl Store) {
    put(&store, Space::Kv, b"", b"").await;
    assert_eq!(store.get(Space::Kv, b"").await.unwrap(), Some(vec![]));
    assert_eq!(all(&store, Space::Kv).await, [(vec![], vec![])]);
    assert_eq!(store.get(Space::Files, b"").await.unwrap(), None);
}

async fn scan_is_in_key_order(store: impl Store) {
    let mut keys: Vec<&[u8]> = vec![b"b", b"a", b"ab", b"", b"\xff", b"a\x00", b"\x00", b"aa", b"\xff\xff", b"\x7f", b"\x80"];
    for key in &keys {
        put(&store, Space::Logs, key, key).await;
    }
    keys.sort_unstable();
    assert_eq!(names(&all(&store, Space::Logs).await), keys);
    keys.reverse();
    assert_eq!(names(&store.scan(Space::Logs, KeyRange::all(), 100, Backward).await.unwrap()), keys);
}

async fn scan_keeps_to_its_limit_from_either_end(store: impl Store) {
    fill(&store, 100).await;
    let first = store.scan(Space::Kv, KeyRange::all(), 3, Forward).await.unwrap();
    assert_eq!(names(&first), [key(0), key(1), key(2)]);
    let last = store.scan(Space::Kv, KeyRange::all(), 3, Backward).await.unwrap();
    assert_eq!(names(&last), [key(99), key(98), key(97)]);
    assert_eq!(store.scan(Space::Kv, KeyRange::all(), 0, Forward).await.unwrap(), Pairs::new());
    assert_eq!(store.scan(Space::Kv, KeyRange::all(), 1_000, Backward).await.unwrap().len(), 100);
}

async fn bounds_are_kept(store: impl Store) {
    fill(&store, 10).await;
    let (three, six) = (key(3).to_vec(), key(6).to_vec());
    let cases = [
        (Bound::Included(three.clone()), Bound::Included(six.clone()), 3..7),
        (Bound::Included(three.clone()), Bound::Excluded(six.clone()), 3..6),
        (Bound::Excluded(three.clone()), Bound::Included(six.clone()), 4..7),
        (Bound::Excluded(three.clone()), Bound::Excluded(six.clone()), 4..6),
        (Bound::Unbounded, Bound::Excluded(three.clone()), 0..3),
        (Bound::Excluded(six.clone()), Bound::Unbounded, 7..10),
        (Bound::Included(six.clone()), Bound::Included(three.clone()), 0..0),
        (Bound::Excluded(three.clone()), Bound::Excluded(three), 0..0),
    ];
    for (start, end, wanted) in cases {
        let range = KeyRange { start, end };
        let mut wanted: Vec<_> = wanted.map(key).collect();
        assert_eq!(names(&store.scan(Space::Kv, range.clone(), 100, Forward).await.unwrap()), wanted, "{range:?}");
        wanted.reverse();
        assert_eq!(names(&store.scan(Space::Kv, range.clone(), 100, Backward).await.unwrap()), wanted, "{range:?} backward");
    }
}

async fn pages_follow_each_other(store: impl Store) {
    fill(&store, 25).await;
    for direction in [Forward, Backward] {
        let mut seen = Pairs::new();
        let mut range = KeyRange::prefix(b"");
        loop {
            let page = store.scan(Space::Kv, range.clone(), 10, direction).await.unwrap();
            let Some((last, _)) = page.last().cloned() else { break };
            range = match direction {
                Forward => range.after(&last),
                Backward => range.before(&last),
            };
            seen.extend(page);
        }
        assert_eq!(seen, store.scan(Space::Kv, KeyRange::all(), 100, direction).await.unwrap());
    }
}

async fn prefix_of_0xff_reaches_the_end_of_its_space_only(store: impl Store) {
    for key in [&b"\xfe"[..], b"\xfe\xff", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff"] {
        put(&store, Space::Kv, key, b"").await;
        put(&store, Space::KvUsage, key, b"").await;
    }
    let under = async |prefix: &[u8]| {
        let found = store.scan(Space::Kv, KeyRange::prefix(prefix), 100, Forward).await.unwrap();
        found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(under(b"\xff").await, [&b"\xff"[..], b"\xff\x00", b"\xff\xff", b"\xff\xff\xff"]);
    assert_eq!(under(b"\xff\xff").await, [&b"\xff\xff"[..], b"\xff\xff\xff"]);
    assert_eq!(under(b"\xfe").await, [&b"\xfe"[..], b"\xfe\xff"]);
    assert_eq!(under(b"\xfe\xff").await, [b"\xfe\xff"]);
    assert_eq!(under(b"").await.len(), 6);
}

async fn spaces_do_not_mix(store: impl Store) {
    put(&store, Space::Receipts, b"k", b"receipts").await;
    put(&store, Space::Payments, b"k", b"payments").await;
    put(&store, Space::Endpoints, b"\xff\xff", b"endpoints").await;
    delete(&store, Space::Payments, b"k").await;
    assert_eq!(all(&store, Space::Receipts).await, [(b"k".to_vec(), b"receipts".to_vec())]);
    assert_eq!(all(&store, Space::Payments).await, Pairs::new());
    assert_eq!(all(&store, Space::Versions).await, Pairs::new());
    assert_eq!(all(&store, Space::Meta).await, Pairs::new());
}

async fn failed_check_leaves_nothing(store: impl Store) {
    put(&store, Space::Kv, b"k", b"old").await;
    let writes = vec![Write::put(Space::Kv, b"k", b"new"), Write::put(Space::Logs, b"l", b"new")];
    let refused = store.commit(vec![Check::holds(Space::Kv, b"k", b"other")], writes, Durable).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
    assert_eq!(store.get(Space::Kv, b"k").await.unwrap(), Some(b"old".to_vec()));
    assert_eq!(store.get(Space::Logs, b"l").await.unwrap(), None);
}

async fn absent_check_wants_absence(store: impl Store) {
    let claim = || store.commit(vec![Check::absent(Space::Payments, b"p")], vec![Write::put(Space::Payments, b"p", b"")], Durable);
    claim().await.unwrap();
    assert!(matches!(claim().await, Err(StoreError::Conflict)), "an empty value is there");
    delete(&store, Space::Payments, b"p").await;
    claim().await.unwrap();
}

async fn check_compares_whole_values(store: impl Store) {
    let value = bytes(10_000);
    put(&store, Space::Kv, b"k", &value).await;
    let mut other = value.clone();
    *other.last_mut().unwrap() ^= 1;
    for wrong in [other, value[..9_999].to_vec(), vec![]] {
        let refused = store.commit(vec![Check::holds(Space::Kv, b"k", wrong)], vec![], Buffered).await;
        assert!(matches!(refused, Err(StoreError::Conflict)));
    }
    store.commit(vec![Check::holds(Space::Kv, b"k", value)], vec![], Buffered).await.unwrap();
}

async fn checks_span_spaces(store: impl Store) {
    put(&store, Space::Kv, b"a", b"1").await;
    put(&store, Space::Credits, b"b", b"2").await;
    let both = |b: &[u8]| vec![Check::holds(Space::Kv, b"a", b"1"), Check::holds(Space::Credits, b"b", b)];
    let write = || vec![Write::put(Space::Receipts, b"r", b"")];
    assert!(matches!(store.commit(both(b"3"), write(), Durable).await, Err(StoreError::Conflict)));
    assert_eq!(store.get(Space::Receipts, b"r").await.unwrap(), None);
    store.commit(both(b"2"), write(), Durable).await.unwrap();
    assert_eq!(store.get(Space::Receipts, b"r").await.unwrap(), Some(vec![]));
}

async fn many_writes_are_all_or_nothing(store: impl Store) {
    let spaces = [Space::Kv, Space::Files, Space::Logs, Space::Receipts];
    let writes = |tag: &'static [u8]| -> Vec<Write> {
        (0..400).map(|n| Write::put(spaces[n % 4], key(n), [tag, &bytes(n * 40)].concat())).collect()
    };
    store.commit(vec![Check::absent(Space::Kv, key(0))], writes(b"1"), Durable).await.unwrap();
    let again = store.commit(vec![Check::absent(Space::Kv, key(0))], writes(b"2"), Durable).await;
    assert!(matches!(again, Err(StoreError::Conflict)));
    for n in 0..400 {
        let value = store.get(spaces[n % 4], &key(n)).await.unwrap();
        assert!(value == Some([&b"1"[..], &bytes(n * 40)].concat()), "write {n}");
    }
}

async fn deleted_key_is_gone(store: impl Store) {
    fill(&store, 3).await;
    delete(&store, Space::Kv, &key(1)).await;
    delete(&store, Space::Kv, b"never was there").await;
    assert_eq!(store.get(Space::Kv, &key(1)).await.unwrap(), None);
    assert_eq!(names(&all(&store, Space::Kv).await), [key(0), key(2)]);
}

async fn same_key_twice_takes_the_last_write(store: impl Store) {
    let put = |value: Vec<u8>| Write::put(Space::Kv, b"k", value);
    let delete = || Write::delete(Space::Kv, b"k");
    for (writes, left) in [
        (vec![put(bytes(1)), put(bytes(2))], Some(bytes(2))),
        (vec![put(bytes(9_000)), put(bytes(3))], Some(bytes(3))),
        (vec![put(bytes(4)), delete()], None),
        (vec![delete(), put(bytes(20_000))], Some(bytes(20_000))),
        (vec![put(bytes(50_000)), delete(), put(bytes(5_000))], Some(bytes(5_000))),
    ] {
        store.commit(vec![], writes, Buffered).await.unwrap();
        assert!(store.get(Space::Kv, b"k").await.unwrap() == left);
        assert_eq!(all(&store, Space::Kv).await.len(), usize::from(left.is_some()));
    }
}

async fn too_long_is_refused_and_nothing_written(store: impl Store) {
    put(&store, Space::Kv, &vec![7; MAX_KEY_BYTES], b"longest key").await;
    put(&store, Space::Kv, b"longest value", &vec![7; MAX_VALUE_BYTES]).await;
    for write in [Write::put(Space::Kv, vec![8; MAX_KEY_BYTES + 1], b""), Write::put(Space::Kv, b"k", vec![8; MAX_VALUE_BYTES + 1])] {
        let refused = store.commit(vec![], vec![Write::put(Space::Logs, b"other", b""), write], Buffered).await;
        assert!(matches!(refused, Err(StoreError::Away(_))), "{refused:?}");
    }
    assert_eq!(all(&store, Space::Kv).await.len(), 2);
    assert_eq!(store.get(Space::Kv, b"longest value").await.unwrap().unwrap().len(), MAX_VALUE_BYTES);
    assert_eq!(store.get(Space::Logs, b"other").await.unwrap(), None);
}

async fn commit_without_writes_still_checks(store: impl Store) {
    store.commit(vec![], vec![], Durable).await.unwrap();
    store.commit(vec![Check::absent(Space::Kv, b"k")], vec![], Durable).await.unwrap();
    assert!(matches!(store.commit(vec![Check::holds(Space::Kv, b"k", b"")], vec![], Durable).await, Err(StoreError::Conflict)));
}

async fn concurrent_increments_lose_nothing(store: impl Store) {
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..64_u64)
        .map(|task| {
            let store = Arc::clone(&store);
            let durability = if task % 2 == 0 { Durable } else { Buffered };
            tokio::spawn(async move {
                for _ in 0..5 {
                    increment(&*store, b"n", durability).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&*store, b"n").await, 320);
}

async fn one_of_many_claims_wins(store: impl Store) {
    let store = Arc::new(store);
    let claims: Vec<_> = (0..64_u8)
        .map(|claimant| {
            let store = Arc::clone(&store);
            let claim = async move {
                let (checks, writes) = (vec![Check::absent(Space::Payments, b"p")], vec![Write::put(Space::Payments, b"p", [claimant])]);
                store.commit(checks, writes, Durable).await
            };
            (claimant, tokio::spawn(claim))
        })
        .collect();
    let mut winners = Vec::new();
    for (claimant, claim) in claims {
        match claim.await.unwrap() {
            Ok(()) => winners.push(claimant),
            Err(error) => assert!(matches!(error, StoreError::Conflict), "{error}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(store.get(Space::Payments, b"p").await.unwrap(), Some(winners));
}

async fn scan_never_sees_half_a_commit(store: impl Store) {
    let store = Arc::new(store);
    let write = |round: usize| (0..20).map(|n| Write::put(Space::Kv, key(n), bytes_of(round, 3_000 + n * 300))).collect::<Vec<_>>();
    store.commit(vec![], write(0), Buffered).await.unwrap();
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for round in 1..60 {
                store.commit(vec![], write(round), Buffered).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        let found = all(&*store, Space::Kv).await;
        let round = found[0].1[0];
        for (n, (_, value)) in found.iter().enumerate() {
            assert!(*value == bytes_of(usize::from(round), 3_000 + n * 300), "value {n} is of another round than {round}");
        }
        let one = store.get(Space::Kv, &key(19)).await.unwrap().unwrap();
        assert!(one == bytes_of(usize::from(one[0]), 3_000 + 19 * 300));
    }
    writer.await.unwrap();
}

async fn random_history_matches_a_map(store: impl Store) {
    let mut chance = Chance::seeded();
    let mut model: BTreeMap<(Space, Vec<u8>), Vec<u8>> = BTreeMap::new();
    for _ in 0..1_500 {
        step(&store, &mut model, &mut chance).await;
    }
    same_as(&store, &model).await;
}

async fn faults_are_as_planned(store: impl Store) {
    let store = FaultyStore::new(store);
    let claim = |k: &'static [u8]| (vec![Check::absent(Space::Kv, k)], vec![Write::put(Space::Kv, k, b"")], Durable);
    let commit = async |k: &'static [u8]| {
        let (checks, writes, durability) = claim(k);
        store.commit(checks, writes, durability).await
    };
    let there = async |k: &[u8]| store.get(Space::Kv, k).await.unwrap().is_some();

    store.fail_nth(2, Fault::Before);
    store.fail_nth(3, Fault::After);
    store.fail_nth(4, Fault::Lost);
    store.fail_nth(5, Fault::After);
    commit(b"1").await.unwrap();
    assert!(matches!(commit(b"2").await, Err(StoreError::Away(_))) && !there(b"2").await);
    assert!(matches!(commit(b"3").await, Err(StoreError::Unknown(_))) && there(b"3").await);
    assert!(matches!(commit(b"4").await, Err(StoreError::Unknown(_))) && !there(b"4").await);
    assert!(matches!(commit(b"1").await, Err(StoreError::Conflict)), "a refused commit is refused, planned fault or not");
    assert_eq!(store.commits(), 5);

    store.fail_all(Fault::Before);
    store.fail_reads();
    assert!(matches!(commit(b"6").await, Err(StoreError::Away(_))));
    assert!(matches!(store.get(Space::Kv, b"1").await, Err(StoreError::Away(_))));
    assert!(matches!(store.scan(Space::Kv, KeyRange::all(), 1, Forward).await, Err(StoreError::Away(_))));
    store.heal();
    commit(b"6").await.unwrap();
    assert_eq!(names(&all(store.inner(), Space::Kv).await), [b"1", b"3", b"6"]);
}

// ---- questions to the disk ----

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
            .args(["--exact", "child_commits_until_killed", "--ignored", "--nocapture"])
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
        store.commit(vec![], writes, durability).await.unwrap();
        if durability == Durable {
            println!("durable {n}");
        }
    }
}

// ---- figures ----

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
                        store.commit(vec![Check::absent(Space::Payments, key)], vec![receipt, payment], durability).await.unwrap();
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

// ---- helpers ----

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &TempDir) -> SledStore {
    SledStore::open(folder.path().join("store"), SledConfig::default()).unwrap()
}

async fn put(store: &impl Store, space: Space, key: &[u8], value: &[u8]) {
    store.commit(vec![], vec![Write::put(space, key, value)], Buffered).await.unwrap();
}

async fn delete(store: &impl Store, space: Space, key: &[u8]) {
    store.commit(vec![], vec![Write::delete(space, key)], Buffered).await.unwrap();
}

async fn all(store: &impl Store, space: Space) -> Pairs {
    store.scan(space, KeyRange::all(), usize::MAX, Forward).await.unwrap()
}

async fn fill(store: &impl Store, count: usize) {
    let writes = (0..count).map(|n| Write::put(Space::Kv, key(n), bytes(n))).collect();
    store.commit(vec![], writes, Buffered).await.unwrap();
}

async fn number(store: &impl Store, key: &[u8]) -> u64 {
    let value = store.get(Space::Kv, key).await.unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

async fn increment(store: &impl Store, key: &[u8], durability: Durability) {
    loop {
        let before = store.get(Space::Kv, key).await.unwrap();
        let after = before.clone().map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap())) + 1;
        let check = Check { space: Space::Kv, key: key.to_vec(), expected: before };
        match store.commit(vec![check], vec![Write::put(Space::Kv, key, after.to_be_bytes())], durability).await {
            Ok(()) => return,
            Err(StoreError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn names(pairs: &Pairs) -> Vec<&[u8]> {
    pairs.iter().map(|(key, _)| &key[..]).collect()
}

fn key(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap().to_be_bytes()
}

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 31 + n / 251 + size) as u8).collect()
}

/// `size` bytes that all tell the round they are of.
fn bytes_of(round: usize, size: usize) -> Vec<u8> {
    vec![u8::try_from(round).unwrap(); size]
}

/// Large for every fifth number, so that kills fall between the pieces of a value too.
fn receipt_of(n: u64) -> Vec<u8> {
    n.to_be_bytes().repeat(if n.is_multiple_of(5) { 4_000 } else { 40 })
}

const SPACES: [Space; 3] = [Space::Kv, Space::Logs, Space::Secrets];

/// One random commit or read, to the store and to the model.
async fn step(store: &impl Store, model: &mut BTreeMap<(Space, Vec<u8>), Vec<u8>>, chance: &mut Chance) {
    if chance.below(3) == 0 {
        return scan_both(store, model, chance).await;
    }
    let checks: Vec<Check> = (0..chance.below(3))
        .map(|_| {
            let (space, key) = (chance.space(), chance.key());
            let mut expected = model.get(&(space, key.clone())).cloned();
            if chance.below(5) == 0 {
                expected = Some(b"never written".to_vec());
            }
            Check { space, key, expected }
        })
        .collect();
    let writes: Vec<Write> = (0..chance.below(6))
        .map(|_| Write { space: chance.space(), key: chance.key(), value: (chance.below(3) > 0).then(|| chance.value()) })
        .collect();
    let holds = checks.iter().all(|check| model.get(&(check.space, check.key.clone())) == check.expected.as_ref());
    let durability = if chance.below(20) == 0 { Durable } else { Buffered };
    match store.commit(checks, writes.clone(), durability).await {
        Ok(()) => assert!(holds, "a commit went through whose check does not hold"),
        Err(StoreError::Conflict) => return assert!(!holds, "a commit was refused whose checks hold"),
        Err(error) => panic!("{error}"),
    }
    for write in writes {
        match write.value {
            Some(value) => model.insert((write.space, write.key), value),
            None => model.remove(&(write.space, write.key)),
        };
    }
}

async fn scan_both(store: &impl Store, model: &BTreeMap<(Space, Vec<u8>), Vec<u8>>, chance: &mut Chance) {
    let (space, limit) = (chance.space(), chance.below(12));
    let range = match chance.below(3) {
        0 => KeyRange::prefix(&chance.key()),
        _ => KeyRange { start: chance.bound(), end: chance.bound() },
    };
    let direction = if chance.below(2) == 0 { Forward } else { Backward };
    let within = |key: &Vec<u8>| std::ops::RangeBounds::contains(&(range.start.clone(), range.end.clone()), key);
    let inside = model.iter().filter(|((s, key), _)| *s == space && within(key)).map(|((_, key), value)| (key.clone(), value.clone()));
    let wanted: Pairs = match direction {
        Forward => inside.take(limit).collect(),
        Backward => inside.rev().take(limit).collect(),
    };
    assert!(store.scan(space, range.clone(), limit, direction).await.unwrap() == wanted, "{space:?} {range:?} {limit} {direction:?}");
}

async fn same_as(store: &impl Store, model: &BTreeMap<(Space, Vec<u8>), Vec<u8>>) {
    for space in SPACES {
        let wanted: Pairs = model.iter().filter(|((s, _), _)| *s == space).map(|((_, key), value)| (key.clone(), value.clone())).collect();
        assert!(all(store, space).await == wanted, "{space:?}");
        for (key, value) in wanted {
            assert!(store.get(space, &key).await.unwrap() == Some(value));
        }
    }
}

/// Random numbers that can be had again: prints its seed, takes another from `TOLLHOUSE_TEST_SEED`.
struct Chance(u64);

impl Chance {
    fn seeded() -> Self {
        #[expect(clippy::disallowed_methods, reason = "to repeat a failed run")]
        let given = std::env::var("TOLLHOUSE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| getrandom::u64().unwrap());
        println!("seed: TOLLHOUSE_TEST_SEED={seed}");
        Self(seed)
    }

    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> usize {
        usize::try_from(self.next() % limit).unwrap()
    }

    fn space(&mut self) -> Space {
        SPACES[self.below(3)]
    }

    /// Short, of few bytes, so that keys collide, touch and nest.
    fn key(&mut self) -> Vec<u8> {
        (0..self.below(5)).map(|_| [0, 1, b'a', 0xfe, 0xff][self.below(5)]).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let size = match self.below(10) {
            0 => self.below(40_000),
            1 => 4_090 + self.below(12),
            _ => self.below(60),
        };
        let fill = u8::try_from(self.below(256)).unwrap();
        vec![fill; size]
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        }
    }
}
