//! The catalog: lists, publication, changes and deletion.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};
use tollhouse::tool::{Capabilities, HandlerType};

use crate::harness::{Answer, Host, js};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

/// Returns the names of all capabilities, sorted.
fn every_capability() -> BTreeSet<&'static str> {
    Capabilities::ALL.names().collect()
}

/// Returns whether a value has the right form.
type Fits = fn(&Value) -> bool;

/// Members of a hosted endpoint's record in the older form (interface 2.1), with their types.
const RECORD: &[(&str, Fits)] = &[
    ("slug", Value::is_string),
    ("id", Value::is_string),
    ("title", Value::is_string),
    ("description", Value::is_string),
    ("status", Value::is_string),
    ("priceUsd", Value::is_number),
    ("handlerType", Value::is_string),
    ("runtime", Value::is_string),
    ("pricingMode", Value::is_string),
    ("url", Value::is_string),
    ("method", Value::is_string),
    ("tags", Value::is_array),
    ("inputSchema", Value::is_object),
    ("outputSchema", Value::is_object),
    ("capabilities", Value::is_object),
    ("createdAt", Value::is_string),
    ("updatedAt", Value::is_string),
];

fn names(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap_or_else(|| panic!("no object: {object}")).keys().map(String::as_str).collect()
}

fn set(words: &str) -> BTreeSet<&str> {
    words.split_whitespace().collect()
}

fn is_record(record: &Value, base: &str, newer: bool) {
    let mut requested: BTreeSet<_> = RECORD.iter().map(|(name, _)| *name).collect();
    if newer {
        requested.extend(["contentSafety", "limits"]);
        assert_eq!(record["contentSafety"], Value::Null);
        assert_eq!(names(&record["limits"]), set("wallMs"));
        assert!(record["limits"]["wallMs"].as_u64().is_some_and(|ms| ms > 0), "{record}");
    }
    let mut members = names(record);
    if newer && members.remove("usage") {
        assert_eq!(names(&record["usage"]).intersection(&set("calls30d medianMs")).count(), names(&record["usage"]).len());
    }
    if newer && members.remove("builder") {
        assert_eq!(names(&record["builder"]), set("id name"));
    }
    assert_eq!(members, requested);
    for (name, fits) in RECORD {
        assert!(fits(&record[name]), "{name} of {record}");
    }
    let (js, free) = (record["handlerType"] == "js_request_response", record["priceUsd"].as_f64() == Some(0.0));
    assert_eq!(record["runtime"], if js { "admin_gated_js_request_response_v1" } else { "managed_builtin_handler" });
    assert_eq!(record["pricingMode"], if free { "free_public_utility" } else { "fixed_price_success_receipt" });
    assert_eq!(record["url"], format!("{base}/tools/{}", record["slug"].as_str().unwrap()));
    assert_eq!((&record["method"], &record["status"]), (&json!("POST"), &json!("active")));
    if free && !js {
        assert_eq!(record["capabilities"], json!({}));
    } else {
        let capabilities = names(&record["capabilities"]);
        assert!(capabilities.is_superset(&set("kv files httpGetJson logs")), "{capabilities:?}");
        assert_eq!(capabilities, every_capability());
    }
    for time in ["createdAt", "updatedAt"] {
        let time = record[time].as_str().unwrap();
        assert!(time.ends_with('Z') && time.len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
    }
}

#[tokio::test]
async fn the_shipped_catalog_has_every_member_of_the_contract_in_both_forms() {
    let host = Host::builder().with_catalogue().start().await;
    let lifecycle = "builderRegister create inspect update pause resume delete logs secrets revenue events payoutSettings payoutPackets";
    let envelope = "ok schema dashboard createEndpoint lifecycle builderControls supportedHandlerTypes note endpoints total";
    for (path, newer) in [("/ai/endpoints", true), ("/ai/endpoints?form=newer", true), ("/ai/endpoints?form=older", false)] {
        let catalog = host.get(path).await.is(200).json();
        let (mut members, mut steps) = (set(envelope), set(lifecycle));
        if newer {
            members.insert("contentSafety");
            steps.insert("contentSafetyPolicy");
            assert_eq!(names(&catalog["contentSafety"]), set("policy selfServeRule"));
        }
        assert_eq!((names(&catalog), names(&catalog["lifecycle"])), (members, steps));
        assert_eq!((&catalog["ok"], &catalog["schema"]), (&json!(true), &json!("tollhouse.x402.hosted-endpoint-catalog.v1")));
        assert_eq!(catalog["dashboard"], format!("{}/dashboard", host.url));
        assert_eq!(catalog["createEndpoint"], format!("{}/ai/endpoints/create", host.url));
        assert_eq!(names(&catalog["builderControls"]), set("register revenue events payoutSettings payouts docs"));
        assert_eq!(names(&catalog["supportedHandlerTypes"]), HandlerType::all().map(HandlerType::as_str).collect());
        for group in ["lifecycle", "supportedHandlerTypes", "builderControls"] {
            assert!(catalog[group].as_object().unwrap().values().all(Value::is_string), "{group}");
        }
        assert!(catalog["note"].is_string());
        let endpoints = catalog["endpoints"].as_array().unwrap();
        assert!(endpoints.len() >= 10);
        endpoints.iter().for_each(|record| is_record(record, &host.url, newer));
        let kinds: BTreeSet<_> = endpoints.iter().map(|record| record["handlerType"].as_str().unwrap()).collect();
        assert!(kinds.is_superset(&set("receipt_echo static_json x402_readiness_check js_request_response")), "each has a tool: {kinds:?}");
    }
}

#[tokio::test]
async fn the_manifest_says_how_to_pay_and_what_is_simulated() {
    let host = Host::start().await;
    let manifest = host.get("/ai/manifest").await.is(200).json();
    assert_eq!((&manifest["payment"]["simulated"], &manifest["payment"]["versions"]), (&json!(true), &json!([1, 2])));
    assert_eq!((&manifest["payment"]["network"], &manifest["payment"]["networkV1"]), (&json!("eip155:84532"), &json!("base-sepolia")));
    assert_eq!(manifest["endpoints"]["catalog"], format!("{}/ai/endpoints", host.url));
    let builders = &manifest["builders"];
    assert_eq!((&builders["capabilities"]["kv"], &builders["capabilities"]["httpGetJson"]), (&json!(true), &json!(false)));
    assert_eq!((&builders["limits"]["cpuMs"], &builders["requireReview"]), (&json!(10_000), &json!(false)));
    host.manage(Method::PUT, "/ai/admin/policy", &json!({ "limits": { "cpuMs": 700 }, "requireReview": true })).await.is(200);
    let builders = host.get("/ai/manifest").await.is(200).json()["builders"].clone();
    assert_eq!((&builders["limits"]["cpuMs"], &builders["requireReview"]), (&json!(700), &json!(true)), "{builders}");
    let health = host.get("/health").await.is(200).json();
    assert_eq!((&health["ok"], &health["openSettlements"]), (&json!(true), &json!(0)));
    host.get("/health/live").await.is(200);
    host.get("/health/ready").await.is(200);
    let keys = host.get("/.well-known/jwks.json").await.is(200).json();
    assert_eq!((&keys["keys"][0]["kty"], &keys["keys"][0]["crv"], keys["keys"][0].get("d")), (&json!("OKP"), &json!("Ed25519"), None));
}

#[tokio::test]
async fn a_tool_is_inspected_at_both_addresses_and_in_full_by_admins() {
    let host = Host::start().await;
    let mut tool = js("echo", 0.25, ECHO);
    tool["limits"] = json!({ "cpuMs": 700, "wallMs": 20_000 });
    tool["tags"] = json!(["one", "two"]);
    let made = host.publish(&tool).await;
    let public = host.get("/ai/endpoints/echo").await.is(200).json()["endpoint"].clone();
    is_record(&public, &host.url, true);
    assert_eq!(host.get("/tools/echo?inspect").await.is(200).json()["endpoint"], public);
    assert_eq!((&public["priceUsd"], &public["tags"]), (&json!(0.25), &json!(["one", "two"])));
    assert_eq!(public["limits"], json!({ "wallMs": 20_000 }), "of the limits, only the time of a call");
    let owned = host.manage(Method::GET, "/ai/endpoints/echo", &json!({})).await.is(200).json()["endpoint"].clone();
    assert_eq!(owned, made);
    assert_eq!((&owned["revision"], &owned["limits"]), (&json!(1), &json!({ "cpuMs": 700, "wallMs": 20_000 })));
    assert!(owned["version"].as_str().unwrap().starts_with("sha256:"));
    assert!(!owned.to_string().contains("req.input"), "the source is in the record");
    let wrong = host.request(Method::GET, "/ai/endpoints/echo").header("x-admin-token", "adm_wrong_wrong_wrong");
    host.send(wrong).await.fails(401, "unauthorized", "caller");
}

#[tokio::test]
async fn changes_go_by_the_revision_that_was_seen() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    let etag = host.get("/ai/endpoints/echo").await.is(200).has("etag").to_owned();
    let send = |method: Method, etag: &str, body: Value| {
        let request = host.request(method, "/ai/endpoints/echo").header("x-admin-token", &host.admin).header("if-match", etag);
        host.send(request.json(&body))
    };
    let first = send(Method::PATCH, &etag, json!({ "title": "first" })).await.is(200);
    assert_ne!(first.has("etag"), etag);
    let error = send(Method::PATCH, &etag, json!({ "title": "second" })).await.fails(412, "revision_changed", "caller");
    assert_eq!(error["revision"], 2);
    send(Method::DELETE, &etag, json!({})).await.fails(412, "revision_changed", "caller");
    send(Method::PATCH, "soon", json!({})).await.fails(400, "invalid_request", "caller");
    let now = host.get("/ai/endpoints/echo").await.is(200);
    assert_eq!((&now.json()["endpoint"]["title"], now.has("etag")), (&json!("first"), first.has("etag")));
    send(Method::PATCH, "*", json!({ "title": "third" })).await.is(200);
    let etag = host.get("/ai/endpoints/echo").await.has("etag").to_owned();
    assert_eq!(send(Method::DELETE, &etag, json!({})).await.is(200).json()["deleted"], true);
}

/// Regression: a client that lost the answer, and asked again, got "unknown endpoint".
#[tokio::test]
async fn repeated_deletion_gets_the_first_answer() {
    let host = Host::start().await;
    let ((_, owner), (_, other)) = (host.register("Owner").await, host.register("Other").await);
    let delete = async |key: &str| host.as_builder(key, Method::DELETE, "/ai/endpoints/echo", &Value::Null).await;
    let publish = async || host.as_builder(&owner, Method::POST, "/ai/endpoints/create", &js("echo", 0.0, ECHO)).await.is(200);
    delete(&owner).await.fails(404, "unknown_endpoint", "caller");
    publish().await;
    let first = delete(&owner).await.is(200).json();
    assert_eq!(delete(&owner).await.is(200).json(), first);
    assert_eq!(host.manage(Method::DELETE, "/ai/endpoints/echo", &Value::Null).await.is(200).json(), first);
    delete(&other).await.fails(404, "unknown_endpoint", "caller");
    host.get("/ai/endpoints/echo").await.fails(404, "unknown_endpoint", "caller");
    publish().await;
    let second = delete(&owner).await.is(200).json();
    assert_ne!(first["id"], second["id"], "it is about the one that took the slug");
    assert_eq!(delete(&owner).await.is(200).json(), second);
}

#[tokio::test]
async fn unpublishable_tool_is_rejected_with_its_place() {
    let host = Host::start().await;
    host.publish(&js("taken", 0.0, ECHO)).await;
    let create = async |member: &str, value: Value| -> Answer {
        let mut tool = js("fresh", 0.01, ECHO);
        tool[member] = value;
        host.manage(Method::POST, "/ai/endpoints/create", &tool).await
    };
    create("slug", json!("taken")).await.fails(409, "slug_taken", "caller");
    let many: Vec<_> = (0..17).map(|n| format!("tag {n}")).collect();
    for (member, value, pointer) in [
        ("slug", json!("No Slug"), "/slug"),
        ("slug", json!("-a"), "/slug"),
        ("title", json!(""), "/title"),
        ("title", json!("x".repeat(121)), "/title"),
        ("tags", json!(many), "/tags"),
        ("tags", json!(["fine", ""]), "/tags/1"),
        ("priceUsd", json!(-0.01), "/priceUsd"),
        ("priceUsd", json!(0.000_000_1), "/priceUsd"),
        ("priceUsd", json!("1"), "/priceUsd"),
        ("priceUsd", json!(1e300), "/priceUsd"),
        ("handlerType", json!("shell"), "/handlerType"),
        ("capabilities", json!({ "shell": true }), "/capabilities/shell"),
        ("surprise", json!(1), "/surprise"),
        ("inputSchema", json!({ "properties": { "a": { "type": "text" } } }), "/inputSchema/properties/a/type"),
        ("outputSchema", json!({ "$ref": "https://example.com/schema.json" }), "/outputSchema"),
        ("limits", json!({ "cpuMs": 99_999_999 }), "/limits/cpuMs"),
        ("limits", json!({ "cpuMs": 0 }), "/limits/cpuMs"),
        ("limits", json!({ "speed": 1 }), "/limits/speed"),
        ("allowedHosts", json!(["http://*"]), "/allowedHosts"),
        ("handler", json!(null), "/handler"),
        ("handler", json!({ "response": {} }), "/handler"),
        ("handler", json!({ "source": "x", "language": "py" }), "/handler"),
    ] {
        let answer = create(member, value.clone()).await;
        let error = answer.fails(422, "invalid_endpoint", "caller");
        let found = error["pointer"].as_str().unwrap();
        assert!(found.starts_with(pointer), "{member} {value}: `{found}` is not at `{pointer}`: {error}");
    }
    let not_json = host.request(Method::POST, "/ai/endpoints/create").header("x-admin-token", &host.admin);
    let not_json = not_json.header("content-type", "application/json").body("{");
    host.send(not_json).await.fails(400, "invalid_json", "caller");
    assert_eq!(host.get("/ai/endpoints").await.json()["endpoints"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_handler_that_does_not_load_is_refused_with_line_and_column() {
    let host = Host::start().await;
    let create = async |source: &str, language: &str| {
        let mut tool = js("broken", 0.0, "");
        tool["handler"] = json!({ "source": source, "language": language });
        host.manage(Method::POST, "/ai/endpoints/create", &tool).await.fails(422, "invalid_handler", "caller")
    };
    let error = create("export default () => {\n  return 1 +;\n}", "js").await;
    assert_eq!(error["at"]["line"], 2, "{error}");
    assert!(error["at"]["column"].as_u64() >= Some(10), "{error}");
    let error = create("const a: number = 1;\nexport default (: string) => 1;", "ts").await;
    assert_eq!(error["at"]["line"], 2, "{error}");
    let error = create("\n\nthrow new Error('not today');\nexport default () => 1;", "js").await;
    assert!(error["message"].as_str().unwrap().contains("not today"), "{error}");
    assert_eq!(error["at"]["line"], 3, "{error}");
    create("export default 7;", "js").await;
    create("export const a = 1;", "js").await;
    create("import fs from 'node:fs'; export default () => 1;", "js").await;
    create("for (;;) {}\nexport default () => 1;", "js").await;
    host.call("broken", &json!({})).await.fails(404, "unknown_endpoint", "caller");
}

#[tokio::test]
async fn invalid_change_leaves_the_tool_unchanged() {
    let host = Host::start().await;
    let before = host.publish(&js("echo", 0.0, ECHO)).await;
    for (patch, code) in [
        (json!({ "priceUsd": -1 }), "invalid_endpoint"),
        (json!({ "slug": "other" }), "invalid_endpoint"),
        (json!({ "title": "good", "tags": [""] }), "invalid_endpoint"),
        (json!({ "title": "good", "inputSchema": { "type": "thing" } }), "invalid_endpoint"),
        (json!({ "title": "good", "handler": { "source": "export default (" } }), "invalid_handler"),
        (json!({ "status": "gone" }), "invalid_endpoint"),
    ] {
        host.manage(Method::PATCH, "/ai/endpoints/echo", &patch).await.fails(422, code, "caller");
    }
    assert_eq!(host.manage(Method::GET, "/ai/endpoints/echo", &json!({})).await.json()["endpoint"], before);
    host.call("echo", &json!({})).await.is(200);
}

#[tokio::test]
async fn a_pause_and_a_resume_keep_everything_else() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.0, ECHO)).await;
    assert_eq!(host.change("echo", &json!({ "status": "paused" })).await["status"], "paused");
    assert_eq!(host.get("/ai/endpoints/echo").await.is(200).json()["endpoint"]["status"], "paused");
    host.call("echo", &json!({})).await.fails(409, "endpoint_paused", "tool");
    assert_eq!(host.change("echo", &json!({ "status": "active" })).await["status"], "active");
    assert_eq!(host.call("echo", &json!({ "a": 1 })).await.is(200).json(), json!({ "echo": { "a": 1 } }));
}

#[tokio::test]
async fn a_typescript_handler_runs_without_its_types() {
    let host = Host::start().await;
    let mut tool = js("shout", 0.0, "");
    let source = "interface Input { text: string; times?: number }\n\
        type Result = { text: string };\n\
        const shout = <T extends string>(text: T): string => text.toUpperCase() as string;\n\
        export default async function (req: { input: Input }): Promise<Result> {\n\
          const times: number = req.input.times ?? 1;\n\
          return { text: shout(req.input.text!).repeat(times) } satisfies Result;\n\
        }";
    tool["handler"] = json!({ "source": source, "language": "ts" });
    tool["inputSchema"] = json!({ "type": "object", "properties": { "text": { "type": "string" }, "times": { "type": "integer" } } });
    host.publish(&tool).await;
    assert_eq!(host.call("shout", &json!({ "text": "hi" })).await.is(200).json(), json!({ "text": "HI" }));
    assert_eq!(host.get("/tools/shout?text=ho&times=2").await.is(200).json(), json!({ "text": "HOHO" }));
}

#[tokio::test]
async fn a_new_version_answers_the_next_call_and_a_new_price_the_next_challenge() {
    let host = Host::start().await;
    let first = host.publish(&js("count", 0.01, "let n = 0; export default () => ({ version: 1, n: ++n });")).await;
    let credit = host.mint(1.0).await;
    for n in 1..=2 {
        assert_eq!(host.call_credit("count", &json!({}), &credit).await.is(200).json(), json!({ "version": 1, "n": n }));
    }
    let handler = json!({ "source": "let n = 0; export default () => ({ version: 2, n: ++n });" });
    let second = host.change("count", &json!({ "handler": handler, "priceUsd": 0.02 })).await;
    assert_ne!(second["version"], first["version"]);
    assert_eq!(host.challenge("count").await["accepts"][0]["amount"], "20000");
    let answer = host.call_credit("count", &json!({}), &credit).await.is(200);
    assert_eq!(answer.json(), json!({ "version": 2, "n": 1 }));
    assert_eq!(host.receipt(&answer.receipt_id()).await["version"], second["version"]);
    assert_eq!(host.credit_balance(&credit).await, 1_000_000 - 40_000);
}

#[tokio::test]
async fn fresh_isolation_shares_no_module_state_between_calls() {
    let host = Host::start().await;
    let mut tool = js("fresh", 0.0, "let n = 0; export default () => ({ n: ++n });");
    tool["isolation"] = json!("fresh");
    host.publish(&tool).await;
    for _ in 0..3 {
        assert_eq!(host.call("fresh", &json!({})).await.is(200).json(), json!({ "n": 1 }));
    }
}

#[tokio::test]
async fn two_tools_see_nothing_of_each_other() {
    let host = Host::start().await;
    let source = "export default async (req, ctx) => {
        if (req.input.set !== undefined) await ctx.kv.set('mine', req.input.set);
        globalThis.seen = (globalThis.seen ?? 0) + 1;
        return { mine: (await ctx.kv.get('mine')) ?? null, seen: globalThis.seen };
    };";
    host.publish(&js("one", 0.0, source)).await;
    host.publish(&js("two", 0.0, source)).await;
    assert_eq!(host.call("one", &json!({ "set": 1 })).await.is(200).json(), json!({ "mine": 1, "seen": 1 }));
    assert_eq!(host.call("two", &json!({})).await.is(200).json(), json!({ "mine": null, "seen": 1 }));
    assert_eq!(host.call("one", &json!({})).await.is(200).json()["mine"], 1);
    // The data of a tool are deleted with it. A new tool of the same name does not get them.
    host.manage(Method::DELETE, "/ai/endpoints/one", &json!({})).await.is(200);
    host.publish(&js("one", 0.0, source)).await;
    assert_eq!(host.call("one", &json!({})).await.is(200).json()["mine"], Value::Null);
}

#[tokio::test]
async fn the_catalog_receipts_and_credit_survive_a_kill() {
    let mut host = Host::start().await;
    let mut tool = js(
        "kept",
        0.01,
        "export default async (req, ctx) => { await ctx.kv.set('n', ((await ctx.kv.get('n')) ?? 0) + 1); return { n: await ctx.kv.get('n') }; };",
    );
    tool["handler"]["language"] = json!("ts");
    let made = host.publish(&tool).await;
    host.publish(&js("dropped", 0.0, ECHO)).await;
    host.manage(Method::DELETE, "/ai/endpoints/dropped", &json!({})).await.is(200);
    host.change("kept", &json!({ "title": "Kept" })).await;
    let credit = host.mint(1.0).await;
    let answer = host.call_credit("kept", &json!({}), &credit).await.is(200);
    let receipt = host.receipt(&answer.receipt_id()).await;
    let admin = host.admin.clone();

    host.restart().await;
    assert_eq!(host.admin, admin);
    assert_eq!(host.receipt(&answer.receipt_id()).await, receipt);
    let endpoints = host.get("/ai/endpoints").await.json()["endpoints"].clone();
    assert_eq!(endpoints.as_array().map(Vec::len), Some(1), "{endpoints}");
    assert_eq!((&endpoints[0]["id"], &endpoints[0]["title"]), (&made["id"], &json!("Kept")));
    assert_eq!(host.credit_balance(&credit).await, 990_000);
    assert_eq!(host.call_credit("kept", &json!({}), &credit).await.is(200).json(), json!({ "n": 2 }));
}

#[tokio::test]
async fn a_shipped_tool_that_was_deleted_stays_deleted() {
    let mut host = Host::builder().with_catalogue().start().await;
    let count = |catalog: Value| catalog["endpoints"].as_array().unwrap().len();
    let before = count(host.get("/ai/endpoints").await.json());
    host.manage(Method::DELETE, "/ai/endpoints/receipt-echo-free", &json!({})).await.is(200);
    host.restart().await;
    assert_eq!(count(host.get("/ai/endpoints").await.json()), before - 1);
}
