//! Texts of refusals: in the terms of the API, with the position of the error and a specific code.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, js};

const TOOL: &str = "export default async (req) => req.input;";

/// Returns whether a message contains words from our code or serde that callers do not understand.
fn is_inside_word(message: &str) -> bool {
    let inside = [
        "struct",
        "enum",
        "variant",
        "untagged",
        "deserialize",
        "unknown field",
        "missing field",
        "u16",
        "u64",
        "usize",
        "f64",
        "a map",
        "a sequence",
    ];
    inside.iter().any(|word| message.contains(word))
}

#[tokio::test]
async fn invalid_body_is_reported_in_api_terms_with_its_place() {
    let host = Host::builder().flag("--registration-price-usd", 0).start().await;
    host.publish(&js("words", 0.0, TOOL)).await;
    let (_, key) = host.register("Words").await;
    let create = |member: &str, value: Value| {
        let mut tool = js("other", 0.0, TOOL);
        tool[member] = value;
        tool
    };
    let refused = [
        ("POST /ai/endpoints/create", create("handler", json!("x")), "invalid_endpoint", "/handler"),
        ("POST /ai/endpoints/create", create("handlerType", json!("python")), "invalid_endpoint", "/handlerType"),
        ("POST /ai/endpoints/create", create("isolation", json!("cold")), "invalid_endpoint", "/isolation"),
        ("POST /ai/endpoints/create", create("capabilities", json!({ "http": true })), "invalid_endpoint", "/capabilities/http"),
        ("POST /ai/endpoints/create", create("surprise", json!(1)), "invalid_endpoint", "/surprise"),
        ("POST /ai/endpoints/create", json!({ "title": "A" }), "invalid_endpoint", "/slug"),
        ("POST /ai/endpoints/create", json!([]), "invalid_endpoint", ""),
        ("PATCH /ai/endpoints/words", json!({ "status": "gone" }), "invalid_endpoint", "/status"),
        ("PATCH /ai/endpoints/words", json!({ "priceUsd": "1" }), "invalid_endpoint", "/priceUsd"),
        ("POST /ai/endpoints/words/secrets", json!({ "name": "A" }), "invalid_secret", "/value"),
        ("POST /ai/endpoints/words/secrets", json!({ "name": "A", "value": 5 }), "invalid_secret", "/value"),
        ("POST /ai/endpoints/words/secrets", json!({ "name": "A", "value": "b", "visibility": "all" }), "invalid_secret", "/visibility"),
        ("PUT /ai/admin/policy", json!({ "maxEndpointsPerBuilder": -1 }), "invalid_policy", "/maxEndpointsPerBuilder"),
        ("PUT /ai/admin/policy", json!({ "limits": { "cpuMs": 0 } }), "invalid_policy", "/limits/cpuMs"),
        ("POST /ai/admin/reviews/words", json!({ "decision": "burn" }), "invalid_decision", "/decision"),
        ("POST /ai/admin/reviews/words", json!({}), "invalid_decision", "/decision"),
        ("POST /ai/admin/payouts/pay_x", json!({ "decision": "keep" }), "invalid_decision", "/decision"),
        ("POST /ai/credits", json!({ "amountUsd": "5" }), "invalid_credit", "/amountUsd"),
        ("POST /ai/credits", json!({ "amountUsd": 0 }), "invalid_credit", "/amountUsd"),
        ("POST /ai/credits", json!({ "amountUsd": 1, "note": "" }), "invalid_credit", "/note"),
        ("POST /ai/builders/register", json!({ "contact": "a" }), "invalid_registration", "/name"),
        ("POST /ai/builders/register", json!({ "name": ["a"] }), "invalid_registration", "/name"),
        ("POST /ai/builders/payout-settings", json!({ "address": 7 }), "invalid_payout", "/address"),
        ("POST /ai/builders/payout-settings", json!({ "address": "0x" }), "invalid_payout", "/address"),
        ("POST /ai/invoke", json!({ "input": {} }), "invalid_request", "/slug"),
        ("POST /ai/invoke", json!({ "slug": "words", "stream": "yes" }), "invalid_request", "/stream"),
        ("POST /dev/faucet", json!({ "address": "0x" }), "invalid_request", "/amountUsd"),
    ];
    for (what, body, code, pointer) in refused {
        let (method, path) = what.split_once(' ').unwrap();
        let request = host.request(method.parse().unwrap(), path).json(&body);
        let request = if path.starts_with("/ai/builders/payout") {
            request.header("x-builder-key", &key)
        } else {
            request.header("x-admin-token", &host.admin)
        };
        let error = host.send(request).await.fails(422, code, "caller");
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["pointer"], pointer, "{what} {body}: {error}");
        assert!(!is_inside_word(message), "{what}: {message}");
    }
}

#[tokio::test]
async fn a_query_that_does_not_fit_is_reported_in_words_of_the_api() {
    let host = Host::start().await;
    host.publish(&js("words", 0.0, TOOL)).await;
    let (_, key) = host.register("Words").await;
    for (path, word) in [
        ("/ai/builders/events?limit=none", "`limit` must be 1 to 200"),
        ("/ai/builders/events?since=30", "time must be a number with `d`, `h`, `m` or `s`"),
        ("/ai/builders/events?kind=call.unheard", "`kind` is `call.unheard`; use one of `endpoint.created`"),
    ] {
        let error = host.as_builder(&key, Method::GET, path, &Value::Null).await.fails(400, "invalid_request", "caller");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(word) && !is_inside_word(message), "{path}: {message}");
    }
    let error = host.get("/ai/endpoints?form=oldest").await.fails(400, "invalid_request", "caller");
    assert_eq!(error["message"], "`form` must be `newer` or `older`");
    let error = host.manage(Method::DELETE, "/ai/endpoints/words/secrets", &Value::Null).await.fails(400, "invalid_request", "caller");
    assert_eq!(error["message"], "`name` is missing");
}

#[tokio::test]
async fn invalid_json_body_gets_the_error_position() {
    let host = Host::start().await;
    let post = |path: &str, body: &'static str| {
        host.request(Method::POST, path).header("x-admin-token", &host.admin).header("content-type", "application/json").body(body)
    };
    for (path, body) in [("/ai/endpoints/create", "{\"slug\":"), ("/ai/credits", "{'a':1}"), ("/ai/invoke", "{")] {
        let error = host.send(post(path, body)).await.fails(400, "invalid_json", "caller");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("The body is not JSON: ") && message.contains("line 1 column"), "{path}: {message}");
    }
}

#[tokio::test]
async fn missing_globals_are_reported_once_at_publication() {
    let host = Host::start().await;
    let (_, key) = host.register("Notes").await;
    let source = "export default async (req, ctx) => {\n  console.log('a');\n  return { seen: await ctx.kv.get('a'), hosts: ctx.httpGetJson.length };\n};";
    let mut tool = js("noted", 0.0, source);
    tool["capabilities"] = json!({ "httpGetJson": true });
    tool["allowedHosts"] = json!(["example.com"]);
    tool["safetyAttestation"] = json!({ "accepted": true });
    let warnings = |answer: &Answer| {
        answer.json()["warnings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let created = host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    assert_eq!(
        warnings(&created),
        [
            "`console` writes nothing (line 2): request it with `capabilities.logs: true`",
            "`ctx.kv` is refused (line 3): request it with `capabilities.kv: true`",
            "`ctx.httpGetJson` is refused (line 3): `capabilities.httpGetJson` waits for an admin",
        ]
    );

    let (host, key) = (&host, key.as_str());
    let patch = async |body: Value| host.as_builder(key, Method::PATCH, "/ai/endpoints/noted", &body).await;
    assert_eq!(warnings(&patch(json!({ "title": "Another" })).await.is(200)).len(), 0, "it is reported once");
    let granted = patch(json!({ "capabilities": { "logs": true, "kv": true, "httpGetJson": true } })).await.is(200);
    assert_eq!(warnings(&granted).len(), 1, "{granted:?}");
    let plain =
        patch(json!({ "handler": { "source": "export default () => 1;" }, "safetyAttestation": { "accepted": true } })).await.is(200);
    assert_eq!(warnings(&plain).len(), 0);
}

#[tokio::test]
async fn handler_with_habits_from_workers_is_published_with_advice() {
    let host = Host::start().await;
    let tool = js("worker", 0.0, "export default async (req, env, ctx) => {\n  ctx.waitUntil(env.COUNTS.put('a', '1'));\n  return {};\n};");
    let warnings = host.manage(Method::POST, "/ai/endpoints/create", &tool).await.is(200).json()["warnings"].to_string();
    assert!(warnings.contains("a third parameter (line 1)") && !warnings.contains("waitUntil"), "{warnings}");
    assert!(warnings.contains("always undefined (line 2): the second parameter is `ctx`"), "{warnings}");
    let error = host.call("worker", &json!({})).await.fails(502, "handler_failed", "tool");
    assert!(error["message"].as_str().unwrap().contains("`(req, ctx)`"), "{error}");
}

#[tokio::test]
async fn handler_using_a_missing_global_gets_its_replacement() {
    let host = Host::start().await;
    host.publish(&js("habit", 0.0, "export default async (req) => new XMLHttpRequest();")).await;
    let error = host.call("habit", &json!({})).await.fails(502, "handler_failed", "tool");
    assert!(error["message"].as_str().unwrap().contains("ctx.httpGetJson"), "{error}");
    let fetches = js("fetches", 0.0, "export default async (req) => fetch('https://example.com');");
    let warnings = host.manage(Method::POST, "/ai/endpoints/create", &fetches).await.is(200).json()["warnings"].to_string();
    assert!(warnings.contains("`fetch` is refused (line 1): request it with `capabilities.fetch: true`"), "{warnings}");
    let error = host.call("fetches", &json!({})).await.fails(502, "handler_failed", "tool");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("TypeError: fetch failed: fetch is not granted") && message.contains("`capabilities.fetch: true`"), "{error}");
    let unloadable = js("node", 0.0, "const fs = require('fs'); export default () => 1;");
    let error = host.manage(Method::POST, "/ai/endpoints/create", &unloadable).await.fails(422, "invalid_handler", "caller");
    assert!(error["message"].as_str().unwrap().contains("bundle its packages"), "{error}");
    let mut ungranted = js("ungranted", 0.0, "export default (req, ctx) => ctx.kv.get('a');");
    ungranted["capabilities"] = json!({});
    host.publish(&ungranted).await;
    let error = host.call("ungranted", &json!({})).await.fails(502, "handler_failed", "tool");
    assert!(error["message"].as_str().unwrap().contains("capabilities.kv"), "{error}");
}

#[tokio::test]
async fn types_in_javascript_are_reported_with_a_hint_to_typescript() {
    let host = Host::start().await;
    let report = async |source: &str| {
        let answer = host.manage(Method::POST, "/ai/endpoints/create", &js("typed", 0.0, source)).await;
        answer.fails(422, "invalid_handler", "caller")["message"].as_str().unwrap().to_owned()
    };
    for typed in ["export default (req: any, ctx: any) => ({});", "export default function (a) { const b: string = 'c'; return b; }"] {
        let message = report(typed).await;
        assert!(message.contains("SyntaxError") && message.contains("`language: \"ts\"`"), "{message}");
    }
    for neither in ["export default (req => {", "const a = 1; const a = 2; export default () => a;"] {
        let message = report(neither).await;
        assert!(!message.contains("language"), "{message}");
    }
}

#[tokio::test]
async fn negative_amount_is_reported_as_an_amount() {
    let host = Host::builder().flag("--registration-price-usd", 0).start().await;
    let (_, key) = host.register("Amounts").await;
    let settings = json!({ "address": "0x000000000000000000000000000000000000dEaD", "minimumUsd": -1 });
    let credit = host.manage(Method::POST, "/ai/credits", &json!({ "amountUsd": -1 })).await.fails(422, "invalid_credit", "caller");
    let answer = host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &settings).await;
    for (error, pointer) in [(credit, "/amountUsd"), (answer.fails(422, "invalid_payout", "caller"), "/minimumUsd")] {
        let message = error["message"].as_str().unwrap();
        assert!(error["pointer"] == pointer && message.contains("amount must be") && !message.contains("price"), "{error}");
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_says_why_in_words_that_help() {
    let host = Host::start().await;
    for (schema, message) in [
        (json!({ "$ref": "https://example.com/schema.json" }), "`https://example.com/schema.json`, which is not in this schema"),
        (json!({ "pattern": "(?:a{1000}){1000}" }), "takes more than 1048576 bytes"),
        (json!({ "pattern": "^.{1,4000}$" }), "takes more than 1048576 bytes"),
        (json!({ "patternProperties": { "^\\p{L}{1,500}$": {} } }), "takes more than 1048576 bytes"),
        (json!({ "pattern": "\\a" }), "ECMAScript cannot compile this regular expression with its flag `u`"),
        (json!({ "pattern": "(" }), "ECMAScript cannot compile"),
        (json!({ "patternProperties": { "(?P<y>a)": {} } }), "ECMAScript cannot compile"),
        (json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{ "type": "string" }] }), "`prefixItems`"),
        (json!({ "properties": { "a": { "exclusiveMinimum": true } } }), "draft-04"),
    ] {
        let mut odd = js("odd", 0.0, "export default () => 1;");
        odd["inputSchema"] = schema;
        let answer = host.manage(Method::POST, "/ai/endpoints/create", &odd).await;
        let error = answer.fails(422, "invalid_endpoint", "caller");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    }
}
