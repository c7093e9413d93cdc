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
        let unreadable = || ApiError::bad_request("the `Host` header is malformed");
        let host = match headers.get(header::HOST) {
            Some(value) => Authority::try_from(value.as_bytes()).map_err(|_| unreadable())?,
            // HTTP/2 has the host in `:authority`.
            None => uri.authority().cloned().ok_or_else(unreadable)?,
        };
        let allowed = |name: &Name| name.host_is(host.host()) && (name.port.is_none() || name.port == host.port_u16());
        if self.hosts.is_empty() || self.hosts.iter().any(allowed) {
            return Ok(());
        }
        Err(denied("the name in the `Host` header is not a name of this host").hint("The operator can add the name: `--mcp-hosts`"))
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let (Some(allowed), Some(given)) = (&self.origins, headers.get(header::ORIGIN)) else { return Ok(()) };
        let origin = given.to_str().ok().and_then(Origin::parse);
        if origin.is_some_and(|origin| allowed.iter().any(|allowed| allowed.takes(&origin))) {
            return Ok(());
        }
        Err(denied("pages of this origin are not allowed to use this host").hint("The operator can allow the origin: `--mcp-origins`"))
    }
}

impl Name {
    /// Parses a name from the settings, where an IPv6 address can be without brackets.
    fn given(text: &str) -> Self {
        match Authority::try_from(text) {
            Ok(authority) => Self::of(&authority),
            Err(_) => Self { host: without_brackets(text).to_ascii_lowercase(), port: None },
        }
    }

    fn of(authority: &Authority) -> Self {
        Self { host: without_brackets(authority.host()).to_ascii_lowercase(), port: authority.port_u16() }
    }

    fn host_is(&self, host: &str) -> bool {
        self.host.eq_ignore_ascii_case(without_brackets(host))
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
                let port = at.port.or_else(|| default_port(given));
                scheme == given && name.host == at.host && (name.port.is_none() || name.port == port)
            }
            (Self::Null, Self::At(..)) | (Self::At(..), Self::Null) => false,
        }
    }
}

fn denied(reason: &str) -> ApiError {
    ApiError::new(Code::Forbidden, reason)
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        _ if scheme == Scheme::HTTP.as_str() => Some(80),
        _ if scheme == Scheme::HTTPS.as_str() => Some(443),
        _ => None,
    }
}

fn without_brackets(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests;
