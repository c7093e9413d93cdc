//! The guard: the only way to send requests to addresses that others supply (SSRF protection).
//!
//! A request is allowed if its URL is plain (no userinfo, no control characters, the scheme's default port or one that
//! the tool's allowed hosts name), its host is a public name or address, and **every** address that the name resolves to
//! is public. The name is resolved once, in the client's own resolver, and the connection goes to the addresses that
//! were checked. Redirects are followed here, and each hop is checked again. Proxies from the environment are not used.
//! [`addresses`] defines which addresses are public.
//!
//! It uses only HTTP/1.1: a connection has one request at a time, and an abandoned request closes its connection. Over
//! HTTP/2, a server can keep sending unrequested data after the request has ended, which costs processor time and is
//! covered by no limit. Also, all owners' requests to one host would share a connection, where the owner with the most
//! requests would delay the others. All bytes that arrive on a connection are counted, whatever they are: see
//! [`meter`].
//!
//! Tools share idle connections. A connection on which a tool has sent a body is closed instead, because a server that
//! does not read the body can take it for the next request (request smuggling).
//!
//! The grant of any public host does not include the host itself: see [`own`].
//!
//! The guard does *not* decide who may use it: `fetch` and `ctx.httpGetJson` pass the tool's allowed hosts.

pub mod addresses;
mod cache;
mod client;
mod coding;
mod dns;
mod error;
mod fetch;
mod limits;
mod meter;
mod opened;
mod own;
mod piece_decoder;
mod recorded;
mod resolve;
mod system;

use std::sync::Arc;

use tollhouse_fair::{FairSemaphore, Share};
use url::{Host, Url};

#[cfg(any(test, feature = "testing"))]
pub use self::dns::Dns;
pub(crate) use self::opened::{OpenBody, OpenResponse};
use self::{
    cache::AddressCache,
    client::{GuardedClient, client},
    limits::OPEN_REQUESTS,
    own::OwnLookup,
    resolve::Resolver,
    system::SystemResolver,
};
pub use self::{
    error::{FetchError, GuardError},
    fetch::{Fetch, Hops, Redirects},
    limits::{MAX_REDIRECTS, URL_BYTES},
    opened::Fetched,
    own::OwnHost,
    recorded::{RecordedAnswer, RecordedAnswers},
    resolve::Lookup,
};
use super::AllowedHosts;

#[derive(Default)]
pub struct GuardSettings {
    /// Allows `http` URLs too, on port 80. Default: only `https`.
    pub allow_http: bool,
    /// Pairs `host:port` that are always allowed, with `http` too, for test servers and the operator's own services.
    /// Default: none.
    pub allow: Vec<String>,
    /// Upstreams under development. Default: none.
    pub development: DevelopmentUpstreams,
    /// Where this host itself can be reached. Default: nowhere.
    pub own: OwnHost,
    /// Additional root certificates, as PEM. Default: only those of the system.
    pub roots: Vec<Vec<u8>>,
    /// A custom resolver. Default: the system's.
    pub lookup: Option<Arc<dyn Lookup>>,
}

/// Pairs of host and port that every tool may ask, with `http` too, whatever its allowed hosts are.
///
/// Only the private host of `tollhouse dev` has some: no setting of a host that others can reach leads here.
#[derive(Debug, Clone, Default)]
pub struct DevelopmentUpstreams(Vec<(String, u16)>);

impl DevelopmentUpstreams {
    /// Parses entries of the form `host:port`.
    ///
    /// # Errors
    ///
    /// [`GuardError::Allow`] names the first invalid entry.
    pub fn parse(entries: &[String]) -> Result<Self, GuardError> {
        entries.iter().map(|entry| parse_allow(entry)).collect::<Result<Vec<_>, _>>().map(Self)
    }
}

/// The guarded HTTP client. Clones share connections.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    allow_http: bool,
    allow: Vec<(String, u16)>,
    development: DevelopmentUpstreams,
    /// The client for public addresses.
    public: GuardedClient,
    /// The client for public addresses of other hosts, for the grant of any public host.
    elsewhere: GuardedClient,
    own: Arc<OwnLookup>,
    /// The client for the hosts in `allow` and `development`, used for nothing else.
    exempt: Option<GuardedClient>,
    open: Arc<FairSemaphore<Box<str>>>,
    cache: AddressCache,
}

impl Guard {
    /// Creates a guard.
    ///
    /// # Errors
    ///
    /// [`GuardError`] names the invalid setting. A system without root certificates is not an error: then only `roots`
    /// are trusted, and a warning is logged.
    pub fn new(settings: GuardSettings) -> Result<Self, GuardError> {
        let allow = settings.allow.iter().map(|entry| parse_allow(entry)).collect::<Result<Vec<_>, _>>()?;
        let roots = client::roots(&settings.roots)?;
        let lookup = settings.lookup.clone().unwrap_or_else(|| Arc::new(dns::Dns::of_system()));
        let public = client(&roots, Resolver::public(Arc::clone(&lookup)))?;
        let own_host = Arc::new(OwnLookup { own: settings.own, lookup: Arc::clone(&lookup) });
        let elsewhere = client(&roots, Resolver::elsewhere(lookup, Arc::clone(&own_host) as _))?;
        let own = || settings.lookup.unwrap_or_else(|| Arc::new(SystemResolver::new()));
        let development = settings.development;
        let has_exempt = !allow.is_empty() || !development.0.is_empty();
        let exempt = if has_exempt { Some(client(&roots, Resolver::unchecked(own()))?) } else { None };
        let open = FairSemaphore::new(OPEN_REQUESTS, Share::OfFree);
        let (allow_http, cache) = (settings.allow_http, AddressCache::new());
        Ok(Self(Arc::new(Inner { allow_http, allow, development, public, elsewhere, own: own_host, exempt, open, cache })))
    }

    /// Parses a URL and checks everything that can be checked before its name is resolved.
    ///
    /// # Errors
    ///
    /// [`FetchError::InvalidUrl`], [`FetchError::Forbidden`] and [`FetchError::HostNotAllowed`].
    pub fn check(&self, url: &str, hosts: Option<&AllowedHosts>) -> Result<Url, FetchError> {
        check_length(url)?;
        if url.chars().any(|c| c.is_control() || c == '\\') {
            return Err(FetchError::InvalidUrl("contains control characters or `\\`".into()));
        }
        if before_path(url).chars().any(char::is_whitespace) {
            return Err(FetchError::InvalidUrl("has white space before its path".into()));
        }
        // White space after that is percent-encoded, as URL parsers do.
        let mut url = Url::parse(url).map_err(|error| FetchError::InvalidUrl(unreadable(error)))?;
        strip_root_dot(&mut url);
        // Percent-encoding can make the URL longer.
        check_length(url.as_str())?;
        self.check_parsed(&url, hosts)?;
        Ok(url)
    }

    fn check_parsed(&self, url: &Url, hosts: Option<&AllowedHosts>) -> Result<(), FetchError> {
        let forbidden = |reason: &str| Err(FetchError::Forbidden(reason.to_owned()));
        if !matches!(url.scheme(), "https" | "http") {
            return Err(FetchError::InvalidUrl(format!("has the scheme `{}`; use https", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::InvalidUrl("contains a user name or password".into()));
        }
        let Some(host) = url.host() else { return Err(FetchError::InvalidUrl("has no host".into())) };
        if self.is_development(url) {
            return Ok(());
        }
        let name = host.to_string();
        let is_named_port = url.port().is_some_and(|port| hosts.is_some_and(|hosts| hosts.allows_port(&name, port)));
        if !is_named_port && hosts.is_some_and(|hosts| !hosts.allows(&name)) {
            return Err(FetchError::HostNotAllowed(name));
        }
        if self.exempts(url, hosts) {
            return Ok(());
        }
        if url.scheme() == "http" && !self.0.allow_http {
            return forbidden("http is not allowed; use https");
        }
        if url.port().is_some() && !is_named_port {
            return forbidden("only the default port of the scheme is allowed, unless `allowedHosts` names another");
        }
        let refusal = match host {
            Host::Domain(name) => addresses::name_refusal(name),
            Host::Ipv4(address) => addresses::refusal(address.into()),
            Host::Ipv6(address) => addresses::refusal(address.into()),
        };
        refusal.map_or(Ok(()), |reason| Err(FetchError::Forbidden(format!("`{name}` is not a public host: {reason}"))))
    }

    /// Returns whether a request to `url` may go to any address. The grant of any public host includes no such URL.
    fn exempts(&self, url: &Url, hosts: Option<&AllowedHosts>) -> bool {
        self.is_development(url) || (self.is_exempt(url) && hosts.is_none_or(|hosts| hosts.names_host(url)))
    }

    /// Returns whether only the grant of any public host permits a request to `url`.
    fn is_by_any_grant(&self, url: &Url, hosts: Option<&AllowedHosts>) -> bool {
        hosts.is_some_and(|hosts| hosts.includes_any_public() && !hosts.names_host(url)) && !self.is_development(url)
    }

    /// Refuses a URL of this host, if only the grant of any public host permits it.
    async fn refuse_own(&self, url: &Url, hosts: Option<&AllowedHosts>) -> Result<(), FetchError> {
        if self.is_by_any_grant(url, hosts) && self.0.own.is_named_by(url).await {
            let name = url.host_str().unwrap_or_default();
            return Err(FetchError::Forbidden(format!("`{name}` is this host, which a tool can only ask if its allowed hosts name it")));
        }
        Ok(())
    }

    /// Returns the client for a request.
    fn client_for(&self, url: &Url, hosts: Option<&AllowedHosts>) -> &GuardedClient {
        let exempt = self.0.exempt.as_ref().filter(|_| self.exempts(url, hosts));
        exempt.unwrap_or_else(|| if self.is_by_any_grant(url, hosts) { &self.0.elsewhere } else { &self.0.public })
    }

    fn is_exempt(&self, url: &Url) -> bool {
        lists(&self.0.allow, url)
    }

    fn is_development(&self, url: &Url) -> bool {
        lists(&self.0.development.0, url)
    }
}

fn lists(pairs: &[(String, u16)], url: &Url) -> bool {
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
    pairs.iter().any(|(listed, listed_port)| listed == host && *listed_port == port)
}

/// Returns a URL up to its path, query or fragment: the part that determines the destination.
fn before_path(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
    &url[..end]
}

/// Removes the dot at the end of a name: `example.com.` is the fully qualified form of `example.com`.
fn strip_root_dot(url: &mut Url) {
    if let Some(Host::Domain(name)) = url.host()
        && let Some(name) = name.strip_suffix('.').filter(|name| !name.is_empty() && !name.ends_with('.'))
    {
        let name = name.to_owned();
        // A name stays valid without its dot. If this fails anyway, the URL is unchanged and will be refused.
        let _ = url.set_host(Some(&name));
    }
}

fn check_length(url: &str) -> Result<(), FetchError> {
    if url.len() > URL_BYTES {
        return Err(FetchError::InvalidUrl(format!("has {} bytes, and the maximum is {URL_BYTES}", url.len())));
    }
    Ok(())
}

/// Describes why a text is not a URL, as the end of a sentence that begins with the text.
fn unreadable(error: url::ParseError) -> String {
    match error {
        url::ParseError::RelativeUrlWithoutBase => "has no scheme; write a complete URL, for example `https://example.com/`".to_owned(),
        url::ParseError::EmptyHost => "has no host".to_owned(),
        other => format!("is invalid: {other}"),
    }
}

fn parse_allow(entry: &str) -> Result<(String, u16), GuardError> {
    let refused = || GuardError::Allow(entry.to_owned());
    let (host, port) = entry.rsplit_once(':').ok_or_else(refused)?;
    let host = Host::parse(host).map_err(|_| refused())?;
    Ok((host.to_string(), port.parse().map_err(|_| refused())?))
}

#[cfg(test)]
mod tests;
