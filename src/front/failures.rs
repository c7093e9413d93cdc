//! How often one address may show a wrong credential.
//!
//! An address that guesses is refused for a while whatever it shows then, so that it cannot learn from the refusal that it
//! has guessed right. Right credentials use nothing up, and requests without one are not looked at.

use std::{
    collections::HashMap,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::Request,
    http::HeaderMap,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{
    address::network,
    fault::{Fault, Policy, code_of},
    faults::Code,
    names,
    payment::{bearer, credit},
};
use crate::money::CredentialObserver;

/// The time that the budget of an address is for.
const WINDOW: Duration = Duration::from_secs(60);

/// Longest time that an address is refused for what it has sent at once.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Most addresses that are remembered. Beyond that, those that failed least are forgotten.
const MAX_ADDRESSES: usize = 16_384;

/// Wrong credentials of each client address (GCRA). Of IPv6, a /64 is one address.
#[derive(Debug)]
pub(super) struct Failures {
    per_minute: NonZeroU32,
    /// Address → when its budget is whole again.
    addresses: Mutex<HashMap<IpAddr, Instant>>,
}

impl Failures {
    /// `per_minute` failures of each address, at once or spread.
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        Self { per_minute, addresses: Mutex::default() }
    }

    /// Forgets addresses whose budget is whole, so that memory stays flat.
    pub(super) fn forget_quiet(&self) {
        let now = Instant::now();
        self.addresses().retain(|_, whole_at| *whole_at > now);
    }

    /// Why the address may not show a credential now.
    ///
    /// # Errors
    ///
    /// 429, when it has failed too often.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), Fault> {
        let Some(wait) = self.wait(address, Instant::now()) else { return Ok(()) };
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let message = format!("more than {} wrong credentials per minute from your address", self.per_minute);
        let policy = Policy { name: "credentials", most: self.per_minute, window_secs: WINDOW.as_secs() };
        Err(Fault::rate_limited(policy, seconds, message))
    }

    /// Remembers that the address showed a wrong credential.
    pub(super) fn count(&self, address: IpAddr) {
        self.count_at(address, Instant::now());
    }

    /// Who counts a credential of an address that is yet to be looked up, if it is wrong.
    pub(super) fn observer(failures: &Arc<Self>, address: IpAddr) -> Arc<dyn CredentialObserver> {
        Arc::new(WrongCredentials { failures: Arc::clone(failures), address })
    }

    fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let whole_at = self.addresses().get(&network(address)).copied()?;
        let wait = (whole_at + self.interval()).saturating_duration_since(now).saturating_sub(WINDOW);
        (!wait.is_zero()).then_some(wait)
    }

    fn count_at(&self, address: IpAddr, now: Instant) {
        let address = network(address);
        let mut addresses = self.addresses();
        if addresses.len() >= MAX_ADDRESSES && !addresses.contains_key(&address) {
            addresses.retain(|_, whole_at| *whole_at > now);
            if addresses.len() >= MAX_ADDRESSES
                && let Some(least) = addresses.iter().min_by_key(|(_, whole_at)| **whole_at).map(|(address, _)| *address)
            {
                addresses.remove(&least);
            }
        }
        let whole_at = addresses.entry(address).or_insert(now);
        *whole_at = ((*whole_at).max(now) + self.interval()).min(now + LONGEST);
    }

    /// The time in which one failure is forgiven.
    fn interval(&self) -> Duration {
        WINDOW / self.per_minute.get()
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses credentials of an address that failed too often, and counts those that are refused as wrong.
pub(super) async fn limit(failures: Option<&Failures>, address: IpAddr, request: Request, next: Next) -> Response {
    let Some(failures) = failures else { return next.run(request).await };
    let shown = Shown::by(request.headers());
    if shown == Shown::Ours
        && let Err(refused) = failures.check(address)
    {
        return refused.into_response();
    }
    let response = next.run(request).await;
    if shown == Shown::Nothing {
        return response;
    }
    if code_of(&response) == Some(Code::Unauthorized) {
        failures.count(address);
    }
    response
}

/// What a request shows of who it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// A bearer token that is no credit's: a wrong credential where one is wanted, and nothing elsewhere.
    Foreign,
    Ours,
}

impl Shown {
    fn by(headers: &HeaderMap) -> Self {
        if names::shows_caller(headers) || credit(headers).is_some() {
            Self::Ours
        } else if bearer(headers).is_some() {
            Self::Foreign
        } else {
            Self::Nothing
        }
    }
}

/// Counts a credential that is yet to be looked up against the address that showed it, if it is wrong.
#[derive(Debug)]
struct WrongCredentials {
    failures: Arc<Failures>,
    address: IpAddr,
}

impl CredentialObserver for WrongCredentials {
    fn saw_wrong(&self) {
        self.failures.count(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn failures(per_minute: u32) -> Failures {
        Failures::new(NonZeroU32::new(per_minute).unwrap())
    }

    #[test]
    fn an_address_that_fails_too_often_waits_until_one_failure_is_forgiven() {
        let (failures, begun) = (failures(6), Instant::now());
        for _ in 0..6 {
            assert_eq!(failures.wait(ADDRESS, begun), None);
            failures.count_at(ADDRESS, begun);
        }
        assert_eq!(failures.wait(ADDRESS, begun), Some(Duration::from_secs(10)));
        assert_eq!(failures.wait("192.0.2.2".parse().unwrap(), begun), None, "another address");
        let later = begun + Duration::from_secs(10);
        assert_eq!(failures.wait(ADDRESS, later), None);
        failures.count_at(ADDRESS, later);
        assert_eq!(failures.wait(ADDRESS, later), Some(Duration::from_secs(10)));
        assert_eq!(failures.wait(ADDRESS, later + WINDOW), None);
    }

    #[test]
    fn what_was_sent_at_once_is_waited_for_but_not_for_ever() {
        let (failures, now) = (failures(60), Instant::now());
        (0..120).for_each(|_| failures.count_at(ADDRESS, now));
        assert_eq!(failures.wait(ADDRESS, now), Some(Duration::from_secs(61)));
        (0..100_000).for_each(|_| failures.count_at(ADDRESS, now));
        assert!(failures.wait(ADDRESS, now).unwrap() <= LONGEST);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let (failures, now) = (failures(1), Instant::now());
        failures.count_at("2001:db8:1:2::1".parse().unwrap(), now);
        assert!(failures.wait("2001:db8:1:2:ffff::9".parse().unwrap(), now).is_some());
        assert!(failures.wait("2001:db8:1:3::1".parse().unwrap(), now).is_none());
        failures.count_at("::ffff:192.0.2.1".parse().unwrap(), now);
        assert!(failures.wait(ADDRESS, now).is_some(), "an IPv4 address in IPv6 is itself");
    }

    #[test]
    fn many_addresses_do_not_fill_the_memory_nor_push_out_who_fails_most() {
        let (failures, now) = (failures(2), Instant::now());
        (0..3).for_each(|_| failures.count_at(ADDRESS, now));
        for n in 0..MAX_ADDRESSES as u32 + 100 {
            failures.count_at(IpAddr::V4((0x0a00_0000 + n).into()), now);
        }
        assert_eq!(failures.addresses().len(), MAX_ADDRESSES);
        assert!(failures.wait(ADDRESS, now).is_some());
    }
}
