//! Calls answered as Server-Sent Events.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, Payer, js};

const TALKS: &str = "export default async (req, ctx) => {
    ctx.log.info('began', { n: 1 });
    await new Promise((done) => setTimeout(done, 400));
    return { done: true };
}";

#[tokio::test(flavor = "multi_thread")]
async fn a_long_running_tool_streams_what_happens_and_ends_with_the_receipt() {
    let host = Host::builder().env("TOLLHOUSE_PROGRESS_MS", 100).start().await;
    let mut draft = js("long", 0.02, TALKS);
    draft["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&draft).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("long").await);
    let invoke = |body: Value| host.send(host.request(Method::POST, "/ai/invoke").header(payment.header, payment.encoded()).json(&body));
    invoke(json!({ "slug": "long" })).await.fails(409, "streaming_required", "caller");
    let reply = invoke(json!({ "slug": "long", "stream": true })).await;
    let events = reply.events();
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"accepted"), "{names:?}");
    assert_eq!(names.last(), Some(&"result"), "{reply:?}");
    assert!(names.contains(&"log") && names.contains(&"progress"), "{names:?}");
    let (accepted, result) = (&events[0].data, &events[events.len() - 1].data);
    assert_eq!(accepted["paymentId"], payment.id());
    assert_eq!(result["result"], json!({ "done": true }));
    assert_eq!(result["receipt"]["receiptId"], accepted["receiptId"]);
    assert_eq!(result["settlement"]["success"], true);
    host.verify_receipt(&result["receipt"]).unwrap();
    let log = events.iter().find(|event| event.name == "log").unwrap();
    assert_eq!((&log.data["message"], &log.data["fields"]["n"]), (&json!("began"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_failure_ends_with_the_error_uncharged() {
    let host = Host::start().await;
    host.publish(&js("fails", 0.02, "export default () => { throw new TypeError('no') }")).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("fails").await);
    let request = host.request(Method::POST, "/tools/fails").header("accept", "text/event-stream").json(&json!({}));
    let events = host.send(request.header(payment.header, payment.encoded())).await.events();
    let last = &events[events.len() - 1];
    let data = &last.data;
    assert_eq!((last.name.as_str(), &data["error"]["code"], &data["error"]["charged"]), ("error", &json!("handler_failed"), &json!(false)));
    assert_eq!(host.balance(&payer.address).await, 1_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpaid_stream_is_a_plain_challenge() {
    let host = Host::start().await;
    host.publish(&js("paid", 0.02, TALKS)).await;
    let request = host.request(Method::POST, "/tools/paid").header("accept", "text/event-stream").json(&json!({}));
    host.send(request).await.is(402).has("payment-required");
}
