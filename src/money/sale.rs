//! Sales: what the calls of each owner's endpoints brought in, to the micro-dollar.
//!
//! A call leaves a row in the commit of its receipt, under a key of its own, so that concurrent calls never
//! wait for each other's counters. A task behind folds rows into one roll-up for each (owner, day, endpoint),
//! in commits that take the rows away and change the roll-ups at once. Both lie in one range of keys:
//!
//! ```text
//! <owner> 0 0 <day> <endpoint id>   roll-up
//! <owner> 0 1 <time> <id>           row, not folded yet
//! ```
//!
//! **Invariant: a call is counted once.** It is in a row or in a roll-up, and a scan, which is one moment,
//! sees it in one of them; so a report is exact whenever it is made. It takes one scan for the days that have rows; the
//! roll-ups of others change no more for what was there when it began, and are read page by page.
//!
//! A refund leaves a row like a call's, of the day of the call: so no line of a report is below zero.

mod agrees;
mod fold;
mod format;
mod listed;
mod report;
mod sellers;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    fmt,
    ops::AddAssign,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tollhouse_base::{
    clock::Timestamp,
    id::{BuilderId, EndpointId, ReceiptId},
};
use tollhouse_store::{Batch, Ended, SaleKey, Store, Table, schema};
use tollhouse_tool::{MicroUsd, Owner, Slug};

use self::listed::Listed;
pub use self::{
    agrees::check_sellers,
    report::{Detail, HostReport, Line, Report},
};

/// The whole of a price, in basis points.
pub const WHOLE_BPS: u16 = 10_000;

const SALES: Table<Key, Sale> = schema::SALES.holding();
pub(crate) const UNPAID: Table<(Ended<BuilderId>, ReceiptId), Unpaid> = schema::UNPAID.holding();

/// The owner's share, and the row's own.
type Key = (Ended<String>, SaleKey);

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The share of each sale that the host keeps, in basis points of the price. Default: 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeBps(pub u16);

impl FeeBps {
    /// What the host keeps of `price`, rounded down. Of its own endpoints nothing: there is nobody to keep it from.
    #[must_use]
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

/// Calls and money, added up. Money in micro-USD; `net` is `gross` without `fees`, both before refunds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Runs, succeeded and failed.
    pub calls: u64,
    /// Calls that were charged.
    pub paid_calls: u64,
    /// Calls that ended badly, and cost nothing.
    pub failed_calls: u64,
    /// What callers paid, in micro-dollars.
    pub gross: u64,
    /// What the host keeps of it, in micro-dollars.
    pub fees: u64,
    /// What the builder gets of it, in micro-dollars.
    pub net: u64,
    /// What was given back of what callers paid, in micro-dollars.
    pub refunded: u64,
    /// What the host gave of that, in micro-dollars.
    pub refunded_fees: u64,
}

impl Totals {
    /// A call that cost nothing.
    pub const FREE: Self = Self { calls: 1, paid_calls: 0, failed_calls: 0, gross: 0, fees: 0, net: 0, refunded: 0, refunded_fees: 0 };
    /// A call that came to nothing, uncharged.
    pub const FAILED: Self = Self { failed_calls: 1, ..Self::FREE };

    /// A call that came to nothing after it was charged: as a paid one it is counted already.
    pub const PAID_FAILURE: Self = Self { calls: 0, ..Self::FAILED };

    /// A paid call.
    #[must_use]
    pub fn paid(gross: MicroUsd, fee: MicroUsd) -> Self {
        Self { paid_calls: 1, gross: gross.0, fees: fee.0, net: gross.0.saturating_sub(fee.0), ..Self::FREE }
    }

    /// What was given back of a paid call, and what the host gave of that.
    #[must_use]
    pub fn refunded(amount: MicroUsd, fee: MicroUsd) -> Self {
        Self { refunded: amount.0, refunded_fees: fee.0, ..Self::default() }
    }

    /// What the host keeps, without what it gave back.
    #[must_use]
    pub fn fees_kept(&self) -> u64 {
        self.fees.saturating_sub(self.refunded_fees)
    }

    /// What the builder gets, without what was given back.
    #[must_use]
    pub fn net_kept(&self) -> u64 {
        self.net.saturating_sub(self.refunded.saturating_sub(self.refunded_fees))
    }
}

impl AddAssign for Totals {
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

/// Calls of one endpoint: the value of rows and of roll-ups. Stored as postcard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sale {
    /// Of which endpoint.
    pub endpoint: EndpointId,
    /// Its slug as it was then.
    pub slug: Slug,
    /// What it adds.
    pub totals: Totals,
}
tollhouse_store::postcard_values!(Unpaid);

/// What a receipt leaves its builder to be paid out. Stored as postcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpaid {
    /// Micro-USD.
    pub net: u64,
    /// When the receipt was issued, in milliseconds since 1970.
    pub at_ms: u64,
}

impl Sale {
    /// The row of calls of one day, as versions wrote it that list no sellers.
    #[cfg(test)]
    pub(crate) fn row(&self, owner: &Owner, at: Timestamp, id: &str) -> Batch {
        SALES.put(&(of(owner.share()), SaleKey::Row(at, id.to_owned())), self)
    }
}

impl Unpaid {
    /// What makes it wait for a payout packet: nothing where there is no builder, or nothing to pay.
    #[must_use]
    pub fn stored(self, owner: &Owner, receipt: &ReceiptId) -> Batch {
        match owner {
            Owner::Builder(builder) if self.net > 0 => UNPAID.put(&(Ended(builder.clone()), receipt.clone()), &self),
            Owner::Builder(_) | Owner::Platform => Batch::new(),
        }
    }
}

/// The sales of all owners.
pub struct Sales {
    store: Arc<dyn Store>,
    /// Owners who have rows to be folded.
    sold: Mutex<HashSet<String>>,
    listed: Listed,
    some: Notify,
}

impl fmt::Debug for Sales {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sales").field("to_fold", &self.sold_lock().len()).finish_non_exhaustive()
    }
}

impl Sales {
    /// Sales of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, sold: Mutex::default(), listed: Listed::default(), some: Notify::new() })
    }

    /// The row of calls of one day, for a commit, which [`Sales::sold`] is told of then. `id` tells it from others of its time: a receipt's,
    /// or one made up.
    #[must_use]
    pub fn row(&self, sale: &Sale, owner: &Owner, at: Timestamp, id: &str) -> Batch {
        let key = SaleKey::Row(at, id.to_owned());
        let seller = self.seller(owner.share(), &key);
        SALES.put(&(of(owner.share()), key), sale).and(seller)
    }

    /// Says that rows of `owner` were written. Call it after the commit.
    pub fn sold(&self, owner: &Owner) {
        let mut sold = self.sold_lock();
        if !sold.contains(owner.share()) {
            sold.insert(owner.share().to_owned());
            self.some.notify_one();
        }
    }

    fn sold_owners(&self) -> HashSet<String> {
        std::mem::take(&mut self.sold_lock())
    }

    fn sold_lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.sold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the UTC day of `at`, counted from 1970.
fn day(at: Timestamp) -> u32 {
    u32::try_from(at.0 / DAY_MS).unwrap_or(u32::MAX)
}

/// When the UTC day of `at` began.
#[must_use]
pub fn start_of_day(at: Timestamp) -> Timestamp {
    begin(day(at))
}

/// When a day begins.
fn begin(day: u32) -> Timestamp {
    Timestamp(u64::from(day) * DAY_MS)
}

/// What the keys of an owner's sales start with.
fn of(share: &str) -> Ended<String> {
    Ended(share.to_owned())
}

/// The day of a row or a roll-up.
fn day_of(key: &SaleKey) -> u32 {
    match key {
        SaleKey::RollUp(day, _) => *day,
        SaleKey::Row(at, _) => day(*at),
    }
}
