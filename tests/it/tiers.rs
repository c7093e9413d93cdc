//! Sandbox tiers: the strictest one that an admin has set for the endpoint, its builder or the host
//! applies.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Host, eventually, tollhouse},
    revenue::tool,
};

const CREATE: &str = "/ai/endpoints/create";
/// Counts the calls in its process.
const COUNTS: &str = "let calls = 0; export default () => ({ calls: ++calls });";

async fn count(host: &Host, slug: &str) -> Value {
    host.call(slug, &json!({})).await.is(200).json()["calls"].clone()
}

async fn at(host: &Host, slug: &str) -> Value {
    host.manage(Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json()["endpoint"].clone()
}

/// Returns the effective tier of an endpoint, and the one that was set for it alone.
async fn tiers(host: &Host, slug: &str) -> [String; 2] {
    let record = at(host, slug).await;
    ["tier", "tierCap"].map(|name| record[name].as_str().unwrap().to_owned())
}

async fn decide(host: &Host, slug: &str, tier: &str) -> Answer {
    crate::gates::decide(host, slug, json!({ "decision": "approve", "tier": tier })).await
}

async fn judge(host: &Host, id: &str, verdict: Value) -> Answer {
    host.manage(Method::POST, &format!("/ai/admin/builders/{id}"), &verdict).await
}

async fn set_policy(host: &Host, policy: Value) -> Answer {
    host.manage(Method::PUT, "/ai/admin/policy", &policy).await
}

/// Returns the tiers of which the host has had workers.
async fn in_use(host: &Host) -> Vec<Value> {
    let health = host.get("/health").await.is(200).json();
    health["sandbox"]["tiers"].as_array().unwrap().iter().map(|tier| tier["tier"].clone()).collect()
}

#[tokio::test]
async fn the_strictest_of_endpoint_builder_and_policy_is_in_force_from_the_next_call_on() {
    let host = Host::start().await;
    let (id, key) = host.register("Confined").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("theirs", 0.0, COUNTS)).await.is(200);
    host.publish(&tool("ours", 0.0, COUNTS)).await;
    for calls in [1, 2] {
        assert_eq!((count(&host, "theirs").await, count(&host, "ours").await), (json!(calls), json!(calls)));
    }
    assert_eq!(tiers(&host, "theirs").await, ["jit", "jit"]);
    assert_eq!(in_use(&host).await, ["jit"]);

    decide(&host, "theirs", "jitless").await.is(200);
    assert_eq!(tiers(&host, "theirs").await, ["jitless", "jitless"]);
    assert_eq!((count(&host, "theirs").await, count(&host, "ours").await), (json!(1), json!(3)), "another process, for one of them");
    assert_eq!(in_use(&host).await, ["jit", "jitless"]);
    eventually("the calls are recorded with how they ran", Duration::from_secs(60), || async {
        let calls = host.as_builder(&key, Method::GET, "/ai/endpoints/theirs/calls", &Value::Null).await.is(200).json();
        let ran: Vec<_> = calls["calls"].as_array().unwrap().iter().map(|call| call["tier"].clone()).collect();
        (ran == ["jitless", "jit", "jit"]).then_some(())
    })
    .await;
    // A change by the owner does not affect the tier.
    host.as_builder(&key, Method::PATCH, "/ai/endpoints/theirs", &json!({ "title": "Another" })).await.is(200);
    assert_eq!((tiers(&host, "theirs").await, count(&host, "theirs").await), (["jitless".into(), "jitless".into()], json!(2)));

    let judged = judge(&host, &id, json!({ "decision": "tier", "tier": "jitless" })).await.is(200).json();
    assert_eq!(judged["builder"]["tier"], "jitless");
    decide(&host, "theirs", "jit").await.is(200);
    assert_eq!(tiers(&host, "theirs").await, ["jitless", "jit"], "the builder's is stricter");
    assert_eq!((count(&host, "theirs").await, tiers(&host, "ours").await), (json!(3), ["jit".into(), "jit".into()]));
    set_policy(&host, json!({ "tier": "jitless" })).await.is(200);
    judge(&host, &id, json!({ "decision": "tier", "tier": "jit" })).await.is(200);
    assert_eq!(tiers(&host, "theirs").await, ["jitless", "jit"], "the policy's is stricter");
    assert_eq!(tiers(&host, "ours").await, ["jit", "jit"], "the policy is for builders");
    let listed = host.manage(Method::GET, "/ai/admin/endpoints", &Value::Null).await.is(200).json();
    assert_eq!(listed["endpoints"].as_array().unwrap().iter().map(|row| row["tier"].clone()).collect::<Vec<_>>(), ["jit", "jitless"]);
    set_policy(&host, json!({})).await.is(200);
    assert_eq!((tiers(&host, "theirs").await, count(&host, "theirs").await), (["jit".into(), "jit".into()], json!(1)));

    let events = host.as_builder(&key, Method::GET, "/ai/builders/events?limit=200", &Value::Null).await.is(200).json();
    let describe = |kind: &str| -> Vec<Value> {
        let events = events["events"].as_array().unwrap().iter().rev();
        events.filter(|event| event["kind"] == kind).map(|event| event["data"]["tier"].clone()).collect()
    };
    assert_eq!(
        (describe("builder.tier_set"), describe("endpoint.reviewed")),
        (vec![json!("jitless"), json!("jit")], vec![json!("jitless"), json!("jit")])
    );
}

#[tokio::test]
async fn tier_is_one_of_those_there_are_and_named_where_it_is_decided() {
    let host = Host::start().await;
    let (id, key) = host.register("Judged").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("judged", 0.0, COUNTS)).await.is(200);
    let error = decide(&host, "judged", "fast").await.fails(422, "invalid_decision", "caller");
    assert_eq!(error["pointer"], "/tier");
    let error = set_policy(&host, json!({ "tier": "fast" })).await.fails(422, "invalid_policy", "caller");
    assert_eq!(error["pointer"], "/tier");
    for verdict in
        [json!({ "decision": "tier", "tier": "fast" }), json!({ "decision": "tier" }), json!({ "decision": "suspend", "tier": "jitless" })]
    {
        let error = judge(&host, &id, verdict.clone()).await.fails(422, "invalid_decision", "caller");
        assert_eq!(error["pointer"], "/tier", "{verdict}");
    }
    judge(&host, &id, json!({ "decision": "tier", "tier": "jit" })).await.fails(409, "wrong_state", "caller");
    // An owner cannot request a tier.
    let mut asks = tool("asks", 0.0, COUNTS);
    asks["tier"] = json!("jit");
    let error = host.as_builder(&key, Method::POST, CREATE, &asks).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/tier");
}

#[tokio::test]
async fn tier_setting_survives_a_kill_and_applies_to_uploads() {
    let mut host = Host::start().await;
    let (id, key) = host.register("Kept").await;
    for slug in ["alone", "of-them"] {
        host.as_builder(&key, Method::POST, CREATE, &tool(slug, 0.0, COUNTS)).await.is(200);
    }
    decide(&host, "alone", "jitless").await.is(200);
    host.restart().await;
    assert_eq!((tiers(&host, "alone").await, tiers(&host, "of-them").await), (["jitless"; 2].map(Into::into), ["jit"; 2].map(Into::into)));
    // After a deletion, the decision keeps the slug reserved.
    host.as_builder(&key, Method::DELETE, "/ai/endpoints/alone", &Value::Null).await.is(200);
    host.as_builder(&key, Method::POST, CREATE, &tool("alone", 0.0, COUNTS)).await.fails(409, "slug_taken", "caller");

    judge(&host, &id, json!({ "decision": "tier", "tier": "jitless" })).await.is(200);
    host.restart().await;
    assert_eq!(tiers(&host, "of-them").await, ["jitless", "jit"]);
    eventually("the usual tier has its spares", Duration::from_secs(60), || async { (in_use(&host).await == ["jit"]).then_some(()) }).await;
    host.as_builder(&key, Method::POST, CREATE, &tool("fresh", 0.0, COUNTS)).await.is(200);
    assert_eq!(in_use(&host).await, ["jit", "jitless"]);
}

#[tokio::test]
async fn host_can_use_one_tier_for_all() {
    let host = Host::builder().flag("--sandbox-tier", "jitless").flag("--sandbox-strict", "no_exec").start().await;
    host.publish(&tool("ours", 0.0, COUNTS)).await;
    assert_eq!((count(&host, "ours").await, count(&host, "ours").await), (json!(1), json!(2)));
    decide(&host, "ours", "jit").await.is(200);
    assert_eq!(tiers(&host, "ours").await, ["jitless", "jit"]);
    let sandbox = host.get("/health").await.is(200).json()["sandbox"].clone();
    assert!(sandbox["jail"].as_array().unwrap().contains(&json!("no_exec")), "{sandbox}");
    assert_eq!(in_use(&host).await, ["jitless"]);

    let data = tempfile::tempdir().unwrap();
    let mut unknown = tollhouse();
    unknown.args(["serve", "--listen", "127.0.0.1:0", "--sandbox-tier", "fast", "--data"]).arg(data.path());
    let unknown = unknown.output().unwrap();
    let text = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success() && text.contains("`fast` is not a tier"), "{text}");
}
