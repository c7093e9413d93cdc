//! The share of the host that one address may use while others need it.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Answer, Host, eventually, js};

const COMPUTES: &str = "export default (req) => {
    let value = 1;
    for (let turn = 0; turn < req.input.turns; turn++) value = (value * 31 + turn) % 1000003;
    return { value };
};";

#[tokio::test]
async fn one_address_cannot_have_the_processor_for_itself_while_others_want_it() {
    is_refused_its_fill(&js("greedy", 0.0, COMPUTES), &json!({ "turns": 30_000_000 })).await;
}

#[tokio::test]
async fn the_start_of_a_worker_counts_for_whose_call_it_is() {
    let mut tool = js("greedy", 0.0, "export default () => ({});");
    tool["isolation"] = json!("fresh");
    is_refused_its_fill(&tool, &json!({})).await;
}

#[tokio::test]
async fn the_check_of_an_input_counts_for_whose_it_is_where_the_tool_is_built_in() {
    let level = |n: usize| json!({ "$ref": format!("#/$defs/{n}") });
    let mut twice: serde_json::Map<_, _> = (0..10).map(|n| (n.to_string(), json!({ "allOf": [level(n + 1), level(n + 1)] }))).collect();
    twice.insert("10".to_owned(), json!({ "type": "integer" }));
    let schema = json!({ "type": "object", "properties": { "a": { "items": level(0) } }, "$defs": twice });
    let tool = json!({ "slug": "greedy", "title": "Echo", "priceUsd": 0, "handlerType": "receipt_echo", "inputSchema": schema });
    is_refused_its_fill(&tool, &json!({ "a": vec![1; 2_000] })).await;
}

/// Lists and batches wait for turns like calls. Calls of their address use up its share, because a list alone is too cheap
/// for that. A list without a turn would be answered for as long as the address asks.
#[tokio::test]
async fn lists_and_batches_over_mcp_count_for_their_address() {
    let host = Host::builder().flag("--address-cpu-percent", 1).start().await;
    host.publish(&js("cheap", 0.0, "export default () => ({});")).await;
    host.publish(&js("greedy", 0.0, COMPUTES)).await;
    let list = |meta: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let plain = list(json!({}));
    let lists = [
        ("", "2025-11-25", plain.clone()),
        ("?tools=cheap,greedy", "2025-11-25", plain.clone()),
        // A list with a progress token does not take the fast path.
        ("", "2025-11-25", list(json!({ "progressToken": 1 }))),
        ("", "2025-03-26", json!([plain, plain])),
    ];
    let (greedy, neighbor) = (at(2), at(3));
    let ask = async |client: &Client, (query, revision, message): &(&str, &str, Value)| {
        let request = client.post(format!("{}/ai/mcp{query}", host.url)).header("accept", "application/json, text/event-stream");
        let answer = host.send(request.header("mcp-protocol-version", *revision).json(message)).await;
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    let (until, open) = (Instant::now() + Duration::from_secs(120), AtomicUsize::new(lists.len()));
    let goes_on = || open.load(Ordering::Relaxed) > 0 && Instant::now() < until;

    let computes = async || {
        while goes_on() {
            let call = greedy.post(format!("{}/tools/greedy", host.url)).json(&json!({ "turns": 30_000_000 }));
            host.send(call).await;
        }
    };
    let floods = join_all(lists.iter().map(async |list| {
        while goes_on() {
            if ask(&greedy, list).await.contains("CPU time") {
                open.fetch_sub(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }));
    let others = async {
        for list in lists.iter().cycle() {
            if !goes_on() {
                break;
            }
            let answer = ask(&neighbor, list).await;
            assert!(answer.contains("\"tools\":[") && !answer.contains("CPU time"), "{list:?} of another address: {answer}");
            host.call("cheap", &json!({})).await.is(200);
            sleep(Duration::from_millis(50)).await;
        }
    };
    let connections = thread::available_parallelism().unwrap().get() * 2;
    let computing = join_all((0..connections).map(|_| computes()));
    let (refused, (), _) = tokio::join!(floods, others, computing);
    assert_eq!(refused, [true; 4], "a list was always answered: {lists:?}");
}

#[tokio::test]
async fn stopping_inputs_slow_only_their_senders() {
    let host = Host::start().await;
    host.publish(&js("shared", 0.01, "export default (req) => req.input.wait ? new Promise(() => {}) : {};")).await;
    let (heavy, other) = (host.mint(1.0).await, host.mint(1.0).await);
    let wait = json!({ "wait": true });
    for _ in 0..5 {
        host.call_credit("shared", &wait, &heavy).await.fails(502, "handler_failed", "tool");
    }
    let slowed = host.call_credit("shared", &json!({}), &heavy).await;
    slowed.fails(429, "rate_limited", "caller");
    assert!((1..=60).contains(&slowed.has("retry-after").parse::<u64>().unwrap()));
    let call = at(2).post(format!("{}/tools/shared", host.url)).header("x-developer-credit", &other).json(&json!({}));
    host.send(call).await.is(200);
    assert_eq!((host.credit_balance(&heavy).await, host.credit_balance(&other).await), (1_000_000, 990_000));
}

#[tokio::test]
async fn sleeping_calls_of_one_builder_from_many_addresses_cost_another_builder_no_call() {
    let host = Host::builder().flag("--sandbox-processes", 16).start().await;
    let (_, key) = host.register("Sleeper").await;
    for tool in 0..2 {
        let source = "export default async () => { await new Promise((wake) => setTimeout(wake, 25_000)); return {}; };";
        let mut sleeper = js(&format!("sleeper-{tool}"), 0.0, source);
        sleeper["limits"] = json!({ "wallMs": 30_000 });
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &sleeper).await.is(200);
    }
    host.publish(&js("victim", 0.0, "export default () => ({});")).await;
    let flood = join_all((0..80).map(async |call: u8| {
        let client = at(11 + call % 8);
        loop {
            host.send(client.post(format!("{}/tools/sleeper-{}", host.url, call % 2)).json(&json!({}))).await;
        }
    }));
    let victim = async {
        eventually("all that one owner may have sleeps", Duration::from_secs(60), || async {
            let sandbox = host.get("/health").await.json()["sandbox"].take();
            (sandbox["waitingInOps"].as_u64() >= Some(14)).then_some(())
        })
        .await;
        for _ in 0..50 {
            host.call("victim", &json!({})).await.is(200);
        }
    };
    tokio::select! {
        _ = flood => unreachable!("it goes on"),
        () = victim => {}
    }
}

/// Returns a client with a separate address.
pub fn at(address: u8) -> Client {
    Client::builder().no_proxy().local_address(Some(Ipv4Addr::new(127, 0, 0, address).into())).build().unwrap()
}

/// Lets one address call `tool` as often as it can while another one makes cheap calls. The first
/// one must be refused at some time.
async fn is_refused_its_fill(tool: &Value, input: &Value) {
    let host = Host::builder().flag("--address-cpu-percent", 1).start().await;
    host.publish(&js("cheap", 0.0, "export default () => ({});")).await;
    host.publish(tool).await;
    let elsewhere = at(2);
    let calls = || elsewhere.post(format!("{}/tools/greedy", host.url)).json(input);
    // On a shared machine even the greedy address may get little done, so allow much time.
    let (until, is_refused) = (Instant::now() + Duration::from_secs(120), AtomicBool::new(false));
    let goes_on = || !is_refused.load(Ordering::Relaxed) && Instant::now() < until;

    // More connections than the machine has cores.
    let takes_all = async || {
        let mut refused: Option<Answer> = None;
        while goes_on() {
            let answer = host.send(calls()).await;
            if answer.status == 429 && answer.json()["error"]["message"].as_str().is_some_and(|message| message.contains("CPU time")) {
                refused = Some(answer);
                is_refused.store(true, Ordering::Relaxed);
            }
        }
        refused
    };
    let others = async {
        while goes_on() {
            host.call("cheap", &json!({})).await.is(200);
            sleep(Duration::from_millis(50)).await;
        }
    };
    let connections = thread::available_parallelism().unwrap().get() * 2;
    let (refused, ()) = tokio::join!(join_all((0..connections).map(|_| takes_all())), others);
    let refused = refused.into_iter().flatten().next().expect("the address that used all of the processor was never rejected");
    refused.fails(429, "rate_limited", "caller");
    assert!(refused.has("retry-after").parse::<u64>().unwrap() > 0);

    // Now there are no other callers.
    eventually("the address is served again", Duration::from_secs(20), async || (host.send(calls()).await.status == 200).then_some(()))
        .await;
}
