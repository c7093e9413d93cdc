//! The client's address behind a proxy: the one that a trusted proxy names, otherwise the peer address of the
//! connection.

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

/// The setting that makes the host see client addresses behind a proxy.
const REMEDY: &str =
    "set TOLLHOUSE_TRUSTED_PROXIES to the proxy's address (127.0.0.1,::1 on this machine) and have it send X-Forwarded-For";

/// The setting that makes URLs in answers those at which clients reach the host.
const BASE_URL_REMEDY: &str = "set TOLLHOUSE_BASE_URL (--base-url) to the https URL that the proxy is reached at";

/// A warning for the operator about how the host is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The code, for programs.
    pub code: &'static str,
    /// The message, for people.
    pub message: String,
    /// The setting to change.
    pub remedy: &'static str,
}

/// The proxies trusted to name the client's address.
#[derive(Debug)]
pub struct Proxies {
    settings: ProxySettings,
    /// The host is meant to be reached through a proxy on this machine.
    expected: bool,
    /// An untrusted proxy has forwarded a request.
    seen: AtomicBool,
    /// The base URL is not a public https URL, so answers would contain the wrong URL for clients that use https.
    is_base_url_plain: bool,
    /// A proxy has forwarded a request that it received over https.
    seen_https: AtomicBool,
}

impl Proxies {
    /// Returns the proxies of a host that listens at `listen` and is reached at `base_url`.
    #[must_use]
    pub fn new(settings: &ProxySettings, listen: IpAddr, base_url: &str) -> Self {
        Self {
            settings: settings.clone(),
            expected: before_a_proxy(settings, listen, Some(base_url)).is_some(),
            seen: AtomicBool::new(false),
            is_base_url_plain: !base_url.starts_with("https:") || is_here(base_url),
            seen_https: AtomicBool::new(false),
        }
    }

    /// Logs the warning that applies before the first request, if any.
    pub fn warn_at_start(&self) {
        if self.expected {
            let Warning { message, .. } = expected();
            tracing::warn!(remedy = REMEDY, "{message}");
        }
    }

    /// Returns the warnings that apply now.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let of_trust = match (self.seen.load(Relaxed), self.expected) {
            (true, _) => Some(seen()),
            (false, true) => Some(expected()),
            (false, false) => None,
        };
        of_trust.into_iter().chain(self.seen_https.load(Relaxed).then(base_url_missing)).collect()
    }

    /// Returns the client's address of a request received from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        let is_trusted = self.trusts(peer);
        if is_trusted || is_near(peer) {
            self.look_for_https(peer, headers);
        }
        if !is_trusted {
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

    /// Returns whether an address is a trusted proxy.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        // An IPv6 network that covers all of IPv4, such as `::/0`, contains IPv4 addresses in their mapped form (RFC
        // 4291, section 2.5.5.2).
        let mapped = match address {
            IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
            IpAddr::V6(_) => address,
        };
        self.settings.trusted.iter().any(|network| network.contains(&address) || network.contains(&mapped))
    }

    /// Iterates over the addresses in the proxy header, last one first. `None` stands for an entry that is not an
    /// address.
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

    /// Warns once about a nearby proxy that forwards requests but is not trusted.
    fn look(&self, peer: IpAddr, headers: &HeaderMap) {
        let passes_on = || headers.contains_key(&X_FORWARDED_FOR) || headers.contains_key(header::FORWARDED);
        if is_near(peer) && passes_on() && !self.seen.swap(true, Relaxed) {
            let Warning { message, .. } = seen();
            tracing::warn!(proxy = %peer, remedy = REMEDY, "{message}");
        }
    }

    /// Warns once about a proxy that clients reach over https while the base URL is not https.
    fn look_for_https(&self, peer: IpAddr, headers: &HeaderMap) {
        if self.is_base_url_plain && !self.seen_https.load(Relaxed) && came_by_https(headers) && !self.seen_https.swap(true, Relaxed) {
            let Warning { message, .. } = base_url_missing();
            tracing::warn!(proxy = %peer, remedy = BASE_URL_REMEDY, "{message}");
        }
    }
}

/// Returns whether an address belongs to this machine or to a private network.
fn is_near(peer: IpAddr) -> bool {
    match peer {
        IpAddr::V4(peer) => peer.is_loopback() || peer.is_private(),
        IpAddr::V6(peer) => peer.is_loopback() || peer.is_unique_local(),
    }
}

/// Returns whether a proxy reports that its client used https: in `X-Forwarded-Proto`, or in `proto=` of `Forwarded`
/// (RFC 7239, section 5.4).
fn came_by_https(headers: &HeaderMap) -> bool {
    let values = |name: &HeaderName| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let is_https = |text: &str| text.trim().trim_matches('"').eq_ignore_ascii_case("https");
    let by_element = |element: &str| {
        let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name.trim().eq_ignore_ascii_case("proto") && is_https(value))
    };
    values(&X_FORWARDED_PROTO).flat_map(|value| value.split(',')).any(is_https)
        || values(&header::FORWARDED).flat_map(|value| value.split(',')).any(by_element)
}

/// Returns the warning for a host that is public only through a proxy on its machine and does not trust the proxy.
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
    let message = "a proxy is reached over https, and no base URL is set that says so: challenges, receipts and links name an address that \
                   clients cannot reach";
    Warning { code: "base_url_missing", message: message.to_owned(), remedy: BASE_URL_REMEDY }
}

/// Returns whether a URL points to this machine.
fn is_here(url: &str) -> bool {
    match Url::parse(url).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => true,
    }
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// Parses the address in `for=` of a `Forwarded` element (RFC 7239, section 4).
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
        for (peer, values, requested) in [
            ("127.0.0.1", &["192.0.2.1"][..], "192.0.2.1"),
            ("127.0.0.1", &["198.51.100.7, 192.0.2.1"], "192.0.2.1"),
            ("127.0.0.1", &["198.51.100.7, 192.0.2.1, 10.1.2.3"], "192.0.2.1"),
            ("127.0.0.1", &["198.51.100.7", "192.0.2.1", "10.1.2.3"], "192.0.2.1"),
            ("::ffff:127.0.0.1", &["192.0.2.1:4711"], "192.0.2.1"),
            ("127.0.0.1", &["[2001:db8::1]:4711, fd00::1"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
            // An invalid entry hides the entries before it.
            ("127.0.0.1", &["192.0.2.1, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["192.0.2.1, , 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", &[], "127.0.0.1"),
            // A client that is not a trusted proxy can claim any address.
            ("192.0.2.9", &["198.51.100.7"], "192.0.2.9"),
        ] {
            let values: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            assert_eq!(client(&proxies, peer, &values), requested, "{peer} {values:?}");
        }
        assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", "for=192.0.2.1")]), "127.0.0.1", "the other header is not believed");
    }

    #[test]
    fn networks_of_ipv6_that_have_ipv4_in_them_are_those_of_ipv4_as_well() {
        let trusts = |network: &str, address: &str| {
            let settings = ProxySettings { trusted: vec![network.parse().unwrap()], header: ForwardedHeader::XForwardedFor };
            Proxies::new(&settings, [127, 0, 0, 1].into(), "https://tools.example").trusts(address.parse().unwrap())
        };
        for network in ["::/0", "::ffff:0:0/95", "::ffff:0:0/80", "::/64", "::ffff:0:0/96"] {
            for address in ["192.0.2.1", "127.0.0.1", "::ffff:192.0.2.1"] {
                assert!(trusts(network, address), "{network} {address}");
            }
        }
        assert!(trusts("::/0", "2001:db8::1") && !trusts("::ffff:0:0/95", "2001:db8::1"));
        for network in ["2001:db8::/32", "::/96", "0.0.0.0/0"] {
            assert_eq!(trusts(network, "192.0.2.1"), network == "0.0.0.0/0", "{network}");
        }
        assert!(!trusts("0.0.0.0/0", "2001:db8::1"));
    }

    #[test]
    fn the_standard_header_is_read_where_it_is_chosen() {
        let proxies = proxies(ForwardedHeader::Forwarded);
        for (value, requested) in [
            ("for=192.0.2.1", "192.0.2.1"),
            ("for=198.51.100.7, For=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
            ("for=198.51.100.7;by=10.0.0.1, proto=http;for=10.1.2.3", "198.51.100.7"),
            ("for=198.51.100.7, for=_hidden", "127.0.0.1"),
            ("proto=https", "127.0.0.1"),
        ] {
            assert_eq!(client(&proxies, "127.0.0.1", &[("forwarded", value), ("x-forwarded-for", "203.0.113.1")]), requested, "{value}");
        }
    }

    #[test]
    fn a_proxy_that_is_reached_over_https_is_noticed_where_no_base_url_is_set() {
        let trusted = ProxySettings { trusted: vec!["127.0.0.1/32".parse().unwrap()], header: ForwardedHeader::XForwardedFor };
        let warned = |settings: &ProxySettings, url: &str, peer: &str, values: &[(&'static str, &str)]| {
            let proxies = Proxies::new(settings, [127, 0, 0, 1].into(), url);
            client(&proxies, peer, values);
            let warnings = proxies.warnings();
            warnings.iter().filter(|warning| warning.code == "base_url_missing").count()
        };
        let (local, public) = ("http://127.0.0.1:4020", "https://tools.example");
        let by_https = [("x-forwarded-proto", "https")];
        for settings in [&trusted, &ProxySettings::default()] {
            assert_eq!(warned(settings, local, "127.0.0.1", &by_https), 1);
            assert_eq!(warned(settings, local, "127.0.0.1", &[("x-forwarded-proto", "HTTPS, http")]), 1);
            assert_eq!(warned(settings, local, "127.0.0.1", &[("forwarded", "for=192.0.2.1; Proto=\"https\"")]), 1);
            assert_eq!(warned(settings, "http://tools.example", "127.0.0.1", &by_https), 1, "a base URL without TLS");
            assert_eq!(warned(settings, public, "127.0.0.1", &by_https), 0);
            assert_eq!(warned(settings, local, "127.0.0.1", &[("x-forwarded-proto", "http"), ("forwarded", "for=https")]), 0);
            assert_eq!(warned(settings, local, "192.0.2.1", &by_https), 0, "anybody on the internet can send the header");
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
