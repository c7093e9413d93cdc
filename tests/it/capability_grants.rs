//! Every op of every capability, over HTTP: granted, not granted, and revoked during the call.

use std::{collections::BTreeSet, time::Duration};

use axum::{Json, Router, routing::get};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tollhouse::tool::Capability;
use tollhouse_protocol::OpRequest;

use crate::harness::{Host, eventually, js, listen, stream::Stream};

/// Makes one op: with the arguments in `ASKS`, or else the method of its name (`KvGet` is `ctx.kv.get`) with a key. If the call is to see
/// a revocation, repeats it until the answer changes.
const ASKS: &str = r#"
const ASKS = {
  KvSet: ({ kv }) => kv.set("a", 1),
  KvList: ({ kv }) => kv.list(),
  KvAtomic: ({ kv }) => kv.atomic().add("n", 1).commit(),
  FileRead: ({ files }) => files.readText("a"),
  FileWrite: ({ files }) => files.write("a", "text"),
  FileDelete: ({ files }) => files.delete("b"),
  FileList: ({ files }) => files.list(),
  HttpGetJson: (ctx, { url }) => ctx.httpGetJson(url),
  Fetch: (ctx, { url }) => fetch(url).catch((error) => Promise.reject(error.cause)),
};

export default async ({ input }, ctx) => {
  const [, part, method] = input.op.match(/^([A-Z][a-z]+)(.*)$/).map((name) => name.charAt(0).toLowerCase() + name.slice(1));
  const ask = () => (ASKS[input.op]?.(ctx, input) ?? ctx[part][method]("b")).then(() => "done", (error) => error.code);
  const first = await ask();
  ctx.log.info(`${input.op} was ${first}`);
  if (!input.waits) return { first };
  ctx.progress(first);
  for (;;) {
    await new Promise((turn) => setTimeout(turn, 250));
    const then = await ask();
    if (then !== first) {
      ctx.log.info(`${input.op} is ${then}`);
      return { first, then };
    }
  }
};"#;

/// Returns the tool with all capabilities or none.
fn tool(slug: &str, is_granted: bool) -> Value {
    let mut tool = js(slug, 0.0, ASKS);
    tool["capabilities"] = capabilities(is_granted);
    tool["allowedHosts"] = json!(if is_granted { vec!["127.0.0.1"] } else { vec![] });
    tool["limits"] = json!({ "wallMs": 120_000, "httpRequests": 50 });
    tool
}

fn capabilities(are_granted: bool) -> Value {
    Capability::ALL
        .iter()
        .map(|capability| (capability.row().name.to_owned(), json!(are_granted)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Starts a host that may call a JSON server, and returns the address of that server.
async fn host() -> (Host, String) {
    let server = Router::new().route("/", get(|| async { Json(1) }));
    let address = listen(server).await.to_string();
    (Host::builder().flag("--guard-allow", &address).start().await, format!("http://{address}/"))
}

/// Returns the names of all ops.
fn ops() -> BTreeSet<String> {
    let name = |request: OpRequest| format!("{request:?}").split([' ', '{']).next().unwrap().to_owned();
    OpRequest::each().into_iter().map(name).collect()
}

#[tokio::test]
async fn every_op_is_done_where_it_is_granted_and_refused_where_it_is_not() {
    let (host, url) = host().await;
    for (slug, is_granted, message) in [("granted", true, "done"), ("denied", false, "not_granted")] {
        host.publish(&tool(slug, is_granted)).await;
        for op in ops() {
            let answer = host.call(slug, &json!({ "op": op, "url": url })).await.is(200).json();
            assert_eq!(answer, json!({ "first": message }), "{op} at {slug}");
        }
        let lines = eventually("the lines are stored", Duration::from_secs(20), || async {
            let lines = lines(&host, slug).await;
            (!is_granted || lines.len() == ops().len()).then_some(lines)
        })
        .await;
        assert!(is_granted || lines.is_empty(), "{lines:?}");
    }
}

#[tokio::test]
async fn every_op_is_rejected_once_its_grant_is_revoked() {
    let (host, url) = host().await;
    host.publish(&tool("revoked", true)).await;
    let mut calls = join_all(ops().into_iter().map(async |op| {
        let body = json!({ "op": op, "url": url, "waits": true });
        let mut stream = Stream::open(host.request(Method::POST, "/tools/revoked").json(&body)).await;
        loop {
            let answer = stream.next().await.unwrap();
            if answer.data["message"] == "done" {
                return (op, stream);
            }
            assert!(matches!(&*answer.name, "accepted" | "progress"), "{op}: {answer:?}");
        }
    }))
    .await;
    host.change("revoked", &json!({ "capabilities": capabilities(false), "allowedHosts": [] })).await;
    for (op, stream) in &mut calls {
        let end = loop {
            let answer = stream.next().await.unwrap();
            if answer.name != "progress" {
                break answer;
            }
        };
        assert_eq!((&*end.name, &end.data["result"]), ("result", &json!({ "first": "done", "then": "not_granted" })), "{op}: {end:?}");
    }
    let lines = eventually("the lines of before are stored", Duration::from_secs(20), || async {
        let lines = lines(&host, "revoked").await;
        (lines.len() >= calls.len()).then_some(lines)
    })
    .await;
    assert!(lines.iter().all(|line| line.ends_with(" was done")), "a line was written without its grant: {lines:?}");
}

/// Returns the log messages of the handler.
async fn lines(host: &Host, slug: &str) -> Vec<String> {
    let logged = host.manage(Method::GET, &format!("/ai/endpoints/{slug}/logs?limit=100"), &json!({})).await.is(200).json();
    let messages = logged["logs"].as_array().unwrap().iter().map(|line| line["message"].as_str().unwrap().to_owned());
    messages.filter(|message| message.contains(" was ") || message.contains(" is ")).collect()
}
