//! Quotes: guaranteed prices, in every front end and with every means of payment.

use std::path::Path;

use axum::{Router, http::StatusCode, routing::any};
use futures_util::future::join_all;
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    clients::pays_with_env,
    harness::{Answer, Facilitator, Host, Payer, Payment, SettleMode, js, micros},
};

const SHOUT: &str = "export default async (req) => ({ shout: String(req.input.text ?? '').toUpperCase(), free: req.caller.free });";

/// Starts a host with a tool for one cent.
async fn host() -> Host {
    let host = Host::start().await;
    host.publish(&js("shout", 0.01, SHOUT)).await;
    host
}

async fn quote(host: &Host, slug: &str) -> Value {
    host.post("/ai/quote", &json!({ "slug": slug })).await.is(200).json()
}

fn id(quote: &Value) -> String {
    quote["quoteId"].as_str().unwrap().to_owned()
}

/// Makes a call with a quote and these payment headers.
async fn call(host: &Host, quote: &str, pays: &[(&str, String)]) -> Answer {
    let mut request = host.request(Method::POST, "/tools/shout").header("x-quote-id", quote);
    for (name, value) in pays {
        request = request.header(*name, value);
    }
    host.send(request.json(&json!({ "text": "a" }))).await
}

fn header(payment: &Payment) -> Vec<(&str, String)> {
    vec![(payment.header, payment.encoded())]
}

/// Signs a payment for a quote, as a client does that never sees a challenge.
fn pay_quote(host: &Host, payer: &Payer, quote: &Value) -> Payment {
    payer.pay(&json!({ "accepts": quote["accepts"], "resource": { "url": format!("{}/tools/shout", host.url) } }))
}

/// Checks that the receipt of a call has this quote and this price.
async fn charged(host: &Host, answer: Answer, quote: &str, usd: f64) {
    let receipt = host.receipt(&answer.is(200).receipt_id()).await;
    assert_eq!((&receipt["quoteId"], &receipt["priceUsd"]), (&json!(quote), &json!(usd)), "{receipt}");
    host.verify_receipt(&receipt).unwrap();
}

#[tokio::test]
async fn a_quote_shows_what_a_call_costs_all_in_and_how_it_is_paid() {
    let host = host().await;
    let answer = host.post("/ai/quote", &json!({ "slug": "shout" })).await.is(200);
    let quote = answer.json();
    assert_eq!(answer.has("x-quote-id"), id(&quote));
    assert_eq!((&quote["ok"], &quote["slug"], &quote["priceUsd"]), (&json!(true), &json!("shout"), &json!(0.01)));
    let lines = quote["lines"].as_array().unwrap();
    assert_eq!(lines.iter().map(|line| micros(&line["amountUsd"])).sum::<u64>(), micros(&quote["totalUsd"]));
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["price", "platformFee", "networkFee", "conversion"]);
    assert_eq!(quote["accepts"], host.challenge("shout").await["accepts"]);
    assert_eq!(quote["acceptsV1"], host.challenge_v1("shout").await["accepts"]);
    assert_eq!(quote["paymentRoute"]["url"], json!(format!("{}/tools/shout", host.url)));
    assert!(quote["createdAt"].as_str() < quote["expiresAt"].as_str());
    let cors =
        host.send(host.request(Method::POST, "/ai/quote").header("origin", "https://a.test").json(&json!({ "slug": "shout" }))).await;
    assert!(cors.has("access-control-expose-headers").contains("x-quote-id"));
    let mut asks = HeaderMap::new();
    for (name, value) in
        [("origin", "https://a.test"), ("access-control-request-method", "POST"), ("access-control-request-headers", "x-quote-id")]
    {
        asks.insert(name, value.parse().unwrap());
    }
    assert!(host.preflight("/tools/shout", asks).await.has("access-control-allow-headers").contains("x-quote-id"));
}

#[tokio::test]
async fn quote_is_rejected_like_a_call() {
    let host = host().await;
    let refused = async |body: Value| host.post("/ai/quote", &body).await;
    refused(json!({ "slug": "nothing" })).await.fails(404, "unknown_endpoint", "caller");
    assert_eq!(refused(json!({})).await.fails(422, "invalid_request", "caller")["pointer"], "/slug");
    assert_eq!(refused(json!({ "slug": "shout", "more": 1 })).await.fails(422, "invalid_request", "caller")["pointer"], "/more");
    let quoted = id(&quote(&host, "shout").await);
    host.change("shout", &json!({ "status": "paused" })).await;
    refused(json!({ "slug": "shout" })).await.fails(409, "endpoint_paused", "tool");
    call(&host, &quoted, &[]).await.fails(409, "endpoint_paused", "tool");
    host.manage(Method::DELETE, "/ai/endpoints/shout", &json!({})).await.is(200);
    call(&host, &quoted, &[]).await.fails(404, "unknown_endpoint", "caller");
}

#[tokio::test]
async fn a_price_change_between_quote_and_call_charges_the_quoted_price() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let credit = host.mint(1.0).await;
    let quoted = quote(&host, "shout").await;
    let id = id(&quoted);
    for price in [0.05, 0.002] {
        host.change("shout", &json!({ "priceUsd": price })).await;
        assert_eq!(host.challenge("shout").await["accepts"][0]["amount"], json!(micros(&json!(price)).to_string()));
        let (before, credit_before) = (host.balance(&payer.address).await, host.credit_balance(&credit).await);
        // Signed from the quote alone, and from the challenge with the quote, on both wires.
        let direct = pay_quote(&host, &payer, &quoted);
        charged(&host, call(&host, &id, &header(&direct)).await, &id, 0.01).await;
        let request = call(&host, &id, &[]).await.is(402);
        assert_eq!(request.decoded("payment-required")["accepts"], quoted["accepts"]);
        let v2 = payer.pay(&request.decoded("payment-required"));
        charged(&host, call(&host, &id, &header(&v2)).await, &id, 0.01).await;
        let v1 = payer.pay_v1(&request.json());
        charged(&host, call(&host, &id, &header(&v1)).await, &id, 0.01).await;
        assert_eq!(before - host.balance(&payer.address).await, 30_000);
        let by_credit = call(&host, &id, &[("x-developer-credit", credit.clone())]).await;
        charged(&host, by_credit, &id, 0.01).await;
        assert_eq!(credit_before - host.credit_balance(&credit).await, 10_000);
        // Without the quote, such a payment has the wrong amount.
        host.call_paid("shout", &json!({ "text": "a" }), &pay_quote(&host, &payer, &quoted)).await.is(402);
    }
    let head = host.send(host.request(Method::HEAD, "/tools/shout").header("x-quote-id", &id)).await.is(402);
    assert_eq!(head.decoded("payment-required")["accepts"], quoted["accepts"]);
    let get = host.request(Method::GET, "/tools/shout?text=a").header("x-quote-id", &id);
    let payment = pay_quote(&host, &payer, &quoted);
    charged(&host, host.send(get.header(payment.header, payment.encoded())).await, &id, 0.01).await;
}

#[tokio::test]
async fn a_quote_outlives_a_new_version_of_its_tool() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let quoted = quote(&host, "shout").await;
    let source = "export default async () => ({ shout: 'another' });";
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string", "maxLength": 3 } } });
    let patch = json!({ "priceUsd": 0.5, "description": "Other words.", "inputSchema": schema, "limits": { "wallMs": 3_000 },
        "handler": { "source": source, "language": "js" } });
    host.change("shout", &patch).await;
    let answer = call(&host, &id(&quoted), &header(&pay_quote(&host, &payer, &quoted))).await.is(200);
    assert_eq!(answer.json(), json!({ "shout": "another" }));
    charged(&host, answer, &id(&quoted), 0.01).await;
    // A longer running time needs a longer validity of the payment, at the same price.
    host.manage(Method::PATCH, "/ai/endpoints/shout", &json!({ "limits": { "wallMs": 300_000 } })).await.is(200);
    let longer = call(&host, &id(&quoted), &header(&pay_quote(&host, &payer, &quoted))).await.is(402).decoded("payment-required");
    assert_eq!(longer["accepts"][0]["amount"], "10000");
    assert!(longer["accepts"][0]["maxTimeoutSeconds"].as_u64() > quoted["accepts"][0]["maxTimeoutSeconds"].as_u64());
}

#[tokio::test]
async fn a_tool_that_becomes_free_is_free_and_one_that_was_quoted_free_stays_so() {
    let host = host().await;
    let dear = id(&quote(&host, "shout").await);
    host.change("shout", &json!({ "priceUsd": 0 })).await;
    let free = call(&host, &dear, &[]).await.is(200);
    assert_eq!(host.receipt(&free.receipt_id()).await["kind"], "free");
    let nothing = quote(&host, "shout").await;
    assert_eq!((&nothing["totalUsd"], &nothing["accepts"]), (&json!(0), &json!([])));
    host.change("shout", &json!({ "priceUsd": 0.5 })).await;
    host.call("shout", &json!({})).await.is(402);
    let still = call(&host, &id(&nothing), &[]).await.is(200);
    assert_eq!(still.json()["free"], true, "as its handler gets it");
    let receipt = host.receipt(&still.receipt_id()).await;
    assert_eq!((&receipt["kind"], &receipt["priceUsd"], &receipt["quoteId"]), (&json!("free"), &json!(0), &nothing["quoteId"]));
    call(&host, &dear, &[]).await.is(402);
}

#[tokio::test]
async fn a_quote_that_does_not_hold_is_refused_with_one_that_does_and_nothing_is_charged() {
    let host = host().await;
    host.publish(&js("other", 0.02, SHOUT)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let quoted = quote(&host, "shout").await;
    let (mine, others) = (id(&quoted), id(&quote(&host, "other").await));
    host.change("shout", &json!({ "priceUsd": 0.05 })).await;
    let flipped = |position: usize| {
        let other = if &mine[position..=position] == "A" { "B" } else { "A" };
        format!("{}{other}{}", &mine[..position], &mine[position + 1..])
    };
    // Changes of format, time, price, endpoint and MAC; a quote for another tool; and no quote.
    let altered = [4, 8, 16, 30, 60, 67].map(flipped);
    let payment = pay_quote(&host, &payer, &quoted);
    for bad in altered.iter().map(String::as_str).chain([&*others, "quo_", "x", ""]) {
        for pays in [vec![], header(&payment)] {
            let error = call(&host, bad, &pays).await.fails(409, "quote_invalid", "caller");
            let current = &error["quote"];
            assert_eq!((&current["priceUsd"], &current["accepts"][0]["amount"]), (&json!(0.05), &json!("50000")), "{error}");
            let request = call(&host, &id(current), &[]).await.is(402);
            assert_eq!(request.decoded("payment-required")["accepts"], current["accepts"]);
        }
    }
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
    let streamed = host.request(Method::POST, "/tools/shout").header("accept", "text/event-stream").header("x-quote-id", &others);
    host.send(streamed.json(&json!({}))).await.fails(409, "quote_invalid", "caller");
    host.send(host.request(Method::HEAD, "/tools/shout").header("x-quote-id", &others)).await.is(409);
    charged(&host, call(&host, &mine, &header(&payment)).await, &mine, 0.01).await;
}

#[tokio::test]
async fn a_quote_holds_as_long_as_is_set_and_over_a_restart() {
    let mut host = host().await;
    let quoted = id(&quote(&host, "shout").await);
    host.change("shout", &json!({ "priceUsd": 0.05 })).await;
    host.restart().await;
    assert_eq!(call(&host, &quoted, &[]).await.is(402).json()["accepts"][0]["maxAmountRequired"], "10000");
    let brief = Host::builder().flag("--quote-ms", 1).start().await;
    brief.publish(&js("shout", 0.01, SHOUT)).await;
    let quoted = quote(&brief, "shout").await;
    let mut answer = call(&brief, &id(&quoted), &[]).await;
    while answer.status == 402 {
        answer = call(&brief, &id(&quoted), &[]).await;
    }
    let error = answer.fails(409, "quote_expired", "caller");
    assert!(error["message"].as_str().unwrap().contains(quoted["expiresAt"].as_str().unwrap()), "{error}");
    assert_eq!(error["quote"]["accepts"], quoted["accepts"]);
}

#[tokio::test]
async fn every_way_to_call_takes_a_quote() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let credit = host.mint(1.0).await;
    let quoted = quote(&host, "shout").await;
    let id = id(&quoted);
    host.change("shout", &json!({ "priceUsd": 0.05 })).await;
    let invoke = |body: Value| host.request(Method::POST, "/ai/invoke").header("x-developer-credit", &credit).json(&body);
    let body = json!({ "slug": "shout", "input": { "text": "a" } });
    let mut named = body.clone();
    named["quoteId"] = quoted["quoteId"].clone();
    let both = invoke(named.clone()).header("x-quote-id", &id);
    for request in [invoke(named.clone()), invoke(body).header("x-quote-id", &id), both] {
        let receipt = host.send(request).await.is(200).json()["receipt"].clone();
        assert_eq!((&receipt["priceUsd"], &receipt["quoteId"]), (&json!(0.01), &quoted["quoteId"]));
    }
    host.send(invoke(named).header("x-quote-id", "quo_another")).await.fails(400, "invalid_request", "caller");
    assert_eq!(host.credit_balance(&credit).await, 970_000);

    let in_meta = json!({ "tollhouse/quoteId": id });
    let query = host.mcp().call("shout", json!({ "text": "a" }), in_meta.clone()).await["structuredContent"].clone();
    assert_eq!(query["accepts"], quoted["accepts"]);
    let mut paid = in_meta.clone();
    paid["x402/payment"] = payer.pay(&query).payload;
    let by_header = host.mcp_legacy().with_header("x-quote-id", &id);
    let pays = json!({ "x402/payment": payer.pay(&query).payload });
    for result in
        [host.mcp().call("shout", json!({ "text": "a" }), paid).await, by_header.call("shout", json!({ "text": "a" }), pays).await]
    {
        assert_eq!(result["structuredContent"]["shout"], "A", "{result}");
        let receipt = host.receipt(result["_meta"]["tollhouse/receipt"]["receiptId"].as_str().unwrap()).await;
        assert_eq!((&receipt["priceUsd"], &receipt["quoteId"]), (&json!(0.01), &quoted["quoteId"]));
    }
    assert_eq!(host.balance(&payer.address).await, 980_000);
    for bad in [json!("quo_nonsense"), json!(7)] {
        let refused = host.mcp().call("shout", json!({ "text": "a" }), json!({ "tollhouse/quoteId": bad })).await;
        let error = &refused["_meta"]["tollhouse/error"];
        assert_eq!((&error["code"], &error["quote"]["priceUsd"]), (&json!("quote_invalid"), &json!(0.05)), "{refused}");
        assert_eq!(refused.get("structuredContent"), None, "clients pay when they read a challenge");
    }
}

#[tokio::test]
async fn one_quote_pays_for_many_calls_at_once_each_with_its_own_payment() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let quoted = quote(&host, "shout").await;
    let id = id(&quoted);
    host.change("shout", &json!({ "priceUsd": 0.05 })).await;
    let calls = (0..8).map(|_| async {
        let payment = pay_quote(&host, &payer, &quoted);
        call(&host, &id, &header(&payment)).await.is(200).receipt_id()
    });
    let receipts = join_all(calls).await;
    assert_eq!(std::collections::HashSet::<String>::from_iter(receipts).len(), 8);
    assert_eq!(host.balance(&payer.address).await, 920_000);
    let payment = pay_quote(&host, &payer, &quoted);
    let same = join_all((0..8).map(|_| async { call(&host, &id, &header(&payment)).await.is(200).receipt_id() })).await;
    assert!(same.iter().all(|receipt| *receipt == same[0]), "{same:?}");
    assert_eq!(host.balance(&payer.address).await, 910_000);
}

#[tokio::test]
async fn registration_is_quoted_too() {
    let host = host().await;
    let quoted = quote(&host, "builder-registration").await;
    assert_eq!(quoted["paymentRoute"]["url"], json!(format!("{}/ai/builders/register", host.url)));
    let credit = host.mint(100.0).await;
    let register = |quote: &str| {
        let request = host.request(Method::POST, "/ai/builders/register").header("x-developer-credit", &credit);
        host.send(request.header("x-quote-id", quote).json(&json!({ "name": "Toolsmith" })))
    };
    register(&id(&quote(&host, "shout").await)).await.fails(409, "quote_invalid", "caller");
    let receipt = host.receipt(&register(&id(&quoted)).await.is(200).receipt_id()).await;
    assert_eq!((&receipt["quoteId"], &receipt["priceUsd"]), (&quoted["quoteId"], &quoted["priceUsd"]));
}

#[tokio::test]
async fn a_quote_with_the_way_there_adds_up_to_its_total() {
    let host = host().await;
    let request = json!({ "slug": "shout", "startNetwork": "ethereum", "startAsset": "ETH" });
    let quoted = host.post("/ai/quote", &request).await.is(200).json();
    let lines: Vec<_> = quoted["lines"].as_array().unwrap().iter().map(|line| micros(&line["amountUsd"])).collect();
    let conversion = &quoted["paymentRoute"]["conversion"];
    assert_eq!((conversion["indicative"].as_bool(), lines[3]), (Some(true), micros(&conversion["estimatedCost"]["costUsd"])));
    assert!(lines[3] > 0 && lines.iter().sum::<u64>() == micros(&quoted["totalUsd"]), "{quoted:#}");
    assert_eq!(micros(&conversion["estimatedCost"]["allInUsd"]), micros(&quoted["totalUsd"]));
    assert_eq!(
        call(&host, &id(&quoted), &[]).await.is(402).decoded("payment-required")["accepts"],
        quoted["accepts"],
        "that is not paid here"
    );
    for (member, value, pointer) in [("startNetwork", "moon", "/startNetwork"), ("startAsset", "SOL", "/startAsset")] {
        let mut wrong = request.clone();
        wrong[member] = json!(value);
        let error = host.post("/ai/quote", &wrong).await.fails(422, "invalid_request", "caller");
        assert!(error["pointer"] == pointer && error["known"].as_array().is_some_and(|known| known.len() > 2), "{error}");
    }
}

#[tokio::test]
async fn a_conversion_quote_is_what_the_demonstration_shows() {
    let host = Host::builder().with_catalogue().start().await;
    let networks = [
        ("base", vec!["USDC", "ETH", "USDT", "DAI"]),
        ("base-sepolia", vec!["USDC", "ETH"]),
        ("ethereum", vec!["USDC", "ETH", "USDT", "DAI"]),
        ("arbitrum", vec!["USDC", "ETH", "USDT", "DAI"]),
        ("optimism", vec!["USDC", "ETH", "USDT", "DAI"]),
        ("polygon", vec!["USDC", "POL", "ETH", "USDT", "DAI"]),
        ("avalanche", vec!["USDC", "AVAX", "USDT"]),
        ("solana", vec!["USDC", "SOL", "USDT"]),
        ("bitcoin", vec!["BTC"]),
        ("bank", vec!["USD", "EUR", "GBP"]),
        ("exchange", vec!["USDC", "USDT", "ETH", "BTC", "SOL", "USD", "EUR", "GBP"]),
    ];
    for (network, asset) in networks.iter().flat_map(|(network, assets)| assets.iter().map(move |asset| (network, asset))) {
        let request = json!({ "serviceId": "business-lookup", "startNetwork": network, "startAsset": asset });
        let quoted = host.post("/ai/conversion/quote", &request).await.is(200).json();
        let shown = host.call("conversion-quote-demo", &request).await.is(200).json();
        let mut steps = shown["steps"].as_array().unwrap().clone();
        assert_eq!(steps.pop().unwrap()["kind"], "pay");
        assert_eq!((&quoted["route"]["steps"], &quoted["start"]), (&json!(steps), &shown["start"]), "{request}");
        assert_eq!(
            (&quoted["estimatedCost"]["costUsd"], &quoted["route"]["seconds"]),
            (&shown["totals"]["costUsd"], &shown["totals"]["seconds"])
        );
        assert_eq!((&quoted["ratesAsOf"], &quoted["settlement"]["amount"]), (&shown["ratesAsOf"], &shown["settlement"]["amount"]));
    }
}

#[tokio::test]
async fn a_conversion_quote_names_what_it_needs_and_what_it_knows() {
    let host = Host::builder().with_catalogue().start().await;
    let refused = async |body: Value| host.post("/ai/conversion/quote", &body).await;
    let request = json!({ "serviceId": "nothing", "startNetwork": "base", "startAsset": "USDC" });
    refused(request).await.fails(404, "unknown_endpoint", "caller");
    for missing in ["serviceId", "startNetwork", "startAsset"] {
        let mut request = json!({ "serviceId": "text-summary", "startNetwork": "base", "startAsset": "USDC" });
        request.as_object_mut().unwrap().remove(missing);
        assert_eq!(refused(request).await.fails(422, "invalid_request", "caller")["pointer"], json!(format!("/{missing}")));
    }
    let free = json!({ "serviceId": "receipt-echo-free", "startNetwork": "ethereum", "startAsset": "ETH" });
    let nothing = host.post("/ai/conversion/quote", &free).await.is(200).json();
    assert_eq!((&nothing["route"]["steps"], &nothing["estimatedCost"]["allInUsd"]), (&json!([]), &json!(0)));
    // If an external service does not answer, the host must not invent numbers.
    let elsewhere = Host::builder().flag("--routes-url", "http://127.0.0.1:1").with_catalogue().start().await;
    let request = json!({ "serviceId": "text-summary", "startNetwork": "ethereum", "startAsset": "ETH" });
    elsewhere.post("/ai/conversion/quote", &request).await.fails(502, "routes_unavailable", "host");
    let request = json!({ "serviceId": "text-summary", "startNetwork": "ethereum", "startAsset": "no token" });
    elsewhere.post("/ai/conversion/quote", &request).await.fails(422, "invalid_request", "caller");
}

#[tokio::test]
async fn a_start_on_a_test_network_leads_nowhere_else() {
    let facilitator = Facilitator::start(SettleMode::Well).await;
    let host = Host::builder().settled_by(&facilitator.url).env("TOLLHOUSE_NETWORK", "eip155:8453").start().await;
    host.publish(&js("shout", 0.01, SHOUT)).await;
    let request = json!({ "serviceId": "shout", "startNetwork": "base-sepolia", "startAsset": "USDC" });
    host.post("/ai/conversion/quote", &request).await.fails(422, "no_route", "caller");
}

#[tokio::test]
async fn external_seller_is_asked_for_its_price() {
    let host = host().await;
    let seller = Host::builder().start().await;
    seller.publish(&js("other", 0.02, SHOUT)).await;
    let guard = seller.url.trim_start_matches("http://").to_owned();
    let asker = Host::builder().flag("--guard-allow", &guard).start().await;
    let url = format!("{}/tools/other", seller.url);
    let requested = seller.challenge("other").await["accepts"][0].clone();
    for (asks, url, usd) in [(&asker, url.clone(), 0.02), (&host, format!("{}/tools/shout", host.url), 0.01)] {
        let quoted = asks.post("/x402/quote", &json!({ "url": url, "startNetwork": "polygon", "startAsset": "POL" })).await.is(200).json();
        let entry = &quoted["accepts"][0];
        assert_eq!((&quoted["x402Versions"], &entry["x402Versions"]), (&json!([1, 2]), &json!([1, 2])), "{quoted:#}");
        assert_eq!(
            (&entry["amountUsd"], &entry["network"], &entry["networkV1"]),
            (&json!(usd), &requested["network"], &json!("base-sepolia"))
        );
        assert_eq!((&entry["asset"], &entry["decimals"], &entry["scheme"]), (&requested["asset"], &json!(6), &json!("exact")));
        assert_eq!((&quoted["conversion"]["start"]["asset"], &quoted["conversion"]["indicative"]), (&json!("POL"), &json!(true)));
    }
    assert_eq!(asker.post("/x402/quote", &json!({ "url": url, "method": "POST" })).await.is(200).json()["conversion"], Value::Null);
    let refused = async |body: Value| asker.post("/x402/quote", &body).await;
    refused(json!({ "url": format!("{}/tools/nothing", seller.url) })).await.fails(422, "no_payment_asked", "caller");
    let private = refused(json!({ "url": "http://127.0.0.1:1/" })).await.fails(422, "invalid_request", "caller");
    assert_eq!(private["pointer"], "/url");
    refused(json!({ "url": url, "method": "PUT" })).await.fails(422, "invalid_request", "caller");
    let removed = Host::builder().flag("--guard-allow", "127.0.0.1:1").start().await;
    let error = removed.post("/x402/quote", &json!({ "url": "http://127.0.0.1:1/" })).await.fails(502, "seller_unreachable", "tool");
    assert_eq!(error["reason"], "unreachable");
}

#[tokio::test]
async fn an_unknown_seller_gets_an_error_and_few_are_asked_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let seller = listener.local_addr().unwrap();
    let strange = || async { (StatusCode::PAYMENT_REQUIRED, "{\"x402Version\": 1, \"accepts\": []}") };
    let routes = Router::new().route("/strange", any(strange)).route("/slow", any(std::future::pending::<()>));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let host = Host::builder().flag("--guard-allow", seller).flag("--address-asking", 1).start().await;
    let request = |path: &str| json!({ "url": format!("http://{seller}{path}") });
    host.post("/x402/quote", &request("/strange")).await.fails(502, "seller_unreadable", "tool");
    let slow = request("/slow");
    let answers = join_all((0..4).map(|_| host.post("/x402/quote", &slow))).await;
    let (waited, crowded): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 502);
    assert!(!waited.is_empty() && !crowded.is_empty(), "{answers:?}");
    assert_eq!(waited[0].fails(502, "seller_unreachable", "tool")["reason"], "timeout");
    crowded[0].fails(429, "rate_limited", "caller");
}

#[tokio::test]
async fn quote_tool_answers_over_mcp_what_the_quote_route_does() {
    let host = host().await;
    let listed = host.mcp().tool("quote_tool").await.unwrap();
    assert_eq!(listed["annotations"]["readOnlyHint"], true);
    let request = json!({ "name": "shout", "startNetwork": "ethereum", "startAsset": "ETH" });
    let mut quoted = host.mcp().call("quote_tool", request, json!({})).await["structuredContent"].clone();
    let mut same =
        host.post("/ai/quote", &json!({ "slug": "shout", "startNetwork": "ethereum", "startAsset": "ETH" })).await.is(200).json();
    let named = id(&quoted);
    for quote in [&mut quoted, &mut same] {
        let text = quote.to_string().replace(quote["quoteId"].as_str().unwrap(), "quo");
        *quote = serde_json::from_str(&text).unwrap();
        for moment in ["ok", "createdAt", "expiresAt"] {
            quote.as_object_mut().unwrap().remove(moment);
        }
    }
    assert_eq!(quoted, same);
    host.change("shout", &json!({ "priceUsd": 0.05 })).await;
    let request = host.mcp().call("shout", json!({}), json!({ "tollhouse/quoteId": named })).await;
    assert_eq!(request["structuredContent"]["accepts"][0]["amount"], "10000", "{request}");
    let refused = host.mcp().call("quote_tool", json!({ "name": "nothing" }), json!({})).await;
    assert_eq!(refused["_meta"]["tollhouse/error"]["code"], "unknown_endpoint", "{refused}");
    let mut narrowed = host.mcp();
    narrowed.query = "?tools=quote_tool";
    let hidden = narrowed.call("quote_tool", json!({ "name": "shout" }), json!({})).await;
    assert_eq!(hidden["_meta"]["tollhouse/error"]["code"], "unknown_endpoint", "{hidden}");
}

#[tokio::test]
async fn stock_clients_pay_the_quoted_price() {
    let host = host().await;
    let quoted = id(&quote(&host, "shout").await);
    host.change("shout", &json!({ "priceUsd": 0.05 })).await;
    for script in ["pay.mjs", "pay-v1.mjs"] {
        let payer = Payer::funded(&host, 1.0).await;
        let done = pays_with_env(&[("QUOTE_ID", &quoted)], Path::new("node"), script, &host, Some(&payer)).await;
        assert_eq!((&done["status"], &done["body"]["shout"]), (&json!(200), &json!("HELLO")), "{done}");
        assert_eq!(host.balance(&payer.address).await, 990_000);
    }
}
