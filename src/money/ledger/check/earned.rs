//! Checks builders' earnings: unpaid earnings minus owed refunds equal the account's balance, and a payout is the sum
//! of its receipts.

use tollhouse_base::id::ReceiptId;
use tollhouse_store::{Row, StoreError, TerminatedText};

use super::{Check, PAGE};
use crate::{
    ledger::{
        account::{Account, Dollars},
        posting::{Cause, POSTINGS},
    },
    payout::{PAYOUT_RECEIPTS, PAYOUTS, Packet, PayoutStatus},
    refund::REFUNDS_OWED,
    sale::{UNPAID, UnpaidSale},
};

impl Check<'_> {
    pub(super) async fn unpaid(&mut self) -> Result<(), StoreError> {
        let mut waiting = std::collections::BTreeMap::new();
        let mut range = UNPAID.all();
        while let Some(page) = UNPAID.next(self.store, &mut range, PAGE).await? {
            for row in page {
                let Some(Row { key: (builder, receipt), value: unpaid, .. }) = self.sound(row) else { continue };
                self.report.unpaid += 1;
                let account = Account::Dollars(Dollars::Builder(builder.0)).to_string();
                self.earned(&receipt, &account, unpaid).await?;
                *waiting.entry(account).or_insert(0) += i128::from(unpaid.net);
            }
        }
        let (owed, mut range) = (REFUNDS_OWED.rows(), REFUNDS_OWED.rows().all());
        while let Some(page) = owed.next(self.store, &mut range, PAGE).await? {
            for row in page {
                let Some(Row { key: builder, value: owed, .. }) = self.sound(row) else { continue };
                *waiting.entry(Account::Dollars(Dollars::Builder(builder)).to_string()).or_insert(0) -= owed.0;
            }
        }
        let builders = self.sums.iter().filter(|(name, _)| name.starts_with("builder/"));
        let mut posted: std::collections::BTreeMap<_, _> = builders.map(|(name, (_, sum))| (name.clone(), *sum)).collect();
        for (account, waiting) in waiting {
            let posted = posted.remove(&account).unwrap_or(0);
            self.report.expect_equal(format!("account {account}"), ("what waits comes to", waiting), ("its postings come to", posted));
        }
        for (account, posted) in posted {
            self.report.expect_equal(format!("account {account}"), ("what waits comes to", 0), ("its postings come to", posted));
        }
        Ok(())
    }

    async fn earned(&mut self, receipt: &ReceiptId, account: &str, unpaid: UnpaidSale) -> Result<(), StoreError> {
        let Some(posting) = POSTINGS.get(self.store, &Cause::Sold(receipt.clone()).key()).await? else {
            self.report.mismatch(format!("receipt {receipt}"), "waits to be paid out and has no posting");
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
        let mut range = PAYOUTS.all();
        while let Some(page) = PAYOUTS.next(self.store, &mut range, PAGE).await? {
            for row in page {
                let Some(Row { value: packet, .. }) = self.sound(row) else { continue };
                self.report.packets += 1;
                self.packet(&packet).await?;
            }
        }
        Ok(())
    }

    async fn packet(&mut self, packet: &Packet) -> Result<(), StoreError> {
        let (mut range, mut sum, mut count) = (PAYOUT_RECEIPTS.under(&TerminatedText(packet.id.clone())), 0, 0);
        while let Some(page) = PAYOUT_RECEIPTS.next(self.store, &mut range, PAGE).await? {
            for row in page {
                let Some(row) = self.sound(row) else { continue };
                (count, sum) = (count + 1, sum + i128::from(row.value.net));
            }
        }
        let what = || format!("payout {}", packet.id);
        let posted = self.posted(Dollars::Packet(packet.id.clone()));
        if matches!(packet.status, PayoutStatus::Rejecting | PayoutStatus::Rejected) {
            // Its record keeps the amount, and its receipts go back to the builder.
            self.report.expect_equal(what(), ("its receipts come to", sum), ("its account has", posted));
            let most: i128 = if packet.status == PayoutStatus::Rejected { 0 } else { packet.receipt_count.into() };
            if count > most {
                self.report.mismatch(what(), format!("is `{}` and has {count} receipts", packet.status.as_str()));
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
