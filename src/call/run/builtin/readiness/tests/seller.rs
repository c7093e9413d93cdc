//! Sellers with all kinds of challenges, and those without.

use std::num::NonZeroU8;

use axum::{
    Json, Router,
    http::StatusCode as Status,
    response::{IntoResponse as _, Response},
    routing::{any, get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tollhouse_base::cpu_share::CpuShares;
use tollhouse_capability::{Guard, GuardSettings, testing::serve};

use super::*;

const USDC: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const PAY_TO: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn v2(amount: &str) -> Value {
    let entry = json!({ "scheme": "exact", "network": "eip155:84532", "amount": amount, "asset": USDC, "payTo": PAY_TO, "maxTimeoutSeconds": 60,
        "extra": { "name": "USDC", "version": "2" } });
    json!({ "x402Version": 2, "resource": { "url": "http://127.0.0.1/tool" }, "accepts": [entry] })
}

fn v1(amount: &str) -> Value {
    let entry = json!({ "scheme": "exact", "network": "base-sepolia", "maxAmountRequired": amount, "resource": "http://127.0.0.1/tool",
        "description": "a tool", "mimeType": "application/json", "payTo": PAY_TO, "maxTimeoutSeconds": 60, "asset": USDC,
        "extra": { "name": "USDC", "version": "2" } });
    json!({ "x402Version": 1, "accepts": [entry] })
}

fn asks(header: Option<Value>, body: &Value) -> Response {
    let mut response = (Status::PAYMENT_REQUIRED, Json(body.clone())).into_response();
    if let Some(header) = header {
        response.headers_mut().insert("payment-required", STANDARD.encode(header.to_string()).parse().unwrap());
    }
    response
}

async fn asked(router: Router, method: Option<Method>) -> Result<Value, SellerError> {
    let address = serve(router).await;
    let guard = Guard::new(GuardSettings { allow: vec![address.to_string()], ..GuardSettings::default() }).unwrap();
    let client = ReadinessClient::new(guard, "https://host.example").unwrap();
    let turn = CpuShares::new(NonZeroU8::new(2)).turn([127, 0, 0, 1].into(), Duration::ZERO).await.unwrap();
    let quote = ask(&client, (&format!("http://{address}/tool"), method), NOW, &turn).await?;
    Ok(serde_json::to_value(quote).unwrap())
}

async fn of(header: Option<Value>, body: Value) -> Result<Value, SellerError> {
    asked(Router::new().route("/tool", get(move || async move { asks(header, &body) })), None).await
}

#[tokio::test]
async fn both_wires_are_reported_in_one_shape() {
    for (header, body, versions) in [
        (Some(v2("1000")), v1("1000"), json!([1, 2])),
        (Some(v2("1000")), json!({}), json!([2])),
        (None, v1("1000"), json!([1])),
        (None, v2("1000"), json!([2])),
    ] {
        let quote = of(header, body).await.unwrap();
        assert_eq!((&quote["x402Versions"], &quote["method"]), (&versions, &json!("GET")), "{quote:#}");
        let requested = json!({
            "x402Versions": versions, "scheme": "exact", "network": "eip155:84532", "networkV1": "base-sepolia", "asset": USDC, "symbol": "USDC",
            "decimals": 6, "amount": "1000", "amountUsd": 0.001, "payTo": PAY_TO, "maxTimeoutSeconds": 60,
            "expiresAt": NOW.plus_millis(60_000), "eip712": { "name": "USDC", "version": "2" },
        });
        assert_eq!(quote["accepts"], json!([requested]));
    }
}

#[tokio::test]
async fn a_seller_of_version_2_alone_may_say_so_in_the_body() {
    let none = json!({ "x402Version": 1, "accepts": [] });
    let quote = of(Some(v2("2000")), none.clone()).await.unwrap();
    assert_eq!((&quote["x402Versions"], &quote["accepts"][0]["x402Versions"]), (&json!([2]), &json!([2])));
    assert!(quote["notes"].as_array().unwrap().iter().all(|note| note["severity"] != "error"), "{quote}");
    assert_eq!(quote["accepts"][0]["maxTimeoutSeconds"].to_string(), "60", "a whole number stays one");
    assert!(matches!(of(None, none).await, Err(SellerError::Unreadable(_))));
}

#[tokio::test]
async fn versions_with_different_amounts_are_listed_separately() {
    let quote = of(Some(v2("1000")), v1("2000")).await.unwrap();
    assert_eq!(quote["accepts"].as_array().map(Vec::len), Some(2));
    assert!(quote["notes"].as_array().unwrap().iter().any(|note| note["code"] == "versions_differ"), "{quote:#}");
    let mut other = v2("1000");
    other["accepts"][0]["network"] = json!("near:mainnet");
    other["accepts"][0]["asset"] = json!("usdc.near");
    let entry = of(Some(other), json!({})).await.unwrap()["accepts"][0].clone();
    assert_eq!((&entry["decimals"], &entry["amountUsd"], &entry["amount"]), (&Value::Null, &Value::Null, &json!("1000")));
}

#[tokio::test]
async fn a_seller_that_takes_only_posts_is_asked_by_post() {
    let posts = || Router::new().route("/tool", post(|| async { asks(Some(v2("7")), &json!({})) }));
    assert_eq!(asked(posts(), None).await.unwrap()["method"], "POST");
    assert_eq!(asked(posts(), Some(Method::Post)).await.unwrap()["accepts"][0]["amount"], "7");
    assert_eq!(asked(posts(), Some(Method::Get)).await.unwrap_err(), SellerError::NotPaid { status: 405 });
}

#[tokio::test]
async fn a_seller_that_answers_wrongly_is_reported() {
    let of = |router: fn() -> Response| asked(Router::new().route("/tool", any(move || async move { router() })), None);
    assert_eq!(of(|| "free".into_response()).await.unwrap_err(), SellerError::NotPaid { status: 200 });
    assert_eq!(of(|| Status::NOT_FOUND.into_response()).await.unwrap_err(), SellerError::NotPaid { status: 404 });
    let redirect = || (Status::FOUND, [("location", "/elsewhere")]).into_response();
    assert!(matches!(of(redirect).await.unwrap_err(), SellerError::Redirected { to } if to.ends_with("/elsewhere")));
    let huge = || (Status::PAYMENT_REQUIRED, "x".repeat(BODY_BYTES + 1)).into_response();
    assert_eq!(of(huge).await.unwrap_err(), SellerError::Unreachable(FetchError::TooLarge(BODY_BYTES)));
    for garbage in [
        || (Status::PAYMENT_REQUIRED, "<html>pay</html>").into_response(),
        || (Status::PAYMENT_REQUIRED, Json(json!({ "x402Version": 1, "accepts": [] }))).into_response(),
        || (Status::PAYMENT_REQUIRED, Json(json!({ "x402Version": 1, "accepts": [{}, 7, null] }))).into_response(),
        || (Status::PAYMENT_REQUIRED, [("payment-required", "%%%")], "").into_response(),
        || asks(Some(v2("-1")), &v1("1.5")),
    ] {
        let refused = of(garbage).await.unwrap_err();
        assert!(matches!(&refused, SellerError::Unreadable(reason) if !reason.is_empty()), "{refused}");
    }
    for (url, reason) in [("nonsense", "no scheme"), ("https://127.0.0.1/", "not a public host"), ("http://example.com/", "use https")] {
        let client = ReadinessClient::new(Guard::new(GuardSettings::default()).unwrap(), "https://host.example").unwrap();
        let turn = CpuShares::new(None).turn([127, 0, 0, 1].into(), Duration::ZERO).await.unwrap();
        let refused = ask(&client, (url, None), NOW, &turn).await.unwrap_err();
        assert!(matches!(&refused, SellerError::Url(error) if error.to_string().contains(reason)), "{refused}");
    }
}

#[tokio::test]
async fn a_seller_that_takes_its_time_is_not_waited_for() {
    let slow = Router::new().route("/tool", any(std::future::pending::<()>));
    let refused = asked(slow, None).await.unwrap_err();
    assert_eq!(refused, SellerError::Unreachable(FetchError::Timeout(WALL.as_millis())));
}

#[tokio::test]
async fn however_many_ways_to_pay_there_are_some_are_reported() {
    let mut many = v2("1");
    many["accepts"] = json!((0..100).map(|amount| v2(&amount.to_string())["accepts"][0].clone()).collect::<Vec<_>>());
    assert_eq!(of(Some(many), json!({})).await.unwrap()["accepts"].as_array().map(Vec::len), Some(MAX));
}
