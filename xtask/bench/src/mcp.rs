//! Measures `tools/call` of a built-in tool, compared with the bare route and a server with the
//! TypeScript SDK.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use serde_json::json;

use crate::{
    Failure, Options,
    bare::Bare,
    client::Request,
    host::Host,
    load::{self, CONNECTIONS, INPUT, Subject, latencies},
};

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let cores = std::thread::available_parallelism()?;
    println!("{cores} cores, {} s for each line, {} bytes of JSON as arguments\n", options.seconds, INPUT.len());
    println!("{:<34}{:>4}{:>12}{:>11}{:>11}{:>9}{:>12}", "", "conn", "calls/s", "p50", "p99", "of bare", "TypeScript");
    let (host, bare) = (Host::start(options, data.path(), &[])?, Bare::start()?);
    let typescript = TypeScript::start(options)?;
    let subject = |what, address, request| Subject { what, address, request };
    let subjects = [
        subject("bare axum route", bare.address(), Request::post("/echo", &legacy("echo"))),
        subject("TypeScript SDK, stateless", typescript.address, legacy_request("/", "echo")),
        subject("tools/call, 2025-11-25", host.address(), legacy_request("/ai/mcp", "receipt-echo-free")),
        subject("tools/call, 2026-07-28", host.address(), modern_request("receipt-echo-free")),
        subject("the same tool over HTTP", host.address(), Request::post("/tools/receipt-echo-free", INPUT)),
    ];
    for connections in CONNECTIONS {
        let all = load::in_turns(&subjects, connections, options.seconds)?;
        let [bare, typescript] = [0, 1].map(|base: usize| all[base].per_second());
        for (Subject { what, .. }, figures) in subjects.iter().zip(&all) {
            let rate = figures.per_second();
            println!("{what:<34}{connections:>4}{rate:>12.0}{}{:>9.2}{:>11.1}x", latencies(figures), rate / bare, rate / typescript);
        }
    }
    host.stop()
}

fn message(tool: &str, meta: serde_json::Value) -> String {
    let input: serde_json::Value = serde_json::from_str(INPUT).unwrap_or_default();
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": input, "_meta": meta } }).to_string()
}

fn legacy(tool: &str) -> String {
    message(tool, json!({}))
}

pub(crate) fn legacy_request(path: &str, tool: &str) -> Request {
    of_legacy(path, &legacy(tool))
}

/// Returns a request of protocol 2025-11-25 for any method.
pub(crate) fn request(path: &str, method: &str, params: serde_json::Value) -> Request {
    of_legacy(path, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())
}

fn of_legacy(path: &str, message: &str) -> Request {
    Request::post(path, message).with("accept", "text/event-stream").with("mcp-protocol-version", "2025-11-25")
}

fn modern_request(tool: &str) -> Request {
    modern_as(tool, json!({}))
}

/// Returns a call of protocol 2026-07-28 by a client that supports tasks.
pub(crate) fn task_request(tool: &str) -> Request {
    modern_as(tool, json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }))
}

/// Returns a subscription request of protocol 2026-07-28.
pub(crate) fn listen_request() -> Request {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
    Request::post("/ai/mcp", &message.to_string())
        .with("accept", "text/event-stream")
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "subscriptions/listen")
}

/// Returns a batch of protocol 2025-03-26 with several list requests.
pub(crate) fn batch_request(lists: usize) -> Request {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    Request::post("/ai/mcp", &json!(vec![list; lists]).to_string()).with("mcp-protocol-version", "2025-03-26")
}

fn modern_as(tool: &str, capabilities: serde_json::Value) -> Request {
    let meta =
        json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": capabilities });
    Request::post("/ai/mcp", &message(tool, meta))
        .with("accept", "text/event-stream")
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tools/call")
        .with("mcp-name", tool)
}

/// The server with the TypeScript SDK. Dropping it ends the process.
struct TypeScript {
    child: Child,
    address: SocketAddr,
}

impl TypeScript {
    fn start(options: &Options) -> Result<Self, Failure> {
        let mut command = Command::new(&options.node);
        let mut child = command.arg("server.mjs").current_dir(&options.clients).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no pipe from the TypeScript server")?).read_line(&mut line)?;
        Ok(Self { child, address: line.trim().parse()? })
    }
}

impl Drop for TypeScript {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}
