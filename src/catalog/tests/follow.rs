//! Two hosts of one store: each shows the other's changes, and can change the other's endpoints.

use tollhouse_account::builder::{self, Builder};
use tollhouse_capability::secret::{SecretName, SecretOwner, Visibility};
use tollhouse_replica::FollowedState as _;
use tollhouse_store::{
    StoreError,
    faulty::{Fault, FaultyStore},
};
use tollhouse_tool::{Availability, Capabilities};

use super::*;

/// Creates two catalogs, and returns them with their folders.
async fn two() -> (Arc<Catalog>, Arc<Catalog>, [tempfile::TempDir; 2]) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::default()));
    let ((one, folder), (other, too)) = (catalog_of(Arc::clone(&store)).await, catalog_of(store).await);
    (one, other, [folder, too])
}

/// Notifies a host of all changes so far.
pub(super) async fn receives(catalog: &Catalog) {
    let changes = catalog.store.changes(0, usize::MAX).await.unwrap();
    assert!(!changes.truncated);
    catalog.apply(&changes.changes).await.unwrap();
}

/// Returns the availability in lists, which must be the same for calls.
fn availability(catalog: &Catalog, slug: &str) -> Option<Availability> {
    let listed = catalog.all().get(slug).map(|entry| entry.availability());
    let found = catalog.find(slug).now_or_never().expect("memory waits for nobody").unwrap();
    assert_eq!(found.map(|live| live.endpoint.availability()), listed);
    listed
}

/// Finds an endpoint as a call does.
async fn find(catalog: &Catalog, slug: &str) -> Arc<LiveEndpoint> {
    catalog.find(slug).await.unwrap().unwrap()
}

#[tokio::test]
async fn changes_of_one_host_are_shown_on_another() {
    let (one, other, _folders) = two().await;
    one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert_eq!(availability(&other, "tool"), None);
    receives(&other).await;
    assert_eq!(availability(&other, "tool"), Some(Availability::Active));
    one.update("tool", patch(json!({ "status": "paused" })), None, ChangedBy::Admin).await.unwrap();
    receives(&other).await;
    assert_eq!(availability(&other, "tool"), Some(Availability::Paused), "it is not sold");
    // Notifications of its own changes have no effect.
    let shown = find(&other, "tool").await;
    receives(&other).await;
    assert!(Arc::ptr_eq(&shown, &find(&other, "tool").await));
    one.delete("tool", None, ChangedBy::Admin).await.unwrap();
    one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    receives(&other).await;
    let again = find(&other, "tool").await;
    assert_eq!(again.endpoint.id, find(&one, "tool").await.endpoint.id);
    assert!(other.all().of_id(&shown.endpoint.id).is_none());
    one.delete("tool", None, ChangedBy::Admin).await.unwrap();
    receives(&other).await;
    assert_eq!(availability(&other, "tool"), None);
}

#[tokio::test]
async fn revocation_reaches_running_calls_on_other_hosts() {
    let (one, other, _folders) = two().await;
    let mut wants = draft("tool");
    wants.capabilities = Capabilities { kv: true, ..Capabilities::default() };
    let owner = builder();
    one.create(wants, owner, ChangedBy::Builder).await.unwrap();
    receives(&other).await;
    // The grant as a running call holds it.
    let grant = Arc::clone(&find(&other, "tool").await.grant);
    assert!(grant.now().capabilities.kv);
    let revoke = serde_json::from_value(json!({ "decision": "revoke", "capabilities": { "kv": true } })).unwrap();
    one.decide("tool", &revoke, None).await.unwrap();
    receives(&other).await;
    assert!(!grant.now().capabilities.kv);
    one.delete("tool", None, ChangedBy::Admin).await.unwrap();
    receives(&other).await;
    assert_eq!(*grant.now(), Granted::default());
}

#[tokio::test]
async fn revision_is_checked_across_hosts() {
    let (one, other, _folders) = two().await;
    one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    // The host has not been notified yet.
    let change = async |catalog: &Arc<Catalog>, if_match, title: &str| {
        let changed = catalog.update("tool", patch(json!({ "title": title })), if_match, ChangedBy::Admin).await;
        changed.map(|live| live.endpoint.revision)
    };
    assert_eq!(change(&other, Some(1), "Two").await.unwrap(), 2);
    assert!(matches!(change(&one, Some(1), "Three").await, Err(PublishError::Changed(2))), "its reader has not seen the second");
    assert_eq!(change(&one, Some(2), "Three").await.unwrap(), 3);
    assert_eq!(change(&other, None, "Four").await.unwrap(), 4, "it does not mind");
    let pauses = serde_json::from_value(json!({ "decision": "takedown" })).unwrap();
    assert!(matches!(one.decide("tool", &pauses, Some(3)).await, Err(PublishError::Changed(4))));
    one.decide("tool", &pauses, Some(4)).await.unwrap();
    other.delete("tool", Some(5), ChangedBy::Admin).await.unwrap();
    assert!(matches!(one.decide("tool", &pauses, None).await, Err(PublishError::Unknown(_))));
}

#[tokio::test]
async fn slug_that_two_hosts_publish_is_taken_once() {
    let (one, other, _folders) = two().await;
    let made = one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    assert!(matches!(other.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await, Err(PublishError::SlugTaken(_))));
    assert_eq!(find(&other, "tool").await.endpoint.id, made.endpoint.id);
}

#[tokio::test]
async fn policy_with_a_stale_revision_is_refused() {
    let (one, other, _folders) = two().await;
    let policy = |max: u64| serde_json::from_value::<PolicyDraft>(json!({ "maxEndpointsPerBuilder": max })).unwrap();
    assert_eq!(one.set_policy(policy(1), Some(0)).await.unwrap().revision, 1);
    assert!(matches!(other.set_policy(policy(2), Some(0)).await, Err(PublishError::Changed(1))));
    assert_eq!(other.policy().policy.max_endpoints_per_builder, 1, "the owner reads the reason");
    assert_eq!(other.set_policy(policy(3), Some(1)).await.unwrap().revision, 2);
    assert_eq!(one.policy().revision, 1);
    receives(&one).await;
    assert_eq!((one.policy().revision, one.policy().policy.max_endpoints_per_builder), (2, 3));
}

#[tokio::test]
async fn suspension_reaches_other_hosts() {
    let (one, other, _folders) = two().await;
    let (builder, _) = Builder::new("Ann", None, one.parts.clock.now(), &FirstKeys::of_tests()).unwrap();
    builder.stored().commit(&*one.store, Durability::Buffered).await.unwrap();
    one.create(draft("tool"), Owner::Builder(builder.id.clone()), ChangedBy::Builder).await.unwrap();
    let judge = async |decision: &str| {
        let verdict: builder::BuilderVerdict = serde_json::from_value(json!({ "decision": decision })).unwrap();
        one.decide_builder(&builder.id, &verdict).await.unwrap();
        receives(&other).await;
        availability(&other, "tool")
    };
    assert_eq!(judge("suspend").await, Some(Availability::OwnerSuspended));
    assert_eq!(judge("restore").await, Some(Availability::Active));
}

#[tokio::test]
async fn reload_shows_the_stored_state() {
    let (one, other, _folders) = two().await;
    for slug in ["stays", "goes"] {
        one.create(draft(slug), Owner::Platform, ChangedBy::Admin).await.unwrap();
    }
    other.reload().await.unwrap();
    let holder: SecretOwner = (&find(&one, "stays").await.endpoint).into();
    assert_eq!(other.parts.services.secrets.given(&holder.id).await, 0);
    one.update("stays", patch(json!({ "status": "paused" })), None, ChangedBy::Admin).await.unwrap();
    one.delete("goes", None, ChangedBy::Admin).await.unwrap();
    one.create(draft("comes"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    one.set_policy(PolicyDraft::default(), None).await.unwrap();
    let secrets = &one.parts.services.secrets;
    secrets.set(&holder, "KEY".parse::<SecretName>().unwrap(), "value", Visibility::Env).await.unwrap();
    other.reload().await.unwrap();
    let shown = ["stays", "goes", "comes"].map(|slug| availability(&other, slug));
    assert_eq!(shown, [Some(Availability::Paused), None, Some(Availability::Active)]);
    assert_eq!(other.policy().revision, 1);
    assert_eq!(other.parts.services.secrets.given(&holder.id).await, 1);
}

#[tokio::test]
async fn secret_changes_reach_other_hosts() {
    let (one, other, _folders) = two().await;
    let live = one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let (holder, name) = ((&live.endpoint).into(), "KEY".parse::<SecretName>().unwrap());
    let known = async |catalog: &Arc<Catalog>| catalog.parts.services.secrets.given(&live.endpoint.id).await;
    assert_eq!(known(&other).await, 0);
    one.parts.services.secrets.set(&holder, name.clone(), "value", Visibility::Env).await.unwrap();
    assert_eq!(known(&other).await, 0);
    receives(&other).await;
    assert_eq!(known(&other).await, 1);
    one.parts.services.secrets.remove(&holder, &name).await.unwrap();
    receives(&other).await;
    assert_eq!(known(&other).await, 0);
}

/// Regression: nobody could change it until the next start.
#[tokio::test]
async fn unconfirmed_change_can_be_repeated() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let (catalog, _folder) = catalog_of(Arc::clone(&store) as _).await;
    catalog.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let retitle = async |title: &str| {
        let changed = catalog.update("tool", patch(json!({ "title": title })), None, ChangedBy::Admin).await;
        changed.map(|live| live.endpoint.title.clone())
    };
    store.fail_nth(1, Fault::After);
    assert!(matches!(retitle("Two").await, Err(PublishError::Store(StoreError::Unknown(_)))));
    assert_eq!(find(&catalog, "tool").await.endpoint.title, "Two", "the stored state counts");
    assert_eq!(retitle("Three").await.unwrap(), "Three");
}

#[tokio::test]
async fn released_version_stays_while_another_host_uses_it() {
    let (one, other, _folders) = two().await;
    let made = one.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let (version, later) = (made.endpoint.version.clone(), one.parts.clock.now().plus_millis(120_000));
    let is_kept = async || one.uploaded(&version).await.unwrap().is_some();
    other.create(draft("another"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    one.delete("tool", None, ChangedBy::Admin).await.unwrap();
    assert!(is_kept().await, "other holders are unknown here");
    [&one, &other].iter().for_each(|catalog| catalog.parts.clock.set(later));
    receives(&one).await;
    one.forget_versions().await.unwrap();
    assert!(is_kept().await, "another has it");
    // Published again after it was released, and before it is removed.
    other.delete("another", None, ChangedBy::Admin).await.unwrap();
    other.create(draft("third"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    other.delete("third", None, ChangedBy::Admin).await.unwrap();
    let late = later.plus_millis(120_000);
    [&one, &other].iter().for_each(|catalog| catalog.parts.clock.set(late));
    receives(&one).await;
    one.forget_versions().await.unwrap();
    assert!(!is_kept().await, "nobody has it");
}

#[tokio::test]
async fn older_rules_do_not_rescan_after_newer_ones() {
    const BY: tollhouse_store::Table<(), String> = tollhouse_store::schema::SCANNED_BY.holding();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (catalog, _folder) = catalog_of(Arc::clone(&store)).await;
    let (catalog, replica) = (&*catalog, Replica::new(Arc::clone(&store)));
    let ours = catalog.parts.scanner.policy_version();
    for (before, after) in [("9999-01-01+0a0b0c0d", "9999-01-01+0a0b0c0d"), ("2000-01-01", ours), (ours, ours)] {
        BY.put(&(), &before.to_owned()).commit(&*store, Durability::Buffered).await.unwrap();
        replica.alone("rescan", std::time::Duration::ZERO, |turn| async move { catalog.rescan_if_due(&turn).await }).await.unwrap();
        assert_eq!(BY.get(&*store, &()).await.unwrap().as_deref(), Some(after), "scanned by {before} before");
    }
}
