//! When to ask about an open settlement again.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

/// Longest time between two questions about one open settlement.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Questions asked at once about settlements that were asked about [`OFTEN`], and as many about others.
const AT_ONCE: usize = 32;

/// Questions without an answer, after which more about the same settlement wait for each other and for no others.
const OFTEN: u32 = 3;

/// When to ask about a settlement that this process has open, and how often it has asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Retry {
    /// `None` while the first answer is awaited.
    pub(super) at: Option<Instant>,
    tries: u32,
    /// A question is on its way.
    pub(super) asking: bool,
}

/// Places for questions.
#[derive(Debug)]
pub(super) struct Lanes(pub(super) [Arc<Semaphore>; 2]);

impl Default for Lanes {
    fn default() -> Self {
        Self([(); 2].map(|()| Arc::new(Semaphore::new(AT_ONCE))))
    }
}

impl Retry {
    /// To be asked about now.
    pub(super) fn due(now: Instant) -> Self {
        Self { at: Some(now), ..Self::default() }
    }

    /// Whether it was asked about so often that it is no reason for another one to wait.
    pub(super) fn is_old(&self) -> bool {
        self.tries >= OFTEN
    }

    /// Twice as long after each try.
    pub(super) fn next(self, now: Instant) -> Self {
        let wait = Duration::from_secs(1u64 << self.tries.min(16)).min(MAX_BACKOFF);
        Self { at: Some(now + wait), tries: self.tries + 1, asking: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_settlement_is_asked_about_ever_more_rarely() {
        let now = Instant::now();
        let tries = std::iter::successors(Some(Retry::default()), |retry| Some(retry.next(now)));
        let waits: Vec<_> = tries.take(12).filter_map(|retry| Some(retry.at?.duration_since(now).as_secs())).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }
}
