//! The limit of endpoints per builder, on hosts that have not been notified of each other's.

use tollhouse_store::test_wrappers::InterleavingStore;

use super::{follow::receives, *};

/// Sets the maximum number of endpoints per builder.
async fn at_most(catalog: &Catalog, max: u64) {
    let policy: PolicyDraft = serde_json::from_value(json!({ "maxEndpointsPerBuilder": max })).unwrap();
    catalog.set_policy(policy, None).await.unwrap();
}

#[tokio::test]
async fn concurrent_hosts_respect_the_builder_limit() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::default()));
    let ((one, _folder), (other, _other)) = (catalog_of(Arc::clone(&store)).await, catalog_of(Arc::clone(&store)).await);
    at_most(&one, 3).await;
    receives(&other).await;
    let (owner, stranger) = (builder(), builder());
    for (catalog, slug) in [(&one, "tool-a"), (&other, "tool-b"), (&one, "tool-c")] {
        catalog.create(draft(slug), owner.clone(), ChangedBy::Builder).await.unwrap();
    }
    // Neither host has been notified of the other's endpoints.
    assert_eq!((one.all().owned(&owner), other.all().owned(&owner)), (2, 1));
    for catalog in [&one, &other] {
        assert!(matches!(catalog.create(draft("tool-d"), owner.clone(), ChangedBy::Builder).await, Err(PublishError::TooMany(3))));
    }
    other.create(draft("of-another"), stranger, ChangedBy::Builder).await.unwrap();
    other.create(draft("of-an-admin"), owner.clone(), ChangedBy::Admin).await.unwrap();
    other.delete("of-an-admin", None, ChangedBy::Admin).await.unwrap();
    // A deletion makes room on both hosts.
    one.delete("tool-a", None, ChangedBy::Builder).await.unwrap();
    other.create(draft("tool-d"), owner.clone(), ChangedBy::Builder).await.unwrap();
    assert!(matches!(one.create(draft("tool-e"), owner.clone(), ChangedBy::Builder).await, Err(PublishError::TooMany(3))));
    // Once all notifications have arrived, an old row has no effect.
    for catalog in [&one, &other] {
        receives(catalog).await;
        catalog.parts.clock.set(catalog.parts.clock.now().plus_millis(120_000));
    }
    one.delete("tool-c", None, ChangedBy::Builder).await.unwrap();
    one.create(draft("tool-e"), owner, ChangedBy::Builder).await.unwrap();
}

#[tokio::test]
async fn decision_is_retried_after_a_conflict() {
    for (max, fits) in [(1, false), (2, true)] {
        let memory = Arc::new(MemoryStore::shared(Clock::default()));
        let (faster, _folder) = catalog_of(Arc::clone(&memory) as _).await;
        at_most(&faster, max).await;
        let (owner, of) = (builder(), faster.clone());
        let owned = owner.clone();
        let meanwhile = async move { _ = of.create(draft("first"), owned, ChangedBy::Builder).await.unwrap() };
        let (slower, _other) = catalog_of(InterleavingStore::before_commit(1, Arc::clone(&memory), meanwhile)).await;
        let created = slower.create(draft("second"), owner.clone(), ChangedBy::Builder).await;
        assert_eq!(created.is_ok(), fits, "{created:?}");
        assert!(created.is_ok() || matches!(created, Err(PublishError::TooMany(1))), "{created:?}");
        receives(&faster).await;
        assert_eq!(faster.all().owned(&owner) as u64, max);
    }
}
