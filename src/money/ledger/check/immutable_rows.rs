//! Compares immutable rows with their archived versions.

use tollhouse_store::{RowFate, StoreError, WrittenRow};

use super::Check;
use crate::{
    credit::{number::BALANCE, row::LINES},
    ledger::posting::POSTINGS,
    receipt::{RECEIPTS, is_free},
};

impl Check<'_> {
    /// Checks that an immutable row still exists unchanged.
    pub(super) async fn still_there(&mut self, row: &WrittenRow) -> Result<(), StoreError> {
        let Some(what) = once(row) else { return Ok(()) };
        self.found.archived += 1;
        match row.became(self.store).await? {
            RowFate::Same => {}
            RowFate::Other => self.found.wrong(what, "is not as the archive of the journal has it"),
            RowFate::Gone => self.found.wrong(what, "is in the archive of the journal, and not in the store"),
        }
        Ok(())
    }
}

/// Returns a description of an immutable row, or `None` for other rows. Balances change, and receipts of free calls
/// were moved.
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
        Ok(receipt) if is_free(&receipt.value.json) => None,
        Ok(receipt) => Some(format!("receipt {}", receipt.key)),
        Err(error) => Some(error.to_string()),
    }
}
