//! How often one address may show a wrong credential.
//!
//! An address that guesses is refused for a while whatever it shows then, so that it cannot learn from the refusal that it
//! has guessed right. Right credentials use nothing up, and requests without one are not looked at.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::Arc,
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
    fault::{Fault, Policy, code_of, whole_seconds},
    faults::Code,
    names,
    payment::{bearer, credit},
};
use crate::{
    base::{
        penalty::{Penalties, WINDOW},
        uses::Tally,
    },
    money::CredentialObserver,
};

/// Longest time that an address is refused for what it has sent at once.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Wrong credentials of each client address. Of IPv6, a /64 is one address.
#[derive(Debug)]
pub(super) struct Failures(Arc<Penalties<IpAddr>>);

impl Failures {
    /// `per_minute` failures of each address, at once or spread.
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        Self(Arc::new(Penalties::new(per_minute, LONGEST)))
    }

    /// What is counted.
    pub(super) fn tally(&self) -> Arc<dyn Tally> {
        Arc::clone(&self.0) as _
    }

    /// Forgets addresses whose budget is whole, so that memory stays flat.
    pub(super) fn forget_quiet(&self) {
        self.0.forget_quiet();
    }

    /// Why the address may not show a credential now.
    ///
    /// # Errors
    ///
    /// 429, when it has failed too often.
    pub(super) fn check(&self, address: IpAddr) -> Result<(), Fault> {
        let Some(wait) = self.wait(address) else { return Ok(()) };
        let most = self.0.per_minute();
        let message = format!("more than {most} wrong credentials per minute from your address");
        let policy = Policy { name: "credentials", most, window_secs: WINDOW.as_secs() };
        Err(Fault::rate_limited(policy, whole_seconds(wait), message))
    }

    /// Remembers that the address showed a wrong credential.
    pub(super) fn count(&self, address: IpAddr) {
        self.0.count(network(address), Instant::now());
    }

    /// Who counts a credential of an address that is yet to be looked up, if it is wrong.
    pub(super) fn observer(failures: &Arc<Self>, address: IpAddr) -> Arc<dyn CredentialObserver> {
        Arc::new(WrongCredentials { failures: Arc::clone(failures), address })
    }

    fn wait(&self, address: IpAddr) -> Option<Duration> {
        self.0.wait(&network(address), Instant::now())
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

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let failures = Failures::new(NonZeroU32::MIN);
        let waits = |address: &str| failures.wait(address.parse().unwrap()).is_some();
        failures.count("2001:db8:1:2::1".parse().unwrap());
        assert!(waits("2001:db8:1:2:ffff::9") && !waits("2001:db8:1:3::1"));
        failures.count("::ffff:192.0.2.1".parse().unwrap());
        assert!(waits("192.0.2.1"), "an IPv4 address in IPv6 is itself");
    }
}
