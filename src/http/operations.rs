//! For those who keep the host running.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Json, extract::State};
use serde_json::{Value, json};
use tollhouse_front::{Code, Fault};
use tollhouse_money as money;
use tollhouse_store::{Batch, Durability, Size, Space, Store, StoreError};

use super::{
    route::{Route, open},
    services::Operating,
};

/// How long a commit may take of a host that is ready: a disk that hangs refuses nothing, and does nothing.
const COMMITS_WITHIN: Duration = Duration::from_secs(5);

/// How long the store may take to say who else serves it.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Settlements that a reorganization took back and that are counted.
const MOST_COUNTED: usize = 10_000;

/// The routes of this file.
pub(super) fn routes() -> Vec<Route> {
    vec![
        open::get("/health", "getHealth", "what is in force, and what there is", health).answers("Health"),
        open::get("/health/live", "isLive", "whether the process answers", live).answers("Ok"),
        open::get("/health/ready", "isReady", "whether the host takes calls: the store commits and is heard, and workers start", ready)
            .answers("Ok"),
    ]
}

/// The process answers.
async fn live() -> Json<Value> {
    Json(json!({ "ok": true }))
}

/// The host takes calls: the store takes commits, other hosts of it are heard of, and workers start.
async fn ready(State(operating): State<Arc<Operating>>) -> Result<Json<Value>, Fault> {
    takes_commits(&*operating.store, COMMITS_WITHIN).await?;
    if operating.replica.is_fenced() {
        return Err(StoreError::Away("other hosts of the store are not heard of".to_owned()).into());
    }
    if let Some(apart) = operating.replica.clock_is_wrong() {
        return Err(StoreError::Away(apart).into());
    }
    if operating.shared.shutdown.announced() {
        return Err(Fault::new(Code::Busy, "the host is shutting down"));
    }
    if operating.pool.cannot_start() {
        return Err(Fault::new(Code::Busy, "no worker can be started; `sandbox.startsFail` of `/health` says why"));
    }
    Ok(Json(json!({ "ok": true })))
}

/// Refuses while the store refuses commits, or takes none in time: nothing that is paid for could be settled.
async fn takes_commits(store: &dyn Store, within: Duration) -> Result<(), Fault> {
    let late = |_| StoreError::Away(format!("it took no commit within {} s", within.as_secs()));
    let taken = tokio::time::timeout(within, Batch::new().commit(store, Durability::Buffered)).await;
    taken.map_err(late)??;
    Ok(())
}

/// What is in force: the sandbox's jail and numbers, who settles. What there is: in the store by kind, and on the disk.
async fn health(State(operating): State<Arc<Operating>>) -> Json<Value> {
    let replicas = tokio::time::timeout(SEEN_WITHIN, operating.replica.seen()).await;
    let reorganized = tokio::time::timeout(SEEN_WITHIN, money::count_reorganized(&*operating.store, MOST_COUNTED)).await;
    let unresolved = tokio::time::timeout(SEEN_WITHIN, money::count_unresolved(&*operating.store, MOST_COUNTED)).await;
    Json(json!({
        "ok": true,
        "version": env!("CARGO_PKG_VERSION"),
        // Null while the store is away.
        "replicas": replicas.ok().and_then(Result::ok),
        // Null while it is not far from the database's.
        "clock": operating.replica.clock_is_wrong(),
        "sandbox": operating.pool.status(),
        "payment": operating.gate.describe(),
        "facilitator": operating.gate.facilitator_status(),
        "facilitators": operating.gate.facilitator_statuses(),
        "openSettlements": operating.gate.open_intents(),
        // Null while the store is away.
        "unresolvedSettlements": unresolved.ok().and_then(Result::ok),
        // Null while the store is away.
        "reorganizedSettlements": reorganized.ok().and_then(Result::ok),
        "unpaid": operating.gate.unpaid(),
        "stored": stored(&operating).await,
        "disk": operating.disk.usage(),
        "intake": operating.shared.intake.status(),
        // What an operator should look at.
        "warnings": operating.shared.proxies.warnings(),
    }))
}

/// How many keys there are of each kind, and the bytes of them; of free receipts, how many receipts.
async fn stored(operating: &Operating) -> Value {
    let sizes = operating.store.sizes();
    let told = |size: Size| json!({ "count": size.entries, "bytes": size.bytes });
    let mut kinds: BTreeMap<&str, Size> = BTreeMap::new();
    for (space, kind) in Space::ALL.iter().filter_map(|space| Some((space, space.kind()?))) {
        let size = sizes.spaces.get(space).copied().unwrap_or_default();
        let sum = kinds.entry(kind).or_default();
        *sum = Size { entries: sum.entries + size.entries, bytes: sum.bytes + size.bytes };
    }
    let mut stored: serde_json::Map<_, _> = kinds.into_iter().map(|(kind, size)| (kind.to_owned(), told(size))).collect();
    stored.insert("freeReceipts".to_owned(), told(operating.receipts.size().await));
    stored.insert("backend".to_owned(), json!(sizes.backend));
    // False while a store of an older version is being counted.
    stored.insert("complete".to_owned(), json!(sizes.complete));
    stored.insert("syncs".to_owned(), json!(sizes.syncs));
    // Null while it is as small as it is to be.
    stored.insert("renewalFails".to_owned(), json!(sizes.renewal_fails));
    // Null while every file of the store is whole, as far as it was looked at.
    stored.insert("damage".to_owned(), json!(sizes.damage));
    Value::Object(stored)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use tollhouse_store::{
        around::Around,
        faulty::{self, FaultyStore},
        memory::MemoryStore,
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

    /// As when its disk hangs: it reads, and takes no commit.
    struct Hanging(MemoryStore);

    #[async_trait]
    impl Around for Hanging {
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
