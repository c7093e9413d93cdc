//! What of a message the transport has to know before rmcp reads it.

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

/// Largest message that is heeded on its way to rmcp, in bytes: greetings and cancellations are small.
pub(super) const MAX_HEEDED_BYTES: usize = 64 << 10;

/// The greeting of the older revisions.
const INITIALIZE: &str = "initialize";

/// The method of 2026-07-28 that opens a stream of changes.
const LISTEN: &str = "subscriptions/listen";

/// The notification that takes a call back.
const CANCELLED: &str = "notifications/cancelled";

/// Methods whose answers are lists and documents: none has anything of a call in it.
const DOCUMENTS: [&str; 2] = ["tools/list", "server/discover"];

/// What a message asks for, as far as the transport has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asks {
    /// Its answer is a document, and has a session.
    ToBegin,
    /// Its answer is a list or a document.
    ForDocument,
    /// A method that its revision does not have, though another one has it. The status is what the revision gives an unknown method.
    ForAbsent { id: RequestId, method: &'static str, status: StatusCode },
    /// Anything else: perhaps a call.
    ForOther,
}

/// What of a message the transport itself may heed.
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

/// What a message asks for. Does what one of the older revisions wants of the transport itself: takes back the call that a
/// cancellation names.
pub(super) fn heed(front: &Front, headers: &HeaderMap, body: &[u8]) -> Asks {
    let modern = sole(headers, "mcp-protocol-version") == Some(ProtocolVersion::V_2026_07_28.as_str());
    let method = sole(headers, "mcp-method");
    if modern && method.is_some_and(|method| method != INITIALIZE) {
        // rmcp holds the header against the message.
        let documents = |method| DOCUMENTS.contains(&method);
        return if method.is_some_and(documents) { Asks::ForDocument } else { Asks::ForOther };
    }
    if body.len() > MAX_HEEDED_BYTES {
        return Asks::ForOther;
    }
    let Ok(Heeded { id, method, params }) = serde_json::from_slice(body) else { return Asks::ForOther };
    // Requests of 2026-07-28 say in their `_meta` which revision they are of.
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
