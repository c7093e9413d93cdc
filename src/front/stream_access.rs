//! Access to a stream: a stream ends once the credential that opened it is no longer valid.
//!
//! A check reads the store only if it must. This host counts all changes of builders, including those by other hosts,
//! and the sessions that it ends itself. While these counts stay the same, a check stays valid for a while.

use std::{sync::Arc, time::Duration};
use tollhouse_base::boxed;

use axum::http::{HeaderMap, request::Parts};
use tokio::time::Instant;
use tollhouse_account::session::{SessionName, Sessions};
use tollhouse_store::StoreError;

use super::{api_error::ApiError, caller::Authenticator, error_codes::Code, header_names};

/// How long events can be sent after a check, because another host can end a session without this host knowing.
const VALID_FOR_EVENTS: Duration = Duration::from_secs(1);
/// How long a check lasts while a stream is idle. With [`StreamAccess::CHECK_EVERY`], such a stream ends within five
/// seconds.
const VALID_WHILE_IDLE: Duration = Duration::from_secs(4);

/// The session through which the dashboard sends a request, in the request's extensions.
#[derive(Debug, Clone)]
pub struct RequestSession {
    sessions: Arc<Sessions>,
    owner: String,
    name: SessionName,
}

/// Checks repeatedly whether the credential of an open stream is still valid.
pub struct StreamAccess {
    callers: Arc<Authenticator>,
    /// The headers with the credential.
    credential: HeaderMap,
    session: Option<RequestSession>,
    checked: Option<AccessCheck>,
}

/// A check that allowed access.
#[derive(Debug, Clone, Copy)]
struct AccessCheck {
    at: Instant,
    revisions: Revisions,
}

/// The numbers of changes of builders and of sessions that this host knows of.
type Revisions = (u64, u64);

impl RequestSession {
    /// Returns the session of `owner` with this name.
    #[must_use]
    pub fn new(sessions: Arc<Sessions>, owner: String, name: SessionName) -> Self {
        Self { sessions, owner, name }
    }
}

impl StreamAccess {
    /// How often to check a stream without events.
    pub const CHECK_EVERY: Duration = Duration::from_secs(1);

    /// Returns the access of a stream that this request opens. The first check reads the store.
    #[must_use]
    pub fn of(callers: &Arc<Authenticator>, request: &Parts) -> Self {
        let mut credential = HeaderMap::new();
        for name in [&header_names::ADMIN_TOKEN, &header_names::BUILDER_KEY] {
            if let Some(value) = request.headers.get(name) {
                credential.insert(name, value.clone());
            }
        }
        Self { callers: Arc::clone(callers), credential, session: request.extensions.get().cloned(), checked: None }
    }

    /// Checks whether an event can be sent. Send nothing more after an error.
    ///
    /// # Errors
    ///
    /// The credential is no longer valid, its session has ended, or its builder is suspended. Errors of the store.
    #[boxed]
    pub async fn check(&mut self) -> Result<(), ApiError> {
        self.checked_within(VALID_FOR_EVENTS).await?
    }

    /// Checks the access while there is nothing to send. Errors of the store are ignored, because nothing is sent
    /// before the next check.
    ///
    /// # Errors
    ///
    /// The credential is no longer valid, its session has ended, or its builder is suspended.
    #[boxed]
    pub async fn check_idle(&mut self) -> Result<(), ApiError> {
        self.checked_within(VALID_WHILE_IDLE).await.unwrap_or(Ok(()))
    }

    /// Checks the access, unless a check that is younger than `age` is still valid.
    async fn checked_within(&mut self, age: Duration) -> Result<Result<(), ApiError>, StoreError> {
        // The revisions are read first, so that the next check notices a change during this one.
        let now = AccessCheck { at: Instant::now(), revisions: self.revisions() };
        if self.checked.is_some_and(|last| last.revisions == now.revisions && last.at.elapsed() < age) {
            return Ok(Ok(()));
        }
        if let Some(RequestSession { sessions, owner, name }) = &self.session
            && !sessions.is_open(owner, name).await?
        {
            return Ok(Err(Code::Unauthorized.into()));
        }
        let admitted = match self.callers.holder(&self.credential).await? {
            Some(caller) => caller.admitted().map(|_| ()),
            None => Err(Code::Unauthorized.into()),
        };
        if admitted.is_ok() {
            self.checked = Some(now);
        }
        Ok(admitted)
    }

    fn revisions(&self) -> Revisions {
        (self.callers.revision(), self.session.as_ref().map_or(0, |session| session.sessions.revision()))
    }
}

#[cfg(test)]
mod tests;
