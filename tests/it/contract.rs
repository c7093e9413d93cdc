//! Checks that handlers get exactly what `runtime-js/tool.d.ts` declares, member by member, however
//! the call arrives. The declarations are the two files that `tollhouse init` and `types` write.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use axum::{Json, Router, routing::get};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tollhouse::tool::Capabilities;

use crate::harness::{Host, Payer, Replied, js, listen, tollhouse};

/// Names in `--lib es2023` that a handler does not have. `Intl` exists on V8 only.
const ABSENT: [&str; 4] = ["Atomics", "Intl", "SharedArrayBuffer", "eval"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder in which TypeScript is installed.
pub fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_tollhouse")).parent().unwrap().parent().unwrap();
    let folder = target.join("contract");
    assert!(
        folder.join("node_modules/typescript").is_dir(),
        "`{}` has no TypeScript: run `cargo xtask test`, which installs it",
        folder.display()
    );
    folder
}

async fn node(script: &Path, flags: &[&str], args: &[PathBuf]) -> Output {
    Command::new("node").arg(script).args(flags).args(args).current_dir(root()).output().await.unwrap()
}

/// The declarations in a builder's folder, as `tollhouse init` writes them.
struct Shipped(TempDir);

impl Shipped {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let started = tollhouse().args(["init", "asks"]).current_dir(home.path()).env("HOME", home.path()).output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Self(home)
    }

    fn files(&self) -> Vec<PathBuf> {
        ["tool.d.ts", "globals.d.ts"].map(|name| self.0.path().join("asks").join(name)).into()
    }

    /// Compiles a handler with these declarations, without the DOM.
    async fn compiled(&self, handler: &Path) -> Output {
        let flags = ["--noEmit", "--strict", "--lib", "es2023", "--target", "es2023"];
        let files: Vec<_> = self.files().into_iter().chain([handler.to_owned()]).collect();
        node(&installed().join("node_modules/typescript/bin/tsc"), &flags, &files).await
    }
}

/// Returns the declarations in these files, as `fixtures/contract/describe.mjs` reads them.
async fn declared(files: Vec<PathBuf>) -> Value {
    let args: Vec<_> = [installed()].into_iter().chain(files).collect();
    let described = node(&root().join("fixtures/contract/describe.mjs"), &[], &args).await;
    assert!(described.status.success(), "{}", String::from_utf8_lossy(&described.stderr));
    serde_json::from_slice(&described.stdout).unwrap()
}

/// Starts a JSON server on loopback. Returns its address.
async fn server() -> String {
    let router = Router::new().route("/", get(async || Json(json!({ "n": 1 }))));
    listen(router).await.to_string()
}

/// Checks that the handler found no deviation. Returns its result.
#[track_caller]
fn found(result: &Value, method: &str) -> Value {
    assert_eq!(result["wrong"], json!([]), "{method}");
    let absent = result["absent"].as_array().unwrap_or_else(|| panic!("{method}: {result}"));
    assert!(absent.iter().all(|name| ABSENT.contains(&name.as_str().unwrap())), "{method}: {absent:?}");
    assert!(result["asked"].as_u64().unwrap() >= 100, "{method}: {result}");
    assert_eq!((&result["same"], &result["secret"]), (&json!(true), &json!("[redacted]")), "{method}");
    result.clone()
}

#[tokio::test]
async fn contract_matches_the_runtime() {
    let asks = root().join("fixtures/contract/asks.ts");
    let shipped = Shipped::new();
    let answer = shipped.compiled(&asks).await;
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stdout));

    let address = server().await;
    let host = Host::builder().flag("--guard-allow", &address).start().await;
    let source = fs::read_to_string(&asks).unwrap();
    for (slug, price) in [("asks", 0.01), ("asks-free", 0.0)] {
        let mut tool = js(slug, price, &source);
        tool["handler"]["language"] = json!("ts");
        tool["capabilities"] = json!(Capabilities::ALL);
        tool["allowedHosts"] = json!(["127.0.0.1"]);
        host.publish(&tool).await;
        let secret = json!({ "name": "SECRET", "value": "a-secret-of-the-tool" });
        host.manage(Method::POST, &format!("/ai/endpoints/{slug}/secrets"), &secret).await.is(200);
    }
    let mut contract = declared(shipped.files()).await;
    assert_eq!(contract, declared(vec![root().join("runtime-js/tool.d.ts")]).await, "the shipped contract is complete");
    contract["url"] = json!(format!("http://{address}/"));
    let input = json!({ "contract": contract });
    let credit = host.mint(1.0).await;
    let paid = |request: reqwest::RequestBuilder| request.header("x-developer-credit", &credit).header("user-agent", "asks");

    let http = host.send(paid(host.request(Method::POST, "/tools/asks?x=1&x=2&__proto__=p").json(&input))).await.is(200).json();
    let http = found(&http, "HTTP");
    let texts: Vec<_> = http["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!((texts[0], texts[2], texts[4], texts[5]), ("POST", "/tools/asks", "2", "asks"));
    assert!(texts[1].ends_with("/tools/asks?x=1&x=2&__proto__=p") && texts[3].starts_with("rcpt_"), "{texts:?}");
    assert!(http["parties"][0].is_null() && http["parties"][1].as_str().is_some_and(|id| !id.is_empty()), "credit has no address");

    let body = json!({ "slug": "asks", "input": input });
    let invoked = host.send(paid(host.request(Method::POST, "/ai/invoke").json(&body))).await.is(200).json();
    found(&invoked["result"], "/ai/invoke");
    let streamed = paid(host.request(Method::POST, "/tools/asks").json(&input)).header("accept", "text/event-stream");
    let events = host.send(streamed).await.is(200).events();
    found(&events.last().unwrap().data["result"], "the stream");
    assert!(events.iter().any(|event| event.data["message"] == "five"), "progress is received");
    for client in [host.mcp(), host.mcp_legacy()] {
        let query = paid(client.request("tools/call", json!({ "name": "asks", "arguments": input, "_meta": { "progressToken": 1 } })));
        found(&Replied::read(&host.send(query).await).result()["structuredContent"], "MCP");
    }

    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("asks").await);
    let x402 = found(&host.call_paid("asks", &input, &payment).await.is(200).json(), "x402");
    assert_eq!(x402["parties"][1], payment.id());
    assert!(x402["parties"][0].as_str().unwrap().starts_with("0x"), "{x402}");
    let free = found(&host.call("asks-free", &input).await.is(200).json(), "free");
    assert_eq!(free["parties"], json!([null, null]));
}

#[tokio::test]
async fn a_name_that_repeats_is_its_last_value_in_the_query_and_a_list_in_the_input() {
    let host = Host::start().await;
    let source = "export default ({ method, query, input }) => ({ method, query: Object.entries(query), input, bent: ({}).bent ?? null });";
    host.publish(&js("query", 0.0, source)).await;
    let body = host.get("/tools/query?a=1&b=%26&a=2&__proto__=x&a=").await.is(200).json();
    assert_eq!(body["query"], json!([["__proto__", "x"], ["a", ""], ["b", "&"]]));
    assert_eq!((&body["input"]["a"], &body["input"]["b"]), (&json!(["1", "2", ""]), &json!("&")));
    assert_eq!((&body["method"], &body["bent"]), (&json!("GET"), &json!(null)));
}

#[tokio::test]
async fn code_outside_the_contract_does_not_compile() {
    let names = [
        "Buffer",
        "document",
        "window",
        "process",
        "require",
        "Deno",
        "BroadcastChannel",
        "WebSocket",
        "XMLHttpRequest",
        "localStorage",
        "setImmediate",
    ];
    let mistakes = [
        "req.query.q.push('x')",
        "req.headers.forEach(() => {})",
        "req.query = {}",
        "req.json()",
        "ctx.progress(1)",
        "ctx.progress('x', '0.5')",
        "ctx.kv = ctx.kv",
        "ctx.fetch('x')",
        "fetch('x', { timeoutMs: 5 })",
        "fetch('x', { body: {} })",
        "new Request()",
        "crypto.subtle.encrypt()",
        "new Blob(1)",
        "new AbortSignal()",
        "console.context()",
        "new URL('x').foo",
    ];
    let lines: Vec<_> =
        names.iter().map(|name| format!("  {name};")).chain(mistakes.iter().map(|mistake| format!("  {mistake};"))).collect();
    let folder = tempfile::tempdir().unwrap();
    let handler = folder.path().join("handler.ts");
    fs::write(&handler, format!("export default (req: ToolRequest, ctx: ToolContext) => {{\n{}\n}};\n", lines.join("\n"))).unwrap();
    let answer = Shipped::new().compiled(&handler).await;
    let answer = String::from_utf8_lossy(&answer.stdout);
    for (at, line) in lines.iter().enumerate() {
        let position = format!("handler.ts({},", at + 2);
        let error = answer.lines().find(|answer| answer.contains(&position)).unwrap_or_else(|| panic!("`{line}` compiles:\n{answer}"));
        if let Some(name) = names.get(at) {
            assert!(error.contains(&format!("Cannot find name '{name}'")), "{error}");
        }
    }
}
