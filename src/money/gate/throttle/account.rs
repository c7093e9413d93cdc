//! Records of payers, addresses and tools.

use std::{num::NonZeroU32, time::Duration};

use crate::gate::recent::{Moment, Recent};

/// The time for which an unpaid run counts.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Number of paid runs that allow their payer and its address one more run in flight.
const PAID_FOR_ONE_MORE: u32 = 10;

/// Maximum number of additional runs in flight, as a multiple of the limit. A developer credit has them from the start:
/// its balance cannot be moved away during its calls, so its runs are unpaid only if a tool fails.
const MOST_MORE: u32 = 10;

/// When a retry is worthwhile if only runs in flight exceed the limit.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// How long an account is remembered after its last run.
const HISTORY_KEPT: Duration = Duration::from_secs(60 * 60);

/// Time after its first payment from which a customer is regular.
const REGULAR_AFTER: Duration = Duration::from_secs(60 * 60);

/// Interval at which a customer is recorded in the store again.
const NOTED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of paid runs that count for a customer.
const MOST_PAID: u32 = 1_000;

/// Knowledge of a payer's funds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum Funds {
    /// A developer credit, on which the price is reserved.
    Credit,
    /// A balance on a network, on which this host holds the price.
    Balance,
    /// The balance is unknown.
    Untold,
}

/// A payer's standing with a tool. It decides which limits apply to the payer's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum Standing {
    /// It has not paid for the tool, or its paid runs do not cover one more run in flight.
    New,
    /// It has paid for the tool.
    Customer,
    /// It paid for the tool more than [`REGULAR_AFTER`] ago.
    Regular,
}

impl Standing {
    pub(in crate::gate) fn is_customer(self) -> bool {
        self != Self::New
    }

    pub(in crate::gate) fn is_regular(self) -> bool {
        self == Self::Regular
    }
}

/// The current time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) at: Moment,
    /// Time since the start of the process.
    pub(super) elapsed: Duration,
}

impl Now {
    /// Constructs it from the time since the start of the process.
    pub(super) fn new(elapsed: Duration) -> Self {
        Self { at: Moment::new(elapsed, WINDOW), elapsed }
    }
}

/// The runs of a payer or from an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    /// Unpaid runs that count against the limit: those that were not forgiven.
    failed: Recent,
    /// The prices of these runs, in micro-USD.
    prices: Recent,
    /// All unpaid runs, including forgiven ones.
    unpaid: Recent,
    /// The amount paid since a run was last forgiven, in micro-USD.
    paid_since: u64,
    pub(super) under_way: u32,
    /// Runs beyond the limit that were earned by paying.
    more: u32,
    /// Maximum of `more`.
    most_more: u32,
    /// Paid runs since the last one that raised `more`.
    paid: u32,
    pub(super) has_paid: bool,
    last: Duration,
}

impl Account {
    pub(super) fn new(limit: Option<NonZeroU32>, funds: Funds, now: Now) -> Self {
        let most_more = limit.map_or(0, NonZeroU32::get).saturating_mul(MOST_MORE);
        let more = if funds == Funds::Credit { most_more } else { 0 };
        let (failed, prices, unpaid) = (Recent::default(), Recent::default(), Recent::default());
        let (paid_since, under_way, paid, has_paid) = (0, 0, 0, false);
        Self { failed, prices, unpaid, paid_since, under_way, more, most_more, paid, has_paid, last: now.elapsed }
    }

    /// Admits one more run, or returns the time until one may begin.
    pub(super) fn admit(&self, limit: NonZeroU32, now: Now) -> Result<(), Duration> {
        let (failed, limit) = (self.failed.total(now.at), u64::from(limit.get()));
        if failed >= limit {
            return Err(self.failed.wait(now.at).unwrap_or(SOON));
        }
        match failed + u64::from(self.under_way) < limit + u64::from(self.more) {
            true => Ok(()),
            false => Err(SOON),
        }
    }

    /// Returns whether it has no unpaid run and none in flight that may become one.
    pub(super) fn is_clean(&self, now: Now) -> bool {
        self.under_way == 0 && self.failed.total(now.at) == 0
    }

    pub(super) fn begin(&mut self, now: Now) {
        (self.under_way, self.last) = (self.under_way + 1, now.elapsed);
    }

    /// Counts an unpaid run with this price, in micro-USD.
    pub(super) fn fail(&mut self, price: u64, now: Now) {
        if self.failed.total(now.at) == 0 {
            self.paid_since = 0;
        }
        self.more = self.more.saturating_sub(1);
        self.failed.add(1, now.at);
        // A price of zero would let any payment forgive the run.
        self.prices.add(price.max(1), now.at);
        self.unpaid.add(1, now.at);
    }

    /// Counts unpaid runs at another host, whose prices are unknown.
    pub(super) fn fail_elsewhere(&mut self, runs: u64, now: Now) {
        self.failed.add(runs, now.at);
        self.unpaid.add(runs, now.at);
    }

    /// Counts a paid run. It forgives the oldest unpaid run if the payments since the last forgiven run reach its
    /// price. So a cheap run, maybe of the payer's own tool, does not make up for an expensive one.
    pub(super) fn pay(&mut self, price: u64, now: Now) {
        (self.has_paid, self.last) = (true, now.elapsed);
        let paid = self.paid_since.saturating_add(price);
        let forgiven = self.failed.forgive_for(&mut self.prices, paid, now.at);
        self.paid_since = if forgiven == Some(false) { paid } else { 0 };
        if forgiven.is_some() {
            return;
        }
        self.paid += 1;
        if self.paid >= PAID_FOR_ONE_MORE {
            (self.paid, self.more) = (0, (self.more + 1).min(self.most_more));
        }
    }

    /// Removes a failure that was not the payer's fault.
    pub(super) fn excuse(&mut self, now: Now) {
        self.failed.forgive_for(&mut self.prices, u64::MAX, now.at);
        self.unpaid.take_back(1, now.at);
    }

    /// Removes an unpaid run that was found to be paid. [`Self::pay`] counts the payment.
    pub(super) fn paid_late(&mut self, now: Now) {
        self.unpaid.take_back(1, now.at);
    }

    /// Returns the number of unpaid runs in the last minute, including forgiven ones.
    pub(super) fn unpaid(&self, now: Now) -> u64 {
        self.unpaid.total(now.at)
    }

    /// Returns whether it can be forgotten.
    pub(super) fn is_quiet(&self, now: Now) -> bool {
        self.is_clean(now) && now.elapsed.saturating_sub(self.last) > HISTORY_KEPT
    }

    /// Returns its weight. Accounts with the least weight are forgotten first.
    pub(super) fn weight(&self, now: Now) -> (u32, u64, Duration) {
        (self.under_way, self.failed.total(now.at), self.last)
    }
}

/// The runs of a tool by x402 payers who have not paid for it before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolAccount {
    pub(super) failed: Recent,
    pub(super) under_way: u32,
}

impl ToolAccount {
    pub(super) fn admit(&self, places: u32, now: Now) -> Result<(), Duration> {
        let failed = self.failed.total(now.at);
        match failed + u64::from(self.under_way) < u64::from(places) {
            true => Ok(()),
            false => Err(self.failed.wait(now.at).filter(|_| failed >= u64::from(places)).unwrap_or(SOON)),
        }
    }
}

/// A payer's history with a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Customer {
    /// Number of paid runs minus unpaid ones.
    pub(super) paid: u32,
    /// Number of runs in flight that these cover.
    pub(super) under_way: u32,
    pub(super) last: Duration,
    /// When it paid first. `None` if it paid before this host knew it.
    first: Option<Duration>,
    /// When it was last recorded in the store.
    noted: Option<Duration>,
}

impl Customer {
    /// Returns the history of a payer who pays for the first time.
    pub(super) fn new(now: Now) -> Self {
        Self { first: Some(now.elapsed), ..Self::default() }
    }

    /// Returns the history of a customer of whom the store knows only that it has paid. It counts as a regular one, since
    /// this host remembers those who paid here in the last hour.
    pub(super) fn known(now: Now) -> Self {
        Self { paid: 1, last: now.elapsed, ..Self::default() }
    }

    /// Returns whether it has paid more often than it has runs in flight.
    pub(super) fn is_trusted(&self) -> bool {
        self.paid > self.under_way
    }

    /// Returns its standing if it begins one more run.
    pub(super) fn standing(&self, now: Now) -> Standing {
        let is_regular = self.first.is_none_or(|first| now.elapsed.saturating_sub(first) >= REGULAR_AFTER);
        match (self.is_trusted(), is_regular) {
            (false, _) => Standing::New,
            (true, false) => Standing::Customer,
            (true, true) => Standing::Regular,
        }
    }

    /// Counts a paid run. Returns true if the store should record it: for the first one, and once a day.
    pub(super) fn pay(&mut self, now: Now) -> bool {
        (self.paid, self.last) = ((self.paid + 1).min(MOST_PAID), now.elapsed);
        let is_due = self.noted.is_none_or(|noted| now.elapsed.saturating_sub(noted) >= NOTED_EVERY);
        if is_due {
            self.noted = Some(now.elapsed);
        }
        is_due
    }

    pub(super) fn is_quiet(&self, now: Now) -> bool {
        self.under_way == 0 && now.elapsed.saturating_sub(self.last) > HISTORY_KEPT
    }
}
