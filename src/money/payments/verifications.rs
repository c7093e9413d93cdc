//! Limits the payments per caller's address that are refused when they are verified, or with which no run begins, because
//! verifying costs requests to a node or a facilitator.
//!
//! A payment counts as refused until its verification ends. So an address can have no more verified at once than it may
//! still have refused. The others wait for their ends.

use std::{net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use tollhouse_base::{
    attempts::{Attempt, AttemptError, Attempts},
    failure_limiter::{FailureLimiter, WINDOW},
    gcra::Tally,
};

use super::run_limits::{RunLimit, RunLimitReached};

/// All refused payments of an address are forgiven after this time, however many there were.
const MAX_LEN: Duration = Duration::from_secs(2 * 60);

/// The verifications of payments, by address. `None` if they are not limited.
#[derive(Debug)]
pub(super) struct Verifications(Option<Arc<Attempts<IpAddr>>>);

/// A payment that is being verified.
#[derive(Debug)]
#[must_use]
pub(super) struct Verification(Option<Attempt<IpAddr>>);

impl Verifications {
    /// Limits the refused payments of an address per minute.
    pub(super) fn new(per_minute: Option<NonZeroU32>) -> Self {
        Self(per_minute.map(|per_minute| Arc::new(Attempts::new(FailureLimiter::new(per_minute, MAX_LEN)))))
    }

    /// Begins the verification of a payment from an address. It may wait for others of that address.
    pub(super) async fn begin(&self, from: Option<IpAddr>) -> Result<Verification, RunLimitReached> {
        let (Some(attempts), Some(from)) = (&self.0, from) else { return Ok(Verification(None)) };
        let max = attempts.penalties().per_minute();
        let slowed = |error| {
            let (bound, wait) = match error {
                AttemptError::Failed(wait) => (RunLimit::RefusedPayments, wait),
                AttemptError::Busy(wait) => (RunLimit::Verifications, wait),
            };
            RunLimitReached { bound, max, window: WINDOW, wait }
        };
        attempts.begin(from).await.map(|attempt| Verification(Some(attempt))).map_err(slowed)
    }

    /// Counts a payment from an address as refused whose verification has ended.
    pub(super) fn count(&self, from: Option<IpAddr>) {
        if let (Some(attempts), Some(from)) = (&self.0, from) {
            attempts.count(from);
        }
    }

    /// Returns the counts to share with other hosts of the store.
    pub(super) fn tally(&self) -> Option<(&'static str, Arc<dyn Tally>)> {
        let attempts = self.0.as_ref()?;
        Some(("refused-payments", Arc::clone(attempts.penalties()) as _))
    }

    /// Forgets addresses without refused payments, to bound memory.
    pub(super) fn prune_idle(&self) {
        self.0.iter().for_each(|attempts| attempts.penalties().prune_idle());
    }
}

impl Verification {
    /// Stands for a verification that is not needed.
    pub(super) fn skipped() -> Self {
        Self(None)
    }

    /// Counts the payment as refused.
    pub(super) fn refused(self) {
        if let Some(attempt) = self.0 {
            attempt.fail();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn address_has_no_more_verified_at_once_than_may_be_refused() {
        let verifications = Verifications::new(NonZeroU32::new(2));
        let begin = async |last: u8| verifications.begin(Some([192, 0, 2, last].into())).await.map_err(|slowed| slowed.bound);
        let held = (begin(1).await.unwrap(), begin(1).await.unwrap());
        assert_eq!(begin(1).await.unwrap_err(), RunLimit::Verifications, "it has waited");
        drop(begin(2).await.unwrap());
        held.0.refused();
        drop(held.1);
        begin(1).await.unwrap().refused();
        assert_eq!(begin(1).await.unwrap_err(), RunLimit::RefusedPayments);
    }
}
