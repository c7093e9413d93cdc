//! The tests for every backend.

use super::harness::*;

pub async fn absent_key_has_no_value(store: impl Store) {
    assert_eq!(store.get(Space::Kv, b"nothing").await.unwrap(), None);
    assert_eq!(all(&store, Space::Kv).await, KeyValues::new());
}

pub async fn written_value_is_read_back(store: impl Store) {
    put(&store, Space::Kv, b"k", b"v").await;
    assert_eq!(store.get(Space::Kv, b"k").await.unwrap(), Some(b"v".to_vec()));
    put(&store, Space::Kv, b"k", b"w").await;
    assert_eq!(store.get(Space::Kv, b"k").await.unwrap(), Some(b"w".to_vec()));
}

pub async fn values_of_every_size_are_read_back(store: impl Store) {
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

pub async fn large_value_yields_to_a_small_one(store: impl Store) {
    for size in [100_000, 10, 9_000, 50_000, 5_000, 0] {
        put(&store, Space::Files, b"k", &bytes(size)).await;
        assert!(all(&store, Space::Files).await == [(b"k".to_vec(), bytes(size))], "{size} bytes");
    }
    delete(&store, Space::Files, b"k").await;
    put(&store, Space::Files, b"k", &bytes(4_097)).await;
    assert!(store.get(Space::Files, b"k").await.unwrap() == Some(bytes(4_097)));
}

pub async fn empty_key_and_value_are_a_key_and_a_value(store: impl Store) {
    put(&store, Space::Kv, b"", b"").await;
    assert_eq!(store.get(Space::Kv, b"").await.unwrap(), Some(vec![]));
    assert_eq!(all(&store, Space::Kv).await, [(vec![], vec![])]);
    assert_eq!(store.get(Space::Files, b"").await.unwrap(), None);
}

pub async fn scan_is_in_key_order(store: impl Store) {
    let mut keys: Vec<&[u8]> = vec![b"b", b"a", b"ab", b"", b"\xff", b"a\x00", b"\x00", b"aa", b"\xff\xff", b"\x7f", b"\x80"];
    for key in &keys {
        put(&store, Space::Logs, key, key).await;
    }
    keys.sort_unstable();
    assert_eq!(names(&all(&store, Space::Logs).await), keys);
    keys.reverse();
    assert_eq!(names(&store.scan(Space::Logs, KeyRange::all(), 100, Backward).await.unwrap()), keys);
}

pub async fn scan_keeps_to_its_limit_from_either_end(store: impl Store) {
    fill(&store, 100).await;
    let first = store.scan(Space::Kv, KeyRange::all(), 3, Forward).await.unwrap();
    assert_eq!(names(&first), [key(0), key(1), key(2)]);
    let last = store.scan(Space::Kv, KeyRange::all(), 3, Backward).await.unwrap();
    assert_eq!(names(&last), [key(99), key(98), key(97)]);
    assert_eq!(store.scan(Space::Kv, KeyRange::all(), 0, Forward).await.unwrap(), KeyValues::new());
    assert_eq!(store.scan(Space::Kv, KeyRange::all(), 1_000, Backward).await.unwrap().len(), 100);
}

pub async fn scan_ends_with_the_pair_that_brings_it_to_its_bytes(store: impl Store) {
    for n in 0..10 {
        put(&store, Space::Kv, &key(n), &[0; 5_000]).await;
    }
    let pair = key(0).len() + 5_000;
    for (bytes, requested) in [(0, 0), (1, 1), (pair, 1), (pair + 1, 2), (3 * pair, 3), (100 * pair, 10)] {
        let range = KeyRange { bytes, ..KeyRange::all() };
        let first: Vec<_> = (0..requested).map(key).collect();
        let last: Vec<_> = (0..10).rev().take(requested).map(key).collect();
        assert_eq!(names(&store.scan(Space::Kv, range.clone(), 100, Forward).await.unwrap()), first, "{bytes}");
        assert_eq!(names(&store.scan(Space::Kv, range.clone(), 100, Backward).await.unwrap()), last, "{bytes} backward");
        assert_eq!(store.count(Space::Kv, range, usize::MAX).await.unwrap(), 10);
    }
}

pub async fn bounds_are_kept(store: impl Store) {
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
    for (start, end, requested) in cases {
        let range = KeyRange { start, end, ..KeyRange::all() };
        let mut requested: Vec<_> = requested.map(key).collect();
        assert_eq!(names(&store.scan(Space::Kv, range.clone(), 100, Forward).await.unwrap()), requested, "{range:?}");
        requested.reverse();
        assert_eq!(names(&store.scan(Space::Kv, range.clone(), 100, Backward).await.unwrap()), requested, "{range:?} backward");
    }
}

pub async fn pages_follow_each_other(store: impl Store) {
    fill(&store, 25).await;
    for direction in [Forward, Backward] {
        let mut seen = KeyValues::new();
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

pub async fn prefix_of_0xff_reaches_the_end_of_its_space_only(store: impl Store) {
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

pub async fn spaces_do_not_mix(store: impl Store) {
    put(&store, Space::Receipts, b"k", b"receipts").await;
    put(&store, Space::Payments, b"k", b"payments").await;
    put(&store, Space::Endpoints, b"\xff\xff", b"endpoints").await;
    delete(&store, Space::Payments, b"k").await;
    assert_eq!(all(&store, Space::Receipts).await, [(b"k".to_vec(), b"receipts".to_vec())]);
    assert_eq!(all(&store, Space::Payments).await, KeyValues::new());
    assert_eq!(all(&store, Space::Versions).await, KeyValues::new());
    assert_eq!(all(&store, Space::Meta).await, KeyValues::new());
}

pub async fn failed_check_leaves_nothing(store: impl Store) {
    put(&store, Space::Kv, b"k", b"old").await;
    let writes = vec![Write::put(Space::Kv, b"k", b"new"), Write::put(Space::Logs, b"l", b"new")];
    let refused = store.apply(Batch::of(vec![Check::holds(Space::Kv, b"k", b"other")], writes), Durable).await;
    assert!(matches!(refused, Err(StoreError::Conflict)), "{refused:?}");
    assert_eq!(store.get(Space::Kv, b"k").await.unwrap(), Some(b"old".to_vec()));
    assert_eq!(store.get(Space::Logs, b"l").await.unwrap(), None);
}

pub async fn absent_check_wants_absence(store: impl Store) {
    let claim =
        || store.apply(Batch::of(vec![Check::absent(Space::Payments, b"p")], vec![Write::put(Space::Payments, b"p", b"")]), Durable);
    claim().await.unwrap();
    assert!(matches!(claim().await, Err(StoreError::Conflict)), "an empty value is there");
    delete(&store, Space::Payments, b"p").await;
    claim().await.unwrap();
}

pub async fn check_compares_whole_values(store: impl Store) {
    let value = bytes(10_000);
    put(&store, Space::Kv, b"k", &value).await;
    let mut other = value.clone();
    *other.last_mut().unwrap() ^= 1;
    for wrong in [other, value[..9_999].to_vec(), vec![]] {
        let refused = store.apply(Batch::of(vec![Check::holds(Space::Kv, b"k", wrong)], vec![]), Buffered).await;
        assert!(matches!(refused, Err(StoreError::Conflict)));
    }
    store.apply(Batch::of(vec![Check::holds(Space::Kv, b"k", value)], vec![]), Buffered).await.unwrap();
}

pub async fn checks_span_spaces(store: impl Store) {
    put(&store, Space::Kv, b"a", b"1").await;
    put(&store, Space::Credits, b"b", b"2").await;
    let both = |b: &[u8]| vec![Check::holds(Space::Kv, b"a", b"1"), Check::holds(Space::Credits, b"b", b)];
    let write = || vec![Write::put(Space::Receipts, b"r", b"")];
    assert!(matches!(store.apply(Batch::of(both(b"3"), write()), Durable).await, Err(StoreError::Conflict)));
    assert_eq!(store.get(Space::Receipts, b"r").await.unwrap(), None);
    store.apply(Batch::of(both(b"2"), write()), Durable).await.unwrap();
    assert_eq!(store.get(Space::Receipts, b"r").await.unwrap(), Some(vec![]));
}

pub async fn many_writes_are_all_or_nothing(store: impl Store) {
    let spaces = [Space::Kv, Space::Files, Space::Logs, Space::Receipts];
    let writes = |tag: &'static [u8]| -> Vec<Write> {
        (0..400).map(|n| Write::put(spaces[n % 4], key(n), [tag, &bytes(n * 40)].concat())).collect()
    };
    store.apply(Batch::of(vec![Check::absent(Space::Kv, key(0))], writes(b"1")), Durable).await.unwrap();
    let again = store.apply(Batch::of(vec![Check::absent(Space::Kv, key(0))], writes(b"2")), Durable).await;
    assert!(matches!(again, Err(StoreError::Conflict)));
    for n in 0..400 {
        let value = store.get(spaces[n % 4], &key(n)).await.unwrap();
        assert!(value == Some([&b"1"[..], &bytes(n * 40)].concat()), "write {n}");
    }
}

pub async fn deleted_key_is_gone(store: impl Store) {
    fill(&store, 3).await;
    delete(&store, Space::Kv, &key(1)).await;
    delete(&store, Space::Kv, b"never was there").await;
    assert_eq!(store.get(Space::Kv, &key(1)).await.unwrap(), None);
    assert_eq!(names(&all(&store, Space::Kv).await), [key(0), key(2)]);
}

pub async fn same_key_twice_takes_the_last_write(store: impl Store) {
    let put = |value: Vec<u8>| Write::put(Space::Kv, b"k", value);
    let delete = || Write::delete(Space::Kv, b"k");
    for (writes, remaining) in [
        (vec![put(bytes(1)), put(bytes(2))], Some(bytes(2))),
        (vec![put(bytes(9_000)), put(bytes(3))], Some(bytes(3))),
        (vec![put(bytes(4)), delete()], None),
        (vec![delete(), put(bytes(20_000))], Some(bytes(20_000))),
        (vec![put(bytes(50_000)), delete(), put(bytes(5_000))], Some(bytes(5_000))),
    ] {
        store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
        assert!(store.get(Space::Kv, b"k").await.unwrap() == remaining);
        assert_eq!(all(&store, Space::Kv).await.len(), usize::from(remaining.is_some()));
    }
}

pub async fn too_long_is_refused_and_nothing_written(store: impl Store) {
    put(&store, Space::Kv, &vec![7; MAX_KEY_BYTES], b"longest key").await;
    put(&store, Space::Kv, b"longest value", &vec![7; MAX_VALUE_BYTES]).await;
    for write in [Write::put(Space::Kv, vec![8; MAX_KEY_BYTES + 1], b""), Write::put(Space::Kv, b"k", vec![8; MAX_VALUE_BYTES + 1])] {
        let refused = store.apply(Batch::of(vec![], vec![Write::put(Space::Logs, b"other", b""), write]), Buffered).await;
        assert!(matches!(refused, Err(StoreError::Away(_))), "{refused:?}");
    }
    assert_eq!(all(&store, Space::Kv).await.len(), 2);
    assert_eq!(store.get(Space::Kv, b"longest value").await.unwrap().unwrap().len(), MAX_VALUE_BYTES);
    assert_eq!(store.get(Space::Logs, b"other").await.unwrap(), None);
}

pub async fn commit_without_writes_still_checks(store: impl Store) {
    store.apply(Batch::of(vec![], vec![]), Durable).await.unwrap();
    store.apply(Batch::of(vec![Check::absent(Space::Kv, b"k")], vec![]), Durable).await.unwrap();
    assert!(matches!(store.apply(Batch::of(vec![Check::holds(Space::Kv, b"k", b"")], vec![]), Durable).await, Err(StoreError::Conflict)));
}

pub async fn concurrent_increments_lose_nothing(store: impl Store) {
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

pub async fn one_of_many_claims_wins(store: impl Store) {
    let store = Arc::new(store);
    let claims: Vec<_> = (0..64_u8)
        .map(|claimant| {
            let store = Arc::clone(&store);
            let claim = async move {
                let (checks, writes) = (vec![Check::absent(Space::Payments, b"p")], vec![Write::put(Space::Payments, b"p", [claimant])]);
                store.apply(Batch::of(checks, writes), Durable).await
            };
            (claimant, tokio::spawn(claim))
        })
        .collect();
    let mut winners = Vec::new();
    for (claimant, claim) in claims {
        match claim.await.unwrap() {
            Ok(_) => winners.push(claimant),
            Err(error) => assert!(matches!(error, StoreError::Conflict), "{error}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(store.get(Space::Payments, b"p").await.unwrap(), Some(winners));
}

pub async fn scan_never_sees_half_a_commit(store: impl Store) {
    let store = Arc::new(store);
    let write = |round: usize| (0..20).map(|n| Write::put(Space::Kv, key(n), bytes_of(round, 3_000 + n * 300))).collect::<Vec<_>>();
    store.apply(Batch::of(vec![], write(0)), Buffered).await.unwrap();
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for round in 1..60 {
                store.apply(Batch::of(vec![], write(round)), Buffered).await.unwrap();
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

pub async fn faults_are_as_planned(store: impl Store) {
    let store = FaultyStore::new(store);
    let claim = |k: &'static [u8]| (vec![Check::absent(Space::Kv, k)], vec![Write::put(Space::Kv, k, b"")], Durable);
    let commit = async |k: &'static [u8]| {
        let (checks, writes, durability) = claim(k);
        store.apply(Batch::of(checks, writes), durability).await
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

/// Returns the size of each space, counted from the rows.
pub async fn counted(store: &impl Store) -> BTreeMap<Space, SpaceSize> {
    let mut sizes = BTreeMap::new();
    for space in Space::ALL {
        let pairs = all(store, space).await;
        let bytes = pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        sizes.extend((!pairs.is_empty()).then_some((space, SpaceSize { entries: pairs.len() as u64, bytes })));
    }
    sizes
}

/// Returns the sizes that the store reports, without the empty ones. The commit that it waits for
/// updates them.
pub async fn rows_of(store: &impl Store) -> BTreeMap<Space, SpaceSize> {
    store.apply(Batch::of(vec![], vec![]), Durable).await.unwrap();
    let mut spaces = store.sizes().spaces;
    spaces.retain(|_, size| size.entries > 0);
    spaces
}

pub async fn sizes_match_the_rows(store: impl Store) {
    assert_eq!(rows_of(&store).await, BTreeMap::new());
    fill(&store, 300).await;
    put(&store, Space::Events, b"large", &bytes(70_000)).await;
    put(&store, Space::Events, b"", b"").await;
    assert_eq!(rows_of(&store).await, counted(&store).await);
    // A replaced value, a deleted one, and a missing one; the same key twice; a commit that fails.
    put(&store, Space::Events, b"large", b"small").await;
    delete(&store, Space::Kv, &key(7)).await;
    delete(&store, Space::Kv, b"never there").await;
    let writes = vec![Write::put(Space::Logs, b"k", b"1"), Write::delete(Space::Logs, b"k"), Write::put(Space::Logs, b"k", b"22")];
    store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    let failing = store.apply(Batch::of(vec![Check::absent(Space::Logs, b"k")], vec![Write::put(Space::Logs, b"l", b"")]), Buffered).await;
    assert!(matches!(failing, Err(StoreError::Conflict)));
    assert_eq!(rows_of(&store).await, counted(&store).await);
    assert_eq!(rows_of(&store).await[&Space::Logs], SpaceSize { entries: 1, bytes: 3 });
    assert!(store.sizes().complete);
}

/// The key has random bytes, which cannot be compressed.
pub async fn keys_of_every_byte_are_kept_up_to_the_limit(store: impl Store) {
    let mut chance = super::random::random();
    let mut key: Vec<u8> = (0..MAX_KEY_BYTES).map(|_| chance.u8(..)).collect();
    put(&store, Space::Kv, &key, b"longest").await;
    assert_eq!(store.get(Space::Kv, &key).await.unwrap(), Some(b"longest".to_vec()));
    assert_eq!(names(&all(&store, Space::Kv).await), [&key[..]]);
    key.push(0);
    for batch in [
        Batch { writes: vec![Write::put(Space::Kv, key.clone(), b"")], ..Batch::default() },
        Batch { adds: vec![Add { space: Space::Kv, key, by: 1, limit: SumLimit::Floor(0) }], ..Batch::default() },
    ] {
        assert!(matches!(store.apply(batch, Buffered).await, Err(StoreError::Away(_))));
    }
}

pub async fn count_is_of_what_a_range_has(store: impl Store) {
    fill(&store, 25).await;
    put(&store, Space::KvUsage, b"other", b"").await;
    let count = async |range: KeyRange, max| store.count(Space::Kv, range, max).await.unwrap();
    assert_eq!(count(KeyRange::all(), usize::MAX).await, 25);
    assert_eq!(count(KeyRange::all(), 7).await, 7);
    assert_eq!(count(KeyRange::all().after(&key(20)), 100).await, 4);
    assert_eq!(count(KeyRange::all().before(&key(20)), 100).await, 20);
    assert_eq!(count(KeyRange::prefix(b"nothing"), 100).await, 0);
    assert_eq!(count(KeyRange { start: Bound::Excluded(vec![1]), end: Bound::Excluded(vec![1]), ..KeyRange::all() }, 100).await, 0);
    assert_eq!(store.count(Space::Logs, KeyRange::all(), 100).await.unwrap(), 0);
    // So many that they are counted in several steps.
    for thousand in 0..3_u32 {
        let writes = (0..1_000).map(|n| Write::put(Space::Events, (thousand * 1_000 + n).to_be_bytes(), b"")).collect();
        store.apply(Batch::of(vec![], writes), Buffered).await.unwrap();
    }
    for max in [0, 1, 999, 1_000, 1_001, 2_000, 2_999, 3_000, 3_001, usize::MAX] {
        assert_eq!(store.count(Space::Events, KeyRange::all(), max).await.unwrap(), max.min(3_000));
    }
    for last in [998_u32, 999, 1_000, 1_999, 2_999] {
        let to = |end| KeyRange { end, ..KeyRange::all() };
        let (with, without) = (to(Bound::Included(last.to_be_bytes().to_vec())), to(Bound::Excluded(last.to_be_bytes().to_vec())));
        assert_eq!(store.count(Space::Events, with, usize::MAX).await.unwrap(), last as usize + 1);
        assert_eq!(store.count(Space::Events, without, usize::MAX).await.unwrap(), last as usize);
    }
}

/// Each of two commits writes the key that the other requires to be absent. If both succeeded, each
/// would have relied on a state that the other changed.
pub async fn absent_checks_of_keys_not_written_exclude_each_other(store: impl Store) {
    let store = Arc::new(store);
    for round in 0..50 {
        let [one, other] = [[key(round), *b"left"].concat(), [key(round), *b"rigt"].concat()];
        let want = |requested: &[u8], written: &[u8]| {
            let (store, check, write) = (Arc::clone(&store), Check::absent(Space::Kv, requested), Write::put(Space::Kv, written, b""));
            tokio::spawn(async move { store.apply(Batch::of(vec![check], vec![write]), Durable).await })
        };
        let (remaining, right) = (want(&one, &other), want(&other, &one));
        let received = [remaining.await.unwrap(), right.await.unwrap()].map(|outcome| outcome.is_ok());
        assert!(received[0] != received[1], "round {round}: {received:?}");
    }
}

pub async fn checks_of_other_keys_exclude_writes(store: impl Store) {
    let store = Arc::new(store);
    for round in 0..50 {
        let (guard, done) = ([key(round), *b"grd_"].concat(), [key(round), *b"done"].concat());
        put(&*store, Space::Kv, &guard, b"open").await;
        let checks = vec![Check::holds(Space::Kv, guard.clone(), b"open")];
        let writer = {
            let (store, done) = (Arc::clone(&store), done.clone());
            tokio::spawn(async move { store.apply(Batch::of(checks, vec![Write::put(Space::Logs, done, b"")]), Durable).await })
        };
        // This commit sets the guard to "shut" unless the other one succeeded.
        let check = Check::absent(Space::Logs, done.clone());
        let closed = store.apply(Batch::of(vec![check], vec![Write::put(Space::Kv, guard, b"shut")]), Durable).await;
        let outcome = writer.await.unwrap();
        assert!(outcome.is_ok() != closed.is_ok(), "round {round}: {outcome:?}, {closed:?}");
    }
}

pub async fn crossing_commits_do_not_wait_for_each_other(store: impl Store) {
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..20 {
                    let mut writes: Vec<_> = (0..10).map(|n| Write::put(Space::Kv, key(n), bytes_of(task, 10 + round))).collect();
                    if task % 2 == 0 {
                        writes.reverse();
                    }
                    store.apply(Batch::of(vec![], writes), if task % 3 == 0 { Durable } else { Buffered }).await.unwrap();
                }
            })
        })
        .collect();
    let all_done = async {
        for task in tasks {
            task.await.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), all_done).await.expect("no two wait for each other");
    let values: std::collections::BTreeSet<_> = all(&*store, Space::Kv).await.into_iter().map(|(_, value)| value).collect();
    assert_eq!(values.len(), 1, "the last commit wrote them all");
}

pub async fn one_failed_absent_check_leaves_the_others_absent(store: impl Store) {
    put(&store, Space::Kv, b"b", b"").await;
    let checks = || [b"a", b"b", b"c"].map(|key| Check::absent(Space::Kv, key)).to_vec();
    let refused = store.apply(Batch::of(checks(), vec![Write::put(Space::Logs, b"l", b"")]), Durable).await;
    assert!(matches!(refused, Err(StoreError::Conflict)));
    assert_eq!(names(&all(&store, Space::Kv).await), [b"b"]);
    assert_eq!(all(&store, Space::Logs).await, KeyValues::new());
    delete(&store, Space::Kv, b"b").await;
    store.apply(Batch::of(checks(), vec![Write::put(Space::Logs, b"l", b"")]), Durable).await.unwrap();
}
