//! Checks that receipts, refunds, credits and earnings agree with their postings: each paid call has a receipt and a
//! posting with the same amounts, and each balance is the sum of its movements.

use tollhouse_base::{
    id::{CreditId, ReceiptId},
    plural::plural,
};
use tollhouse_store::{Row, StoreError, TerminatedText};

use super::{Check, PAGE};
use crate::{
    credit::{
        balance::{CREDITS, StoredCredit},
        row::{CreditRow, LINES, Movement, MovementKind},
    },
    ledger::{
        account::{Account, Dollars, Tokens},
        posting::{Cause, POSTINGS, Posting},
    },
    payout::{PAYOUT_BUILDERS, PAYOUT_RECEIPTS, PAYOUTS, Packet, PayoutStatus, key as packet_key},
    receipt::{PaymentKind, RECEIPTS, StoredReceipt, UnsignedReceipt},
    refund::{REFUNDS, REFUNDS_OWED, RefundedTotal},
    sale::{UNPAID, UnpaidSale},
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
            return self.report.mismatch(what, "differs from its posting in the means of payment");
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
            self.report.receipts += 1;
            // One that cannot be read may be of a paid call. If it has a posting, the check of postings reports it.
            let is_free = UnsignedReceipt::of(&receipt).is_some_and(|paid| paid.draft.price_usd.is_zero());
            if !is_free && POSTINGS.get(self.store, &Cause::Sold(id.clone()).key()).await?.is_none() {
                self.report.mismatch(format!("receipt {id}"), "has no posting");
            }
        }
        Ok(())
    }
}

impl Check<'_> {
    pub(super) async fn unpaid(&mut self) -> Result<(), StoreError> {
        // Amounts that wait and amounts that were posted, by account.
        let mut sums = std::collections::BTreeMap::<String, (i128, i128)>::new();
        let mut rows = UNPAID.inspect(self.store, PAGE);
        while let Some(Row { key: (builder, receipt), value: unpaid, .. }) = rows.next(&mut self.flaws).await? {
            self.report.unpaid += 1;
            let account = Account::Dollars(Dollars::Builder(builder.0)).to_string();
            self.earned(&receipt, &account, unpaid).await?;
            sums.entry(account).or_default().0 += i128::from(unpaid.net);
        }
        let owed = REFUNDS_OWED.rows();
        let mut rows = owed.inspect(self.store, PAGE);
        while let Some(Row { key: builder, value: owed, .. }) = rows.next(&mut self.flaws).await? {
            sums.entry(Account::Dollars(Dollars::Builder(builder)).to_string()).or_default().0 -= owed.0;
        }
        for (account, (_, posted)) in self.sums.iter().filter(|(name, _)| name.starts_with("builder/")) {
            sums.entry(account.clone()).or_default().1 = *posted;
        }
        for (account, (waiting, posted)) in sums {
            self.report.expect_equal(format!("account {account}"), ("what waits comes to", waiting), ("its postings come to", posted));
        }
        Ok(())
    }

    async fn earned(&mut self, receipt: &ReceiptId, account: &str, unpaid: UnpaidSale) -> Result<(), StoreError> {
        let Some(posting) = POSTINGS.get(self.store, &Cause::Sold(receipt.clone()).key()).await? else {
            self.report.mismatch(format!("receipt {receipt}"), "waits to be paid out but has no posting");
            return Ok(());
        };
        let posted = posting.changes().into_iter().find(|(to, _)| to.to_string() == account).map_or(0, |(_, by)| by);
        self.report.expect_equal(
            format!("receipt {receipt}"),
            ("waits to be paid out with", unpaid.net.into()),
            ("its posting gave", posted),
        );
        Ok(())
    }

    pub(super) async fn packets(&mut self) -> Result<(), StoreError> {
        let mut rows = PAYOUTS.inspect(self.store, PAGE);
        while let Some(Row { value: packet, .. }) = rows.next(&mut self.flaws).await? {
            self.report.packets += 1;
            self.packet(&packet).await?;
        }
        Ok(())
    }

    async fn packet(&mut self, packet: &Packet) -> Result<(), StoreError> {
        let (mut range, mut sum, mut count) = (PAYOUT_RECEIPTS.under(&TerminatedText(packet.id.clone())), 0, 0);
        while let Some(page) = PAYOUT_RECEIPTS.next(self.store, &mut range, PAGE).await? {
            for row in page {
                let Some(row) = self.flaws.checked(row) else { continue };
                (count, sum) = (count + 1, sum + i128::from(row.value.net));
            }
        }
        let what = || format!("payout {}", packet.id);
        let posted = self.posted(Dollars::Packet(packet.id.clone()));
        if matches!(packet.status, PayoutStatus::Rejecting | PayoutStatus::Rejected) {
            // The record of a rejected payout keeps the amount, and its receipts go back to the builder.
            self.report.expect_equal(what(), ("its receipts come to", sum), ("its account has", posted));
            let most: i128 = if packet.status == PayoutStatus::Rejected { 0 } else { packet.receipt_count.into() };
            if count > most {
                self.report.mismatch(what(), format!("is `{}` and has {}", packet.status.as_str(), plural(count, "receipt")));
            }
            return Ok(());
        }
        let amount = packet.amount.into();
        let withheld = if packet.status == PayoutStatus::Collecting { 0 } else { packet.withheld.into() };
        self.report.expect_equal(what(), ("its amount is", amount), ("its receipts come to", sum - withheld));
        self.report.expect_equal(what(), ("its count is", packet.receipt_count.into()), ("its receipts are", count));
        let remaining = if packet.status == PayoutStatus::Paid { 0 } else { amount };
        self.report.expect_equal(what(), ("is to pay", remaining), ("its account has", posted));
        Ok(())
    }
}

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
