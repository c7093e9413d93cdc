//! For those who keep the host running.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::services::Operating;
use crate::{
    front::{Code, Fault},
    store::{Batch, Durability, Size, Space},
};

/// The process answers.
pub(super) async fn live() -> Json<Value> {
    Json(json!({ "ok": true }))
}

/// The host takes calls: the store takes commits.
pub(super) async fn ready(State(operating): State<Arc<Operating>>) -> Result<Json<Value>, Fault> {
    Batch::new().commit(&*operating.store, Durability::Buffered).await?;
    if operating.shared.shutdown.begun() {
        return Err(Fault::new(Code::Busy, "the host is shutting down"));
    }
    Ok(Json(json!({ "ok": true })))
}

/// What is in force: the sandbox's jail and numbers, who settles. What there is: in the store by kind, and on the disk.
pub(super) async fn health(State(operating): State<Arc<Operating>>) -> Json<Value> {
    Json(json!({
        "ok": true,
        "version": env!("CARGO_PKG_VERSION"),
        "sandbox": operating.pool.status(),
        "payment": operating.gate.describe(),
        "openSettlements": operating.gate.open_intents(),
        "stored": stored(&operating),
        "disk": operating.disk.usage(),
        "intake": operating.shared.intake.status(),
    }))
}

/// How many keys there are of each kind, and the bytes of them; of free receipts, how many receipts.
fn stored(operating: &Operating) -> Value {
    let sizes = operating.store.sizes();
    let told = |size: Size| json!({ "count": size.entries, "bytes": size.bytes });
    let mut kinds: BTreeMap<&str, Size> = BTreeMap::new();
    for (space, kind) in Space::ALL.iter().filter_map(|space| Some((space, space.kind()?))) {
        let size = sizes.spaces.get(space).copied().unwrap_or_default();
        let sum = kinds.entry(kind).or_default();
        *sum = Size { entries: sum.entries + size.entries, bytes: sum.bytes + size.bytes };
    }
    let mut stored: serde_json::Map<_, _> = kinds.into_iter().map(|(kind, size)| (kind.to_owned(), told(size))).collect();
    stored.insert("freeReceipts".to_owned(), told(operating.receipts.size()));
    // False while a store of an older version is being counted.
    stored.insert("complete".to_owned(), json!(sizes.complete));
    Value::Object(stored)
}
