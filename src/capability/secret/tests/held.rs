//! Tests of which secrets calls get from the cache, and how long they stay in it.

use tollhouse_store::Write;

use super::{super::Cached, *};

#[tokio::test]
async fn cached_secrets_need_no_store() {
    let mut host = Host::new().await;
    let (called, other) = (endpoint(builder()), endpoint(builder()));
    for tool in [&called, &other] {
        host.secrets.set(tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    }
    let none = EndpointId::generate();
    host.restart().await;
    assert!(host.secrets.held.all().is_empty(), "a start holds none");
    assert_eq!(value_of(&host.secrets, &called, "KEY").await.as_deref(), Some(VALUE));
    assert!(host.secrets.for_call(&none, &called.owner).await.unwrap().is_empty());
    host.store.fail_reads();
    assert_eq!(value_of(&host.secrets, &called, "KEY").await.as_deref(), Some(VALUE));
    assert!(host.secrets.for_call(&none, &called.owner).await.unwrap().is_empty(), "nor does one without secrets ask");
    assert!(matches!(host.secrets.for_call(&other.id, &other.owner).await, Err(SecretError::Store(_))));
    assert!(host.secrets.unreadable(&other.id).await);
    host.store.heal();
    assert_eq!(value_of(&host.secrets, &other, "KEY").await.as_deref(), Some(VALUE));
}

#[tokio::test]
async fn a_host_with_room_for_the_secrets_of_one_opens_those_of_all() {
    let mut host = Host::new().await;
    let tools = many(&host).await;
    host.secrets.held = Cache::new(1);
    for _ in 0..2 {
        all_open(&host, &tools).await;
    }
    assert!(host.secrets.held.all().len() < tools.len());
    host.secrets.rotate().await.unwrap();
    all_open(&host, &tools).await;
}

/// Checks that a value read while the secrets are changed does not reach later calls.
#[tokio::test]
async fn a_read_before_a_change_is_not_cached_after_it() {
    let host = Host::new().await;
    let tool = endpoint(builder());
    host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    host.secrets.evict(&tool.id);
    let since = host.secrets.changes.load(SeqCst);
    let before = Arc::new(host.secrets.stored(&tool.id).await.unwrap().unwrap());
    // Another host makes the change, and this one follows it.
    let (other, name) = (open(&host.store, ring(&host.folder)).await, name("KEY"));
    other.remove(&tool, &name).await.unwrap();
    host.secrets.refresh(&tool.id).await.unwrap();
    host.secrets.evict(&tool.id);
    assert!(host.secrets.held.keep(&tool.id, Cached(before), || host.secrets.changes.load(SeqCst) == since).is_none());
    assert!(host.secrets.for_call(&tool.id, &tool.owner).await.unwrap().is_empty());
}

/// Calls of that tool are refused, and the follower of changes continues.
#[tokio::test]
async fn a_secret_that_does_not_read_is_seen_all_the_same() {
    let host = Host::new().await;
    let (tool, other) = (endpoint(builder()), endpoint(builder()));
    host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    host.secrets.set(&tool, name("BROKEN"), VALUE, Visibility::Env).await.unwrap();
    let rows = host.store.scan(Space::Secrets, KeyRange::all(), 9, Direction::Forward).await.unwrap();
    let broken = rows.into_iter().map(|(key, _)| key).find(|key| key.ends_with(b"BROKEN")).unwrap();
    let damage = Batch::of(vec![], vec![Write::put(Space::Secrets, broken, b"\xff".to_vec())]);
    host.store.apply(damage.clone(), Durability::Durable).await.unwrap();
    host.secrets.refresh(&tool.id).await.unwrap();
    host.secrets.refresh_all(vec![tool.id.clone(), other.id.clone()]).await.unwrap();
    assert!(matches!(host.secrets.for_call(&tool.id, &tool.owner).await, Err(SecretError::Unopened)));
    host.secrets.set(&tool, name("OTHER"), VALUE, Visibility::Env).await.unwrap();
    assert!(host.secrets.unreadable(&tool.id).await);
    // The owner sets the broken secret again.
    host.secrets.set(&tool, name("BROKEN"), VALUE, Visibility::Env).await.unwrap();
    assert_eq!(value_of(&host.secrets, &tool, "BROKEN").await.as_deref(), Some(VALUE));
    host.store.apply(damage, Durability::Durable).await.unwrap();
    host.secrets.remove(&tool, &name("BROKEN")).await.unwrap();
    assert_eq!(host.secrets.given(&tool.id).await, 2);
}

#[tokio::test]
async fn after_missed_changes_the_cache_is_read_again() {
    let host = Host::new().await;
    let (changed, same, away) = (endpoint(builder()), endpoint(builder()), endpoint(builder()));
    for tool in [&changed, &same] {
        host.secrets.set(tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    }
    let other = open(&host.store, ring(&host.folder)).await;
    other.set(&changed, name("KEY"), "newer", Visibility::Env).await.unwrap();
    // The first two have workers.
    let others = host.secrets.refresh_all(vec![away.id.clone(), same.id.clone()]).await.unwrap();
    assert_eq!(others, [away.id]);
    assert_eq!(value_of(&host.secrets, &changed, "KEY").await.as_deref(), Some("newer"));
}
