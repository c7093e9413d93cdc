//! The guard: the one way out to addresses that somebody else names.
//!
//! A request passes if its URL is plain (no userinfo, no control characters, the scheme's own
//! port), its host is a public name or address, and **every** address the name resolves to is
//! public. The name is resolved once, in the client's own resolver, and the connection goes to the
//! addresses that were checked. Redirects are followed here, each hop checked anew; proxies of
//! the environment are not used. [`addresses`] says what is public.
//!
//! It speaks HTTP/1.1 alone: a connection has one request at a time, and is closed with a request that is given up. Over HTTP/2 a
//! server goes on sending what nobody asked for after the request has ended, which takes a processor and is in no limit;
//! and the requests of all owners to one host share a connection, where who has most of them holds up the others. What comes
//! over a connection is counted by the byte, whatever it is: [`meter`] says for how long.
//!
//! It does *not* decide who may use it: `ctx.httpGetJson` gives it the endpoint's allowed hosts.

pub mod addresses;
mod client;
mod coding;
mod dns;
mod error;
mod fetch;
mod kept;
mod limits;
mod meter;
mod recorded;
mod resolve;
mod system;

use std::{fmt, sync::Arc};

use tollhouse_fair::{Fair, Share};
use url::{Host, Url};

#[cfg(any(test, feature = "testing"))]
pub use self::dns::Dns;
use self::{
    client::{Client, client},
    kept::Kept,
    limits::OPEN_REQUESTS,
    resolve::Resolver,
    system::System,
};
pub use self::{
    error::{FetchError, GuardError},
    fetch::{Fetch, Fetched, Hops},
    limits::{MAX_REDIRECTS, URL_BYTES},
    recorded::{Recorded, RecordedAnswer},
    resolve::Lookup,
};
use super::AllowedHosts;

/// How the guard is set.
#[derive(Default)]
pub struct GuardSettings {
    /// Also `http` URLs, on port 80. Default: `https` only.
    pub allow_http: bool,
    /// `host:port` pairs that pass whatever they are, with `http` too: for a test's servers and for
    /// services of the operator's own. Default: none.
    pub allow: Vec<String>,
    /// Further root certificates, as PEM. Default: those of the system only.
    pub roots: Vec<Vec<u8>>,
    /// Another resolver. Default: the system's.
    pub lookup: Option<Arc<dyn Lookup>>,
}

/// The guarded client. Clones share connections.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    allow_http: bool,
    allow: Vec<(String, u16)>,
    /// Dials public addresses only.
    public: Client,
    /// Dials the hosts of `allow`, and is used for nothing else.
    exempt: Option<Client>,
    open: Arc<Fair<Box<str>>>,
    kept: Kept,
}

impl Guard {
    /// # Errors
    ///
    /// [`GuardError`] names the setting. A system without root certificates is not an error: then
    /// only `roots` are trusted, and a warning says so.
    pub fn new(settings: GuardSettings) -> Result<Self, GuardError> {
        let allow = settings.allow.iter().map(|entry| parse_allow(entry)).collect::<Result<Vec<_>, _>>()?;
        let roots = client::roots(&settings.roots)?;
        let public = client(&roots, Resolver::public(settings.lookup.clone().unwrap_or_else(|| Arc::new(dns::Dns::of_system()))))?;
        let own = || settings.lookup.unwrap_or_else(|| Arc::new(System::new()));
        let exempt = if allow.is_empty() { None } else { Some(client(&roots, Resolver::unchecked(own()))?) };
        let open = Fair::new(OPEN_REQUESTS, Share::OfFree);
        Ok(Self(Arc::new(Inner { allow_http: settings.allow_http, allow, public, exempt, open, kept: Kept::new() })))
    }

    /// Reads a URL and checks all of it that can be checked before its name is resolved.
    ///
    /// # Errors
    ///
    /// [`FetchError::InvalidUrl`], [`FetchError::Forbidden`] and [`FetchError::HostNotAllowed`].
    pub fn check(&self, url: &str, hosts: Option<&AllowedHosts>) -> Result<Url, FetchError> {
        check_length(url)?;
        if url.chars().any(|c| c.is_control() || c == '\\') {
            return Err(FetchError::InvalidUrl("has control characters or `\\`".into()));
        }
        if before_path(url).chars().any(char::is_whitespace) {
            return Err(FetchError::InvalidUrl("has white space before its path".into()));
        }
        // White space behind that is percent-encoded, as a URL object has it.
        let mut url = Url::parse(url).map_err(|error| FetchError::InvalidUrl(unreadable(error)))?;
        without_dot(&mut url);
        // What is sent may be longer, in percent-encoding.
        check_length(url.as_str())?;
        self.check_parsed(&url, hosts)?;
        Ok(url)
    }

    fn check_parsed(&self, url: &Url, hosts: Option<&AllowedHosts>) -> Result<(), FetchError> {
        let forbidden = |why: &str| Err(FetchError::Forbidden(why.to_owned()));
        if !matches!(url.scheme(), "https" | "http") {
            return Err(FetchError::InvalidUrl(format!("has the scheme `{}`, use https", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::InvalidUrl("has a user name or password in it".into()));
        }
        let Some(host) = url.host() else { return Err(FetchError::InvalidUrl("has no host".into())) };
        let name = host.to_string();
        if hosts.is_some_and(|hosts| !hosts.allows(&name)) {
            return Err(FetchError::HostNotAllowed(name));
        }
        if self.is_exempt(url) {
            return Ok(());
        }
        if url.scheme() == "http" && !self.0.allow_http {
            return forbidden("http is not allowed, use https");
        }
        if url.port().is_some() {
            return forbidden("only the scheme's own port is allowed");
        }
        let refusal = match host {
            Host::Domain(name) => addresses::name_refusal(name),
            Host::Ipv4(address) => addresses::refusal(address.into()),
            Host::Ipv6(address) => addresses::refusal(address.into()),
        };
        refusal.map_or(Ok(()), |why| Err(FetchError::Forbidden(format!("`{name}` is not a public host: {why}"))))
    }

    fn is_exempt(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
        self.0.allow.iter().any(|(allowed, allowed_port)| allowed == host && *allowed_port == port)
    }

    fn client_for(&self, url: &Url) -> &Client {
        self.0.exempt.as_ref().filter(|_| self.is_exempt(url)).unwrap_or(&self.0.public)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("allow_http", &self.0.allow_http).field("allow", &self.0.allow).finish_non_exhaustive()
    }
}

/// A URL up to where its path, its query or its fragment begins: what says where it leads.
fn before_path(url: &str) -> &str {
    let authority = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
    &url[..end]
}

/// Takes the dot from the end of a name: `example.com.` is the host `example.com`, written whole.
fn without_dot(url: &mut Url) {
    if let Some(Host::Domain(name)) = url.host()
        && let Some(name) = name.strip_suffix('.').filter(|name| !name.is_empty() && !name.ends_with('.'))
    {
        let name = name.to_owned();
        // A name without its dot is as much of one as before: where it were none the URL stays as it is, and is refused.
        let _ = url.set_host(Some(&name));
    }
}

fn check_length(url: &str) -> Result<(), FetchError> {
    if url.len() > URL_BYTES {
        return Err(FetchError::InvalidUrl(format!("is {} bytes, limit {URL_BYTES}", url.len())));
    }
    Ok(())
}

/// What is wrong with a text that is no URL, as the end of a sentence that begins with it.
fn unreadable(error: url::ParseError) -> String {
    match error {
        url::ParseError::RelativeUrlWithoutBase => "has no scheme: write it whole, such as `https://example.com/`".to_owned(),
        url::ParseError::EmptyHost => "has no host".to_owned(),
        other => format!("does not read: {other}"),
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
