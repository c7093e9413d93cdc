//! How often one address may call one tool.

use std::{net::IpAddr, num::NonZeroU32};

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

/// Calls per second of each address and tool (GCRA), twice as many at once.
#[derive(Debug)]
pub(super) struct CallRate {
    limiter: DefaultKeyedRateLimiter<(IpAddr, String)>,
    clock: DefaultClock,
    pub(super) per_second: NonZeroU32,
}

impl CallRate {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(per_second.saturating_mul(NonZeroU32::MIN.saturating_add(1)));
        Self { limiter: RateLimiter::keyed(quota), clock: DefaultClock::default(), per_second }
    }

    /// Forgets who has been quiet, so that memory stays flat.
    pub(super) fn forget_quiet(&self) {
        self.limiter.retain_recent();
    }

    /// Seconds until `caller` may call `tool`, if it may not now.
    pub(super) fn wait(&self, caller: IpAddr, tool: &str) -> Option<u64> {
        let not_until = self.limiter.check_key(&(caller, tool.to_owned())).err()?;
        Some(not_until.wait_time_from(self.clock.now()).as_secs() + 1)
    }
}
