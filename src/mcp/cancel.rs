//! `notifications/cancelled` of older revisions, which arrives as a separate request.
//!
//! It names a call by session and request id. A session is only a name: 128 random bits, sent in the answer to
//! `initialize` and not stored, which the client repeats in each request. So only the client that received it can
//! cancel its calls. Addresses and credentials would not work, because clients count ids from one, and two of them can
//! share a proxy or a credit. If another replica of the host runs the call, it is found there by the same name.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue};
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;
use tollhouse_front::names::MCP_SESSION;

use super::{recalls::Recallable, revision::sole};

/// Maximum calls that can be canceled at a time. Further calls run to their end.
const MAX_CALLS: usize = 65_536;

/// Maximum time by which the clock of another replica is behind.
const AHEAD: Duration = Duration::from_secs(1);

/// Maximum id of a call that can be canceled, in bytes.
pub(super) const MAX_ID: usize = 128;

/// The session id sent in the answer to `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Session([u8; 16]);

impl Session {
    /// Generates a session id. Returns `None` if the system provides no randomness.
    pub(super) fn new() -> Option<Self> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).ok()?;
        Some(Self(bits))
    }

    /// Returns the session id of a request, or `None` if it is missing or malformed.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        Self::read(sole(headers, MCP_SESSION.as_str())?)
    }

    fn read(text: &str) -> Option<Self> {
        let mut bits = [0; 16];
        hex::decode_to_slice(text, &mut bits).ok()?;
        Some(Self(bits))
    }

    pub(super) fn to_header(self) -> HeaderValue {
        HeaderValue::try_from(hex::encode(self.0)).expect("hex digits are visible ASCII")
    }
}

/// The running calls that their callers can cancel.
#[derive(Debug, Default)]
pub(super) struct Cancellable {
    calls: Mutex<HashMap<(Session, RequestId), Begun>>,
}

#[derive(Debug, Clone)]
struct Begun {
    cancel: CancellationToken,
    at: Instant,
}

/// A call that can be canceled until this is dropped.
pub(super) struct Held {
    calls: Arc<Cancellable>,
    key: (Session, RequestId),
    pub(super) cancel: CancellationToken,
}

impl Cancellable {
    /// Registers a call. Returns `None` if the id is in use or too long, or if there is no room.
    pub(super) fn hold(self: &Arc<Self>, session: Session, id: &RequestId) -> Option<Held> {
        if is_long(id) {
            return None;
        }
        let (key, cancel) = ((session, id.clone()), CancellationToken::new());
        let mut calls = self.calls();
        if calls.len() >= MAX_CALLS {
            return None;
        }
        match calls.entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(Begun { cancel: cancel.clone(), at: Instant::now() }),
        };
        drop(calls);
        Some(Held { calls: Arc::clone(self), key, cancel })
    }

    /// Cancels a call. Returns false if it is not registered here: it ended, never existed, or runs elsewhere.
    pub(super) fn cancel(&self, session: Session, id: RequestId) -> bool {
        self.cancel_begun(&(session, id), |_| true)
    }

    fn cancel_begun(&self, key: &(Session, RequestId), is_meant: impl FnOnce(&Begun) -> bool) -> bool {
        let begun = self.calls().get(key).filter(|begun| is_meant(begun)).cloned();
        begun.map(|begun| begun.cancel.cancel()).is_some()
    }

    /// Returns the name of a call among replicas, or `None` if its id is too long to be registered.
    pub(super) fn name(session: Session, id: &RequestId) -> Option<String> {
        let id = Some(id).filter(|id| !is_long(id)).and_then(|id| serde_json::to_string(id).ok())?;
        Some(format!("{}/{id}", hex::encode(session.0)))
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<(Session, RequestId), Begun>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recallable for Cancellable {
    fn any(&self) -> bool {
        !self.calls().is_empty()
    }

    /// Skips a call that began after the cancellation, because a client can reuse an id.
    fn recall(&self, name: &str, ago: Duration) -> bool {
        let Some((session, id)) = name.split_once('/') else { return false };
        match (Session::read(session), serde_json::from_str(id)) {
            (Some(session), Ok(id)) => self.cancel_begun(&(session, id), |begun| begun.at.elapsed() + AHEAD >= ago),
            _ => false,
        }
    }
}

pub(super) fn is_long(id: &RequestId) -> bool {
    matches!(id, RequestId::String(text) if text.len() > MAX_ID)
}

impl Drop for Held {
    fn drop(&mut self) {
        self.calls.calls().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_back_by_its_own_session_and_id_alone() {
        let (calls, session, other) = (Arc::new(Cancellable::default()), Session::new().unwrap(), Session::new().unwrap());
        let held = calls.hold(session, &RequestId::Number(1)).unwrap();
        for (session, id) in [(other, RequestId::Number(1)), (session, RequestId::Number(2)), (session, RequestId::String("1".into()))] {
            assert!(!calls.cancel(session, id));
        }
        assert!(!held.cancel.is_cancelled());
        assert!(calls.hold(session, &RequestId::Number(1)).is_none(), "an id is one call's");
        let recall = |session, ago| calls.recall(&Cancellable::name(session, &RequestId::Number(1)).unwrap(), ago);
        assert!(!recall(other, Duration::ZERO) && !calls.recall("task_1", Duration::ZERO));
        assert!(!recall(session, Duration::from_secs(20)), "that was asked for before it began");
        assert!(recall(session, Duration::ZERO));
        assert!(held.cancel.is_cancelled());
        drop(held);
        assert!(calls.calls().is_empty());
        assert!(!calls.hold(session, &RequestId::Number(1)).unwrap().cancel.is_cancelled(), "a later call is another");
    }

    #[test]
    fn what_calls_are_found_by_is_bounded() {
        let (calls, session) = (Arc::new(Cancellable::default()), Session::new().unwrap());
        let long = RequestId::String("x".repeat(MAX_ID + 1).into());
        assert!(calls.hold(session, &long).is_none() && Cancellable::name(session, &long).is_none());
        let held: Vec<_> = (0..=MAX_CALLS as i64).filter_map(|id| calls.hold(session, &RequestId::Number(id))).collect();
        assert_eq!(held.len(), MAX_CALLS);
        drop(held);
        assert!(calls.calls().is_empty());
    }

    #[test]
    fn a_session_reads_as_it_was_given() {
        let session = Session::new().unwrap();
        let headers = |value: HeaderValue| HeaderMap::from_iter([(MCP_SESSION.clone(), value)]);
        assert_eq!(Session::of(&headers(session.to_header())), Some(session));
        for other in ["", "1", "session", "00112233445566778899aabbccddeeff00"] {
            assert_eq!(Session::of(&headers(HeaderValue::from_static(other))), None);
        }
    }
}
