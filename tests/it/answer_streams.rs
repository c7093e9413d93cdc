//! Answers that handlers stream: their bytes, their payment, and each way to end.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::{Answer, Host, HostBuilder, Payer, Payment, eventually, js, nginx::Place};

const FUNDS: u64 = 1_000_000;
const PRICE: u64 = 10_000;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Streams `lines` lines. Before the second one, it waits for a call with `go`. The first `fails` runs of a name end
/// after one line.
const WORDS: &str = "export default async (req, ctx) => {
    const { name = 'a', lines = 2, fails = 0, go, type = 'text/plain', charges = [], status = 200 } = req.input;
    if (go !== undefined) { await ctx.kv.set(`go ${name}`, go); return { ok: true }; }
    const runs = (await ctx.kv.get(`runs ${name}`)) ?? 0;
    await ctx.kv.set(`runs ${name}`, runs + 1);
    const may = async (line) => {
        while (((await ctx.kv.get(`go ${name}`)) ?? 0) < line) await new Promise((done) => setTimeout(done, 50));
    };
    async function* words() {
        for (let line = 0; line < lines; line += 1) {
            if (line <= 1) await may(line);
            if (line === 1 && runs < fails) throw new Error('broken off');
            if (charges[line] !== undefined) await ctx.charge(charges[line]);
            yield type === 'text/event-stream' ? `data: ${line}\\n\\n` : `${line}\\n`;
        }
    }
    return new Response(ReadableStream.from(words()).pipeThrough(new TextEncoderStream()), { status, headers: { 'content-type': type } });
};";

/// Starts a host with the tool `words`.
pub async fn host() -> Host {
    started(Host::builder()).await
}

async fn started(builder: HostBuilder) -> Host {
    let host = builder.start().await;
    let mut tool = js("words", 0.01, WORDS);
    tool["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&tool).await;
    host
}

/// Lets the stream of this name go on to this line.
pub async fn go(host: &Host, name: &str, line: u32) {
    let request = host.request(Method::POST, "/tools/words").header("x-admin-token", &host.admin);
    host.send(request.json(&json!({ "name": name, "go": line }))).await.is(200);
}

async fn open(host: &Host, input: &Value, payment: &Payment) -> Response {
    let response = host.paid_request("words", input, payment).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    response
}

/// Returns the next bytes, `None` at the end, or an error if the stream was broken off.
async fn next(response: &mut Response) -> Result<Option<String>, ()> {
    let chunk = tokio::time::timeout(TIMEOUT, response.chunk()).await.expect("no bytes came in time").map_err(drop)?;
    Ok(chunk.map(|chunk| String::from_utf8(chunk.to_vec()).unwrap()))
}

fn line(text: &str) -> Result<Option<String>, ()> {
    Ok(Some(text.to_owned()))
}

fn header(response: &Response, name: &str) -> String {
    response.headers().get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap().to_owned()
}

async fn state(host: &Host, payment: &Payment) -> String {
    host.payment(&payment.id()).await.map_or("none".to_owned(), |state| state["state"].as_str().unwrap().to_owned())
}

async fn reaches(host: &Host, payment: &Payment, expected: &str) {
    eventually(&format!("the payment is {expected}"), TIMEOUT, async || (state(host, payment).await == expected).then_some(())).await;
}

/// Returns the last call that its owner did not make.
async fn last_call(host: &Host) -> Value {
    eventually("a call is recorded", TIMEOUT, || async {
        let page = host.manage(Method::GET, "/ai/endpoints/words/calls", &Value::Null).await.is(200).json();
        page["calls"].as_array().unwrap().iter().find(|call| call["owner"] != true).cloned()
    })
    .await
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (status, &json!(code)), "{answer:?}");
}

#[tokio::test]
async fn first_byte_comes_after_the_settlement_and_each_line_at_once() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let mut response = open(&host, &json!({}), &payment).await;
    assert_eq!(next(&mut response).await, line("0\n"));
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
    assert_eq!((header(&response, "x-accel-buffering"), header(&response, "content-type")), ("no".to_owned(), "text/plain".to_owned()));
    assert!(header(&response, "cache-control").contains("no-store") && response.headers().get("content-length").is_none());
    assert!(response.headers().contains_key("payment-response"));
    let id = header(&response, "x-receipt-id");
    let receipt = host.receipt(&id).await;
    assert_eq!((&receipt["streamed"], receipt.get("resultHash")), (&json!(true), None), "{receipt}");
    host.verify_receipt(&receipt).unwrap();

    go(&host, "a", 1).await;
    assert_eq!(next(&mut response).await, line("1\n"));
    assert_eq!(next(&mut response).await, Ok(None));
    let receipt = host.receipt(&id).await;
    assert!(receipt["resultHash"].as_str().unwrap().starts_with("sha256:"), "{receipt}");
    host.verify_receipt(&receipt).unwrap();
    let again = host.call_paid("words", &json!({}), &payment).await.is(200);
    assert_eq!((&again.body[..], again.receipt_id()), (&b"0\n1\n"[..], id));
    assert_eq!((state(&host, &payment).await, host.balance(&payer.address).await), ("settled".to_owned(), FUNDS - PRICE));
    let call = last_call(&host).await;
    assert_eq!((&call["outcome"], &call["charged"]), (&json!("succeeded"), &json!(true)), "{call}");
}

#[tokio::test]
async fn credit_pays_before_the_first_byte_with_and_without_a_key() {
    let host = host().await;
    let credit = host.mint(1.0).await;
    go(&host, "a", 1).await;
    for cost in [PRICE, 2 * PRICE] {
        let answer = host.call_credit("words", &json!({}), &credit).await.is(200);
        assert_eq!(&answer.body[..], b"0\n1\n");
        assert_eq!(host.credit_balance(&credit).await, FUNDS - cost);
        assert_eq!(host.receipt(&answer.receipt_id()).await["streamed"], true);
    }
    let keyed = || {
        host.request(Method::POST, "/tools/words").header("x-developer-credit", &credit).header("idempotency-key", "a-key-of-the-client")
    };
    let one = host.send(keyed().json(&json!({}))).await.is(200);
    let other = host.send(keyed().json(&json!({}))).await.is(200);
    assert_eq!((&one.body, one.receipt_id()), (&other.body, other.receipt_id()));
    assert_eq!(host.credit_balance(&credit).await, FUNDS - 3 * PRICE);
}

#[tokio::test]
async fn metered_stream_costs_its_last_charge_also_if_it_is_broken_off() {
    let host = host().await;
    host.change("words", &json!({ "maxPriceUsd": 0.05 })).await;
    let credit = host.mint(1.0).await;
    go(&host, "a", 1).await;
    let input = json!({ "charges": ["0.02", "0.03"] });
    let answer = host.call_credit("words", &input, &credit).await.is(200);
    assert_eq!(host.credit_balance(&credit).await, FUNDS - 30_000);
    assert!(host.receipt(&answer.receipt_id()).await["resultHash"].is_string());
    for (charges, cost) in [(json!(["0.02"]), 20_000), (json!([]), 0)] {
        let before = host.credit_balance(&credit).await;
        let name = format!("costs {cost}");
        let input = json!({ "name": name, "fails": 1, "charges": charges });
        let request = host.request(Method::POST, "/tools/words").header("x-developer-credit", &credit).json(&input);
        let mut response = request.send().await.unwrap();
        assert_eq!(next(&mut response).await, line("0\n"));
        go(&host, &name, 1).await;
        assert_eq!(next(&mut response).await, Err(()));
        eventually("it is settled", TIMEOUT, async || (host.credit_balance(&credit).await == before - cost).then_some(())).await;
    }
}

#[tokio::test]
async fn broken_stream_is_seen_and_the_same_payment_runs_again() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let input = json!({ "fails": 1 });
    let mut response = open(&host, &input, &payment).await;
    assert_eq!(next(&mut response).await, line("0\n"));
    go(&host, "a", 1).await;
    assert_eq!(next(&mut response).await, Err(()), "no client takes it for complete");
    reaches(&host, &payment, "owed").await;
    let call = last_call(&host).await;
    assert_eq!((&call["outcome"], &call["code"], &call["charged"]), (&json!("failed"), &json!("handler_failed"), &json!(true)), "{call}");
    let again = host.call_paid("words", &input, &payment).await.is(200);
    assert_eq!((&again.body[..], state(&host, &payment).await), (&b"0\n1\n"[..], "settled".to_owned()));
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}

#[tokio::test]
async fn tool_that_is_charged_before_its_run_streams_too() {
    let host = host().await;
    host.change("words", &json!({ "settle": "before" })).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let mut response = open(&host, &json!({}), &payment).await;
    assert_eq!((next(&mut response).await, state(&host, &payment).await), (line("0\n"), "owed".to_owned()));
    go(&host, "a", 1).await;
    assert_eq!((next(&mut response).await, next(&mut response).await), (line("1\n"), Ok(None)));
    assert!(host.receipt(&header(&response, "x-receipt-id")).await["resultHash"].is_string());
    assert_eq!((state(&host, &payment).await, host.balance(&payer.address).await), ("settled".to_owned(), FUNDS - PRICE));
}

#[tokio::test]
async fn broken_stream_is_refunded_to_its_credit_if_the_owner_wants_that() {
    let host = host().await;
    host.change("words", &json!({ "refundBrokenStreams": true })).await;
    let credit = host.mint(1.0).await;
    let input = json!({ "fails": 1 });
    let request = || {
        host.request(Method::POST, "/tools/words").header("x-developer-credit", &credit).header("idempotency-key", "a-key-of-the-client")
    };
    let mut response = request().json(&input).send().await.unwrap();
    let id = header(&response, "x-receipt-id");
    assert_eq!(next(&mut response).await, line("0\n"));
    assert_eq!(host.credit_balance(&credit).await, FUNDS - PRICE);
    go(&host, "a", 1).await;
    assert_eq!(next(&mut response).await, Err(()));
    eventually("it is refunded", TIMEOUT, async || (host.credit_balance(&credit).await == FUNDS).then_some(())).await;
    let refunds = host.get(&format!("/ai/receipts/{id}")).await.is(200).json()["refunds"].clone();
    assert_eq!(refunds.as_array().unwrap().len(), 1);
    refused(&host.send(request().json(&input)).await, 410, "no_more_runs");
}

#[tokio::test]
async fn handler_that_fails_or_answers_an_error_costs_nothing() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    host.call_paid("words", &json!({ "charges": null }), &payment).await.is(502);
    go(&host, "a", 1).await;
    let payment = payer.pay(&host.challenge("words").await);
    let answer = host.call_paid("words", &json!({ "status": 404 }), &payment).await;
    assert_eq!((answer.status, &answer.body[..]), (404, &b"0\n1\n"[..]));
    assert_eq!((state(&host, &payment).await, host.balance(&payer.address).await), ("released".to_owned(), FUNDS));
}

#[tokio::test]
async fn caller_who_hangs_up_has_bought_the_answer() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let input = json!({ "lines": 5_000 });
    let mut response = open(&host, &input, &payment).await;
    assert_eq!(next(&mut response).await, line("0\n"));
    drop(response);
    go(&host, "a", 1).await;
    reaches(&host, &payment, "settled").await;
    let call = last_call(&host).await;
    assert_eq!((&call["outcome"], &call["code"], &call["charged"]), (&json!("failed"), &json!("cancelled"), &json!(true)), "{call}");
    refused(&host.call_paid("words", &input, &payment).await, 410, "answer_expired");
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}

#[tokio::test]
async fn caller_who_reads_nothing_ends_the_stream() {
    let host = Host::builder().flag("--stream-stall-ms", 200).start().await;
    let endless = "export default () => new Response(ReadableStream.from((async function* () {
        for (;;) yield new Uint8Array(65536);
    })()));";
    let mut tool = js("words", 0.01, endless);
    tool["limits"] = json!({ "wallMs": 20_000, "streamBytes": 100 << 20 });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let _unread = open(&host, &json!({}), &payment).await;
    reaches(&host, &payment, "settled").await;
    assert_eq!(last_call(&host).await["code"], "cancelled");
}

#[tokio::test]
async fn caller_who_reads_nothing_until_the_time_limit_has_bought_the_answer() {
    let host = Host::builder().start().await;
    let endless = "export default () => new Response(ReadableStream.from((async function* () {
        for (;;) yield new Uint8Array(65536);
    })()));";
    let mut tool = js("words", 0.01, endless);
    tool["limits"] = json!({ "wallMs": 2_000, "streamBytes": 100 << 20 });
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let _unread = open(&host, &json!({}), &payment).await;
    reaches(&host, &payment, "settled").await;
    assert_eq!(last_call(&host).await["code"], "cancelled");
}

#[tokio::test]
async fn long_stream_is_sent_and_not_kept() {
    let host = started(Host::builder().flag("--stream-kept-bytes", 3)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    go(&host, "a", 1).await;
    let answer = host.call_paid("words", &json!({}), &payment).await.is(200);
    assert_eq!(&answer.body[..], b"0\n1\n");
    refused(&host.call_paid("words", &json!({}), &payment).await, 410, "answer_expired");
    assert!(host.receipt(&answer.receipt_id()).await["resultHash"].is_string());
}

#[tokio::test]
async fn request_with_the_payment_waits_for_the_end_of_its_stream() {
    let host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let mut response = open(&host, &json!({}), &payment).await;
    assert_eq!(next(&mut response).await, line("0\n"));
    let input = json!({});
    let (again, ()) = tokio::join!(host.call_paid("words", &input, &payment), go(&host, "a", 1));
    assert_eq!(&again.is(200).body[..], b"0\n1\n");
    assert_eq!((next(&mut response).await, next(&mut response).await), (line("1\n"), Ok(None)));
}

#[tokio::test]
async fn sale_of_a_killed_host_stands_and_the_payment_runs_again() {
    let mut host = host().await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let mut response = open(&host, &json!({}), &payment).await;
    assert_eq!(next(&mut response).await, line("0\n"));
    let id = header(&response, "x-receipt-id");
    host.kill9();
    assert_eq!(next(&mut response).await, Err(()));
    host.restart().await;
    let receipt = host.receipt(&id).await;
    assert_eq!((&receipt["streamed"], receipt.get("resultHash")), (&json!(true), None), "{receipt}");
    assert_eq!((state(&host, &payment).await, host.balance(&payer.address).await), ("owed".to_owned(), FUNDS - PRICE));
    go(&host, "a", 1).await;
    let again = host.call_paid("words", &json!({}), &payment).await.is(200);
    assert_eq!((&again.body[..], again.receipt_id()), (&b"0\n1\n"[..], id));
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}

#[tokio::test]
async fn silent_stream_of_events_gets_comments() {
    let host = started(Host::builder().flag("--stream-heartbeat-ms", 100)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("words").await);
    let mut response = open(&host, &json!({ "type": "text/event-stream" }), &payment).await;
    assert_eq!(next(&mut response).await, line("data: 0\n\n"));
    assert!(next(&mut response).await.unwrap().unwrap().starts_with(": keep-alive\n"));
    go(&host, "a", 1).await;
    let mut rest = String::new();
    while let Some(text) = next(&mut response).await.unwrap() {
        rest.push_str(&text);
    }
    assert!(rest.ends_with("data: 1\n\n"), "{rest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_stream_of_events_outlasts_the_timeout_of_a_proxy() {
    let position = Place::take();
    let host = started(Host::builder().flag("--base-url", &position.url).flag("--stream-heartbeat-ms", 200)).await;
    host.change("words", &json!({ "priceUsd": 0 })).await;
    let _nginx = position.serve(&host.url, "proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_read_timeout 1s;");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("{}/tools/words", position.url)).json(&json!({ "type": "text/event-stream" }));
    let mut response = request.send().await.unwrap();
    let mut text = String::new();
    // These take longer than the proxy waits.
    while text.matches(": keep-alive\n").count() < 8 {
        text += &next(&mut response).await.unwrap().expect("the stream goes on");
    }
    go(&host, "a", 1).await;
    while let Some(more) = next(&mut response).await.unwrap() {
        text += &more;
    }
    assert!(text.starts_with("data: 0\n\n: keep-alive\n") && text.ends_with("data: 1\n\n"), "{text}");
}

#[tokio::test]
async fn other_interfaces_return_the_whole() {
    let host = host().await;
    go(&host, "a", 1).await;
    let credit = host.mint(1.0).await;
    let invoke = host.request(Method::POST, "/ai/invoke").header("x-developer-credit", &credit);
    let events = || host.request(Method::POST, "/ai/invoke").header("x-developer-credit", &credit).header("accept", "text/event-stream");
    let body = json!({ "slug": "words", "input": {} });
    // The time limit makes it long-running.
    host.send(invoke.json(&body)).await.is(409);
    let result = host.send(events().json(&body)).await.is(200).events().pop().unwrap();
    assert_eq!((result.name.as_str(), &result.data["result"]["text"]), ("result", &json!("0\n1\n")));
    assert_eq!(result.data["receipt"].get("streamed"), None);
}

#[tokio::test]
async fn call_without_a_place_costs_nothing() {
    let host = started(Host::builder().flag("--sandbox-processes", 8)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let one = payer.pay(&host.challenge("words").await);
    let mut response = open(&host, &json!({}), &one).await;
    assert_eq!(next(&mut response).await, line("0\n"));
    let other = payer.pay(&host.challenge("words").await);
    refused(&host.call_paid("words", &json!({ "name": "b" }), &other).await, 503, "busy");
    assert_eq!((state(&host, &other).await, host.balance(&payer.address).await), ("released".to_owned(), FUNDS - PRICE));
    go(&host, "a", 1).await;
    assert_eq!((next(&mut response).await, next(&mut response).await), (line("1\n"), Ok(None)));
    go(&host, "b", 1).await;
    host.call_paid("words", &json!({ "name": "b" }), &other).await.is(200);
}

#[tokio::test]
async fn free_stream_has_a_receipt_with_its_hash() {
    let host = host().await;
    host.change("words", &json!({ "priceUsd": 0 })).await;
    go(&host, "a", 1).await;
    let answer = host.call("words", &json!({})).await.is(200);
    assert_eq!(&answer.body[..], b"0\n1\n");
    let receipt = host.receipt(&answer.receipt_id()).await;
    assert_eq!((&receipt["streamed"], &receipt["kind"]), (&json!(true), &json!("free")), "{receipt}");
    host.verify_receipt(&receipt).unwrap();
}
