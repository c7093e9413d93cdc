//! The way out of a check: the [`Guard`], which dials public hosts only, and for this host's own origin a guard of its own.
//!
//! The host may stand on loopback or behind a name that resolves inside a network, where the guard sends nobody. The exemption
//! is this check's alone (handlers never have it), holds for the base URL's scheme, host and port, which the operator chose,
//! and for the paths that everyone may read. No redirect leads there: each hop of another host is the ordinary guard's.

use std::{fmt, net::IpAddr};

use reqwest::header::HeaderValue;
use url::{Origin, Url};

use crate::{
    base::behalf,
    capability::{
        Guard, GuardSettings,
        guard::{Fetch, FetchError, Fetched, GuardError},
    },
};

/// What everyone may ask of this host: a path, or all below it where it ends in `/`.
const PUBLIC: &[&str] =
    &["/", "/tools/", "/ai/manifest", "/ai/endpoints", "/ai/mcp", "/.well-known/", "/openapi.json", "/llms.txt", "/favicon.ico"];

/// The client of checks.
#[derive(Clone)]
pub struct ReadinessClient {
    guard: Guard,
    own: Option<Own>,
    /// Who asked for the check, and whose requests to this host those of the check are.
    asker: Option<IpAddr>,
}

#[derive(Clone)]
struct Own {
    origin: Origin,
    guard: Guard,
}

impl fmt::Debug for ReadinessClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadinessClient")
            .field("own", &self.own.as_ref().map(|own| own.origin.ascii_serialization()))
            .finish_non_exhaustive()
    }
}

impl ReadinessClient {
    /// Looks through `guard`, and at the host at `base_url` also where that is not public.
    ///
    /// # Errors
    ///
    /// A client that cannot be set up.
    pub fn new(guard: Guard, base_url: &str) -> Result<Self, GuardError> {
        let base = Url::parse(base_url).ok().filter(|base| matches!(base.scheme(), "http" | "https"));
        let own = match base.as_ref().and_then(|base| Some((base, base.host_str()?, base.port_or_known_default()?))) {
            Some((base, host, port)) => {
                let settings = GuardSettings { allow: vec![format!("{host}:{port}")], ..GuardSettings::default() };
                Some(Own { origin: base.origin(), guard: Guard::new(settings)? })
            }
            None => None,
        };
        Ok(Self { guard, own, asker: None })
    }

    /// The same, for checks that somebody at `address` asked for.
    pub(in crate::call) fn asked_by(&self, address: IpAddr) -> Self {
        Self { asker: Some(address), ..self.clone() }
    }

    /// Whether `url` is of this host.
    pub(super) fn is_own(&self, url: &Url) -> bool {
        self.own.as_ref().is_some_and(|own| own.origin == url.origin())
    }

    /// As [`Guard::check`], for any host.
    pub(super) fn check(&self, url: &str) -> Result<Url, FetchError> {
        self.own_way(url).unwrap_or(&self.guard).check(url, None)
    }

    /// As [`Guard::fetch`].
    pub(super) async fn fetch(&self, mut request: Fetch<'_>) -> Result<Fetched, FetchError> {
        let Some(own) = self.own_way(request.url) else { return self.guard.fetch(request).await };
        if let Some(asker) = self.asker {
            // No redirect to another host takes it along.
            let said = HeaderValue::try_from(behalf::said_for(asker)).expect("an address and letters");
            request.headers.insert(behalf::HEADER, said);
        }
        own.fetch(request).await
    }

    /// To this host, where that is where `url` leads, and everyone may go there.
    fn own_way(&self, url: &str) -> Option<&Guard> {
        let own = self.own.as_ref().filter(|own| Url::parse(url).is_ok_and(|url| own.origin == url.origin() && is_public(url.path())));
        own.map(|own| &own.guard)
    }
}

/// As a URL's path is parsed, without `.` and `..`; an encoded one is another name.
fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|public| if *public != "/" && public.ends_with('/') { path.starts_with(public) } else { path == *public })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_its_own_host_a_check_sees_what_everyone_may_read() {
        let client = ReadinessClient::new(Guard::new(GuardSettings::default()).unwrap(), "http://127.0.0.1:4020").unwrap();
        let passes = |url: &str| client.check(url).is_ok();
        for url in ["/", "/tools/echo", "/tools/echo?inspect", "/ai/mcp", "/ai/endpoints?limit=1", "/.well-known/x402", "/openapi.json"] {
            assert!(passes(&format!("http://127.0.0.1:4020{url}")), "{url}");
        }
        for url in [
            "http://127.0.0.1:4020/health",
            "http://127.0.0.1:4020/metrics",
            "http://127.0.0.1:4020/dev/faucet",
            "http://127.0.0.1:4020/ai/admin/policy",
            "http://127.0.0.1:4020/ai/credits",
            "http://127.0.0.1:4020/tools/../metrics",
            "http://127.0.0.1:4020/tools/%2e%2e/metrics",
            "http://user:pw@127.0.0.1:4020/tools/echo",
            "https://127.0.0.1:4020/tools/echo",
            "http://127.0.0.1:4021/tools/echo",
            "http://127.0.0.1/tools/echo",
            "http://localhost:4020/tools/echo",
            "http://[::1]:4020/tools/echo",
        ] {
            assert!(!passes(url), "{url}");
        }
    }
}
