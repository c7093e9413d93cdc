//! Checks that each paid call has a receipt and a posting with the same amounts.

use tollhouse_base::id::ReceiptId;
use tollhouse_store::{Row, StoreError};

use super::{Check, PAGE};
use crate::{
    credit::row::{CreditRow, LINES},
    ledger::{
        account::{Account, Dollars, Tokens},
        posting::{Cause, POSTINGS, Posting},
    },
    payout::{PAYOUT_BUILDERS, PAYOUTS, key as packet_key},
    receipt::{PaymentKind, RECEIPTS, StoredReceipt, UnsignedReceipt},
    refund::{REFUNDS, RefundedTotal},
};

/// The parts of a posting that a receipt also contains.
struct PostedAmounts {
    kind: PaymentKind,
    price: i128,
    units: Option<i128>,
}

impl PostedAmounts {
    fn of(posting: &Posting) -> Self {
        let (mut price, mut units, mut kind) = (0, None, PaymentKind::Credit);
        for (account, by) in posting.changes() {
            match account {
                Account::Dollars(Dollars::Credit(_)) => price -= by,
                Account::Dollars(Dollars::Exchange(_)) => {
                    price -= by;
                    kind = PaymentKind::X402;
                }
                Account::Tokens(Tokens::Treasury, _) => units = Some(by),
                Account::Dollars(_) | Account::Tokens(Tokens::Payers, _) => {}
            }
        }
        Self { kind, price, units }
    }
}

impl Check<'_> {
    /// Checks that the record behind a posting exists and agrees with it.
    pub(super) async fn posting(&mut self, key: &str, posting: &Posting) -> Result<(), StoreError> {
        let missing = |what: &str| format!("names {what} that does not exist");
        let there = match posting.cause() {
            Cause::Sold(receipt) => match RECEIPTS.get(self.store, receipt).await? {
                Some(stored) => {
                    self.sale(receipt, &stored, posting);
                    return Ok(());
                }
                None => Err("a receipt"),
            },
            Cause::Minted(credit, number) | Cause::Judged(credit, number) => {
                let account = Account::Dollars(Dollars::Credit(credit.clone()));
                match LINES.get(self.store, &(credit.clone(), *number)).await?.and_then(CreditRow::movement) {
                    Some(movement) => Ok(Some((movement.change(), posting.changes().get(&account).copied().unwrap_or(0)))),
                    None => Err("a movement"),
                }
            }
            Cause::Refunded(receipt, number) => {
                let refunded = REFUNDS.get(self.store, receipt).await?.unwrap_or_default();
                match refunded.refunds.iter().find(|refund| refund.number == *number) {
                    Some(refund) => {
                        let (amount, posted) = (refund.amount.0.into(), -PostedAmounts::of(posting).price);
                        self.report.expect_equal(format!("posting {key}"), ("its refund is", amount), ("it moves", posted));
                        Ok(None)
                    }
                    None => Err("a refund"),
                }
            }
            Cause::Packed(payout, _)
            | Cause::PaidOut(payout)
            | Cause::Withheld(payout)
            | Cause::Returned(payout, _)
            | Cause::OwedAgain(payout) => match PAYOUT_BUILDERS.get(self.store, payout).await? {
                Some(builder) if PAYOUTS.get(self.store, &packet_key(&builder, payout)).await?.is_some() => Ok(None),
                Some(_) | None => Err("a payout"),
            },
        };
        match there {
            Ok(Some((moved, posted))) => {
                self.report.expect_equal(format!("posting {key}"), ("its movement is", moved), ("it moves", posted))
            }
            Ok(None) => {}
            Err(what) => self.report.mismatch(format!("posting {key}"), missing(what)),
        }
        Ok(())
    }

    fn sale(&mut self, id: &ReceiptId, receipt: &StoredReceipt, posting: &Posting) {
        let what = format!("receipt {id}");
        let Some(paid) = UnsignedReceipt::of(receipt) else { return self.report.mismatch(what, "cannot be read") };
        let posted = PostedAmounts::of(posting);
        if paid.kind != posted.kind {
            return self.report.mismatch(what, "has another means of payment than its posting");
        }
        self.report.expect_equal(&what, ("its price is", paid.draft.price_usd.0.into()), ("its posting moves", posted.price));
        if let Some(units) = posted.units {
            let amount = paid.amount.and_then(|amount| amount.parse().ok()).unwrap_or(0);
            self.report.expect_equal(&what, ("its amount is", amount), ("its posting moves", units));
        }
    }

    /// Checks that each refund has its posting, and that no receipt was refunded more than it paid.
    pub(super) async fn refunds(&mut self) -> Result<(), StoreError> {
        let mut rows = REFUNDS.inspect(self.store, PAGE);
        while let Some(Row { key: id, value: refunded, .. }) = rows.next(&mut self.flaws).await? {
            self.refunded(&id, &refunded).await?;
        }
        Ok(())
    }

    async fn refunded(&mut self, id: &ReceiptId, refunded: &RefundedTotal) -> Result<(), StoreError> {
        for refund in &refunded.refunds {
            self.report.refunds += 1;
            if POSTINGS.get(self.store, &Cause::Refunded(id.clone(), refund.number).key()).await?.is_none() {
                self.report.mismatch(format!("refund {} of receipt {id}", refund.number), "has no posting");
            }
        }
        let price =
            RECEIPTS.get(self.store, id).await?.and_then(|stored| UnsignedReceipt::of(&stored)).map_or(0, |paid| paid.draft.price_usd.0);
        let sum = refunded.sum().0;
        if sum > price {
            self.report.mismatch(format!("receipt {id}"), format!("{price} was paid, and {sum} was refunded"));
        }
        Ok(())
    }

    /// Checks that each receipt of a paid call has its posting.
    pub(super) async fn receipts(&mut self) -> Result<(), StoreError> {
        let mut rows = RECEIPTS.inspect(self.store, PAGE);
        while let Some(Row { key: id, value: receipt, .. }) = rows.next(&mut self.flaws).await? {
            let Some(paid) = UnsignedReceipt::of(&receipt) else { continue };
            self.report.receipts += 1;
            let posting = Cause::Sold(id.clone()).key();
            if !paid.draft.price_usd.is_zero() && POSTINGS.get(self.store, &posting).await?.is_none() {
                self.report.mismatch(format!("receipt {id}"), "has no posting");
            }
        }
        Ok(())
    }
}
