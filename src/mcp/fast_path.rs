//! The fast path for plain `tools/call` and `tools/list` requests, which are performed without rmcp and answered as JSON.
//!
//! Only fully valid requests take it. rmcp handles all others and reports all errors. So no protocol rule is
//! implemented twice, and a request that is not understood here loses nothing.

use std::sync::Arc;

use axum::{
    body::Bytes,
    http::{HeaderMap, request::Parts},
    response::Response,
};
use rmcp::model::{
    ClientCapabilities, JsonObject, JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, MetaObject, ProtocolVersion, ServerResult,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tollhouse_base::offload::run_blocking;
use tollhouse_front::peer;
use tollhouse_store::StoreError;
use tollhouse_telemetry::counters::MCP_REQUESTS;

use super::{
    accepted_forms::AcceptedForms,
    answer::declares_extension,
    arguments::Arguments,
    call, chunked_body,
    front::McpFront,
    message::{CALL, LIST, Message},
    refusal,
    request::CallRequest,
    revision::{Era, era, sole},
    tool_filter::ToolFilter,
    tools::{self, ToolPage},
};

/// Keys of a request's `_meta`.
pub(super) const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const PROGRESS: &str = "progressToken";

/// Performs a fully valid `tools/call`. Returns `None` for anything else. In 2026-07-28, dropping the future cancels the
/// call.
pub(super) async fn call(
    front: &Arc<McpFront>,
    parts: &Parts,
    accepted: AcceptedForms,
    message: &Message<'_>,
    arguments: Arguments,
) -> Option<Response> {
    let (id, name, meta) = (message.id.as_ref()?, message.params.name.as_deref()?, &message.params.meta);
    let era = era(&parts.headers)?;
    let streams = match accepted {
        // A client that gets progress needs a stream.
        AcceptedForms::Both => meta.contains_key(PROGRESS),
        AcceptedForms::JsonOnly => false,
        AcceptedForms::EventsOnly => true,
    };
    if streams {
        return None;
    }
    let listed = tools::found(&front.services, name)?;
    let extension = match agreed(era, &parts.headers, meta, CALL)? {
        None => false,
        Some(capabilities) => {
            let named = sole(&parts.headers, "mcp-name") == Some(name);
            if !named || listed.in_headers.is_some() || (listed.long_running && capabilities.supports_tasks()) {
                return None;
            }
            declares_extension(&capabilities)
        }
    };
    let request = CallRequest { id, name, meta, parts, era, takes_tasks: false, subscriber: None, caller_gone: None };
    Some(match call::perform(front, request, arguments).await {
        Ok(answer) => {
            let (bytes, result) = (answer.bytes(), answer.written(era, extension));
            run_blocking(bytes, || json(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id: id.clone(), result })).await
        }
        Err(error) => json(&JsonRpcError::new(Some(id.clone()), error)),
    })
}

/// The result of a list request.
#[derive(Serialize)]
struct WithTools<'a> {
    tools: Vec<&'a RawValue>,
    /// All other fields.
    #[serde(flatten)]
    rest: JsonObject,
}

/// Answers a fully valid `tools/list` from the prepared form of each tool. Returns `None` for anything else.
pub(super) async fn list(front: &McpFront, parts: &Parts, accepted: AcceptedForms, message: &Message<'_>) -> Option<Response> {
    let (id, params, era) = (message.id.as_ref()?, &message.params, era(&parts.headers)?);
    agreed(era, &parts.headers, &params.meta, LIST).filter(|_| !params.meta.contains_key(PROGRESS))?;
    let cursor = params.cursor();
    if params.has_cursor() && cursor.is_none() {
        return None;
    }
    // If the store is unavailable, rmcp's path reports it.
    let turn = match front.services.shared.limits.turn(peer(&parts.extensions)).await {
        Ok(turn) => turn,
        Err(fault) => return Some(refusal::of_message(Some(id.clone()), fault)),
    };
    let result = turn.during(page(front, &ToolFilter::of(parts), era, cursor.as_deref())).await.ok()??;
    MCP_REQUESTS.count([LIST]);
    let id = serde_json::to_string(id).ok()?;
    let begins = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    Some(match accepted {
        AcceptedForms::EventsOnly => chunked_body::event([Bytes::from(format!("data: {begins}")), result, Bytes::from_static(b"}\n\n")]),
        AcceptedForms::Both | AcceptedForms::JsonOnly => chunked_body::json([Bytes::from(begins), result, Bytes::from_static(b"}")]),
    })
}

/// Returns the serialized result of a list request. A page that is the same for everyone is cached. Returns `None` for
/// an invalid cursor.
async fn page(front: &McpFront, filter: &ToolFilter, era: Era, cursor: Option<&str>) -> Result<Option<Bytes>, StoreError> {
    let for_everyone = filter.0.is_none();
    // Read the change count before building the page, so that a later change causes a rebuild.
    let at = front.changes();
    if for_everyone && let Some(result) = front.lists.get(at, era, cursor) {
        return Ok(Some(result));
    }
    let Some(page) = tools::page(&front.services, filter, cursor).await? else { return Ok(None) };
    let bytes = page.json(era).iter().map(|json| json.get().len()).sum();
    let Some(result) = run_blocking(bytes, || serialize_page(front, &page, era)).await else { return Ok(None) };
    if for_everyone {
        front.lists.insert(at, era, cursor, result.clone());
    }
    Ok(Some(result))
}

fn serialize_page(front: &McpFront, page: &ToolPage, era: Era) -> Option<Bytes> {
    let mut result = ServerResult::from(page.list_result(front, era));
    if era == Era::Legacy {
        result.strip_result_type_for_legacy_peer();
    }
    let Value::Object(mut rest) = serde_json::to_value(&result).ok()? else { return None };
    rest.remove("tools");
    serde_json::to_vec(&WithTools { tools: page.json(era), rest }).ok().map(Bytes::from)
}

/// Checks the revision and the method of a request. Returns the capabilities of a client of the newest revision, or
/// `Some(None)` for older ones.
pub(super) fn agreed(era: Era, headers: &HeaderMap, meta: &MetaObject, method: &str) -> Option<Option<ClientCapabilities>> {
    if era == Era::Legacy {
        return (!meta.contains_key(REVISION)).then_some(None);
    }
    let capabilities = ClientCapabilities::deserialize(meta.get(CAPABILITIES)?).ok()?;
    let newest = ProtocolVersion::V_2026_07_28;
    let agreed = meta.get(REVISION)?.as_str() == Some(newest.as_str()) && sole(headers, "mcp-method") == Some(method);
    agreed.then_some(Some(capabilities))
}

fn json(message: &impl Serialize) -> Response {
    chunked_body::json([Bytes::from(serde_json::to_vec(message).expect("messages have text keys"))])
}
