//! Limits per client address: requests, processor time and wrong credentials.

use std::{net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use tollhouse_base::{
    boxed,
    cpu_share::{CpuShares, CpuTurn},
    gcra::Tally,
    plural::plural,
    rate_limit::RateLimiter,
};
use tollhouse_call::CallError;
use tollhouse_config::HttpSettings;
use tollhouse_money::OfferedPayment;
use tollhouse_replica::SharedCounts;

use super::{
    address::network,
    api_error::{ApiError, RateLimitPolicy},
    auth_failures::{CredentialCheck, Failures, Sender},
};

/// Burst of HTTP/2 overhead frames, as a multiple of the frames allowed per second.
const FRAMES_AT_ONCE: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// New connections of an address, as a multiple of its requests per second, and the minimum that it can open at once.
const CONNECTIONS_PER_REQUEST: NonZeroU32 = NonZeroU32::new(2).unwrap();
const CONNECTIONS_AT_ONCE: usize = 512;

/// The limits of each client address.
#[derive(Debug)]
pub struct Limits {
    /// Limit of requests per second.
    rate: Option<Arc<RateLimiter<IpAddr>>>,
    /// Limit of new connections per second. There is none without a limit of requests.
    connections: Option<RateLimiter<IpAddr>>,
    /// Limit of HTTP/2 frames that belong to no request or answer.
    frames: Option<Arc<RateLimiter<IpAddr>>>,
    /// Shares of the processor.
    shares: Arc<CpuShares>,
    /// Limit of wrong credentials.
    failures: Option<Arc<Failures>>,
}

impl Limits {
    /// Returns the configured limits of a host at `base_url`.
    #[must_use]
    pub fn new(settings: &HttpSettings, shares: Arc<CpuShares>, base_url: &str) -> Self {
        let failures = settings.auth_failures.map(|per_minute| Arc::new(Failures::new(per_minute, base_url)));
        let rate = settings.rate_limit.map(RateLimiter::new).map(Arc::new);
        let open = settings.intake.connections.open.max_per_address;
        let connections = settings.rate_limit.map(|requests| new_connections(requests, open));
        let frames = settings.intake.connections.overhead_frames;
        let frames = frames.map(|frames| RateLimiter::with_burst(frames, frames.saturating_mul(FRAMES_AT_ONCE))).map(Arc::new);
        Self { rate, connections, frames, shares, failures }
    }

    /// Returns the counters of addresses that replicas share.
    #[must_use]
    pub fn tallies(&self) -> SharedCounts {
        let rate = self.rate.iter().map(|rate| ("address", Arc::clone(rate) as Arc<dyn Tally>));
        rate.chain(self.failures.iter().flat_map(|failures| failures.tallies())).collect()
    }

    /// Forgets addresses that have been quiet, so that memory stays bounded.
    pub fn prune_idle(&self) {
        if let Some(rate) = &self.rate {
            rate.prune_idle();
        }
        if let Some(connections) = &self.connections {
            connections.prune_idle();
        }
        if let Some(frames) = &self.frames {
            frames.prune_idle();
        }
        if let Some(failures) = &self.failures {
            failures.prune_idle();
        }
        self.shares.prune_idle();
    }

    /// Counts a new connection of an address. Returns false if the address opens too many.
    pub(super) fn admits_connection(&self, address: IpAddr) -> bool {
        self.connections.as_ref().is_none_or(|connections| connections.take(&network(address), NonZeroU32::MIN))
    }

    /// Returns the counter of HTTP/2 frames that belong to no request or answer, if there is a limit.
    pub(super) fn frames(&self) -> Option<&Arc<RateLimiter<IpAddr>>> {
        self.frames.as_ref()
    }

    /// Charges an address for processor time of its connections outside of requests.
    pub(super) fn spend(&self, address: IpAddr, time: Duration) {
        self.shares.spend(network(address), time);
    }

    /// Counts a request of an address.
    ///
    /// # Errors
    ///
    /// 429 if the address exceeds its rate.
    pub(crate) fn count(&self, address: IpAddr) -> Result<(), ApiError> {
        let (Some(rate), Some(seconds)) = (&self.rate, self.wait(address)) else { return Ok(()) };
        let message = format!("more than {} per second from your address", plural(rate.per_second(), "request"));
        let policy = RateLimitPolicy { name: "address", max: rate.per_second(), window_secs: 1 };
        Err(ApiError::rate_limited(policy, seconds, message))
    }

    /// Counts a request of an address. Returns the seconds until it is allowed, or `None` if it is allowed now.
    pub fn wait(&self, address: IpAddr) -> Option<u64> {
        self.rate.as_ref()?.wait(&network(address))
    }

    /// Waits for a turn of an address to use the processor, for work of unknown cost.
    ///
    /// # Errors
    ///
    /// 429 if the address has used more than its share of the processor while others need it.
    #[boxed]
    pub async fn turn(&self, address: IpAddr) -> Result<CpuTurn, ApiError> {
        self.shares.turn(network(address), Duration::ZERO).await.map_err(|over| CallError::OverShare(over).into())
    }

    /// Returns the counters of wrong credentials, if there is a limit.
    pub(super) fn failures(&self) -> Option<&Arc<Failures>> {
        self.failures.as_ref()
    }

    /// Returns the sender of a request for counting wrong credentials, or `None` if there is no limit.
    pub fn sender(&self, address: IpAddr, headers: &HeaderMap) -> Option<Sender> {
        Some(self.failures.as_ref()?.sender(address, headers))
    }

    /// Adds an observer to an offered developer credit. It limits the lookup of the credit, and counts the credit as a
    /// wrong credential if it does not exist. Streamed answers and answers in messages need this, because their HTTP
    /// heads do not show it. A credit that is never looked up, as for a free tool, is not counted, because it reveals
    /// nothing.
    pub fn observed(&self, sender: Option<Sender>, mut offered: OfferedPayment) -> OfferedPayment {
        if let (Some(failures), Some(sender), OfferedPayment::Credit(credit)) = (&self.failures, sender, &mut offered) {
            credit.observer = Some(Failures::observer(failures, sender));
        }
        offered
    }

    /// Does the same as [`Limits::observed`] for a payment inside a message, after checking the sender.
    ///
    /// # Errors
    ///
    /// 429 if a credit is offered and the sender has failed too often.
    pub fn limit_credit(&self, sender: Option<Sender>, offered: OfferedPayment) -> Result<OfferedPayment, ApiError> {
        if let OfferedPayment::Credit(_) = &offered {
            self.may_show_credential(sender).map_err(|refused| refused.before_lookup(&offered))?;
        }
        Ok(self.observed(sender, offered))
    }

    /// Checks a sender of credentials inside a message, which the middleware has not checked. The credential itself is
    /// checked later.
    ///
    /// # Errors
    ///
    /// 429 if the sender has failed too often.
    pub fn may_show_credential(&self, sender: Option<Sender>) -> Result<(), ApiError> {
        self.failures.as_ref().zip(sender).map_or(Ok(()), |(failures, sender)| failures.check(sender))
    }

    /// Begins the check of a credential that the middleware does not see. While other checks for the same address could
    /// use up its limit, waits until one of them ends.
    ///
    /// # Errors
    ///
    /// 429 if the sender has failed too often.
    pub async fn begin_check(&self, sender: Option<Sender>) -> Result<CredentialCheck, ApiError> {
        let Some((failures, sender)) = self.failures.as_ref().zip(sender) else { return Ok(CredentialCheck::UNLIMITED) };
        failures.begin(sender).await
    }

    /// Does the same for a guess at the request of a paid registration.
    ///
    /// # Errors
    ///
    /// 429 if the sender has failed too often.
    pub async fn begin_registration(&self, sender: Option<Sender>) -> Result<CredentialCheck, ApiError> {
        let Some((failures, sender)) = self.failures.as_ref().zip(sender) else { return Ok(CredentialCheck::UNLIMITED) };
        failures.begin_registration(sender).await
    }

    /// Counts a credential that has become wrong since it was checked, such as that of a session.
    pub fn count_wrong(&self, sender: Option<Sender>) {
        if let (Some(failures), Some(sender)) = (&self.failures, sender) {
            failures.count(sender);
        }
    }
}

/// Returns the limit of new connections for an address that can send this many requests per second and have this many
/// connections open. A client that stays within both never reaches it.
fn new_connections(requests: NonZeroU32, open: Option<usize>) -> RateLimiter<IpAddr> {
    let per_second = requests.saturating_mul(CONNECTIONS_PER_REQUEST);
    let at_once = open.unwrap_or_default().saturating_mul(2).max(CONNECTIONS_AT_ONCE);
    let at_once = u32::try_from(at_once).unwrap_or(u32::MAX).max(per_second.get().saturating_mul(2));
    RateLimiter::with_burst(per_second, NonZeroU32::new(at_once).unwrap_or(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_connections_of_an_address_are_limited() {
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for (requests, open, at_once) in [(1, None, 512), (1, Some(256), 512), (1, Some(1_000), 2_000), (1_000, Some(256), 4_000)] {
            let limit = new_connections(NonZeroU32::new(requests).unwrap(), open);
            assert_eq!(limit.per_second().get(), 2 * requests);
            assert!(limit.take(&one, NonZeroU32::new(at_once).unwrap()), "{requests} {open:?}");
            assert!(!limit.take(&one, NonZeroU32::new(at_once).unwrap()), "{requests} {open:?}");
            assert!(limit.take(&other, NonZeroU32::MIN));
        }
    }
}
