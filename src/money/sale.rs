//! Sales: exact revenue of each owner's tools, in micro-dollars.
//!
//! Each call adds a row with a unique key in the commit of its receipt, so that concurrent calls do not contend for a
//! counter. A background task folds rows into one roll-up per owner, day and tool, in commits that delete the rows and
//! change the roll-ups together. Both are in one range of keys:
//!
//! ```text
//! <owner> 0 0 <day> <endpoint id>   roll-up
//! <owner> 0 1 <time> <id>           row, not folded yet
//! ```
//!
//! **Invariant: a call is counted once.** It is in a row or in a roll-up, and a scan, which reads one snapshot, sees it
//! in exactly one. So a report is always exact. It uses one scan for the days that have rows. The roll-ups of other
//! days no longer change for calls from before the report, and are read page by page.
//!
//! A refund adds a row like a call, on the day of the call, so no line of a report is negative.

mod fold;
mod report;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    ops::AddAssign,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, EndpointId, ReceiptId},
    lock::Lock,
};
use tollhouse_store::{Batch, SaleKey, Store, Table, TerminatedText, schema};
use tollhouse_tool::{MicroUsd, Owner, Slug};

pub use self::report::{ReportDetail, check_sellers};

/// The whole price in basis points.
pub const WHOLE_BPS: u16 = 10_000;

const SALES: Table<Key, Sale> = schema::SALES.holding();
pub(crate) const UNPAID: Table<(TerminatedText<BuilderId>, ReceiptId), UnpaidSale> = schema::UNPAID.holding();

/// The owner's share name, and the key of the row.
type Key = (TerminatedText<String>, SaleKey);

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The host's share of each sale, in basis points of the price. Default: 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeBps(pub u16);

impl FeeBps {
    /// Returns the host's fee on `price`, rounded down. It is zero for the host's own tools.
    pub fn of(self, price: MicroUsd, owner: &Owner) -> MicroUsd {
        match owner {
            Owner::Platform => MicroUsd::ZERO,
            Owner::Builder(_) => {
                let share = u128::from(price.0) * u128::from(self.0.min(WHOLE_BPS)) / u128::from(WHOLE_BPS);
                MicroUsd(u64::try_from(share).unwrap_or(price.0))
            }
        }
    }
}

/// Totals of calls and money, in micro-USD. `net` is `gross` minus `fees`, both before refunds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SaleTotals {
    /// Runs, succeeded and failed.
    pub calls: u64,
    /// Calls that were charged.
    pub paid_calls: u64,
    /// Calls that failed and cost nothing.
    pub failed_calls: u64,
    /// Amount that callers paid, in micro-dollars.
    pub gross: u64,
    /// The host's fees, in micro-dollars.
    pub fees: u64,
    /// The builder's part, in micro-dollars.
    pub net: u64,
    /// Refunds to callers, in micro-dollars.
    pub refunded: u64,
    /// The host's part of refunds, in micro-dollars.
    pub refunded_fees: u64,
}

impl SaleTotals {
    /// A free call.
    pub const FREE: Self = Self { calls: 1, paid_calls: 0, failed_calls: 0, gross: 0, fees: 0, net: 0, refunded: 0, refunded_fees: 0 };
    /// A failed call that was not charged.
    pub const FAILED: Self = Self { failed_calls: 1, ..Self::FREE };

    /// A failed call that was already charged, and already counted as a paid call.
    pub const PAID_FAILURE: Self = Self { calls: 0, ..Self::FAILED };

    /// Returns the totals of a paid call.
    pub fn paid(gross: MicroUsd, fee: MicroUsd) -> Self {
        Self { paid_calls: 1, gross: gross.0, fees: fee.0, net: gross.0.saturating_sub(fee.0), ..Self::FREE }
    }

    /// Returns the totals of a refund, with the host's part.
    pub fn refunded(amount: MicroUsd, fee: MicroUsd) -> Self {
        Self { refunded: amount.0, refunded_fees: fee.0, ..Self::default() }
    }

    /// Returns the host's fees after refunds.
    pub fn fees_after_refunds(&self) -> u64 {
        self.fees.saturating_sub(self.refunded_fees)
    }

    /// Returns the builder's part after refunds.
    pub fn net_after_refunds(&self) -> u64 {
        self.net.saturating_sub(self.refunded.saturating_sub(self.refunded_fees))
    }
}

impl AddAssign for SaleTotals {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.calls, other.calls),
            (&mut self.paid_calls, other.paid_calls),
            (&mut self.failed_calls, other.failed_calls),
            (&mut self.gross, other.gross),
            (&mut self.fees, other.fees),
            (&mut self.net, other.net),
            (&mut self.refunded, other.refunded),
            (&mut self.refunded_fees, other.refunded_fees),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Calls of one tool: the value of rows and of roll-ups. Stored as postcard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sale {
    /// The tool.
    pub endpoint: EndpointId,
    /// Its slug at that time.
    pub slug: Slug,
    /// The totals to add.
    pub totals: SaleTotals,
}
tollhouse_store::postcard_values!(Sale, UnpaidSale);

/// A builder's unpaid earnings from a receipt. Stored as postcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpaidSale {
    /// The net amount in micro-USD.
    pub net: u64,
    /// When the receipt was issued, in milliseconds since 1970.
    pub at_ms: u64,
}

impl UnpaidSale {
    /// Returns the row of unpaid earnings. Empty if there is no builder or nothing to pay.
    #[must_use]
    pub fn stored(self, owner: &Owner, receipt: &ReceiptId) -> Batch {
        match owner {
            Owner::Builder(builder) if self.net > 0 => UNPAID.put(&(TerminatedText(builder.clone()), receipt.clone()), &self),
            Owner::Builder(_) | Owner::Platform => Batch::new(),
        }
    }
}

/// The sales of all owners.
pub struct Sales {
    store: Arc<dyn Store>,
    /// Owners with rows that are not folded yet.
    sold: Lock<HashSet<String>>,
    listed: SellerCache,
    has_sales: Notify,
}

impl Sales {
    /// Constructs the sales of this store.
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, sold: Lock::default(), listed: SellerCache::default(), has_sales: Notify::new() })
    }

    /// Returns a sale's row for a commit, after which [`Sales::sold`] must be called. `id` makes it unique: that of a
    /// receipt, or a generated one.
    #[must_use]
    pub fn row(&self, sale: &Sale, owner: &Owner, at: Timestamp, id: &str) -> Batch {
        let key = SaleKey::Row(at, id.to_owned());
        let seller = self.seller(owner.share(), &key);
        SALES.put(&(of(owner.share()), key), sale).and(seller)
    }

    /// Announces that rows of `owner` were written. Call it after the commit.
    pub fn sold(&self, owner: &Owner) {
        let mut sold = self.sold.lock();
        if !sold.contains(owner.share()) {
            sold.insert(owner.share().to_owned());
            self.has_sales.notify_one();
        }
    }

    fn sold_owners(&self) -> HashSet<String> {
        std::mem::take(&mut self.sold.lock())
    }
}

/// Returns the UTC day of `at`, counted from 1970.
pub(crate) fn day(at: Timestamp) -> u32 {
    u32::try_from(at.0 / DAY_MS).unwrap_or(u32::MAX)
}

/// Returns the start of the UTC day of `at`.
pub fn start_of_day(at: Timestamp) -> Timestamp {
    begin(day(at))
}

/// Returns the start of the UTC day after `at`.
pub(crate) fn end_of_day(at: Timestamp) -> Timestamp {
    begin(day(at).saturating_add(1))
}

fn begin(day: u32) -> Timestamp {
    Timestamp(u64::from(day) * DAY_MS)
}

/// Returns the key prefix of an owner's sales.
fn of(share: &str) -> TerminatedText<String> {
    TerminatedText(share.to_owned())
}

/// Returns the day of a row or a roll-up.
fn day_of(key: &SaleKey) -> u32 {
    match key {
        SaleKey::RollUp(day, _) => *day,
        SaleKey::Row(at, _) => day(*at),
    }
}

const MAX_CACHED: usize = 100_000;

/// The sellers that this host knows to be listed, by interval.
#[derive(Debug, Default)]
struct SellerCache(Lock<HashMap<u32, HashSet<String>>>);

impl SellerCache {
    fn has(&self, interval: u32, share: &str) -> bool {
        self.0.lock().get(&interval).is_some_and(|owners| owners.contains(share))
    }

    fn insert(&self, interval: u32, share: &str) {
        let mut owners = self.0.lock();
        let full = owners.values().map(HashSet::len).sum::<usize>() >= MAX_CACHED;
        let evicted = if full { std::mem::take(&mut *owners) } else { HashMap::new() };
        owners.entry(interval).or_default().insert(share.to_owned());
        // The evicted ones are dropped outside of the lock.
        drop(owners);
        drop(evicted);
    }
}
