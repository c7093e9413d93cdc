//! `tools/call` of a built-in tool beside the bare route and a server on the TypeScript SDK.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;

use crate::{
    CONNECTIONS, Failure, INPUT, Options,
    bare::Bare,
    client::Request,
    host::Host,
    latencies,
    load::{self, Figures},
};

/// What a load of one server is compared with.
struct Base {
    bare: f64,
    typescript: f64,
}

pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let cores = std::thread::available_parallelism()?;
    println!("{cores} cores, {} s for each line, {} bytes of JSON as arguments\n", options.seconds, INPUT.len());
    println!("{:<34}{:>4}{:>12}{:>11}{:>11}{:>9}{:>12}", "", "conn", "calls/s", "p50", "p99", "of bare", "TypeScript");
    let (host, bare) = (Host::start(options, data.path(), &[])?, Bare::start()?);
    let typescript = TypeScript::start(options)?;
    for connections in CONNECTIONS {
        let mut base = Base { bare: 0.0, typescript: 0.0 };
        let mut line = |what: &str, address: SocketAddr, request: Request| -> Result<(), Failure> {
            load::run(address, &request, connections, Duration::from_secs(1))?;
            let figures = load::run(address, &request, connections, Duration::from_secs(options.seconds))?;
            match what {
                BARE => base.bare = figures.per_second(),
                TYPESCRIPT => base.typescript = figures.per_second(),
                _ => {}
            }
            println!("{what:<34}{connections:>4}{:>12.0}{}{}", figures.per_second(), latencies(&figures), compared(&figures, &base));
            Ok(())
        };
        line(BARE, bare.address(), Request::post("/echo", &legacy("echo")))?;
        line(TYPESCRIPT, typescript.address, legacy_request("/", "echo"))?;
        line("tools/call, 2025-11-25", host.address(), legacy_request("/ai/mcp", "receipt-echo-free"))?;
        line("tools/call, 2026-07-28", host.address(), modern_request("receipt-echo-free"))?;
        line("the same tool over HTTP", host.address(), Request::post("/tools/receipt-echo-free", INPUT))?;
    }
    host.stop()
}

const BARE: &str = "bare axum route";
const TYPESCRIPT: &str = "TypeScript SDK, stateless";

fn compared(figures: &Figures, base: &Base) -> String {
    let times = if base.typescript > 0.0 { format!("{:>11.1}x", figures.per_second() / base.typescript) } else { String::new() };
    format!("{:>9.2}{times}", figures.per_second() / base.bare)
}

fn message(tool: &str, meta: serde_json::Value) -> String {
    let input: serde_json::Value = serde_json::from_str(INPUT).unwrap_or_default();
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": input, "_meta": meta } }).to_string()
}

fn legacy(tool: &str) -> String {
    message(tool, json!({}))
}

fn legacy_request(path: &str, tool: &str) -> Request {
    Request::post(path, &legacy(tool)).with("accept", "text/event-stream").with("mcp-protocol-version", "2025-11-25")
}

fn modern_request(tool: &str) -> Request {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    Request::post("/ai/mcp", &message(tool, meta))
        .with("accept", "text/event-stream")
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tools/call")
        .with("mcp-name", tool)
}

/// The server on the TypeScript SDK. Dropping it ends the process.
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
