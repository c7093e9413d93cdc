//! Builders' schemas: their cost affects only their own tools.

mod generated;
mod shapes;

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Map, Value, json};
use tollhouse::store::{
    Batch, Durability, Space, Store, Write,
    sled::{SledConfig, SledStore},
};

use self::shapes::{Fate, Shape, chain, in_a, recursive, shapes};
use crate::harness::{Answer, Host, eventually, js};

const MESSAGE: &str = "export default async (req) => req.input.answer;";

/// Maximum time of `/health/live` during any other work, on a shared machine and in a debug build.
const LIVELY: Duration = Duration::from_millis(750);

fn tool(slug: &str, schema: &Value, fate: Fate) -> Value {
    let mut tool = js(slug, 0.0, MESSAGE);
    tool["inputSchema"] = schema.clone();
    tool["limits"] = json!({ "cpuMs": if fate == Fate::Answered { 1_000 } else { 40 }, "inputBytes": 1 << 20 });
    tool
}

/// Returns whether the error says only that the value does not match.
fn is_unlisted(error: &Value) -> bool {
    error["problems"] == json!([{ "pointer": "", "message": "it does not match the schema" }]) && error["charged"] == false
}

/// Returns a complaint if a shape ends wrongly.
async fn wrong(host: &Host, position: usize, Shape { schema, input, fate, .. }: &Shape) -> Option<String> {
    let slug = format!("shape-{position}");
    let created = host.manage(Method::POST, "/ai/endpoints/create", &tool(&slug, schema, *fate)).await;
    if *fate == Fate::Refused {
        let error = created.json()["error"].clone();
        let placed = error["pointer"].as_str().is_some_and(|pointer| pointer.starts_with("/inputSchema"));
        let limited = error["message"].as_str().is_some_and(|message| message.contains(|c: char| c.is_ascii_digit()));
        return (created.status != 422 || error["code"] != "invalid_endpoint" || !placed || !limited).then(|| format!("{created:?}"));
    }
    if created.status != 200 {
        return Some(format!("{created:?}"));
    }
    let answers = futures_util::future::join_all((0..3).map(|_| host.call(&slug, input))).await;
    let stopped = |answer: &Answer| {
        let error = &answer.json()["error"];
        let (code, fault, charged) = (&error["code"], &error["fault"], &error["charged"]);
        answer.status == 502
            && code == "schema_too_costly"
            && fault == "tool"
            && charged == false
            && error["message"].to_string().contains("inputSchema")
    };
    let right = |answer: &&Answer| match fate {
        Fate::Answered => answer.status == 200,
        Fate::Unfit => is_unlisted(&answer.json()["error"]) && answer.status == 422,
        Fate::Stopped | Fate::Refused => stopped(answer),
    };
    answers.iter().find(|answer| !right(answer)).map(|answer| format!("{answer:?}").chars().take(700).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_schema_holds_the_host() {
    let host = Host::start().await;
    let shapes = shapes();
    assert!(shapes.len() >= 30);
    let mut failures = Vec::new();
    for (position, shape) in shapes.iter().enumerate() {
        let (ended, times) = host.live_until(wrong(&host, position, shape)).await;
        failures.extend(ended.map(|reason| format!("{}: {reason}", shape.name)));
        failures.extend(times.last().filter(|max| **max > LIVELY).map(|max| format!("{}: /health/live took {max:?}", shape.name)));
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), shapes.len(), failures.join("\n"));
}

/// Returns a schema and a value that it accepts only after a long time.
fn endless() -> (Value, Value) {
    let again = json!({ "allOf": vec![json!({ "uniqueItems": true }); 2_800] });
    (json!({ "properties": { "value": again } }), json!({ "value": (0..20_000).collect::<Vec<_>>() }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_results_is_stopped_like_one_of_inputs_and_not_charged() {
    let host = Host::start().await;
    let (schema, deep) = endless();
    let mut costly = js("costly", 0.01, MESSAGE);
    costly["outputSchema"] = schema;
    costly["limits"] = json!({ "cpuMs": 100 });
    host.publish(&costly).await;
    let credit = host.mint(1.0).await;
    assert_eq!(host.call_credit("costly", &json!({ "answer": { "a": {} } }), &credit).await.is(200).json(), json!({ "a": {} }));
    let before = host.credit_balance(&credit).await;
    let error = host.call_credit("costly", &json!({ "answer": deep }), &credit).await.fails(502, "schema_too_costly", "tool");
    assert!(error["message"].as_str().unwrap().contains("outputSchema") && error["hint"].is_string(), "{error}");
    assert_eq!(host.credit_balance(&credit).await, before);
}

/// Returns a schema and a value that it rejects at once. Listing the reasons would take twice as
/// long with each level.
fn unlistable() -> (Value, Value) {
    let Shape { schema, input, .. } = recursive("", |n| json!({ "properties": { "a": { "allOf": [n, n] } } }), in_a);
    (schema, input)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_input_is_the_callers_fault_even_if_listing_is_endless() {
    let host = Host::start().await;
    let (schema, deep) = unlistable();
    let mut tool = js("strict", 0.01, MESSAGE);
    tool["inputSchema"] = schema;
    tool["limits"] = json!({ "cpuMs": 5_000 });
    host.publish(&tool).await;
    let credit = host.mint(1.0).await;
    let started = Instant::now();
    for _ in 0..8 {
        let error = host.call_credit("strict", &deep, &credit).await.fails(422, "invalid_input", "caller");
        assert!(is_unlisted(&error), "{error}");
        let client = host.mcp().with_header("x-developer-credit", &credit);
        let error = client.call("strict", deep.clone(), json!({})).await["_meta"]["tollhouse/error"].take();
        assert_eq!((&error["code"], &error["fault"]), (&json!("invalid_input"), &json!("caller")), "{error}");
        assert!(is_unlisted(&error), "{error}");
    }
    // Listing all errors would take minutes: their number is exponential.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // Calls are not blocked because of it.
    host.call_credit("strict", &json!({ "answer": 1 }), &credit).await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 990_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_does_not_fit_is_its_tools_fault_although_listing_why_would_not_end() {
    let host = Host::start().await;
    let (schema, deep) = unlistable();
    let mut tool = js("sloppy", 0.01, MESSAGE);
    tool["outputSchema"] = schema;
    tool["limits"] = json!({ "cpuMs": 5_000 });
    host.publish(&tool).await;
    let credit = host.mint(1.0).await;
    for _ in 0..8 {
        let error = host.call_credit("sloppy", &json!({ "answer": deep }), &credit).await.fails(502, "invalid_output", "tool");
        assert!(is_unlisted(&error), "{error}");
        let client = host.mcp().with_header("x-developer-credit", &credit);
        let error = client.call("sloppy", json!({ "answer": deep }), json!({})).await["_meta"]["tollhouse/error"].take();
        assert_eq!((&error["code"], &error["fault"]), (&json!("invalid_output"), &json!("tool")), "{error}");
        assert!(is_unlisted(&error), "{error}");
    }
    host.call_credit("sloppy", &json!({ "answer": { "a": {} } }), &credit).await.is(200);
    assert_eq!(host.credit_balance(&credit).await, 990_000);
}

fn builtin(slug: &str, handler_type: &str, input: &Value, output: &Value) -> Value {
    let mut tool = json!({ "slug": slug, "title": slug, "handlerType": handler_type, "inputSchema": input, "outputSchema": output });
    if handler_type == "static_json" {
        tool["handler"] = json!({ "response": { "answer": 42 } });
    }
    tool["limits"] = json!({ "cpuMs": 100 });
    tool
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_without_code_have_their_schemas_checked_too() {
    let host = Host::start().await;
    let wants_a = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    for handler_type in ["static_json", "receipt_echo"] {
        let slug = handler_type.replace('_', "-");
        host.publish(&builtin(&slug, handler_type, &wants_a, &json!({ "type": "object", "minProperties": 1 }))).await;
        for _ in 0..3 {
            host.call(&slug, &json!({ "a": 1 })).await.is(200);
            let error = host.call(&slug, &json!({ "a": "one" })).await.fails(422, "invalid_input", "caller");
            assert_eq!(error["problems"][0]["pointer"], "/a");
        }
        let (schema, deep) = endless();
        host.change(&slug, &json!({ "inputSchema": schema })).await;
        host.call(&slug, &json!({ "a": { "a": {} } })).await.is(200);
        host.call(&slug, &deep).await.fails(502, "schema_too_costly", "tool");
    }
    host.publish(&builtin("wrong-echo", "receipt_echo", &json!({}), &json!({ "required": ["never"] }))).await;
    let error = host.call("wrong-echo", &json!({})).await.fails(502, "invalid_output", "tool");
    assert!(error["problems"][0]["message"].as_str().unwrap().contains("never"), "{error}");
    let unfit = builtin("unfit", "static_json", &json!({}), &json!({ "properties": { "answer": { "type": "string" } } }));
    let error = host.manage(Method::POST, "/ai/endpoints/create", &unfit).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/handler/response");
    let error = host
        .manage(Method::PATCH, "/ai/endpoints/static-json", &json!({ "outputSchema": { "required": ["question"] } }))
        .await
        .fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/handler/response");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schema_is_in_force_for_the_next_call() {
    let host = Host::start().await;
    let mut tool = js("changing", 0.0, MESSAGE);
    tool["inputSchema"] = json!({ "required": ["answer"] });
    host.publish(&tool).await;
    host.call("changing", &json!({ "answer": 1 })).await.is(200);
    for round in 0..5 {
        let name = format!("round{round}");
        host.change("changing", &json!({ "inputSchema": { "required": [name] } })).await;
        let error = host.call("changing", &json!({ "answer": 1 })).await.fails(422, "invalid_input", "caller");
        assert!(error["problems"][0]["message"].as_str().unwrap().contains(&name), "{error}");
        host.call("changing", &json!({ "answer": 1, name: 1 })).await.is(200);
    }
    for (patch, pointer) in [
        (json!({ "outputSchema": { "properties": { "a": { "type": "text" } } } }), "/outputSchema/properties/a/type"),
        (json!({ "inputSchema": chain(28, |next| json!({ "allOf": [next, next] })) }), "/inputSchema/$defs/"),
    ] {
        let error = host.manage(Method::PATCH, "/ai/endpoints/changing", &patch).await.fails(422, "invalid_endpoint", "caller");
        assert!(error["pointer"].as_str().unwrap().starts_with(pointer), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_does_not_fit_is_never_accepted_and_no_failure_of_the_tool() {
    let host = Host::start().await;
    let (_, key) = host.register("builder").await;
    let mut tool = js("strict", 0.0, MESSAGE);
    tool["inputSchema"] = json!({ "required": ["answer"] });
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    let streamed = |input: Value| host.request(Method::POST, "/tools/strict").header("accept", "text/event-stream").json(&input);
    let names = |answer: Answer| answer.events().into_iter().map(|event| event.name).collect::<Vec<_>>();
    assert_eq!(names(host.send(streamed(json!({ "answer": 1 }))).await.is(200)), ["accepted", "result"]);
    assert_eq!(names(host.send(streamed(json!({}))).await.is(200)), ["error"]);
    let events = host.as_builder(&key, Method::GET, "/ai/builders/events", &Value::Null).await.is(200).json();
    assert!(!events.to_string().contains("call.failed"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_redacted_from_a_result_that_still_matches_its_schema() {
    let host = Host::start().await;
    let secret = "swordfish-swordfish";
    let mut tool = js("leaky", 0.0, "export default async (req, ctx) => req.input.named ? { [ctx.env.WORD]: 1 } : { word: ctx.env.WORD };");
    tool["outputSchema"] = json!({ "type": "object", "properties": { "word": { "maxLength": 10 } }, "additionalProperties": false });
    host.publish(&tool).await;
    let set = json!({ "name": "WORD", "value": secret });
    host.manage(Method::POST, "/ai/endpoints/leaky/secrets", &set).await.is(200);
    let error = host.call("leaky", &json!({ "named": true })).await.fails(502, "invalid_output", "tool");
    assert!(!error.to_string().contains(secret) && error.to_string().contains("[redacted]"), "{error}");
    // The value matches only with the redaction mark in place of the secret. The check uses the
    // handler's real answer.
    host.call("leaky", &json!({})).await.fails(502, "invalid_output", "tool");
    host.change("leaky", &json!({ "outputSchema": { "properties": { "word": { "minLength": 15 } } } })).await;
    let error = host.call("leaky", &json!({})).await.fails(502, "invalid_output", "tool");
    assert_eq!(error["problems"][0]["pointer"], "/word", "hidden, it is too short: {error}");
    host.change("leaky", &json!({ "outputSchema": { "properties": { "word": { "minLength": 5 } } } })).await;
    assert_eq!(host.call("leaky", &json!({})).await.is(200).json(), json!({ "word": "[redacted]" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_schema_beyond_the_bounds_stops_its_calls_and_not_the_host() {
    let mut host = Host::start().await;
    host.publish(&tool("old", &json!({ "required": ["answer"] }), Fate::Stopped)).await;
    host.publish(&tool("broken", &json!({ "required": ["answer"] }), Fate::Stopped)).await;
    host.kill9();
    let endless = chain(40, |next| json!({ "allOf": [next, next] }));
    for (slug, schema) in [("old", &endless), ("broken", &json!({ "type": "text" }))] {
        let store = SledStore::open(host.folder().join("data/store"), SledConfig::default()).unwrap();
        let stored = store.get(Space::Endpoints, slug.as_bytes()).await.unwrap().unwrap();
        let mut endpoint: Value = serde_json::from_slice(&stored[2..]).unwrap();
        endpoint["inputSchema"] = schema.clone();
        let write = Write::put(Space::Endpoints, slug, [&stored[..2], endpoint.to_string().as_bytes()].concat());
        store.apply(Batch::of(vec![], vec![write]), Durability::Durable).await.unwrap();
    }
    host.restart().await;
    host.call("old", &json!({ "answer": 1 })).await.fails(502, "schema_too_costly", "tool");
    host.call("broken", &json!({ "answer": 1 })).await.fails(502, "handler_failed", "tool");
    // The record can be changed and corrected.
    host.change("old", &json!({ "title": "Old" })).await;
    host.change("old", &json!({ "inputSchema": { "required": ["answer"] } })).await;
    assert_eq!(host.call("old", &json!({ "answer": 1 })).await.is(200).json(), 1);
}

const CREATE: &str = "/ai/endpoints/create";

fn vouched(mut tool: Value) -> Value {
    tool["safetyAttestation"] = json!({ "accepted": true });
    tool
}

/// Returns a tool whose fixed response takes its worker some seconds to validate.
fn costly(slug: &str) -> Value {
    let schema = json!({ "allOf": vec![json!({ "uniqueItems": true }); 1_400] });
    let response: Vec<_> = (0..30_000).collect();
    vouched(json!({ "slug": slug, "title": slug, "handlerType": "static_json", "outputSchema": schema, "handler": { "response": response },
        "limits": { "cpuMs": 10_000, "wallMs": 10_000 } }))
}

#[tokio::test(flavor = "multi_thread")]
async fn costly_uploads_of_one_builder_hold_up_no_change_of_anothers() {
    let host = Host::start().await;
    let ((_, one), (_, other)) = (host.register("One").await, host.register("Other").await);
    host.publish(&js("mine", 0.0, "export default () => 1")).await;
    let (started, tools) = (Instant::now(), (0..6).map(|at| costly(&format!("slow-{at}"))).collect::<Vec<_>>());
    let refusals = Cell::new(0);
    let slow = async {
        let answers = futures_util::future::join_all(tools.iter().map(async |tool| {
            let answer = host.as_builder(&one, Method::POST, CREATE, tool).await;
            refusals.set(refusals.get() + u32::from(answer.status == 429));
            answer
        }))
        .await;
        (answers, started.elapsed())
    };
    let quick = async {
        eventually("two uploads are checked", Duration::from_secs(20), async || (refusals.get() == 4).then_some(())).await;
        host.as_builder(&other, Method::POST, CREATE, &vouched(js("quick", 0.0, "export default () => 1"))).await.is(200);
        host.manage(Method::PATCH, "/ai/endpoints/mine", &json!({ "status": "paused" })).await.is(200);
        started.elapsed()
    };
    let ((answers, slow), quick) = tokio::join!(slow, quick);
    assert!(quick < slow, "{quick:?}, {slow:?}");
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert_eq!(refused.len(), 4, "two at once are looked at");
    assert!(refused.iter().all(|answer| answer.json()["error"]["code"] == "rate_limited"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_another_overtook_while_it_was_looked_at_is_made_on_top_of_it() {
    let host = Host::start().await;
    let tool = costly("slow");
    let mut before = tool.clone();
    before["outputSchema"] = json!({});
    host.manage(Method::POST, CREATE, &before).await.is(200);
    let patch = json!({ "outputSchema": tool["outputSchema"] });
    let slow = host.manage(Method::PATCH, "/ai/endpoints/slow", &patch);
    let quick = async {
        // The audit trail has a change as soon as it has begun.
        eventually("the slow change has begun", Duration::from_secs(20), async || {
            let trail = host.manage(Method::GET, "/ai/admin/audit?limit=1", &json!({})).await.is(200).json();
            let last = &trail["entries"][0];
            (last["path"] == "/ai/endpoints/slow" && last["outcome"].is_null()).then_some(())
        })
        .await;
        host.manage(Method::PATCH, "/ai/endpoints/slow", &json!({ "title": "Overtaking" })).await.is(200)
    };
    let (slow, quick) = tokio::join!(slow, quick);
    let (changed, seen) = (slow.is(200).json()["endpoint"].take(), quick.json()["endpoint"].take());
    assert_eq!((&changed["title"], &changed["outputSchema"]), (&json!("Overtaking"), &tool["outputSchema"]));
    assert_eq!(changed["revision"].as_u64(), seen["revision"].as_u64().map(|revision| revision + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_a_schema_is_lost_in_hold_no_calls_of_others() {
    let host = Host::start().await;
    let mut tool = js("calc", 0.0, "export default () => 1");
    let node = json!({ "$ref": "#/$defs/node" });
    let one = |op: &str| json!({ "type": "object", "required": ["op", "arg"], "properties": { "arg": node, "op": { "const": op } } });
    let nodes = json!([{ "type": "number" }, one("neg"), one("not"), one("abs")]);
    tool["inputSchema"] = json!({ "$defs": { "node": { "oneOf": nodes } }, "$ref": "#/$defs/node" });
    tool["limits"] = json!({ "cpuMs": 100 });
    host.publish(&tool).await;
    let nested = |leaf: Value, depth: usize| (0..depth).fold(leaf, |inner, _| json!({ "op": "abs", "arg": inner }));
    for _ in 0..6 {
        let answer = host.call("calc", &nested(json!("x"), 40)).await;
        assert!([400, 422, 502].contains(&answer.status), "{answer:?}");
    }
    host.call("calc", &nested(json!(1), 3)).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_uploads_block_only_their_owners() {
    let host = Host::start().await;
    let ((_, one), (_, other)) = (host.register("One").await, host.register("Other").await);
    let patterns: Map<_, _> =
        (0..60).map(|at| (format!("p{at}"), json!({ "type": "string", "pattern": format!("^\\w{{9}}{at}$") }))).collect();
    let tool = |slug: Option<&str>, limits: Value| {
        let mut tool =
            vouched(json!({ "title": "t", "handlerType": "receipt_echo", "inputSchema": { "properties": patterns }, "limits": limits }));
        slug.into_iter().for_each(|slug| tool["slug"] = json!(slug));
        tool
    };
    host.as_builder(&other, Method::POST, CREATE, &tool(Some("theirs"), json!({}))).await.is(200);
    let check = "/ai/endpoints/check";
    for slug in [None, None, None, Some("theirs"), Some("theirs"), Some("theirs")] {
        host.as_builder(&one, Method::POST, check, &tool(slug, json!({ "heapBytes": 1 }))).await;
    }
    let held = host.as_builder(&one, Method::POST, check, &tool(Some("another"), json!({}))).await;
    assert_eq!(held.json()["error"]["code"], "busy", "{held:?}");
    host.as_builder(&other, Method::POST, check, &tool(None, json!({}))).await.is(200);
    let patch = json!({ "inputSchema": { "required": ["b"] } });
    host.as_builder(&other, Method::PATCH, "/ai/endpoints/theirs", &patch).await.is(200);
}
