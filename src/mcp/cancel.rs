//! `notifications/cancelled` of older revisions, which arrives as a separate request.
//!
//! It names a call by session and request id. A session is only a name: 128 random bits, sent in the answer to
//! `initialize` and not stored, which the client repeats in each request. So only the client that received it can
//! cancel its calls. Addresses and credentials would not work, because clients count ids from one, and two of them can
//! share a proxy or a credit. If another replica of the host runs the call, it is found there by the same name.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue};
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;
use tollhouse_base::lock::Lock;
use tollhouse_front::header_names::MCP_SESSION;

use super::{remote_cancel::Cancelable, revision::sole};

/// Maximum calls that can be canceled at a time. Further calls run to their end.
const MAX_CALLS: usize = 65_536;

/// Maximum time by which the clock of another replica is behind.
const AHEAD: Duration = Duration::from_secs(1);

/// Maximum id of a call that can be canceled, in bytes.
pub(super) const MAX_ID: usize = 128;

/// The session id sent in the answer to `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientSession([u8; 16]);

impl ClientSession {
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
pub(super) struct CancelableCalls {
    calls: Lock<HashMap<(ClientSession, RequestId), CancelEntry>>,
}

#[derive(Debug, Clone)]
struct CancelEntry {
    cancel: CancellationToken,
    at: Instant,
}

/// A call that can be canceled until this is dropped.
pub(super) struct CancelGuard {
    calls: Arc<CancelableCalls>,
    key: (ClientSession, RequestId),
    pub(super) cancel: CancellationToken,
}

impl CancelableCalls {
    /// Registers a call. Returns `None` if the id is in use or too long, or if there is no room.
    pub(super) fn hold(self: &Arc<Self>, session: ClientSession, id: &RequestId) -> Option<CancelGuard> {
        if is_long(id) {
            return None;
        }
        let (key, cancel) = ((session, id.clone()), CancellationToken::new());
        let mut calls = self.calls.lock();
        if calls.len() >= MAX_CALLS {
            return None;
        }
        match calls.entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(permit) => permit.insert(CancelEntry { cancel: cancel.clone(), at: Instant::now() }),
        };
        drop(calls);
        Some(CancelGuard { calls: Arc::clone(self), key, cancel })
    }

    /// Cancels a call. Returns false if it is not registered here: it ended, never existed, or runs elsewhere.
    pub(super) fn cancel(&self, session: ClientSession, id: RequestId) -> bool {
        self.cancel_if(&(session, id), |_| true)
    }

    fn cancel_if(&self, key: &(ClientSession, RequestId), is_meant: impl FnOnce(&CancelEntry) -> bool) -> bool {
        let started = self.calls.lock().get(key).filter(|started| is_meant(started)).cloned();
        started.map(|started| started.cancel.cancel()).is_some()
    }

    /// Returns the name of a call among replicas, or `None` if its id is too long to be registered.
    pub(super) fn name(session: ClientSession, id: &RequestId) -> Option<String> {
        let id = Some(id).filter(|id| !is_long(id)).and_then(|id| serde_json::to_string(id).ok())?;
        Some(format!("{}/{id}", hex::encode(session.0)))
    }
}

impl Cancelable for CancelableCalls {
    fn any(&self) -> bool {
        !self.calls.lock().is_empty()
    }

    /// Skips a call that began after the cancellation, because a client can reuse an id.
    fn cancel_named(&self, name: &str, ago: Duration) -> bool {
        let Some((session, id)) = name.split_once('/') else { return false };
        match (ClientSession::read(session), serde_json::from_str(id)) {
            (Some(session), Ok(id)) => self.cancel_if(&(session, id), |started| started.at.elapsed() + AHEAD >= ago),
            _ => false,
        }
    }
}

pub(super) fn is_long(id: &RequestId) -> bool {
    matches!(id, RequestId::String(text) if text.len() > MAX_ID)
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.calls.calls.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_session_and_id_of_a_call_cancel_it() {
        let (calls, session, other) = (Arc::new(CancelableCalls::default()), ClientSession::new().unwrap(), ClientSession::new().unwrap());
        let held = calls.hold(session, &RequestId::Number(1)).unwrap();
        for (session, id) in [(other, RequestId::Number(1)), (session, RequestId::Number(2)), (session, RequestId::String("1".into()))] {
            assert!(!calls.cancel(session, id));
        }
        assert!(!held.cancel.is_cancelled());
        assert!(calls.hold(session, &RequestId::Number(1)).is_none(), "an id names one call");
        let cancel = |session, ago| calls.cancel_named(&CancelableCalls::name(session, &RequestId::Number(1)).unwrap(), ago);
        assert!(!cancel(other, Duration::ZERO) && !calls.cancel_named("task_1", Duration::ZERO));
        assert!(!cancel(session, Duration::from_secs(20)), "it was requested before the call began");
        assert!(cancel(session, Duration::ZERO));
        assert!(held.cancel.is_cancelled());
        drop(held);
        assert!(calls.calls.lock().is_empty());
        assert!(!calls.hold(session, &RequestId::Number(1)).unwrap().cancel.is_cancelled(), "a later call is not canceled");
    }

    #[test]
    fn cancelable_calls_and_their_ids_are_bounded() {
        let (calls, session) = (Arc::new(CancelableCalls::default()), ClientSession::new().unwrap());
        let long = RequestId::String("x".repeat(MAX_ID + 1).into());
        assert!(calls.hold(session, &long).is_none() && CancelableCalls::name(session, &long).is_none());
        let held: Vec<_> = (0..=MAX_CALLS as i64).filter_map(|id| calls.hold(session, &RequestId::Number(id))).collect();
        assert_eq!(held.len(), MAX_CALLS);
        drop(held);
        assert!(calls.calls.lock().is_empty());
    }

    #[test]
    fn a_session_id_survives_a_round_trip() {
        let session = ClientSession::new().unwrap();
        let headers = |value: HeaderValue| HeaderMap::from_iter([(MCP_SESSION.clone(), value)]);
        assert_eq!(ClientSession::of(&headers(session.to_header())), Some(session));
        for other in ["", "1", "session", "00112233445566778899aabbccddeeff00"] {
            assert_eq!(ClientSession::of(&headers(HeaderValue::from_static(other))), None);
        }
    }
}
