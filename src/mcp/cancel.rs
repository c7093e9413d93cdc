//! `notifications/cancelled` of the older revisions, which comes in a request of its own.
//!
//! The call that it means is found by its session and its id. A session is no more than a name: 128 random bits, given with the
//! answer to `initialize` and kept nowhere, which a client repeats with each request. Only who was given it can so take back
//! what runs under it. An address or a credential would not do instead: clients count their ids from one, and two of them may
//! come through one proxy or spend one credit.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::{HeaderMap, HeaderValue};
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

use super::revision::sole;
use crate::front::names::MCP_SESSION;

/// Calls that can be taken back at a time. Those beyond it run to their end.
const MAX_CALLS: usize = 65_536;

/// Longest id of a call that can be taken back, in bytes.
const MAX_ID: usize = 128;

/// What a client was given with the answer to `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Session([u8; 16]);

impl Session {
    /// A new one; `None` where the system gives no randomness.
    pub(super) fn new() -> Option<Self> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).ok()?;
        Some(Self(bits))
    }

    /// The one that a request names. What cannot be ours is none.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut bits = [0; 16];
        hex::decode_to_slice(sole(headers, MCP_SESSION.as_str())?, &mut bits).ok()?;
        Some(Self(bits))
    }

    pub(super) fn to_header(self) -> HeaderValue {
        HeaderValue::try_from(hex::encode(self.0)).expect("hex digits are visible ASCII")
    }
}

/// The calls under way that their callers can take back.
#[derive(Debug, Default)]
pub(super) struct Cancellable {
    calls: Mutex<HashMap<(Session, RequestId), CancellationToken>>,
}

/// A call that can be taken back until this is dropped.
pub(super) struct Held {
    calls: Arc<Cancellable>,
    key: (Session, RequestId),
    pub(super) cancel: CancellationToken,
}

impl Cancellable {
    /// `None` for an id that is in use already, and for more than there is room for.
    pub(super) fn hold(self: &Arc<Self>, session: Session, id: &RequestId) -> Option<Held> {
        if matches!(id, RequestId::String(text) if text.len() > MAX_ID) {
            return None;
        }
        let (key, cancel) = ((session, id.clone()), CancellationToken::new());
        let mut calls = self.calls();
        if calls.len() >= MAX_CALLS {
            return None;
        }
        match calls.entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(cancel.clone()),
        };
        drop(calls);
        Some(Held { calls: Arc::clone(self), key, cancel })
    }

    /// Takes a call back. One that has ended, or never was, is nothing to complain of.
    pub(super) fn cancel(&self, session: Session, id: RequestId) {
        let cancel = self.calls().get(&(session, id)).cloned();
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<(Session, RequestId), CancellationToken>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        calls.cancel(other, RequestId::Number(1));
        calls.cancel(session, RequestId::Number(2));
        calls.cancel(session, RequestId::String("1".into()));
        assert!(!held.cancel.is_cancelled());
        assert!(calls.hold(session, &RequestId::Number(1)).is_none(), "an id is one call's");
        calls.cancel(session, RequestId::Number(1));
        assert!(held.cancel.is_cancelled());
        drop(held);
        assert!(calls.calls().is_empty());
        assert!(!calls.hold(session, &RequestId::Number(1)).unwrap().cancel.is_cancelled(), "a later call is another");
    }

    #[test]
    fn what_calls_are_found_by_is_bounded() {
        let (calls, session) = (Arc::new(Cancellable::default()), Session::new().unwrap());
        assert!(calls.hold(session, &RequestId::String("x".repeat(MAX_ID + 1).into())).is_none());
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
