//! Checks the `Host` and `Origin` headers. This prevents DNS rebinding: a web page whose own name resolves to this
//! machine cannot use `/ai/mcp` or read the dashboard.

use axum::{
    extract::Request,
    http::{
        HeaderMap, Uri, header,
        uri::{Authority, Scheme},
    },
};

use super::{api_error::ApiError, error_codes::Code};

/// The allowed hosts and origins.
#[derive(Debug)]
pub struct AllowedOrigins {
    /// Allowed values of the `Host` header. Empty allows any.
    hosts: Vec<Name>,
    /// Allowed values of the `Origin` header, if it is present. `None` allows any.
    origins: Option<Vec<Origin>>,
}

/// A host name with an optional port. Without a port, any port matches.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// In lower case, without the brackets of an IPv6 address.
    host: String,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// The origin `null`, of pages without an origin.
    Null,
    /// A scheme and a name. Without a port, any port matches.
    At(String, Name),
}

impl AllowedOrigins {
    /// Returns a check for these hosts and origins. Hosts can have a port; no hosts allow any. Origins without a port,
    /// or with `:*`, allow any port; `None` allows any origin.
    #[must_use]
    pub fn new(hosts: &[String], origins: Option<&[String]>) -> Self {
        let origin = |text: &String| match text.trim().strip_suffix(":*") {
            Some(any_port) => Origin::parse(any_port),
            None => Origin::parse(text),
        };
        Self {
            hosts: hosts.iter().map(|text| Name::given(text.trim())).collect(),
            origins: origins.map(|origins| origins.iter().filter_map(origin).collect()),
        }
    }

    /// Checks the host and the origin of a request.
    ///
    /// # Errors
    ///
    /// 400 for invalid headers, 403 for headers that are not allowed.
    pub fn check(&self, request: &Request) -> Result<(), ApiError> {
        self.check_host(request.uri(), request.headers())?;
        self.check_origin(request.headers())
    }

    /// Checks only the host that a request was sent to.
    ///
    /// # Errors
    ///
    /// 400 for an invalid name, 403 for a name that is not allowed.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let unread = || ApiError::bad_request("the `Host` header does not read");
        let host = match headers.get(header::HOST) {
            Some(value) => Authority::try_from(value.as_bytes()).map_err(|_| unread())?,
            // HTTP/2 has the host in `:authority`.
            None => uri.authority().cloned().ok_or_else(unread)?,
        };
        let allowed = |name: &Name| name.host_is(host.host()) && (name.port.is_none() || name.port == host.port_u16());
        if self.hosts.is_empty() || self.hosts.iter().any(allowed) {
            return Ok(());
        }
        Err(closed("this host does not go by the name in the `Host` header").hint("`--mcp-hosts` lists its names"))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let (Some(allowed), Some(given)) = (&self.origins, headers.get(header::ORIGIN)) else { return Ok(()) };
        let origin = given.to_str().ok().and_then(Origin::parse);
        if origin.is_some_and(|origin| allowed.iter().any(|allowed| allowed.takes(&origin))) {
            return Ok(());
        }
        Err(closed("pages of this origin may not use this host").hint("`--mcp-origins` lists those that may"))
    }
}

impl Name {
    /// Parses a name from the settings, where an IPv6 address can be without brackets.
    fn given(text: &str) -> Self {
        match Authority::try_from(text) {
            Ok(authority) => Self::of(&authority),
            Err(_) => Self { host: bare(text).to_ascii_lowercase(), port: None },
        }
    }

    fn of(authority: &Authority) -> Self {
        Self { host: bare(authority.host()).to_ascii_lowercase(), port: authority.port_u16() }
    }

    fn host_is(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(bare(host))
    }
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("null") {
            return Some(Self::Null);
        }
        let uri = Uri::try_from(text).ok()?;
        Some(Self::At(uri.scheme()?.as_str().to_ascii_lowercase(), Name::of(uri.authority()?)))
    }

    /// Returns whether this list entry matches `origin`, which omits the default port of its scheme.
    fn takes(&self, origin: &Self) -> bool {
        match (self, origin) {
            (Self::Null, Self::Null) => true,
            (Self::At(scheme, name), Self::At(given, at)) => {
                let port = at.port.or_else(|| own_port(given));
                scheme == given && name.host == at.host && (name.port.is_none() || name.port == port)
            }
            (Self::Null, Self::At(..)) | (Self::At(..), Self::Null) => false,
        }
    }
}

fn closed(reason: &str) -> ApiError {
    ApiError::new(Code::Forbidden, reason)
}

fn own_port(scheme: &str) -> Option<u16> {
    match scheme {
        _ if scheme == Scheme::HTTP.as_str() => Some(80),
        _ if scheme == Scheme::HTTPS.as_str() => Some(443),
        _ => None,
    }
}

fn bare(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn allowed(hosts: &[&str], origins: Option<&[&str]>) -> AllowedOrigins {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        AllowedOrigins::new(&owned(hosts), origins.map(owned).as_deref())
    }

    fn status(allowed: &AllowedOrigins, headers: &[(&str, &str)]) -> u16 {
        let request = headers.iter().fold(Request::post("/ai/mcp"), |request, (name, value)| request.header(*name, *value));
        allowed.check(&request.body(Body::empty()).unwrap()).map_or_else(|closed| closed.code().row().status.as_u16(), |()| 200)
    }

    #[test]
    fn a_host_goes_by_its_names_alone() {
        let own = allowed(&["localhost", "[::1]", "tools.example:8443"], None);
        for (host, requested) in [
            ("localhost", 200),
            ("LocalHost:4020", 200),
            ("[::1]:4020", 200),
            ("tools.example:8443", 200),
            ("tools.example", 403),
            ("tools.example:443", 403),
            ("localhost.evil.example", 403),
            ("evil.example", 403),
            ("a b", 400),
            ("", 400),
        ] {
            assert_eq!(status(&own, &[("host", host)]), requested, "{host}");
        }
        assert_eq!(status(&own, &[]), 400);
        assert_eq!(status(&allowed(&["::1"], None), &[("host", "[::1]:1")]), 200);
        assert_eq!(status(&allowed(&[], None), &[("host", "any.example")]), 200);
    }

    #[test]
    fn a_page_is_let_in_by_scheme_name_and_port() {
        let some = allowed(&[], Some(&["http://localhost:*", "https://app.example:443", "https://any.example"]));
        let with = |origin: &'static str| [("host", "h"), ("origin", origin)];
        for (origin, requested) in [
            ("http://localhost", 200),
            ("http://LOCALHOST:6274", 200),
            ("https://localhost:6274", 403),
            ("https://app.example", 200),
            ("https://app.example:443", 200),
            ("https://app.example:444", 403),
            ("http://app.example:443", 403),
            ("https://any.example:9", 200),
            ("https://app.example.evil.example", 403),
            ("null", 403),
            ("nonsense", 403),
            ("", 403),
        ] {
            assert_eq!(status(&some, &with(origin)), requested, "{origin}");
        }
        assert_eq!(status(&some, &[("host", "h")]), 200, "whoever is no page has no origin");
        assert_eq!(status(&allowed(&[], Some(&[])), &with("http://localhost")), 403);
        assert_eq!(status(&allowed(&[], Some(&["null"])), &with("null")), 200);
        assert_eq!(status(&allowed(&[], None), &with("https://evil.example")), 200);
    }
}
