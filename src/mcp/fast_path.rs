//! The fast path for plain `tools/call` and `tools/list` requests: parsed once, performed, answered as JSON.
//!
//! Only fully valid requests take it. rmcp handles all others and reports all errors. So no protocol rule is
//! implemented twice, and a request that is not understood here loses nothing.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::Bytes,
    http::{HeaderMap, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use rmcp::model::{
    ClientCapabilities, JsonObject, JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, MetaObject, ProtocolVersion, RequestId, ServerResult,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tollhouse_base::offload::run_blocking;
use tollhouse_front::peer;
use tollhouse_store::StoreError;
use tollhouse_telemetry::counters::MCP_REQUESTS;

use super::{
    accepted_forms::AcceptedForms,
    arguments::Arguments,
    call, chunked_body, extension,
    front::McpFront,
    refusal,
    request::CallRequest,
    revision::{Era, era, is_json, sole},
    tool_filter::ToolFilter,
    tools::{self, ToolPage},
};

/// Keys of a request's `_meta`.
pub(super) const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const PROGRESS: &str = "progressToken";

/// The exact fields of a plain call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallMessage<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta")]
    meta: Option<JsonObject>,
}

/// A fully valid `tools/call`.
pub(super) struct PlainCall<'a> {
    id: RequestId,
    name: &'a str,
    arguments: Arguments,
    meta: MetaObject,
    era: Era,
    /// The client knows x402's extension.
    extension: bool,
}

impl<'a> PlainCall<'a> {
    /// Parses a message. Returns `None` for anything else, valid or not.
    pub(super) fn read(front: &McpFront, headers: &HeaderMap, accepted: AcceptedForms, body: &'a Bytes) -> Option<Self> {
        let era = era(headers)?;
        if accepted == AcceptedForms::EventsOnly || !is_json(headers) {
            return None;
        }
        let CallMessage { jsonrpc: "2.0", id, method: "tools/call", params } = serde_json::from_slice(body).ok()? else { return None };
        let Params { name, arguments, meta } = params;
        let arguments = Arguments::within(body, arguments)?;
        let meta = meta.unwrap_or_default();
        // A client that gets progress needs a stream.
        if meta.contains_key(PROGRESS) && accepted != AcceptedForms::JsonOnly {
            return None;
        }
        let listed = tools::found(&front.services, name)?;
        let extension = match agreed(era, headers, &meta, "tools/call")? {
            None => false,
            Some(capabilities) => {
                let named = sole(headers, "mcp-name") == Some(name);
                if !named || listed.in_headers.is_some() || (listed.long_running && capabilities.supports_tasks()) {
                    return None;
                }
                extension::declared(&capabilities)
            }
        };
        Some(Self { id, name, arguments, meta: MetaObject(meta), era, extension })
    }

    /// Performs the call and returns its response. In 2026-07-28, dropping the future cancels the call.
    pub(super) async fn answer(self, front: &Arc<McpFront>, parts: &Parts) -> Response {
        let Self { id, name, arguments, meta, era, extension } = self;
        let request = CallRequest { id: &id, name, meta: &meta, parts, era, takes_tasks: false, subscriber: None, caller_gone: None };
        match call::perform(front, request, arguments).await {
            Ok(reported) => {
                let (bytes, result) = (reported.bytes(), reported.written(era, extension));
                run_blocking(bytes, move || json(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result })).await
            }
            Err(error) => json(&JsonRpcError::new(Some(id), error)),
        }
    }
}

/// The exact fields of a plain list request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListMessage<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(default)]
    params: ListParams,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ListParams {
    cursor: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: JsonObject,
}

/// Returns whether a message has a cursor other than `null`, with which some clients request the first page. rmcp
/// ignores a cursor that is not text.
pub(super) fn has_cursor(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Listing {
        params: Option<BTreeMap<String, Option<IgnoredAny>>>,
    }
    let has = |params: &BTreeMap<_, Option<_>>| params.get("cursor").is_some_and(Option::is_some);
    serde_json::from_slice(message).is_ok_and(|Listing { params }| params.as_ref().is_some_and(has))
}

/// Returns the tool that a message calls, whether or not the message is valid.
pub(super) fn called(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct CallTarget {
        method: String,
        params: NamedTool,
    }
    #[derive(Deserialize)]
    struct NamedTool {
        name: String,
    }
    let CallTarget { method, params } = serde_json::from_slice(message).ok()?;
    (method == "tools/call").then_some(params.name)
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
pub(super) async fn listed(front: &McpFront, parts: &Parts, accepted: AcceptedForms, body: &[u8]) -> Option<Response> {
    let era = era(&parts.headers)?;
    if !is_json(&parts.headers) {
        return None;
    }
    let message = run_blocking(body.len(), || serde_json::from_slice(body).ok()).await?;
    let ListMessage { jsonrpc: "2.0", id, method: "tools/list", params } = message else { return None };
    agreed(era, &parts.headers, &params.meta, "tools/list").filter(|_| !params.meta.contains_key(PROGRESS))?;
    // If the store is unavailable, rmcp's path reports it.
    let turn = match front.services.shared.limits.turn(peer(&parts.extensions)).await {
        Ok(turn) => turn,
        Err(fault) => return Some(refusal::of_message(Some(id), fault)),
    };
    let result = turn.during(list(front, &ToolFilter::of(parts), era, params.cursor.as_deref())).await.ok()??;
    MCP_REQUESTS.count(["tools/list"]);
    let id = serde_json::to_string(&id).ok()?;
    let begins = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    Some(match accepted {
        AcceptedForms::EventsOnly => chunked_body::event([Bytes::from(format!("data: {begins}")), result, Bytes::from_static(b"}\n\n")]),
        AcceptedForms::Both | AcceptedForms::JsonOnly => chunked_body::json([Bytes::from(begins), result, Bytes::from_static(b"}")]),
    })
}

/// Returns the serialized result of a list request. A page that is the same for everyone is cached. Returns `None` for
/// an invalid cursor.
async fn list(front: &McpFront, narrowed: &ToolFilter, era: Era, cursor: Option<&str>) -> Result<Option<Bytes>, StoreError> {
    let for_everyone = narrowed.0.is_none();
    // Read the change count before building the page, so that a later change causes a rebuild.
    let at = front.changes();
    if for_everyone && let Some(result) = front.lists.get(at, era, cursor) {
        return Ok(Some(result));
    }
    let Some(page) = tools::page(&front.services, narrowed, cursor).await? else { return Ok(None) };
    let bytes = page.json(era).iter().map(|json| json.get().len()).sum();
    let Some(result) = run_blocking(bytes, || written(front, &page, era)).await else { return Ok(None) };
    if for_everyone {
        front.lists.keep(at, era, cursor, &result);
    }
    Ok(Some(result))
}

fn written(front: &McpFront, page: &ToolPage, era: Era) -> Option<Bytes> {
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
pub(super) fn agreed(era: Era, headers: &HeaderMap, meta: &JsonObject, method: &str) -> Option<Option<ClientCapabilities>> {
    if era == Era::Legacy {
        return (!meta.contains_key(REVISION)).then_some(None);
    }
    let capabilities = ClientCapabilities::deserialize(meta.get(CAPABILITIES)?).ok()?;
    let newest = ProtocolVersion::V_2026_07_28;
    let agreed = meta.get(REVISION)?.as_str() == Some(newest.as_str()) && sole(headers, "mcp-method") == Some(method);
    agreed.then_some(Some(capabilities))
}

fn json(message: &impl Serialize) -> Response {
    let body = Bytes::from(serde_json::to_vec(message).expect("messages have text keys"));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
