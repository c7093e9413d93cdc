//! Schedules lookups of open settlements.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use crate::PaymentId;

/// Time from the end of a pass through all unresolved settlements until the next one begins.
const PASS_EVERY: Duration = Duration::from_secs(600);

/// Maximum interval between two lookups of an open settlement.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Maximum number of concurrent lookups of settlements that were looked up [`OFTEN`], and of others.
const AT_ONCE: usize = 32;

/// Number of lookups without an answer after which a settlement waits only behind similar ones and delays no others.
const OFTEN: u32 = 3;

/// When to look up a settlement that this process has open, and how often it has been looked up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PollBackoff {
    /// `None` while the first answer is awaited.
    pub(super) at: Option<Instant>,
    tries: u32,
    pub(super) asking: bool,
}

/// Permits for concurrent lookups.
#[derive(Debug)]
pub(super) struct PollSlots(pub(super) [Arc<Semaphore>; 2]);

impl Default for PollSlots {
    fn default() -> Self {
        Self([(); 2].map(|()| Arc::new(Semaphore::new(AT_ONCE))))
    }
}

impl PollBackoff {
    pub(super) fn due(now: Instant) -> Self {
        Self { at: Some(now), ..Self::default() }
    }

    /// Returns whether it was looked up so often that it must not delay others.
    pub(super) fn is_old(&self) -> bool {
        self.tries >= OFTEN
    }

    /// Schedules the next lookup. The interval doubles each time.
    pub(super) fn next(self, now: Instant) -> Self {
        let wait = Duration::from_secs(1u64 << self.tries.min(16)).min(MAX_BACKOFF);
        Self { at: Some(now + wait), tries: self.tries + 1, asking: false }
    }
}

/// The position of a pass through unresolved settlements, which are looked up a few at a time.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// When the pass begins. `None` before it is first asked for.
    begins: Option<Instant>,
    /// The last one that was looked up.
    pub(super) after: Option<PaymentId>,
}

impl Pass {
    /// Returns whether the pass has started. The first starts a while after the host.
    pub(super) fn has_begun(&mut self, now: Instant) -> bool {
        now >= *self.begins.get_or_insert(now + PASS_EVERY)
    }

    /// Records the last one that was looked up, or ends the pass.
    pub(super) fn record_progress(&mut self, last: Option<PaymentId>, now: Instant) {
        if last.is_none() {
            self.begins = Some(now + PASS_EVERY);
        }
        self.after = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_settlement_is_queried_less_and_less_often() {
        let now = Instant::now();
        let tries = std::iter::successors(Some(PollBackoff::default()), |retry| Some(retry.next(now)));
        let waits: Vec<_> = tries.take(12).filter_map(|retry| Some(retry.at?.duration_since(now).as_secs())).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn a_pass_begins_again_a_while_after_it_has_ended() {
        let (mut pass, now) = (Pass::default(), Instant::now());
        let later = now + PASS_EVERY;
        assert_eq!((pass.has_begun(now), pass.has_begun(later)), (false, true));
        pass.record_progress(Some(PaymentId::of(&["a"])), later);
        assert!(pass.has_begun(later) && pass.after.is_some());
        pass.record_progress(None, later);
        assert_eq!((pass.has_begun(later), pass.has_begun(later + PASS_EVERY)), (false, true));
    }
}
