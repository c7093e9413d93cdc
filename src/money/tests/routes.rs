//! Routes of an API like LI.FI's.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::RawQuery, http::HeaderMap, http::StatusCode, response::IntoResponse as _, routing::get};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollhouse_tool::MicroUsd;

use crate::{AmountDue, RemoteRoutes, RouteError, RouteProvider as _, RouteStart, TableRoutes};

const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const WALLET: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

fn offer() -> Value {
    json!({
        "type": "lifi", "tool": "across", "toolDetails": { "key": "across", "name": "Across" },
        "action": {
            "fromChainId": 1, "toChainId": 8453, "fromAmount": "800000000000000",
            "fromToken": { "address": "0x0000000000000000000000000000000000000000", "symbol": "ETH", "decimals": 18, "chainId": 1 },
            "toToken": { "address": USDC, "symbol": "USDC", "decimals": 6, "chainId": 8453 },
        },
        "estimate": {
            "fromAmount": "800000000000000", "toAmount": "2010000", "toAmountMin": "2000000", "fromAmountUSD": "2.4000001", "toAmountUSD": "2.01",
            "executionDuration": 12.5,
            "feeCosts": [{ "name": "LP fee", "amountUSD": "0.3", "included": true }, { "name": "relay", "amountUSD": "0.1", "included": false }],
            "gasCosts": [{ "type": "SEND", "amountUSD": "0.5" }],
        },
        "transactionRequest": { "to": WALLET, "data": "0xabcdef", "value": "0x2d79883d2000", "chainId": 1, "gasLimit": "0x5208", "evil": "<script>" },
    })
}

fn start(asset: &str, address: Option<&str>) -> RouteStart {
    RouteStart { network: Some("ethereum".to_owned()), asset: Some(asset.to_owned()), address: address.map(str::to_owned) }
}

fn due() -> AmountDue {
    AmountDue::of("eip155:8453", USDC, 2_000_000).unwrap()
}

/// Starts an API with this answer. The second value collects the requests.
async fn api(status: StatusCode, body: String) -> (RemoteRoutes, Arc<Mutex<Vec<String>>>) {
    let request = Arc::new(Mutex::new(vec![]));
    let received = Arc::clone(&request);
    let answer = move |RawQuery(query): RawQuery, headers: HeaderMap| async move {
        let key = headers.get("x-lifi-api-key").map(|key| key.to_str().unwrap().to_owned()).unwrap_or_default();
        received.lock().unwrap().push(format!("{key} {}", query.unwrap_or_default()));
        (status, [("content-type", "application/json")], body).into_response()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/v1/quote/toAmount", get(answer))).await });
    (RemoteRoutes::new(&format!("http://{address}/v1"), Some("key-1")).unwrap(), request)
}

#[tokio::test]
async fn an_offer_is_reported_with_all_that_it_costs() {
    let (routes, requested) = api(StatusCode::OK, offer().to_string()).await;
    let route = routes.route(&start("ETH", Some(WALLET)), &due()).await.unwrap();
    let query = format!("key-1 fromChain=1&toChain=8453&fromToken=ETH&toToken={USDC}&toAmount=2000000&fromAddress={WALLET}");
    assert_eq!(*requested.lock().unwrap(), [query]);
    assert!(!route.indicative);
    // The input, rounded up, the gas, and the fee that is not included in it.
    assert_eq!((route.estimated_cost.all_in_usd, route.estimated_cost.cost_usd), (MicroUsd(3_000_001), MicroUsd(1_000_001)));
    assert_eq!((&*route.start.amount, &*route.start.asset, route.route.seconds), ("0.0008", "ETH", 12));
    assert_eq!((route.route.steps[0].kind, route.route.steps[0].by.as_deref()), ("bridge", Some("Across")));
    let request =
        json!({ "from": WALLET, "to": WALLET, "data": "0xabcdef", "value": "0x2d79883d2000", "chainId": 1, "gasLimit": "0x5208" });
    assert_eq!(route.handoff.transaction_request, Some(request));
    let nobodys = routes.route(&start("ETH", None), &due()).await.unwrap();
    assert_eq!(nobodys.handoff.transaction_request, None, "it is of a wallet that was not named");
}

#[tokio::test]
async fn unusable_answer_gives_no_route_and_its_text_stays_private() {
    let with = |pointer: &str, value: Value| {
        let mut offer = offer();
        *offer.pointer_mut(pointer).unwrap() = value;
        (StatusCode::OK, offer.to_string())
    };
    let secret = "{\"message\": \"secret words\"}";
    for (status, body) in [
        (StatusCode::OK, "not JSON".to_owned()),
        (StatusCode::OK, "{}".to_owned()),
        (StatusCode::OK, format!("\"{}\"", "x".repeat(300 << 10))),
        (StatusCode::UNAUTHORIZED, secret.to_owned()),
        (StatusCode::TOO_MANY_REQUESTS, secret.to_owned()),
        (StatusCode::INTERNAL_SERVER_ERROR, secret.to_owned()),
        with("/estimate/toAmountMin", json!("1999999")),
        with("/estimate/fromAmountUSD", json!("-1")),
        with("/estimate/fromAmountUSD", json!("1e9")),
        with("/estimate/gasCosts/0/amountUSD", json!("NaN")),
        with("/estimate/fromAmount", json!("0x1")),
        with("/estimate/executionDuration", json!(-1)),
        with("/action/toChainId", json!(1)),
        with("/action/fromToken/decimals", json!(4_000_000_000_u64)),
        with("/action/fromToken/symbol", json!("\u{0}")),
    ] {
        let (routes, _) = api(status, body.clone()).await;
        let refused = routes.route(&start("ETH", None), &due()).await.unwrap_err();
        assert!(matches!(refused, RouteError::Unavailable(_)), "{body}: {refused:?}");
        assert!(!refused.to_string().contains("secret"));
    }
    for status in [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST] {
        let (routes, _) = api(status, secret.to_owned()).await;
        let refused = routes.route(&start("ETH", None), &due()).await.unwrap_err();
        assert!(matches!(&refused, RouteError::NoRoute(message) if !message.contains("secret")), "{refused:?}");
    }
    let away = RemoteRoutes::new("http://127.0.0.1:1", None).unwrap();
    assert!(matches!(away.route(&start("ETH", None), &due()).await, Err(RouteError::Unavailable(_))));
}

#[tokio::test]
async fn another_token_is_swapped_and_another_chain_is_bridged() {
    let mut swap = offer();
    swap["action"]["fromChainId"] = json!(8453);
    let base = RouteStart { network: Some("base".to_owned()), ..start("ETH", None) };
    for (start, offer, kind) in [(base, swap, "swap"), (start("USDC", None), offer(), "bridge")] {
        let (routes, request) = api(StatusCode::OK, offer.to_string()).await;
        assert_eq!(routes.route(&start, &due()).await.unwrap().route.steps[0].kind, kind);
        assert_eq!(request.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn amounts_of_up_to_36_decimals_are_read() {
    let mut fine = offer();
    for (decimals, amount) in [(36, Some("0.0000000000000000000008")), (37, None)] {
        fine["action"]["fromToken"]["decimals"] = json!(decimals);
        let (routes, _) = api(StatusCode::OK, fine.to_string()).await;
        assert_eq!(routes.route(&start("ETH", None), &due()).await.ok().map(|route| route.start.amount).as_deref(), amount);
    }
}

#[tokio::test]
async fn no_query_is_sent_for_an_invalid_start_or_without_a_conversion() {
    let (routes, request) = api(StatusCode::OK, offer().to_string()).await;
    let pointer = async |start: RouteStart| match routes.route(&start, &due()).await {
        Err(RouteError::Start { pointer, .. }) => pointer,
        other => panic!("{other:?}"),
    };
    assert_eq!(pointer(RouteStart { network: Some("bank".to_owned()), ..start("EUR", None) }).await, "/startNetwork");
    for asset in ["", "a b", "ETH&x=1", "../..", &"A".repeat(65)] {
        assert_eq!(pointer(start(asset, None)).await, "/startAsset");
    }
    assert_eq!(pointer(start("ETH", Some("0x1"))).await, "/fromAddress");
    for start in [RouteStart::default(), RouteStart { network: Some("base".to_owned()), ..start("usdc", None) }] {
        let route = routes.route(&start, &due()).await.unwrap();
        assert_eq!((route.handoff.kind, route.estimated_cost.cost_usd), ("none", MicroUsd::ZERO));
    }
    assert!(routes.is_remote() && !TableRoutes.is_remote());
    assert!(request.lock().unwrap().is_empty());
    assert!(RemoteRoutes::new("nonsense", None).is_err() && RemoteRoutes::new("https://a.test", Some("a\nb")).is_err());
}
