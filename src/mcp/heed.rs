//! Parses the parts of a message that the transport needs before rmcp parses it.

use std::borrow::Cow;

use axum::http::{HeaderMap, StatusCode};
use rmcp::model::{JsonObject, ProtocolVersion, RequestId};
use serde::Deserialize;

use super::{
    cancel::{Cancellable, Session},
    direct::REVISION,
    front::Front,
    revision::sole,
};

/// Maximum message that is parsed before rmcp, in bytes. `initialize` and cancellations are small.
pub(super) const MAX_HEEDED_BYTES: usize = 64 << 10;

/// The first request in older revisions.
const INITIALIZE: &str = "initialize";

/// The method of 2026-07-28 that opens a stream of changes.
const LISTEN: &str = "subscriptions/listen";

/// The notification that cancels a call.
const CANCELLED: &str = "notifications/cancelled";

/// Methods that return lists and documents, which contain nothing of a call.
const DOCUMENTS: [&str; 2] = ["tools/list", "server/discover"];

/// The kind of a message, as far as the transport needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asks {
    /// The response is a document with a session id.
    ToBegin,
    /// The response is a list or a document.
    ForDocument,
    /// A method that only other revisions have. The status is the one that the revision specifies for an unknown
    /// method.
    ForAbsent { id: RequestId, method: &'static str, status: StatusCode },
    /// Anything else, possibly a call.
    ForOther,
}

/// The parts of a message that the transport needs.
#[derive(Deserialize)]
struct Heeded<'a> {
    id: Option<RequestId>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: Option<HeededParams>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeededParams {
    request_id: Option<RequestId>,
    #[serde(rename = "_meta")]
    meta: Option<JsonObject>,
}

/// Determines the kind of a message. Also cancels the call that a cancellation of an older revision names.
pub(super) fn heed(front: &Front, headers: &HeaderMap, body: &[u8]) -> Asks {
    let modern = sole(headers, "mcp-protocol-version") == Some(ProtocolVersion::V_2026_07_28.as_str());
    let method = sole(headers, "mcp-method");
    if modern && method.is_some_and(|method| method != INITIALIZE) {
        // rmcp checks that the header matches the message.
        let documents = |method| DOCUMENTS.contains(&method);
        return if method.is_some_and(documents) { Asks::ForDocument } else { Asks::ForOther };
    }
    if body.len() > MAX_HEEDED_BYTES {
        return Asks::ForOther;
    }
    let Ok(Heeded { id, method, params }) = serde_json::from_slice(body) else { return Asks::ForOther };
    // Requests of 2026-07-28 name their revision in `_meta`.
    let says_modern = params.as_ref().and_then(|params| params.meta.as_ref()).is_some_and(|meta| meta.contains_key(REVISION));
    let absent = |method, status| id.map_or(Asks::ForOther, |id| Asks::ForAbsent { id, method, status });
    match &*method {
        INITIALIZE if says_modern => return absent(INITIALIZE, StatusCode::NOT_FOUND),
        INITIALIZE => return Asks::ToBegin,
        LISTEN if !modern && !says_modern => return absent(LISTEN, StatusCode::OK),
        _ => {}
    }
    if modern {
        return Asks::ForOther;
    }
    if method == CANCELLED
        && let (Some(session), Some(id)) = (Session::of(headers), params.and_then(|params| params.request_id))
        && !front.cancellable.cancel(session, id.clone())
        && let Some(name) = Cancellable::name(session, &id)
    {
        front.recalls.tell_of_unsure(name);
    }
    match &*method {
        method if DOCUMENTS.contains(&method) => Asks::ForDocument,
        _ => Asks::ForOther,
    }
}
