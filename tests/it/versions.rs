//! Versions of handlers: stored by hash, readable by the owner, and available for a rollback.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, js},
    revenue::tool,
};

const CREATE: &str = "/ai/endpoints/create";

fn answers(value: &str) -> String {
    format!("export default () => ({{ answer: {value} }});")
}

#[tokio::test]
async fn a_builder_rolls_back_to_a_version_that_is_kept() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Rolls").await, host.register("Other").await);
    let manage = async |method, body: Value| host.as_builder(&key, method, "/ai/endpoints/rolls", &body).await;
    let mut typed = tool("rolls", 0.0, "const one: number = 1;\nexport default () => ({ answer: one });");
    typed["handler"]["language"] = json!("ts");
    let first = host.as_builder(&key, Method::POST, CREATE, &typed).await.is(200).json()["endpoint"]["version"].clone();
    let second = manage(Method::PATCH, json!({ "handler": { "source": answers("2") } })).await.is(200).json()["endpoint"].clone();
    let stored: Vec<_> = second["versions"].as_array().unwrap().iter().map(|version| &version["version"]).collect();
    assert_eq!(stored, [&second["version"], &first]);
    assert!(second["versions"][0]["createdAt"].as_str() >= second["versions"][1]["createdAt"].as_str());
    assert_eq!(host.call("rolls", &json!({})).await.is(200).json(), json!({ "answer": 2 }));

    let back = manage(Method::PATCH, json!({ "version": first })).await.is(200).json()["endpoint"].clone();
    assert_eq!((&back["version"], &back["versions"]), (&first, &second["versions"]));
    assert_eq!(host.call("rolls", &json!({})).await.is(200).json(), json!({ "answer": 1 }));
    manage(Method::PATCH, json!({ "version": "sha256:00" })).await.fails(404, "unknown_version", "caller");
    let both = json!({ "version": second["version"], "handler": { "source": answers("3") } });
    assert_eq!(manage(Method::PATCH, both).await.fails(422, "invalid_endpoint", "caller")["pointer"], "/version");
    // A version of another endpoint cannot be used here, not even by an admin.
    let foreign = host.as_builder(&other, Method::POST, CREATE, &tool("foreign", 0.0, &answers("'foreign'"))).await.is(200).json();
    let foreign = foreign["endpoint"]["version"].as_str().unwrap();
    manage(Method::PATCH, json!({ "version": foreign })).await.fails(404, "unknown_version", "caller");
    let source = |version: &str| format!("/ai/endpoints/rolls/source?version={version}");
    host.as_builder(&key, Method::GET, &source(foreign), &Value::Null).await.fails(404, "unknown_version", "caller");

    let path = source(second["version"].as_str().unwrap());
    let read = host.as_builder(&key, Method::GET, &path, &Value::Null).await.is(200).json();
    assert_eq!(read["handler"], json!({ "version": second["version"], "source": answers("2"), "language": "js" }));
    let runs = host.manage(Method::GET, "/ai/endpoints/rolls/source", &Value::Null).await.is(200).json();
    assert_eq!((&runs["handler"]["version"], &runs["handler"]["source"]), (&first, &typed["handler"]["source"]));
    host.get("/ai/endpoints/rolls/source").await.fails(401, "unauthorized", "caller");
    host.as_builder(&other, Method::GET, "/ai/endpoints/rolls/source", &Value::Null).await.fails(403, "not_owner", "caller");
    assert_eq!(host.get("/ai/endpoints/rolls").await.json()["endpoint"].get("versions"), None);
}

#[tokio::test]
async fn a_version_says_who_made_it_by_which_front_and_why() {
    let host = Host::start().await;
    let (_, key) = host.register("Maker").await;
    let mut first = tool("noted", 0.0, &answers("1"));
    first["note"] = json!("the first <b>one</b>");
    host.as_builder(&key, Method::POST, CREATE, &first).await.is(200);
    let change = async |name: &str, credential: &str, body: Value| {
        let request = host.request(Method::PATCH, "/ai/endpoints/noted").header(name, credential).header("user-agent", "tollhouse/1.2.3");
        let versions = host.send(request.json(&body)).await.is(200).json()["endpoint"]["versions"].clone();
        versions.as_array().unwrap().iter().map(|made| [&made["by"], &made["via"], &made["note"]].map(Value::clone)).collect::<Vec<_>>()
    };
    let by_owner = [json!("owner"), json!("http"), json!("the first <b>one</b>")];
    let made = change("x-builder-key", &key, json!({ "handler": { "source": answers("2") } })).await;
    assert_eq!(made, [[json!("owner"), json!("cli"), Value::Null], by_owner.clone()]);
    let made = change("x-admin-token", &host.admin, json!({ "handler": { "source": answers("3") }, "note": "a fault" })).await;
    let by_admin = [json!("admin"), json!("cli"), json!("a fault")];
    assert_eq!(made, [by_admin.clone(), [json!("owner"), json!("cli"), Value::Null], by_owner.clone()]);
    // A note belongs to the version that then runs. A rollback does not change how the version was
    // made.
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/noted", &Value::Null).await.is(200).json();
    let second = record["endpoint"]["versions"][1]["version"].clone();
    let made = change("x-builder-key", &key, json!({ "version": second, "note": "back to it" })).await;
    assert_eq!(made, [by_admin.clone(), [json!("owner"), json!("cli"), json!("back to it")], by_owner.clone()]);
    assert_eq!(change("x-builder-key", &key, json!({ "note": "" })).await[1][2], Value::Null);
    let changed = crate::revenue::events(&host, &key, "&kind=endpoint.updated").await[0]["data"]["changed"].clone();
    assert_eq!(changed, json!(["note"]));
    let long = json!({ "note": "é".repeat(201) });
    let refused = host.as_builder(&key, Method::PATCH, "/ai/endpoints/noted", &long).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(refused["pointer"], "/note");
    first["slug"] = json!("other");
    first["note"] = long["note"].clone();
    let refused = host.as_builder(&key, Method::POST, CREATE, &first).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(refused["pointer"], "/note");
    first["note"] = json!("");
    first["via"] = json!("dashboard");
    let refused = host.as_builder(&key, Method::POST, CREATE, &first).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(refused["pointer"], "/via", "no body says so");
}

#[tokio::test]
async fn a_static_answer_rolls_back_and_must_fit_the_schema_of_today() {
    let host = Host::start().await;
    let mut tool = js("fixed", 0.0, "");
    tool["handlerType"] = json!("static_json");
    tool["handler"] = json!({ "response": { "n": 1 } });
    let first = host.publish(&tool).await["version"].clone();
    host.change("fixed", &json!({ "handler": { "response": { "n": "two" } } })).await;
    assert_eq!(host.change("fixed", &json!({ "version": first })).await["version"], first);
    assert_eq!(host.call("fixed", &json!({})).await.is(200).json(), json!({ "n": 1 }));
    let texts = json!({ "properties": { "n": { "type": "string" } } });
    host.change("fixed", &json!({ "handler": { "response": { "n": "two" } }, "outputSchema": texts })).await;
    let error =
        host.manage(Method::PATCH, "/ai/endpoints/fixed", &json!({ "version": first })).await.fails(422, "invalid_endpoint", "caller");
    assert_eq!(error["pointer"], "/handler/response");
}

#[tokio::test]
async fn fifty_versions_are_kept_also_across_a_restart() {
    let mut host = Host::start().await;
    let mut tool = js("many", 0.0, "");
    tool["handlerType"] = json!("static_json");
    tool["handler"] = json!({ "response": 0 });
    let first = host.publish(&tool).await["version"].clone();
    let mut second = Value::Null;
    for n in 1..=50 {
        let version = host.change("many", &json!({ "handler": { "response": n } })).await["version"].clone();
        if n == 1 {
            second = version;
        }
    }
    host.restart().await;
    let owned = host.manage(Method::GET, "/ai/endpoints/many", &Value::Null).await.is(200).json()["endpoint"].clone();
    assert_eq!(owned["versions"].as_array().map(Vec::len), Some(50));
    host.manage(Method::PATCH, "/ai/endpoints/many", &json!({ "version": first })).await.fails(404, "unknown_version", "caller");
    host.change("many", &json!({ "version": second })).await;
    assert_eq!(host.call("many", &json!({})).await.is(200).json(), json!(1));
}

#[tokio::test]
async fn sources_that_no_endpoint_keeps_any_more_are_released() {
    let host = Host::start().await;
    let stored = async || host.get("/health").await.is(200).json()["stored"]["versions"]["count"].as_u64().unwrap();
    let fixed = |slug: &str, n: u64| {
        let mut tool = js(slug, 0.0, "");
        tool["handlerType"] = json!("static_json");
        tool["handler"] = json!({ "response": { "n": n } });
        tool
    };
    let first = host.publish(&fixed("changes", 1)).await["version"].clone();
    host.publish(&fixed("stays", 1)).await;
    host.publish(&fixed("goes", 2)).await;
    assert_eq!(stored().await, 2);
    for n in 2..60 {
        host.change("changes", &json!({ "handler": { "response": { "n": n } } })).await;
    }
    // The newest fifty versions of `changes`, and one version each of `stays` and `goes`.
    assert_eq!(stored().await, 52);
    assert_eq!(host.manage(Method::DELETE, "/ai/endpoints/changes", &json!({})).await.status, 200);
    assert_eq!(stored().await, 2);
    assert_eq!(host.change("stays", &json!({ "version": first })).await["version"], first);
    assert_eq!(host.manage(Method::DELETE, "/ai/endpoints/stays", &json!({})).await.status, 200);
    assert_eq!(host.manage(Method::DELETE, "/ai/endpoints/goes", &json!({})).await.status, 200);
    assert_eq!(stored().await, 0);
}

#[tokio::test]
async fn a_copy_of_a_tool_that_is_changed_again_and_again_costs_the_tool_no_worker() {
    let host = Host::start().await;
    let (_, key) = host.register("Copier").await;
    let own = tool("copied", 0.0, "let n = 0; export default () => ({ n: ++n });");
    let copied = host.publish(&own).await;
    let mut copy = tool("copy", 0.0, "");
    copy["handler"] = own["handler"].clone();
    let copy = host.as_builder(&key, Method::POST, CREATE, &copy).await.is(200).json();
    assert_eq!(copy["endpoint"]["version"], copied["version"]);
    for n in 1..=6 {
        assert_eq!(host.call("copied", &json!({})).await.is(200).json(), json!({ "n": n }));
        let handler = if n % 2 == 0 { own["handler"].clone() } else { json!({ "source": answers("2") }) };
        let patch = json!({ "handler": handler });
        host.as_builder(&key, Method::PATCH, "/ai/endpoints/copy", &patch).await.is(200);
    }
}
