//! A payment is bound to its request: endpoint, method, query and body. If one of them differs it
//! is another request, and the payment does not buy it.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, Payer, Payment, js};

const PRICE: f64 = 0.01;
const FUNDS: u64 = 1_000_000;
const MICROS: u64 = 10_000;

/// Returns everything by which it can distinguish requests.
const MIRROR: &str = "export default async (req) => ({ query: req.query, input: req.input, url: req.url.split('?')[1] ?? null });";

async fn mirror() -> (Host, Payer) {
    let host = Host::start().await;
    host.publish(&js("mirror", PRICE, MIRROR)).await;
    let payer = Payer::funded(&host, 1.0).await;
    (host, payer)
}

async fn ask(host: &Host, method: &Method, path: &str, body: Option<&str>, payment: &Payment) -> Answer {
    let mut request = host.request(method.clone(), path).header(payment.header, payment.encoded());
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_owned());
    }
    host.send(request).await
}

/// Checks that the payment of the first request buys none of the others, on either wire, whether
/// the first one has finished or is running.
async fn buys_no_other(first: (Method, &str, Option<&str>), others: &[(Method, &str, Option<&str>)]) {
    let (host, payer) = mirror().await;
    let payments = [payer.pay(&host.challenge("mirror").await), payer.pay_v1(&host.challenge_v1("mirror").await)];
    for payment in &payments {
        let (method, path, body) = &first;
        let bought = ask(&host, method, path, *body, payment).await.is(200);
        for (method, path, body) in others {
            ask(&host, method, path, *body, payment).await.fails(409, "payment_reused", "caller");
        }
        let (method, path, body) = &first;
        let again = ask(&host, method, path, *body, payment).await.is(200);
        assert_eq!((&again.body, again.receipt_id()), (&bought.body, bought.receipt_id()));
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}

#[tokio::test]
async fn a_payment_for_one_query_buys_no_other() {
    let posted = |path| (Method::POST, path, Some("{}"));
    let others = ["/tools/mirror?city=Rome", "/tools/mirror", "/tools/mirror?city=Paris&city=Rome", "/tools/mirror?city=paris"];
    buys_no_other(posted("/tools/mirror?city=Paris"), &others.map(posted)).await;
    let request = |path| (Method::GET, path, None);
    buys_no_other(request("/tools/mirror?city=Paris"), &others.map(request)).await;
}

#[tokio::test]
async fn a_payment_for_one_method_buys_no_other() {
    let posted = (Method::POST, "/tools/mirror", Some(r#"{"city":"Paris"}"#));
    let request = (Method::GET, "/tools/mirror?city=Paris", None);
    buys_no_other(posted.clone(), std::slice::from_ref(&request)).await;
    buys_no_other(request, &[posted, (Method::POST, "/tools/mirror?city=Paris", Some(r#"{"city":"Paris"}"#))]).await;
}

#[tokio::test]
async fn payment_covers_the_order_of_repeated_names() {
    let request = |path| (Method::GET, path, None);
    let others = ["/tools/mirror?a=2&a=1", "/tools/mirror?a=2", "/tools/mirror?a=1", "/tools/mirror?a=1&a=2&a=2"];
    buys_no_other(request("/tools/mirror?a=1&a=2"), &others.map(request)).await;
    let posted = |path| (Method::POST, path, Some("{}"));
    buys_no_other(posted("/tools/mirror?a=1&a=2"), &others.map(posted)).await;
}

/// Queries are compared as they are written, because a handler reads them that way in `req.url`.
#[tokio::test]
async fn an_encoded_separator_is_another_request() {
    let request = |path| (Method::GET, path, None);
    let others = ["/tools/mirror?q=a&b=c", "/tools/mirror?q=a%26b%3Dc", "/tools/mirror?q=a%2526b=c"];
    buys_no_other(request("/tools/mirror?q=a%26b=c"), &others.map(request)).await;
    buys_no_other(request("/tools/mirror?q=a/b"), &["/tools/mirror?q=a%2Fb", "/tools/mirror?q=a%2fb"].map(request)).await;
}

#[tokio::test]
async fn a_body_is_bound_as_the_json_that_it_is() {
    let posted = |body| (Method::POST, "/tools/mirror", Some(body));
    let others =
        [r#"{"a":2,"b":[1,2]}"#, r#"{"a":1}"#, r#"{"a":"1","b":[1,2]}"#, r#"{"a":1,"b":[2,1]}"#, r#"{"a":1,"b":[1,2],"c":null}"#, ""];
    buys_no_other(posted(r#"{"a":1,"b":[1,2]}"#), &others.map(posted)).await;

    // Whitespace, the order of fields and the notation of numbers make no difference. If a name is
    // repeated the last value counts, as it does for the handler.
    let (host, payer) = mirror().await;
    let payment = payer.pay(&host.challenge("mirror").await);
    let post = async |body| ask(&host, &Method::POST, "/tools/mirror", Some(body), &payment).await;
    let bought = post(r#"{"a":1,"b":[1,2]}"#).await.is(200);
    for same in [r#"{ "b": [1, 2], "a": 1.0 }"#, r#"{"a":3,"b":[1,2],"a":1}"#, r#"{"\u0061":1,"b":[1,2]}"#] {
        assert_eq!(post(same).await.is(200).body, bought.body, "{same}");
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

/// Both numbers are the same double in JavaScript, but different texts, which a handler can read.
#[tokio::test]
async fn numbers_that_a_double_cannot_distinguish_are_two_requests() {
    let posted = |body| (Method::POST, "/tools/mirror", Some(body));
    buys_no_other(posted(r#"{"n":9007199254740993}"#), &[r#"{"n":9007199254740992}"#, r#"{"n":9007199254740992.5}"#].map(posted)).await;
}

#[tokio::test]
async fn one_payment_over_mcp_and_over_http_is_one_call_or_none() {
    let (host, payer) = mirror().await;
    let payment = payer.pay(&host.challenge("mirror").await);
    let input = json!({ "city": "Paris" });
    let mcp = async |payment: &Payment| host.mcp().call("mirror", input.clone(), json!({ "x402/payment": payment.payload })).await;
    let first = mcp(&payment).await;
    let receipt = first["_meta"]["tollhouse/receipt"]["receiptId"].as_str().unwrap().to_owned();
    assert_eq!(host.call_paid("mirror", &input, &payment).await.is(200).receipt_id(), receipt);
    let invoke = |path: &str| {
        let request = host.request(Method::POST, path).header(payment.header, payment.encoded());
        host.send(request.json(&json!({ "slug": "mirror", "input": input })))
    };
    assert_eq!(invoke("/ai/invoke").await.is(200).receipt_id(), receipt);
    // In MCP and in `/ai/invoke` the call has no query, but a handler of a plain call sees its
    // query.
    invoke("/ai/invoke?city=Rome").await.fails(409, "payment_reused", "caller");
    let path = "/tools/mirror?city=Rome";
    ask(&host, &Method::POST, path, Some(r#"{"city":"Paris"}"#), &payment).await.fails(409, "payment_reused", "caller");

    let posted = payer.pay(&host.challenge("mirror").await);
    ask(&host, &Method::POST, path, Some(r#"{"city":"Paris"}"#), &posted).await.is(200);
    let refused = mcp(&posted).await;
    assert_eq!((&refused["isError"], &refused["structuredContent"]["error"]), (&json!(true), &json!("payment_reused")), "{refused}");
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}

#[tokio::test]
async fn a_payment_that_names_another_tool_buys_nothing_of_this_one() {
    let (host, payer) = mirror().await;
    host.publish(&js("other", PRICE, MIRROR)).await;
    let (own, foreign) = (host.challenge("mirror").await, host.challenge("other").await);
    let payment = payer.pay(&foreign);
    let refused = host.call_paid("mirror", &json!({}), &payment).await.is(402);
    assert_eq!(refused.json()["error"], "invalid_payment_requirements");
    assert_eq!(host.payment(&payment.id()).await, None);
    host.call_paid("other", &json!({}), &payment).await.is(200);
    // The payment has been spent on the other tool. It is refused here, whichever tool it names.
    for resource in [&own["resource"], &foreign["resource"]] {
        let named = payment.altered("/resource", resource.clone());
        host.call_paid("mirror", &json!({}), &named).await.fails(409, "payment_reused", "caller");
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn a_head_with_a_spent_payment_is_the_challenge_and_no_answer() {
    let (host, payer) = mirror().await;
    let payment = payer.pay(&host.challenge("mirror").await);
    ask(&host, &Method::GET, "/tools/mirror?city=Paris", None, &payment).await.is(200);
    let head = ask(&host, &Method::HEAD, "/tools/mirror?city=Paris", None, &payment).await.is(402);
    assert!(head.body.is_empty() && head.header("x-receipt-id").is_none() && head.header("payment-response").is_none(), "{head:?}");
}

#[tokio::test]
async fn concurrent_requests_with_different_queries_run_once() {
    let (host, payer) = mirror().await;
    let payment = payer.pay(&host.challenge("mirror").await);
    let paths: Vec<_> = (0..8).map(|n| format!("/tools/mirror?city={n}")).collect();
    let answers = join_all(paths.iter().map(|path| ask(&host, &Method::POST, path, Some("{}"), &payment))).await;
    let (ran, refused): (Vec<_>, Vec<_>) = paths.iter().zip(answers).partition(|(_, answer)| answer.status == 200);
    assert_eq!((ran.len(), refused.len()), (1, 7));
    let url: Value = ran[0].1.json()["url"].clone();
    assert!(ran[0].0.ends_with(url.as_str().unwrap()), "each has its own answer");
    for (_, answer) in refused {
        answer.fails(409, "payment_reused", "caller");
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}
