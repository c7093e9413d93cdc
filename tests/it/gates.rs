//! Permissions: builders within the policy, admins beyond it, and what a running call loses.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Host, eventually, js},
    revenue::tool,
};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

/// Reads kv until it is stopped, and logs when it has begun.
const READS: &str = "export default async (req, ctx) => {
    ctx.log.info('begun');
    for (let n = 0; n < 400; n++) {
        await ctx.kv.get('key');
        await new Promise((done) => setTimeout(done, 20));
    }
    return { finished: true };
};";

const CREATE: &str = "/ai/endpoints/create";

/// Returns an endpoint as its builder sees it.
pub async fn at(host: &Host, key: &str, slug: &str) -> Value {
    host.as_builder(key, Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.is(200).json()["endpoint"].clone()
}

/// Changes an endpoint as its builder.
pub async fn patch(host: &Host, key: &str, slug: &str, body: Value) -> Answer {
    host.as_builder(key, Method::PATCH, &format!("/ai/endpoints/{slug}"), &body).await
}

/// Decides a review as an admin, at the tool's current revision.
pub async fn decide(host: &Host, slug: &str, verdict: Value) -> Answer {
    let record = host.manage(Method::GET, &format!("/ai/endpoints/{slug}"), &Value::Null).await.json();
    let revision = record["endpoint"]["revision"].as_u64().unwrap_or_default();
    decide_at(host, slug, revision, verdict).await
}

/// Decides a review as an admin, at this revision.
pub async fn decide_at(host: &Host, slug: &str, revision: u64, verdict: Value) -> Answer {
    let request = host.request(Method::POST, &format!("/ai/admin/reviews/{slug}")).header("x-admin-token", &host.admin);
    host.send(request.header("if-match", format!("\"{revision}\"")).json(&verdict)).await
}

async fn set_policy(host: &Host, policy: Value) -> Value {
    host.manage(Method::PUT, "/ai/admin/policy", &policy).await.is(200).json()["policy"].clone()
}

/// Returns the names of the enabled capabilities.
fn names(capabilities: &Value) -> Vec<&str> {
    capabilities.as_object().unwrap().iter().filter_map(|(name, there)| (there == true).then_some(name.as_str())).collect()
}

async fn kinds(host: &Host, key: &str) -> Vec<String> {
    let events = host.as_builder(key, Method::GET, "/ai/builders/events?limit=200", &Value::Null).await.is(200).json();
    events["events"].as_array().unwrap().iter().rev().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_builder_vouches_for_uploads_and_an_admin_need_not() {
    let host = Host::start().await;
    let (id, key) = host.register("Vouches").await;
    let mut unattested = js("vouched", 0.0, ECHO);
    unattested.as_object_mut().unwrap().remove("safetyAttestation");
    host.as_builder(&key, Method::POST, CREATE, &unattested).await.fails(422, "attestation_required", "caller");
    unattested["safetyAttestation"] = json!({ "accepted": false });
    host.as_builder(&key, Method::POST, CREATE, &unattested).await.fails(422, "attestation_required", "caller");
    host.call("vouched", &json!({})).await.fails(404, "unknown_endpoint", "caller");

    let made = host.as_builder(&key, Method::POST, CREATE, &tool("vouched", 0.0, ECHO)).await.is(200).json()["endpoint"].clone();
    assert_eq!((&made["owner"], &made["contentSafety"]["outcome"]), (&json!(id), &json!("pass")));
    let public = host.get("/ai/endpoints/vouched").await.is(200).json()["endpoint"].clone();
    assert!(public["contentSafety"]["attestedAt"].is_string());
    assert_eq!(public.get("review"), None);
    patch(&host, &key, "vouched", json!({ "title": "New", "safetyAttestation": { "accepted": false } })).await.fails(
        422,
        "attestation_required",
        "caller",
    );
    let stored = patch(&host, &key, "vouched", json!({ "title": "New" })).await.is(200).json()["endpoint"].clone();
    assert_eq!(stored["contentSafety"]["attestedAt"], made["contentSafety"]["attestedAt"]);

    host.publish(&js("platform", 0.0, ECHO)).await;
    assert_eq!(host.get("/ai/endpoints/platform").await.json()["endpoint"]["contentSafety"], Value::Null);
    unattested["slug"] = json!("for-builder");
    unattested.as_object_mut().unwrap().remove("safetyAttestation");
    let theirs = host.manage(Method::POST, &format!("{CREATE}?builderId={id}"), &unattested).await;
    assert_eq!(theirs.is(200).json()["endpoint"]["owner"], json!(id));
    assert_eq!(at(&host, &key, "for-builder").await["status"], "active");
    let path = format!("{CREATE}?builderId=bld_01ARZ3NDEKTSV4RRFFQ69G5FAV");
    host.manage(Method::POST, &path, &js("for-nobody", 0.0, ECHO)).await.fails(404, "unknown_builder", "caller");
    host.as_builder(&key, Method::POST, &path, &tool("for-nobody", 0.0, ECHO)).await.fails(403, "not_owner", "caller");
}

#[tokio::test]
async fn grants_outside_the_policy_wait_for_an_admin() {
    let host = Host::start().await;
    let (_, key) = host.register("Asks").await;
    let mut asks = tool("asks", 0.0, "export default async (req, ctx) => ({ files: await ctx.files.list() });");
    asks["capabilities"] = json!({ "kv": true, "files": true, "httpGetJson": true, "logs": true });
    asks["allowedHosts"] = json!(["API.example.com", "b.example.org"]);
    let made = host.as_builder(&key, Method::POST, CREATE, &asks).await.is(200).json()["endpoint"].clone();
    assert_eq!((names(&made["capabilities"]), names(&made["requestedCapabilities"])), (vec!["kv", "logs"], vec!["files", "httpGetJson"]));
    assert_eq!((&made["allowedHosts"], &made["requestedHosts"]), (&json!([]), &json!(["api.example.com", "b.example.org"])));
    assert_eq!((&made["status"], &made["review"]["state"]), (&json!("active"), &json!("capabilities_requested")));
    host.call("asks", &json!({})).await.fails(502, "handler_failed", "tool");

    let wrong = json!({ "decision": "approve", "capabilities": { "files": true }, "allowedHosts": ["x y"] });
    decide(&host, "asks", wrong).await.fails(422, "invalid_decision", "caller");
    let queue = host.manage(Method::GET, "/ai/admin/reviews", &Value::Null).await.is(200).json();
    assert_eq!(queue["reviews"][0]["slug"], "asks");
    assert_eq!(queue["reviews"][0]["requestedHosts"], json!(["api.example.com", "b.example.org"]));
    let verdict =
        json!({ "decision": "approve", "capabilities": { "files": true, "httpGetJson": true }, "allowedHosts": ["api.example.com"] });
    let granted = decide(&host, "asks", verdict).await.is(200).json()["endpoint"].clone();
    assert_eq!(names(&granted["capabilities"]), ["kv", "files", "httpGetJson", "logs"]);
    assert_eq!((&granted["allowedHosts"], &granted["requestedHosts"]), (&json!(["api.example.com"]), &json!([])));
    host.call("asks", &json!({})).await.is(200);
    assert_eq!(host.manage(Method::GET, "/ai/admin/reviews", &Value::Null).await.json()["reviews"], json!([]));

    // A new host needs an approval, a removed one is removed at once, and the others stay.
    let hosts = json!({ "allowedHosts": ["c.example.net", "api.example.com"] });
    let request = patch(&host, &key, "asks", hosts).await.is(200).json()["endpoint"].clone();
    assert_eq!((&request["allowedHosts"], &request["requestedHosts"]), (&json!(["api.example.com"]), &json!(["c.example.net"])));
    let rejected =
        decide(&host, "asks", json!({ "decision": "reject", "reason": "not that one" })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&rejected["allowedHosts"], &rejected["requestedHosts"]), (&json!(["api.example.com"]), &json!([])));
    assert_eq!(at(&host, &key, "asks").await["review"]["decision"]["reason"], "not that one");
    decide(&host, "asks", json!({ "decision": "reject" })).await.fails(409, "nothing_to_review", "caller");
    let none = patch(&host, &key, "asks", json!({ "allowedHosts": [], "capabilities": { "kv": true } })).await.is(200).json();
    assert_eq!((names(&none["endpoint"]["capabilities"]), &none["endpoint"]["allowedHosts"]), (vec!["kv"], &json!([])));
    host.call("asks", &json!({})).await.fails(502, "handler_failed", "tool");
    // A capability that was given up must be requested again.
    let again = patch(&host, &key, "asks", json!({ "capabilities": { "kv": true, "files": true } })).await.is(200).json();
    assert_eq!(names(&again["endpoint"]["requestedCapabilities"]), ["files"]);
    let listed: Vec<_> = kinds(&host, &key).await.into_iter().filter(|kind| !kind.starts_with("call.")).collect();
    assert_eq!(
        listed,
        [
            "endpoint.created",
            "endpoint.reviewed",
            "capability.granted",
            "endpoint.updated",
            "endpoint.reviewed",
            "endpoint.updated",
            "capability.revoked",
            "endpoint.updated",
        ]
    );
}

#[tokio::test]
async fn revocation_stops_a_running_call_at_its_next_op() {
    for verdict in
        [json!({ "decision": "revoke", "capabilities": { "kv": true }, "reason": "too much" }), json!({ "decision": "takedown" })]
    {
        let host = Host::start().await;
        let (_, key) = host.register("Reads").await;
        host.as_builder(&key, Method::POST, CREATE, &tool("reads", 0.0, READS)).await.is(200);
        let input = json!({});
        let running = host.call("reads", &input);
        let take_back = async {
            eventually("the call is running", Duration::from_secs(8), || async {
                let logs = host.as_builder(&key, Method::GET, "/ai/endpoints/reads/logs", &Value::Null).await.is(200).json();
                (!logs["logs"].as_array().unwrap().is_empty()).then_some(())
            })
            .await;
            decide(&host, "reads", verdict.clone()).await.is(200)
        };
        let (ended, _) = tokio::join!(running, take_back);
        let error = ended.fails(502, "handler_failed", "tool");
        assert!(error["message"].as_str().unwrap().contains("ctx.kv"), "{error}");
    }
}

#[tokio::test]
async fn builder_cannot_regain_a_grant_an_admin_revoked() {
    let host = Host::start().await;
    let (_, key) = host.register("Again").await;
    host.as_builder(&key, Method::POST, CREATE, &tool("again", 0.0, "export default (req, ctx) => ctx.kv.get('a');")).await.is(200);
    decide(&host, "again", json!({ "decision": "revoke" })).await.fails(422, "invalid_decision", "caller");
    decide(&host, "again", json!({ "decision": "revoke", "capabilities": { "kv": true } })).await.is(200);
    for capabilities in [json!({}), json!({ "kv": true, "logs": true })] {
        patch(&host, &key, "again", json!({ "capabilities": capabilities })).await.is(200);
    }
    let request = at(&host, &key, "again").await;
    assert_eq!((names(&request["capabilities"]), names(&request["requestedCapabilities"])), (vec!["logs"], vec!["kv"]));
    host.call("again", &json!({})).await.fails(502, "handler_failed", "tool");
    // The policy grants kv to builders. But an admin revoked it here, so only an admin can grant it
    // again.
    let granted = host.change("again", &json!({ "capabilities": { "kv": true, "logs": true } })).await;
    assert_eq!((names(&granted["capabilities"]), names(&granted["requestedCapabilities"])), (vec!["kv", "logs"], vec![]));
    decide(&host, "again", json!({ "decision": "approve", "capabilities": { "files": true }})).await.fails(
        422,
        "invalid_decision",
        "caller",
    );
}

#[tokio::test]
async fn the_policy_is_changed_whole_by_its_revision_and_holds_at_once() {
    let host = Host::start().await;
    let (_, key) = host.register("Within").await;
    let answer = host.manage(Method::GET, "/ai/admin/policy", &Value::Null).await.is(200);
    let (shipped, etag) = (answer.json()["policy"].clone(), answer.has("etag").to_owned());
    assert_eq!(names(&shipped["builderCapabilities"]), ["kv", "logs"]);
    assert_eq!((&shipped["requireReview"], &shipped["maxEndpointsPerBuilder"]), (&json!(false), &json!(100)));
    assert_eq!((&shipped["limits"]["cpuMs"], &shipped["limits"]["wallMs"]), (&json!(10_000), &json!(300_000)));
    host.as_builder(&key, Method::GET, "/ai/admin/policy", &Value::Null).await.fails(403, "not_owner", "caller");
    host.get("/ai/admin/policy").await.fails(401, "unauthorized", "caller");
    for (policy, pointer) in [
        (json!({ "surprise": 1 }), "/surprise"),
        (json!({ "builderCapabilities": { "shell": true } }), "/builderCapabilities/shell"),
        (json!({ "limits": { "cpuMs": 10_001 } }), "/limits/cpuMs"),
        (json!({ "limits": { "speed": 1 } }), "/limits/speed"),
        (json!({ "maxEndpointsPerBuilder": -1 }), "/maxEndpointsPerBuilder"),
    ] {
        let error = host.manage(Method::PUT, "/ai/admin/policy", &policy).await.fails(422, "invalid_policy", "caller");
        assert_eq!(error["pointer"], pointer, "{policy}");
    }

    let mut wide = tool("wide", 0.0, ECHO);
    wide["limits"] = json!({ "inputBytes": 500_000, "wallMs": 30_000 });
    host.as_builder(&key, Method::POST, CREATE, &wide).await.is(200);
    let large = json!({ "pad": "x".repeat(300_000) });
    let invoke = json!({ "slug": "wide", "input": {} });
    host.post("/ai/invoke", &invoke).await.fails(409, "streaming_required", "caller");
    set_policy(&host, json!({ "limits": { "inputBytes": 100_000, "wallMs": 5_000 }, "maxEndpointsPerBuilder": 2, "builderCapabilities": { "logs": true } })).await;
    host.call("wide", &large).await.fails(413, "body_too_large", "caller");
    host.post("/ai/invoke", &invoke).await.is(200);
    let narrowed = at(&host, &key, "wide").await;
    assert_eq!((&narrowed["limits"]["inputBytes"], &narrowed["limits"]["wallMs"]), (&json!(100_000), &json!(5_000)));
    // If the policy no longer has a capability, endpoints that have it keep it, but no other
    // endpoint gets it.
    assert_eq!(names(&narrowed["capabilities"]), ["kv", "logs"]);
    let second = host.as_builder(&key, Method::POST, CREATE, &tool("second", 0.0, ECHO)).await.is(200).json()["endpoint"].clone();
    assert_eq!((names(&second["capabilities"]), names(&second["requestedCapabilities"])), (vec!["logs"], vec!["kv"]));
    host.as_builder(&key, Method::POST, CREATE, &tool("third", 0.0, ECHO)).await.fails(409, "too_many_endpoints", "caller");
    let error = patch(&host, &key, "wide", json!({ "limits": { "inputBytes": 100_001 } })).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/limits/inputBytes");

    let stale =
        host.request(Method::PUT, "/ai/admin/policy").header("x-admin-token", &host.admin).header("if-match", &etag).json(&json!({}));
    host.send(stale).await.fails(412, "revision_changed", "caller");
    assert_eq!(set_policy(&host, json!({})).await, shipped);
    assert_eq!(at(&host, &key, "wide").await["limits"]["inputBytes"], 500_000, "a higher ceiling restores the requested limit");

    let capped = decide(&host, "wide", json!({ "decision": "approve", "limits": { "inputBytes": 50_000 } })).await.is(200).json();
    assert_eq!(capped["endpoint"]["limits"]["inputBytes"], 50_000);
    let small = json!({ "pad": "x".repeat(60_000) });
    host.call("wide", &small).await.fails(413, "body_too_large", "caller");
    patch(&host, &key, "wide", json!({ "limits": { "inputBytes": 400_000 } })).await.is(200);
    host.call("wide", &small).await.fails(413, "body_too_large", "caller");
    decide(&host, "wide", json!({ "decision": "approve", "limits": { "inputBytes": null } })).await.is(200);
    host.call("wide", &small).await.is(200);
}

#[tokio::test]
async fn policy_and_its_decisions_survive_a_kill() {
    let mut host = Host::start().await;
    let (_, key) = host.register("Kept").await;
    let policy = set_policy(&host, json!({ "limits": { "inputBytes": 1_000 }, "builderCapabilities": { "kv": true, "logs": true } })).await;
    let mut asks = tool("asks", 0.0, ECHO);
    asks["capabilities"] = json!({ "kv": true, "files": true });
    host.as_builder(&key, Method::POST, CREATE, &asks).await.is(200);
    let before =
        decide(&host, "asks", json!({ "decision": "revoke", "capabilities": { "kv": true } })).await.is(200).json()["endpoint"].clone();
    host.restart().await;
    assert_eq!(host.manage(Method::GET, "/ai/admin/policy", &Value::Null).await.json()["policy"], policy);
    let mut after = at(&host, &key, "asks").await;
    after["url"] = before["url"].clone();
    assert_eq!(after, before);
    assert_eq!(after["limits"]["inputBytes"], 1_000);
    patch(&host, &key, "asks", json!({ "capabilities": { "kv": true } })).await.is(200);
    assert_eq!(names(&at(&host, &key, "asks").await["requestedCapabilities"]), ["kv"]);
}

#[tokio::test]
async fn slug_stays_with_its_former_owner() {
    let host = Host::start().await;
    let ((_, one), (_, two)) = (host.register("One").await, host.register("Two").await);
    let fresh = |source: &str| tool("mine", 0.0, source);
    host.as_builder(&one, Method::POST, CREATE, &fresh(ECHO)).await.is(200);
    host.as_builder(&two, Method::POST, CREATE, &fresh("export default () => 2;")).await.fails(409, "slug_taken", "caller");
    host.as_builder(&two, Method::DELETE, "/ai/endpoints/mine", &Value::Null).await.fails(403, "not_owner", "caller");
    patch(&host, &two, "mine", json!({ "title": "x" })).await.fails(403, "not_owner", "caller");
    host.as_builder(&two, Method::GET, "/ai/endpoints/mine/source", &Value::Null).await.fails(403, "not_owner", "caller");
    host.as_builder(&one, Method::DELETE, "/ai/endpoints/mine", &Value::Null).await.is(200);
    host.call("mine", &json!({})).await.fails(404, "unknown_endpoint", "caller");
    host.as_builder(&two, Method::POST, CREATE, &fresh("export default () => 2;")).await.fails(409, "slug_taken", "caller");
    host.as_builder(&one, Method::POST, CREATE, &fresh(ECHO)).await.is(200);
    host.as_builder(&one, Method::DELETE, "/ai/endpoints/mine", &Value::Null).await.is(200);
    host.publish(&js("mine", 0.0, "export default () => 3;")).await;
}

#[tokio::test]
async fn deleting_an_endpoint_undoes_no_decision_of_an_admin() {
    let host = Host::start().await;
    let (id, key) = host.register("Deletes").await;
    let create = async || host.as_builder(&key, Method::POST, CREATE, &tool("decided", 0.0, ECHO)).await;
    let delete = async || host.as_builder(&key, Method::DELETE, "/ai/endpoints/decided", &Value::Null).await.is(200);
    create().await.is(200);
    for verdict in [
        json!({ "decision": "takedown" }),
        json!({ "decision": "revoke", "capabilities": { "kv": true } }),
        json!({ "decision": "approve", "limits": { "wallMs": 1_000 } }),
    ] {
        decide(&host, "decided", verdict).await.is(200);
        delete().await;
        create().await.fails(409, "slug_taken", "caller");
        // An admin releases the slug by creating an endpoint with it.
        host.manage(Method::POST, &format!("{CREATE}?builderId={id}"), &js("decided", 0.0, ECHO)).await.is(200);
    }
    delete().await;
    create().await.is(200);
}
