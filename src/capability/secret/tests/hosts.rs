//! Hosts that share a store: limits that they keep together, and tools that one of them deletes.

use super::*;

/// Opens another host of the same store.
async fn second_host(
    store: &Arc<FaultyStore<MemoryStore>>,
    folder: &tempfile::TempDir,
    meanwhile: impl Future<Output = ()> + Send + 'static,
) -> Secrets {
    let store: Arc<dyn Store> = tollhouse_store::test_wrappers::InterleavingStore::before_commit(1, Arc::clone(store), meanwhile);
    let events = Arc::new(Events::new(Arc::clone(&store), Clock::default(), tollhouse_event::EventSettings::default()));
    Secrets::open(store, Clock::default(), events, ring(folder), 1 << 20).await.unwrap()
}

#[tokio::test]
async fn hosts_that_add_secrets_at_once_keep_to_the_limit_together() {
    let host = Host::new().await;
    let tool = SecretOwner { names: 1, ..endpoint(builder()) };
    let (first, of) = (open(&host.store, ring(&host.folder)).await, tool.clone());
    let meanwhile = async move { _ = first.set(&of, name("FIRST"), VALUE, Visibility::Env).await.unwrap() };
    let second = second_host(&host.store, &host.folder, meanwhile).await;
    let refused = second.set(&tool, name("SECOND"), VALUE, Visibility::Env).await.unwrap_err();
    assert!(
        matches!(&refused, SecretError::Field { message, .. } if message == "the tool has 1 secret, and the maximum is 1"),
        "{refused}"
    );
    let names: Vec<_> = host.secrets.list(&tool.id).await.unwrap().into_iter().map(|one| one.name.as_str().to_owned()).collect();
    assert_eq!(names, ["FIRST"]);
    // Removing one makes room for another.
    host.secrets.remove(&tool, &name("FIRST")).await.unwrap();
    second.set(&tool, name("SECOND"), VALUE, Visibility::Env).await.unwrap();
    second.set(&tool, name("SECOND"), "another", Visibility::Env).await.unwrap();
}

#[tokio::test]
async fn a_secret_that_is_set_while_its_endpoint_is_deleted_is_not_stored() {
    let host = Host::new().await;
    let tool = endpoint(builder());
    let (store, id) = (Arc::clone(&host.store), tool.id.clone());
    let closes = open(&host.store, ring(&host.folder)).await;
    let meanwhile = async move {
        let mut batch = Batch::new();
        added_count::close(&mut batch, &id);
        batch.commit(&*store, Durability::Durable).await.unwrap();
        closes.forget(&id).await.unwrap();
    };
    let other = second_host(&host.store, &host.folder, meanwhile).await;
    let refused = other.set(&tool, name("KEY"), VALUE, Visibility::Env).await.unwrap_err();
    assert!(matches!(refused, SecretError::Deleted(_)), "{refused}");
    assert_eq!(host.secrets.list(&tool.id).await.unwrap(), []);
    let mut batch = Batch::new();
    added_count::release(&mut batch, &tool.id);
    batch.commit(&*host.store, Durability::Durable).await.unwrap();
    assert_eq!(ADDED.get(&*host.store, &tool.id).await.unwrap(), None);
}

/// Regression test: a slow change blocked the task that follows other hosts, and the host was fenced.
#[tokio::test]
async fn changes_of_other_hosts_do_not_wait_for_a_slow_change() {
    let host = Host::new().await;
    let tool = endpoint(builder());
    let slow = second_host(&host.store, &host.folder, std::future::pending()).await;
    let setting = slow.set(&tool, name("SLOW"), VALUE, Visibility::Env);
    tokio::pin!(setting);
    assert!(futures_util::FutureExt::now_or_never(setting.as_mut()).is_none());
    host.secrets.set(&tool, name("KEY"), VALUE, Visibility::Env).await.unwrap();
    slow.refresh(&tool.id).await.unwrap();
    assert_eq!(value_of(&slow, &tool, "KEY").await.as_deref(), Some(VALUE));
    slow.refresh_all(vec![tool.id.clone()]).await.unwrap();
}

#[tokio::test]
async fn hosts_with_a_given_key_all_decrypt_with_the_new_one_first() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::shared(Clock::default()));
    let events = Arc::new(Events::new(Arc::clone(&store), Clock::default(), tollhouse_event::EventSettings::default()));
    let folder = tempfile::tempdir().unwrap();
    let ring = Keyring::open(Some(&hex::encode([1; 32])), None, &folder.path().join("none")).unwrap();
    let secrets = Secrets::open(store, Clock::default(), events, ring, 1 << 20).await.unwrap();
    let refused = secrets.rotate().await.unwrap_err();
    assert!(matches!(refused, SecretError::GivenSharedKey), "{refused}");
    let steps = ["TOLLHOUSE_MASTER_KEY_FILE", "OLD,NEW", "NEW,OLD"].map(|step| refused.to_string().find(step));
    assert!(steps.is_sorted() && steps[0].is_some(), "{refused}");
}
