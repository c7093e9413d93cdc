//! The session cookie, which browsers send only to the dashboard.

use std::{fmt::Display, str::FromStr};

use url::Url;

use super::base_path::BasePath;
use crate::{HeaderMap, HeaderValue, header};

/// A cookie with its attributes.
///
/// Cookies ignore ports, so two hosts on one machine would overwrite each other's sessions. The
/// name therefore contains the port.
#[derive(Debug, Clone)]
pub struct Cookie {
    name: String,
    attributes: String,
}

impl Cookie {
    /// Returns the session cookie of the host with this public URL. It is `Secure` if the URL is
    /// https.
    #[must_use]
    pub fn of(base_url: &str) -> Self {
        let url = Url::parse(base_url).ok();
        let port = url.as_ref().and_then(Url::port_or_known_default).unwrap_or(0);
        let attributes = format!("Path={}; HttpOnly; SameSite=Lax", BasePath::of(base_url).below("/dashboard"));
        match url.is_some_and(|url| url.scheme() == "https") {
            true => Self { name: format!("__Secure-tollhouse-{port}"), attributes: attributes + "; Secure" },
            false => Self { name: format!("tollhouse-{port}"), attributes },
        }
    }

    /// Returns another cookie of the same host, for `what`.
    pub(super) fn companion(&self, what: &str) -> Self {
        Self { name: format!("{}-{what}", self.name), ..self.clone() }
    }

    /// Returns the first valid value in a request.
    pub(super) fn read<T: FromStr>(&self, headers: &HeaderMap) -> Option<T> {
        self.values(headers).next()
    }

    /// Returns all valid values in a request. Pages on other ports of the same machine can add
    /// some.
    pub(super) fn all<T: FromStr>(&self, headers: &HeaderMap) -> Vec<T> {
        self.values(headers).collect()
    }

    fn values<T: FromStr>(&self, headers: &HeaderMap) -> impl Iterator<Item = T> {
        let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.name).filter_map(|(_, value)| value.parse().ok())
    }

    /// Returns the header that sets the value for the browser session.
    pub(super) fn set(&self, value: &impl Display) -> HeaderValue {
        self.value(&format!("{}={value}", self.name))
    }

    /// Returns the header that deletes the cookie.
    pub(super) fn clear(&self) -> HeaderValue {
        self.value(&format!("{}=; Max-Age=0", self.name))
    }

    fn value(&self, pair: &str) -> HeaderValue {
        let mut value = HeaderValue::try_from(format!("{pair}; {}", self.attributes)).expect("values are ASCII without control characters");
        value.set_sensitive(true);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_account::session::Token;

    #[test]
    fn cookie_is_named_by_port_and_secure_by_scheme() {
        let describe = |url: &str| Cookie::of(url).clear().to_str().unwrap().to_owned();
        assert_eq!(describe("http://127.0.0.1:4020"), "tollhouse-4020=; Max-Age=0; Path=/dashboard; HttpOnly; SameSite=Lax");
        assert_eq!(describe("https://a.example"), "__Secure-tollhouse-443=; Max-Age=0; Path=/dashboard; HttpOnly; SameSite=Lax; Secure");
        assert!(describe("https://a.example/b/").contains("; Path=/b/dashboard; "));
    }

    #[test]
    fn token_is_found_among_other_cookies() {
        let cookie = Cookie::of("http://127.0.0.1:4020");
        let (id, key) = ("A".repeat(22), "B".repeat(42) + "A");
        let find = |value: &str| {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(value).unwrap())]);
            cookie.read::<Token>(&headers).map(|token| token.to_string())
        };
        let token = format!("admin.{id}.{key}");
        assert_eq!(find(&format!("a=b; tollhouse-4020=x; tollhouse-4020={token};c")), Some(token.clone()));
        for other in [format!("tollhouse-4021={token}"), format!("xtollhouse-4020={token}"), "tollhouse-4020=".to_owned(), token] {
            assert_eq!(find(&other), None, "{other}");
        }
    }
}
