//! Calls that outlive their request.

use std::time::Duration;

use serde_json::{Value, json};

use super::{FUNDS, MICROS, PRICE, bought, bought_over_mcp, challenge, paid_in_meta, slow, takes_tasks};
use crate::harness::{Facilitator, Host, Mcp, Payer, SettleMode, eventually, js};

async fn task(client: &Mcp<'_>, id: &str) -> Value {
    client.ask("tasks/get", json!({ "taskId": id })).await.result()
}

/// Waits until the task has ended, and returns it.
async fn ended(client: &Mcp<'_>, id: &str) -> Value {
    eventually("the task ends", Duration::from_secs(20), || async {
        Some(task(client, id).await).filter(|task| task["status"] != "working")
    })
    .await
}

#[tokio::test]
async fn long_call_is_a_task_for_clients_with_tasks() {
    let host = Host::start().await;
    host.publish(&slow("count", PRICE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    // A call becomes a task only after payment and validation of the input.
    let request = challenge(&client.call("count", json!({}), json!({})).await);
    let payment = payer.pay(&request);
    let created = client.call("count", json!({ "ms": 700 }), paid_in_meta(&payment)).await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
    assert!(created["ttlMs"].is_u64() && created["pollIntervalMs"].is_u64(), "{created}");
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(task(&client, id).await["status"], "working");
    let done = ended(&client, id).await;
    assert_eq!((&done["status"], &done["result"]["structuredContent"]), (&json!("completed"), &json!({ "runs": 1 })), "{done}");
    let settled = &done["result"]["_meta"]["x402/payment-response"];
    assert_eq!(settled["success"], true);
    // The same payment gives the same answer, over HTTP too.
    let again = host.call_paid("count", &json!({ "ms": 700 }), &payment).await.is(200);
    assert_eq!(bought(&again), bought_over_mcp(&done["result"]));
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS);

    // Other ids are unknown, and a client without support for tasks cannot see any.
    client.ask("tasks/get", json!({ "taskId": format!("{}x", &id[..id.len() - 1]) })).await.fails(200, -32602);
    client.ask("tasks/cancel", json!({ "taskId": "task_none" })).await.fails(200, -32602);
    host.mcp().ask("tasks/get", json!({ "taskId": id })).await.fails(400, -32021);
    for method in ["tasks/list", "tasks/result"] {
        client.ask(method, json!({ "taskId": id })).await.fails(404, -32601);
    }
    let plain = host.mcp().call("count", json!({}), paid_in_meta(&payer.pay(&request))).await;
    assert_eq!((&plain["resultType"], &plain["structuredContent"]), (&json!("complete"), &json!({ "runs": 2 })));
}

#[tokio::test]
async fn task_shows_progress_and_no_logs() {
    let host = Host::start().await;
    let source = "export default async (req, ctx) => {
        ctx.progress('half way', 0.5);
        ctx.log.info('for the owner');
        await new Promise((done) => setTimeout(done, 4_000));
        return {};
    };";
    let mut tool = js("talker", 0.0, source);
    tool["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&tool).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let created = client.call("talker", json!({}), json!({})).await;
    let id = created["taskId"].as_str().unwrap();
    eventually("its status", Duration::from_secs(5), async || {
        let answer = task(&client, id).await["statusMessage"].clone();
        assert!(answer != "for the owner" && !answer.is_null(), "{answer}");
        (answer == "half way").then_some(())
    })
    .await;
    assert_eq!(ended(&client, id).await["status"], "completed");
}

#[tokio::test]
async fn a_task_that_is_canceled_is_not_charged() {
    let host = Host::start().await;
    host.publish(&slow("count", PRICE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let payment = payer.pay(&host.challenge("count").await);
    let created = client.call("count", json!({ "ms": 15_000 }), paid_in_meta(&payment)).await;
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(client.ask("tasks/cancel", json!({ "taskId": id })).await.result()["resultType"], "complete");
    assert_eq!(ended(&client, id).await["status"], "cancelled");
    assert_eq!(client.ask("tasks/cancel", json!({ "taskId": id })).await.result()["resultType"], "complete");
    assert_eq!(host.payment(&payment.id()).await.unwrap()["state"], "released");
    assert_eq!(host.balance(&payer.address).await, FUNDS);
}

#[tokio::test]
async fn a_task_outlives_the_host_that_is_killed() {
    // The port changes at each start. Payments name the tool by its public address.
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").flag("--mcp-hosts", "*").start().await;
    host.publish(&slow("count", PRICE)).await;
    host.publish(&slow("free", 0.0)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let request = host.challenge("count").await;
    let (settled, cut_off) = (payer.pay(&request), payer.pay(&request));
    let mut ids = vec![];
    for (name, ms, meta) in [("count", 50, paid_in_meta(&settled)), ("count", 15_000, paid_in_meta(&cut_off)), ("free", 15_000, json!({}))]
    {
        let mut client = host.mcp();
        client.capabilities = takes_tasks();
        let created = client.call(name, json!({ "ms": ms }), meta).await;
        ids.push(created["taskId"].as_str().unwrap().to_owned());
    }
    let before = {
        let mut client = host.mcp();
        client.capabilities = takes_tasks();
        ended(&client, &ids[0]).await
    };
    host.restart().await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    assert_eq!(task(&client, &ids[0]).await["result"], before["result"]);
    for id in &ids[1..] {
        let failed = ended(&client, id).await;
        assert_eq!((&failed["status"], failed.get("result")), (&json!("failed"), None), "{failed}");
        assert!(failed["error"]["message"].as_str().unwrap().contains("restarted"), "{failed}");
    }
    assert_eq!(host.balance(&payer.address).await, FUNDS - MICROS, "one was settled, the other was not");
    assert_eq!(host.payment(&cut_off.id()).await.unwrap()["state"], "released");
    // The payment of the interrupted call can be used for another one, and the settled payment
    // gives the same answer.
    let created = client.call("count", json!({ "ms": 20 }), paid_in_meta(&cut_off)).await;
    let done = ended(&client, created["taskId"].as_str().unwrap()).await;
    assert_eq!(done["status"], "completed", "{done}");
    let again = client.call("count", json!({ "ms": 50 }), paid_in_meta(&settled)).await;
    assert_eq!(bought_over_mcp(&again), bought_over_mcp(&before["result"]));
    assert_eq!(host.balance(&payer.address).await, FUNDS - 2 * MICROS);
}

#[tokio::test]
async fn a_task_killed_between_settling_and_answering_has_its_answer() {
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").flag("--mcp-hosts", "*").start().await;
    host.publish(&slow("count", PRICE)).await;
    let payer = Payer::funded(&host, 10.0).await;
    let request = host.challenge("count").await;
    let mut charged = 0;
    for round in 0..4_u64 {
        let payment = payer.pay(&request);
        let id = {
            let mut client = host.mcp();
            client.capabilities = takes_tasks();
            let created = client.call("count", json!({ "ms": 30, "round": round }), paid_in_meta(&payment)).await;
            created["taskId"].as_str().unwrap().to_owned()
        };
        // The kill comes around the end of the run, the settlement and the last commit.
        tokio::time::sleep(Duration::from_millis(15 + 18 * round)).await;
        host.restart().await;
        let mut client = host.mcp();
        client.capabilities = takes_tasks();
        let end = ended(&client, &id).await;
        let state = host.payment(&payment.id()).await.map(|payment| payment["state"].clone());
        match end["status"].as_str() {
            Some("completed") => {
                charged += 1;
                assert_eq!(state, Some(json!("settled")));
                assert_eq!(end["result"]["isError"], false, "{end}");
            }
            Some("failed") => assert_eq!(state, Some(json!("released")), "{end}"),
            other => panic!("{other:?}: {end}"),
        }
        assert_eq!(host.balance(&payer.address).await, 10 * FUNDS - charged * MICROS);
    }
}

/// Regression test: if the settlement took more than 5 seconds, the task did not name its payment.
#[tokio::test]
async fn a_task_killed_after_a_long_settlement_says_that_it_was_charged() {
    let facilitator = Facilitator::start(SettleMode::Hangs).await;
    let host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").flag("--mcp-hosts", "*");
    let mut host = host.settled_by(&facilitator.url).start().await;
    let mut tool = slow("count", PRICE);
    tool["settle"] = json!("before");
    host.publish(&tool).await;
    let payment = Payer::new().pay(&host.challenge("count").await);
    let id = {
        let mut client = host.mcp();
        client.capabilities = takes_tasks();
        let created = client.call("count", json!({ "ms": 15_000 }), paid_in_meta(&payment)).await;
        created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
    };
    let state = async || host.payment(&payment.id()).await.map(|payment| payment["state"].clone());
    assert_eq!(state().await, Some(json!("settling")));
    facilitator.set_mode(SettleMode::Well);
    eventually("the run is owed", Duration::from_secs(10), async || (state().await == Some(json!("owed"))).then_some(())).await;
    host.restart().await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let failed = ended(&client, &id).await;
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains(&payment.id()) && message.contains("was charged"), "{failed}");
}

/// After a restart, a request for the task includes no payment. The call therefore needs an
/// idempotency key, under which its answer is stored.
#[tokio::test]
async fn a_task_on_credit_is_reserved_though_its_call_has_no_name() {
    let host = Host::start().await;
    let source = "export default async (req, ctx) => {
        ctx.progress(req.caller.paymentId);
        await new Promise((done) => setTimeout(done, 1_500));
        return {};
    };";
    let mut tool = js("names", PRICE, source);
    tool["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&tool).await;
    let credit = host.mint(1.0).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let created = client.call("names", json!({}), json!({ "tollhouse/credit": credit })).await;
    let id = created["taskId"].as_str().unwrap();
    let reserved = eventually("the handler says its payment", Duration::from_secs(20), || async {
        let text = task(&client, id).await["statusMessage"].as_str()?.to_owned();
        host.payment(&text).await.filter(|_| text.starts_with("pmt_"))
    })
    .await;
    assert_eq!(reserved["state"], "reserved");
    assert_eq!(ended(&client, id).await["status"], "completed");
    assert_eq!(host.credit_balance(&credit).await, 1_000_000 - MICROS);
}

#[tokio::test]
async fn a_tasks_result_is_what_its_handler_wrote_to_the_last_digit() {
    let host = Host::start().await;
    let written = r#"{"n":12345678901234567890.10,"n":1e-400,"big":123456789012345678901234567890}"#;
    let source = format!(
        "export default async () => {{
            await new Promise((done) => setTimeout(done, 300));
            return new Response('{written}', {{ headers: {{ 'content-type': 'application/json' }} }});
        }};"
    );
    let mut tool = js("exact", 0.0, &source);
    tool["limits"] = json!({ "wallMs": 20_000 });
    host.publish(&tool).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let created = client.call("exact", json!({}), json!({})).await;
    let id = created["taskId"].as_str().unwrap();
    let done = ended(&client, id).await;
    assert_eq!(
        (&done["resultType"], &done["status"], &done["result"]["isError"]),
        (&json!("complete"), &json!("completed"), &json!(false))
    );
    for accept in ["application/json, text/event-stream", "text/event-stream"] {
        client.accept = accept;
        let answer = host.send(client.request("tasks/get", json!({ "taskId": id }))).await.is(200);
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(text.contains(&format!(r#""structuredContent":{written}"#)), "{text}");
    }
}

/// Returns a free tool with tasks and an answer of this size.
fn large(slug: &str, bytes: usize) -> Value {
    let source = format!(
        "export default async (req) => {{
            await new Promise((done) => setTimeout(done, 20));
            return {{ number: req.input.number, text: 'x'.repeat({bytes}) }};
        }};"
    );
    let mut tool = js(slug, 0.0, &source);
    tool["limits"] = json!({ "wallMs": 20_000, "outputBytes": 1_048_576 });
    tool
}

#[tokio::test]
async fn free_tasks_keep_to_their_bytes_and_paid_calls_continue() {
    const BYTES: usize = 520_000;
    let host = Host::builder().flag("--mcp-task-bytes", 4 << 20).start().await;
    host.publish(&large("flood", BYTES)).await;
    host.publish(&slow("count", PRICE)).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let mut ids = vec![];
    for number in 0..60 {
        let created = client.call("flood", json!({ "number": number }), json!({})).await;
        assert_eq!(created["resultType"], "task", "{created}");
        let id = created["taskId"].as_str().unwrap().to_owned();
        let done = ended(&client, &id).await;
        assert_eq!(done["result"]["structuredContent"]["number"], number);
        assert_eq!(done["result"]["structuredContent"]["text"].as_str().unwrap().len(), BYTES);
        assert!(done["ttlMs"].as_u64().unwrap() <= 11 * 60_000, "minutes, not a day: {}", done["ttlMs"]);
        ids.push(id);
    }
    let stored = host.get("/health").await.is(200).json()["stored"]["tasks"].clone();
    assert!(stored["bytes"].as_u64().unwrap() < 1 << 20, "{stored}");
    assert!(stored["count"].as_u64().unwrap() <= 10, "{stored}");
    // The oldest are gone, and the newest are there.
    client.ask("tasks/get", json!({ "taskId": ids[0] })).await.fails(200, -32602);
    assert_eq!(task(&client, &ids[59]).await["status"], "completed");
    let payer = Payer::funded(&host, 1.0).await;
    let created = client.call("count", json!({}), paid_in_meta(&payer.pay(&host.challenge("count").await))).await;
    let done = ended(&client, created["taskId"].as_str().unwrap()).await;
    assert_eq!(done["result"]["structuredContent"], json!({ "runs": 1 }), "{done}");
    assert_eq!(done["ttlMs"], 24 * 60 * 60 * 1_000);
}

#[tokio::test]
async fn a_paid_task_is_stored_without_the_answer_that_its_payment_keeps() {
    let host = Host::start().await;
    let mut tool = large("large", 520_000);
    tool["priceUsd"] = json!(PRICE);
    host.publish(&tool).await;
    let payer = Payer::funded(&host, 1.0).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let created = client.call("large", json!({ "number": 7 }), paid_in_meta(&payer.pay(&host.challenge("large").await))).await;
    let done = ended(&client, created["taskId"].as_str().unwrap()).await;
    assert_eq!(done["result"]["structuredContent"]["number"], 7, "{done}");
    assert_eq!(done["result"]["_meta"]["x402/payment-response"]["success"], true);
    let stored = host.get("/health").await.is(200).json()["stored"]["tasks"].clone();
    assert!(stored["count"] == 1 && stored["bytes"].as_u64().unwrap() < 2_048, "{stored}");
}

#[tokio::test]
async fn an_address_has_so_many_tasks_at_once_and_a_further_call_is_answered_when_it_ends() {
    let host = Host::builder().flag("--mcp-address-tasks", 1).start().await;
    host.publish(&slow("count", 0.0)).await;
    let mut client = host.mcp();
    client.capabilities = takes_tasks();
    let first = client.call("count", json!({ "ms": 15_000 }), json!({})).await;
    assert_eq!(first["resultType"], "task", "{first}");
    let second = client.call("count", json!({ "ms": 10 }), json!({})).await;
    assert_eq!((&second["resultType"], &second["isError"]), (&json!("complete"), &json!(false)), "{second}");
    client.ask("tasks/cancel", json!({ "taskId": first["taskId"] })).await.result();
    let id = first["taskId"].as_str().unwrap();
    assert_eq!(ended(&client, id).await["status"], "cancelled");
    eventually("its place is free", Duration::from_secs(20), async || {
        (client.call("count", json!({}), json!({})).await["resultType"] == "task").then_some(())
    })
    .await;
}
