//! The HTTP client of checks: the [`Guard`], which connects only to public hosts, and a separate guard for this host's
//! own origin.
//!
//! This host may be on loopback or in a private network, where the guard does not connect. The exemption is only for
//! checks, not for handlers. It covers the base URL's scheme, host and port, which the operator chose, and public
//! paths. No redirect leads from another host there, because each request to another host uses the ordinary guard. And
//! no redirect of any host leads to other paths of this host, because a proxy in front of it may open them to the host
//! itself.

use std::net::IpAddr;

use reqwest::header::HeaderValue;
use tollhouse_base::forwarded_for;
use tollhouse_capability::{
    Guard, GuardSettings,
    guard::{Fetch, FetchError, Fetched, GuardError, Hops},
};
use url::Url;

/// The public paths of this host. One that ends in `/` includes everything below it.
const PUBLIC: &[&str] =
    &["/", "/tools/", "/ai/manifest", "/ai/endpoints", "/ai/mcp", "/.well-known/", "/openapi.json", "/llms.txt", "/favicon.ico"];

#[derive(Clone)]
pub struct ReadinessClient {
    guard: Guard,
    own: Option<Own>,
    /// The requester of the check, who is responsible for its requests to this host.
    requester: Option<Requester>,
}

/// A requester at an address, with a separate share of the guard's slots.
#[derive(Debug, Clone)]
struct Requester {
    address: IpAddr,
    share: String,
}

/// This host's public URL, and the guard for it.
#[derive(Clone)]
struct Own {
    base: Url,
    guard: Guard,
}

impl Own {
    /// Returns whether `url` is of this host, with either scheme if both have default ports.
    fn is(&self, url: &Url) -> bool {
        let (own, other) = (&self.base, url);
        own.host() == other.host()
            && (own.port_or_known_default() == other.port_or_known_default() || (own.port().is_none() && other.port().is_none()))
    }

    /// Returns the path of `url` below the base URL's path. `None` if it is not below it.
    fn path<'a>(&self, url: &'a Url) -> Option<&'a str> {
        let path = url.path().strip_prefix(self.base.path().trim_end_matches('/'))?;
        if path.is_empty() { Some("/") } else { Some(path).filter(|path| path.starts_with('/')) }
    }
}

impl Hops for Own {
    fn refusal(&self, url: &Url) -> Option<&'static str> {
        let closed = self.is(url) && self.path(url).is_some_and(|path| !is_public(path));
        closed.then_some("a path of this host that only some callers can read")
    }
}

impl ReadinessClient {
    /// Constructs a client that uses `guard`, and reaches the host at `base_url` even if that is not public.
    pub fn new(guard: Guard, base_url: &str) -> Result<Self, GuardError> {
        let base = Url::parse(base_url).ok().filter(|base| matches!(base.scheme(), "http" | "https"));
        let authority = base.as_ref().and_then(|base| Some(format!("{}:{}", base.host_str()?, base.port_or_known_default()?)));
        let own = match base.zip(authority) {
            Some((base, authority)) => {
                Some(Own { base, guard: Guard::new(GuardSettings { allow: vec![authority], ..GuardSettings::default() })? })
            }
            None => None,
        };
        Ok(Self { guard, own, requester: None })
    }

    /// Returns a client for checks requested from `address`.
    pub(crate) fn requested_by(&self, address: IpAddr) -> Self {
        Self { requester: Some(Requester { address, share: format!("requester:{address}") }), ..self.clone() }
    }

    /// Returns whether `url` is of this host.
    pub(super) fn is_own(&self, url: &Url) -> bool {
        self.own.as_ref().is_some_and(|own| own.base.origin() == url.origin())
    }

    /// Checks a URL like [`Guard::check`], for any host.
    pub(super) fn check(&self, url: &str) -> Result<Url, FetchError> {
        let checked = self.route_to_self(url).unwrap_or(&self.guard).check(url, None)?;
        let refusal = self.own.as_ref().and_then(|own| own.refusal(&checked));
        refusal.map_or(Ok(checked), |reason| Err(FetchError::Forbidden(reason.to_owned())))
    }

    /// Fetches a URL like [`Guard::fetch`].
    pub(super) async fn fetch<'a>(&'a self, mut request: Fetch<'a>) -> Result<Fetched, FetchError> {
        request.hops = self.own.as_ref().map(|own| own as &dyn Hops);
        if let Some(requester) = &self.requester {
            request.owner = &requester.share;
        }
        let Some(own) = self.route_to_self(request.url) else { return self.guard.fetch(request).await };
        if let Some(Requester { address: requester, .. }) = self.requester {
            // The header is not sent along redirects to other hosts.
            let message = HeaderValue::try_from(forwarded_for::forwarded_value(requester)).expect("an address and letters");
            request.headers.insert(forwarded_for::HEADER, message);
        }
        own.fetch(request).await
    }

    /// Returns the guard for this host if `url` is a public path of it.
    fn route_to_self(&self, url: &str) -> Option<&Guard> {
        let leads = |own: &&Own| {
            let url = Url::parse(url).ok().filter(|url| own.base.origin() == url.origin());
            url.is_some_and(|url| own.path(&url).is_some_and(is_public))
        };
        self.own.as_ref().filter(leads).map(|own| &own.guard)
    }
}

/// Returns whether a path is public. URL parsing has removed `.` and `..`, and an encoded one is an ordinary name.
fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|public| if *public != "/" && public.ends_with('/') { path.starts_with(public) } else { path == *public })
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use futures_util::future::BoxFuture;

    use super::*;
    use tollhouse_capability::guard::Lookup;

    /// A name server that records who requests a lookup, and knows no names.
    #[derive(Default)]
    struct Owners(Mutex<Vec<String>>);

    impl Lookup for Owners {
        fn lookup(&self, owner: &str, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            self.0.lock().unwrap().push(owner.to_owned());
            Box::pin(std::future::ready(Ok(vec![])))
        }
    }

    #[tokio::test]
    async fn each_requester_has_a_share_of_the_guard() {
        let owners = Arc::new(Owners::default());
        let lookup = Arc::clone(&owners) as Arc<dyn Lookup>;
        let guard = Guard::new(GuardSettings { lookup: Some(lookup), ..GuardSettings::default() }).unwrap();
        let client = ReadinessClient::new(guard, "http://127.0.0.1:4020").unwrap();
        for address in ["203.0.113.9", "203.0.113.10"] {
            let client = client.requested_by(address.parse().unwrap());
            client.fetch(Fetch::get("https://nobody.dev/", Duration::from_secs(5), 1)).await.unwrap_err();
        }
        assert_eq!(*owners.0.lock().unwrap(), ["requester:203.0.113.9", "requester:203.0.113.10"]);
    }

    #[test]
    fn no_redirect_leads_to_closed_paths_of_the_own_host() {
        let guard = || Guard::new(GuardSettings { allow_http: true, ..GuardSettings::default() }).unwrap();
        for (base, open, closed) in [
            (
                "https://tools.example.com",
                vec!["https://tools.example.com/tools/a", "https://tools.example.com/", "https://other.example.com/metrics"],
                vec![
                    "https://tools.example.com/metrics",
                    "https://tools.example.com./metrics",
                    "https://TOOLS.example.com/ai/admin/policy",
                    "http://tools.example.com/metrics",
                    "https://tools.example.com/tools/../metrics",
                ],
            ),
            (
                "https://example.com/paid/",
                vec!["https://example.com/paid/tools/a", "https://example.com/about", "https://example.com/paid"],
                vec!["https://example.com/paid/metrics", "https://example.com/paid/ai/credits"],
            ),
        ] {
            let client = ReadinessClient::new(guard(), base).unwrap();
            let own = client.own.as_ref().unwrap();
            for (urls, is_open) in [(open, true), (closed, false)] {
                for url in urls {
                    let checked = client.check(url);
                    let reported = matches!(&checked, Err(FetchError::Forbidden(reason)) if reason.contains("only some callers can read"));
                    assert!(checked.is_ok() == is_open && reported != is_open, "{url}: {checked:?}");
                    let hop = Url::parse(&url.replace("com./", "com/")).unwrap();
                    assert_eq!(own.refusal(&hop).is_none(), is_open, "{url}");
                }
            }
        }
    }

    #[test]
    fn a_check_reaches_public_paths_of_its_own_host() {
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
