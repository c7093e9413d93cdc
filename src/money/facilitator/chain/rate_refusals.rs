//! Counts the requests that a node refused because too many were sent.

use std::time::Duration;

use tokio::time::Instant;
use tollhouse_base::lock::Lock;

/// Length of a period. The refusals of the current period and of the one before are counted.
const PERIOD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct RateRefusals(Lock<Periods>);

#[derive(Debug)]
struct Periods {
    began: Instant,
    current: u64,
    previous: u64,
}

impl RateRefusals {
    pub(super) fn new() -> Self {
        Self(Lock::new(Periods { began: Instant::now(), current: 0, previous: 0 }))
    }

    pub(super) fn add(&self) {
        self.with(|periods| periods.current += 1);
    }

    /// Returns the number of refused requests of the last minute.
    pub(super) fn last_minute(&self) -> u64 {
        self.with(|periods| periods.current + periods.previous)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Periods) -> T) -> T {
        let mut periods = self.0.lock();
        let elapsed = periods.began.elapsed();
        if elapsed >= PERIOD {
            let previous = if elapsed < 2 * PERIOD { periods.current } else { 0 };
            *periods = Periods { began: Instant::now(), current: 0, previous };
        }
        f(&mut periods)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_requests_count_for_about_a_minute() {
        let refusals = RateRefusals::new();
        refusals.add();
        refusals.add();
        advance(PERIOD).await;
        refusals.add();
        assert_eq!(refusals.last_minute(), 3);
        advance(PERIOD).await;
        assert_eq!(refusals.last_minute(), 1);
        advance(3 * PERIOD).await;
        assert_eq!(refusals.last_minute(), 0);
    }
}
