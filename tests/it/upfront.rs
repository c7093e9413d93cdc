//! Tools that are charged before they run.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    clients::{pays_for, pays_with},
    harness::{
        Answer, Chain, Event, Facilitator, Host, HostBuilder, PAY_TO, Payer, Payment, SettleMode,
        chain::{clients, evm},
        eventually, js, micros,
    },
};

const FUNDS: u64 = 1_000_000;
const PRICE: u64 = 10_000;
const LONG: Duration = Duration::from_secs(60);

/// Counts its runs under the name in its input, then waits or fails as often as the input says.
const TOOL: &str = "export default async (req, ctx) => {
    const { name = 'a', wait = 0, fails = 0, ask = false } = req.input, key = `runs ${name}`;
    const runs = (await ctx.kv.get(key)) ?? 0;
    if (ask) return { runs };
    await ctx.kv.set(key, runs + 1);
    await new Promise((done) => setTimeout(done, wait));
    if (runs < fails) throw new Error('not yet');
    return { runs: runs + 1, payment: req.caller.paymentId };
};";

/// Publishes a tool that is charged before it runs.
async fn publish(host: &Host) {
    let mut tool = js("order", 0.01, TOOL);
    tool["settle"] = json!("before");
    tool["limits"] = json!({ "wallMs": 10_000 });
    host.publish(&tool).await;
}

/// Returns how often the tool ran for this name. The owner calls it for free.
async fn runs(host: &Host, name: &str) -> Value {
    let request = host.request(Method::POST, "/tools/order").header("x-admin-token", &host.admin);
    host.send(request.json(&json!({ "name": name, "ask": true }))).await.is(200).json()["runs"].clone()
}

async fn state(host: &Host, payment: &Payment) -> String {
    host.payment(&payment.id()).await.map_or("none".to_owned(), |state| state["state"].as_str().unwrap().to_owned())
}

/// Checks an error and whether it says that the payer was charged.
#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, charged: Value) -> Value {
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"], &error["charged"]), (status, &json!(code), &charged), "{answer:?}");
    error
}

/// Checks that the payer learns of the charge and of the next step.
#[track_caller]
fn paid_and_failed(answer: &Answer) -> Value {
    let error = refused(answer, 502, "paid_run_failed", json!(true));
    assert!(error["hint"].as_str().unwrap().contains("same payment"), "{error}");
    assert_eq!(answer.decoded("payment-response")["success"], true);
    assert_eq!(error["receiptId"], answer.receipt_id());
    error
}

#[tokio::test]
async fn call_is_settled_first_and_its_receipt_gets_the_result() {
    let host = Host::start().await;
    publish(&host).await;
    let challenge = host.challenge("order").await;
    assert_eq!(challenge["accepts"][0]["extra"]["paymentFlow"], "upfront", "{challenge}");
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&challenge);
    let slow = json!({ "name": "a", "wait": 1_500 });
    let (answer, ()) = tokio::join!(host.call_paid("order", &slow, &payment), async {
        eventually("the run has begun", LONG, async || (state(&host, &payment).await == "owed").then_some(())).await;
        assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE, "the money has moved");
        let id = host.payment(&payment.id()).await.unwrap()["receiptId"].as_str().unwrap().to_owned();
        let receipt = host.receipt(&id).await;
        assert_eq!((&receipt["settle"], receipt.get("resultHash")), (&json!("before"), None), "{receipt}");
        host.verify_receipt(&receipt).unwrap();
    });
    let answer = answer.is(200);
    assert_eq!(answer.json(), json!({ "runs": 1, "payment": payment.id() }));
    assert_eq!(answer.decoded("payment-response")["success"], true);
    let receipt = host.receipt(&answer.receipt_id()).await;
    assert!(receipt["resultHash"].as_str().unwrap().starts_with("sha256:"), "{receipt}");
    host.verify_receipt(&receipt).unwrap();
    // The same payment returns the same answer through every interface.
    assert_eq!(host.call_paid("order", &slow, &payment).await.is(200).body, answer.body);
    let invoked = host.request(Method::POST, "/ai/invoke").header(payment.header, payment.encoded());
    let invoked = host.send(invoked.json(&json!({ "slug": "order", "input": slow }))).await.is(200).json();
    assert_eq!((&invoked["result"]["runs"], &invoked["receipt"]), (&json!(1), &receipt));
    assert_eq!((runs(&host, "a").await, state(&host, &payment).await), (json!(1), "settled".to_owned()));
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}

#[tokio::test]
async fn nothing_runs_where_the_settlement_is_refused() {
    let facilitator = Facilitator::start(SettleMode::Refused("insufficient_funds")).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    publish(&host).await;
    let challenge = host.challenge("order").await;
    let payment = Payer::new().pay(&challenge);
    let answer = host.call_paid("order", &json!({}), &payment).await.is(402);
    assert_eq!(answer.decoded("payment-response")["success"], false);
    assert_eq!((runs(&host, "a").await, facilitator.asked()), (json!(0), 1));
    // The input is checked before the charge.
    let mut strict = js("strict", 0.01, TOOL);
    strict["settle"] = json!("before");
    strict["inputSchema"] = json!({ "type": "object", "required": ["name"] });
    host.publish(&strict).await;
    let payment = Payer::new().pay(&host.challenge("strict").await);
    host.call_paid("strict", &json!({}), &payment).await.fails(422, "invalid_input", "caller");
    assert_eq!(facilitator.asked(), 1);
    // The last event of a stream contains the refusal.
    let refused = last_event(&host, &json!({}), &Payer::new().pay(&challenge)).await;
    assert_eq!((refused.name.as_str(), &refused.data["settlement"]["success"]), ("error", &json!(false)), "{refused:?}");
    assert!(refused.data["paymentRequired"]["accepts"].is_array(), "{refused:?}");
}

/// Returns the last event of a streamed call.
async fn last_event(host: &Host, input: &Value, payment: &Payment) -> Event {
    let request = host.paid_request("order", input, payment).header("accept", "text/event-stream");
    host.send(request).await.is(200).events().pop().unwrap()
}

#[tokio::test]
async fn failed_stream_ends_with_its_settlement_and_receipt() {
    let host = Host::start().await;
    publish(&host).await;
    let payer = Payer::funded(&host, 1.0).await;
    let challenge = host.challenge("order").await;
    let (payment, input) = (payer.pay(&challenge), json!({ "fails": 1 }));
    let failed = last_event(&host, &input, &payment).await;
    let (reported, error) = (&failed.data, &failed.data["error"]);
    assert_eq!((failed.name.as_str(), &error["code"], &error["charged"]), ("error", &json!("paid_run_failed"), &json!(true)), "{reported}");
    assert!(error["hint"].as_str().unwrap().contains("same payment") && error["runsLeft"] == 9, "{error}");
    assert_eq!((&reported["paymentId"], &reported["settlement"]["success"]), (&json!(payment.id()), &json!(true)), "{reported}");
    assert_eq!(reported["receipt"], host.receipt(error["receiptId"].as_str().unwrap()).await);
    host.verify_receipt(&reported["receipt"]).unwrap();
    let done = last_event(&host, &input, &payment).await;
    assert_eq!((done.name.as_str(), &done.data["settlement"]), ("result", &reported["settlement"]), "{done:?}");
    // In MCP, the response that ends the stream of progress contains them.
    let payment = payer.pay(&challenge);
    let meta = json!({ "x402/payment": payment.payload, "progressToken": "p" });
    let arguments = json!({ "name": "streamed", "fails": 1, "wait": 300 });
    let failed = host.mcp().ask("tools/call", json!({ "name": "order", "arguments": arguments, "_meta": meta })).await.result();
    assert_eq!((&failed["isError"], &failed["_meta"]["x402/payment-response"]["success"]), (&json!(true), &json!(true)), "{failed}");
    assert_eq!(failed["_meta"]["tollhouse/receipt"]["paymentId"], payment.id(), "{failed}");
}

#[tokio::test]
async fn unknown_settlement_runs_nothing_until_it_is_found_settled() {
    let facilitator = Facilitator::start(SettleMode::Unanswered).await;
    let host = Host::builder().settled_by(&facilitator.url).start().await;
    publish(&host).await;
    let payment = Payer::new().pay(&host.challenge("order").await);
    for _ in 0..2 {
        refused(&host.call_paid("order", &json!({}), &payment).await, 502, "settlement_unknown", json!("unknown"));
        assert_eq!(runs(&host, "a").await, 0);
    }
    facilitator.set_mode(SettleMode::Well);
    eventually("it is found settled", LONG, async || (state(&host, &payment).await == "owed").then_some(())).await;
    assert_eq!(runs(&host, "a").await, 0, "nobody asked for it yet");
    let answer = host.call_paid("order", &json!({}), &payment).await.is(200);
    assert_eq!(host.call_paid("order", &json!({}), &payment).await.is(200).body, answer.body);
    assert_eq!(runs(&host, "a").await, 1);
    host.verify_receipt(&host.receipt(&answer.receipt_id()).await).unwrap();
}

#[tokio::test]
async fn failed_run_says_that_it_was_paid_and_can_be_repeated() {
    let host = Host::builder().env("TOLLHOUSE_PAID_RUNS", 3).start().await;
    let (id, key) = host.register("A builder").await;
    let mut tool = js("order", 0.01, TOOL);
    tool["settle"] = json!("before");
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    let challenge = host.challenge("order").await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&challenge);
    let input = json!({ "fails": 2 });
    for remaining in [2, 1] {
        let error = paid_and_failed(&host.call_paid("order", &input, &payment).await);
        assert_eq!((&error["runsLeft"], &error["cause"]["code"]), (&json!(remaining), &json!("handler_failed")), "{error}");
        assert_eq!((&error["paymentId"], state(&host, &payment).await), (&json!(payment.id()), "owed".to_owned()));
    }
    // The payment is bound to this request.
    host.call_paid("order", &json!({}), &payment).await.fails(409, "payment_reused", "caller");
    let answer = host.call_paid("order", &input, &payment).await.is(200);
    assert_eq!(answer.json()["runs"], 3);
    // Another payment fails until its runs are used up.
    let other = payer.pay(&challenge);
    let never = json!({ "name": "b", "fails": 99 });
    for _ in 0..2 {
        paid_and_failed(&host.call_paid("order", &never, &other).await);
    }
    let last = refused(&host.call_paid("order", &never, &other).await, 502, "paid_run_failed", json!(true));
    assert!(last["runsLeft"] == 0 && last["hint"].as_str().unwrap().contains("refund"), "{last}");
    let error = refused(&host.call_paid("order", &never, &other).await, 410, "no_more_runs", json!(true));
    assert_eq!((error["receiptId"].is_string(), runs_of(&host, &key, "b").await), (true, json!(3)), "{error}");
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * PRICE);
    // Two sales, each counted once, and five failed runs.
    let revenue = eventually("the failures are counted", LONG, async || {
        let revenue = host.as_builder(&key, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json();
        (revenue["totals"]["failedCalls"] == 5).then_some(revenue)
    })
    .await;
    assert_eq!((&revenue["totals"]["paidCalls"], micros(&revenue["totals"]["grossUsd"])), (&json!(2), 2 * PRICE), "{revenue}");
    let events = host.as_builder(&key, Method::GET, "/ai/builders/events?limit=100", &Value::Null).await.is(200).json();
    let sold = |event: &&Value| event["data"].get("owner").is_none();
    let of =
        |kind: &str| events["events"].as_array().unwrap().iter().filter(sold).filter(|event| event["kind"] == kind).collect::<Vec<_>>();
    assert_eq!([of("payment.settled").len(), of("call.succeeded").len(), of("call.failed").len()], [2, 1, 5], "{events} {id}");
    assert!(of("call.failed").iter().all(|event| event["data"]["charged"] == true), "{events}");
}

async fn runs_of(host: &Host, key: &str, name: &str) -> Value {
    host.as_builder(key, Method::POST, "/tools/order", &json!({ "name": name, "ask": true })).await.is(200).json()["runs"].clone()
}

#[tokio::test]
async fn handlers_own_error_is_reported_with_the_receipt() {
    let host = Host::start().await;
    let mut tool = js("order", 0.01, "export default () => Response.json({ why: 'no such order' }, { status: 404 });");
    tool["settle"] = json!("before");
    host.publish(&tool).await;
    let payment = Payer::funded(&host, 1.0).await.pay(&host.challenge("order").await);
    let error = paid_and_failed(&host.call_paid("order", &json!({}), &payment).await);
    assert_eq!(error["answer"], json!({ "status": 404, "body": { "why": "no such order" } }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_host_charges_once_and_the_payer_gets_an_answer() {
    let how = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    let mut host = how.start().await;
    publish(&host).await;
    let challenge = host.challenge("order").await;
    let payer = Payer::funded(&host, 1.0).await;
    // Killed during the run.
    let during = (payer.pay(&challenge), json!({ "name": "during", "wait": 8_000 }));
    let running = tokio::spawn(Host::try_send(host.paid_request("order", &during.1, &during.0)));
    eventually("it runs", LONG, async || (state(&host, &during.0).await == "owed").then_some(())).await;
    // Killed after a run whose answer nobody has read.
    let after = (payer.pay(&challenge), json!({ "name": "after" }));
    drop(tokio::spawn(Host::try_send(host.paid_request("order", &after.1, &after.0))));
    eventually("it has ended", LONG, async || (state(&host, &after.0).await == "settled").then_some(())).await;
    host.kill9();
    assert!(running.await.unwrap().is_err());
    host.restart().await;
    for ((payment, input), times) in [(&during, 2), (&after, 1)] {
        let answer = host.call_paid("order", input, payment).await.is(200);
        // Data written by an interrupted run may be lost with it.
        assert!(answer.json()["runs"].as_u64().unwrap() <= times, "{}", answer.json());
        assert_eq!(host.call_paid("order", input, payment).await.is(200).body, answer.body);
        host.verify_receipt(&host.receipt(&answer.receipt_id()).await).unwrap();
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_that_is_killed_after_the_settlement_runs_nothing_before_it_is_asked() {
    let facilitator = Facilitator::start(SettleMode::Hangs).await;
    let how = Host::builder().settled_by(&facilitator.url).env("TOLLHOUSE_BASE_URL", "https://tollhouse.example");
    let mut host = how.start().await;
    publish(&host).await;
    let payment = Payer::new().pay(&host.challenge("order").await);
    let settling = tokio::spawn(Host::try_send(host.paid_request("order", &json!({}), &payment)));
    eventually("it settles", LONG, async || (facilitator.asked() == 1).then_some(())).await;
    host.kill9();
    assert!(settling.await.unwrap().is_err());
    facilitator.set_mode(SettleMode::Well);
    host.restart().await;
    eventually("it is found settled", LONG, async || (state(&host, &payment).await == "owed").then_some(())).await;
    assert_eq!(runs(&host, "a").await, 0);
    host.call_paid("order", &json!({}), &payment).await.is(200);
    host.call_paid("order", &json!({}), &payment).await.is(200);
    assert_eq!(runs(&host, "a").await, 1);
}

#[tokio::test]
async fn requests_with_one_payment_share_one_run() {
    let host = Host::start().await;
    publish(&host).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("order").await);
    let input = json!({ "wait": 300, "fails": 1 });
    let all = |_| join_all((0..8).map(|_| host.call_paid("order", &input, &payment)));
    for answer in all(1).await {
        paid_and_failed(&answer);
    }
    let answers = all(2).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body), "{answers:?}");
    assert_eq!((runs(&host, "a").await, host.balance(&payer.address).await), (json!(2), FUNDS - PRICE));
}

#[tokio::test]
async fn credit_is_debited_before_the_run_and_names_the_call() {
    let host = Host::start().await;
    publish(&host).await;
    let credit = host.mint(1.0).await;
    let call = async |key: &str, input: Value| {
        let request = host.request(Method::POST, "/tools/order").header("x-developer-credit", &credit);
        host.send(request.header("idempotency-key", key).json(&input)).await
    };
    host.call_credit("order", &json!({}), &credit).await.fails(400, "idempotency_key_required", "caller");
    assert_eq!((host.credit_balance(&credit).await, runs(&host, "a").await), (FUNDS, json!(0)));
    let failed = call("one", json!({ "fails": 1 })).await;
    refused(&failed, 502, "paid_run_failed", json!(true));
    assert_eq!(host.credit_balance(&credit).await, FUNDS - PRICE);
    let answer = call("one", json!({ "fails": 1 })).await.is(200);
    assert_eq!(call("one", json!({ "fails": 1 })).await.is(200).body, answer.body);
    assert_eq!((runs(&host, "a").await, host.credit_balance(&credit).await), (json!(2), FUNDS - PRICE));
    let receipt = host.receipt(&answer.receipt_id()).await;
    assert_eq!((&receipt["kind"], &receipt["settle"]), (&json!("credit"), &json!("before")), "{receipt}");
    host.verify_receipt(&receipt).unwrap();
    // A credit with too little balance runs nothing.
    let poor = host.mint(0.001).await;
    let request = host.request(Method::POST, "/tools/order").header("x-developer-credit", &poor).header("idempotency-key", "k");
    host.send(request.json(&json!({ "name": "poor" }))).await.fails(403, "insufficient_credit", "caller");
    assert_eq!(runs(&host, "poor").await, 0);
}

#[tokio::test]
async fn call_over_mcp_is_charged_before_it_runs() {
    let host = Host::start().await;
    publish(&host).await;
    let client = host.mcp();
    let payer = Payer::funded(&host, 1.0).await;
    let request = client.call("order", json!({}), json!({})).await["structuredContent"].clone();
    assert_eq!(request["accepts"][0]["extra"]["paymentFlow"], "upfront", "{request}");
    let payment = payer.pay(&request);
    let meta = || json!({ "x402/payment": payment.payload });
    let failed = client.call("order", json!({ "fails": 1 }), meta()).await;
    assert_eq!((&failed["isError"], &failed["_meta"]["x402/payment-response"]["success"]), (&json!(true), &json!(true)), "{failed}");
    assert_eq!(failed["_meta"]["tollhouse/error"]["code"], "paid_run_failed", "{failed}");
    assert!(failed["content"][0]["text"].as_str().unwrap().contains("without another charge"), "{failed}");
    let done = client.call("order", json!({ "fails": 1 }), meta()).await;
    assert_eq!((&done["structuredContent"]["runs"], &done["isError"]), (&json!(2), &json!(false)), "{done}");
    assert_eq!(done["_meta"]["tollhouse/receipt"]["receiptId"], failed["_meta"]["tollhouse/receipt"]["receiptId"]);
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
    let tool = client.tool("order").await.unwrap();
    assert!(tool["description"].as_str().unwrap().contains("charged before it runs"), "{tool}");
}

#[tokio::test]
async fn task_of_mcp_has_the_answer_of_a_call_that_was_charged_first() {
    let host = Host::start().await;
    let mut tool = js("order", 0.01, TOOL);
    (tool["settle"], tool["limits"]) = (json!("before"), json!({ "wallMs": 20_000 }));
    host.publish(&tool).await;
    let mut client = host.mcp();
    client.capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&client.call("order", json!({}), json!({})).await["structuredContent"]);
    let created = client.call("order", json!({ "wait": 700 }), json!({ "x402/payment": payment.payload })).await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
    let id = created["taskId"].as_str().unwrap();
    let done = eventually("the task ends", LONG, || async {
        let task = client.ask("tasks/get", json!({ "taskId": id })).await.result();
        (task["status"] != "working").then_some(task)
    })
    .await;
    assert_eq!((&done["status"], &done["result"]["structuredContent"]["runs"]), (&json!("completed"), &json!(1)), "{done}");
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}

#[tokio::test]
async fn owner_sets_when_a_call_is_charged() {
    let host = Host::start().await;
    publish(&host).await;
    let record = |answer: Answer| answer.is(200).json()["endpoint"].clone();
    let response = record(host.get("/ai/endpoints/order").await);
    assert_eq!(response["settle"], "before", "{response}");
    let changed = host.change("order", &json!({ "settle": "after" })).await;
    let changed = changed.get("endpoint").unwrap_or(&changed);
    assert_eq!(changed["settle"], "after", "{changed}");
    assert_eq!(record(host.get("/ai/endpoints/order").await).get("settle"), None, "defaults are omitted");
    let refused =
        host.manage(Method::PATCH, "/ai/endpoints/order", &json!({ "settle": "before", "maxPriceUsd": 0.05 })).await.is(422).json();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        refused["error"]["pointer"] == "/settle" && message.contains("`settle: before`") && message.contains("`maxPriceUsd`"),
        "{refused}"
    );
    let mut both = js("both", 0.01, TOOL);
    (both["settle"], both["maxPriceUsd"]) = (json!("before"), json!(0.05));
    for path in ["/ai/endpoints/create", "/ai/endpoints/check"] {
        let refused = host.manage(Method::POST, path, &both).await.is(422).json();
        assert!(refused.to_string().contains("/settle"), "{path}: {refused}");
    }
}

#[tokio::test]
async fn paused_tool_says_that_the_answer_is_owed() {
    let host = Host::start().await;
    publish(&host).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("order").await);
    let input = json!({ "fails": 1 });
    paid_and_failed(&host.call_paid("order", &input, &payment).await);
    host.change("order", &json!({ "status": "paused" })).await;
    let error = refused(&host.call_paid("order", &input, &payment).await, 409, "answer_owed", json!(true));
    assert_eq!(error["paymentId"], payment.id(), "{error}");
    // The payment stays valid, whatever the tool costs by then.
    host.change("order", &json!({ "status": "active", "priceUsd": 0, "settle": "after" })).await;
    host.call_paid("order", &input, &payment).await.is(200);
    assert_eq!(host.balance(&payer.address).await, FUNDS - PRICE);
}

/// Regression test: the payer of a deleted tool got 409 forever, although the payment had been refunded.
#[tokio::test]
async fn refunded_payment_of_a_deleted_tool_is_owed_no_answer() {
    let host = Host::start().await;
    publish(&host).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("order").await);
    let input = json!({ "fails": 1 });
    let failed = paid_and_failed(&host.call_paid("order", &input, &payment).await);
    host.manage(Method::DELETE, "/ai/endpoints/order", &Value::Null).await.is(200);
    refused(&host.call_paid("order", &input, &payment).await, 409, "answer_owed", json!(true));
    let refund = json!({ "receiptId": failed["receiptId"], "transaction": format!("0x{}", "7".repeat(64)) });
    host.manage(Method::POST, "/ai/admin/refunds", &refund).await.is(200);
    let error = refused(&host.call_paid("order", &input, &payment).await, 410, "no_more_runs", json!(true));
    assert_eq!((&error["paymentId"], &error["receiptId"]), (&json!(payment.id()), &failed["receiptId"]), "{error}");
}

/// Checks that stock clients of v2 pay, and that one of v1 gets a useful error.
async fn stock_clients_pay(how: HostBuilder, chain: Option<&Chain>) {
    let host = how.start().await;
    let mut tool = js("shout", 0.01, "export default async (req) => ({ echo: req.input });");
    tool["settle"] = json!("before");
    host.publish(&tool).await;
    let python = clients().join("venv/bin/python");
    for (program, script) in [("node".into(), "pay.mjs"), (python.clone(), "pay.py"), (python, "pay-requests.py")] {
        let payer = match chain {
            Some(chain) => {
                let payer = Payer::new();
                chain.mint(&payer.address, FUNDS).await;
                payer
            }
            None => Payer::funded(&host, 1.0).await,
        };
        let done = pays_with(&program, script, &host, Some(&payer)).await;
        assert_eq!((&done["status"], &done["body"]), (&json!(200), &json!({ "echo": { "text": "hello" } })), "{script}: {done}");
        let remaining = match chain {
            Some(chain) => chain.balance(&payer.address).await,
            None => host.balance(&payer.address).await,
        };
        assert_eq!(remaining, FUNDS - PRICE, "{script}");
        let receipt = host.receipt(done["receiptId"].as_str().unwrap()).await;
        assert_eq!((&receipt["settle"], &receipt["transaction"]), (&json!("before"), &done["settlement"]["transaction"]), "{receipt}");
        host.verify_receipt(&receipt).unwrap();
    }
    let request = (format!("{}/tools/shout", host.url), json!({ "text": "hello" }));
    let payer = Payer::new();
    pays_for(request, &[], "node".as_ref(), "pay-v1.mjs", Some(&payer)).await.unwrap_err();
    let answer = host.challenge_v1("shout").await;
    assert!(answer["accepts"] == json!([]) && answer["message"].as_str().unwrap().contains("x402 v2"), "{answer}");
}

#[tokio::test]
async fn stock_clients_pay_before_the_run_with_play_money() {
    stock_clients_pay(Host::builder(), None).await;
}

#[tokio::test]
async fn stock_clients_pay_before_the_run_on_a_chain() {
    let chain = Chain::start().await;
    stock_clients_pay(evm(&chain), Some(&chain)).await;
    assert_eq!(chain.balance(PAY_TO).await, 3 * PRICE);
}
