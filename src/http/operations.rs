//! For those who keep the host running.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::services::Operating;
use crate::{
    front::{Code, Fault},
    store::{Batch, Durability, Size, Space},
};

/// What the store holds, as operators know it.
const KINDS: &[(&str, &[Space])] = &[
    ("paidReceipts", &[Space::Receipts]),
    ("payments", &[Space::Payments, Space::PaymentExpiry, Space::OpenIntents]),
    ("sales", &[Space::Sales]),
    ("payouts", &[Space::Unpaid, Space::Payouts, Space::PayoutReceipts, Space::PayoutSettings]),
    ("credits", &[Space::Credits, Space::CreditMovements, Space::Mintings]),
    ("calls", &[Space::Calls]),
    ("callMetrics", &[Space::CallMetrics]),
    ("events", &[Space::Events]),
    ("logs", &[Space::Logs]),
    ("audit", &[Space::Audit]),
    ("kv", &[Space::Kv, Space::KvUsage]),
    ("files", &[Space::Files, Space::FilesUsage]),
    ("secrets", &[Space::Secrets]),
    ("endpoints", &[Space::Endpoints, Space::RetiredSlugs]),
    ("versions", &[Space::Versions, Space::VersionOwners]),
    ("builders", &[Space::Builders]),
    ("tasks", &[Space::Tasks]),
    ("simulatedLedger", &[Space::LedgerBalances, Space::LedgerNonces, Space::LedgerExpiry]),
];

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
    let of = |spaces: &[Space]| {
        let sizes = spaces.iter().filter_map(|space| sizes.spaces.get(space));
        sizes.fold(Size::default(), |sum, size| Size { entries: sum.entries + size.entries, bytes: sum.bytes + size.bytes })
    };
    let mut stored: serde_json::Map<_, _> = KINDS.iter().map(|(kind, spaces)| ((*kind).to_owned(), told(of(spaces)))).collect();
    stored.insert("freeReceipts".to_owned(), told(operating.receipts.size()));
    // False while a store of an older version is being counted.
    stored.insert("complete".to_owned(), json!(sizes.complete));
    Value::Object(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_space_is_of_one_kind() {
        for space in Space::ALL {
            let kinds = KINDS.iter().filter(|(_, spaces)| spaces.contains(&space)).count();
            let elsewhere = matches!(space, Space::Meta | Space::FreeReceipts);
            assert_eq!(kinds, usize::from(!elsewhere), "{space:?}");
        }
    }
}
