//! Documents for programs that look for tools, and validators of these documents and of challenges.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use tollhouse::http;

use crate::harness::{Host, chain::clients, eventually, js};

const SAME: &str = "export default async (req) => req.input;";

/// Runs a validator, which must succeed. Returns its output.
async fn checked(program: PathBuf, args: &[&str]) -> Value {
    let output = Command::new(program).args(args).env("NO_PROXY", "127.0.0.1,localhost").kill_on_drop(true).output().await.unwrap();
    let (message, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?} ended with {}: {message}\n{complained}", output.status);
    serde_json::from_str(&message).unwrap_or_else(|error| panic!("{error}: {message}\n{complained}"))
}

/// Starts a host with the built-in tools. Returns the slugs of the paid ones.
async fn shipped() -> (Host, Vec<String>) {
    let host = Host::builder().with_catalogue().flag("--contact", "someone@example.com").start().await;
    let listed = host.get("/ai/endpoints?price=paid").await.is(200).json();
    let slugs: Vec<_> = listed["endpoints"].as_array().unwrap().iter().map(|one| one["slug"].as_str().unwrap().to_owned()).collect();
    assert!(slugs.len() >= 4, "{slugs:?}");
    (host, slugs)
}

#[tokio::test]
async fn x402_conformance_finds_nothing_wrong_with_a_challenge() {
    let (host, slugs) = shipped().await;
    let urls: Vec<_> = slugs.iter().map(|slug| format!("{}/tools/{slug}", host.url)).collect();
    let args: Vec<_> = ["-m", "x402conf", "resource", "--fail-on-error"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let answer = checked(clients().join("venv/bin/python"), &args).await;
    assert_eq!(answer["tool"], "x402-conformance 1.6.0");
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), slugs.len());
    for check in results.iter().flat_map(|result| result["checks"].as_array().unwrap()) {
        assert_eq!(check["pass"], true, "{check}");
    }
}

#[tokio::test]
async fn x402lint_finds_nothing_wrong_with_a_challenge() {
    let (host, slugs) = shipped().await;
    for slug in &slugs {
        let url = format!("{}/tools/{slug}", host.url);
        for method in ["GET", "POST", "HEAD"] {
            let answer =
                checked(clients().join("venv-lint/bin/python"), &["-m", "x402lint", "check", &url, "--json", "--method", method]).await;
            assert_eq!((&answer["ok"], &answer["wire_version"]), (&json!(true), &json!("2")), "{answer}");
            assert_eq!((&answer["counts"]["FAIL"], &answer["counts"]["WARN"]), (&json!(0), &json!(0)), "{answer}");
        }
    }
}

#[tokio::test]
async fn agents_registries_find_every_paid_tool_with_its_price() {
    let (host, slugs) = shipped().await;
    let node = PathBuf::from("node");
    let binary = clients().join("node_modules/@agentcash/discovery/bin/discovery.js");
    let answer = checked(node.clone(), &[binary.to_str().unwrap(), "discover", &host.url, "--json", "-v"]).await;
    assert_eq!((&answer["ok"], &answer["selectedStage"]), (&json!(true), &json!("openapi")), "{answer}");
    let wrong: Vec<_> = answer["warnings"].as_array().unwrap().iter().filter(|warning| warning["severity"] != "info").collect();
    assert_eq!(wrong, [] as [&Value; 0]);
    for slug in &slugs {
        let answer = checked(node.clone(), &[binary.to_str().unwrap(), "check", &format!("{}/tools/{slug}", host.url), "--json"]).await;
        let paid = answer["advisories"].as_array().unwrap().iter().find(|advisory| advisory["authMode"] == "paid");
        let paid = paid.unwrap_or_else(|| panic!("{answer}"));
        assert!(paid["estimatedPrice"].is_string() && paid["inputSchema"].is_object() && paid["protocols"] == json!(["x402"]), "{paid}");
        let wrong: Vec<_> = answer["warnings"].as_array().unwrap().iter().filter(|warning| warning["severity"] == "error").collect();
        assert_eq!(wrong, [] as [&Value; 0]);
    }
}

#[tokio::test]
async fn document_lists_public_operations_and_is_cached() {
    let host = Host::builder().flag("--contact", "https://example.com/help").start().await;
    let mut tool = js("said", 0.002, SAME);
    tool["inputSchema"] = json!({
        "$defs": { "word": { "type": "string" } },
        "type": "object", "properties": { "word": { "$ref": "#/$defs/word" } }, "required": ["word"],
    });
    host.publish(&tool).await;
    host.publish(&js("free-one", 0.0, SAME)).await;
    host.publish(&js("paused-one", 0.01, SAME)).await;
    host.change("paused-one", &json!({ "status": "paused" })).await;
    let first = host.get("/openapi.json").await.is(200);
    let document = first.json();
    assert_eq!((&document["openapi"], &document["info"]["contact"]["url"]), (&json!("3.1.0"), &json!("https://example.com/help")));
    assert!((100..=4_000).contains(&document["info"]["x-guidance"].as_str().unwrap().len()));
    let listed: BTreeSet<_> =
        document["paths"].as_object().unwrap().values().filter_map(|item| item["get"]["operationId"].as_str()).collect();
    let request = ["listTools", "getManifest", "getReceiptKeys", "getContentSafetyPolicy", "getReceipt", "getPayment", "inspectTool"];
    assert_eq!(listed, request.into());
    let tools: Vec<_> =
        document["paths"].as_object().unwrap().keys().filter(|path| path.starts_with("/tools/") && !path.contains('{')).collect();
    assert_eq!(tools, ["/tools/said"]);
    let operation = &document["paths"]["/tools/said"]["post"];
    assert_eq!(operation["x-payment-info"]["price"], json!({ "mode": "fixed", "currency": "USD", "amount": "0.002" }));
    let expected = |to: &Value| document.pointer(to["$ref"].as_str().unwrap().strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{to}"));
    let schema = expected(&operation["requestBody"]["content"]["application/json"]["schema"]);
    assert_eq!((&schema["required"], expected(&schema["properties"]["word"])), (&json!(["word"]), &json!({ "type": "string" })));
    assert!(operation["responses"]["402"].is_object() && operation["security"] == json!([]));

    // A client with the current version gets 304, until something changes.
    let tag = first.has("etag").to_owned();
    let again = |tag: String| host.send(host.request(Method::GET, "/openapi.json").header("if-none-match", tag));
    assert!(again(format!("\"other\", W/{tag}")).await.is(304).body.is_empty());
    host.change("said", &json!({ "priceUsd": 0.003 })).await;
    let changed = again(tag).await.is(200);
    assert_eq!(changed.json()["paths"]["/tools/said"]["post"]["x-payment-info"]["price"]["amount"], "0.003");
    host.change("paused-one", &json!({ "status": "active" })).await;
    assert!(host.get("/openapi.json").await.is(200).json()["paths"]["/tools/paused-one"].is_object());
    host.get("/openapi.json?tool=said").await.fails(400, "invalid_request", "caller");
}

#[tokio::test]
async fn documents_of_many_tools_come_in_pages() {
    let host = Host::start().await;
    let names: Vec<_> = (0..65).map(|n| format!("tool-{n:03}")).collect();
    for some in names.chunks(8) {
        join_all(some.iter().map(|name| async { host.publish(&js(name, 0.01, SAME)).await })).await;
    }
    let first = host.get("/openapi.json").await.is(200).json();
    let (mut found, mut next) = (vec![], first["x-next"].as_str().map(|url| url.strip_prefix(&host.url).unwrap().to_owned()));
    while let Some(path) = next {
        let page = host.get(&path).await.is(200).json();
        assert!(page["paths"].as_object().unwrap().len() <= 40, "checkers warn above 40 operations");
        found.extend(names.iter().filter(|name| page["paths"][format!("/tools/{name}")].is_object()).cloned());
        next = page["x-next"].as_str().map(|url| url.strip_prefix(&host.url).unwrap().to_owned());
    }
    assert_eq!(found, names);
    let listed = host.get("/.well-known/x402").await.is(200).json();
    assert_eq!((&listed["version"], listed["resources"].as_array().unwrap().len()), (&json!(1), 65));
    assert_eq!(listed["resources"][0], format!("{}/tools/tool-000", host.url));
    let accepts = &listed["accepts"][0];
    assert!(accepts["payTo"].is_string() && accepts["network"] == "eip155:84532" && accepts.get("amount").is_none(), "{listed}");
    let behind = host.get("/.well-known/x402?after=tool-063").await.is(200).json();
    assert_eq!(behind["resources"], json!([format!("{}/tools/tool-064", host.url)]));
}

/// The first tool does not represent the others.
#[tokio::test]
async fn payment_methods_cover_all_paid_tools() {
    let host = Host::start().await;
    let mut metered = js("aaa-first", 0.0, "export default () => ({});");
    metered["maxPriceUsd"] = json!(0.05);
    host.publish(&metered).await;
    host.publish(&js("bbb-second", 0.01, "export default () => ({});")).await;
    let listed = host.get("/.well-known/x402").await.is(200).json();
    let schemes: Vec<_> = listed["accepts"].as_array().unwrap().iter().map(|entry| entry["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["upto", "exact"], "{listed}");
}

/// Returns a path with values for its parameters.
fn filled(path: &str) -> String {
    path.replace("{slug}", "none-such").replace("{id}", "none-such").replace("{name}", "agents")
}

#[tokio::test]
async fn each_operation_of_the_table_is_one_of_the_host_and_the_other_way_round() {
    let host = Host::start().await;
    let document = host.get("/docs/openapi.json").await.is(200).json();
    let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in http::rows() {
        assert_eq!(document["paths"][row.path][row.method.to_lowercase()]["operationId"], row.id);
        methods.entry(row.path).or_default().insert(row.method);
    }
    let listed: BTreeSet<_> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(listed, methods.keys().copied().collect());
    for (path, mut methods) in methods {
        // A route with GET also has HEAD.
        if methods.contains("GET") {
            methods.insert("HEAD");
        }
        let refused = host.send(host.request(Method::TRACE, &filled(path))).await.is(405);
        let mut allowed: Vec<_> = refused.has("allow").split(',').map(str::trim).collect();
        allowed.sort_unstable();
        assert_eq!(allowed, methods.into_iter().collect::<Vec<_>>(), "{path}: each once");
    }
}

/// Any other route would be missing in the table.
#[test]
fn routes_are_made_of_the_table_alone() {
    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = vec![];
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let code =
        |text: &str| if text.contains("Router") { text.split("\nmod tests {").next().unwrap().matches(".route(").count() } else { 0 };
    let own: Vec<_> = found
        .iter()
        .filter(|(file, text)| code(text) > 0 && !file.contains("/tests"))
        .map(|(file, _)| file.split("/src/").last().unwrap())
        .collect();
    // Pages are not operations.
    let known = ["http/route.rs", "mcp/server_card.rs", "mcp/transport.rs", "web/lib.rs", "web/pages/admin.rs"];
    assert!(own.iter().all(|file| known.contains(file)), "{own:?}: these operations are in no row of `http::rows`");
}

#[tokio::test]
async fn the_whole_document_is_openapi() {
    let host = Host::builder().with_catalogue().start().await;
    for path in ["/docs/openapi.json", "/openapi.json"] {
        let document = host.get(path).await.is(200);
        let file = host.folder().join("openapi.json");
        fs::write(&file, &document.body).unwrap();
        let answer = checked(PathBuf::from("node"), &[clients().join("openapi.mjs").to_str().unwrap(), file.to_str().unwrap()]).await;
        assert_eq!(answer, json!({ "valid": true, "version": "3.1" }), "{path}");
    }
}

#[tokio::test]
async fn the_tools_that_are_called_most_come_first() {
    let host = Host::start().await;
    let names: Vec<_> = (0..34).map(|n| format!("tool-{n:03}")).collect();
    for some in names.chunks(8) {
        join_all(some.iter().map(|name| async { host.publish(&js(name, 0.01, SAME)).await })).await;
    }
    let credit = host.mint(1.0).await;
    host.call_credit("tool-033", &json!({}), &credit).await.is(200);
    let has = |document: &Value, name: &str| document["paths"][format!("/tools/{name}")].is_object();
    // A call is counted when it has ended, which may be after its answer.
    let document = eventually("the call is counted", Duration::from_secs(20), || async {
        // A change of the catalog causes the document to be generated again.
        host.change("tool-000", &json!({ "title": "again" })).await;
        Some(host.get("/openapi.json").await.is(200).json()).filter(|document| has(document, "tool-033"))
    });
    let document = document.await;
    assert!(!has(&document, "tool-024") && has(&document, "tool-023"), "25 of them: the others by name");
    assert_eq!(document["x-next"], format!("{}/openapi.json?after=", host.url));
    assert!(document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().keys()).count() <= 40);
    for key in ["x-discovery", "x-agentcash-guidance"] {
        assert_eq!(document[key]["llmsTxtUrl"], format!("{}/llms.txt", host.url));
    }
    let named = host.get("/openapi.json?tools=tool-029,%20tool-030,none-such").await.is(200).json();
    assert!(has(&named, "tool-029") && has(&named, "tool-030") && !has(&named, "tool-000"));
    let mut tagged = js("tagged", 0.01, SAME);
    tagged["tags"] = json!(["Sound"]);
    host.publish(&tagged).await;
    let document = host.get("/openapi.json?tag=sound").await.is(200).json();
    assert!(has(&document, "tagged") && !has(&document, "tool-000"));
    let behind = host.get("/openapi.json?tag=sound&after=tagged").await.is(200).json();
    assert!(!has(&behind, "tagged") && behind["x-next"].is_null(), "{behind}");
    for wrong in ["?tools=a&tag=b", "?tools=a&after=c", &format!("?tools={}", ["a"; 26].join(","))] {
        host.get(&format!("/openapi.json{wrong}")).await.fails(400, "invalid_request", "caller");
    }
}

#[tokio::test]
async fn free_tools_that_are_asked_for_by_name_have_no_price() {
    let host = Host::start().await;
    host.publish(&js("free-one", 0.0, SAME)).await;
    let document = host.get("/openapi.json?tools=free-one").await.is(200).json();
    let operation = &document["paths"]["/tools/free-one"]["post"];
    assert!(
        operation["operationId"].is_string() && operation["x-payment-info"].is_null() && operation["responses"]["402"].is_null(),
        "{operation}"
    );
}
