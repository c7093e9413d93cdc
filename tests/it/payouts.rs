//! Payouts over HTTP: settings, signed payouts, and decisions of admins.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, VerifyingKey};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    harness::{Host, micros},
    revenue::{events, tool},
};

const ADDRESS: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const SOURCE: &str = "export default async () => ({ done: true });";

async fn get(host: &Host, key: &str, path: &str) -> Value {
    host.as_builder(key, Method::GET, path, &Value::Null).await.is(200).json()
}

#[tokio::test]
async fn revenue_is_paid_out_once_in_a_signed_packet() {
    let host = Host::builder().flag("--fee-bps", 1_000).start().await;
    let (builder, key) = host.register("Earner").await;
    let (_, other) = host.register("Other").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.25, SOURCE)).await.is(200);
    let credit = host.mint(10.0).await;
    let mut receipts = vec![];
    for n in 0..4 {
        receipts.push(host.call_credit("earns", &json!({ "n": n }), &credit).await.is(200).receipt_id());
    }
    receipts.sort();
    let pay_out = || host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null);
    let set = async |body: Value| host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &body).await;

    pay_out().await.fails(409, "payout_settings_missing", "caller");
    let unsaid = get(&host, &key, "/ai/builders/payout-settings").await;
    assert_eq!((&unsaid["payoutSettings"], &unsaid["waiting"]), (&Value::Null, &json!({ "amountUsd": 0.9, "receiptCount": 4 })));
    for (body, pointer) in [
        (json!({ "address": ADDRESS.replace("Cb", "cb") }), "/address"),
        (json!({ "address": ADDRESS, "network": "eip155:1" }), "/network"),
        (json!({ "address": ADDRESS, "asset": ADDRESS.replace('7', "8") }), "/asset"),
        (json!({ "address": ADDRESS, "minimumUsd": -1 }), "/minimumUsd"),
        (json!({ "address": ADDRESS, "iban": "x" }), "/iban"),
    ] {
        assert_eq!(set(body).await.is(422).json()["error"]["pointer"], pointer);
    }
    let settings = set(json!({ "address": ADDRESS.to_ascii_lowercase() })).await.is(200).json()["payoutSettings"].clone();
    assert_eq!((&settings["address"], &settings["network"], &settings["minimumUsd"]), (&json!(ADDRESS), &json!("eip155:84532"), &json!(1)));
    assert_eq!(get(&host, &key, "/ai/builders/payout-settings").await["payoutSettings"], settings);
    let below = pay_out().await;
    let amounts = below.fails(409, "below_minimum", "caller")["payout"].clone();
    assert_eq!(amounts, json!({ "amountUsd": 0.9, "minimumUsd": 1 }));
    set(json!({ "address": ADDRESS, "minimumUsd": 0.5 })).await.is(200);

    let payout = pay_out().await.is(200).json()["payout"].clone();
    assert_eq!((&payout["status"], micros(&payout["amountUsd"]), &payout["receiptCount"]), (&json!("created"), 900_000, &json!(4)));
    assert_eq!(payout["digest"], format!("sha256:{}", hex::encode(Sha256::digest(receipts.join("\n")))));
    assert_eq!((&payout["address"], &payout["asset"]), (&settings["address"], &settings["asset"]));
    check_signature(&host, &payout).await;
    let waiting = get(&host, &key, "/ai/builders/payout-settings").await["waiting"].clone();
    assert_eq!(waiting, json!({ "amountUsd": 0, "receiptCount": 0 }));
    let empty = pay_out().await.is(200).json()["payout"].clone();
    assert_eq!(empty, json!({ "id": null, "status": "empty", "amountUsd": 0, "receiptCount": 0 }));

    let id = payout["id"].as_str().unwrap();
    let (mut listed, mut cursor) = (vec![], String::new());
    loop {
        let page = get(&host, &key, &format!("/ai/builders/payouts/{id}?limit=3{cursor}")).await;
        assert_eq!(page["payout"], payout);
        listed.extend(page["receipts"].as_array().unwrap().iter().map(|receipt| {
            assert_eq!(micros(&receipt["netUsd"]), 225_000);
            receipt["receiptId"].as_str().unwrap().to_owned()
        }));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, receipts);
    assert_eq!(get(&host, &key, "/ai/builders/payouts").await["payouts"], json!([payout]));
    assert_eq!(get(&host, &other, "/ai/builders/payouts").await["payouts"], json!([]));
    host.as_builder(&other, Method::GET, &format!("/ai/builders/payouts/{id}"), &Value::Null).await.fails(403, "not_owner", "caller");
    let by_admin = host.manage(Method::GET, &format!("/ai/builders/payouts?builderId={builder}"), &json!({})).await.is(200);
    assert_eq!(by_admin.json()["payouts"], json!([payout]));
    // An admin can leave out the builder of a payout, but cannot name another one.
    let of_payout = async |query: &str| host.manage(Method::GET, &format!("/ai/builders/payouts/{id}{query}"), &json!({})).await;
    for query in ["", &format!("?builderId={builder}")] {
        assert_eq!(of_payout(query).await.is(200).json()["payout"], payout);
    }
    of_payout(&format!("?builderId={}", host.register("Third").await.0)).await.fails(403, "not_owner", "caller");
    let unknown = "/ai/builders/payouts/pay_01M8MRWVSZHEJMT74SPKNH5A3H";
    host.manage(Method::GET, unknown, &json!({})).await.fails(404, "unknown_payout", "caller");

    let say = async |body: Value| host.manage(Method::POST, &format!("/ai/admin/payouts/{id}"), &body).await;
    let hash = format!("0x{}", "5".repeat(64));
    assert_eq!(say(json!({ "decision": "paid", "transaction": hash })).await.fails(409, "wrong_state", "caller")["status"], "created");
    say(json!({ "decision": "approve" })).await.is(200);
    assert_eq!(say(json!({ "decision": "paid" })).await.is(422).json()["error"]["pointer"], "/transaction");
    assert_eq!(say(json!({ "decision": "failed", "reason": "out of gas" })).await.is(200).json()["payout"]["reason"], "out of gas");
    say(json!({ "decision": "approve" })).await.is(200);
    let waiting = host.manage(Method::GET, "/ai/admin/payouts?status=approved", &json!({})).await.is(200).json();
    assert_eq!(waiting["payouts"].as_array().unwrap().len(), 1);
    let paid = say(json!({ "decision": "paid", "transaction": hash })).await.is(200).json()["payout"].clone();
    assert_eq!((&paid["status"], &paid["transaction"], &paid["signature"]), (&json!("paid"), &json!(hash), &payout["signature"]));
    say(json!({ "decision": "approve" })).await.fails(409, "wrong_state", "caller");
    let kinds: Vec<_> = events(&host, &key, "").await.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect();
    let payouts: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("payout.")).map(String::as_str).collect();
    assert_eq!(payouts, ["payout.paid", "payout.approved", "payout.failed", "payout.approved", "payout.created"]);

    let path = format!("/ai/admin/payouts/{id}");
    host.as_builder(&key, Method::POST, &path, &json!({ "decision": "approve" })).await.fails(403, "not_owner", "caller");
    host.as_builder(&key, Method::GET, "/ai/admin/payouts", &Value::Null).await.fails(403, "not_owner", "caller");
    host.get("/ai/admin/payouts").await.fails(401, "unauthorized", "caller");
    host.manage(Method::POST, "/ai/admin/payouts/pay_x", &json!({ "decision": "approve" })).await.fails(404, "unknown_payout", "caller");
}

#[tokio::test]
async fn money_of_a_rejected_payout_waits_for_the_next_one() {
    let host = Host::start().await;
    let (_, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 2.0, SOURCE)).await.is(200);
    let credit = host.mint(10.0).await;
    host.call_credit("earns", &json!({}), &credit).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &json!({ "address": ADDRESS })).await.is(200);
    let waiting = async || get(&host, &key, "/ai/builders/payout-settings").await["waiting"].clone();
    let before = waiting().await;
    let pay_out = async || host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payout"].clone();
    let payout = pay_out().await;
    let path = format!("/ai/admin/payouts/{}", payout["id"].as_str().unwrap());
    let decide = async |body: Value| host.manage(Method::POST, &path, &body).await;
    let refused = decide(json!({ "decision": "failed" })).await.fails(409, "wrong_state", "caller");
    assert!(refused["message"].as_str().unwrap().ends_with("approve or reject it"), "{refused}");

    let rejected = decide(json!({ "decision": "reject", "reason": "the address is wrong" })).await.is(200).json()["payout"].clone();
    assert_eq!((&rejected["status"], &rejected["reason"]), (&json!("rejected"), &json!("the address is wrong")));
    assert_eq!((waiting().await, &rejected["signature"]), (before, &payout["signature"]));
    decide(json!({ "decision": "approve" })).await.fails(409, "wrong_state", "caller");
    let kinds: Vec<_> = events(&host, &key, "").await.iter().map(|event| event["kind"].clone()).collect();
    assert_eq!(kinds[..2], [json!("payout.rejected"), json!("payout.created")]);
    let next = pay_out().await;
    assert_eq!((&next["amountUsd"], &next["digest"]), (&payout["amountUsd"], &payout["digest"]));
    let ledger = host.manage(Method::GET, "/ai/admin/ledger", &Value::Null).await.is(200).json();
    assert_eq!(ledger["agrees"], true, "{ledger}");
}

/// Verifies the signature of a payout with the host's public key, as anyone can.
async fn check_signature(host: &Host, payout: &Value) {
    let jws = payout["signature"].as_str().unwrap();
    let (signed, signature) = jws.rsplit_once('.').unwrap();
    let jwks = host.get("/.well-known/jwks.json").await.json();
    let key = URL_SAFE_NO_PAD.decode(jwks["keys"][0]["x"].as_str().unwrap()).unwrap();
    let key = VerifyingKey::from_bytes(&key.try_into().unwrap()).unwrap();
    let signature = Signature::from_slice(&URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    key.verify_strict(signed.as_bytes(), &signature).unwrap();
    let payload: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap()).unwrap();
    for (name, value) in payload.as_object().unwrap() {
        assert_eq!(payout[name], *value, "{name}");
    }
    for name in ["id", "amountUsd", "receiptCount", "digest", "period", "address"] {
        assert!(payload.get(name).is_some(), "{name} is not signed");
    }
}

#[tokio::test]
async fn concurrent_payout_requests_create_one_payout() {
    let host = Host::start().await;
    let (_, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.25, SOURCE)).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &json!({ "address": ADDRESS, "minimumUsd": 0 })).await.is(200);
    let credit = host.mint(10.0).await;
    for n in 0..6 {
        host.call_credit("earns", &json!({ "n": n }), &credit).await.is(200);
    }
    let request = (0..8).map(|_| host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null));
    for answer in futures_util::future::join_all(request).await {
        let payout = answer.is(200).json()["payout"].clone();
        assert!(payout["status"] == "created" || payout["status"] == "empty", "{payout}");
    }
    let payouts = get(&host, &key, "/ai/builders/payouts").await["payouts"].clone();
    assert_eq!((payouts.as_array().unwrap().len(), &payouts[0]["receiptCount"]), (1, &json!(6)), "{payouts}");
}

#[tokio::test]
async fn settings_are_set_onto_the_revision_that_was_read() {
    const PATH: &str = "/ai/builders/payout-settings";
    let host = Host::start().await;
    let (_, key) = host.register("Careful").await;
    let set = async |onto: Option<&str>, minimum: f64| {
        let request =
            host.request(Method::POST, PATH).header("x-builder-key", &key).json(&json!({ "address": ADDRESS, "minimumUsd": minimum }));
        host.send(onto.map_or(request.try_clone().unwrap(), |onto| request.header("if-match", onto))).await
    };
    let read = async || host.as_builder(&key, Method::GET, PATH, &Value::Null).await.is(200);
    assert_eq!(read().await.has("etag"), "\"0\"", "before any were set");
    assert_eq!(set(Some("\"0\""), 1.0).await.is(200).has("etag"), "\"1\"");
    let error = set(Some("\"0\""), 2.0).await.fails(412, "revision_changed", "caller");
    assert_eq!((&error["revision"], &read().await.json()["payoutSettings"]["minimumUsd"]), (&json!(1), &json!(1)));
    set(Some("\"1\""), 3.0).await.is(200);
    assert_eq!(set(None, 4.0).await.is(200).json()["payoutSettings"]["revision"], 3, "a request without a version changes the current one");
    set(Some("nonsense"), 5.0).await.fails(400, "invalid_request", "caller");
    assert_eq!(read().await.has("etag"), "\"3\"");
}
