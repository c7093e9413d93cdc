//! Checks the notes about parts of challenges and documents.

use super::*;

fn with(mut challenge: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    challenge.pointer_mut(parent).unwrap()[name] = value;
    challenge
}

/// Returns the codes of warnings and errors, except for the one that every local server gets.
fn found(report: &Value) -> Vec<String> {
    let notes = report["notes"].as_array().unwrap().iter().filter(|note| note["severity"] == "warning" || note["severity"] == "error");
    notes.map(|note| note["code"].as_str().unwrap().to_owned()).filter(|code| code != "not_https").collect()
}

#[tokio::test]
async fn a_version_2_challenge_within_its_limits_gets_no_notes() {
    let tags = |count: usize| json!(vec!["x".repeat(32); count]);
    let extra = |extra: Value| with(v2(), "/accepts/0/extra", extra);
    // A field that no check examines pads it to size: base64 of three bytes is four characters.
    let of_size = |bytes: usize| {
        let empty = with(v2(), "/padding", json!(""));
        with(v2(), "/padding", json!(" ".repeat(bytes / 4 * 3 - empty.to_string().len())))
    };
    let cases = [
        (of_size(8 << 10), false, "header_size"),
        (of_size((8 << 10) + 4), true, "header_size"),
        (with(v2(), "/resource/url", json!("mcp://tool/echo")), false, "resource"),
        (with(v2(), "/resource/url", json!("")), true, "resource"),
        (with(v2(), "/resource/description", json!("ä".repeat(500))), false, "resource"),
        (with(v2(), "/resource/description", json!("ä".repeat(501))), true, "resource"),
        (with(v2(), "/resource/serviceName", json!("x".repeat(32))), false, "resource"),
        (with(v2(), "/resource/serviceName", json!("x".repeat(33))), true, "resource"),
        (with(v2(), "/resource/serviceName", json!("ä")), true, "resource"),
        (with(v2(), "/resource/tags", tags(5)), false, "resource"),
        (with(v2(), "/resource/tags", tags(6)), true, "resource"),
        (with(v2(), "/resource/tags", json!(["a", 1])), true, "resource"),
        (with(v2(), "/extensions", json!({ "a": { "info": {} } })), false, "extension"),
        (with(v2(), "/extensions", json!({ "a": {} })), true, "extension"),
        (with(v2(), "/extensions", json!({ "a": "info" })), true, "extension"),
        (with(v2(), "/accepts/0/amount", json!("")), true, "amount"),
        (with(v2(), "/accepts/0/amount", json!("+1000")), true, "amount"),
        (with(v2(), "/accepts/0/maxTimeoutSeconds", json!(0)), true, "timeout"),
        (with(v2(), "/accepts/0/maxTimeoutSeconds", json!(0.5)), false, "timeout"),
        (extra(json!({ "name": "USDC" })), true, "extra"),
        (extra(json!({ "version": "2" })), true, "extra"),
        (extra(json!({ "assetTransferMethod": "eip3009" })), true, "extra"),
        (extra(json!({ "assetTransferMethod": "permit2" })), false, "extra"),
        (with(extra(json!({})), "/accepts/0/scheme", json!("upto")), false, "extra"),
        (extra(json!({ "name": "USDC", "version": "2", "paymentFlow": "escrow" })), false, "flow"),
        (extra(json!({ "name": "USDC", "version": "2", "paymentFlow": "later" })), true, "flow"),
        (with(v2(), "/accepts/0/payTo", json!(PAY_TO.to_lowercase())), false, "address"),
        (with(v2(), "/accepts/0/payTo", json!(format!("0x{}", PAY_TO[2..].to_uppercase()))), false, "address"),
        (with(v2(), "/accepts/0/payTo", json!(format!("0x{}", "0".repeat(40)))), true, "address"),
    ];
    for (challenge, noted, code) in cases {
        let report = check_challenge(Some(challenge.clone()), v1()).await;
        assert_eq!(found(&report).iter().any(|found| found == code), noted, "{code} of {challenge}: {report:#}");
    }
}

#[tokio::test]
async fn prices_are_noted_above_one_dollar_of_a_known_token() {
    let priced = async |amount: &str, asset: &str| {
        let change =
            |challenge, name: &str| with(with(challenge, &format!("/accepts/0/{name}"), json!(amount)), "/accepts/0/asset", json!(asset));
        found(&check_challenge(Some(change(v2(), "amount")), change(v1(), "maxAmountRequired")).await)
    };
    assert_eq!(priced("1000000", USDC).await, [""; 0]);
    assert_eq!(priced("1000001", USDC).await, ["amount", "amount"]);
    assert_eq!(priced("1000001", PAY_TO).await, ["asset", "asset"]);
}

#[tokio::test]
async fn versions_are_compared_where_they_ask_for_the_same() {
    let other_payee = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
    let cases = [
        (with(v2(), "/accepts/0/amount", json!("2000")), true),
        (with(v2(), "/accepts/0/payTo", json!(other_payee)), true),
        (with(v2(), "/accepts/0/payTo", json!(PAY_TO.to_lowercase())), false),
        (with(with(v2(), "/accepts/0/amount", json!("2000")), "/accepts/0/asset", json!(USDC.to_lowercase())), true),
        (with(with(v2(), "/accepts/0/amount", json!("2000")), "/accepts/0/asset", json!(other_payee)), false),
        (with(with(v2(), "/accepts/0/amount", json!("2000")), "/accepts/0/network", json!("eip155:8453")), false),
        (with(with(v2(), "/accepts/0/amount", json!("2000")), "/accepts/0/scheme", json!("upto")), false),
    ];
    for (challenge, differ) in cases {
        let report = check_challenge(Some(challenge.clone()), v1()).await;
        assert_eq!(found(&report).contains(&"versions_differ".to_owned()), differ, "{challenge}: {report:#}");
    }
}

#[tokio::test]
async fn headers_of_an_answer_are_noted_where_they_keep_readers_out() {
    let check = async |header: bool, headers: &'static [(&'static str, &'static str)]| {
        let answer = move || async move {
            let mut response = challenge(header.then(v2).as_ref(), &v1());
            response.headers_mut().remove("cache-control");
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        };
        let report = check_at(Router::new().route("/tool", get(answer)), "/tool").await;
        let noted = |severity, code: &str| codes(&report, severity).iter().any(|found| found == code);
        (noted("warning", "cache"), noted("info", "cors"))
    };
    assert_eq!(check(true, &[]).await, (true, true));
    assert_eq!(check(false, &[]).await, (true, false));
    assert_eq!(
        check(true, &[("cache-control", "private, No-Store"), ("access-control-expose-headers", "x, Payment-Required")]).await,
        (false, false)
    );
    assert_eq!(check(true, &[("cache-control", "private"), ("access-control-expose-headers", "*")]).await, (true, false));
}

#[tokio::test]
async fn a_body_that_lists_ways_to_pay_in_no_version_is_informed() {
    let report = check_challenge(None, json!({ "accepts": [] })).await;
    assert_eq!(codes(&report, "error"), ["version"], "{report:#}");
}

async fn check_document(document: Value) -> Value {
    check_at(Router::new().route("/doc", get(move || async move { Json(document) })), "/doc").await
}

#[tokio::test]
async fn a_document_is_recognized_by_its_fields() {
    for (document, kind) in [
        (json!({ "x402Version": 1 }), "unknown"),
        (json!({ "accepts": [] }), "unknown"),
        (json!({ "name": "a/b", "version": "1" }), "unknown"),
        (json!({ "name": "a/b", "remotes": [] }), "unknown"),
        (json!({ "version": "1", "remotes": [] }), "unknown"),
        (json!({ "name": "a/b", "version": "1", "packages": [1] }), "mcp_server_json"),
        (json!({ "$schema": "https://x.example/server.schema.json" }), "mcp_server_json"),
        (json!({ "kinds": 1 }), "unknown"),
        (json!({ "resources": [] }), "x402_well_known"),
        (json!({ "products": [] }), "x402_well_known"),
        (json!({ "routes": [] }), "x402_well_known"),
        (json!({ "serverInfo": { "name": "a" } }), "mcp_metadata"),
        (json!({ "supportedVersions": [] }), "mcp_metadata"),
        (json!({ "jsonrpc": "2.0" }), "mcp_metadata"),
        (json!({ "protocolVersion": "1" }), "unknown"),
        (json!({ "capabilities": {} }), "unknown"),
        (json!({ "protocolVersion": "1", "capabilities": {} }), "mcp_metadata"),
        (json!({ "payments": 1 }), "service_manifest"),
        (json!({ "x402": 1 }), "service_manifest"),
        (json!({ "mcp": 1 }), "service_manifest"),
    ] {
        assert_eq!(check_document(document.clone()).await["kind"], kind, "{document}");
    }
}

/// Returns whether a note contains these words.
fn has_note(report: &Value, words: &str) -> bool {
    report["notes"].as_array().unwrap().iter().any(|note| note["message"].as_str().unwrap().contains(words))
}

#[tokio::test]
async fn an_openapi_document_is_read_for_its_version_its_operations_and_their_prices() {
    let priced = |price: Value, protocols: Value| json!({ "x-payment-info": { "price": price, "protocols": protocols }, "responses": { "402": {} } });
    let fixed = json!({ "mode": "fixed", "currency": "USD", "amount": "1" });
    let document =
        |version: &str, operations: Value| json!({ "openapi": version, "info": { "title": "t" }, "paths": { "/a": operations } });
    let old = check_document(document("2.0", json!({ "get": {} }))).await;
    assert!(has_note(&old, "indexers do not read OpenAPI 2.0") && has_note(&old, "no operation has `x-payment-info`"), "{old:#}");
    assert!(has_note(&old, "`/info/version` is missing") && !has_note(&old, "`/info/title` is missing"), "{old:#}");
    assert!(has_note(&old, "can also have `/info/contact/email`") && !has_note(&old, "has a 402 answer but no"), "{old:#}");
    let good = check_document(document(
        "3.1.0",
        json!({ "get": priced(fixed.clone(), json!(["x402"])), "post": priced(fixed.clone(), json!([{ "x402": {} }])) }),
    ))
    .await;
    assert_eq!(good["found"]["openapi"], json!({ "operations": 2, "paidOperations": 2 }));
    assert!(has_note(&good, "OpenAPI 3.1.0") && !has_note(&good, "x-payment-info"), "{good:#}");
    for (price, whole) in [
        (json!({ "mode": "fixed", "currency": "USD" }), false),
        (json!({ "mode": "fixed", "amount": "1" }), false),
        (json!({ "mode": "dynamic", "min": "1", "max": "2" }), true),
        (json!({ "mode": "dynamic", "min": "1" }), false),
        (json!({ "mode": "dynamic", "max": "2" }), false),
    ] {
        let report = check_document(document("3.1.0", json!({ "get": priced(price.clone(), json!(["x402"])) }))).await;
        assert_eq!(has_note(&report, "must be fixed with currency"), !whole, "{price}");
    }
    let other = check_document(document("3.1.0", json!({ "get": priced(fixed, json!(["cash"])) }))).await;
    assert!(has_note(&other, "does not name x402"), "{other:#}");
}

#[tokio::test]
async fn an_operation_that_asks_without_a_price_is_a_warning_only_where_none_has_one() {
    let asks = json!({ "responses": { "402": {} } });
    let terms = json!({ "price": { "mode": "fixed", "currency": "USD", "amount": "1" }, "protocols": ["x402"] });
    let document = |first: &Value| json!({ "openapi": "3.1.0", "paths": { "/a": { "get": first }, "/b": { "post": asks }, "/c/{d}": { "get": asks } } });
    let levels = async |first: &Value| {
        let report = check_document(document(first)).await;
        assert!(!has_note(&report, "/c/"), "{report:#}");
        let notes =
            report["notes"].as_array().unwrap().iter().filter(|note| note["message"].as_str().unwrap().starts_with("POST /b: has a 402"));
        notes.map(|note| note["severity"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(levels(&json!({})).await, [json!("warning")]);
    assert_eq!(levels(&json!({ "x-payment-info": terms, "responses": { "402": {} } })).await, [json!("info")]);
}

#[tokio::test]
async fn catalogs_and_servers_are_counted() {
    let whole = json!({ "slug": "a", "priceUsd": 0.1, "url": "https://x.example/", "inputSchema": {} });
    let without = |name: &str| {
        let mut endpoint = whole.clone();
        endpoint.as_object_mut().unwrap().remove(name);
        endpoint
    };
    let mut endpoints = vec![whole.clone(), with(whole.clone(), "/priceUsd", json!(0))];
    endpoints.extend(["slug", "priceUsd", "url", "inputSchema"].map(without));
    let report = check_document(json!({ "schema": "x.hosted-endpoint-catalog.v1", "endpoints": endpoints })).await;
    assert!(has_note(&report, "has 4 endpoints without") && has_note(&report, "6 endpoints, 4 of them paid"), "{report:#}");
    let packages = check_document(json!({ "name": "a/b", "version": "1", "description": "d", "packages": [1, 2] })).await;
    assert_eq!(packages["found"]["serverJson"]["packages"], 2);
    assert!(!has_note(&packages, "there is nothing to connect to"), "{packages:#}");
    let nothing = check_document(json!({ "name": "a/b/c", "version": "1", "packages": [], "description": "d" })).await;
    assert!(has_note(&nothing, "there is nothing to connect to") && has_note(&nothing, "must have the form"), "{nothing:#}");
    let kinds = check_document(json!({ "kinds": [1, 2, 3] })).await;
    assert!(has_note(&kinds, "supports 3 kinds"), "{kinds:#}");
    let servers = check_document(json!({ "mcpServers": { "a": { "url": "https://x.example" } } })).await;
    assert!(has_note(&servers, "names 1 MCP server") && !has_note(&servers, "`url` is not https"), "{servers:#}");
}

#[tokio::test]
async fn an_overview_for_models_is_plain_text_under_its_name() {
    let typed = |kind: &'static str, body: &'static str| get(move || async move { ([("content-type", kind)], body) });
    for (path, kind, found) in [
        ("/llms.txt", "text/markdown", "llms_txt"),
        ("/llms.txt", "text/html", "unknown"),
        ("/llms.txt", "image/png", "unknown"),
        ("/other.txt", "text/plain", "unknown"),
    ] {
        let report = check_at(Router::new().route(path, typed(kind, "# hello")), path).await;
        assert_eq!(report["kind"], found, "{path} as {kind}");
        let listed = report["expectedDiscoveryUrls"]
            .as_array()
            .unwrap()
            .iter()
            .find(|position| position["url"].as_str().unwrap().ends_with("/llms.txt"));
        assert_eq!(listed.unwrap()["found"], json!(path == "/llms.txt" && kind == "text/markdown"), "{path} as {kind}");
    }
}

#[tokio::test]
async fn a_discovery_document_is_found_where_it_is_answered_with_success_and_fits() {
    let router = Router::new()
        .route("/openapi.json", get(|| async { Json(json!({ "openapi": 3 })) }))
        .route("/.well-known/x402", get(|| async { Json(json!({})) }))
        .route("/llms.txt", get(|| async { "" }))
        .route("/.well-known/mcp.json", get(|| async { (StatusCode::NOT_FOUND, Json(json!({}))) }))
        .route("/doc", get(|| async { Json(v1()) }));
    let report = check_at(router, "/doc").await;
    let positions = report["expectedDiscoveryUrls"].as_array().unwrap();
    let found: Vec<_> = positions.iter().map(|position| position["found"].as_bool()).collect();
    assert_eq!(found, [Some(false), Some(true), Some(false), Some(false), Some(false), None], "{report:#}");
    // Only missing important documents are worth a note.
    let note = report["notes"].as_array().unwrap().iter().find(|note| note["code"] == "discovery_missing").unwrap();
    let message = note["message"].as_str().unwrap();
    assert!(message.contains("/openapi.json") && !message.contains("/llms.txt") && !message.contains("x402,"), "{message}");
}

#[tokio::test]
async fn a_report_names_next_actions_and_the_final_url() {
    let ready = check_challenge(Some(v2()), v1()).await;
    let actions = |report: &Value| {
        report["nextActions"].as_array().unwrap().iter().map(|action| action.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(actions(&ready)[0].starts_with("Pay with an x402 client"), "{ready:#}");
    assert_eq!(ready.get("finalUrl").filter(|url| !url.is_null()), None, "{ready:#}");
    let broken = check_document(json!({ "hello": "world" })).await;
    assert!(actions(&broken)[0].starts_with("Fix the notes"), "{broken:#}");
    assert!(actions(&broken).iter().any(|action| action.starts_with("Serve the missing discovery documents")), "{broken:#}");
    let reason = |code| unreachable("https://x.example", Reason { code, message: String::new() }, vec![]).next_actions.remove(0);
    for code in ["forbidden_address", "invalid_argument"] {
        assert!(reason(code).starts_with("Submit an https URL of a public host"), "{code}");
    }
    assert!(reason("timeout").contains("within 4 seconds") && reason("asked_by_a_check").contains("the inner check"));
    assert!(reason("connection_failed").starts_with("Make the URL answer over https"));
}

#[tokio::test]
async fn tools_of_an_mcp_endpoint_are_read_for_names_that_models_refuse() {
    let tool = |name: String| json!({ "name": name, "inputSchema": {} });
    let listed = json!({ "result": { "tools": [tool("a".repeat(64)), tool("a".repeat(65)), tool("b".repeat(66))] } });
    let (mut about, mut notes) = (json!({}), Notes::default());
    mcp::tools(&listed, &mut about, &mut notes);
    let reported = notes.into_vec();
    assert!(reported.iter().any(|note| note.code == "mcp_tool_name" && note.message.starts_with("lists 2 tools with")), "{reported:?}");
    let mut notes = Notes::default();
    mcp::tools(&json!({ "result": { "tools": [tool("a".repeat(64))] } }), &mut about, &mut notes);
    assert!(
        notes
            .into_vec()
            .iter()
            .all(|note| note.code != "mcp_tool_name" && note.code != "mcp_tools" || note.severity == notes::Severity::Ok)
    );
}

#[test]
fn forty_notes_are_kept_and_the_first_error_always() {
    let mut notes = Notes::default();
    for _ in 0..50 {
        notes.warning("w", "w");
    }
    notes.error("first", "");
    notes.error("second", "");
    let stored: Vec<_> = notes.into_vec().iter().map(|note| note.code).collect();
    assert_eq!((stored.len(), stored.last()), (41, Some(&"first")));
}
