//! `allowedHosts` of a manifest: the hosts that `ctx.httpGetJson` may reach.

use std::sync::Arc;

/// A list of allowed hosts, by exact name (`api.example.com`) or by suffix (`*.example.com`, which does not include
/// `example.com`). Names are kept in lower-case ASCII. An empty list allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Arc<[String]>);

/// An invalid entry of `allowedHosts`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` in `allowedHosts` is not a host name; write `api.example.com` or `*.example.com`, without scheme, port or path")]
pub struct HostPatternError(pub String);

impl AllowedHosts {
    /// Parses the entries of a manifest.
    ///
    /// # Errors
    ///
    /// [`HostPatternError`] names the first invalid entry. `*` and `*.com` are refused because they would allow
    /// everybody.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, HostPatternError> {
        entries.iter().map(|entry| parse_entry(entry.as_ref())).collect::<Result<Vec<_>, _>>().map(|entries| Self(entries.into()))
    }

    /// Returns whether the list allows `host`, in the form of a parsed URL.
    pub fn allows(&self, host: &str) -> bool {
        self.0.iter().any(|entry| match entry.strip_prefix('*') {
            Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
            None => entry == host,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn parse_entry(entry: &str) -> Result<String, HostPatternError> {
    let refused = || HostPatternError(entry.to_owned());
    let (wildcard, name) = match entry.strip_prefix("*.") {
        Some(suffix) => ("*.", suffix),
        None => ("", entry),
    };
    let host = url::Host::parse(name).map_err(|_| refused())?;
    let fits = match &host {
        url::Host::Domain(domain) => domain.contains('.') && !domain.starts_with('.') && !domain.ends_with('.') && !domain.contains('*'),
        url::Host::Ipv4(_) | url::Host::Ipv6(_) => wildcard.is_empty(),
    };
    if fits { Ok(format!("{wildcard}{host}")) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_and_suffix_entries_allow_matching_hosts() {
        let hosts = AllowedHosts::parse(&["API.Example.com", "*.example.org", "münchen.example"]).unwrap();
        let cases = [
            ("api.example.com", true),
            ("example.com", false),
            ("x.api.example.com", false),
            ("api.example.com.evil.net", false),
            ("a.example.org", true),
            ("a.b.example.org", true),
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
    fn invalid_entries_are_refused_by_name() {
        for entry in [
            "",
            "*",
            "*.com",
            "*.*.com",
            "a.*.com",
            "https://a.com",
            "a.com/x",
            "a.com:443",
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
