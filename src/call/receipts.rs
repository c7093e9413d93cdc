//! Receipts as everyone may see them, wherever they are at the moment.
//!
//! That of a free call is written behind its answer. Where others share the store, who asks another host for it may be faster: so one
//! that may be on its way there is waited for, a tenth of a second at most.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;
use tollhouse_base::id::ReceiptId;
use tollhouse_money::receipt::{self, FreeReceipts, Signer};
use tollhouse_protocol::limits::Limits;
use tollhouse_store::{Store, StoreError};

use super::write_behind::WriteBehind;

/// How long a receipt that another host may be writing is waited for before each further look: what is written behind an answer
/// is gathered for a fortieth of a second.
const WAITS: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(30), Duration::from_millis(50)];

/// How much later than its call's longest run a receipt may be written, in milliseconds.
const WRITTEN_WITHIN_MS: u64 = 10_000;

/// Finds receipts: those that are yet to be written, and those of free and of paid calls.
pub struct Receipts {
    write_behind: Arc<WriteBehind>,
    free: Arc<FreeReceipts>,
    store: Arc<dyn Store>,
    signer: Arc<Signer>,
}

impl fmt::Debug for Receipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipts").finish_non_exhaustive()
    }
}

impl Receipts {
    /// Where they are, and whose signature they get.
    #[must_use]
    pub fn new(write_behind: Arc<WriteBehind>, free: Arc<FreeReceipts>, store: Arc<dyn Store>, signer: Arc<Signer>) -> Self {
        Self { write_behind, free, store, signer }
    }

    /// A receipt as everyone may see it, signed.
    ///
    /// # Errors
    ///
    /// The store's, or a receipt that does not read.
    pub async fn find(&self, id: &str) -> Result<Option<Value>, StoreError> {
        let Ok(id) = id.parse::<ReceiptId>() else { return Ok(None) };
        if let Some(waiting) = self.write_behind.receipt(&id) {
            return self.signer.present(&waiting).map(Some);
        }
        let mut stored = self.stored(&id).await?;
        if stored.is_none() && self.free.is_of_late(&id, Limits::ceilings().wall_ms + WRITTEN_WITHIN_MS) {
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

    /// Free ones of an older version move from the second place to the first.
    async fn stored(&self, id: &ReceiptId) -> Result<Option<Vec<u8>>, StoreError> {
        match self.free.get(id).await? {
            Some(free) => Ok(Some(free)),
            None => match receipt::paid(&*self.store, id).await? {
                Some(stored) => Ok(Some(stored)),
                None => self.free.get(id).await,
            },
        }
    }
}
