use async_trait::async_trait;

use super::*;
use tollhouse_store::{
    faulty::{self, FaultyStore},
    memory::MemoryStore,
    test_wrappers::StoreWrapper,
};

async fn refusal(store: &dyn Store, within: Duration) -> Option<(Code, Option<u64>)> {
    check_commits(store, within).await.err().map(ApiError::from).map(|fault| (fault.code(), fault.retry_after_secs()))
}

#[tokio::test]
async fn host_is_not_ready_while_its_store_rejects_commits() {
    let store = FaultyStore::new(MemoryStore::new());
    assert_eq!(refusal(&store, STORE_TIMEOUT).await, None);
    for refuses in [faulty::Fault::Before, faulty::Fault::Lost, faulty::Fault::After] {
        store.fail_all(refuses);
        assert_eq!(refusal(&store, STORE_TIMEOUT).await, Some((Code::StoreUnavailable, Some(1))), "{refuses:?}");
        assert_eq!(Code::StoreUnavailable.row().status, 503);
    }
    store.heal();
    assert_eq!(refusal(&store, STORE_TIMEOUT).await, None);
}

/// A store that reads but never completes a commit, like one on a hanging disk.
struct Hanging(MemoryStore);

#[async_trait]
impl StoreWrapper for Hanging {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn on_apply(&self, _batch: Batch, _durability: Durability) -> Result<Vec<i128>, StoreError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn host_is_not_ready_while_commits_hang() {
    assert_eq!(refusal(&Hanging(MemoryStore::new()), Duration::from_millis(1)).await, Some((Code::StoreUnavailable, Some(1))));
}
