//! Limits wrong credentials per client address.
//!
//! An address that guesses is rejected for a while even with a right credential, so that the error does not reveal a
//! right guess. Right credentials do not count toward the limit. Requests without a credential are not checked.
//!
//! Any web page can make an operator's browser send wrong credentials. Requests of pages of other origins therefore
//! have a separate limit, and do not count against other requests from the browser's address.

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

/// All failures of an address are forgiven after this time, however many there were. Such an address is blocked for
/// about half of it.
const LONGEST: Duration = Duration::from_secs(2 * 60);

/// The sender of a request: its network, and whether a page of another origin made the browser send it.
///
/// It is read once and passed on, because several tasks answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    network: IpAddr,
    kind: SenderKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderKind {
    /// A program, or one of this host's pages.
    Client,
    /// A page of another origin, in a browser.
    ForeignPage,
}

/// Counts wrong credentials per client network. An IPv6 /64 is one network.
#[derive(Debug)]
pub(super) struct Failures {
    of_clients: Arc<Penalties<IpAddr>>,
    of_foreign_pages: Arc<Penalties<IpAddr>>,
    /// The origin of this host's own pages.
    origin: String,
}

impl Failures {
    /// Returns counters for a host at `base_url` that allow `per_minute` failures per network, in a burst or spread
    /// out.
    pub(super) fn new(per_minute: NonZeroU32, base_url: &str) -> Self {
        let penalties = || Arc::new(Penalties::new(per_minute, LONGEST));
        let origin = Url::parse(base_url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Self { of_clients: penalties(), of_foreign_pages: penalties(), origin }
    }

    /// Returns the sender of a request.
    pub(super) fn sender(&self, address: IpAddr, headers: &HeaderMap) -> Sender {
        let kind = match headers.get(header::ORIGIN) {
            Some(origin) if origin.as_bytes() != self.origin.as_bytes() => SenderKind::ForeignPage,
            Some(_) | None => SenderKind::Client,
        };
        Sender { network: network(address), kind }
    }

    /// Returns the counters by name, for sharing between replicas.
    pub(super) fn tallies(&self) -> Tallies {
        let tally = |penalties: &Arc<Penalties<IpAddr>>| Arc::clone(penalties) as Arc<dyn Tally>;
        vec![("credentials", tally(&self.of_clients)), ("credentials-of-pages", tally(&self.of_foreign_pages))]
    }

    /// Forgets networks with a full budget, so that memory stays bounded.
    pub(super) fn forget_quiet(&self) {
        self.of_clients.forget_quiet();
        self.of_foreign_pages.forget_quiet();
    }

    /// Checks whether the sender can show a credential now.
    ///
    /// # Errors
    ///
    /// 429 if it has failed too often.
    pub(super) fn check(&self, sender: Sender) -> Result<(), Fault> {
        let Some(wait) = self.of(sender).wait(&sender.network, Instant::now()) else { return Ok(()) };
        let most = self.of_clients.per_minute();
        let message = format!("more than {most} wrong credentials per minute from your address");
        let policy = Policy { name: "credentials", most, window_secs: WINDOW.as_secs() };
        Err(Fault::rate_limited(policy, whole_seconds(wait), message))
    }

    /// Counts a wrong credential of the sender.
    pub(super) fn count(&self, sender: Sender) {
        self.of(sender).count(sender.network, Instant::now());
    }

    /// Returns an observer that counts a credential that turns out to be wrong when it is looked up later.
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

/// Middleware that blocks credentials of a network that failed too often, and counts credentials that are rejected as
/// wrong.
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
    // A foreign token counts as a wrong credential only here, where one of the host's own was required.
    if let Err(refused) = failures.check(sender) {
        return refused.into_response();
    }
    failures.count(sender);
    response
}

/// The kind of credential that a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// A bearer token that is not a developer credit. It is a wrong credential where one is required, and ignored
    /// elsewhere.
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

/// Counts a wrong credential that is looked up later, against the sender.
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
