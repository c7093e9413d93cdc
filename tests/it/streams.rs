//! Calls answered as Server-Sent Events.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, js, sse};

const TALKS: &str = "export default async (req, ctx) => {
    ctx.log.info('began', { n: 1 });
    await new Promise((done) => setTimeout(done, 400));
    return { done: true };
}";

#[tokio::test(flavor = "multi_thread")]
async fn a_long_running_tool_streams_what_happens_and_ends_with_the_receipt() {
    let host = Host::with(&[("TOLLHOUSE_PROGRESS_MS", "100")]).await;
    let mut draft = js("long", 0.02, TALKS);
    draft["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&draft).await;
    let payer = host.payer(1.0).await;
    let payment = host.signed("long", &payer).await;
    let invoke = |body: Value| host.send(payment.attach(host.request(Method::POST, "/ai/invoke").json(&body)));
    invoke(json!({ "slug": "long" })).await.is_error(409, "streaming_required").uncharged();
    let reply = invoke(json!({ "slug": "long", "stream": true })).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let events = sse(&reply.text);
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.first(), Some(&"accepted"), "{names:?}");
    assert_eq!(names.last(), Some(&"result"), "{}", reply.text);
    assert!(names.contains(&"log") && names.contains(&"progress"), "{names:?}");
    let (accepted, result) = (&events[0].1, &events[events.len() - 1].1);
    assert_eq!(accepted["paymentId"], payment.id());
    assert_eq!(result["result"], json!({ "done": true }));
    assert_eq!(result["receipt"]["receiptId"], accepted["receiptId"]);
    assert_eq!(result["settlement"]["success"], true);
    host.verify_receipt(&result["receipt"]).unwrap();
    let log = events.iter().find(|(name, _)| name == "log").unwrap();
    assert_eq!((&log.1["message"], &log.1["fields"]["n"]), (&json!("began"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_failure_ends_with_the_error_uncharged() {
    let host = Host::start().await;
    host.publish(&js("fails", 0.02, "export default () => { throw new TypeError('no') }")).await;
    let payer = host.payer(1.0).await;
    let payment = host.signed("fails", &payer).await;
    let request = host.request(Method::POST, "/tools/fails").header("accept", "text/event-stream").json(&json!({}));
    let events = sse(&host.send(payment.attach(request)).await.text);
    let (name, data) = &events[events.len() - 1];
    assert_eq!((name.as_str(), &data["error"]["code"], &data["error"]["charged"]), ("error", &json!("handler_failed"), &json!(false)));
    assert!((host.balance(&payer).await - 1.0).abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpaid_stream_is_a_plain_challenge() {
    let host = Host::start().await;
    host.publish(&js("paid", 0.02, TALKS)).await;
    let request = host.request(Method::POST, "/tools/paid").header("accept", "text/event-stream").json(&json!({}));
    let reply = host.send(request).await;
    assert_eq!(reply.status, 402);
    assert!(reply.header("payment-required").is_some());
}
