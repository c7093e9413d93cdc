//! How often one address may show a wrong credential.
//!
//! An address that guesses is refused for a while whatever it shows then, so that it cannot learn from the refusal that it
//! has guessed right. Right credentials use nothing up, and requests without one are not looked at.
//!
//! Any web page can have the browser of an operator send credentials that are wrong. Requests of such pages have a limit of their own: what
//! they do is never held against the other requests of the browser's address.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::Request,
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tollhouse_base::{
    penalty::{Penalties, WINDOW},
    uses::Tally,
};
use tollhouse_money::CredentialObserver;
use tollhouse_replica::Tallies;
use url::Url;

use super::{
    address::network,
    fault::{Fault, Policy, code_of, whole_seconds},
    faults::Code,
    names,
    payment::{bearer, credit},
};

/// The longest debt of an address, however much it has failed: with what it may fail in a minute it is refused for half of that.
const LONGEST: Duration = Duration::from_secs(2 * 60);

/// The sender of a request: from where, and whether it is a page of another origin that has a browser there send it.
///
/// It is read from the request and handed on: requests are answered by several tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    network: IpAddr,
    kind: SenderKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderKind {
    /// A program, or a page of this host.
    Client,
    /// A page of another origin, in a browser.
    ForeignPage,
}

/// Wrong credentials of each client address. Of IPv6, a /64 is one address.
#[derive(Debug)]
pub(super) struct Failures {
    of_clients: Arc<Penalties<IpAddr>>,
    of_foreign_pages: Arc<Penalties<IpAddr>>,
    /// The origin of this host's own pages.
    origin: String,
}

impl Failures {
    /// `per_minute` failures of each address, at once or spread, on the host at `base_url`.
    pub(super) fn new(per_minute: NonZeroU32, base_url: &str) -> Self {
        let penalties = || Arc::new(Penalties::new(per_minute, LONGEST));
        let origin = Url::parse(base_url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Self { of_clients: penalties(), of_foreign_pages: penalties(), origin }
    }

    /// The sender of a request with these headers.
    pub(super) fn sender(&self, address: IpAddr, headers: &HeaderMap) -> Sender {
        let kind = match headers.get(header::ORIGIN) {
            Some(origin) if origin.as_bytes() != self.origin.as_bytes() => SenderKind::ForeignPage,
            Some(_) | None => SenderKind::Client,
        };
        Sender { network: network(address), kind }
    }

    /// The counts, by their names.
    pub(super) fn tallies(&self) -> Tallies {
        let tally = |penalties: &Arc<Penalties<IpAddr>>| Arc::clone(penalties) as Arc<dyn Tally>;
        vec![("credentials", tally(&self.of_clients)), ("credentials-of-pages", tally(&self.of_foreign_pages))]
    }

    /// Forgets addresses whose budget is whole, so that memory stays flat.
    pub(super) fn forget_quiet(&self) {
        self.of_clients.forget_quiet();
        self.of_foreign_pages.forget_quiet();
    }

    /// Why the sender may not show a credential now.
    ///
    /// # Errors
    ///
    /// 429, when it has failed too often.
    pub(super) fn check(&self, sender: Sender) -> Result<(), Fault> {
        let Some(wait) = self.of(sender).wait(&sender.network, Instant::now()) else { return Ok(()) };
        let most = self.of_clients.per_minute();
        let message = format!("more than {most} wrong credentials per minute from your address");
        let policy = Policy { name: "credentials", most, window_secs: WINDOW.as_secs() };
        Err(Fault::rate_limited(policy, whole_seconds(wait), message))
    }

    /// Remembers that the sender showed a wrong credential.
    pub(super) fn count(&self, sender: Sender) {
        self.of(sender).count(sender.network, Instant::now());
    }

    /// Counts a credential that is looked up later, if it turns out to be wrong.
    pub(crate) fn observer(failures: &Arc<Self>, sender: Sender) -> Arc<dyn CredentialObserver> {
        Arc::new(WrongCredentials { failures: Arc::clone(failures), sender })
    }

    fn of(&self, sender: Sender) -> &Penalties<IpAddr> {
        match sender.kind {
            SenderKind::Client => &self.of_clients,
            SenderKind::ForeignPage => &self.of_foreign_pages,
        }
    }
}

/// Refuses credentials of an address that failed too often, and counts those that are refused as wrong.
pub(super) async fn limit(failures: Option<&Failures>, address: IpAddr, request: Request, next: Next) -> Response {
    let Some(failures) = failures else { return next.run(request).await };
    let (sender, shown) = (failures.sender(address, request.headers()), Shown::by(request.headers()));
    if shown == Shown::Ours
        && let Err(refused) = failures.check(sender)
    {
        return refused.into_response();
    }
    let response = next.run(request).await;
    if shown == Shown::Nothing || code_of(&response) != Some(Code::Unauthorized) {
        return response;
    }
    // A foreign token is a wrong credential only here, where one of ours was wanted.
    if let Err(refused) = failures.check(sender) {
        return refused.into_response();
    }
    failures.count(sender);
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
    sender: Sender,
}

impl CredentialObserver for WrongCredentials {
    fn saw_wrong(&self) {
        self.failures.count(self.sender);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn failures(per_minute: u32) -> Failures {
        Failures::new(NonZeroU32::new(per_minute).unwrap(), "https://tools.example/below")
    }

    fn client(address: &str) -> Sender {
        Sender { network: network(address.parse().unwrap()), kind: SenderKind::Client }
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let failures = failures(1);
        let waits = |address: &str| failures.check(client(address)).is_err();
        failures.count(client("2001:db8:1:2::1"));
        assert!(waits("2001:db8:1:2:ffff::9") && !waits("2001:db8:1:3::1"));
        failures.count(client("::ffff:192.0.2.1"));
        assert!(waits("192.0.2.1"), "an IPv4 address in IPv6 is itself");
    }

    #[test]
    fn debt_is_two_minutes_at_most() {
        let (failures, client) = (failures(60), client("192.0.2.1"));
        (0..100_000).for_each(|_| failures.count(client));
        let wait = failures.check(client).unwrap_err().retry_after_secs().unwrap();
        assert!((50..=61).contains(&wait), "{wait}");
    }

    #[test]
    fn a_page_is_foreign_unless_it_has_the_hosts_origin() {
        let failures = failures(1);
        let address = [192, 0, 2, 1].into();
        let kind = |origin: &'static str| {
            failures.sender(address, &HeaderMap::from_iter([(header::ORIGIN, HeaderValue::from_static(origin))])).kind
        };
        assert_eq!(failures.sender(address, &HeaderMap::new()), client("192.0.2.1"));
        assert_eq!(kind("https://tools.example"), SenderKind::Client);
        for origin in ["https://evil.example", "null", "http://tools.example", "https://tools.example:8443", ""] {
            assert_eq!(kind(origin), SenderKind::ForeignPage, "{origin}");
        }
    }

    #[test]
    fn what_foreign_pages_show_is_held_against_pages_alone() {
        let (failures, client) = (failures(1), client("192.0.2.1"));
        let page = Sender { kind: SenderKind::ForeignPage, ..client };
        failures.count(page);
        assert!(failures.check(client).is_ok() && failures.check(page).is_err());
    }
}
