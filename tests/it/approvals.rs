//! The approved version of an endpoint compared with the current one, and the order of the review
//! queue.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Host},
    revenue::tool,
};

/// Needs an approval, for `code.eval`.
const EVALUATES: &str = "export default (req) => {\n  return eval('1');\n};";

async fn decide(host: &Host, slug: &str, decision: &str) -> Value {
    crate::gates::decide(host, slug, json!({ "decision": decision })).await.is(200).json()["endpoint"].clone()
}

async fn patch(host: &Host, key: &str, slug: &str, body: Value) -> Answer {
    host.as_builder(key, Method::PATCH, &format!("/ai/endpoints/{slug}"), &body).await.is(200)
}

async fn approved(host: &Host, key: &str, slug: &str) -> Value {
    let endpoint = host.as_builder(key, Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json();
    endpoint["endpoint"]["review"]["approvedFields"].clone()
}

#[tokio::test]
async fn record_shows_values_changed_since_approval() {
    let mut host = Host::start().await;
    let (_, key) = host.register("Changes").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("changes", 0.25, EVALUATES)).await.is(200);
    patch(&host, &key, "changes", json!({ "title": "Before anybody looked" })).await;
    assert_eq!(approved(&host, &key, "changes").await, json!({}), "nothing was approved");
    let first = decide(&host, "changes", "approve").await;
    assert_eq!(first["review"]["approvedFields"], json!({}));

    let schema = json!({ "type": "object", "required": ["text"] });
    let more = json!({ "title": "Second", "priceUsd": 0.5, "inputSchema": schema, "limits": { "wallMs": 20_000 }, "capabilities": { "kv": true } });
    patch(&host, &key, "changes", more).await;
    patch(&host, &key, "changes", json!({ "title": "Third" })).await;
    let then = json!({
        "title": "Before anybody looked", "priceUsd": 0.25, "inputSchema": first["inputSchema"], "ownLimits": {},
        "capabilities": first["capabilities"],
    });
    assert_eq!(approved(&host, &key, "changes").await, then);
    host.restart().await;
    assert_eq!(approved(&host, &key, "changes").await, then, "a crash changed it");
    patch(&host, &key, "changes", json!({ "title": "Before anybody looked", "capabilities": { "kv": true, "logs": true } })).await;
    host.change("changes", &json!({ "priceUsd": 0.75 })).await;
    let rest = json!({ "inputSchema": first["inputSchema"], "ownLimits": {} });
    assert_eq!(approved(&host, &key, "changes").await, rest, "unchanged fields and an admin's own changes are not listed");
    assert!(host.get("/ai/endpoints/changes").await.json()["endpoint"].get("review").is_none(), "it is nobody's else");

    // After another approval no field differs from the approved version. Reopening the review
    // brings the earlier approval back.
    patch(&host, &key, "changes", json!({ "handler": { "source": format!("{EVALUATES}\n// more") } })).await;
    let second = decide(&host, "changes", "approve").await;
    assert_eq!((&second["review"]["approvedFields"], &second["review"]["approvedVersion"]), (&json!({}), &second["version"]));
    patch(&host, &key, "changes", json!({ "priceUsd": 1 })).await;
    assert_eq!(approved(&host, &key, "changes").await, json!({ "priceUsd": 0.75 }));
    let reopened = decide(&host, "changes", "reopen").await;
    let both = json!({ "inputSchema": first["inputSchema"], "ownLimits": {}, "priceUsd": 0.75 });
    assert_eq!((&reopened["review"]["approvedFields"], &reopened["review"]["approvedVersion"]), (&both, &first["version"]));
}

#[tokio::test]
async fn oldest_review_comes_first_with_the_total() {
    let host = Host::start().await;
    let (_, key) = host.register("Waits").await;
    let slugs = ["zebra", "heron", "mole", "ant"];
    for slug in slugs {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 0.0, EVALUATES)).await.is(200);
    }
    // A change of an endpoint that is already waiting does not move it back in the queue.
    patch(&host, &key, "zebra", json!({ "title": "Zebra" })).await;
    let (mut found, mut cursor) = (vec![], String::new());
    loop {
        let page = host.manage(Method::GET, &format!("/ai/admin/reviews?limit=3{cursor}"), &Value::Null).await.is(200).json();
        assert_eq!(page["total"], 4);
        found.extend(page["reviews"].as_array().unwrap().iter().map(|review| review["slug"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, slugs);
    let of_another_list = host.manage(Method::GET, "/ai/admin/endpoints?limit=1", &Value::Null).await.is(200).json();
    let path = format!("/ai/admin/reviews?cursor={}", of_another_list["nextCursor"].as_str().unwrap());
    host.manage(Method::GET, &path, &Value::Null).await.fails(400, "invalid_request", "caller");
}

#[tokio::test]
async fn calls_of_all_endpoints_are_added_up_for_admins() {
    let host = Host::start().await;
    let (_, key) = host.register("Called").await;
    for (slug, source) in [("one", "export default () => ({});"), ("two", "export default () => { throw new Error('no'); };")] {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 0.0, source)).await.is(200);
        host.call(slug, &json!({})).await;
    }
    host.as_builder(&key, Method::DELETE, "/ai/endpoints/one", &Value::Null).await.is(200);
    let body = host.manage(Method::GET, "/ai/admin/metrics?since=1h&step=1h", &Value::Null).await.is(200).json();
    let sum = |name: &str| body["buckets"].as_array().unwrap().iter().filter_map(|bucket| bucket[name].as_u64()).sum::<u64>();
    let failed: u64 = body["buckets"].as_array().unwrap().iter().filter_map(|bucket| bucket["failed"]["handler_failed"].as_u64()).sum();
    assert_eq!((sum("calls"), failed), (2, 1));
    host.as_builder(&key, Method::GET, "/ai/admin/metrics", &Value::Null).await.fails(403, "not_owner", "caller");
    host.manage(Method::GET, "/ai/admin/metrics?since=9999d", &Value::Null).await.fails(400, "invalid_request", "caller");
}
