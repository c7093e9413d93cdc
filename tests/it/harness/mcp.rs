//! A minimal MCP client, which can also send invalid messages.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Answer, Host};

/// A client of a host's MCP endpoint. A clone sends in the same way.
#[derive(Clone)]
pub struct Mcp<'a> {
    host: &'a Host,
    /// The protocol version: one with `initialize`, or 2026-07-28. If empty, none is sent.
    pub revision: &'static str,
    pub accept: &'static str,
    /// The query of the URL, including the question mark.
    pub query: &'static str,
    /// The capabilities that are declared in each request of 2026-07-28.
    pub capabilities: Value,
    headers: Vec<(&'static str, String)>,
}

/// The reply: the notifications, if it was a stream, and the response.
#[derive(Debug)]
pub struct Replied {
    pub status: u16,
    pub streamed: bool,
    pub notifications: Vec<Value>,
    /// Has `result` or `error`.
    pub response: Value,
}

impl Host {
    /// Returns a client of version 2026-07-28.
    pub fn mcp(&self) -> Mcp<'_> {
        Mcp {
            host: self,
            revision: "2026-07-28",
            accept: "application/json, text/event-stream",
            query: "",
            capabilities: json!({}),
            headers: vec![],
        }
    }

    /// Returns a client of version 2025-11-25.
    pub fn mcp_legacy(&self) -> Mcp<'_> {
        Mcp { revision: "2025-11-25", ..self.mcp() }
    }
}

impl Mcp<'_> {
    pub fn with_header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Returns a request as this client sends it.
    pub fn request(&self, method: &str, mut params: Value) -> RequestBuilder {
        let mut request = self.host.request(Method::POST, &format!("/ai/mcp{}", self.query)).header("accept", self.accept);
        if method != "initialize" && !self.revision.is_empty() {
            request = request.header("mcp-protocol-version", self.revision);
        }
        if self.revision == "2026-07-28" {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(self.revision);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            request = request.header("mcp-method", method);
            if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
                request = request.header("mcp-name", name);
            }
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    pub async fn ask(&self, method: &str, params: Value) -> Replied {
        Replied::read(&self.host.send(self.request(method, params)).await)
    }

    /// Makes a `tools/call`, which must return a result.
    #[track_caller]
    pub fn call(&self, name: &str, arguments: Value, meta: Value) -> impl Future<Output = Value> {
        let request = self.request("tools/call", json!({ "name": name, "arguments": arguments, "_meta": meta }));
        async move { Replied::read(&self.host.send(request).await).result() }
    }

    /// Returns the tools on the first page.
    pub async fn tools(&self) -> Vec<Value> {
        self.ask("tools/list", json!({})).await.result()["tools"].as_array().unwrap().clone()
    }

    /// Returns a tool, if it is listed.
    pub async fn tool(&self, name: &str) -> Option<Value> {
        self.tools().await.into_iter().find(|tool| tool["name"] == name)
    }
}

impl Replied {
    pub fn read(answer: &Answer) -> Self {
        let streamed = answer.has("content-type").starts_with("text/event-stream");
        let mut messages: Vec<Value> = if streamed {
            let text = String::from_utf8(answer.body.to_vec()).unwrap();
            text.lines().filter_map(|line| line.strip_prefix("data:")).map(|data| serde_json::from_str(data.trim()).unwrap()).collect()
        } else {
            vec![answer.json()]
        };
        let response = messages.pop().unwrap_or_else(|| panic!("no message: {answer:?}"));
        assert_eq!(response["jsonrpc"], "2.0", "{answer:?}");
        Self { status: answer.status, streamed, notifications: messages, response }
    }

    #[track_caller]
    pub fn result(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert!(self.response["result"].is_object(), "{self:?}");
        self.response["result"].clone()
    }

    /// Asserts an error with this HTTP status and code, and with the envelope that every error has.
    /// Returns it.
    #[track_caller]
    pub fn fails(&self, status: u16, code: i64) -> Value {
        assert_eq!((self.status, &self.response["error"]["code"]), (status, &json!(code)), "{self:?}");
        let error = self.response["error"].clone();
        let text = |name: &str| error["data"][name].as_str().is_some_and(|text| !text.is_empty());
        assert!(["code", "fault", "message", "requestId"].into_iter().all(text) && error["data"]["charged"] == false, "{error}");
        error
    }
}
