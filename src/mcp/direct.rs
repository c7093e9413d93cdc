//! The short way of a plain `tools/call` or `tools/list`: read once, performed, answered as JSON.
//!
//! Only what is exactly in order goes this way. All else, and so every refusal, is rmcp's: no rule of the protocol
//! stands twice, and what is not understood here is none the worse for it.

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
use tollhouse_base::aside::aside;
use tollhouse_front::peer;
use tollhouse_store::StoreError;
use tollhouse_telemetry::counted::MCP_REQUESTS;

use super::{
    accept::Accepted,
    arguments::Arguments,
    call, extension,
    front::Front,
    narrowed::Narrowed,
    pieces, refusal,
    request::CallRequest,
    revision::{Era, era, is_json, sole},
    tools::{self, Page},
};

/// Keys of a request's `_meta`.
pub(super) const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const PROGRESS: &str = "progressToken";

/// Neither more nor less than a plain call has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
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

/// A `tools/call` that is exactly in order.
pub(super) struct Plain<'a> {
    id: RequestId,
    name: &'a str,
    arguments: Arguments,
    meta: MetaObject,
    era: Era,
    /// Its client knows x402's extension.
    extension: bool,
}

impl<'a> Plain<'a> {
    /// `None` for anything else, whether right or wrong.
    pub(super) fn read(front: &Front, headers: &HeaderMap, accepted: Accepted, body: &'a Bytes) -> Option<Self> {
        let era = era(headers)?;
        if accepted == Accepted::EventsOnly || !is_json(headers) {
            return None;
        }
        let Message { jsonrpc: "2.0", id, method: "tools/call", params } = serde_json::from_slice(body).ok()? else { return None };
        let Params { name, arguments, meta } = params;
        let arguments = Arguments::within(body, arguments)?;
        let meta = meta.unwrap_or_default();
        // Whoever hears of progress is answered with a stream.
        if meta.contains_key(PROGRESS) && accepted != Accepted::JsonOnly {
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

    /// Performs the call and answers it. In 2026-07-28, dropping the future takes the call back.
    pub(super) async fn answer(self, front: &Arc<Front>, parts: &Parts) -> Response {
        let Self { id, name, arguments, meta, era, extension } = self;
        let request = CallRequest { id: &id, name, meta: &meta, parts, era, takes_tasks: false, subscriber: None, gone: None };
        match call::perform(front, request, arguments).await {
            Ok(told) => {
                let (bytes, result) = (told.bytes(), told.written(era, extension));
                aside(bytes, move || json(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result })).await
            }
            Err(error) => json(&JsonRpcError::new(Some(id), error)),
        }
    }
}

/// Neither more nor less than a plain list has.
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

/// Whether a message has a cursor, of whatever kind but `null`, by which some clients ask for the first page. rmcp reads one
/// that is no text as if it were not there.
pub(super) fn has_cursor(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Listing {
        params: Option<BTreeMap<String, Option<IgnoredAny>>>,
    }
    let has = |params: &BTreeMap<_, Option<_>>| params.get("cursor").is_some_and(Option::is_some);
    serde_json::from_slice(message).is_ok_and(|Listing { params }| params.as_ref().is_some_and(has))
}

/// The tool that a message calls, whether or not the message is in order.
pub(super) fn called(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Calling {
        method: String,
        params: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let Calling { method, params } = serde_json::from_slice(message).ok()?;
    (method == "tools/call").then_some(params.name)
}

/// A list's result.
#[derive(Serialize)]
struct WithTools<'a> {
    tools: Vec<&'a RawValue>,
    /// All else.
    #[serde(flatten)]
    rest: JsonObject,
}

/// Answers a `tools/list` that is exactly in order out of what each tool has ready; `None` for anything else.
pub(super) async fn listed(front: &Front, parts: &Parts, accepted: Accepted, body: &[u8]) -> Option<Response> {
    let era = era(&parts.headers)?;
    if !is_json(&parts.headers) {
        return None;
    }
    let message = aside(body.len(), || serde_json::from_slice(body).ok()).await?;
    let ListMessage { jsonrpc: "2.0", id, method: "tools/list", params } = message else { return None };
    agreed(era, &parts.headers, &params.meta, "tools/list").filter(|_| !params.meta.contains_key(PROGRESS))?;
    // Where the store is away, rmcp says so.
    let turn = match front.services.shared.limits.turn(peer(&parts.extensions)).await {
        Ok(turn) => turn,
        Err(fault) => return Some(refusal::of_message(Some(id), fault)),
    };
    let result = turn.during(list(front, &Narrowed::of(parts), era, params.cursor.as_deref())).await.ok()??;
    MCP_REQUESTS.count(["tools/list"]);
    let id = serde_json::to_string(&id).ok()?;
    let begins = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    Some(match accepted {
        Accepted::EventsOnly => pieces::event([Bytes::from(format!("data: {begins}")), result, Bytes::from_static(b"}\n\n")]),
        Accepted::Both | Accepted::JsonOnly => pieces::json([Bytes::from(begins), result, Bytes::from_static(b"}")]),
    })
}

/// A list's result as it is sent: that of a page which is the same for everyone is made once. `None` for a cursor of none.
async fn list(front: &Front, narrowed: &Narrowed, era: Era, cursor: Option<&str>) -> Result<Option<Bytes>, StoreError> {
    let for_everyone = narrowed.0.is_none();
    // Looked at before the page is made: one that a change comes into is made again.
    let at = front.changes();
    if for_everyone && let Some(result) = front.lists.get(at, era, cursor) {
        return Ok(Some(result));
    }
    let Some(page) = tools::page(&front.services, narrowed, cursor).await? else { return Ok(None) };
    let bytes = page.json(era).iter().map(|json| json.get().len()).sum();
    let Some(result) = aside(bytes, || written(front, &page, era)).await else { return Ok(None) };
    if for_everyone {
        front.lists.keep(at, era, cursor, &result);
    }
    Ok(Some(result))
}

fn written(front: &Front, page: &Page, era: Era) -> Option<Bytes> {
    let mut result = ServerResult::from(page.told(front, era));
    if era == Era::Legacy {
        result.strip_result_type_for_legacy_peer();
    }
    let Value::Object(mut rest) = serde_json::to_value(&result).ok()? else { return None };
    rest.remove("tools");
    serde_json::to_vec(&WithTools { tools: page.json(era), rest }).ok().map(Bytes::from)
}

/// What a client of the newest revision can do, if there is nothing to say against its request; `Some(None)` for one of an older.
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
