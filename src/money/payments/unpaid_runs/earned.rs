//! Unpaid runs that a payer or an address can have at the tools of one owner, because of its paid runs there.
//!
//! It is counted by owner, because an owner who pays for runs of its own tools gets the money back. It is counted in
//! money as well as in runs, so that runs of a cheap tool do not pay for those of an expensive one.

use std::time::Duration;

/// Number of paid runs that allow one more run in flight.
const PAID_FOR_ONE_MORE: u32 = 10;

/// Maximum number of paid runs that make further ones likely to be paid.
const MAX_TRUST: u32 = 1_000;

/// How long paid and unpaid runs are remembered after the last run.
pub(super) const HISTORY_TTL: Duration = Duration::from_secs(60 * 60);

/// The unpaid runs that a party can have beyond its limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Runs in flight, and unpaid runs, beyond the limit.
    pub(super) more: u32,
    /// Runs in flight that are likely to be paid.
    pub(super) trust: u32,
}

/// The allowance that a party has earned by paying for the tools of one owner.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Earned {
    more: PaidRuns,
    trust: PaidRuns,
    /// When it paid last, since the start of the process.
    pub(super) last: Duration,
}

/// Paid runs that unpaid ones have not used up.
#[derive(Debug, Clone, Copy, Default)]
struct PaidRuns {
    runs: u32,
    /// The amount that was paid for them, in micro-USD.
    paid: u64,
}

impl PaidRuns {
    fn add(&mut self, price: u64, max: u32) {
        (self.runs, self.paid) = ((self.runs + 1).min(max), self.paid.saturating_add(price));
    }

    /// Returns how many runs at this price they cover if each takes `share` paid runs.
    fn covered(&self, share: u32, price: u64) -> u32 {
        let by_price = self.paid / amount_of(share, price);
        (self.runs / share).min(u32::try_from(by_price).unwrap_or(u32::MAX))
    }

    /// Uses up what covers one run at this price.
    fn use_up(&mut self, share: u32, price: u64) {
        self.runs = self.runs.saturating_sub(share);
        self.paid = self.paid.saturating_sub(amount_of(share, price));
    }
}

/// Returns what `share` runs at this price cost, in micro-USD. A price of zero would be covered by any payment.
fn amount_of(share: u32, price: u64) -> u64 {
    price.max(1).saturating_mul(share.into())
}

impl Earned {
    /// Returns what it allows for a run at this price.
    pub(super) fn allowance(&self, price: u64) -> Allowance {
        Allowance { more: self.more.covered(PAID_FOR_ONE_MORE, price), trust: self.trust.covered(1, price) }
    }

    /// Counts a paid run. If it `adds` to the runs in flight, these are at most `max_more`.
    pub(super) fn pay(&mut self, price: u64, adds: bool, max_more: u32, now: Duration) {
        self.last = now;
        self.trust.add(price, MAX_TRUST);
        if adds {
            self.more.add(price, max_more.saturating_mul(PAID_FOR_ONE_MORE));
        }
    }

    /// Counts an unpaid run at this price. Returns whether it has used up one of the runs that were earned.
    pub(super) fn fail(&mut self, price: u64) -> bool {
        self.trust.use_up(1, price);
        let is_covered = self.more.covered(PAID_FOR_ONE_MORE, price) > 0;
        if is_covered {
            self.more.use_up(PAID_FOR_ONE_MORE, price);
        }
        is_covered
    }

    pub(super) fn is_quiet(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) > HISTORY_TTL
    }
}
