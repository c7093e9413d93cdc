//! Checks that the movements of each credit add up to its balance, and that each has a posting.

use tollhouse_base::id::{CreditId, ReceiptId};
use tollhouse_store::{Row, StoreError};

use super::{Check, PAGE};
use crate::{
    credit::{
        balance::{CREDITS, StoredCredit},
        row::{CreditRow, LINES, Movement, MovementKind},
    },
    ledger::{
        account::Dollars,
        posting::{Cause, POSTINGS},
    },
};

impl Check<'_> {
    pub(super) async fn credits(&mut self) -> Result<(), StoreError> {
        let mut rows = CREDITS.inspect(self.store, PAGE);
        while let Some(Row { key: id, value: holder, .. }) = rows.next(&mut self.flaws).await? {
            self.report.credits += 1;
            self.credit(&id, &holder).await?;
        }
        // Movements of credits that do not exist.
        let mut range = LINES.all();
        while let Some((id, _)) = LINES.first(self.store, &range).await? {
            if CREDITS.get(self.store, &id).await?.is_none() {
                self.report.mismatch(format!("credit {id}"), "has movements or a balance, but does not exist");
            }
            range = range.behind(&id);
        }
        Ok(())
    }

    async fn credit(&mut self, id: &CreditId, holder: &StoredCredit) -> Result<(), StoreError> {
        let (mut range, mut moved, mut balance) = (LINES.under(id), 0, 0);
        while let Some(page) = LINES.next(self.store, &mut range, PAGE).await? {
            for row in page {
                let Some(Row { key: (_, number), value: line, .. }) = self.flaws.checked(row) else { continue };
                match line {
                    CreditRow::Balance(sum) => balance = sum,
                    CreditRow::Movement(movement) => {
                        self.report.movements += 1;
                        moved += movement.change();
                        self.movement(id, number, &movement).await?;
                    }
                }
            }
        }
        self.report.expect_equal(format!("credit {id}"), ("its balance is", balance), ("its movements come to", moved));
        let taken = holder.revoked.as_ref().map_or(0, |revoked| revoked.amount_usd.0.into());
        let revoked = self.posted(Dollars::Revoked(id.clone()));
        self.report.expect_equal(format!("credit {id}"), ("was revoked with", taken), ("its account has", revoked));
        Ok(())
    }

    /// Checks that a movement has its posting. Their amounts are compared from the posting's side.
    async fn movement(&mut self, id: &CreditId, number: u64, movement: &Movement) -> Result<(), StoreError> {
        // Movements of zero have none.
        if movement.amount.is_zero() {
            return Ok(());
        }
        let receipt = movement.receipt_id.as_ref().and_then(|id| id.parse::<ReceiptId>().ok());
        let cause = match movement.kind {
            MovementKind::Mint => Some(Cause::Minted(id.clone(), number)),
            MovementKind::Revoke | MovementKind::Restore => Some(Cause::Judged(id.clone(), number)),
            MovementKind::Debit => receipt.map(Cause::Sold),
            MovementKind::Refund => receipt.map(|receipt| Cause::Refunded(receipt, number)),
        };
        let what = format!("movement {number} of credit {id}");
        match cause {
            Some(cause) if POSTINGS.get(self.store, &cause.key()).await?.is_none() => self.report.mismatch(what, "has no posting"),
            Some(_) => {}
            None => self.report.mismatch(what, "names no receipt"),
        }
        Ok(())
    }
}
