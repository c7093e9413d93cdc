//! Health checks and status, for operators.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde_json::{Value, json};
use tollhouse_api::{OkResponse, True};
use tollhouse_front::{ApiError, Code};
use tollhouse_money as money;
use tollhouse_store::{Batch, Durability, Space, SpaceSize, Store, StoreError};

use super::{
    route::{Route, open},
    services::HealthServices,
};

/// Maximum time for a commit on a ready host. A disk that hangs returns no error.
const COMMITS_WITHIN: Duration = Duration::from_secs(5);

/// Maximum time for the store to list other hosts and to count settlements.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Maximum number of reorganized or unresolved settlements to count.
const MOST_COUNTED: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        open::get("/health", "getHealth", "what is in force, and what there is", health).answers("Health"),
        open::get("/health/live", "isLive", "whether the process answers", live).answers("OkResponse"),
        open::get("/health/ready", "isReady", "whether the host takes calls: the store commits and is heard, and workers start", ready)
            .answers("OkResponse"),
    ]
}

/// Responds if the process is running.
async fn live() -> Json<OkResponse> {
    Json(OkResponse { ok: True })
}

/// Responds with success if the host can take calls: the store commits, other hosts are visible, and workers start.
async fn ready(State(operating): State<Arc<HealthServices>>) -> Result<Json<OkResponse>, ApiError> {
    takes_commits(&*operating.store, COMMITS_WITHIN).await?;
    if operating.replica.is_fenced() {
        return Err(StoreError::Away("other hosts of the store are not heard of".to_owned()).into());
    }
    if let Some(apart) = operating.replica.clock_is_wrong() {
        return Err(StoreError::Away(apart).into());
    }
    if operating.shared.shutdown.announced() {
        return Err(ApiError::new(Code::Busy, "the host is shutting down"));
    }
    if operating.pool.cannot_start() {
        return Err(ApiError::new(Code::Busy, "no worker can be started; `sandbox.startsFail` of `/health` says why"));
    }
    Ok(Json(OkResponse { ok: True }))
}

/// Returns an error while the store rejects commits or does not complete one in time, because no payment could be
/// settled.
async fn takes_commits(store: &dyn Store, within: Duration) -> Result<(), ApiError> {
    let late = |_| StoreError::Away(format!("it took no commit within {} s", within.as_secs()));
    let taken = tokio::time::timeout(within, Batch::new().commit(store, Durability::Buffered)).await;
    taken.map_err(late)??;
    Ok(())
}

/// Returns settings in force, such as the sandbox and the facilitators, and current state, such as stored data and disk
/// use.
async fn health(State(operating): State<Arc<HealthServices>>) -> Json<Value> {
    let replicas = tokio::time::timeout(SEEN_WITHIN, operating.replica.seen()).await;
    let reorganized = tokio::time::timeout(SEEN_WITHIN, money::count_reorganized(&*operating.store, MOST_COUNTED)).await;
    let unresolved = tokio::time::timeout(SEEN_WITHIN, money::count_unresolved(&*operating.store, MOST_COUNTED)).await;
    Json(json!({
        "ok": true,
        "version": env!("CARGO_PKG_VERSION"),
        // Null while the store is unavailable.
        "replicas": replicas.ok().and_then(Result::ok),
        // Null while it is close to the database's clock.
        "clock": operating.replica.clock_is_wrong(),
        "sandbox": operating.pool.status(),
        "payment": operating.payments.describe(),
        "facilitator": operating.payments.facilitator_status(),
        "facilitators": operating.payments.facilitator_statuses(),
        "openSettlements": operating.payments.open_intents(),
        // Null while the store is unavailable.
        "unresolvedSettlements": unresolved.ok().and_then(Result::ok),
        // Null while the store is unavailable.
        "reorganizedSettlements": reorganized.ok().and_then(Result::ok),
        "unpaid": operating.payments.unpaid(),
        "stored": stored(&operating).await,
        "disk": operating.disk.usage(),
        "intake": operating.shared.intake.status(),
        // Warnings for operators.
        "warnings": operating.shared.proxies.warnings(),
    }))
}

/// Returns the number and bytes of keys of each kind. For free receipts, it counts receipts.
async fn stored(operating: &HealthServices) -> Value {
    let sizes = operating.store.sizes();
    let describe = |size: SpaceSize| json!({ "count": size.entries, "bytes": size.bytes });
    let mut kinds: BTreeMap<&str, SpaceSize> = BTreeMap::new();
    for (space, kind) in Space::ALL.iter().filter_map(|space| Some((space, space.kind()?))) {
        let size = sizes.spaces.get(space).copied().unwrap_or_default();
        let sum = kinds.entry(kind).or_default();
        *sum = SpaceSize { entries: sum.entries + size.entries, bytes: sum.bytes + size.bytes };
    }
    let mut stored: serde_json::Map<_, _> = kinds.into_iter().map(|(kind, size)| (kind.to_owned(), describe(size))).collect();
    stored.insert("freeReceipts".to_owned(), describe(operating.receipts.size().await));
    stored.insert("backend".to_owned(), json!(sizes.backend));
    // False while a store of an older version is being counted.
    stored.insert("complete".to_owned(), json!(sizes.complete));
    stored.insert("syncs".to_owned(), json!(sizes.syncs));
    // Null unless the last attempt to replace an oversized tree failed.
    stored.insert("renewalFails".to_owned(), json!(sizes.renewal_fails));
    // Null while all checked files of the store are intact.
    stored.insert("damage".to_owned(), json!(sizes.damage));
    Value::Object(stored)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use tollhouse_store::{
        faulty::{self, FaultyStore},
        memory::MemoryStore,
        test_wrappers::StoreWrapper,
    };

    async fn refusal(store: &dyn Store, within: Duration) -> Option<(Code, Option<u64>)> {
        takes_commits(store, within).await.err().map(|fault| (fault.code(), fault.retry_after_secs()))
    }

    #[tokio::test]
    async fn a_host_is_not_ready_while_its_store_refuses_commits() {
        let store = FaultyStore::new(MemoryStore::new());
        assert_eq!(refusal(&store, COMMITS_WITHIN).await, None);
        for refuses in [faulty::Fault::Before, faulty::Fault::Lost, faulty::Fault::After] {
            store.fail_all(refuses);
            assert_eq!(refusal(&store, COMMITS_WITHIN).await, Some((Code::StoreUnavailable, Some(1))), "{refuses:?}");
            assert_eq!(Code::StoreUnavailable.row().status, 503);
        }
        store.heal();
        assert_eq!(refusal(&store, COMMITS_WITHIN).await, None);
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
    async fn a_host_is_not_ready_while_its_store_takes_no_commit() {
        assert_eq!(refusal(&Hanging(MemoryStore::new()), Duration::from_millis(1)).await, Some((Code::StoreUnavailable, Some(1))));
    }
}
