//! x402 extensions: the contents of challenges and settlements, validated by x402's own package,
//! and the client's identifier of a payment.

use std::path::Path;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Answer, Host, Payer, Payment, chain::clients, js};

const PRICE: f64 = 0.01;
const MICROS: u64 = 10_000;
const FUNDS: u64 = 1_000_000;
const ORDER: &str = "order-0001-of-today";

/// Counts its runs, and can be slow.
const COUNTER: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    await new Promise((done) => setTimeout(done, req.input.ms ?? 0));
    return { runs };
};";

/// Returns a payment with `name` as its identifier.
fn named(payment: &Payment, name: impl Into<Value>) -> Payment {
    let mut named = payment.clone();
    named.payload["extensions"] = json!({ "payment-identifier": { "info": { "required": false, "id": name.into() } } });
    named
}

async fn counter() -> (Host, Payer, Value) {
    let host = Host::start().await;
    host.publish(&js("count", PRICE, COUNTER)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("count").await;
    (host, payer, challenge)
}

/// Validates a tool's extensions with x402's package, which fails if one is invalid. Returns its
/// output.
async fn judged(host: &Host, slug: &str, input: &Value) -> Value {
    let mut command = Command::new(Path::new("node"));
    command
        .arg(clients().join("extensions.mjs"))
        .args([&host.url, slug, &input.to_string()])
        .env("NO_PROXY", "127.0.0.1")
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    let (message, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}\n{complained}\n{}", host.log());
    serde_json::from_str(&message).unwrap_or_else(|error| panic!("{error}: {message}\n{complained}"))
}

/// Returns a tool whose schemas have definitions, constraints and examples.
fn schemed() -> Value {
    let mut tool = js("schemed", PRICE, "export default async (req) => ({ got: req.input.city });");
    tool["inputSchema"] = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": { "name": { "type": "string", "minLength": 2 } },
        "type": "object",
        "properties": { "city": { "type": "string", "minLength": 2 }, "days": { "type": "integer", "default": 3 }, "of": { "$ref": "#/$defs/name" } },
        "required": ["city"],
    });
    tool["outputSchema"] = json!({
        "type": "object",
        "properties": { "got": { "type": "string" } },
        "required": ["got"],
        "examples": [{ "got": "Paris" }],
    });
    tool
}

#[tokio::test]
async fn offers_receipts_and_entries_for_directories_hold_for_x402s_own_package() {
    for format in ["jws", "eip712"] {
        let host = Host::builder().flag("--offer-format", format).start().await;
        host.publish(&schemed()).await;
        let body = judged(&host, "schemed", &json!({ "city": "Paris" })).await;
        assert_eq!(body["version"], "2.27.0");
        let by = &host.get("/ai/manifest").await.is(200).json()["receipts"]["offers"];
        let signer = if format == "jws" { &by["kid"] } else { &by["address"] };
        for (part, listed) in [("POST", "/tools/schemed"), ("GET", "/tools/schemed"), ("MCP", "/ai/mcp")] {
            let part = &body[part];
            assert_eq!((&part["format"], &part["by"], &part["listed"]), (&json!(format), signer, &json!(format!("{}{listed}", host.url))));
        }
        assert_eq!((&body["receipt"]["format"], &body["receipt"]["by"]), (&json!(format), signer));
        assert_eq!(
            [&body["POST"]["method"], &body["GET"]["method"], &body["MCP"]["toolName"]],
            [&json!("POST"), &json!("GET"), &json!("schemed")]
        );
        let sample = json!({ "city": "text", "days": 3 });
        assert_eq!(body["POST"]["input"], json!({ "type": "http", "method": "POST", "bodyType": "json", "body": sample }));
        assert_eq!(body["GET"]["input"], json!({ "type": "http", "method": "GET", "queryParams": sample }));
        assert_eq!(body["MCP"]["input"]["inputSchema"]["required"], json!(["city"]));
        // The record's own signature is still valid.
        host.verify_receipt(&host.receipt(body["receiptId"].as_str().unwrap()).await).unwrap();
    }
}

/// Returns a tool with schemas, texts and tags of maximum size.
pub fn biggest() -> Value {
    let mut tool = js(&"t".repeat(64), PRICE, "export default async () => ({});");
    tool["description"] = json!("\"漢\\".repeat(700).chars().take(2_000).collect::<String>());
    tool["tags"] = json!((10..26).map(|n| format!("{n}{}", "t".repeat(30))).collect::<Vec<_>>());
    let properties: serde_json::Map<_, _> = (0..220)
        .map(|n| (format!("property-{n}"), json!({ "type": "string", "description": "x".repeat(200), "default": "y".repeat(20) })))
        .collect();
    tool["inputSchema"] = json!({ "type": "object", "properties": properties });
    tool["outputSchema"] = tool["inputSchema"].clone();
    tool
}

#[tokio::test]
async fn header_fits_a_stock_proxy_and_the_body_is_complete() {
    for format in ["jws", "eip712"] {
        let host = Host::builder().flag("--offer-format", format).start().await;
        let tool = biggest();
        let slug = host.publish(&tool).await["slug"].as_str().unwrap().to_owned();
        for method in [Method::POST, Method::GET] {
            let answer = host.send(host.request(method.clone(), &format!("/tools/{slug}"))).await.is(402);
            assert!(answer.has("payment-required").len() <= 3_400, "{}", answer.has("payment-required").len());
            let (cut, whole) = (answer.decoded("payment-required"), answer.json()["paymentRequired"].clone());
            assert_eq!((&cut["accepts"], &cut["error"]), (&whole["accepts"], &whole["error"]));
            assert!(cut["extensions"]["offer-receipt"]["info"]["offers"].is_array(), "signed fields stay: {cut}");
            let inner = if method == Method::POST { "body" } else { "queryParams" };
            let schema = &whole["extensions"]["bazaar"]["schema"]["properties"]["input"]["properties"][inner];
            assert_eq!(schema, &tool["inputSchema"], "{method}");
            let examples = &whole["extensions"]["bazaar"]["schema"]["properties"]["output"]["properties"]["example"];
            assert_eq!(examples, &tool["outputSchema"]);
        }
        // A client that pays returns the extensions unchanged.
        judged(&host, &slug, &json!({})).await;
    }
}

#[tokio::test]
async fn a_header_stays_small_however_many_networks_are_offered() {
    let networks = ["eip155:84532", "eip155:8453", "eip155:137", "eip155:42161", "eip155:43114"];
    for format in ["jws", "eip712"] {
        let host = Host::builder().flag("--offer-format", format).flag("--network", networks.join(",")).start().await;
        let slug = host.publish(&biggest()).await["slug"].as_str().unwrap().to_owned();
        let answer = host.call(&slug, &json!({})).await.is(402);
        assert!(answer.has("payment-required").len() <= 4 << 10, "{}", answer.has("payment-required").len());
        let (cut, whole) = (answer.decoded("payment-required"), answer.json()["paymentRequired"].clone());
        assert_eq!((cut["accepts"].as_array().map(Vec::len), &cut["accepts"]), (Some(networks.len()), &whole["accepts"]));
        let offers = whole["extensions"]["offer-receipt"]["info"]["offers"].as_array().unwrap();
        let of: Vec<_> = offers.iter().map(|offer| offer["acceptIndex"].as_u64().unwrap()).collect();
        assert_eq!(of, [0, 1, 2, 3, 4], "one for each entry");
    }
}

#[tokio::test]
async fn an_echo_that_was_changed_is_refused_and_one_of_any_way_to_ask_is_not() {
    let (host, payer, challenge) = counter().await;
    let get = host.send(host.request(Method::GET, "/tools/count")).await.is(402).decoded("payment-required");
    let mcp = host.mcp().call("count", json!({}), json!({})).await["structuredContent"].clone();
    assert_eq!(mcp["resource"]["url"], format!("{}/ai/mcp?tools=count", host.url));
    for reported in [&challenge, &get, &mcp] {
        let mut payment = payer.pay(reported);
        payment.payload["extensions"] = reported["extensions"].clone();
        let changed = payment.altered("/extensions/bazaar/info/input/type", json!("ftp"));
        assert_eq!(host.call_paid("count", &json!({}), &changed).await.is(402).json()["error"], "extension_echo_mismatch");
        assert_eq!(host.payment(&payment.id()).await, None);
        host.call_paid("count", &json!({}), &payment).await.is(200);
    }
    // A payment that is larger than a header may be is not read.
    let mut payment = payer.pay(&challenge);
    payment.payload["extensions"] = json!({ "of-my-own": "x".repeat(16 << 10) });
    assert_eq!(host.call_paid("count", &json!({}), &payment).await.is(402).json()["error"], "invalid_payload");
    assert_eq!(host.balance(&payer.address).await, FUNDS - 3 * MICROS);
}

#[tokio::test]
async fn concurrent_authorizations_with_one_identifier_charge_once() {
    let (host, payer, challenge) = counter().await;
    let input = json!({ "ms": 150 });
    let payments: Vec<_> = (0..8).map(|_| named(&payer.pay(&challenge), ORDER)).collect();
    let mut answers = join_all(payments.iter().map(|payment| host.call_paid("count", &input, payment))).await;
    // One more later, and one over MCP.
    answers.push(host.call_paid("count", &input, &named(&payer.pay(&challenge), ORDER)).await);
    let first = answers[0].clone().is(200);
    for answer in &answers {
        assert_eq!((answer.status, &answer.body, answer.receipt_id()), (200, &first.body, first.receipt_id()), "{answer:?}");
    }
    assert_eq!(first.json(), json!({ "runs": 1 }));
    let mcp = host.mcp().call("count", input.clone(), json!({ "x402/payment": named(&payer.pay(&challenge), ORDER).payload })).await;
    assert_eq!(mcp["_meta"]["tollhouse/receipt"]["receiptId"], first.receipt_id());
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn an_identifier_names_one_request_of_one_payer() {
    let (host, payer, challenge) = counter().await;
    host.publish(&js("count-too", PRICE, COUNTER)).await;
    let bought = host.call_paid("count", &json!({}), &named(&payer.pay(&challenge), ORDER)).await.is(200);
    // A different input or a different tool is a different request.
    let other = async |slug: &str, input: Value| {
        let payment = named(&payer.pay(&host.challenge(slug).await), ORDER);
        host.call_paid(slug, &input, &payment).await.fails(409, "payment_reused", "caller");
        assert_eq!(host.payment(&payment.id()).await, None, "it is unspent");
    };
    other("count", json!({ "other": true })).await;
    other("count-too", json!({})).await;
    // A stranger who guesses the identifier learns nothing, and pays for their own answer.
    let stranger = Payer::funded(&host, 1.0).await;
    let guessed = host.call_paid("count", &json!({}), &named(&stranger.pay(&challenge), ORDER)).await.is(200);
    assert_eq!(guessed.json(), json!({ "runs": 2 }));
    assert_ne!(guessed.receipt_id(), bought.receipt_id());
    // A payer without money, or with a false payer address, learns even less.
    let poor = host.call_paid("count", &json!({}), &named(&Payer::new().pay(&challenge), ORDER)).await;
    let mut posing = named(&stranger.pay(&challenge), ORDER);
    posing.payload["payload"]["authorization"]["from"] = json!(payer.address);
    let posing = host.call_paid("count", &json!({}), &posing).await;
    for refused in [poor, posing] {
        refused.is(402);
    }
    assert_eq!((host.balance(&payer.address).await, host.balance(&stranger.address).await), (FUNDS - MICROS, FUNDS - MICROS));
}

/// After the settlement everyone can read the signed data on the chain, but not the identifier.
#[tokio::test]
async fn a_named_payment_is_shown_again_with_its_name_or_refused() {
    let (host, payer, challenge) = counter().await;
    let payment = payer.pay(&challenge);
    let bought = host.call_paid("count", &json!({}), &named(&payment, ORDER)).await.is(200);
    for read_on_the_chain in [payment.clone(), named(&payment, "order-0002-of-today")] {
        let refused = host.call_paid("count", &json!({}), &read_on_the_chain).await.is(402);
        assert_eq!(refused.json()["error"], "invalid_exact_evm_nonce_already_used");
    }
    let again = host.call_paid("count", &json!({}), &named(&payment, ORDER)).await.is(200);
    assert_eq!((&again.body, again.receipt_id()), (&bought.body, bought.receipt_id()));
}

#[tokio::test]
async fn new_signature_gets_the_named_answer_of_a_paused_tool() {
    let (host, payer, challenge) = counter().await;
    let bought = host.call_paid("count", &json!({}), &named(&payer.pay(&challenge), ORDER)).await.is(200);
    host.change("count", &json!({ "status": "paused" })).await;
    let again = host.call_paid("count", &json!({}), &named(&payer.pay(&challenge), ORDER)).await.is(200);
    assert_eq!((&again.body, again.receipt_id()), (&bought.body, bought.receipt_id()));
    let mut posing = named(&Payer::new().pay(&challenge), ORDER);
    posing.payload["payload"]["authorization"]["from"] = json!(payer.address);
    host.call_paid("count", &json!({}), &posing).await.fails(409, "endpoint_paused", "tool");
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn an_identifier_that_is_not_of_its_form_is_no_payment() {
    let (host, payer, challenge) = counter().await;
    let payment = payer.pay(&challenge);
    for wrong in [json!("short"), json!("x".repeat(129)), json!("with spaces in it, and signs"), json!(1_234_567_890_123_456u64), json!({})]
    {
        let refused: Answer = host.call_paid("count", &json!({}), &named(&payment, wrong.clone())).await;
        refused.fails(400, "invalid_payment_identifier", "caller");
    }
    let answer = host.mcp().call("count", json!({}), json!({ "x402/payment": named(&payment, "short").payload })).await;
    assert_eq!(answer["_meta"]["tollhouse/error"]["code"], "invalid_payment_identifier", "{answer}");
    host.call_paid("count", &json!({}), &named(&payment, "x".repeat(16))).await.is(200);
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}
