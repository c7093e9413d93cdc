//! Finds public receipts: waiting to be written, or stored.
//!
//! The receipt of a free call is written after its answer. If hosts share a store, a request to another host may be
//! faster. So a receipt that may still be written there is awaited, at most a tenth of a second.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tollhouse_base::{boxed, id::ReceiptId};
use tollhouse_money::receipt::{self, FreeReceipts, ReceiptSigner};
use tollhouse_protocol::limits::Limits;
use tollhouse_store::{Store, StoreError};

use super::write_behind::WriteBehind;

/// Pauses before each further lookup of a receipt that another host may be writing. Records are gathered for a fortieth
/// of a second before they are written.
const WAITS: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(30), Duration::from_millis(50)];

/// How much later than its call's longest run a receipt may be written, in milliseconds.
const WRITTEN_WITHIN_MS: u64 = 10_000;

/// Finds receipts: waiting ones, and stored ones of free and of paid calls.
pub struct Receipts {
    write_behind: Arc<WriteBehind>,
    free: Arc<FreeReceipts>,
    store: Arc<dyn Store>,
    signer: Arc<ReceiptSigner>,
}

impl Receipts {
    /// Constructs it from the places of receipts and their signer.
    pub fn new(write_behind: Arc<WriteBehind>, free: Arc<FreeReceipts>, store: Arc<dyn Store>, signer: Arc<ReceiptSigner>) -> Self {
        Self { write_behind, free, store, signer }
    }

    /// Returns a public receipt, signed.
    ///
    /// # Errors
    ///
    /// Errors of the store, or an unreadable receipt.
    pub async fn find(&self, id: &str) -> Result<Option<Value>, StoreError> {
        let Ok(id) = id.parse::<ReceiptId>() else { return Ok(None) };
        if let Some(waiting) = self.write_behind.receipt(&id) {
            return self.signer.present(&waiting).map(Some);
        }
        let mut stored = self.stored(&id).await?;
        if stored.is_none() && self.free.is_recent(&id, Limits::ceilings().wall_ms + WRITTEN_WITHIN_MS) {
            for wait in WAITS {
                tokio::time::sleep(wait).await;
                stored = self.stored(&id).await?;
                if stored.is_some() {
                    break;
                }
            }
        }
        stored.map(|stored| self.signer.present(&stored)).transpose()
    }

    #[boxed]
    async fn stored(&self, id: &ReceiptId) -> Result<Option<Vec<u8>>, StoreError> {
        match self.free.get(id).await? {
            Some(free) => Ok(Some(free)),
            None => receipt::paid(&*self.store, id).await,
        }
    }
}
