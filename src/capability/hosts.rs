//! `allowedHosts` of a manifest: the hosts that `fetch` and `ctx.httpGetJson` may reach.

use std::sync::Arc;

use tollhouse_tool::ANY_PUBLIC_HOST;

/// A list of allowed hosts, by exact name (`api.example.com`) or with a wildcard for one label (`*.example.com`, which
/// includes neither `example.com` nor `a.b.example.com`). An entry is for the scheme's default port, or for the one
/// that it ends with (`api.example.com:8443`). Names are kept in lower-case ASCII. An empty list allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Arc<[String]>);

/// An invalid entry of `allowedHosts`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` in `allowedHosts` is not a host that requests can reach; write `api.example.com`, `*.example.com` or \
     `api.example.com:8443`, without scheme or path"
)]
pub struct HostPatternError(pub String);

impl AllowedHosts {
    /// Parses the entries of a manifest.
    ///
    /// # Errors
    ///
    /// [`HostPatternError`] names the first invalid entry. `*.com` is refused because it would allow nearly everybody,
    /// and ports of other protocols are refused too.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, HostPatternError> {
        entries.iter().map(|entry| parse_entry(entry.as_ref())).collect::<Result<Vec<_>, _>>().map(|entries| Self(entries.into()))
    }

    /// Returns whether the list allows `host`, in the form of a parsed URL, at another port than the scheme's default.
    pub fn allows_port(&self, host: &str, port: u16) -> bool {
        let host = format!("{host}:{port}");
        self.named().any(|entry| matches(entry, &host))
    }

    /// Returns whether the list allows `host`, in the form of a parsed URL, at the scheme's default port.
    pub fn allows(&self, host: &str) -> bool {
        self.includes_any_public() || self.named().any(|entry| matches(entry, host))
    }

    /// Returns whether the list allows `host`, in the form of a parsed URL, at one port or another.
    pub fn allows_at_any_port(&self, host: &str) -> bool {
        self.includes_any_public() || self.named().any(|entry| matches(split_port(entry).0, host))
    }

    /// Returns whether an entry other than [`ANY_PUBLIC_HOST`] allows the host and port of a URL.
    pub(crate) fn names(&self, url: &url::Url) -> bool {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        url.host_str().is_some_and(|host| self.named().any(|entry| matches(entry, &format!("{host}{port}"))))
    }

    /// Like [`Self::names`], but an entry without a port allows every port.
    pub(crate) fn names_host(&self, url: &url::Url) -> bool {
        self.names(url) || url.host_str().is_some_and(|host| self.named().any(|entry| matches(entry, host)))
    }

    /// Returns whether the list contains [`ANY_PUBLIC_HOST`].
    pub fn includes_any_public(&self) -> bool {
        self.0.iter().any(|entry| entry == ANY_PUBLIC_HOST)
    }

    fn named(&self) -> impl Iterator<Item = &str> {
        self.iter().filter(|entry| *entry != ANY_PUBLIC_HOST)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn matches(entry: &str, host: &str) -> bool {
    match entry.strip_prefix('*') {
        Some(suffix) => host.strip_suffix(suffix).is_some_and(|label| !label.is_empty() && !label.contains('.')),
        None => entry == host,
    }
}

/// The default port of https.
const HTTPS_PORT: u16 = 443;

/// Ports of other protocols, whose servers could take a request for something else (Fetch standard, bad port).
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115,
    117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601,
    636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
    10080,
];

/// Splits an entry into host and port. Colons in the brackets of an IPv6 address begin no port.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (entry, None),
    }
}

/// Returns the host of an entry, without wildcard and port.
pub fn host_of_entry(entry: &str) -> &str {
    split_port(entry.strip_prefix("*.").unwrap_or(entry)).0
}

fn parse_port(port: &str) -> Option<u16> {
    let port = port.parse::<u16>().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?;
    (!BAD_PORTS.contains(&port)).then_some(port)
}

fn parse_entry(entry: &str) -> Result<String, HostPatternError> {
    let refused = || HostPatternError(entry.to_owned());
    if entry == ANY_PUBLIC_HOST {
        return Ok(entry.to_owned());
    }
    let (named, port) = split_port(entry);
    let port = port.map(|port| parse_port(port).ok_or_else(refused)).transpose()?.filter(|port| *port != HTTPS_PORT);
    let (wildcard, name) = match named.strip_prefix("*.") {
        Some(suffix) => ("*.", suffix),
        None => ("", named),
    };
    let host = url::Host::parse(name).map_err(|_| refused())?;
    let fits = match &host {
        url::Host::Domain(domain) => domain.contains('.') && !domain.starts_with('.') && !domain.ends_with('.') && !domain.contains('*'),
        url::Host::Ipv4(_) | url::Host::Ipv6(_) => wildcard.is_empty(),
    };
    if !fits {
        return Err(refused());
    }
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Ok(format!("{wildcard}{host}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_entries_and_wildcards_of_one_label_allow_matching_hosts() {
        let hosts = AllowedHosts::parse(&["API.Example.com", "*.example.org", "münchen.example"]).unwrap();
        let cases = [
            ("api.example.com", true),
            ("example.com", false),
            ("x.api.example.com", false),
            ("api.example.com.evil.net", false),
            ("a.example.org", true),
            ("a.b.example.org", false),
            ("example.org", false),
            (".example.org", false),
            ("evilexample.org", false),
            ("xn--mnchen-3ya.example", true),
        ];
        for (host, allowed) in cases {
            assert_eq!(hosts.allows(host), allowed, "{host}");
        }
        assert!(!AllowedHosts::default().allows("api.example.com"));
        assert!(hosts.iter().eq(["api.example.com", "*.example.org", "xn--mnchen-3ya.example"]));
    }

    #[test]
    fn a_port_is_allowed_for_the_hosts_of_its_entry_alone() {
        let hosts = AllowedHosts::parse(&["a.com:8443", "*.b.com:08080", "c.com:443", "[2606:4700::1]:8443"]).unwrap();
        assert!(hosts.iter().eq(["a.com:8443", "*.b.com:8080", "c.com", "[2606:4700::1]:8443"]));
        for (host, port) in [("a.com", 8443), ("x.b.com", 8080), ("[2606:4700::1]", 8443)] {
            assert!(hosts.allows_port(host, port) && !hosts.allows(host) && !hosts.allows_port(host, 8444), "{host}");
        }
        assert!(hosts.allows("c.com") && !hosts.allows_port("c.com", 8443) && !hosts.allows_port("b.com", 8080));
        assert!(!hosts.allows_port("x.y.b.com", 8080) && !hosts.allows_at_any_port("x.y.b.com"));
        for host in ["a.com", "x.b.com", "c.com", "[2606:4700::1]"] {
            assert!(hosts.allows_at_any_port(host), "{host}");
        }
        assert!(!hosts.allows_at_any_port("b.com") && !hosts.allows_at_any_port("x.a.com"));
        let entries = ["a.com:8443", "*.b.com", "[::1]", "[::1]:8443", "c.com"];
        assert_eq!(entries.map(host_of_entry), ["a.com", "b.com", "[::1]", "[::1]", "c.com"]);
    }

    #[test]
    fn any_public_host_is_allowed_at_the_default_port_and_names_none() {
        let hosts = AllowedHosts::parse(&["*", "a.com:8443"]).unwrap();
        assert!(hosts.includes_any_public() && hosts.allows("b.example") && hosts.allows_at_any_port("b.example"));
        assert!(hosts.allows_port("a.com", 8443) && !hosts.allows_port("b.example", 8443));
        let names = |url: &str| hosts.names(&url.parse().unwrap());
        assert!(names("https://a.com:8443/x") && !names("https://a.com/") && !names("https://b.example/"));
        let named = AllowedHosts::parse(&["*", "a.com"]).unwrap();
        assert!(named.names_host(&"http://a.com:8443".parse().unwrap()) && !named.names(&"http://a.com:8443".parse().unwrap()));
        assert!(!named.names_host(&"https://b.example".parse().unwrap()));
        assert!(!AllowedHosts::parse(&["*.com.example"]).unwrap().includes_any_public());
    }

    #[test]
    fn invalid_entries_are_refused_by_name() {
        for entry in [
            "",
            "*:8443",
            "*.com",
            "*.*.com",
            "a.*.com",
            "https://a.com",
            "a.com/x",
            "a.com:",
            "a.com:0",
            "a.com:+80",
            "a.com:65536",
            "a.com:22",
            "a.com:8443:1",
            "*.com:8443",
            "localhost:8443",
            "[::1",
            "::1",
            "user@a.com",
            "localhost",
            "a.com.",
            "*.127.0.0.1",
            "a b.com",
        ] {
            assert_eq!(AllowedHosts::parse(&[entry]), Err(HostPatternError(entry.to_owned())), "{entry}");
        }
    }
}
