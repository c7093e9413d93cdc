//! Checks an MCP endpoint over Streamable HTTP: its identity, and the prices of its tools.
//!
//! If the server keeps sessions, the protocol is followed: each further request carries the session id, the server is
//! notified that the client is ready, and the session is deleted at the end, even if a check times out.

use bytes::Bytes;
use reqwest::{
    Method,
    header::{ACCEPT, HeaderName, HeaderValue},
};
use serde_json::{Map, Value, json};
use tollhouse_base::{
    offload::{DropOffThread, length, run_blocking},
    plural::plural,
};
use tollhouse_capability::guard::{Fetch, Fetched};
use url::Url;

use super::{
    ReadinessClient,
    notes::{Notes, short},
    request::{post_json, with_agent},
};

/// A protocol revision that old and new servers support.
const REVISION: &str = "2025-11-25";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Maximum length of a session id that is sent back, in bytes.
const SESSION_BYTES: usize = 1_024;
/// Maximum size of an event that is parsed as a possible answer, and the examined prefix of longer ones, in bytes.
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 256;
/// Time limit of the request that ends a session. Nobody waits for it.
const END_WALL: std::time::Duration = std::time::Duration::from_secs(2);

/// Returns whether a URL may be an MCP endpoint, given its response to an empty POST.
pub(super) async fn looks_like_one(url: &Url, answered: &Fetched) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.split(['/', '-', '_', '.']).any(|part| part == "mcp") || message(answered).await.is_some()
}

/// Initializes a session and lists the tools. Returns whether it is an MCP endpoint.
pub(super) async fn read(client: &ReadinessClient, url: &str, found: &mut Map<String, Value>, notes: &mut Notes) -> bool {
    let mut client = Client { client, url, session: None };
    let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": { "name": "tollhouse-readiness", "version": env!("CARGO_PKG_VERSION") } });
    let Some(greeted) = client.ask("initialize", params).await else { return false };
    let Some(result) = greeted.get("result") else {
        let message = greeted["error"]["message"].as_str().map(short).unwrap_or_default();
        notes.error("mcp_initialize", format!("answers JSON-RPC, but rejects `initialize`: {message}"));
        return true;
    };
    let revision = result["protocolVersion"].as_str().map(short).unwrap_or_default();
    notes.ok("mcp_initialize", format!("speaks MCP, revision {revision}"));
    let stateful = client.session.is_some();
    let mut about = json!({ "protocolVersion": revision, "name": result["serverInfo"]["name"].as_str().map(short), "sessions": stateful });
    if !result["serverInfo"]["name"].is_string() {
        notes.warning("mcp_server_info", "`serverInfo.name` is missing");
    }
    if stateful {
        notes.info("mcp_session", "the endpoint has sessions; the check ended its own session");
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }
    match client.ask("tools/list", json!({})).await {
        Some(listed) => run_blocking(length(&listed), || tools(&listed, &mut about, notes)).await,
        None => notes.warning("mcp_tools", "`tools/list` got no answer"),
    }
    found.insert("mcp".into(), about);
    true
}

pub(super) fn tools(listed: &Value, about: &mut Value, notes: &mut Notes) {
    let Some(tools) = listed["result"]["tools"].as_array() else {
        return notes.warning("mcp_tools", "`tools/list` does not return a list of tools");
    };
    let more = listed["result"]["nextCursor"].is_string();
    notes.ok("mcp_tools", format!("lists {}{}", plural(tools.len(), "tool"), if more { " on its first page" } else { "" }));
    about["tools"] = tools.len().into();
    if more {
        about["moreTools"] = true.into();
    }
    about["firstTools"] = tools.iter().take(20).filter_map(|tool| tool["name"].as_str().map(short)).collect();
    let nameless = tools.iter().filter(|tool| !tool["name"].is_string() || !tool["inputSchema"].is_object()).count();
    if nameless > 0 {
        notes.error("mcp_tools", format!("lists {} without `name` or `inputSchema`", plural(nameless, "tool")));
    }
    let long = tools.iter().filter_map(|tool| tool["name"].as_str()).filter(|name| name.len() > 64).count();
    if long > 0 {
        notes.warning("mcp_tool_name", format!("lists {} with a name above 64 characters, which models refuse", plural(long, "tool")));
    }
    let priced =
        tools.iter().filter(|tool| tool["_meta"].as_object().is_some_and(|meta| meta.keys().any(|key| key.contains("x402")))).count();
    notes.info("mcp_prices", format!("lists {} with x402 terms in `_meta`", plural(priced, "tool")));
}

/// A conversation with an endpoint. Dropping it ends the session that the endpoint opened.
struct Client<'a> {
    client: &'a ReadinessClient,
    url: &'a str,
    session: Option<HeaderValue>,
}

impl Client<'_> {
    /// Sends a request, and returns the answer. The first answer with a session id opens the session.
    async fn ask(&mut self, method: &str, params: Value) -> Option<DropOffThread> {
        let answered = self.send(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await?;
        if self.session.is_none() {
            self.session = answered.headers.get(SESSION).filter(|id| id.len() <= SESSION_BYTES).cloned();
        }
        message(&answered).await
    }

    async fn send(&self, body: Value) -> Option<Fetched> {
        let mut request = post_json(self.url, Bytes::from(body.to_string()));
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        request.headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
        request.headers.extend(self.session.clone().map(|id| (SESSION, id)));
        request.enough = Some(ends_with_answer);
        self.client.fetch(request).await.ok()
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let Some(id) = self.session.take() else { return };
        let (client, url) = (self.client.clone(), self.url.to_owned());
        tokio::spawn(async move {
            let mut request = with_agent(Fetch { method: Method::DELETE, ..Fetch::get(&url, END_WALL, 1 << 10) });
            request.headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
            request.headers.insert(SESSION, id);
            _ = client.fetch(request).await;
        });
    }
}

/// Returns whether the last event of a stream is an answer. It examines only that event, so that the cost is linear in
/// the stream's size.
fn ends_with_answer(body: &[u8]) -> bool {
    let Some(text) = body.strip_suffix(b"\r\n\r\n").or_else(|| body.strip_suffix(b"\n\n")) else { return false };
    let lines = text.rsplit(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let is_answer = |line: &[u8]| line.strip_prefix(b"data:").is_some_and(seems_answer);
    lines.take_while(|line| !line.is_empty()).any(is_answer)
}

/// Returns whether an event is an answer: by parsing it, or by its prefix if it is large.
fn seems_answer(data: &[u8]) -> bool {
    let has = |name: &[u8]| data[..HEAD_BYTES.min(data.len())].windows(name.len()).any(|part| part == name);
    if data.len() <= READ_BYTES { answer(data).is_some() } else { has(b"\"result\"") || has(b"\"error\"") }
}

/// Returns the answer in a response, which is JSON or an event stream.
async fn message(answered: &Fetched) -> Option<DropOffThread> {
    let body = &answered.body;
    run_blocking(body.len(), || {
        let events = || body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        answer(body).or_else(|| events().find_map(answer)).map(DropOffThread::new)
    })
    .await
}

/// Parses a JSON-RPC answer. A notification is not an answer.
fn answer(json: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(json).ok()?;
    let answers = message.get("result").is_some() || message.get("error").is_some();
    (message["jsonrpc"] == "2.0" && answers).then_some(message)
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    #[tokio::test]
    async fn mcp_is_tried_if_the_path_or_the_answer_suggests_it() {
        let looks = async |url: &str, body: &'static str| {
            let url = Url::parse(url).unwrap();
            let body = Bytes::from_static(body.as_bytes());
            looks_like_one(&url, &Fetched { status: StatusCode::BAD_REQUEST, body, ..Fetched::empty(url.clone()) }).await
        };
        for called_so in ["https://a.example/ai/mcp", "https://a.example/MCP", "https://a.example/my-mcp.json"] {
            assert!(looks(called_so, "").await, "{called_so}");
        }
        for other in ["https://a.example/", "https://a.example/tools", "https://mcp.example/mcps"] {
            assert!(!looks(other, "{}").await, "{other}");
        }
        assert!(looks("https://a.example/", r#"{"jsonrpc":"2.0","error":{"code":-32600}}"#).await);
    }

    #[test]
    fn a_long_event_is_recognized_by_its_prefix() {
        let long = |member: &str| format!("{{\"jsonrpc\":\"2.0\",\"{member}\":\"{}\"}}", "x".repeat(READ_BYTES));
        for (member, is_answer) in [("result", true), ("error", true), ("params", false)] {
            assert_eq!(seems_answer(long(member).as_bytes()), is_answer, "{member}");
        }
        assert!(!seems_answer(&[b"x".repeat(READ_BYTES), b"\"result\"".to_vec()].concat()), "it does not begin so");
        assert!(seems_answer(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#) && !seems_answer(br#"{"jsonrpc":"2.0","method":"result"}"#));
    }
}
