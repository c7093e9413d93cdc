//! Suspension of a builder: it stops everything, deletes nothing, and can be lifted entirely.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Host, eventually},
    revenue::{events, tool},
};

const CREATE: &str = "/ai/endpoints/create";
const PLAIN: &str = "export default (req, ctx) => ({ token: ctx.env.API_TOKEN.length });";
/// Checks its access again and again.
const WAITS: &str = "export default async (req, ctx) => {
    for (let n = 0; n < 600; n++) {
        await ctx.kv.set('n', n);
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return {};
};";

async fn judge(host: &Host, id: &str, decision: &str) -> Answer {
    host.manage(Method::POST, &format!("/ai/admin/builders/{id}"), &json!({ "decision": decision, "reason": "stolen key" })).await
}

async fn owned(host: &Host, slug: &str) -> Value {
    host.manage(Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json()["endpoint"].clone()
}

#[tokio::test]
async fn a_suspended_builder_changes_nothing_sells_nothing_and_gets_all_of_it_back() {
    let mut host = Host::start().await;
    let (id, key) = host.register("Suspended").await;
    for (slug, status) in [("sells", "active"), ("rests", "paused")] {
        let mut tool = tool(slug, 0.25, PLAIN);
        tool["status"] = json!(status);
        host.as_builder(&key, Method::POST, CREATE, &tool).await.is(200);
        let secret = json!({ "name": "API_TOKEN", "value": "a value" });
        host.as_builder(&key, Method::POST, &format!("/ai/endpoints/{slug}/secrets"), &secret).await.is(200);
    }
    host.as_builder(&key, Method::POST, CREATE, &tool("held", 0.0, "export default () => eval('1');")).await.is(200);
    let credit = host.mint(1.0).await;
    host.call_credit("sells", &json!({}), &credit).await.is(200);
    let settings = json!({ "address": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "minimumUsd": 0 });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &settings).await.is(200);
    let packet = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payout"]["id"].clone();
    let packet = format!("/ai/admin/payouts/{}", packet.as_str().unwrap());
    host.call_credit("sells", &json!({}), &credit).await.is(200);
    let before = [owned(&host, "sells").await, owned(&host, "rests").await, owned(&host, "held").await];

    judge(&host, &id, "restore").await.fails(409, "wrong_state", "caller");
    let judged = judge(&host, &id, "suspend").await.is(200).json();
    assert_eq!(judged["builder"]["suspended"]["reason"], "stolen key");
    judge(&host, &id, "suspend").await.fails(409, "wrong_state", "caller");
    for _ in 0..2 {
        for (method, path, body) in [
            (Method::GET, "/ai/builders/me", Value::Null),
            (Method::POST, "/ai/builders/keys", Value::Null),
            (Method::GET, "/ai/builders/endpoints", Value::Null),
            (Method::GET, "/ai/builders/events", Value::Null),
            (Method::POST, CREATE, tool("another", 0.0, PLAIN)),
            (Method::PATCH, "/ai/endpoints/sells", json!({ "priceUsd": 0.5 })),
            (Method::GET, "/ai/endpoints/sells", Value::Null),
            (Method::DELETE, "/ai/endpoints/sells", Value::Null),
            (Method::POST, "/ai/endpoints/sells/secrets", json!({ "name": "API_TOKEN", "value": "another" })),
            (Method::POST, "/ai/builders/payouts", Value::Null),
            (Method::POST, "/tools/sells", json!({})),
        ] {
            let error = host.as_builder(&key, method, path, &body).await.fails(403, "builder_suspended", "caller");
            assert!(error["message"].as_str().unwrap().contains("stolen key"), "{error}");
        }
        for path in ["revenue", "payouts", "payout-settings"] {
            host.as_builder(&key, Method::GET, &format!("/ai/builders/{path}"), &Value::Null).await.is(200);
        }
        let revenue = host.as_builder(&key, Method::GET, "/ai/builders/revenue", &Value::Null).await.is(200).json();
        assert_eq!(revenue["totals"]["grossUsd"], 0.5);
        let error = host.call_credit("sells", &json!({}), &credit).await.fails(409, "endpoint_paused", "tool");
        assert!(error["message"].as_str().unwrap().contains("suspended"));
        host.get("/ai/endpoints/sells").await.fails(404, "unknown_endpoint", "caller");
        assert_eq!(host.get("/ai/endpoints").await.is(200).json()["endpoints"], json!([]));
        assert!(host.mcp().tool("sells").await.is_none());
        // Admins cannot change anything either.
        let secret = host.manage(Method::DELETE, "/ai/endpoints/sells/secrets?name=API_TOKEN", &Value::Null).await;
        secret.fails(403, "builder_suspended", "caller");
        host.manage(Method::POST, &packet, &json!({ "decision": "approve" })).await.fails(403, "builder_suspended", "caller");
        let listed = host.manage(Method::GET, "/ai/admin/endpoints?state=suspended", &Value::Null).await.is(200).json();
        assert_eq!(listed["endpoints"].as_array().unwrap().len(), 2, "{listed}");
        assert_eq!(owned(&host, "held").await["review"]["state"], "content_review");
        host.restart().await;
    }
    judge(&host, &id, "restore").await.is(200);
    let after = [owned(&host, "sells").await, owned(&host, "rests").await, owned(&host, "held").await];
    let without_url = |records: [Value; 3]| {
        records.map(|mut record| {
            record["url"] = Value::Null;
            record
        })
    };
    assert_eq!(without_url(after), without_url(before));
    assert_eq!(host.call_credit("sells", &json!({}), &credit).await.is(200).json()["token"], 7);
    host.manage(Method::POST, &packet, &json!({ "decision": "approve" })).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200);
    let kinds: Vec<_> = events(&host, &key, "").await.iter().rev().map(|event| event["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|kind| matches!(kind.as_str(), "builder.suspended" | "builder.restored")).count(), 2, "{kinds:?}");
    let trail = host.manage(Method::GET, "/ai/admin/audit?limit=200", &Value::Null).await.is(200).json();
    let entries = trail["entries"].as_array().unwrap();
    assert_eq!(entries.iter().filter(|entry| entry["builderId"] == *id && entry["outcome"]["status"] == 200).count(), 2, "{trail}");
    assert!(entries.iter().any(|entry| entry["outcome"]["code"] == "builder_suspended"), "attempts are in the audit trail");
}

#[tokio::test]
async fn running_calls_lose_their_grants_when_the_builder_is_suspended() {
    let host = Host::start().await;
    let (id, key) = host.register("Suspended").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("waits", 0.25, WAITS)).await.is(200);
    let credit = host.mint(1.0).await;
    let suspending = async {
        host.wait_for_calls(1).await;
        judge(&host, &id, "suspend").await.is(200);
    };
    let input = json!({});
    let (answer, ()) = tokio::join!(host.call_credit("waits", &input, &credit), suspending);
    let error = answer.fails(502, "handler_failed", "tool");
    assert!(error["message"].as_str().unwrap().contains("not granted"), "{error}");
    assert_eq!(host.credit_balance(&credit).await, 1_000_000);
}

#[tokio::test]
async fn suspended_builder_publishes_nothing_after_the_answer() {
    let host = Host::start().await;
    let (id, key) = host.register("Races").await;
    let publishing = join_all((0..24).map(|n| {
        let (host, key) = (&host, &key);
        async move {
            tokio::time::sleep(Duration::from_millis(10 * n)).await;
            let answer = host.as_builder(key, Method::POST, CREATE, &tool(&format!("races-{n}"), 0.0, "export default () => 1;")).await;
            // Only two uploads are checked at once. Others are refused with 429.
            if !matches!(answer.status, 200 | 429) {
                answer.fails(403, "builder_suspended", "caller");
            }
        }
    }));
    let suspending = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        judge(&host, &id, "suspend").await.is(200);
        let count = async || {
            let all = host.manage(Method::GET, "/ai/admin/endpoints?limit=200", &Value::Null).await.is(200).json();
            let all = all["endpoints"].as_array().unwrap().clone();
            assert!(all.iter().all(|endpoint| endpoint["state"] == "suspended"), "{all:?}");
            all.len()
        };
        count().await
    };
    let (_, published) = tokio::join!(publishing, suspending);
    let all = eventually("all is listed", Duration::from_secs(5), || async {
        let all = host.manage(Method::GET, "/ai/admin/endpoints?limit=200", &Value::Null).await.is(200).json();
        Some(all["endpoints"].as_array().unwrap().clone())
    })
    .await;
    assert_eq!(all.len(), published, "something was published after");
    assert!(published < 24, "the race was none");
    for endpoint in all {
        host.call(endpoint["slug"].as_str().unwrap(), &json!({})).await.fails(409, "endpoint_paused", "tool");
    }
}
