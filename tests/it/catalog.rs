//! The catalogue: what is listed, published, changed and deleted.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, js};

/// Members of a hosted endpoint record (interface 2.1), and a test of each.
const RECORD: &[(&str, fn(&Value) -> bool)] = &[
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

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_catalogue_has_every_field_of_the_contract_in_both_forms() {
    let host = Host::with(&[("TOLLHOUSE_TOOLS", "")]).await;
    let newer = host.get("/ai/endpoints").await.body;
    let older = host.get("/ai/endpoints?form=older").await.body;
    let lifecycle = "builderRegister create inspect update pause resume delete logs secrets revenue events payoutSettings payoutPackets";
    for envelope in [&newer, &older] {
        assert_eq!((&envelope["ok"], &envelope["schema"]), (&json!(true), &json!("tollhouse.x402.hosted-endpoint-catalog.v1")));
        assert!(envelope["dashboard"].as_str().unwrap().ends_with("/dashboard"));
        assert!(envelope["createEndpoint"].as_str().unwrap().ends_with("/ai/endpoints/create"));
        assert!(envelope["note"].is_string());
        assert!(lifecycle.split(' ').all(|name| envelope["lifecycle"][name].is_string()));
        let controls = "register revenue events payoutSettings payouts docs";
        assert!(controls.split(' ').all(|name| envelope["builderControls"][name].is_string()));
        let types = "receipt_echo static_json x402_readiness_check js_request_response";
        assert!(types.split(' ').all(|name| envelope["supportedHandlerTypes"][name].is_string()));
        let endpoints = envelope["endpoints"].as_array().unwrap();
        assert!(endpoints.len() >= 10);
        for endpoint in endpoints {
            for (name, fits) in RECORD {
                assert!(fits(&endpoint[name]), "{name} of {endpoint}");
            }
            let js = endpoint["handlerType"] == "js_request_response";
            assert_eq!(endpoint["runtime"], if js { "admin_gated_js_request_response_v1" } else { "managed_builtin_handler" });
            let free = endpoint["priceUsd"].as_f64() == Some(0.0);
            assert_eq!(endpoint["pricingMode"], if free { "free_public_utility" } else { "fixed_price_success_receipt" });
            if free && !js {
                assert_eq!(endpoint["capabilities"], json!({}));
            }
            assert_eq!(endpoint["method"], "POST");
        }
    }
    assert!(newer["contentSafety"]["policy"].is_string() && newer["contentSafety"]["selfServeRule"].is_string());
    assert!(newer["lifecycle"]["contentSafetyPolicy"].is_string());
    assert!(newer["endpoints"].as_array().unwrap().iter().all(|endpoint| endpoint.get("contentSafety") == Some(&Value::Null)));
    assert!(older.get("contentSafety").is_none() && older["lifecycle"].get("contentSafetyPolicy").is_none());
    assert!(older["endpoints"].as_array().unwrap().iter().all(|endpoint| endpoint.get("contentSafety").is_none()));
    let manifest = host.get("/ai/manifest").await.body;
    for part in ["service", "payment", "mcp", "endpoints", "receipts"] {
        assert!(manifest[part].is_object(), "{part}");
    }
    assert_eq!(manifest["payment"]["simulated"], true);
    let kinds: std::collections::HashSet<_> =
        newer["endpoints"].as_array().unwrap().iter().map(|endpoint| endpoint["handlerType"].as_str().unwrap()).collect();
    assert_eq!(kinds.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typescript_tool_is_published_changed_and_survives_a_restart() {
    let mut host = Host::start().await;
    let mut draft = js("shout", 0.0, "");
    draft["handler"] = json!({ "language": "ts", "source": "interface In { text: string }\nexport default async (req: { input: In }): Promise<unknown> => ({ text: req.input.text.toUpperCase() });" });
    let made = host.publish(&draft).await;
    assert_eq!(host.post("/tools/shout", &json!({ "text": "hi" })).await.is_ok().body, json!({ "text": "HI" }));
    assert_eq!(host.get("/tools/shout?text=hey").await.is_ok().body, json!({ "text": "HEY" }));
    assert_eq!(host.get("/tools/shout?inspect").await.is_ok().body["endpoint"]["slug"], "shout");
    let changed = json!({ "handler": { "source": "export default (req) => ({ text: req.input.text + '!' })" } });
    let reply = host.admin(Method::PATCH, "/ai/endpoints/shout", &changed).await;
    assert_ne!(reply.is_ok().body["endpoint"]["version"], made["version"]);
    assert_eq!(host.post("/tools/shout", &json!({ "text": "hi" })).await.body, json!({ "text": "hi!" }));
    host.kill9();
    host.restart().await;
    assert_eq!(host.post("/tools/shout", &json!({ "text": "hi" })).await.is_ok().body, json!({ "text": "hi!" }));
    assert_eq!(host.get("/ai/endpoints/shout").await.body["endpoint"]["id"], made["id"]);
    assert!(host.data().join("store").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_go_by_the_revision_that_was_seen() {
    let host = Host::start().await;
    host.publish(&js("counted", 0.0, "export default () => 1")).await;
    let etag = host.get("/ai/endpoints/counted").await.header("etag").unwrap().to_owned();
    let patch = |etag: &str, title: &str| {
        let request = host.request(Method::PATCH, "/ai/endpoints/counted").header("x-admin-token", "adm_of-the-integration-tests");
        host.send(request.header("if-match", etag).json(&json!({ "title": title })))
    };
    patch(&etag, "first").await.is_ok();
    patch(&etag, "second").await.is_error(412, "revision_changed");
    assert_eq!(host.get("/ai/endpoints/counted").await.body["endpoint"]["title"], "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_with_its_place() {
    let host = Host::start().await;
    host.publish(&js("taken", 0.0, "export default () => 1")).await;
    let create = async |change: &dyn Fn(&mut Value)| {
        let mut draft = js("fresh", 0.01, "export default () => 1");
        change(&mut draft);
        host.admin(Method::POST, "/ai/endpoints/create", &draft).await
    };
    create(&|d| d["slug"] = json!("taken")).await.is_error(409, "slug_taken");
    let refused: &[(&dyn Fn(&mut Value), &str)] = &[
        (&|d| d["slug"] = json!("No Slug"), "/slug"),
        (&|d| d["slug"] = json!("dashboard"), "/slug"),
        (&|d| d["priceUsd"] = json!(-1), "/priceUsd"),
        (&|d| d["priceUsd"] = json!(0.000_000_1), "/priceUsd"),
        (&|d| d["title"] = json!(""), "/title"),
        (&|d| d["capabilities"] = json!({ "shell": true }), "/capabilities/shell"),
        (&|d| d["surprise"] = json!(1), "/surprise"),
        (&|d| d["inputSchema"] = json!({ "properties": { "a": { "type": "text" } } }), "/inputSchema/properties/a/type"),
        (&|d| d["outputSchema"] = json!({ "$ref": "https://example.com/schema" }), "/outputSchema"),
        (&|d| d["limits"] = json!({ "cpuMs": 99_999_999 }), "/limits/cpuMs"),
        (&|d| d["limits"] = json!({ "speed": 1 }), "/limits/speed"),
        (&|d| d["handler"] = json!(null), "/handler"),
    ];
    for (change, pointer) in refused {
        let reply = create(change).await;
        reply.is_error(422, "invalid_endpoint").uncharged();
        let place = reply.body["error"]["pointer"].as_str().unwrap();
        assert!(place.starts_with(pointer) || pointer.starts_with(place), "{pointer}: {}", reply.text);
    }
    let broken = create(&|d| d["handler"] = json!({ "source": "export default () => {\n  return 1 +;\n}" })).await;
    broken.is_error(422, "invalid_handler");
    assert_eq!(broken.body["error"]["at"]["line"], 2, "{}", broken.text);
    assert!(broken.body["error"]["at"]["column"].is_u64());
    create(&|d| d["handler"] = json!({ "source": "export default 7" })).await.is_error(422, "invalid_handler");
    create(&|d| d["handler"] = json!({ "source": "for (;;) {}" })).await.is_error(422, "invalid_handler");
    assert_eq!(host.get("/ai/endpoints").await.body["endpoints"].as_array().unwrap().len(), 1);
}
