//! Tools that are charged before they run, beside hosts of an earlier version.

use tollhouse_replica::{FollowedState, JoinError};
use tollhouse_store::{CommittedChange, StoreError};

use super::*;

/// Duration of a lease.
const LEASE_MS: u64 = 3_000;

/// A follower without state.
struct Nothing;

#[async_trait::async_trait]
impl FollowedState for Nothing {
    async fn apply(&self, _: &[CommittedChange]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Advances the clock by more than the duration of a lease, while these hosts renew theirs.
async fn pass(clock: &Clock, living: &[&Arc<Replica>]) {
    for _ in 0..3 {
        clock.set(clock.now().plus_millis(LEASE_MS / 2));
        for host in living {
            host.follow(Arc::new(Nothing)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn tool_is_charged_before_it_runs_once_no_older_host_serves_the_store() {
    let clock = Clock::fixed(Timestamp(1_800_000_000_000));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(clock.clone()));
    let (older, own) = (Replica::reading_up_to(Arc::clone(&store), SETTLED_BEFORE - 1), Replica::new(Arc::clone(&store)));
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog_in(&folder, store, CatalogCapacity::default(), Arc::clone(&own)).await;
    pass(&clock, &[&older, &own]).await;
    let mut upfront = draft("upfront");
    upfront.settle = SettleTime::Before;
    assert!(matches!(catalog.create(upfront, Owner::Platform, ChangedBy::Admin).await, Err(PublishError::OlderHosts)));
    catalog.create(draft("tool"), Owner::Platform, ChangedBy::Admin).await.unwrap();
    let change = |settle: &str| catalog.update("tool", patch(json!({ "settle": settle })), None, ChangedBy::Admin);
    assert!(matches!(change("before").await, Err(PublishError::OlderHosts)));
    change("after").await.unwrap();
    // The older host ends.
    pass(&clock, &[&own]).await;
    assert_eq!(change("before").await.unwrap().endpoint.settle, SettleTime::Before);
    // It cannot come back: it would run the tool before it is paid.
    let again = older.follow(Arc::new(Nothing)).await.unwrap_err();
    assert!(matches!(again, JoinError::Later { .. }), "{again}");
}

/// Regression test: on a store that hosts can share, this was refused for three seconds after the start.
#[tokio::test]
async fn host_that_has_just_started_publishes_a_tool_that_is_charged_before_it_runs() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::fixed(Timestamp(1_800_000_000_000))));
    let own = Replica::new(Arc::clone(&store));
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog_in(&folder, store, CatalogCapacity::default(), Arc::clone(&own)).await;
    own.follow(Arc::new(Nothing)).await.unwrap();
    let mut upfront = draft("upfront");
    upfront.settle = SettleTime::Before;
    catalog.create(upfront, Owner::Platform, ChangedBy::Admin).await.unwrap();
}
