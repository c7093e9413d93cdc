//! Verifies that postings, balances, movements, receipts, unpaid earnings and payouts are consistent.
//!
//! It scans each table once, page by page, and looks up the related rows of each row. Memory use is one sum per
//! account. The result is consistent only if nobody writes meanwhile, so the host must be stopped.

mod records;
mod report;

use std::collections::BTreeMap;

use tollhouse_base::{boxed, check_report::CheckReport, id::CreditId};
use tollhouse_store::{Row, RowFate, Store, StoreError, WrittenRow};

pub use self::report::{ArchiveGapReport, LedgerMismatch, LedgerReport};
use super::{
    account::{ACCOUNTS, Account, CREDIT_BALANCES, CREDITS_TOGETHER, Dollars},
    posting::POSTINGS,
};
use crate::{
    credit::row::{BALANCE, LINES},
    receipt::{RECEIPTS, UnsignedReceipt},
    reorganized::{REORGANIZED, describe_loss},
};

const PAGE: usize = 1_000;

/// Runs all checks. Returns the counts and the inconsistencies.
/// An unreadable row is reported as an inconsistency.
#[boxed]
pub async fn check(store: &dyn Store) -> Result<LedgerReport, StoreError> {
    let mut check = Check::new(store);
    check.all().await?;
    Ok(check.report())
}

/// A running check.
pub struct Check<'a> {
    store: &'a dyn Store,
    sums: BTreeMap<String, (String, i128)>,
    report: LedgerReport,
    /// Unreadable rows.
    flaws: CheckReport,
}

impl<'a> Check<'a> {
    /// Constructs a check of this store.
    pub fn new(store: &'a dyn Store) -> Self {
        Self { store, sums: BTreeMap::new(), report: LedgerReport::default(), flaws: CheckReport::default() }
    }

    /// Compares archived versions of immutable rows with the store.
    #[boxed]
    pub async fn archived(&mut self, rows: &[WrittenRow]) -> Result<(), StoreError> {
        for row in rows {
            self.expect_unchanged(row).await?;
        }
        Ok(())
    }

    /// Records that the archive lacks the money of frames `from` to `to`.
    pub fn archive_lacks(&mut self, from: u64, to: u64) {
        self.report.archive_gaps.push(ArchiveGapReport { from, to });
    }

    /// Checks every table.
    #[boxed]
    pub async fn all(&mut self) -> Result<(), StoreError> {
        self.postings().await?;
        self.receipts().await?;
        self.credits().await?;
        self.unpaid().await?;
        self.packets().await?;
        self.refunds().await?;
        self.reorganized().await?;
        self.balances().await
    }

    /// Reports settlements that a reorganization of the chain has undone.
    async fn reorganized(&mut self) -> Result<(), StoreError> {
        let mut rows = REORGANIZED.inspect(self.store, PAGE);
        while let Some(Row { key: receipt, value: settlement, .. }) = rows.next(&mut self.flaws).await? {
            let mut reason = format!(
                "its transaction {} is no longer in a block of {}",
                settlement.settlement.transaction, settlement.settlement.network
            );
            if let Some(lost) = settlement.lost.map(describe_loss) {
                reason = format!("{reason}, and its money is lost: {lost}");
            }
            self.report.mismatch(format!("receipt {receipt}"), reason);
        }
        Ok(())
    }

    /// Returns the result.
    pub fn report(mut self) -> LedgerReport {
        self.report.disagreements += self.flaws.count - self.flaws.listed.len() as u64;
        self.flaws.listed.into_iter().for_each(|flaw| self.report.mismatch("a row", flaw));
        self.report
    }

    /// Sums the postings, and checks that the record behind each exists.
    async fn postings(&mut self) -> Result<(), StoreError> {
        let mut rows = POSTINGS.inspect(self.store, PAGE);
        while let Some(Row { key, value: posting, .. }) = rows.next(&mut self.flaws).await? {
            self.report.postings += 1;
            for (account, by) in posting.changes() {
                self.sums.entry(account.to_string()).or_insert((account.unit(), 0)).1 += by;
            }
            if posting.cause().key() != key {
                self.report.mismatch(format!("posting {key}"), "has a cause that does not match its key");
            }
            self.posting(&key, &posting).await?;
        }
        Ok(())
    }

    /// Compares each balance with its postings, and the sum of each unit with zero.
    async fn balances(&mut self) -> Result<(), StoreError> {
        let mut units = BTreeMap::<String, i128>::new();
        let mut balances = BTreeMap::new();
        let accounts = ACCOUNTS.rows();
        let mut rows = accounts.inspect(self.store, PAGE);
        while let Some(row) = rows.next(&mut self.flaws).await? {
            balances.insert(row.key, row.value.0);
        }
        let credits_together = balances.remove(CREDITS_TOGETHER).unwrap_or(0);
        let mut together = 0;
        let credits: Vec<CreditId> = self.sums.keys().filter_map(|name| name.strip_prefix("credit/")?.parse().ok()).collect();
        for credit in credits {
            let sum = CREDIT_BALANCES.get(self.store, &(credit.clone(), BALANCE)).await?;
            together += sum;
            balances.insert(Account::Dollars(Dollars::Credit(credit)).to_string(), sum);
        }
        let what = format!("account {CREDITS_TOGETHER}");
        self.report.expect_equal(what, ("its balance is", credits_together), ("the credits have together", together));
        for (name, balance) in &balances {
            self.report.accounts += 1;
            let posted = match self.sums.remove(name) {
                Some((unit, posted)) => {
                    *units.entry(unit).or_default() += balance;
                    posted
                }
                None => 0,
            };
            self.report.expect_equal(format!("account {name}"), ("its balance is", *balance), ("its postings come to", posted));
        }
        for (name, (_, posted)) in std::mem::take(&mut self.sums) {
            self.report.expect_equal(format!("account {name}"), ("its balance is", 0), ("its postings come to", posted));
        }
        for (unit, sum) in units {
            self.report.expect_equal(format!("all accounts of {unit}"), ("they come to", sum), ("and should to", 0));
        }
        Ok(())
    }

    fn posted(&self, account: Dollars) -> i128 {
        self.sums.get(&Account::Dollars(account).to_string()).map_or(0, |(_, sum)| *sum)
    }
}

impl Check<'_> {
    /// Checks that an immutable row still exists unchanged.
    async fn expect_unchanged(&mut self, row: &WrittenRow) -> Result<(), StoreError> {
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
        let (Some(mut before), Some(after)) = (UnsignedReceipt::of(&archived.value), UnsignedReceipt::of(&stored)) else {
            return Ok(false);
        };
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
