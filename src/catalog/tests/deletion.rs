//! Deletion of endpoints: nothing waits for it, nothing is left, and nothing is written afterwards,
//! wherever it is interrupted.

use std::sync::Mutex;

use tokio::sync::watch;
use tollhouse_base::id::{CallId, EndpointId};
use tollhouse_capability::{
    CallGrants, Ops,
    secret::{SecretError, SecretName, SecretOwner, Visibility},
};
use tollhouse_pool::OpHost as _;
use tollhouse_protocol::{Limits, LogLevel, LogLine, OpRequest, OpValue};
use tollhouse_store::{
    Direction, KeyRange, Space, StoreError,
    faulty::{Fault, FaultyStore},
    test_wrappers::{InterleavingStore, StoreWrapper},
};
use tollhouse_tool::Capabilities;

use super::{follow::receives, *};
use crate::{
    deletion::{DELETIONS, MARK_LIFETIME_MS},
    retired::DELETED,
    source::VERSIONS,
};

/// Tables with data of endpoints.
const RETAINED: [Space; 6] = [Space::Kv, Space::KvUsage, Space::Files, Space::FilesUsage, Space::Logs, Space::Secrets];

/// Creates a shared store whose clock ends no marks, so that only the hosts' clocks do.
fn shared() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::shared(Clock::fixed(Timestamp(1 << 50))))
}

/// Creates a host that has seen all changes of the others.
async fn host_in(folder: &tempfile::TempDir, store: Arc<dyn Store>) -> Arc<Catalog> {
    catalog_in(folder, store, CatalogCapacity::default()).await
}

async fn host_of(store: Arc<dyn Store>) -> (Arc<Catalog>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (host_in(&folder, store).await, folder)
}

/// Returns a tool with all storage capabilities.
fn keeps(slug: &str) -> Draft {
    let mut draft = draft(slug);
    draft.capabilities = Capabilities { kv: true, files: true, logs: true, ..Capabilities::default() };
    draft
}

/// Returns the ops of a running call of an endpoint.
async fn call(catalog: &Catalog, slug: &str) -> Ops {
    let live = catalog.find(slug).await.unwrap().unwrap();
    let grants = CallGrants {
        owner: live.endpoint.owner.clone(),
        endpoint_id: live.endpoint.id.clone(),
        call_id: CallId::generate(),
        by_owner: false,
        grant: Arc::clone(&live.grant),
        secrets: vec![],
        limits: Limits::default(),
    };
    Ops::new(grants, Arc::clone(&catalog.parts.services))
}

fn set(key: &str, value: &str) -> OpRequest {
    OpRequest::KvSet { key: key.to_owned(), value: value.to_owned().into(), ttl_ms: None }
}

fn write(path: &str) -> OpRequest {
    OpRequest::FileWrite { path: path.to_owned(), content: "content".into() }
}

/// Stores data of every kind for an endpoint, and returns its id.
async fn fill(catalog: &Catalog, slug: &str) -> EndpointId {
    let live = catalog.find(slug).await.unwrap().unwrap();
    let (call, holder) = (call(catalog, slug).await, SecretOwner::from(&live.endpoint));
    for n in 0..3 {
        call.op(set(&format!("key-{n}"), "1")).await.unwrap();
        call.op(write(&format!("file-{n}"))).await.unwrap();
        call.log(LogLine { level: LogLevel::Info, message: "line".into(), fields: String::new() });
        let name = format!("NAME_{n}").parse::<SecretName>().unwrap();
        catalog.parts.services.secrets.set(&holder, name, "value", Visibility::Env).await.unwrap();
    }
    catalog.parts.services.logs.flush().await;
    live.endpoint.id.clone()
}

/// Returns the rows with data of endpoints.
async fn retained(store: &dyn Store) -> Vec<(Space, Vec<u8>)> {
    let mut rows = vec![];
    for space in RETAINED {
        let found = store.scan(space, KeyRange::all(), 1_000, Direction::Forward).await.unwrap();
        rows.extend(found.into_iter().map(|(key, _)| (space, key)));
    }
    rows
}

/// Sets the clock to after the end of marks.
fn in_an_hour(catalog: &Catalog) {
    catalog.parts.clock.set(catalog.parts.clock.now().plus_millis(MARK_LIFETIME_MS + 1));
}

/// Runs the job of deletions until nothing is left to do.
async fn finished(catalog: &Catalog) {
    catalog.finish_deletions().await.unwrap();
    in_an_hour(catalog);
    catalog.finish_deletions().await.unwrap();
    catalog.sources.objects.collect().await.unwrap();
    assert_eq!(DELETIONS.count(&*catalog.store, &DELETIONS.all(), 10).await.unwrap(), 0);
    assert_eq!(DELETED.count(&*catalog.store, &DELETED.all(), 10).await.unwrap(), 0);
}

fn objects_in(folder: &tempfile::TempDir) -> usize {
    let within = |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
    within(folder.path().join("objects")).flat_map(within).count()
}

#[tokio::test]
async fn deletion_removes_all_data() {
    let (catalog, folder) = catalog().await;
    catalog.create(keeps("tool"), builder(), ChangedBy::Admin).await.unwrap();
    fill(&catalog, "tool").await;
    assert_eq!(objects_in(&folder), 3);
    let id = catalog.delete("tool", None, ChangedBy::Builder).await.unwrap().endpoint.id.clone();
    assert_eq!(objects_in(&folder), 0);
    assert_eq!(catalog.deleted("tool").await.unwrap().map(|deleted| deleted.id), Some(id));
    let closed = retained(&*catalog.store).await.into_iter().map(|(space, _)| space).collect::<Vec<_>>();
    assert_eq!(closed, [Space::KvUsage, Space::FilesUsage], "the marks say that no data are left");
    finished(&catalog).await;
    assert_eq!(retained(&*catalog.store).await, []);
    assert_eq!(catalog.deleted("tool").await.unwrap(), None);
}

/// Regression: held uploads stayed without end, although no admin had decided on them.
#[tokio::test]
async fn sources_of_a_deleted_tool_stay_only_after_a_decision() {
    for (decision, remaining) in [(None, 0), (Some("approve"), 0), (Some("reject"), 2), (Some("takedown"), 2)] {
        let (catalog, _folder) = catalog().await;
        let strict: PolicyDraft = serde_json::from_value(json!({ "requireReview": true })).unwrap();
        catalog.set_policy(strict, None).await.unwrap();
        let owner = builder();
        catalog.create(draft("tool"), owner.clone(), ChangedBy::Builder).await.unwrap();
        let change = patch(json!({ "handler": { "response": { "a": 2 } } }));
        catalog.update("tool", change, None, ChangedBy::Builder).await.unwrap();
        if let Some(decision) = decision {
            let verdict: ReviewVerdict = serde_json::from_value(json!({ "decision": decision })).unwrap();
            catalog.decide("tool", &verdict, None).await.unwrap();
        }
        let stored = async || VERSIONS.count(&*catalog.store, &VERSIONS.all(), 10).await.unwrap();
        assert_eq!(stored().await, 2, "{decision:?}");
        catalog.delete("tool", None, ChangedBy::Builder).await.unwrap();
        assert_eq!(stored().await, remaining, "{decision:?}");
        // Deleting the tool ends no review: only an approved slug stays with its owner.
        let again = catalog.create(draft("tool"), owner, ChangedBy::Builder).await;
        assert_eq!(again.is_ok(), decision == Some("approve"), "{decision:?}");
    }
}

/// Wherever a crash or the store interrupts it.
#[tokio::test]
async fn interrupted_deletion_is_finished_by_another_host() {
    let mut cut = 0;
    for fault in [Fault::Before, Fault::After, Fault::Lost] {
        for after in 1.. {
            let memory = shared();
            let faulty = Arc::new(FaultyStore::sharing(Arc::clone(&memory)));
            let (one, folder) = host_of(Arc::clone(&faulty) as _).await;
            one.create(keeps("tool"), builder(), ChangedBy::Admin).await.unwrap();
            fill(&one, "tool").await;
            let before = faulty.commits();
            // The store fails from there on, and the host is gone.
            faulty.fail_nth(after, fault);
            (after + 1..after + 100).for_each(|number| faulty.fail_nth(number, Fault::Before));
            let deleted = one.delete("tool", None, ChangedBy::Builder).await;
            let whole = deleted.is_ok() && faulty.commits() - before < after;
            drop(one);
            let other = host_in(&folder, Arc::clone(&memory) as _).await;
            if other.all().get("tool").is_some() {
                assert!(deleted.is_err() && after == 1, "{fault:?} {after}: {deleted:?}");
                assert_eq!(retained(&*memory).await.len(), 14, "its data are complete");
                other.delete("tool", None, ChangedBy::Builder).await.unwrap();
            }
            // A repeated request learns that it is done.
            assert!(other.deleted("tool").await.unwrap().is_some(), "{fault:?} {after}");
            finished(&other).await;
            assert_eq!(retained(&*memory).await, [], "{fault:?} {after}");
            assert_eq!(objects_in(&folder), 0, "{fault:?} {after}");
            if whole {
                break;
            }
            cut += 1;
        }
    }
    assert!(cut >= 15, "it was cut short {cut} times");
}

#[tokio::test]
async fn call_on_another_host_keeps_no_data_of_a_deleted_endpoint() {
    let store: Arc<dyn Store> = shared();
    let (one, folder) = host_of(Arc::clone(&store)).await;
    let other = host_in(&folder, Arc::clone(&store)).await;
    let live = one.create(keeps("tool"), builder(), ChangedBy::Admin).await.unwrap();
    receives(&other).await;
    fill(&other, "tool").await;
    let (running, holder) = (call(&other, "tool").await, SecretOwner::from(&live.endpoint));
    one.delete("tool", None, ChangedBy::Builder).await.unwrap();
    // The other host has not been notified, so its calls still have their grants.
    for request in [set("new", "1"), set("key-0", "2"), write("new"), write("file-0")] {
        let failure = running.op(request).await.unwrap_err();
        assert!(failure.code == "not_granted" && failure.message.contains("was deleted"), "{failure:?}");
    }
    assert_eq!(running.op(OpRequest::KvGet { key: "key-0".to_owned() }).await.unwrap(), OpValue::None);
    let secret = other.parts.services.secrets.set(&holder, "NEW".parse::<SecretName>().unwrap(), "value", Visibility::Env).await;
    assert!(matches!(secret, Err(SecretError::Deleted(_))), "{secret:?}");
    running.log(LogLine { level: LogLevel::Info, message: "late".into(), fields: String::new() });
    other.parts.services.logs.flush().await;
    receives(&other).await;
    assert!(running.op(set("new", "1")).await.unwrap_err().message.contains("is not granted"), "its grant is gone");
    finished(&other).await;
    assert_eq!((retained(&*store).await, objects_in(&folder)), (vec![], 0));
}

/// The write reads the usage before the endpoint is deleted, and commits afterwards.
#[tokio::test]
async fn write_after_the_deletion_is_not_stored() {
    for request in [set("new", "1"), set("key-0", "2"), write("new"), write("file-0")] {
        let memory = shared();
        let (one, _folder) = host_of(Arc::clone(&memory) as _).await;
        one.create(keeps("tool"), builder(), ChangedBy::Admin).await.unwrap();
        fill(&one, "tool").await;
        let deleting = Arc::clone(&one);
        let meanwhile = async move { _ = deleting.delete("tool", None, ChangedBy::Builder).await.unwrap() };
        // For a file, the commit before it promises the object.
        let number = if matches!(request, OpRequest::FileWrite { .. }) { 2 } else { 1 };
        let (other, _other) = host_of(InterleavingStore::before_commit(number, Arc::clone(&memory), meanwhile)).await;
        let failure = call(&other, "tool").await.op(request).await.unwrap_err();
        assert!(failure.message.contains("was deleted"), "{failure:?}");
        finished(&one).await;
        assert_eq!(retained(&*memory).await, []);
    }
}

#[tokio::test]
async fn new_endpoint_under_a_deleted_slug_keeps_its_data() {
    let memory = shared();
    let faulty = Arc::new(FaultyStore::sharing(Arc::clone(&memory)));
    let (catalog, _folder) = host_of(Arc::clone(&faulty) as _).await;
    let owner = builder();
    catalog.create(keeps("tool"), owner.clone(), ChangedBy::Admin).await.unwrap();
    let old = fill(&catalog, "tool").await;
    // At first, none of its data is removed.
    (2..100).for_each(|number| faulty.fail_nth(number, Fault::Before));
    catalog.delete("tool", None, ChangedBy::Builder).await.unwrap();
    faulty.heal();
    let live = catalog.create(keeps("tool"), owner, ChangedBy::Admin).await.unwrap();
    assert_eq!(catalog.deleted("tool").await.unwrap(), None, "a request to delete is about the new one from now on");
    let read = async |key: &str| call(&catalog, "tool").await.op(OpRequest::KvGet { key: key.to_owned() }).await.unwrap();
    assert_eq!(read("key-0").await, OpValue::None, "it finds nothing of the one before");
    let new = fill(&catalog, "tool").await;
    assert!(new != old && new == live.endpoint.id);
    let all = retained(&*memory).await.len();
    catalog.finish_deletions().await.unwrap();
    assert_eq!(retained(&*memory).await.len(), all - 12, "the old one's data, except for two marks");
    finished(&catalog).await;
    assert_eq!(retained(&*memory).await.len(), 14, "the new one's data");
    assert_eq!(read("key-0").await, OpValue::Json("1".into()));
    assert_eq!(catalog.parts.services.secrets.list(&new).await.unwrap().len(), 3);
    call(&catalog, "tool").await.op(set("more", "1")).await.unwrap();
}

/// A bucket that deletes nothing while it is stopped.
struct StoppedBucket(Everywhere, watch::Sender<bool>);

#[async_trait::async_trait]
impl objects::Bucket for StoppedBucket {
    async fn put(&self, name: &str, content: bytes::Bytes) -> std::io::Result<()> {
        self.0.put(name, content).await
    }

    async fn get(&self, name: &str) -> std::io::Result<Option<bytes::Bytes>> {
        self.0.get(name).await
    }

    async fn delete(&self, name: &str) -> std::io::Result<()> {
        self.1.subscribe().wait_for(|is_stopped| !is_stopped).await.unwrap();
        self.0.delete(name).await
    }

    fn is_everywhere(&self) -> bool {
        true
    }
}

/// Regression: it waited for each object, while holding the lock that notifications of other hosts
/// need.
#[tokio::test]
async fn slow_file_removal_does_not_block_other_changes() {
    let store: Arc<dyn Store> = shared();
    let folder = tempfile::tempdir().unwrap();
    let bucket = Arc::new(StoppedBucket(Everywhere(bucket_in(&folder)), watch::Sender::new(false)));
    let one = catalog_on(Arc::clone(&bucket) as _, Arc::clone(&store), CatalogCapacity::default()).await;
    let (other, _other) = catalog_of(Arc::clone(&store)).await;
    one.create(keeps("tool"), builder(), ChangedBy::Admin).await.unwrap();
    fill(&one, "tool").await;
    bucket.1.send_replace(true);
    let deleting = tokio::spawn({
        let one = Arc::clone(&one);
        async move { one.delete("tool", None, ChangedBy::Builder).await }
    });
    while one.all().get("tool").is_some() {
        tokio::task::yield_now().await;
    }
    other.create(draft("of-another"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    one.create(draft("here"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    receives(&one).await;
    assert!(one.all().get("of-another").is_some());
    // The deletion does not wait for the bucket either.
    deleting.await.unwrap().unwrap();
    assert_eq!(objects_in(&folder), 3);
    bucket.1.send_replace(false);
    finished(&one).await;
    assert_eq!((objects_in(&folder), retained(&*store).await.len()), (0, 0));
}

/// Regression: a publish with a slow commit got its host fenced.
#[tokio::test]
async fn changes_of_other_hosts_are_shown_during_a_slow_commit() {
    let memory = shared();
    let (other, _other) = catalog_of(Arc::clone(&memory) as _).await;
    for slug in ["tool", "called"] {
        other.create(draft(slug), Owner::Platform, ChangedBy::Admin).await.unwrap();
    }
    let (one, _folder) = catalog_of(InterleavingStore::before_commit(1, Arc::clone(&memory), std::future::pending())).await;
    let mut update = Box::pin(one.update("tool", patch(json!({ "title": "Slow" })), None, ChangedBy::Admin));
    while one.changing.try_lock().is_ok() {
        assert!((&mut update).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    other.update("called", patch(json!({ "status": "paused" })), None, ChangedBy::Admin).await.unwrap();
    other.update("tool", patch(json!({ "title": "Quick" })), None, ChangedBy::Admin).await.unwrap();
    other.set_policy(PolicyDraft::default(), None).await.unwrap();
    receives(&one).await;
    let found = one.find("called").await.unwrap().unwrap();
    assert_eq!((found.endpoint.status, one.policy().revision), (tool::Status::Paused, 1));
    assert_eq!(one.find("tool").await.unwrap().unwrap().endpoint.title, "Quick");
}

/// A store in which something else happens right after a commit, before the committer continues.
struct OvertakenStore {
    inner: Arc<MemoryStore>,
    then: Mutex<Option<futures_util::future::BoxFuture<'static, ()>>>,
}

#[async_trait::async_trait]
impl StoreWrapper for OvertakenStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn on_apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        let done = self.inner.apply(batch, durability).await;
        let then = self.then.lock().unwrap().take();
        if let Some(then) = then {
            then.await;
        }
        done
    }
}

/// A newer change of another host must not be hidden by this host's older one.
#[tokio::test]
async fn older_change_does_not_hide_a_newer_one() {
    let memory = shared();
    let store = Arc::new(OvertakenStore { inner: Arc::clone(&memory), then: Mutex::default() });
    let ((one, _folder), (other, _other)) = (catalog_of(Arc::clone(&store) as _).await, catalog_of(memory).await);
    let overtake = |deletes: bool| {
        let (one, other) = (Arc::clone(&one), Arc::clone(&other));
        let then = async move {
            receives(&other).await;
            if deletes {
                other.delete("tool", None, ChangedBy::Admin).await.unwrap();
            } else {
                other.update("tool", patch(json!({ "title": "Theirs" })), None, ChangedBy::Admin).await.unwrap();
            }
            receives(&one).await;
        };
        *store.then.lock().unwrap() = Some(Box::pin(then));
    };
    let shown = async || one.find("tool").await.unwrap().map(|live| live.endpoint.title.clone());
    overtake(false);
    one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert_eq!(shown().await.as_deref(), Some("Theirs"));
    overtake(true);
    one.update("tool", patch(json!({ "title": "Ours" })), None, ChangedBy::Admin).await.unwrap();
    assert_eq!(shown().await, None);
}
