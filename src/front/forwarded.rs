//! The client's address where a proxy passes requests on: as a trusted proxy names it, and else the one that the connection is from.

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use axum::http::{HeaderMap, HeaderName, header};
use serde::Serialize;
use tollhouse_config::{ForwardedHeader, ProxySettings};
use url::{Host, Url};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The settings that make clients behind a proxy known by their addresses.
const REMEDY: &str =
    "set TOLLHOUSE_TRUSTED_PROXIES to the proxy's address (127.0.0.1,::1 on this machine) and have it send X-Forwarded-For";

/// The setting that says which URL clients use.
const BASE_URL_REMEDY: &str = "set TOLLHOUSE_BASE_URL to the URL that clients use, which begins with https://";

/// Something about how the host is reached that an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// The settings to change.
    pub remedy: &'static str,
}

/// The proxies that are trusted to name the client's address.
#[derive(Debug)]
pub struct Proxies {
    settings: ProxySettings,
    /// The host is meant to be reached through a proxy on this machine.
    expected: bool,
    /// A proxy that is not trusted has passed on a request.
    seen: AtomicBool,
    /// The host says of itself that it is reached without TLS.
    is_plain: bool,
    /// A proxy has passed on a request that came to it over TLS.
    tls_seen: AtomicBool,
}

impl Proxies {
    /// Of a host that listens at this address and is reached at this URL.
    #[must_use]
    pub fn new(settings: &ProxySettings, listen: IpAddr, base_url: &str) -> Self {
        Self {
            settings: settings.clone(),
            expected: before_a_proxy(settings, listen, Some(base_url)).is_some(),
            seen: AtomicBool::new(false),
            is_plain: !base_url.starts_with("https://"),
            tls_seen: AtomicBool::new(false),
        }
    }

    /// Logs the warning that applies before the first request.
    pub fn warn_at_start(&self) {
        if self.expected {
            let Warning { message, .. } = expected();
            tracing::warn!(remedy = REMEDY, "{message}");
        }
    }

    /// The warnings that apply now.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let proxy = match (self.seen.load(Relaxed), self.expected) {
            (true, _) => Some(seen()),
            (false, true) => Some(expected()),
            (false, false) => None,
        };
        proxy.into_iter().chain(self.tls_seen.load(Relaxed).then(base_url_missing)).collect()
    }

    /// The client's address of a request that came from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        self.look_for_tls(peer, headers);
        if !self.trusts(peer) {
            self.look(peer, headers);
            return peer;
        }
        let mut client = peer;
        for named in self.named(headers) {
            let Some(named) = named else { break };
            client = named;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    /// Whether requests of this address are passed on for others.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.settings.trusted.iter().any(|network| network.contains(&address))
    }

    /// The addresses that proxies have named, the last one first; `None` for what is not an address.
    fn named<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = Option<IpAddr>> + 'a {
        let read: fn(&str) -> Option<IpAddr> = match self.settings.header {
            ForwardedHeader::XForwardedFor => address,
            ForwardedHeader::Forwarded => forwarded_for,
        };
        let name = match self.settings.header {
            ForwardedHeader::XForwardedFor => &X_FORWARDED_FOR,
            ForwardedHeader::Forwarded => &header::FORWARDED,
        };
        let values = headers.get_all(name).into_iter().rev();
        values.flat_map(move |value| value.to_str().unwrap_or("unknown").rsplit(',').map(read))
    }

    /// Notices a proxy that ends TLS for a host that calls itself by another URL: clients would be told that one, and pay for it.
    fn look_for_tls(&self, peer: IpAddr, headers: &HeaderMap) {
        if !self.is_plain || self.tls_seen.load(Relaxed) || !(is_near(peer) || self.trusts(peer)) {
            return;
        }
        if is_over_tls(headers) && !self.tls_seen.swap(true, Relaxed) {
            let Warning { message, .. } = base_url_missing();
            tracing::warn!(proxy = %peer, remedy = BASE_URL_REMEDY, "{message}");
        }
    }

    /// Notices a proxy on this machine or in its network that should be trusted.
    fn look(&self, peer: IpAddr, headers: &HeaderMap) {
        let passes_on = || headers.contains_key(&X_FORWARDED_FOR) || headers.contains_key(header::FORWARDED);
        if is_near(peer) && passes_on() && !self.seen.swap(true, Relaxed) {
            let Warning { message, .. } = seen();
            tracing::warn!(proxy = %peer, remedy = REMEDY, "{message}");
        }
    }
}

/// The warning for a host that only a proxy on its machine can make public, and that does not trust the proxy.
#[must_use]
pub fn before_a_proxy(settings: &ProxySettings, listen: IpAddr, base_url: Option<&str>) -> Option<Warning> {
    let behind = settings.trusted.is_empty() && listen.is_loopback() && base_url.is_some_and(|url| !is_here(url));
    behind.then(expected)
}

fn expected() -> Warning {
    let message = "the host listens on loopback and has a public URL, so its proxy is the only client that it sees: what one client does \
                   wrong, such as showing wrong credentials, is held against all";
    Warning { code: "proxy_not_trusted", message: message.to_owned(), remedy: REMEDY }
}

fn seen() -> Warning {
    let message = "a proxy passes requests on and is not trusted to name the client's address: what one of its clients does wrong, such \
                   as showing wrong credentials, is held against all of them";
    Warning { code: "proxy_not_trusted", message: message.to_owned(), remedy: REMEDY }
}

fn base_url_missing() -> Warning {
    let message = "a proxy passes requests on that came to it over https, and the host's own URL is another one: challenges and documents \
                   tell clients that URL";
    Warning { code: "base_url_missing", message: message.to_owned(), remedy: BASE_URL_REMEDY }
}

/// Whether an address is on this machine or in its network.
fn is_near(peer: IpAddr) -> bool {
    match peer {
        IpAddr::V4(peer) => peer.is_loopback() || peer.is_private(),
        IpAddr::V6(peer) => peer.is_loopback() || peer.is_unique_local(),
    }
}

/// Whether a proxy says that the client's request came over TLS (RFC 7239, section 5.4).
fn is_over_tls(headers: &HeaderMap) -> bool {
    let texts = |name: &HeaderName| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>();
    let is_https = |text: &str| text.trim().trim_matches('"').eq_ignore_ascii_case("https");
    let elements = texts(&header::FORWARDED);
    let mut pairs = elements.iter().flat_map(|value| value.split([',', ';'])).filter_map(|pair| pair.trim().split_once('='));
    pairs.any(|(name, value)| name.trim().eq_ignore_ascii_case("proto") && is_https(value))
        || texts(&X_FORWARDED_PROTO).iter().any(|value| value.split(',').any(is_https))
}

/// Whether a URL leads to this machine alone.
fn is_here(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => true,
    }
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// The address in `for=` of an element of `Forwarded` (RFC 7239, section 4).
fn forwarded_for(element: &str) -> Option<IpAddr> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| address(value.trim().trim_matches('"')))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(header: ForwardedHeader) -> Proxies {
        let trusted = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).to_vec();
        Proxies::new(&ProxySettings { trusted, header }, [127, 0, 0, 1].into(), "https://tools.example")
    }

    fn client(proxies: &Proxies, peer: &str, values: &[(&'static str, &str)]) -> String {
        let headers = values.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let mut all = HeaderMap::new();
        headers.for_each(|(name, value)| _ = all.append(name, value));
        proxies.client(peer.parse().unwrap(), &all).to_string()
    }

    #[test]
    fn a_client_is_the_last_address_that_no_trusted_proxy_has() {
        let proxies = proxies(ForwardedHeader::XForwardedFor);
        for (peer, values, wanted) in [
            ("127.0.0.1", &["192.0.2.1"][..], "192.0.2.1"),
            ("127.0.0.1", &["198.51.100.7, 192.0.2.1"], "192.0.2.1"),
            ("127.0.0.1", &["198.51.100.7, 192.0.2.1, 10.1.2.3"], "192.0.2.1"),
            ("127.0.0.1", &["198.51.100.7", "192.0.2.1", "10.1.2.3"], "192.0.2.1"),
            ("::ffff:127.0.0.1", &["192.0.2.1:4711"], "192.0.2.1"),
            ("127.0.0.1", &["[2001:db8::1]:4711, fd00::1"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
            // What does not read hides what stands before it.
            ("127.0.0.1", &["192.0.2.1, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["192.0.2.1, , 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", &[], "127.0.0.1"),
            // A client that is no proxy of ours says what it likes.
            ("192.0.2.9", &["198.51.100.7"], "192.0.2.9"),
        ] {
            let values: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            assert_eq!(client(&proxies, peer, &values), wanted, "{peer} {values:?}");
        }
        assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", "for=192.0.2.1")]), "127.0.0.1", "the other header is not believed");
    }

    #[test]
    fn the_standard_header_is_read_where_it_is_chosen() {
        let proxies = proxies(ForwardedHeader::Forwarded);
        for (value, wanted) in [
            ("for=192.0.2.1", "192.0.2.1"),
            ("for=198.51.100.7, For=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
            ("for=198.51.100.7;by=10.0.0.1, proto=http;for=10.1.2.3", "198.51.100.7"),
            ("for=198.51.100.7, for=_hidden", "127.0.0.1"),
            ("proto=https", "127.0.0.1"),
        ] {
            assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", value), ("x-forwarded-for", "203.0.113.1")]), wanted, "{value}");
        }
    }

    #[test]
    fn a_proxy_that_ends_tls_before_a_host_without_a_public_url_is_noticed() {
        let codes = |proxies: &Proxies| proxies.warnings().iter().map(|warning| warning.code).collect::<Vec<_>>();
        let trusted = vec!["127.0.0.0/8".parse().unwrap()];
        let new =
            |url: &str| Proxies::new(&ProxySettings { trusted: trusted.clone(), ..ProxySettings::default() }, [127, 0, 0, 1].into(), url);
        for (name, value, is_noticed) in [
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "http, HTTPS", true),
            ("x-forwarded-proto", "http", false),
            ("forwarded", "for=192.0.2.1;Proto=\"https\"", true),
            ("forwarded", "for=192.0.2.1;proto=http", false),
            ("x-forwarded-for", "192.0.2.1", false),
        ] {
            for (url, peer, counts) in [
                ("http://127.0.0.1:4020", "127.0.0.1", true),
                ("http://tools.example", "10.0.0.1", true),
                ("https://tools.example", "127.0.0.1", false),
                ("http://127.0.0.1:4020", "192.0.2.9", false),
            ] {
                let proxies = new(url);
                client(&proxies, peer, &[(name, value)]);
                assert_eq!(codes(&proxies).contains(&"base_url_missing"), is_noticed && counts, "{name}: {value}, {url} {peer}");
            }
        }
    }

    #[test]
    fn a_proxy_that_is_not_trusted_is_noticed() {
        let codes = |proxies: &Proxies| proxies.warnings().iter().map(|warning| warning.message.clone()).collect::<Vec<_>>();
        let none = ProxySettings::default();
        let new = |listen: &str, url: &str| Proxies::new(&none, listen.parse().unwrap(), url);
        assert_eq!(codes(&new("127.0.0.1", "https://tools.example")), [expected().message]);
        for (listen, url) in [("127.0.0.1", "http://127.0.0.1:4020"), ("0.0.0.0", "https://tools.example"), ("::1", "http://[::1]:1")] {
            let proxies = new(listen, url);
            assert_eq!(codes(&proxies), [""; 0], "{listen} {url}");
            client(&proxies, "192.0.2.1", &[("x-forwarded-for", "192.0.2.2")]);
            client(&proxies, "127.0.0.1", &[]);
            assert_eq!(codes(&proxies), [""; 0], "{listen} {url}");
            assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", "for=192.0.2.2")]), "127.0.0.1");
            assert_eq!(codes(&proxies), [seen().message], "{listen} {url}");
        }
        let trusting = proxies(ForwardedHeader::XForwardedFor);
        client(&trusting, "127.0.0.1", &[("x-forwarded-for", "192.0.2.2")]);
        assert_eq!(codes(&trusting), [""; 0]);
    }
}
