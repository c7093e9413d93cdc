mod list;
mod shares;

use serde_json::{Value, json};
use tollhouse_protocol::limits::{LIST_BYTES, LIST_LIMIT};
use tollhouse_store::test_wrappers::YieldingStore;
use tollhouse_store::{
    Changes, KeyRange, KeyValues, Space,
    faulty::{Fault, FaultyStore},
    memory::MemoryStore,
};

use super::*;

/// The largest integer that JavaScript represents exactly.
const MAX_SAFE_INTEGER: i64 = 9_007_199_254_740_991;

/// Two hosts that share a store, so that their commits conflict.
struct Hosts {
    store: Arc<YieldingStore>,
    clock: Clock,
    kvs: [Kv; 2],
}

impl Hosts {
    fn new() -> Self {
        let (store, clock) = (Arc::new(YieldingStore::default()), Clock::fixed(Timestamp(1_000_000)));
        let kv = || Kv::new(store.clone(), clock.clone());
        Self { kvs: [kv(), kv()], store: store.clone(), clock }
    }

    fn pass(&self, millis: u64) {
        self.clock.set(self.clock.now().plus_millis(millis));
    }

    async fn entries(&self, endpoint: &EndpointId) -> Vec<Row<Key, Entry>> {
        KV.page(&*self.store, &KV.under(&CountedText(endpoint.clone())), usize::MAX, Direction::Forward).await.unwrap()
    }

    /// Returns the usage record, after checking it against the stored entries.
    async fn usage(&self, endpoint: &EndpointId) -> Usage {
        let entries = self.entries(endpoint).await;
        let bytes = entries.iter().map(|row| (row.key.1.len() + row.value.json.len()) as u64).sum();
        let usage = KV_USAGE.get(&*self.store, &CountedText(endpoint.clone())).await.unwrap().unwrap_or_default();
        assert_eq!(usage, Usage { items: entries.len() as u64, bytes });
        usage
    }
}

fn endpoint() -> EndpointId {
    EndpointId::generate()
}

fn text(value: &OpValue) -> Option<Value> {
    match value {
        OpValue::None => None,
        OpValue::Json(json) => Some(serde_json::from_slice(json).unwrap()),
        OpValue::Bytes(_) | OpValue::Response { .. } => panic!("kv answers no bytes"),
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, OpFailure>) -> String {
    result.unwrap_err().code
}

async fn set(kv: &EndpointKv<'_>, key: &str, value: impl Into<Bytes>) -> Result<OpValue, OpFailure> {
    kv.set(key.to_owned(), value.into(), None).await
}

#[tokio::test]
async fn a_value_comes_back_until_it_is_deleted() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    assert_eq!(kv.get("a".into()).await.unwrap(), OpValue::None);
    set(&kv, "a", r#"{"n":1}"#).await.unwrap();
    assert_eq!(text(&kv.get("a".into()).await.unwrap()), Some(json!({"n": 1})));
    kv.delete("a".into()).await.unwrap();
    kv.delete("a".into()).await.unwrap();
    assert_eq!(kv.get("a".into()).await.unwrap(), OpValue::None);
    assert_eq!(hosts.usage(&endpoint).await, Usage::default());
}

#[tokio::test]
async fn arguments_beyond_the_limits_are_refused() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_key_bytes: 8, kv_value_bytes: 10, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    assert_eq!(code(kv.get("".into()).await), "invalid_argument");
    assert_eq!(code(kv.get("123456789".into()).await), "invalid_argument");
    assert_eq!(code(kv.delete("123456789".into()).await), "invalid_argument");
    assert_eq!(code(set(&kv, "k", "\"0123456789\"").await), "quota_exceeded");
    for not_json in ["", "{", "undefined", "1 2", "'a'", "\u{feff}1", "\"\\x\""] {
        assert_eq!(code(set(&kv, "k", not_json).await), "invalid_argument", "{not_json}");
    }
    assert_eq!(code(set(&kv, "k", Bytes::from_static(b"\"\xff\"")).await), "invalid_argument");
    let ten_years_ms = 315_360_000_000;
    for ttl in [0, ten_years_ms + 1] {
        assert_eq!(code(kv.set("k".into(), "1".into(), Some(ttl)).await), "invalid_argument");
    }
    for limit in [0, LIST_LIMIT + 1] {
        let refusal = kv.list("".into(), limit, None).await.unwrap_err();
        assert_eq!(refusal.code, "invalid_argument");
        assert!(refusal.message.ends_with(&format!("must be 1 to {LIST_LIMIT}, and is {limit}")), "{}", refusal.message);
    }
    let checks = vec![AtomicCheck { key: "a".into(), value: None }; ATOMIC_LIMIT + 1];
    let writes = vec![AtomicWrite::Delete { key: "a".into() }; ATOMIC_LIMIT + 1];
    assert_eq!(code(kv.atomic(vec![], writes.clone()).await), "invalid_argument");
    assert_eq!(code(kv.atomic(checks.clone(), vec![]).await), "invalid_argument");
    assert!(hosts.entries(&endpoint).await.is_empty());
    // Data up to exactly the limits is accepted.
    kv.atomic(checks[1..].to_vec(), writes[1..].to_vec()).await.unwrap();
    kv.set("12345678".into(), "\"01234567\"".into(), Some(ten_years_ms)).await.unwrap();
}

#[tokio::test]
async fn entries_can_be_stored_up_to_the_quotas() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_keys: 3, kv_bytes: 10, ..Limits::default() };
    let set = async |limits: &Limits, key: &str, value: &'static str| {
        let written = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, limits).set(key.into(), value.into(), None).await;
        written.map(|_| ()).map_err(|failure| failure.code)
    };
    let over = || Err("quota_exceeded".to_owned());
    assert_eq!(set(&limits, "a", "1234").await, Ok(()));
    assert_eq!(set(&limits, "b", "12345").await, over());
    assert_eq!(set(&limits, "b", "12").await, Ok(()));
    assert_eq!(set(&limits, "c", "1").await, Ok(()));
    assert_eq!(set(&Limits { kv_bytes: 100, ..limits }, "d", "1").await, over());
    // Data above a lowered quota may keep its size.
    for lowered in [Limits { kv_keys: 2, ..limits }, Limits { kv_bytes: 5, ..limits }] {
        assert_eq!(set(&lowered, "a", "4321").await, Ok(()));
    }
    assert_eq!(hosts.usage(&endpoint).await, Usage { items: 3, bytes: 10 });
}

#[tokio::test]
async fn a_full_endpoint_is_searched_for_expired_entries_once_a_second() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_keys: 1, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    kv.set("brief".into(), "1".into(), Some(500)).await.unwrap();
    assert_eq!(code(set(&kv, "more", "2").await), "quota_exceeded");
    hosts.pass(999);
    assert_eq!(code(set(&kv, "more", "2").await), "quota_exceeded");
    hosts.pass(1);
    set(&kv, "more", "2").await.unwrap();
}

#[tokio::test]
async fn a_check_of_one_key_writes_nothing() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (kv, endpoint, limits) = (Kv::new(store.clone(), Clock::default()), endpoint(), Limits::default());
    store.fail_all(Fault::Before);
    let absent = AtomicCheck { key: "a".into(), value: None };
    assert!(kv.scoped(&Owner::Platform, &endpoint, &limits).transact(&[absent], &[]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_hold_when_two_hosts_write_at_once() {
    let (hosts, endpoint) = (Arc::new(Hosts::new()), endpoint());
    let limits = Limits { kv_keys: 20, kv_bytes: 200, ..Limits::default() };
    let writes: Vec<_> = (0..120_usize)
        .map(|n| {
            let (hosts, endpoint) = (hosts.clone(), endpoint.clone());
            tokio::spawn(async move {
                let kv = hosts.kvs[n % 2].scoped(&Owner::Platform, &endpoint, &limits);
                set(&kv, &format!("key-{}", n % 60), format!("\"{}\"", "x".repeat(n % 7))).await
            })
        })
        .collect();
    let mut refused = 0;
    for write in writes {
        match write.await.unwrap() {
            Ok(_) => {}
            Err(failure) => {
                assert!(["quota_exceeded", "contended"].contains(&failure.code.as_str()), "{failure:?}");
                refused += 1;
            }
        }
    }
    let usage = hosts.usage(&endpoint).await;
    assert!(refused > 0 && usage.items <= 20 && usage.bytes <= 200 && usage.bytes > 150, "{usage:?}, {refused} refused");
}

#[tokio::test]
async fn an_endpoint_above_a_lowered_quota_can_still_shrink() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    for key in ["a", "b", "c"] {
        set(&kv, key, "\"long enough\"").await.unwrap();
    }
    let lowered = Limits { kv_keys: 1, kv_bytes: 10, ..limits };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &lowered);
    assert_eq!(code(set(&kv, "d", "1").await), "quota_exceeded");
    assert_eq!(code(set(&kv, "a", "\"longer than it was before\"").await), "quota_exceeded");
    set(&kv, "a", "1").await.unwrap();
    kv.delete("b".into()).await.unwrap();
    assert_eq!(hosts.usage(&endpoint).await.items, 2);
}

#[tokio::test]
async fn an_expired_entry_is_absent_and_makes_room() {
    let (hosts, endpoint) = (Hosts::new(), endpoint());
    let limits = Limits { kv_keys: 3, ..Limits::default() };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    kv.set("short".into(), "1".into(), Some(1_000)).await.unwrap();
    kv.set("long".into(), "2".into(), Some(60_000)).await.unwrap();
    set(&kv, "ever", "3").await.unwrap();
    hosts.pass(999);
    assert_eq!(text(&kv.get("short".into()).await.unwrap()), Some(json!(1)));
    assert_eq!(code(set(&kv, "more", "4").await), "quota_exceeded");
    hosts.pass(1_000);
    assert_eq!(kv.get("short".into()).await.unwrap(), OpValue::None);
    assert_eq!(
        text(&kv.list("".into(), 10, None).await.unwrap()).unwrap()["entries"],
        json!([{"key":"ever","value":3},{"key":"long","value":2}])
    );
    assert_eq!(text(&kv.atomic(vec![AtomicCheck { key: "short".into(), value: None }], vec![]).await.unwrap()), Some(json!({"ok": true})));
    set(&kv, "more", "4").await.unwrap();
    assert_eq!(hosts.usage(&endpoint).await.items, 3);
    hosts.pass(60_000);
    kv.set("long".into(), "5".into(), None).await.unwrap();
    hosts.pass(10_000_000);
    assert_eq!(text(&kv.get("long".into()).await.unwrap()), Some(json!(5)));
}

#[tokio::test]
async fn atomic_writes_all_or_nothing() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    set(&kv, "a", r#"{"x":1,"y":[2]}"#).await.unwrap();
    let write = |key: &str, value: &'static str| AtomicWrite::Set { key: key.into(), value: value.into(), ttl_ms: None };
    let check = |key: &str, value: Option<&'static str>| AtomicCheck { key: key.into(), value: value.map(Bytes::from) };
    let no = json!({"ok": false});
    for checks in [[check("a", None)], [check("a", Some(r#"{"x":1}"#))], [check("b", Some("1"))]] {
        let answer = kv.atomic(checks.to_vec(), vec![write("a", "0"), write("b", "0")]).await.unwrap();
        assert_eq!(text(&answer), Some(no.clone()), "{checks:?}");
    }
    assert_eq!(kv.get("b".into()).await.unwrap(), OpValue::None);
    let checks = [check("a", Some(r#"{ "y": [2], "x": 1 }"#)), check("b", None)];
    let writes = [
        write("b", "1"),
        AtomicWrite::Add { key: "b".into(), by: 41 },
        AtomicWrite::Delete { key: "a".into() },
        write("c", "3"),
        write("c", "4"),
    ];
    assert_eq!(text(&kv.atomic(checks.to_vec(), writes.to_vec()).await.unwrap()), Some(json!({"ok": true})));
    assert_eq!(
        text(&kv.list("".into(), 10, None).await.unwrap()).unwrap()["entries"],
        json!([{"key":"b","value":42},{"key":"c","value":4}])
    );
    // One write exceeds the quota, so none of them happens.
    let tight = Limits { kv_keys: 3, ..limits };
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &tight);
    assert_eq!(code(kv.atomic(vec![], vec![write("d", "1"), write("e", "1")]).await), "quota_exceeded");
    assert_eq!(hosts.usage(&endpoint).await.items, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn add_never_loses_an_update() {
    let (hosts, endpoint) = (Arc::new(Hosts::new()), endpoint());
    let adds: Vec<_> = (0..100_usize)
        .map(|n| {
            let (hosts, endpoint) = (hosts.clone(), endpoint.clone());
            tokio::spawn(async move {
                let limits = Limits::default();
                let kv = hosts.kvs[n % 2].scoped(&Owner::Platform, &endpoint, &limits);
                kv.atomic(vec![], vec![AtomicWrite::Add { key: "n".into(), by: 3 }]).await
            })
        })
        .collect();
    let mut added = 0;
    for add in adds {
        match add.await.unwrap() {
            Ok(_) => added += 3,
            Err(failure) => assert_eq!(failure.code, "contended"),
        }
    }
    let limits = Limits::default();
    assert!(added >= 150, "{added}");
    assert_eq!(text(&hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits).get("n".into()).await.unwrap()), Some(json!(added)));
    hosts.usage(&endpoint).await;
}

#[tokio::test]
async fn add_keeps_to_integers_that_javascript_can_read() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let kv = hosts.kvs[0].scoped(&Owner::Platform, &endpoint, &limits);
    let add = async |key: &str, by| kv.atomic(vec![], vec![AtomicWrite::Add { key: key.into(), by }]).await;
    add("n", MAX_SAFE_INTEGER).await.unwrap();
    assert_eq!(code(add("n", 1).await), "invalid_argument");
    assert_eq!(code(add("n", i64::MAX).await), "invalid_argument");
    // Only a broken worker sends this number, whose absolute value no `i64` has.
    assert_eq!(code(add("new", i64::MIN).await), "invalid_argument");
    add("n", -2 * MAX_SAFE_INTEGER).await.unwrap();
    assert_eq!(code(add("n", -1).await), "invalid_argument");
    for (key, value) in [("text", "\"1\""), ("half", "1.5"), ("list", "[]"), ("null", "null")] {
        set(&kv, key, value).await.unwrap();
        assert_eq!(code(add(key, 1).await), "invalid_argument", "{key}");
    }
    kv.set("brief".into(), "1".into(), Some(50)).await.unwrap();
    add("brief", 1).await.unwrap();
    hosts.pass(60);
    assert_eq!(kv.get("brief".into()).await.unwrap(), OpValue::None);
    add("brief", 5).await.unwrap();
    assert_eq!(text(&kv.get("brief".into()).await.unwrap()), Some(json!(5)));
}

/// Random operations on three tools, compared with a map for each: none sees another's data.
#[tokio::test]
async fn endpoints_never_meet() {
    for seed in 0..12 {
        let (hosts, mut random) = (Hosts::new(), fastrand::Rng::with_seed(seed));
        let limits = Limits { kv_keys: 12, ..Limits::default() };
        let endpoints = [endpoint(), endpoint(), endpoint()];
        let mut models: [BTreeMap<String, (Value, u64)>; 3] = Default::default();
        // Keys that would reach another tool if tool and key were simply concatenated.
        let mut keys: Vec<String> = ["a", "a/b", "b", "\u{0}", "\u{10ffff}", "ep_"].map(str::to_owned).into();
        keys.extend(endpoints.iter().map(|id| id.to_string()));
        keys.extend(endpoints.iter().map(|id| format!("\u{1d}{id}")));
        for step in 0..400 {
            let position = random.usize(..3);
            let (id, model) = (&endpoints[position], &mut models[position]);
            let kv = hosts.kvs[random.usize(..2)].scoped(&Owner::Platform, id, &limits);
            let (now, key) = (hosts.clock.now().0, random.choice(&keys).unwrap().clone());
            model.retain(|_, (_, expires)| *expires > now);
            match random.u64(..10) {
                0..=3 => {
                    let (value, ttl) = (json!([position, step]), *random.choice(&[None, Some(30), Some(500)]).unwrap());
                    match kv.set(key.clone(), value.to_string().into(), ttl).await {
                        Ok(_) => drop(model.insert(key, (value, ttl.map_or(u64::MAX, |ttl| now + ttl)))),
                        Err(failure) => assert_eq!(failure.code, "quota_exceeded", "seed {seed}"),
                    }
                }
                4 => {
                    kv.delete(key.clone()).await.unwrap();
                    model.remove(&key);
                }
                5 => hosts.pass(random.u64(..40)),
                6 => {
                    let cursor_free = text(&kv.list(key.clone(), LIST_LIMIT, None).await.unwrap()).unwrap();
                    let expected: Vec<_> =
                        model.iter().filter(|(k, _)| k.starts_with(&key)).map(|(k, (v, _))| json!({"key": k, "value": v})).collect();
                    assert_eq!(cursor_free["entries"], json!(expected), "seed {seed}, step {step}");
                }
                7 if random.u64(..20) == 0 => {
                    hosts.kvs[0].forget(id).await.unwrap();
                    model.clear();
                }
                _ => {
                    let expected = model.get(&key).map(|(value, _)| value.clone());
                    assert_eq!(text(&kv.get(key.clone()).await.unwrap()), expected, "seed {seed}, step {step}");
                }
            }
        }
        for id in &endpoints {
            hosts.usage(id).await;
        }
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_not_the_handlers_fault() {
    struct Away;
    #[async_trait::async_trait]
    impl Store for Away {
        async fn get(&self, _: Space, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            Err(StoreError::Away("disk on fire at /secret/path".into()))
        }
        async fn scan(&self, _: Space, _: KeyRange, _: usize, _: Direction) -> Result<KeyValues, StoreError> {
            Err(StoreError::Away("disk on fire at /secret/path".into()))
        }
        async fn count(&self, _: Space, _: KeyRange, _: usize) -> Result<usize, StoreError> {
            Err(StoreError::Away("disk on fire at /secret/path".into()))
        }
        async fn changes(&self, _: u64, _: usize) -> Result<Changes, StoreError> {
            Err(StoreError::Away("disk on fire at /secret/path".into()))
        }
        async fn apply(&self, _: Batch, _: Durability) -> Result<Vec<i128>, StoreError> {
            Err(StoreError::Away("disk on fire at /secret/path".into()))
        }
    }
    let (kv, endpoint, limits) = (Kv::new(Arc::new(Away), Clock::default()), endpoint(), Limits::default());
    let failure = kv.scoped(&Owner::Platform, &endpoint, &limits).get("a".into()).await.unwrap_err();
    assert_eq!(failure.code, "store_unavailable");
    assert!(!failure.message.contains("secret"), "{failure}");
}

#[tokio::test]
async fn checks_without_writes_hold_at_one_moment() {
    let (hosts, endpoint, limits) = (Hosts::new(), endpoint(), Limits::default());
    let [one, other] = &hosts.kvs;
    let (reader, writer) = (one.scoped(&Owner::Platform, &endpoint, &limits), other.scoped(&Owner::Platform, &endpoint, &limits));
    set(&writer, "a", "1").await.unwrap();
    let is = |key: &str| AtomicCheck { key: key.into(), value: Some(Bytes::from_static(b"1")) };
    // Exactly one of the two exists at every moment.
    let (checks, mut there) = ([is("a"), is("b")], ["a", "b"]);
    let moves = async {
        for _ in 0..200 {
            let put = AtomicWrite::Set { key: there[1].into(), value: Bytes::from_static(b"1"), ttl_ms: None };
            let take = AtomicWrite::Delete { key: there[0].into() };
            assert!(writer.transact(&[], &[put, take]).await.unwrap());
            there.swap(0, 1);
        }
    };
    let looks = async {
        for look in 0..200 {
            assert!(!reader.transact(&checks, &[]).await.unwrap(), "both were never there");
            for _ in 0..look % 6 {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::join!(moves, looks);
}
