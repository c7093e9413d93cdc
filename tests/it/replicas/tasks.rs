//! MCP calls on one host, whose clients talk to the other.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::Hosts;
use crate::harness::{Host, Payer, Replied, eventually, js};

const SLOW: &str = "export default async (req) => {
    await new Promise((done) => setTimeout(done, req.input.ms));
    return { done: true };
};";

/// Longer than a lease.
const LEFT_WITHIN: Duration = Duration::from_secs(20);

impl Hosts {
    async fn publish_slow(&self, price_usd: f64) {
        let mut tool = js("slow", price_usd, SLOW);
        tool["limits"] = json!({ "wallMs": 30_000 });
        self.manage(0, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    }

    /// Sends a message of a client with support for tasks.
    async fn mcp(&self, at: usize, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap().to_owned();
        let request = self.message(at, "2026-07-28", &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        Replied::read(&Host::try_send(request.header("mcp-method", method).header("mcp-name", name)).await.unwrap()).result()
    }

    fn message(&self, at: usize, revision: &str, message: &Value) -> RequestBuilder {
        let request = self.request(at, Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream");
        request.header("mcp-protocol-version", revision).json(message)
    }

    async fn task(&self, at: usize, id: &str) -> Value {
        self.mcp(at, "tasks/get", json!({ "taskId": id })).await
    }

    async fn begin(&self, at: usize, ms: u64, meta: Value) -> String {
        let started = self.mcp(at, "tools/call", json!({ "name": "slow", "arguments": { "ms": ms }, "_meta": meta })).await;
        assert_eq!(started["resultType"], "task", "{started}");
        started["taskId"].as_str().unwrap().to_owned()
    }

    /// Waits until the task has ended, and returns it as the host at `at` shows it.
    async fn ended(&self, at: usize, id: &str) -> Value {
        eventually("the task ends", LEFT_WITHIN, || async { Some(self.task(at, id).await).filter(|task| task["status"] != "working") })
            .await
    }
}

#[tokio::test]
async fn a_task_of_one_host_is_asked_for_waited_for_and_canceled_at_the_other() {
    let hosts = Hosts::start().await;
    hosts.publish_slow(0.25).await;
    let payer = Payer::new();
    let funds = hosts.request(0, Method::POST, "/dev/faucet").json(&json!({ "address": payer.address, "amountUsd": 5 }));
    Host::try_send(funds).await.unwrap().is(200);
    let challenge = hosts.call(1, "slow").await.is(402).decoded("payment-required");
    let pay = || {
        let payment = payer.pay(&challenge);
        (payment.id(), json!({ "x402/payment": payment.payload }))
    };
    let state = async |payment: &str| {
        let answer = Host::try_send(hosts.request(1, Method::GET, &format!("/ai/payments/{payment}"))).await.unwrap().is(200);
        answer.json()["payment"]["state"].clone()
    };
    let (paid, meta) = pay();
    let id = hosts.begin(0, 700, meta).await;
    let request = hosts.task(1, &id).await;
    assert_eq!((&request["status"], &request["statusMessage"]), (&json!("working"), &json!("running")), "{request}");
    let done = hosts.ended(1, &id).await;
    assert_eq!((&done["status"], &done["result"]["structuredContent"]), (&json!("completed"), &json!({ "done": true })), "{done}");
    assert_eq!(state(&paid).await, "settled");

    let (stored, meta) = pay();
    let id = hosts.begin(0, 25_000, meta).await;
    assert_eq!(state(&stored).await, "reserved");
    assert_eq!(hosts.mcp(1, "tasks/cancel", json!({ "taskId": id })).await["resultType"], "complete");
    for at in [1, 0] {
        assert_eq!(hosts.ended(at, &id).await["status"], "cancelled");
    }
    assert_eq!(state(&stored).await, "released");
    hosts.end().await;
}

#[tokio::test]
async fn a_task_ends_with_the_lease_of_the_host_that_runs_it() {
    let hosts = Hosts::start().await;
    hosts.publish_slow(0.0).await;
    let (remaining, stored) = (hosts.begin(1, 25_000, json!({})).await, hosts.begin(0, 25_000, json!({})).await);
    for id in [&remaining, &stored] {
        assert_eq!(hosts.task(0, id).await["status"], "working");
    }
    hosts.store.fail_reads();
    let failed = hosts.ended(0, &remaining).await;
    assert_eq!((&failed["status"], failed.get("result")), (&json!("failed"), None), "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("restarted"), "{failed}");
    assert_eq!(hosts.task(0, &stored).await["status"], "working");
    hosts.store.heal();
    hosts.mcp(0, "tasks/cancel", json!({ "taskId": stored })).await;
    hosts.end().await;
}

#[tokio::test]
async fn free_task_of_one_host_is_answered_at_the_other_for_some_minutes() {
    let hosts = Hosts::start().await;
    hosts.publish_slow(0.0).await;
    let id = hosts.begin(0, 300, json!({})).await;
    for at in [1, 0] {
        let done = hosts.ended(at, &id).await;
        assert_eq!((&done["status"], &done["result"]["structuredContent"]), (&json!("completed"), &json!({ "done": true })), "{done}");
        assert!(done["ttlMs"].as_u64().unwrap() < 15 * 60_000, "{done}");
    }
    hosts.end().await;
}

#[tokio::test]
async fn older_revision_call_is_canceled_through_the_other_host() {
    let hosts = Hosts::start().await;
    hosts.publish_slow(0.0).await;
    let greeting = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let greeting = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting });
    let session = Host::try_send(hosts.message(0, "2025-11-25", &greeting)).await.unwrap().is(200).has("mcp-session-id").to_owned();
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "slow", "arguments": { "ms": 25_000 } } });
    let called = Host::try_send(hosts.message(0, "2025-11-25", &call).header("mcp-session-id", &session));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    let called = tokio::spawn(called);
    // Repeat it, because the call may not have begun yet.
    eventually("the call is canceled", Duration::from_secs(20), async || {
        Host::try_send(hosts.message(1, "2025-11-25", &cancel).header("mcp-session-id", &session)).await.unwrap().is(202);
        called.is_finished().then_some(())
    })
    .await;
    let result = Replied::read(&called.await.unwrap().unwrap()).result();
    assert_eq!(result["_meta"]["tollhouse/error"]["code"], "cancelled", "{result}");
    hosts.end().await;
}
