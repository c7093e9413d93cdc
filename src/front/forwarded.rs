//! The client's address behind a proxy: the one that a trusted proxy names, otherwise the peer address of the
//! connection.

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use axum::http::{HeaderMap, HeaderName, header};
use tollhouse_api::HealthWarning;
use tollhouse_config::{ForwardedHeader, ProxySettings};
use url::{Host, Url};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The setting that makes the host see client addresses behind a proxy.
const REMEDY: &str =
    "set TOLLHOUSE_TRUSTED_PROXIES to the proxy's address (127.0.0.1,::1 on this machine), and send X-Forwarded-For from it";

/// The setting that makes URLs in answers those at which clients reach the host.
const BASE_URL_REMEDY: &str = "set TOLLHOUSE_BASE_URL (--base-url) to the https URL of the proxy";

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
            is_base_url_plain: !base_url.starts_with("https:") || is_local_url(base_url),
            seen_https: AtomicBool::new(false),
        }
    }

    /// Logs the warning that applies before the first request, if any.
    pub fn warn_at_start(&self) {
        if self.expected {
            let HealthWarning { message, .. } = expected_proxy();
            tracing::warn!(remedy = REMEDY, "{message}");
        }
    }

    /// Returns the warnings that apply now.
    #[must_use]
    pub fn warnings(&self) -> Vec<HealthWarning> {
        let proxy = match (self.seen.load(Relaxed), self.expected) {
            (true, _) => Some(untrusted_proxy()),
            (false, true) => Some(expected_proxy()),
            (false, false) => None,
        };
        proxy.into_iter().chain(self.seen_https.load(Relaxed).then(base_url_missing)).collect()
    }

    /// Returns the client's address of a request received from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        let is_trusted = self.trusts(peer);
        if is_trusted || is_near(peer) {
            self.warn_about_https(peer, headers);
        }
        if !is_trusted {
            self.warn_about_proxy(peer, headers);
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
    fn warn_about_proxy(&self, peer: IpAddr, headers: &HeaderMap) {
        let passes_on = || headers.contains_key(&X_FORWARDED_FOR) || headers.contains_key(header::FORWARDED);
        if is_near(peer) && passes_on() && !self.seen.swap(true, Relaxed) {
            let HealthWarning { message, .. } = untrusted_proxy();
            tracing::warn!(proxy = %peer, remedy = REMEDY, "{message}");
        }
    }

    /// Warns once about a proxy that clients reach over https while the base URL is not https.
    fn warn_about_https(&self, peer: IpAddr, headers: &HeaderMap) {
        if self.is_base_url_plain && !self.seen_https.load(Relaxed) && came_by_https(headers) && !self.seen_https.swap(true, Relaxed) {
            let HealthWarning { message, .. } = base_url_missing();
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
pub fn before_a_proxy(settings: &ProxySettings, listen: IpAddr, base_url: Option<&str>) -> Option<HealthWarning> {
    let behind = settings.trusted.is_empty() && listen.is_loopback() && base_url.is_some_and(|url| !is_local_url(url));
    behind.then(expected_proxy)
}

fn expected_proxy() -> HealthWarning {
    let message = "the host listens on loopback and has a public URL, so all clients share the address of its proxy: when one client is \
                   slowed down, for example for wrong credentials, all are";
    HealthWarning { code: "proxy_not_trusted".into(), message: message.to_owned(), remedy: REMEDY.into() }
}

fn untrusted_proxy() -> HealthWarning {
    let message = "a proxy forwards requests but is not trusted to name the client's address: when one of its clients is slowed down, \
                   for example for wrong credentials, all of them are";
    HealthWarning { code: "proxy_not_trusted".into(), message: message.to_owned(), remedy: REMEDY.into() }
}

fn base_url_missing() -> HealthWarning {
    let message = "clients reach a proxy over https, but no https base URL is set: challenges, receipts and links contain an address that \
                   clients cannot reach";
    HealthWarning { code: "base_url_missing".into(), message: message.to_owned(), remedy: BASE_URL_REMEDY.into() }
}

/// Returns whether a URL points to this machine.
fn is_local_url(url: &str) -> bool {
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
mod tests;
