//! Compares immutable rows with their archived versions.

use tollhouse_store::{RowFate, StoreError, WrittenRow};

use super::Check;
use crate::{
    credit::{number::BALANCE, row::LINES},
    ledger::posting::POSTINGS,
    receipt::{RECEIPTS, StoredReceipt, UnsignedReceipt},
};

impl Check<'_> {
    /// Checks that an immutable row still exists unchanged.
    pub(super) async fn expect_unchanged(&mut self, row: &WrittenRow) -> Result<(), StoreError> {
        let Some(what) = once(row) else { return Ok(()) };
        self.report.archived += 1;
        match row.became(self.store).await? {
            RowFate::Same => {}
            RowFate::Other if self.is_delivered(row).await? => {}
            RowFate::Other => self.report.mismatch(what, "differs from the journal's archive"),
            RowFate::Gone => self.report.mismatch(what, "is in the journal's archive but not in the store"),
        }
        Ok(())
    }

    /// Returns whether a receipt differs from its archived version only because its payment was settled before the run,
    /// and its answer was delivered since.
    async fn is_delivered(&self, row: &WrittenRow) -> Result<bool, StoreError> {
        let Some(archived) = row.of(&RECEIPTS).and_then(|found| RECEIPTS.read(found).ok()) else { return Ok(false) };
        let Some(stored) = RECEIPTS.get(self.store, &archived.key).await? else { return Ok(false) };
        let parse = |receipt: &StoredReceipt| serde_json::from_slice::<UnsignedReceipt>(&receipt.json).ok();
        let (Some(mut before), Some(after)) = (parse(&archived.value), parse(&stored)) else { return Ok(false) };
        if before.draft.settle.is_after() || !before.draft.result_hash.is_empty() {
            return Ok(false);
        }
        before.draft.result_hash.clone_from(&after.draft.result_hash);
        before.draft.version.clone_from(&after.draft.version);
        Ok(before == after)
    }
}

/// Returns a description of an immutable row, or `None` for other rows, such as balances.
fn once(row: &WrittenRow) -> Option<String> {
    if let Some(found) = row.of(&POSTINGS) {
        return Some(POSTINGS.key(&found).map_or_else(|error| error.to_string(), |key| format!("posting {key}")));
    }
    if let Some(found) = row.of(&LINES) {
        return match LINES.key(&found) {
            Ok((_, BALANCE)) => None,
            Ok((id, number)) => Some(format!("movement {number} of credit {id}")),
            Err(error) => Some(error.to_string()),
        };
    }
    let receipt = RECEIPTS.read(row.of(&RECEIPTS)?);
    match receipt {
        Ok(receipt) => Some(format!("receipt {}", receipt.key)),
        Err(error) => Some(error.to_string()),
    }
}
