//! Long sources: as many objects as rows that name them, whatever fails, and every endpoint can be
//! held back without its object.

use std::path::PathBuf;

use tollhouse_base::flaws::Flaws;
use tollhouse_objects::Bucket as _;
use tollhouse_protocol::Language;
use tollhouse_store as store;
use tollhouse_store::{
    Direction, KeyRange, Space, StoreError, Value as _, Written,
    faulty::{Fault, FaultyStore},
};

use super::{follow::hears, *};
use crate::{
    entry::ENDPOINTS,
    source::{IN_ROW, StoredSource, StoredVersion, VERSIONS, VersionRow, object_of, response_hash},
};

const DAY: u64 = 24 * 3_600_000;

/// Returns a tool with a fixed answer that is too long for its row.
fn long(slug: &str, letter: &str) -> Draft {
    let mut draft = draft(slug);
    draft.handler = Some(HandlerDraft::Response { response: tool::StaticResponse::from(&json!({ "a": letter.repeat(IN_ROW) })) });
    draft
}

fn answers(letter: &str) -> Patch {
    patch(json!({ "handler": { "response": { "a": letter.repeat(IN_ROW) } } }))
}

struct Bench {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
}

impl Bench {
    async fn over(store: Arc<dyn Store>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Self::one(&folder, &store).await;
        Self { folder, store, catalog }
    }

    /// Creates a host that understands the object format, like all others of the store.
    async fn one(folder: &tempfile::TempDir, store: &Arc<dyn Store>) -> Arc<Catalog> {
        let replica = Replica::new(Arc::new(MemoryStore::new()));
        catalog_in(folder, Arc::clone(store), CatalogRoom::default(), replica).await
    }

    fn objects(&self) -> Vec<PathBuf> {
        let folder = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
        folder(self.folder.path().join("objects")).flat_map(folder).collect()
    }

    /// Returns the objects that rows name.
    async fn named(&self) -> Vec<String> {
        let rows = self.store.scan(Space::Versions, KeyRange::all(), usize::MAX, Direction::Forward).await.unwrap();
        rows.into_iter().filter_map(|(key, value)| object_of(&Written::new(Space::Versions, key, value))).map(|(name, _)| name).collect()
    }

    /// Collects all objects that are no longer promised.
    async fn in_two_days(&self) {
        let clock = &self.catalog.clock;
        clock.set(clock.now().plus_millis(2 * DAY));
        self.catalog.sources.objects.collect().await.unwrap();
    }

    async fn flaws(&self) -> Vec<String> {
        let mut flaws = Flaws::default();
        check_catalogue(&*self.store, &bucket_in(&self.folder), &mut flaws).await.unwrap();
        flaws.told
    }

    async fn answered(&self, version: &str) -> Option<serde_json::Value> {
        match self.catalog.uploaded(version).await.unwrap()? {
            HandlerDraft::Response { response } => Some(response.value()["a"].clone()),
            HandlerDraft::Source { .. } => None,
        }
    }
}

fn source(letter: &str) -> StoredVersion {
    let source = format!("export default () => '{}';", letter.repeat(IN_ROW));
    StoredVersion::Js(StoredSource { language: Language::Js, source, stripped: None })
}

/// Gives an endpoint a source, as a host with a worker would store it.
async fn runs(catalog: &Catalog, slug: &str, source: StoredVersion) {
    let (version, row) = (source.hash(), ENDPOINTS.row(&*catalog.store, &slug.to_owned()).await.unwrap().unwrap());
    let mut laid = catalog.sources.lay(&version, source).await.unwrap();
    let mut endpoint = row.value.clone();
    (endpoint.handler_type, endpoint.handler) = (tool::HandlerType::JsRequestResponse, tool::Handler::Js { language: Language::Js });
    endpoint.run_version(tool::Version::new(version, catalog.clock.now()));
    endpoint.revision += 1;
    let mut rows = Batch::new();
    rows.replace(&ENDPOINTS, &row, &endpoint);
    catalog.commit(slug, rows, Some(&mut laid)).await.unwrap();
}

#[test]
fn a_stored_response_keeps_its_digits_and_earlier_names_stay_valid() {
    let mut names = vec![];
    for text in ["[0.1]", "[0.1000]", "[1e-1]", "[0]", "[-0.0]", "[1]", "[1.0]", "[9007199254740993]", "[1e400]", "[2e400]"] {
        let response = tool::StaticResponse::read(text).unwrap();
        let stored = StoredVersion::Static { response: response.clone() };
        names.push(response_hash(&response));
        assert!(stored.has_name(names.last().unwrap()));
        let bytes = stored.to_bytes();
        assert!(bytes.ends_with(format!("{{\"response\":{text}}}").as_bytes()), "{text}");
        assert_eq!(StoredVersion::of_bytes(&bytes), Some(stored), "{text}");
    }
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
    let by_value = |value: serde_json::Value| tollhouse_money::receipt::json_hash(&value);
    assert_eq!((&names[0], &names[3]), (&by_value(json!([0.1])), &by_value(json!([0]))), "a usual answer is named as in earlier releases");
    let old = StoredVersion::Static { response: tool::StaticResponse::from(&json!([1.0])) };
    assert!(old.has_name(&by_value(json!([1.0]))) && !old.has_name(&names[0]));
}

#[test]
fn a_row_that_names_an_object_is_no_version_to_a_program_that_knows_of_none() {
    let whole = source("x").to_bytes();
    assert_eq!(VersionRow::Whole(source("x")).to_bytes(), whole, "a row that holds all is as it always was");
    for bytes in [&whole[..], &whole[2..]] {
        assert_eq!(VersionRow::of_bytes(bytes), Some(VersionRow::Whole(source("x"))));
    }
    // Marker and format, then name, hash and length.
    let named = [&[0xf5, 2, 2][..], b"ab", &[2], b"cd", &[7]].concat();
    assert_eq!(VersionRow::of_bytes(&named).map(|row| row.to_bytes()), Some(named.clone()));
    assert_eq!((StoredVersion::of_bytes(&named), VersionRow::of_bytes(&named[..6])), (None, None));
}

/// The source to run is temporarily unavailable. The host is not fenced because of that, and runs
/// nothing that was replaced. Running calls keep their rights until these are revoked.
#[tokio::test]
async fn a_host_that_hears_of_a_source_it_cannot_read_goes_on_and_calls_it_later() {
    let bench = Bench::over(Arc::new(MemoryStore::shared(Clock::default()))).await;
    let (host, other) = (&bench.catalog, Bench::one(&bench.folder, &bench.store).await);
    let mut wants = draft("tool");
    wants.capabilities = tool::Capabilities { kv: true, ..Default::default() };
    other.create(wants, Owner::Platform, By::Admin).await.unwrap();
    runs(&other, "tool", source("x")).await;
    hears(host).await;
    let running = host.find("tool").await.unwrap().unwrap();
    assert!(running.grant.now().capabilities.kv && !running.lacks_source());
    runs(&other, "tool", source("y")).await;
    let (objects, beside) = (bench.folder.path().join("objects"), bench.folder.path().join("beside"));
    std::fs::rename(&objects, &beside).unwrap();
    std::fs::write(&objects, "no folder").unwrap();
    hears(host).await;
    assert!(running.grant.now().capabilities.kv && host.found("tool").is_none());
    assert!(matches!(host.find("tool").await, Err(StoreError::Away(_))));
    let paused = host.update("tool", patch(json!({ "status": "paused" })), None, By::Admin).await.unwrap();
    assert!(paused.lacks_source() && host.found("tool").is_none());
    host.update("tool", patch(json!({ "status": "active" })), None, By::Admin).await.unwrap();
    std::fs::remove_file(&objects).unwrap();
    std::fs::rename(&beside, &objects).unwrap();
    let found = host.find("tool").await.unwrap().unwrap();
    assert_eq!((&found.endpoint.version, found.grant.now().capabilities.kv), (&source("y").hash(), true));
    assert!(!found.lacks_source() && Arc::ptr_eq(&found.grant, &running.grant));
    host.decide("tool", &serde_json::from_value(json!({ "decision": "takedown" })).unwrap(), None).await.unwrap();
    assert!(!running.grant.now().capabilities.kv);
}

/// No call has used it yet, and a call does so while it is changed. Both share one grant.
#[tokio::test]
async fn what_is_decided_of_a_tool_whose_source_was_not_read_reaches_the_call_that_reads_it() {
    let bench = Bench::over(Arc::new(MemoryStore::new())).await;
    let mut wants = draft("tool");
    wants.capabilities = tool::Capabilities { kv: true, ..Default::default() };
    bench.catalog.create(wants, Owner::Platform, By::Admin).await.unwrap();
    runs(&bench.catalog, "tool", source("x")).await;
    let catalog = Bench::one(&bench.folder, &bench.store).await;
    let paused = catalog.update("tool", patch(json!({ "title": "Later" })), None, By::Admin).await.unwrap();
    let running = catalog.find("tool").await.unwrap().unwrap();
    assert!(running.grant.now().capabilities.kv && Arc::ptr_eq(&running.grant, &paused.grant));
    catalog.decide("tool", &serde_json::from_value(json!({ "decision": "takedown" })).unwrap(), None).await.unwrap();
    assert!(!running.grant.now().capabilities.kv);
    let fresh = Bench::one(&bench.folder, &bench.store).await;
    std::fs::remove_dir_all(bench.folder.path().join("objects")).unwrap();
    let down = fresh.delete("tool", None, By::Admin).await.unwrap();
    assert!(down.lacks_source() && fresh.find("tool").await.unwrap().is_none());
}

#[tokio::test]
async fn a_long_version_is_an_object_that_its_row_names_and_a_short_one_lies_in_its_row() {
    let bench = Bench::over(Arc::new(MemoryStore::new())).await;
    let short = bench.catalog.create(draft("short"), Owner::Platform, By::Admin).await.unwrap();
    assert!(bench.objects().is_empty());
    let made = bench.catalog.create(long("tool", "x"), Owner::Platform, By::Admin).await.unwrap();
    assert_eq!(bench.objects().len(), 1);
    let row = VERSIONS.row(&*bench.store, &made.endpoint.version).await.unwrap().unwrap();
    assert!(matches!(row.value, VersionRow::Apart(_)) && store::Value::to_bytes(&row.value).len() < 200);
    assert!(matches!(VERSIONS.get(&*bench.store, &short.endpoint.version).await.unwrap(), Some(VersionRow::Whole(_))));

    // Another host, and a rollback to an earlier version.
    let version = &made.endpoint.version;
    let bench = Bench { catalog: Bench::one(&bench.folder, &bench.store).await, ..bench };
    bench.catalog.update("tool", answers("y"), None, By::Admin).await.unwrap();
    let back = bench.catalog.update("tool", patch(json!({ "version": version })), None, By::Admin).await.unwrap();
    assert_eq!((&back.endpoint.version, bench.answered(version).await), (version, Some(json!("x".repeat(IN_ROW)))));
    assert_eq!((bench.objects().len(), bench.flaws().await), (2, vec![]));
}

#[tokio::test]
async fn the_same_version_is_one_object_for_as_long_as_an_endpoint_has_it() {
    for is_shared in [false, true] {
        // In a shared store, age also depends on the store's clock.
        let store = if is_shared { MemoryStore::shared(Clock::fixed(Timestamp(u64::MAX))) } else { MemoryStore::new() };
        let bench = Bench::over(Arc::new(store)).await;
        for slug in ["one", "two", "three"] {
            bench.catalog.create(long(slug, "x"), Owner::Platform, By::Admin).await.unwrap();
        }
        assert_eq!((bench.objects().len(), bench.named().await.len()), (1, 1));
        for (slug, left) in [("one", 1), ("two", 1), ("three", 0)] {
            bench.catalog.delete(slug, None, By::Admin).await.unwrap();
            bench.in_two_days().await;
            bench.catalog.forget_versions().await.unwrap();
            bench.in_two_days().await;
            assert_eq!((bench.objects().len(), bench.named().await.len()), (left, left), "{slug}, shared {is_shared}");
        }
    }
}

/// Two hosts publish the same at the same time. Each has written an object before it sees the
/// other's.
#[tokio::test]
async fn of_two_hosts_that_publish_the_same_at_once_one_keeps_its_object() {
    let bench = Bench::over(Arc::new(MemoryStore::shared(Clock::default()))).await;
    let other = Bench::one(&bench.folder, &bench.store).await;
    let mut kept = Vec::new();
    for (catalog, slug) in [(&bench.catalog, "one"), (&other, "two")] {
        let mut prepared = catalog.prepare(&draft_endpoint(slug), long(slug, "x").handler.as_ref(), Default::default()).await.unwrap();
        kept.push((catalog, catalog.lay(Some(&mut prepared), None, By::Admin).await.unwrap()));
    }
    assert_eq!(bench.objects().len(), 2);
    for (catalog, laid) in kept {
        let mut laid = laid;
        let rows = Batch::new();
        catalog.commit("none", rows, laid.as_mut()).await.unwrap();
        catalog.sources.settle(laid, &Ok(())).await;
    }
    assert_eq!((bench.objects().len(), bench.named().await.len(), bench.flaws().await), (1, 1, vec![]));
}

fn draft_endpoint(slug: &str) -> Endpoint {
    publish::new(&long(slug, "x"), Owner::Platform, Default::default(), Timestamp(0))
}

/// Each commit of a tool's life fails in each way.
#[tokio::test]
async fn whatever_fails_there_are_as_many_objects_as_rows_that_name_them() {
    for fault in [Fault::Before, Fault::After, Fault::Lost] {
        for nth in 1..=9 {
            let story = format!("{fault:?} at commit {nth}");
            let store = Arc::new(FaultyStore::new(MemoryStore::new()));
            let bench = Bench::over(Arc::clone(&store) as _).await;
            store.fail_nth(nth, fault);
            _ = bench.catalog.create(long("tool", "x"), Owner::Platform, By::Admin).await;
            _ = bench.catalog.update("tool", answers("y"), None, By::Admin).await;
            _ = bench.catalog.update("tool", patch(json!({ "title": "Later" })), None, By::Admin).await;
            _ = bench.catalog.create(long("other", "y"), Owner::Platform, By::Admin).await;
            _ = bench.catalog.delete("tool", None, By::Admin).await;
            store.heal();
            bench.in_two_days().await;
            assert_eq!((bench.objects().len(), bench.flaws().await), (bench.named().await.len(), vec![]), "{story}");
            for slug in ["tool", "other"] {
                _ = bench.catalog.delete(slug, None, By::Admin).await;
            }
            bench.in_two_days().await;
            assert_eq!((bench.objects().len(), bench.named().await.len()), (0, 0), "{story}");
        }
    }
}

#[tokio::test]
async fn what_no_bucket_takes_or_not_every_host_has_or_reads_lies_in_its_row() {
    let bench = Bench::over(Arc::new(MemoryStore::shared(Clock::default()))).await;
    // A host that has not renewed its lease in time: other hosts that do not understand such rows
    // may be serving.
    let replica = Replica::new(Arc::clone(&bench.store));
    let careful = catalog_in(&bench.folder, Arc::clone(&bench.store), CatalogRoom::default(), replica).await;
    let made = careful.create(long("careful", "x"), Owner::Platform, By::Admin).await.unwrap();
    assert_eq!((bench.objects().len(), bench.answered(&made.endpoint.version).await.is_some()), (0, true));
    // A folder may be local to one machine while the store is shared.
    for (store, is_put) in [(Arc::clone(&bench.store), false), (Arc::new(MemoryStore::new()) as _, true)] {
        let objects = Objects::new(store, careful.clock.clone(), Arc::new(bucket_in(&bench.folder)));
        let put = objects.put_apart(async { Ok(true) }, "a content", "x".into()).await;
        assert_eq!(put.is_some(), is_put);
    }

    let objects = bench.folder.path().join("objects");
    std::fs::remove_dir_all(&objects).unwrap();
    std::fs::write(&objects, "no folder").unwrap();
    let made = bench.catalog.create(long("tool", "y"), Owner::Platform, By::Admin).await.unwrap();
    assert_eq!((bench.named().await.len(), bench.answered(&made.endpoint.version).await.is_some()), (0, true));
}

#[tokio::test]
async fn what_is_blocked_is_put_nowhere() {
    let bench = Bench::over(Arc::new(MemoryStore::new())).await;
    let leak = ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat();
    let leaks = json!({ "a": "x".repeat(IN_ROW), "b": format!("the key is '{leak}'") });
    let mut blocked = draft("leaks");
    blocked.handler = Some(HandlerDraft::Response { response: tool::StaticResponse::from(&leaks) });
    let owner = builder();
    let refused = bench.catalog.create(blocked, owner.clone(), By::Builder).await;
    assert!(matches!(refused, Err(PublishError::Blocked(_))), "{refused:?}");
    bench.catalog.create(draft("tool"), owner, By::Builder).await.unwrap();
    let refused = bench.catalog.update("tool", patch(json!({ "handler": { "response": leaks } })), None, By::Builder).await;
    assert!(matches!(refused, Err(PublishError::Blocked(_))), "{refused:?}");
    let marks = bench.store.scan(Space::Meta, KeyRange::prefix(b"object-ends/"), 9, Direction::Forward).await.unwrap();
    assert_eq!((bench.objects().len(), marks.len()), (0, 0));
}

#[tokio::test]
async fn an_object_that_is_lost_or_another_is_told_and_given_to_nobody() {
    let bench = Bench::over(Arc::new(MemoryStore::new())).await;
    let made = bench.catalog.create(long("tool", "x"), Owner::Platform, By::Admin).await.unwrap();
    let (version, object) = (&made.endpoint.version, bench.objects().remove(0));
    let name = bench.named().await.remove(0);
    for (other, flaw) in [
        (Some("something else"), format!("version {version} is not what it was: its hash is unknown")),
        (None, format!("version {version} is missing (object {name})")),
    ] {
        match other {
            Some(other) => std::fs::write(&object, other).unwrap(),
            None => std::fs::remove_file(&object).unwrap(),
        }
        assert!(matches!(bench.catalog.uploaded(version).await, Err(PublishError::Lost(_))));
        assert_eq!(bench.flaws().await, [flaw]);
    }
    let content = serde_json::to_vec(&json!({ "response": { "a": "x".repeat(IN_ROW) } })).unwrap();
    bucket_in(&bench.folder).put(&name, [&[0xf5, 1][..], &content].concat().into()).await.unwrap();
    assert_eq!((bench.answered(version).await.is_some(), bench.flaws().await), (true, vec![]), "an operator may put it back");
}

#[tokio::test]
async fn a_rescan_whose_bucket_is_away_ends_another_time() {
    let bench = Bench::over(Arc::new(MemoryStore::new())).await;
    bench.catalog.create(long("long", "x"), builder(), By::Builder).await.unwrap();
    bench.catalog.create(draft("tool"), builder(), By::Builder).await.unwrap();
    let (object, beside) = (bench.objects().remove(0), bench.folder.path().join("beside"));
    std::fs::rename(&object, &beside).unwrap();
    assert!(matches!(bench.catalog.rescan().await, Err(PublishError::Lost(_))));
    assert!(bench.catalog.rescan_is_due().await.unwrap());
    let (catalog, replica) = (&bench.catalog, Replica::new(Arc::clone(&bench.store)));
    let due = || replica.alone("rescan", std::time::Duration::ZERO, |turn| async move { catalog.rescan_if_due(&turn).await });
    for _ in 0..2 {
        assert!(matches!(due().await, Err(PublishError::Lost(_))));
        assert_eq!(bench.catalog.left().as_ref().unwrap().len(), 1, "the other is not scanned again");
    }
    std::fs::rename(&beside, &object).unwrap();
    due().await.unwrap();
    assert!(bench.catalog.left().is_none());
    assert!(!bench.catalog.rescan_is_due().await.unwrap());
}
