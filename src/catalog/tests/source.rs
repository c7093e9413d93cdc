//! Long sources: as many objects as rows that name them, whatever fails, and every endpoint can be
//! held back without its object.

use std::path::PathBuf;

use tollhouse_base::check_report::CheckReport;
use tollhouse_objects::Bucket as _;
use tollhouse_protocol::Language;
use tollhouse_store as store;
use tollhouse_store::{
    Direction, KeyRange, Space, StoreError, Value as _, WrittenRow,
    faulty::{Fault, FaultyStore},
};

use super::{follow::receives, *};
use crate::{
    entry::ENDPOINTS,
    examine::DraftUpload,
    source::{MAX_ROW_BYTES, StoredSource, StoredVersion, VERSIONS, VersionRow, object_of, response_hash},
};

const DAY: u64 = 24 * 3_600_000;

/// Returns a tool with a fixed answer that is too long for its row.
fn long(slug: &str, letter: &str) -> Draft {
    let mut draft = draft(slug);
    draft.handler = Some(HandlerDraft::Response { response: tool::StaticResponse::from(&json!({ "a": letter.repeat(MAX_ROW_BYTES) })) });
    draft
}

fn answers(letter: &str) -> Patch {
    patch(json!({ "handler": { "response": { "a": letter.repeat(MAX_ROW_BYTES) } } }))
}

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
}

impl Fixture {
    async fn over(store: Arc<dyn Store>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Self::one(&folder, &store).await;
        Self { folder, store, catalog }
    }

    /// Creates a host that understands the object format, like all others of the store.
    async fn one(folder: &tempfile::TempDir, store: &Arc<dyn Store>) -> Arc<Catalog> {
        catalog_in(folder, Arc::clone(store), CatalogCapacity::default()).await
    }

    fn objects(&self) -> Vec<PathBuf> {
        let folder = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
        folder(self.folder.path().join("objects")).flat_map(folder).collect()
    }

    /// Returns the objects that rows name.
    async fn named(&self) -> Vec<String> {
        let rows = self.store.scan(Space::Versions, KeyRange::all(), usize::MAX, Direction::Forward).await.unwrap();
        rows.into_iter().filter_map(|(key, value)| object_of(&WrittenRow::new(Space::Versions, key, value))).map(|(name, _)| name).collect()
    }

    /// Collects all objects that are no longer promised.
    async fn in_two_days(&self) {
        let clock = &self.catalog.parts.clock;
        clock.set(clock.now().plus_millis(2 * DAY));
        self.catalog.sources.objects.collect().await.unwrap();
    }

    async fn flaws(&self) -> Vec<String> {
        let mut flaws = CheckReport::default();
        check_catalogue(&*self.store, &bucket_in(&self.folder), &mut flaws).await.unwrap();
        flaws.listed
    }

    async fn answered(&self, version: &str) -> Option<serde_json::Value> {
        match self.catalog.uploaded(version).await.unwrap()? {
            HandlerDraft::Response { response } => Some(response.value()["a"].clone()),
            HandlerDraft::Source { .. } => None,
        }
    }
}

fn source(letter: &str) -> StoredVersion {
    let source = format!("export default () => '{}';", letter.repeat(MAX_ROW_BYTES));
    StoredVersion::Js(StoredSource { language: Language::Js, source, stripped: None })
}

/// Gives an endpoint a source, as a host with a worker would store it.
async fn runs(catalog: &Catalog, slug: &str, source: StoredVersion) {
    let (version, row) = (source.hash(), ENDPOINTS.row(&*catalog.store, &slug.to_owned()).await.unwrap().unwrap());
    let mut staged = catalog.sources.stage(&version, source).await.unwrap();
    let mut endpoint = row.value.clone();
    (endpoint.handler_type, endpoint.handler) = (tool::HandlerType::JsRequestResponse, tool::Handler::Js { language: Language::Js });
    endpoint.run_version(tool::Version::new(version, catalog.parts.clock.now(), tool::VersionMaker::Admin));
    endpoint.revision += 1;
    let mut rows = Batch::new();
    rows.replace(&ENDPOINTS, &row, &endpoint);
    catalog.commit(slug, rows, Some(&mut staged)).await.unwrap();
}

#[test]
fn stored_response_keeps_its_digits_and_is_named_by_them() {
    let mut names = vec![];
    for text in ["[0.1]", "[0.1000]", "[1e-1]", "[0]", "[-0.0]", "[1]", "[1.0]", "[9007199254740993]", "[1e400]", "[2e400]"] {
        let response = tool::StaticResponse::read(text).unwrap();
        let stored = StoredVersion::Static { response: response.clone() };
        names.push(response_hash(&response));
        assert_eq!(stored.hash(), *names.last().unwrap());
        let bytes = stored.to_bytes();
        assert!(bytes.ends_with(format!("{{\"response\":{text}}}").as_bytes()), "{text}");
        assert_eq!(StoredVersion::of_bytes(&bytes), Some(stored), "{text}");
    }
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
    let by_value = |value: serde_json::Value| tollhouse_money::receipt::json_hash(&value);
    assert_eq!((&names[0], &names[3]), (&by_value(json!([0.1])), &by_value(json!([0]))), "a canonical answer is named by its value");
}

#[test]
fn object_row_is_not_read_as_a_version() {
    let whole = source("x").to_bytes();
    assert_eq!(VersionRow::Whole(source("x")).to_bytes(), whole, "a whole row is the version itself");
    assert_eq!(VersionRow::of_bytes(&whole), Some(VersionRow::Whole(source("x"))));
    // Marker and format, then name, hash and length.
    let named = [&[0xf5, 2, 2][..], b"ab", &[2], b"cd", &[7]].concat();
    assert_eq!(VersionRow::of_bytes(&named).map(|row| row.to_bytes()), Some(named.clone()));
    assert_eq!((StoredVersion::of_bytes(&named), VersionRow::of_bytes(&named[..6])), (None, None));
}

/// The source to run is temporarily unavailable. The host is not fenced because of that, and runs
/// nothing that was replaced. Running calls keep their rights until these are revoked.
#[tokio::test]
async fn unreadable_source_is_retried_at_the_next_call() {
    let fixture = Fixture::over(Arc::new(MemoryStore::shared(Clock::default()))).await;
    let (host, other) = (&fixture.catalog, Fixture::one(&fixture.folder, &fixture.store).await);
    let mut wants = draft("tool");
    wants.capabilities = tool::Capabilities { kv: true, ..Default::default() };
    other.create(wants, Owner::Platform, ChangedBy::Admin).await.unwrap();
    runs(&other, "tool", source("x")).await;
    receives(host).await;
    let running = host.find("tool").await.unwrap().unwrap();
    assert!(running.grant.now().capabilities.kv && !running.lacks_source());
    runs(&other, "tool", source("y")).await;
    let (objects, alongside) = (fixture.folder.path().join("objects"), fixture.folder.path().join("beside"));
    std::fs::rename(&objects, &alongside).unwrap();
    std::fs::write(&objects, "no folder").unwrap();
    receives(host).await;
    assert!(running.grant.now().capabilities.kv && host.find_cached("tool").is_none());
    assert!(matches!(host.find("tool").await, Err(FindError::Store(StoreError::Away(_)))));
    let paused = host.update("tool", patch(json!({ "status": "paused" })), None, ChangedBy::Admin).await.unwrap();
    assert!(paused.lacks_source() && host.find_cached("tool").is_none());
    host.update("tool", patch(json!({ "status": "active" })), None, ChangedBy::Admin).await.unwrap();
    std::fs::remove_file(&objects).unwrap();
    std::fs::rename(&alongside, &objects).unwrap();
    let found = host.find("tool").await.unwrap().unwrap();
    assert_eq!((&found.endpoint.version, found.grant.now().capabilities.kv), (&source("y").hash(), true));
    assert!(!found.lacks_source() && Arc::ptr_eq(&found.grant, &running.grant));
    host.decide("tool", &serde_json::from_value(json!({ "decision": "takedown" })).unwrap(), None).await.unwrap();
    assert!(!running.grant.now().capabilities.kv);
}

/// No call has used it yet, and a call does so while it is changed. Both share one grant.
#[tokio::test]
async fn decision_reaches_a_call_that_loads_the_source() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new())).await;
    let mut wants = draft("tool");
    wants.capabilities = tool::Capabilities { kv: true, ..Default::default() };
    fixture.catalog.create(wants, Owner::Platform, ChangedBy::Admin).await.unwrap();
    runs(&fixture.catalog, "tool", source("x")).await;
    let catalog = Fixture::one(&fixture.folder, &fixture.store).await;
    let paused = catalog.update("tool", patch(json!({ "title": "Later" })), None, ChangedBy::Admin).await.unwrap();
    let running = catalog.find("tool").await.unwrap().unwrap();
    assert!(running.grant.now().capabilities.kv && Arc::ptr_eq(&running.grant, &paused.grant));
    catalog.decide("tool", &serde_json::from_value(json!({ "decision": "takedown" })).unwrap(), None).await.unwrap();
    assert!(!running.grant.now().capabilities.kv);
    let fresh = Fixture::one(&fixture.folder, &fixture.store).await;
    std::fs::remove_dir_all(fixture.folder.path().join("objects")).unwrap();
    let down = fresh.delete("tool", None, ChangedBy::Admin).await.unwrap();
    assert!(down.lacks_source() && fresh.find("tool").await.unwrap().is_none());
}

#[tokio::test]
async fn long_version_is_an_object_and_short_one_is_in_its_row() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new())).await;
    let short = fixture.catalog.create(draft("short"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert!(fixture.objects().is_empty());
    let made = fixture.catalog.create(long("tool", "x"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert_eq!(fixture.objects().len(), 1);
    let row = VERSIONS.row(&*fixture.store, &made.endpoint.version).await.unwrap().unwrap();
    assert!(matches!(row.value, VersionRow::Apart(_)) && store::Value::to_bytes(&row.value).len() < 200);
    assert!(matches!(VERSIONS.get(&*fixture.store, &short.endpoint.version).await.unwrap(), Some(VersionRow::Whole(_))));

    // Another host, and a rollback to an earlier version.
    let version = &made.endpoint.version;
    let fixture = Fixture { catalog: Fixture::one(&fixture.folder, &fixture.store).await, ..fixture };
    fixture.catalog.update("tool", answers("y"), None, ChangedBy::Admin).await.unwrap();
    let back = fixture.catalog.update("tool", patch(json!({ "version": version })), None, ChangedBy::Admin).await.unwrap();
    assert_eq!((&back.endpoint.version, fixture.answered(version).await), (version, Some(json!("x".repeat(MAX_ROW_BYTES)))));
    assert_eq!((fixture.objects().len(), fixture.flaws().await), (2, vec![]));
}

#[tokio::test]
async fn shared_version_is_one_object_until_nobody_needs_it() {
    for is_shared in [false, true] {
        // In a shared store, age also depends on the store's clock.
        let store = if is_shared { MemoryStore::shared(Clock::fixed(Timestamp(u64::MAX))) } else { MemoryStore::new() };
        let fixture = Fixture::over(Arc::new(store)).await;
        for slug in ["one", "two", "three"] {
            fixture.catalog.create(long(slug, "x"), Owner::Platform, ChangedBy::Admin).await.unwrap();
        }
        assert_eq!((fixture.objects().len(), fixture.named().await.len()), (1, 1));
        for (slug, remaining) in [("one", 1), ("two", 1), ("three", 0)] {
            fixture.catalog.delete(slug, None, ChangedBy::Admin).await.unwrap();
            fixture.in_two_days().await;
            fixture.catalog.forget_versions().await.unwrap();
            fixture.in_two_days().await;
            assert_eq!((fixture.objects().len(), fixture.named().await.len()), (remaining, remaining), "{slug}, shared {is_shared}");
        }
    }
}

/// Two hosts publish the same at the same time. Each has written an object before it sees the
/// other's.
#[tokio::test]
async fn concurrent_publishes_of_one_version_keep_one_object() {
    let fixture = Fixture::over(Arc::new(MemoryStore::shared(Clock::default()))).await;
    let other = Fixture::one(&fixture.folder, &fixture.store).await;
    let mut stored = Vec::new();
    for (catalog, slug) in [(&fixture.catalog, "one"), (&other, "two")] {
        let mut prepared =
            catalog.prepare(&draft_endpoint(catalog, slug), long(slug, "x").handler.as_ref(), Default::default()).await.unwrap();
        stored.push((catalog, catalog.stage(Some(&mut prepared), None, ChangedBy::Admin).await.unwrap()));
    }
    assert_eq!(fixture.objects().len(), 2);
    for (catalog, staged) in stored {
        let mut staged = staged;
        let rows = Batch::new();
        catalog.commit("none", rows, staged.as_mut()).await.unwrap();
        catalog.sources.settle(staged, &Ok(())).await;
    }
    assert_eq!((fixture.objects().len(), fixture.named().await.len(), fixture.flaws().await), (1, 1, vec![]));
}

fn draft_endpoint(catalog: &Catalog, slug: &str) -> Endpoint {
    let (draft, owner) = (long(slug, "x"), Owner::Platform);
    let upload = DraftUpload { draft: &draft, owner: &owner, by: ChangedBy::Admin, existing: None, has_slug: true, has_handler: true };
    catalog.endpoint_of(&upload, Timestamp(0))
}

/// Each commit of a tool's life fails in each way.
#[tokio::test]
async fn objects_match_the_rows_that_name_them_after_any_failure() {
    for fault in [Fault::Before, Fault::After, Fault::Lost] {
        for nth in 1..=9 {
            let story = format!("{fault:?} at commit {nth}");
            let store = Arc::new(FaultyStore::new(MemoryStore::new()));
            let fixture = Fixture::over(Arc::clone(&store) as _).await;
            store.fail_nth(nth, fault);
            _ = fixture.catalog.create(long("tool", "x"), Owner::Platform, ChangedBy::Admin).await;
            _ = fixture.catalog.update("tool", answers("y"), None, ChangedBy::Admin).await;
            _ = fixture.catalog.update("tool", patch(json!({ "title": "Later" })), None, ChangedBy::Admin).await;
            _ = fixture.catalog.create(long("other", "y"), Owner::Platform, ChangedBy::Admin).await;
            _ = fixture.catalog.delete("tool", None, ChangedBy::Admin).await;
            store.heal();
            fixture.in_two_days().await;
            assert_eq!((fixture.objects().len(), fixture.flaws().await), (fixture.named().await.len(), vec![]), "{story}");
            for slug in ["tool", "other"] {
                _ = fixture.catalog.delete(slug, None, ChangedBy::Admin).await;
            }
            fixture.in_two_days().await;
            assert_eq!((fixture.objects().len(), fixture.named().await.len()), (0, 0), "{story}");
        }
    }
}

#[tokio::test]
async fn version_is_in_its_row_if_the_bucket_is_unusable() {
    let fixture = Fixture::over(Arc::new(MemoryStore::shared(Clock::default()))).await;
    // Other hosts may not have the folder of this one.
    let bucket = Arc::new(bucket_in(&fixture.folder));
    let careful = catalog_on(bucket, Arc::clone(&fixture.store), CatalogCapacity::default()).await;
    let made = careful.create(long("careful", "x"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert_eq!((fixture.objects().len(), fixture.answered(&made.endpoint.version).await.is_some()), (0, true));
    // A folder may be local to one machine while the store is shared.
    for (store, is_put) in [(Arc::clone(&fixture.store), false), (Arc::new(MemoryStore::new()) as _, true)] {
        let objects = Objects::new(store, careful.parts.clock.clone(), Arc::new(bucket_in(&fixture.folder)));
        let put = objects.put_apart("a content", "x".into()).await;
        assert_eq!(put.is_some(), is_put);
    }

    let objects = fixture.folder.path().join("objects");
    std::fs::remove_dir_all(&objects).unwrap();
    std::fs::write(&objects, "no folder").unwrap();
    let made = fixture.catalog.create(long("tool", "y"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert_eq!((fixture.named().await.len(), fixture.answered(&made.endpoint.version).await.is_some()), (0, true));
}

#[tokio::test]
async fn blocked_upload_is_not_stored() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new())).await;
    let leak = ["AKIA", "Q3EGRZ7N", "W2LDK5TX"].concat();
    let leaks = json!({ "a": "x".repeat(MAX_ROW_BYTES), "b": format!("the key is '{leak}'") });
    let mut blocked = draft("leaks");
    blocked.handler = Some(HandlerDraft::Response { response: tool::StaticResponse::from(&leaks) });
    let owner = builder();
    let refused = fixture.catalog.create(blocked, owner.clone(), ChangedBy::Builder).await;
    assert!(matches!(refused, Err(PublishError::Blocked(_))), "{refused:?}");
    fixture.catalog.create(draft("tool"), owner, ChangedBy::Builder).await.unwrap();
    let refused = fixture.catalog.update("tool", patch(json!({ "handler": { "response": leaks } })), None, ChangedBy::Builder).await;
    assert!(matches!(refused, Err(PublishError::Blocked(_))), "{refused:?}");
    let marks = fixture.store.scan(Space::Meta, KeyRange::prefix(b"object-ends/"), 9, Direction::Forward).await.unwrap();
    assert_eq!((fixture.objects().len(), marks.len()), (0, 0));
}

#[tokio::test]
async fn lost_or_altered_object_is_reported_and_never_run() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new())).await;
    let made = fixture.catalog.create(long("tool", "x"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let (version, object) = (&made.endpoint.version, fixture.objects().remove(0));
    let name = fixture.named().await.remove(0);
    for (other, flaw) in [
        (Some("something else"), format!("version {version} has changed: its hash is unknown")),
        (None, format!("version {version} is missing (object {name})")),
    ] {
        match other {
            Some(other) => std::fs::write(&object, other).unwrap(),
            None => std::fs::remove_file(&object).unwrap(),
        }
        assert!(matches!(fixture.catalog.uploaded(version).await, Err(PublishError::Lost(_))));
        assert_eq!(fixture.flaws().await, [flaw]);
    }
    let content = serde_json::to_vec(&json!({ "response": { "a": "x".repeat(MAX_ROW_BYTES) } })).unwrap();
    bucket_in(&fixture.folder).put(&name, [&[0xf5, 1][..], &content].concat().into()).await.unwrap();
    assert_eq!((fixture.answered(version).await.is_some(), fixture.flaws().await), (true, vec![]), "an operator may put it back");
}

#[tokio::test]
async fn rescan_continues_after_the_bucket_was_down() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new())).await;
    fixture.catalog.create(long("long", "x"), builder(), ChangedBy::Builder).await.unwrap();
    fixture.catalog.create(draft("tool"), builder(), ChangedBy::Builder).await.unwrap();
    let (object, alongside) = (fixture.objects().remove(0), fixture.folder.path().join("beside"));
    std::fs::rename(&object, &alongside).unwrap();
    assert!(matches!(fixture.catalog.rescan().await, Err(PublishError::Lost(_))));
    assert!(fixture.catalog.rescan_is_due().await.unwrap());
    let (catalog, replica) = (&fixture.catalog, Replica::new(Arc::clone(&fixture.store)));
    let due = || replica.alone("rescan", std::time::Duration::ZERO, |turn| async move { catalog.rescan_if_due(&turn).await });
    for _ in 0..2 {
        assert!(matches!(due().await, Err(PublishError::Lost(_))));
        assert_eq!(fixture.catalog.unscanned.lock().as_ref().unwrap().len(), 1, "the other is not scanned again");
    }
    std::fs::rename(&alongside, &object).unwrap();
    due().await.unwrap();
    assert!(fixture.catalog.unscanned.lock().is_none());
    assert!(!fixture.catalog.rescan_is_due().await.unwrap());
}

#[tokio::test]
async fn sample_names_sources_in_objects_and_finds_lost_ones() {
    let fixture = Fixture::over(Arc::new(MemoryStore::new())).await;
    let catalog = &fixture.catalog;
    for slug in ["short", "tool"] {
        catalog.create(draft(slug), Owner::Platform, ChangedBy::Admin).await.unwrap();
    }
    runs(catalog, "tool", source("x")).await;
    let sample = catalog.sample_sources().await.unwrap();
    assert_eq!(sample.iter().map(|object| &*object.what).collect::<Vec<_>>(), ["the source of the tool `tool`"]);
    let of_versions = sample_sources(&*fixture.store, vec![]).await.unwrap();
    assert!(of_versions.len() == 1 && of_versions[0].name == sample[0].name, "{of_versions:?}");
    let missing = async || catalog.sources.objects.look_for(catalog.sample_sources().await.unwrap()).await.unwrap().missing;
    assert!(missing().await.is_empty());
    std::fs::remove_file(fixture.objects().remove(0)).unwrap();
    assert_eq!(missing().await, sample);
}
