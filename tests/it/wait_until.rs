//! `ctx.waitUntil`: work after the answer, which the caller neither waits nor pays for.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, eventually, js};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Works for `req.input.ms` after its answer, then logs `later`.
const LATER: &str = "export default async (req, ctx) => {
  ctx.waitUntil((async () => {
    await new Promise((done) => setTimeout(done, req.input.ms));
    await ctx.charge('0.05').catch((error) => ctx.log.info(`charge: ${error.code}`));
    ctx.log.info('later');
    if (req.input.rejects) throw new Error('came to nothing');
  })());
  return { call: 'answered' };
};";

async fn logs(host: &Host, slug: &str) -> Vec<Value> {
    let path = format!("/ai/endpoints/{slug}/logs?limit=100");
    host.manage(Method::GET, &path, &json!({})).await.is(200).json()["logs"].as_array().unwrap().clone()
}

/// Waits for a line with this text, and returns it.
async fn line(host: &Host, slug: &str, text: &str) -> Value {
    eventually(&format!("a line with `{text}`"), TIMEOUT, || async {
        logs(host, slug).await.into_iter().find(|line| line["message"].as_str().unwrap().contains(text))
    })
    .await
}

#[tokio::test]
async fn caller_gets_a_settled_answer_before_the_work_ends() {
    let host = Host::start().await;
    let mut tool = js("later", 0.01, LATER);
    tool["maxPriceUsd"] = json!(0.05);
    host.publish(&tool).await;
    let credit = host.mint(1.0).await;
    // Loads the handler.
    host.call_credit("later", &json!({ "ms": 1 }), &credit).await.is(200);
    let started = Instant::now();
    let answer = host.call_credit("later", &json!({ "ms": 2_500, "rejects": true }), &credit).await.is(200);
    assert!(started.elapsed() < Duration::from_millis(2_000), "{:?}", started.elapsed());
    let receipt = host.receipt(&answer.receipt_id()).await;
    host.verify_receipt(&receipt).unwrap();
    assert_eq!(host.credit_balance(&credit).await, 980_000);
    let rejected = line(&host, "later", "was rejected: Error: came to nothing").await;
    let of_call: Vec<_> = logs(&host, "later").await.into_iter().filter(|line| line["callId"] == rejected["callId"]).collect();
    let messages: Vec<_> = of_call.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!((messages.len(), messages[1], messages[2]), (3, "later", "charge: call_ended"), "newest first: {messages:?}");
    assert_eq!(host.credit_balance(&credit).await, 980_000, "the work costs nothing");
}

#[tokio::test]
async fn work_beyond_the_limits_is_stopped_with_a_line_and_without_the_caller() {
    let host = Host::start().await;
    let mut tool =
        js("spins", 0.0, "export default (req, ctx) => { ctx.waitUntil(ctx.kv.get('a').then(() => { for (;;); })); return 1; };");
    tool["limits"] = json!({ "cpuMs": 100 });
    host.publish(&tool).await;
    host.call("spins", &json!({})).await.is(200);
    let stopped = line(&host, "spins", "the work of `ctx.waitUntil` was stopped").await;
    assert_eq!(stopped["level"], "error");
    assert!(stopped["message"].as_str().unwrap().contains("100 ms of CPU time"), "{stopped}");
    host.call("spins", &json!({})).await.is(200);
}

#[tokio::test]
async fn host_that_shuts_down_waits_for_the_work() {
    let mut host = Host::start().await;
    host.publish(&js("later", 0.0, LATER)).await;
    host.call("later", &json!({ "ms": 1_000 })).await.is(200);
    host.terminate();
    eventually("the host has ended", TIMEOUT, || async { (!host.lives()).then_some(()) }).await;
    host.restart().await;
    assert!(logs(&host, "later").await.iter().any(|line| line["message"] == "later"));
}

#[tokio::test]
async fn work_of_one_tool_leaves_the_workers_to_others() {
    let host = Host::builder().flag("--sandbox-processes", 16).start().await;
    let ok = "export default () => ({ ok: true });";
    host.publish(&js("later", 0.0, LATER)).await;
    host.publish(&js("other", 0.0, ok)).await;
    for _ in 0..8 {
        host.call("later", &json!({ "ms": 4_000 })).await.is(200);
    }
    host.call("other", &json!({})).await.is(200);
    let refused = line(&host, "later", "too many calls of this tool").await;
    assert_eq!(refused["level"], "warn");
}

#[tokio::test]
async fn work_of_a_callers_calls_is_done_beside_work_of_another_caller() {
    // A tool has four places.
    let host = Host::builder().flag("--sandbox-processes", 64).start().await;
    let source = "export default (req, ctx) => {
      const wait = new Promise((done) => setTimeout(done, req.input.ms));
      ctx.waitUntil(wait.then(() => ctx.log.info(req.input.text)));
      return 1;
    };";
    host.publish(&js("later", 0.0, source)).await;
    let stranger = reqwest::Client::builder().no_proxy().local_address(Some([127, 0, 0, 2].into())).build().unwrap();
    for _ in 0..4 {
        let call = stranger.post(format!("{}/tools/later", host.url)).json(&json!({ "ms": 9_000, "text": "theirs" }));
        host.send(call).await.is(200);
    }
    host.call("later", &json!({ "ms": 1, "text": "ours" })).await.is(200);
    line(&host, "later", "ours").await;
}

#[tokio::test]
async fn dry_run_ends_with_its_work() {
    let host = Host::start().await;
    host.publish(&js("later", 0.0, LATER)).await;
    let ran = host.manage(Method::POST, "/ai/endpoints/later/run", &json!({ "input": { "ms": 200 } })).await.is(200).json()["run"].clone();
    assert!(ran["log"].to_string().contains("later"), "{ran}");
}
