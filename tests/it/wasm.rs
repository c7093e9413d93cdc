//! `WebAssembly` as a capability: absent without it, there with it on V8, and gone once it is revoked.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{gates::decide, harness::Host, revenue::tool};

const CREATE: &str = "/ai/endpoints/create";

/// Adds two numbers with a module of its top level.
const ADDS: &str = r#"
const hex = "0061736d01000000" + "01070160027f7f017f" + "03020100" + "070701036164640000" + "0a09010700200020016a0b";
const { add } = new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16)))).exports;
export default () => ({ sum: add(1, 2) });
"#;

/// Says whether there is `WebAssembly`.
const ASKS: &str = "export default () => ({ kind: typeof WebAssembly });";

/// Returns whether the host's engine has `WebAssembly`.
async fn has_wasm(host: &Host) -> bool {
    let mut asks = tool("asks", 0.0, ASKS);
    asks["capabilities"] = json!({ "wasm": true });
    host.publish(&asks).await;
    host.call("asks", &json!({})).await.is(200).json()["kind"] == "object"
}

async fn kind(host: &Host, slug: &str) -> Value {
    host.call(slug, &json!({})).await.is(200).json()["kind"].clone()
}

#[tokio::test]
async fn webassembly_is_there_with_its_grant_until_it_is_revoked() {
    let host = Host::start().await;
    let with = if has_wasm(&host).await { "object" } else { "undefined" };
    host.publish(&tool("without", 0.0, ASKS)).await;
    assert_eq!(kind(&host, "without").await, "undefined");
    assert_eq!(kind(&host, "asks").await, with, "in a warm worker");
    for (is_granted, expected) in [(false, "undefined"), (true, with), (false, "undefined")] {
        host.change("asks", &json!({ "capabilities": { "wasm": is_granted } })).await;
        assert_eq!(kind(&host, "asks").await, expected);
    }
    let policy = json!({ "tier": "jitless" });
    let (_, key) = host.register("Computes").await;
    let mut theirs = tool("theirs", 0.0, ASKS);
    theirs["capabilities"] = json!({ "wasm": true });
    host.as_builder(&key, Method::POST, CREATE, &theirs).await.is(200);
    decide(&host, "theirs", json!({ "decision": "approve" })).await.is(200);
    assert_eq!(kind(&host, "theirs").await, with);
    host.manage(Method::PUT, "/ai/admin/policy", &policy).await.is(200);
    assert_eq!(kind(&host, "theirs").await, "undefined", "nothing is compiled in the tier");
    theirs["slug"] = json!("late");
    let warnings = host.as_builder(&key, Method::POST, CREATE, &theirs).await.is(200).json()["warnings"].to_string();
    assert!(warnings.contains("`WebAssembly` is not defined in the tier `jitless`"), "{warnings}");
}

#[tokio::test]
async fn a_module_that_needs_webassembly_waits_for_its_grant() {
    let host = Host::start().await;
    let (_, key) = host.register("Waits").await;
    let adds = tool("adds", 0.0, ADDS);
    let error = host.as_builder(&key, Method::POST, CREATE, &adds).await.fails(422, "invalid_handler", "caller");
    assert!(error["message"].as_str().unwrap().contains("the capability `wasm`"), "{error}");
    let mut asks = adds.clone();
    asks["capabilities"] = json!({ "wasm": true });
    let made = host.as_builder(&key, Method::POST, CREATE, &asks).await.is(200).json()["endpoint"].clone();
    assert_eq!((&made["capabilities"]["wasm"], &made["requestedCapabilities"]["wasm"]), (&json!(false), &json!(true)));
    if has_wasm(&host).await {
        decide(&host, "adds", json!({ "decision": "approve" })).await.is(200);
        assert_eq!(host.call("adds", &json!({})).await.is(200).json(), json!({ "sum": 3 }));
    }
    let broken = ADDS.replace("parseInt(byte, 16)", "undefinedName");
    let mut other = tool("broken", 0.0, &format!("undefinedName; {broken}"));
    other["capabilities"] = json!({ "wasm": true });
    host.as_builder(&key, Method::POST, CREATE, &other).await.fails(422, "invalid_handler", "caller");
}
