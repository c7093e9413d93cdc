//! Limits wrong credentials per client address.
//!
//! An address that guesses is rejected for a while even with a right credential, so that the error does not reveal a
//! right guess. Right credentials do not count toward the limit. Requests without a credential are not checked.
//!
//! A credential counts as wrong until it has been checked. So when guesses arrive at the same time, only
//! as many as the limit allows are checked. The others wait for the results of those.
//!
//! Any web page can make an operator's browser send wrong credentials. Requests of pages of other origins therefore
//! have a separate limit, and do not count against other requests from the browser's address.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    extract::Request,
    http::{Extensions, HeaderMap, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::future::BoxFuture;
use tollhouse_base::{
    attempts::{Attempt, AttemptError, Attempts},
    failure_limiter::{FailureLimiter, WINDOW},
    gcra::Tally,
};
use tollhouse_money::{CredentialLookup, CredentialObserver, RunLimit, RunLimitReached};
use tollhouse_replica::SharedCounts;
use url::Url;

use super::{
    address::network,
    api_error::{ApiError, RateLimitPolicy, code_of, whole_seconds},
    error_codes::Code,
    header_names,
    payment::{bearer, credit, offered},
};

/// All failures of an address are forgiven after this time, however many there were. Such an address is blocked for
/// about half of it.
const MAX_LEN: Duration = Duration::from_secs(2 * 60);

/// The sender of a request: its network, and whether a page of another origin made the browser send it.
///
/// It is read once and passed on, because several tasks answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    network: IpAddr,
    kind: SenderKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderKind {
    /// A program, or one of this host's pages.
    Client,
    /// A page of another origin, in a browser.
    ForeignPage,
}

/// Counts wrong credentials per client network. An IPv6 /64 is one network.
#[derive(Debug)]
pub(super) struct Failures {
    clients: Arc<Attempts<IpAddr>>,
    foreign_pages: Arc<Attempts<IpAddr>>,
    /// Guesses at the request of a paid registration, from clients and foreign pages alike: any program can claim to be a page.
    registrations: Arc<Attempts<IpAddr>>,
    /// The origin of this host's own pages.
    origin: String,
}

impl Failures {
    /// Returns counters for a host at `base_url` that allow `per_minute` failures per network, in a burst or spread
    /// out.
    pub(super) fn new(per_minute: NonZeroU32, base_url: &str) -> Self {
        let attempts = || Arc::new(Attempts::new(FailureLimiter::new(per_minute, MAX_LEN)));
        let origin = Url::parse(base_url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Self { clients: attempts(), foreign_pages: attempts(), registrations: attempts(), origin }
    }

    /// Returns the sender of a request.
    pub(super) fn sender(&self, address: IpAddr, headers: &HeaderMap) -> Sender {
        let kind = match headers.get(header::ORIGIN) {
            Some(origin) if origin.as_bytes() != self.origin.as_bytes() => SenderKind::ForeignPage,
            Some(_) | None => SenderKind::Client,
        };
        Sender { network: network(address), kind }
    }

    /// Returns the counters by name, for sharing between replicas.
    pub(super) fn tallies(&self) -> SharedCounts {
        let tally = |attempts: &Arc<Attempts<IpAddr>>| Arc::clone(attempts.penalties()) as Arc<dyn Tally>;
        vec![
            ("credentials", tally(&self.clients)),
            ("credentials-of-pages", tally(&self.foreign_pages)),
            ("registrations", tally(&self.registrations)),
        ]
    }

    /// Forgets networks with a full budget, so that memory stays bounded.
    pub(super) fn prune_idle(&self) {
        for attempts in [&self.clients, &self.foreign_pages, &self.registrations] {
            attempts.penalties().prune_idle();
        }
    }

    /// Returns an error if the sender has failed too often.
    ///
    /// # Errors
    ///
    /// 429 in that case.
    pub(super) fn check(&self, sender: Sender) -> Result<(), ApiError> {
        self.of(sender).penalties().wait(&sender.network, Instant::now()).map_or(Ok(()), |wait| Err(self.too_many(wait)))
    }

    /// Begins the check of a credential of the sender. While other checks of its credentials could use up its limit,
    /// waits until one of them ends.
    ///
    /// # Errors
    ///
    /// 429 if the sender has failed too often, or if too many of its credentials are being checked.
    pub(super) async fn begin(&self, sender: Sender) -> Result<CredentialCheck, ApiError> {
        let started = self.of(sender).begin(sender.network).await;
        started.map(|attempt| CredentialCheck { attempts: vec![attempt], was_wrong: None }).map_err(|error| self.refused(error))
    }

    /// Does the same for a guess at the request of a paid registration. Its limit is the same whether the sender claims to be a page or
    /// not.
    ///
    /// # Errors
    ///
    /// See [`Failures::begin`].
    pub(super) async fn begin_registration(&self, sender: Sender) -> Result<CredentialCheck, ApiError> {
        let mut check = self.begin(sender).await?;
        check.attempts.push(self.registrations.begin(sender.network).await.map_err(|error| self.refused(error))?);
        Ok(check)
    }

    /// Counts a wrong credential of the sender that was not checked through [`Failures::begin`].
    pub(super) fn count(&self, sender: Sender) {
        self.of(sender).penalties().count(sender.network, Instant::now());
    }

    /// Returns an observer that checks credentials of the sender where they are looked up.
    pub(crate) fn observer(failures: &Arc<Self>, sender: Sender) -> Arc<dyn CredentialObserver> {
        Arc::new(LookedUpCredentials { failures: Arc::clone(failures), sender })
    }

    fn refused(&self, error: AttemptError) -> ApiError {
        match bound(error) {
            (RunLimit::CredentialChecks, wait) => self.rate_limited(wait, RunLimit::CredentialChecks.to_string()),
            (_, wait) => self.too_many(wait),
        }
    }

    fn too_many(&self, wait: Duration) -> ApiError {
        self.rate_limited(wait, format!("too many wrong credentials per minute from your address; the maximum is {}", self.per_minute()))
    }

    fn rate_limited(&self, wait: Duration, message: String) -> ApiError {
        let max = self.per_minute();
        ApiError::rate_limited(
            RateLimitPolicy { name: RunLimit::Credentials.policy(), max, window_secs: WINDOW.as_secs() },
            whole_seconds(wait),
            message,
        )
    }

    fn per_minute(&self) -> NonZeroU32 {
        self.clients.penalties().per_minute()
    }

    fn of(&self, sender: Sender) -> &Arc<Attempts<IpAddr>> {
        match sender.kind {
            SenderKind::Client => &self.clients,
            SenderKind::ForeignPage => &self.foreign_pages,
        }
    }
}

/// Returns the limit that an attempt exceeds, and how long the sender should wait.
fn bound(error: AttemptError) -> (RunLimit, Duration) {
    match error {
        AttemptError::Failed(wait) => (RunLimit::Credentials, wait),
        AttemptError::Busy(wait) => (RunLimit::CredentialChecks, wait),
    }
}

/// A credential that is being checked. Until this is dropped, the credential counts as wrong.
#[derive(Debug)]
pub struct CredentialCheck {
    /// One for each limit that it counts toward.
    attempts: Vec<Attempt<IpAddr>>,
    /// Set once the credential is known to be wrong.
    was_wrong: Option<Arc<AtomicBool>>,
}

impl CredentialCheck {
    /// A check without a limit.
    pub(super) const UNLIMITED: Self = Self { attempts: Vec::new(), was_wrong: None };

    /// Begins the check of a credential in a request, after its extensions. While other checks for the same address
    /// could use up its limit, waits until one of them ends.
    ///
    /// # Errors
    ///
    /// 429 if the address has sent too many wrong credentials, or if too many of its credentials are being checked.
    pub async fn begin(extensions: &Extensions) -> Result<Self, ApiError> {
        let Some(CredentialLimit { failures, sender, was_wrong }) = extensions.get() else { return Ok(Self::UNLIMITED) };
        let check = failures.begin(*sender).await?;
        Ok(Self { was_wrong: Some(Arc::clone(was_wrong)), ..check })
    }

    /// Counts the credential as wrong.
    pub fn fail(self) {
        if let Some(was_wrong) = self.was_wrong {
            was_wrong.store(true, Ordering::SeqCst);
        }
        self.attempts.into_iter().for_each(Attempt::fail);
    }
}

impl CredentialLookup for CredentialCheck {
    fn saw_wrong(self: Box<Self>) {
        self.fail();
    }
}

/// The limit on the credentials of one request, in its extensions. Requests of this host's pages to its own API have
/// none, because the page's request was limited.
#[derive(Debug, Clone)]
pub(super) struct CredentialLimit {
    failures: Arc<Failures>,
    sender: Sender,
    /// Whether a credential of the request was counted as wrong.
    was_wrong: Arc<AtomicBool>,
}

impl CredentialLimit {
    /// Returns the limit for a request of this sender.
    pub(super) fn new(failures: &Arc<Failures>, sender: Sender) -> Self {
        Self { failures: Arc::clone(failures), sender, was_wrong: Arc::default() }
    }
}

/// Middleware that blocks credentials of a network that failed too often, and counts credentials that are rejected as
/// wrong.
pub(super) async fn limit(failures: Option<&Arc<Failures>>, address: IpAddr, mut request: Request, next: Next) -> Response {
    let Some(failures) = failures else { return next.run(request).await };
    let (sender, shown) = (failures.sender(address, request.headers()), ShownCredential::by(request.headers()));
    if shown == ShownCredential::Nothing {
        return next.run(request).await;
    }
    if shown == ShownCredential::Known
        && let Err(refused) = failures.check(sender)
    {
        return refused.before_lookup(&offered(request.headers())).into_response();
    }
    let limit = CredentialLimit::new(failures, sender);
    request.extensions_mut().insert(limit.clone());
    let response = next.run(request).await;
    if code_of(&response) != Some(Code::Unauthorized) || limit.was_wrong.load(Ordering::SeqCst) {
        return response;
    }
    // The request was rejected before a credential was checked. A foreign token counts as a wrong credential only here,
    // where one of the host's own was required.
    if let Err(refused) = failures.check(sender) {
        return refused.into_response();
    }
    failures.count(sender);
    response
}

/// The kind of credential that a request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownCredential {
    Nothing,
    /// A bearer token that is not a developer credit. It is a wrong credential where one is required, and ignored
    /// elsewhere.
    Foreign,
    Known,
}

impl ShownCredential {
    fn by(headers: &HeaderMap) -> Self {
        if header_names::shows_caller(headers) || credit(headers).is_some() {
            Self::Known
        } else if bearer(headers).is_some() {
            Self::Foreign
        } else {
            Self::Nothing
        }
    }
}

/// Checks credentials of the sender where they are looked up.
#[derive(Debug)]
struct LookedUpCredentials {
    failures: Arc<Failures>,
    sender: Sender,
}

impl CredentialObserver for LookedUpCredentials {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn CredentialLookup>, RunLimitReached>> {
        Box::pin(async move {
            let (max, attempts) = (self.failures.per_minute(), self.failures.of(self.sender));
            let lookup = |attempt| Box::new(CredentialCheck { attempts: vec![attempt], was_wrong: None }) as Box<dyn CredentialLookup>;
            let slowed = |error| {
                let (bound, wait) = bound(error);
                RunLimitReached { bound, max, window: WINDOW, wait }
            };
            attempts.begin(self.sender.network).await.map(lookup).map_err(slowed)
        })
    }
}

#[cfg(test)]
mod tests;
