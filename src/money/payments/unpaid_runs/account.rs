//! Records of payers, addresses and tools.

use std::{num::NonZeroU32, time::Duration};

use super::earned::{Allowance, HISTORY_TTL};
use crate::payments::sliding_window::{SlidingWindow, WindowMoment};

/// The time for which an unpaid run counts.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// The time for which an excused run counts.
const EXCUSE_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Maximum number of additional runs in flight, as a multiple of the limit. A developer credit has them from the start:
/// its balance cannot be moved away during its calls, so its runs are unpaid only if a tool fails, an admin stops it, or
/// its caller cancels them. [`RunAccount::may_fail`] limits the last case.
const MAX_MORE: u32 = 10;

/// When a retry is worthwhile if only runs in flight exceed the limit.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// Time after its first payment from which a customer is regular.
const REGULAR_AFTER: Duration = Duration::from_secs(60 * 60);

/// Interval at which a customer is recorded in the store again.
const RECORDED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

const MAX_PAID: u32 = 1_000;

/// Maximum number of unpaid runs in a window, including forgiven ones, as a multiple of the limit. So paid runs forgive at
/// most as many as the limit, and runs that were earned by paying.
const MAX_UNPAID: u64 = 2;

/// Time after which other hosts of the store know of a failure here. They exchange counts four times a second.
const KNOWN_ELSEWHERE_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::payments) enum KnownFunds {
    /// A developer credit, on which the price is reserved.
    Credit,
    /// A balance on a network, on which this host holds the price.
    Balance,
    Unknown,
}

/// A payer's standing with a tool. It decides which limits apply to the payer's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::payments) enum Standing {
    /// It has not paid for the tool, or its paid runs do not cover one more run in flight.
    New,
    Customer,
    /// It paid for the tool more than [`REGULAR_AFTER`] ago.
    Regular,
}

impl Standing {
    pub(in crate::payments) fn is_customer(self) -> bool {
        self != Self::New
    }

    pub(in crate::payments) fn is_regular(self) -> bool {
        self == Self::Regular
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ThrottleTime {
    pub(super) at: WindowMoment,
    /// The same for windows of [`KNOWN_ELSEWHERE_AFTER`].
    recent: WindowMoment,
    /// Time since the start of the process.
    pub(super) elapsed: Duration,
}

impl ThrottleTime {
    /// Constructs it from the time since the start of the process.
    pub(super) fn new(elapsed: Duration) -> Self {
        Self { at: WindowMoment::new(elapsed, WINDOW), recent: WindowMoment::new(elapsed, KNOWN_ELSEWHERE_AFTER), elapsed }
    }

    /// Returns it as a moment of windows of an hour.
    pub(super) fn hour(self) -> WindowMoment {
        WindowMoment::new(self.elapsed, EXCUSE_WINDOW)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunAccount {
    /// Unpaid runs that count against the limit: those that were not forgiven.
    failed: SlidingWindow,
    /// The prices of these runs, in micro-USD.
    prices: SlidingWindow,
    /// All unpaid runs, including forgiven ones.
    unpaid: SlidingWindow,
    /// Runs of the last hour that would count, but were excused.
    pub(super) excused: SlidingWindow,
    /// Unpaid runs at this host that others may not know of yet.
    recent: SlidingWindow,
    /// The amount paid since a run was last forgiven, in micro-USD.
    paid_since: u64,
    pub(super) in_flight: u32,
    /// Runs on credit beyond the limit. Unpaid runs that no paid runs cover use them up.
    pub(super) credit_runs: u32,
    /// Maximum number of runs beyond the limit.
    pub(super) max_more: u32,
    pub(super) has_paid: bool,
    last: Duration,
}

/// Returns how many runs the other hosts may have begun without this one knowing: as many as are pending here, except for
/// `covered` ones. A host admits one run even if its share of a limit is less.
fn unknown_elsewhere(pending: u64, covered: u32, hosts: NonZeroU32) -> u64 {
    match pending {
        0 => 0,
        _ => (pending + 1).saturating_sub(covered.into()).saturating_mul(u64::from(hosts.get()) - 1),
    }
}

impl RunAccount {
    pub(super) fn new(limit: Option<NonZeroU32>, now: ThrottleTime) -> Self {
        let max_more = limit.map_or(0, NonZeroU32::get).saturating_mul(MAX_MORE);
        Self { credit_runs: max_more, max_more, last: now.elapsed, ..Self::default() }
    }

    /// Returns the number of runs that the payer can have beyond the limit with these funds. Paid runs alone allow `earned`.
    pub(super) fn allowance(&self, earned: Allowance, funds: KnownFunds) -> Allowance {
        let of_credit = if funds == KnownFunds::Credit { self.credit_runs } else { 0 };
        Allowance { more: earned.more.saturating_add(of_credit).min(self.max_more), ..earned }
    }

    /// Admits one more run, or returns the time until one may begin. `hosts` share the limit.
    pub(super) fn admit(&self, limit: NonZeroU32, allowance: Allowance, hosts: NonZeroU32, now: ThrottleTime) -> Result<(), Duration> {
        let (failed, limit) = (self.failed.total(now.at), u64::from(limit.get()));
        if failed >= limit {
            return Err(self.failed.wait(now.at).unwrap_or(SOON));
        }
        // Only runs in flight may exceed the limit, so failures that other hosts may have count here in full.
        if failed + unknown_elsewhere(self.recent.total(now.recent).min(failed), allowance.trust, hosts) >= limit {
            return Err(SOON);
        }
        let (unpaid, more) = (self.unpaid.total(now.at), u64::from(allowance.more));
        let max_unpaid = MAX_UNPAID * limit + more;
        if unpaid >= max_unpaid {
            return Err(self.unpaid.wait(now.at).unwrap_or(SOON));
        }
        let in_flight = u64::from(self.in_flight);
        let pending = in_flight + unknown_elsewhere(in_flight + self.recent.total(now.recent).min(failed), allowance.trust, hosts);
        (failed + pending < limit + more && unpaid + pending < max_unpaid).then_some(()).ok_or(SOON)
    }

    /// Returns whether one more run may end unpaid, whatever is in flight. `hosts` share the limit.
    pub(super) fn may_fail(&self, limit: NonZeroU32, hosts: NonZeroU32, now: ThrottleTime) -> bool {
        let (failed, limit) = (self.failed.total(now.at), u64::from(limit.get()));
        let elsewhere = unknown_elsewhere(self.recent.total(now.recent).min(failed), 0, hosts);
        failed + elsewhere < limit && self.unpaid.total(now.at) < MAX_UNPAID * limit
    }

    /// Returns whether it has no unpaid run and none in flight that may become one.
    pub(super) fn is_clean(&self, now: ThrottleTime) -> bool {
        self.in_flight == 0 && self.failed.total(now.at) == 0
    }

    pub(super) fn begin(&mut self, now: ThrottleTime) {
        (self.in_flight, self.last) = (self.in_flight + 1, now.elapsed);
    }

    /// Counts an unpaid run with this price, in micro-USD.
    pub(super) fn fail(&mut self, price: u64, now: ThrottleTime) {
        if self.failed.total(now.at) == 0 {
            self.paid_since = 0;
        }
        self.failed.add(1, now.at);
        self.recent.add(1, now.recent);
        // A price of zero would let any payment forgive the run.
        self.prices.add(price.max(1), now.at);
        self.unpaid.add(1, now.at);
    }

    /// Counts unpaid runs at another host, whose prices are unknown.
    pub(super) fn fail_elsewhere(&mut self, runs: u64, now: ThrottleTime) {
        self.failed.add(runs, now.at);
        self.unpaid.add(runs, now.at);
    }

    /// Counts a paid run. It forgives the oldest unpaid run if the payments since the last forgiven run reach its
    /// price. So a cheap run, maybe of the payer's own tool, does not make up for an expensive one. Returns true if there
    /// was no unpaid run to forgive, so that the payment adds to the runs in flight.
    pub(super) fn pay(&mut self, price: u64, now: ThrottleTime) -> bool {
        (self.has_paid, self.last) = (true, now.elapsed);
        let paid = self.paid_since.saturating_add(price);
        let forgiven = self.failed.forgive_for(&mut self.prices, paid, now.at);
        self.paid_since = if forgiven == Some(false) { paid } else { 0 };
        forgiven.is_none()
    }

    /// Removes a failure that was not the payer's fault.
    pub(super) fn excuse(&mut self, now: ThrottleTime) {
        self.failed.forgive_for(&mut self.prices, u64::MAX, now.at);
        self.paid_late(now);
    }

    /// Removes an unpaid run that was found to be paid. [`Self::pay`] counts the payment.
    pub(super) fn paid_late(&mut self, now: ThrottleTime) {
        self.unpaid.take_back(1, now.at);
        self.recent.take_back(1, now.recent);
    }

    /// Returns the number of unpaid runs in the last minute, including forgiven ones.
    pub(super) fn unpaid(&self, now: ThrottleTime) -> u64 {
        self.unpaid.total(now.at)
    }

    pub(super) fn is_quiet(&self, now: ThrottleTime) -> bool {
        self.is_clean(now) && now.elapsed.saturating_sub(self.last) > HISTORY_TTL
    }

    /// Returns its weight. Accounts with the least weight are forgotten first.
    pub(super) fn weight(&self, now: ThrottleTime) -> (u32, u64, Duration) {
        (self.in_flight, self.failed.total(now.at), self.last)
    }
}

/// The runs of a tool by payers who have not paid for it before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolAccount {
    failed: SlidingWindow,
    /// Runs of the last hour that would count, but were excused.
    pub(super) excused: SlidingWindow,
    /// Those at this host that others may not know of yet.
    recent: SlidingWindow,
    pub(super) in_flight: u32,
}

impl ToolAccount {
    pub(super) fn fail(&mut self, now: ThrottleTime) {
        self.failed.add(1, now.at);
        self.recent.add(1, now.recent);
    }

    pub(super) fn fail_elsewhere(&mut self, runs: u64, now: ThrottleTime) {
        self.failed.add(runs, now.at);
    }

    /// Removes a failure that was not the payer's fault.
    pub(super) fn excuse(&mut self, now: ThrottleTime) {
        self.failed.forgive(now.at);
        self.recent.take_back(1, now.recent);
    }

    /// Returns whether one more run may end unpaid, whatever is in flight. `hosts` share the limit.
    pub(super) fn may_fail(&self, limit: NonZeroU32, hosts: NonZeroU32, now: ThrottleTime) -> bool {
        let failed = self.failed.total(now.at);
        failed + unknown_elsewhere(self.recent.total(now.recent).min(failed), 0, hosts) < u64::from(limit.get())
    }

    pub(super) fn is_quiet(&self, now: ThrottleTime) -> bool {
        self.in_flight == 0 && self.failed.total(now.at) == 0 && self.excused.total(now.hour()) == 0
    }

    /// Returns its weight. Accounts with the least weight are forgotten first.
    pub(super) fn weight(&self, now: ThrottleTime) -> (u32, u64) {
        (self.in_flight, self.failed.total(now.at))
    }

    /// Admits one more run, or returns the time until one may begin. Runs on credit may be more at once, as those of one
    /// credit.
    pub(super) fn admit(&self, positions: u32, on_credit: bool, hosts: NonZeroU32, now: ThrottleTime) -> Result<(), Duration> {
        let (failed, in_flight) = (self.failed.total(now.at), u64::from(self.in_flight));
        let more = if on_credit { u64::from(positions) * u64::from(MAX_MORE) } else { 0 };
        if failed >= u64::from(positions) {
            return Err(self.failed.wait(now.at).unwrap_or(SOON));
        }
        let pending = in_flight + unknown_elsewhere(in_flight + self.recent.total(now.recent).min(failed), 0, hosts);
        (failed + pending < u64::from(positions) + more).then_some(()).ok_or(SOON)
    }
}

/// A payer's history with a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Customer {
    /// Number of paid runs minus unpaid ones.
    pub(super) paid: u32,
    /// Number of runs in flight that these cover.
    pub(super) in_flight: u32,
    pub(super) last: Duration,
    /// When it paid first. `None` if it paid before this host knew it.
    first: Option<Duration>,
    /// When it was last recorded in the store.
    recorded: Option<Duration>,
}

impl Customer {
    /// Returns the history of a payer who pays for the first time.
    pub(super) fn new(now: ThrottleTime) -> Self {
        Self { first: Some(now.elapsed), ..Self::default() }
    }

    /// Returns the history of a customer of whom the store knows only that it has paid. It counts as a regular one, since
    /// this host remembers those who paid here in the last hour.
    pub(super) fn known(now: ThrottleTime) -> Self {
        Self { paid: 1, last: now.elapsed, ..Self::default() }
    }

    /// Returns whether it has paid more often than it has runs in flight.
    pub(super) fn is_trusted(&self) -> bool {
        self.paid > self.in_flight
    }

    /// Returns its standing if it begins one more run.
    pub(super) fn standing(&self, now: ThrottleTime) -> Standing {
        let is_regular = self.first.is_none_or(|first| now.elapsed.saturating_sub(first) >= REGULAR_AFTER);
        match (self.is_trusted(), is_regular) {
            (false, _) => Standing::New,
            (true, false) => Standing::Customer,
            (true, true) => Standing::Regular,
        }
    }

    /// Counts a paid run. Returns true if the store should record it: for the first one, and once a day.
    pub(super) fn pay(&mut self, now: ThrottleTime) -> bool {
        (self.paid, self.last) = ((self.paid + 1).min(MAX_PAID), now.elapsed);
        let is_due = self.recorded.is_none_or(|recorded| now.elapsed.saturating_sub(recorded) >= RECORDED_EVERY);
        if is_due {
            self.recorded = Some(now.elapsed);
        }
        is_due
    }

    pub(super) fn is_quiet(&self, now: ThrottleTime) -> bool {
        self.in_flight == 0 && now.elapsed.saturating_sub(self.last) > HISTORY_TTL
    }
}
