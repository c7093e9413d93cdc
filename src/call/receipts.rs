//! Receipts as everyone may see them, wherever they are at the moment.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::write_behind::WriteBehind;
use crate::{
    base::id::ReceiptId,
    money::receipt::{self, FreeReceipts, Signer},
    store::{Store, StoreError},
};

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
        // Free ones of an older version move from the second place to the first.
        let stored = match self.free.get(&id).await? {
            Some(free) => Some(free),
            None => match receipt::paid(&*self.store, &id).await? {
                Some(stored) => Some(stored),
                None => self.free.get(&id).await?,
            },
        };
        stored.map(|stored| self.signer.present(&stored)).transpose()
    }
}
