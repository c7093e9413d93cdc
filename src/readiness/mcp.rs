//! An MCP endpoint over Streamable HTTP: who it is, and what its tools cost.

use bytes::Bytes;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    notes::{Notes, short},
    post_json,
};
use crate::capability::{Guard, guard::Fetched};

/// A revision that servers of both eras speak.
const REVISION: &str = "2025-11-25";

/// Whether it is worth speaking MCP to a URL that answered an empty POST with `answered`.
pub(super) fn looks_like_one(url: &Url, answered: &Fetched) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.split(['/', '-', '_', '.']).any(|part| part == "mcp") || json_rpc(answered).is_some()
}

/// Greets the endpoint and lists its tools; whether it is one.
pub(super) async fn read(guard: &Guard, url: &str, found: &mut Map<String, Value>, notes: &mut Notes) -> bool {
    let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": { "name": "tollhouse-readiness", "version": env!("CARGO_PKG_VERSION") } });
    let Some((greeted, session)) = ask(guard, url, "initialize", params).await else { return false };
    let Some(result) = greeted.get("result") else {
        let message = greeted["error"]["message"].as_str().map(short).unwrap_or_default();
        notes.error("mcp_initialize", format!("answers JSON-RPC, but refuses `initialize`: {message}"));
        return true;
    };
    let revision = result["protocolVersion"].as_str().map(short).unwrap_or_default();
    notes.ok("mcp_initialize", format!("speaks MCP, revision {revision}"));
    let mut about = json!({ "protocolVersion": revision, "name": result["serverInfo"]["name"].as_str().map(short), "sessions": session });
    if !result["serverInfo"]["name"].is_string() {
        notes.warning("mcp_server_info", "`serverInfo.name` is missing");
    }
    if session {
        notes.info("mcp_session", "the endpoint keeps sessions; its tools were not listed");
    } else if let Some((listed, _)) = ask(guard, url, "tools/list", json!({})).await {
        tools(&listed, &mut about, notes);
    }
    found.insert("mcp".into(), about);
    true
}

fn tools(listed: &Value, about: &mut Value, notes: &mut Notes) {
    let Some(tools) = listed["result"]["tools"].as_array() else {
        return notes.warning("mcp_tools", "`tools/list` does not answer a list of tools");
    };
    notes.ok("mcp_tools", format!("lists {} tools", tools.len()));
    about["tools"] = tools.len().into();
    about["firstTools"] = tools.iter().take(20).filter_map(|tool| tool["name"].as_str().map(short)).collect();
    let nameless = tools.iter().filter(|tool| !tool["name"].is_string() || !tool["inputSchema"].is_object()).count();
    if nameless > 0 {
        notes.error("mcp_tools", format!("{nameless} tools lack `name` or `inputSchema`"));
    }
    let long = tools.iter().filter_map(|tool| tool["name"].as_str()).filter(|name| name.len() > 64).count();
    if long > 0 {
        notes.warning("mcp_tool_name", format!("{long} tools have names above 64 characters, which models refuse"));
    }
    let priced =
        tools.iter().filter(|tool| tool["_meta"].as_object().is_some_and(|meta| meta.keys().any(|key| key.contains("x402")))).count();
    notes.info("mcp_prices", format!("{priced} tools tell their x402 terms in `_meta`"));
}

/// One JSON-RPC request; the answer, and whether it opened a session.
async fn ask(guard: &Guard, url: &str, method: &str, params: Value) -> Option<(Value, bool)> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut request = post_json(url, Bytes::from(body));
    request.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    request.headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
    let answered = guard.fetch(request).await.ok()?;
    let session = answered.headers.contains_key("mcp-session-id");
    Some((json_rpc(&answered)?, session))
}

/// The JSON-RPC message of an answer, whether it is JSON or an event stream.
fn json_rpc(answered: &Fetched) -> Option<Value> {
    let text = std::str::from_utf8(&answered.body).ok()?;
    let in_events = || text.lines().filter_map(|line| line.strip_prefix("data:")).find_map(|data| serde_json::from_str(data.trim()).ok());
    let message: Value = serde_json::from_str(text).ok().or_else(in_events)?;
    (message["jsonrpc"] == "2.0").then_some(message)
}
