//! Parses the parts of a message that the transport needs before rmcp parses it.

use std::borrow::Cow;

use axum::http::{HeaderMap, StatusCode};
use rmcp::model::{JsonObject, ProtocolVersion, RequestId};
use serde::Deserialize;

use super::{
    cancel::{CancelableCalls, ClientSession},
    fast_path::REVISION,
    front::McpFront,
    revision::sole,
};

/// Maximum message that is parsed before rmcp, in bytes. `initialize` and cancellations are small.
pub(super) const MAX_PREPARSED_BYTES: usize = 64 << 10;

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
pub(super) enum MessageKind {
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
struct MessageHead<'a> {
    id: Option<RequestId>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: Option<HeadParams>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadParams {
    request_id: Option<RequestId>,
    #[serde(rename = "_meta")]
    meta: Option<JsonObject>,
}

/// Determines the kind of a message. Also cancels the call that a cancellation of an older revision names.
pub(super) fn preparse(front: &McpFront, headers: &HeaderMap, body: &[u8]) -> MessageKind {
    let modern = sole(headers, "mcp-protocol-version") == Some(ProtocolVersion::V_2026_07_28.as_str());
    let method = sole(headers, "mcp-method");
    if modern && method.is_some_and(|method| method != INITIALIZE) {
        // rmcp checks that the header matches the message.
        let documents = |method| DOCUMENTS.contains(&method);
        return if method.is_some_and(documents) { MessageKind::ForDocument } else { MessageKind::ForOther };
    }
    if body.len() > MAX_PREPARSED_BYTES {
        return MessageKind::ForOther;
    }
    let Ok(MessageHead { id, method, params }) = serde_json::from_slice(body) else { return MessageKind::ForOther };
    // Requests of 2026-07-28 name their revision in `_meta`.
    let says_modern = params.as_ref().and_then(|params| params.meta.as_ref()).is_some_and(|meta| meta.contains_key(REVISION));
    let absent = |method, status| id.map_or(MessageKind::ForOther, |id| MessageKind::ForAbsent { id, method, status });
    match &*method {
        INITIALIZE if says_modern => return absent(INITIALIZE, StatusCode::NOT_FOUND),
        INITIALIZE => return MessageKind::ToBegin,
        LISTEN if !modern && !says_modern => return absent(LISTEN, StatusCode::OK),
        _ => {}
    }
    if modern {
        return MessageKind::ForOther;
    }
    if method == CANCELLED
        && let (Some(session), Some(id)) = (ClientSession::of(headers), params.and_then(|params| params.request_id))
        && !front.cancellable.cancel(session, id.clone())
        && let Some(name) = CancelableCalls::name(session, &id)
    {
        front.recalls.request_cancel_if_unsure(name);
    }
    match &*method {
        method if DOCUMENTS.contains(&method) => MessageKind::ForDocument,
        _ => MessageKind::ForOther,
    }
}
