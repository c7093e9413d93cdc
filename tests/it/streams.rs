//! Calls that are answered as Server-Sent Events.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Host, Payer, js};

const FUNDS: u64 = 1_000_000;
const MICROS: u64 = 10_000;

/// Logs, reports its progress, and takes longer than the interval between two `progress` events.
const SLOW: &str = "export default async (req, ctx) => {
    ctx.log.info('for the owner', { step: 1 });
    console.debug('for the owner too');
    ctx.progress('begun', 0.25);
    ctx.progress('no\\x1b[31m red');
    await new Promise((done) => setTimeout(done, req.input.ms));
    if (req.input.fail) throw new Error('came to nothing');
    return { done: true };
};";

async fn slow_host() -> Host {
    let host = Host::builder().flag("--progress-ms", 100).start().await;
    let mut tool = js("slow", 0.01, SLOW);
    tool["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&tool).await;
    host
}

#[tokio::test]
async fn a_long_running_tool_is_streamed_with_its_receipt_at_the_end() {
    let host = slow_host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("slow").await);
    let body = json!({ "slug": "slow", "input": { "ms": 400 }, "stream": true });
    let invoke = host.request(Method::POST, "/ai/invoke").header(payment.header, payment.encoded()).json(&body);
    let events = host.send(invoke).await.is(200).events();
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"accepted"), "{names:?}");
    assert_eq!(names.last(), Some(&"result"), "{names:?}");
    assert!(names[1..names.len() - 1].iter().all(|name| *name == "progress"), "{names:?}");
    assert!(events.iter().all(|event| !event.data.to_string().contains("owner")), "the log is for the owner alone");

    let (accepted, result) = (&events[0].data, &events.last().unwrap().data);
    assert_eq!(accepted["paymentId"], payment.id());
    let progress: Vec<_> = events.iter().filter(|event| event.name == "progress").map(|event| &event.data).collect();
    assert!(progress.iter().all(|reported| reported["elapsedMs"].is_u64()), "{progress:?}");
    assert_eq!((&progress[0]["message"], &progress[0]["fraction"]), (&json!("begun"), &json!(0.25)));
    assert_eq!((&progress[1]["message"], progress[1].get("fraction")), (&json!("no red"), None));
    let beats = progress.iter().filter(|reported| reported.get("message").is_none()).count();
    assert!(beats >= 2 && beats == progress.len() - 2, "{progress:?}");
    assert_eq!((&result["ok"], &result["result"], &result["paymentId"]), (&json!(true), &json!({ "done": true }), &json!(payment.id())));
    assert_eq!(result["receipt"]["receiptId"], accepted["receiptId"]);
    assert_eq!(result["settlement"]["success"], true);
    assert_eq!(host.receipt(accepted["receiptId"].as_str().unwrap()).await, result["receipt"]);
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);
}

#[tokio::test]
async fn a_streamed_call_that_fails_ends_with_its_error_and_is_not_charged() {
    let host = slow_host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("slow").await);
    let request = host.paid_request("slow", &json!({ "ms": 1, "fail": true }), &payment).header("accept", "text/event-stream");
    let answer = host.send(request).await.is(200);
    let last = answer.events().pop().unwrap();
    let error = &last.data["error"];
    assert_eq!((last.name.as_str(), &error["code"], &error["charged"]), ("error", &json!("handler_failed"), &json!(false)));
    assert_eq!(error["requestId"], answer.has("x-request-id"));
    assert_eq!(host.balance(&payer.address).await, FUNDS);
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
}

#[tokio::test]
async fn a_long_running_tool_is_not_invoked_without_a_stream() {
    let host = slow_host().await;
    let body = json!({ "slug": "slow", "input": { "ms": 1 } });
    host.post("/ai/invoke", &body).await.fails(409, "streaming_required", "caller");
    // The Accept header has the same effect as the field. Without a payment the answer is a plain
    // 402.
    let invoke = host.request(Method::POST, "/ai/invoke").header("accept", "text/event-stream").json(&body);
    host.send(invoke).await.is(402).decoded("payment-required");
}
