//! State of any kind that a host has acknowledged survives a kill of the host or of its database.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, HostBuilder, Payer, eventually, postgres::Postgres},
    revenue::{events, tool},
};

/// Stores, writes and logs the given value, or returns the stored values.
const TOOL: &str = "export default async (req, ctx) => {
    const { set } = req.input;
    if (set) { await ctx.kv.set('kept', set); await ctx.files.write('kept.txt', set); ctx.log.info(set); }
    return { kept: await ctx.kv.get('kept'), file: await ctx.files.readText('kept.txt'), secret: ctx.env.API_KEY === 'sesame' };
};";

/// The owners of the state.
struct Owner {
    key: String,
    credit: String,
    receipts: Vec<String>,
}

fn how() -> HostBuilder {
    Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").flag("--fee-bps", 1_000)
}

/// Creates state of each kind. The last answer is durable, and thus everything before it.
async fn make(host: &Host) -> Owner {
    let policy = json!({ "builderCapabilities": { "kv": true, "files": true, "logs": true } });
    host.manage(Method::PUT, "/ai/admin/policy", &policy).await.is(200);
    let (_, key) = host.register("Keeper").await;
    let by_owner = async |method, path: &str, body: &Value| host.as_builder(&key, method, path, body).await.is(200);
    for (slug, price) in [("kept", 0.25), ("is-free", 0.0)] {
        let mut tool = tool(slug, price, TOOL);
        tool["capabilities"] = json!({ "kv": true, "files": true, "logs": true });
        by_owner(Method::POST, "/ai/endpoints/create", &tool).await;
    }
    let secret = json!({ "name": "API_KEY", "value": "sesame", "visibility": "env" });
    by_owner(Method::POST, "/ai/endpoints/kept/secrets", &secret).await;

    let (credit, payer) = (host.mint(1.0).await, Payer::funded(host, 1.0).await);
    let mut receipts = vec![host.call_credit("kept", &json!({ "set": "of the first" }), &credit).await.is(200).receipt_id()];
    let payment = payer.pay(&host.challenge("kept").await);
    receipts.push(host.call_paid("kept", &json!({ "set": "of the second" }), &payment).await.is(200).receipt_id());
    receipts.push(host.call("is-free", &json!({ "set": "of the third" })).await.is(200).receipt_id());
    eventually("delayed writes are done", Duration::from_secs(30), async || {
        let answer = snapshot(host, &Owner { key: key.clone(), credit: credit.clone(), receipts: vec![] }).await;
        let calls = answer["revenue"]["calls"] == 3
            && answer["events"].as_array().unwrap().iter().filter(|kind| **kind == "call.succeeded").count() == 3;
        (calls && answer["logs"].as_array().map(Vec::len) == Some(2)).then_some(())
    })
    .await;

    let address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
    by_owner(Method::POST, "/ai/builders/payout-settings", &json!({ "address": address, "minimumUsd": 0.1 })).await;
    by_owner(Method::POST, "/ai/builders/payouts", &Value::Null).await;
    by_owner(Method::PATCH, "/ai/endpoints/kept", &json!({ "title": "Kept" })).await;
    host.manage(Method::POST, "/ai/admin/refunds", &json!({ "receiptId": receipts[0], "amountUsd": 0.1 })).await.is(200);
    Owner { key, credit, receipts }
}

/// Returns the host's answers about this state.
async fn snapshot(host: &Host, owner: &Owner) -> Value {
    let get = async |path: &str| host.as_builder(&owner.key, Method::GET, path, &Value::Null).await.is(200).json();
    let manage = async |path: &str| host.manage(Method::GET, path, &Value::Null).await.is(200).json();
    let mut receipts = vec![];
    for id in &owner.receipts {
        receipts.push(host.get(&format!("/ai/receipts/{id}")).await.is(200).json());
    }
    let endpoint = get("/ai/endpoints/kept").await["endpoint"].clone();
    let stored = ["id", "version", "revision", "title", "priceUsd", "capabilities"].map(|name| endpoint[name].clone());
    let logs = get("/ai/endpoints/kept/logs?limit=10").await["logs"].clone();
    let credit = host.request(Method::GET, "/ai/credits").header("x-developer-credit", &owner.credit);
    let kinds: Vec<_> = events(host, &owner.key, "").await.into_iter().map(|event| event["kind"].clone()).collect();
    json!({
        "policy": manage("/ai/admin/policy").await["policy"],
        "audit": manage("/ai/admin/audit?limit=200").await["entries"],
        "ledger": manage("/ai/admin/ledger").await["accounts"],
        "endpoint": stored,
        "source": get("/ai/endpoints/kept/source").await,
        "secrets": get("/ai/endpoints/kept/secrets").await,
        "logs": logs.as_array().unwrap().iter().map(|line| &line["message"]).collect::<Vec<_>>(),
        "calls": get("/ai/endpoints/is-free/calls").await["calls"],
        "revenue": get("/ai/builders/revenue?since=1d").await["totals"],
        "payouts": get("/ai/builders/payouts").await,
        "payoutSettings": get("/ai/builders/payout-settings").await,
        "credit": host.send(credit).await.is(200).json(),
        "events": kinds,
        "receipts": receipts,
    })
}

/// Checks that the host gives the same answers as before the kill, and that its handlers still have
/// their data.
async fn assert_unchanged(host: &Host, owner: &Owner, before: &Value) {
    let after = snapshot(host, owner).await;
    for (name, before) in before.as_object().unwrap() {
        assert_eq!(&after[name], before, "{name}");
    }
    let of_kept = host.as_builder(&owner.key, Method::POST, "/tools/kept", &json!({})).await.is(200).json();
    assert_eq!(of_kept, json!({ "kept": "of the second", "file": "of the second", "secret": true }));
    let of_free = host.call("is-free", &json!({})).await.is(200).json();
    assert_eq!(of_free, json!({ "kept": "of the third", "file": "of the third", "secret": false }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_writes_outlive_a_kill_of_the_host() {
    let mut host = how().start().await;
    let owner = make(&host).await;
    let before = snapshot(&host, &owner).await;
    host.restart().await;
    assert_unchanged(&host, &owner, &before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_writes_outlive_a_kill_of_the_database() {
    let mut server = Postgres::start();
    let mut host = how().env("TOLLHOUSE_STORE", server.url()).start().await;
    let owner = make(&host).await;
    server.kill9();
    host.kill9();
    server.run();
    // The kill came after the last answer, so nobody has read the state before it.
    host.restart().await;
    let after = snapshot(&host, &owner).await;
    let made = |name: &str| after[name].as_array().map(Vec::len);
    assert_eq!((made("audit"), made("receipts"), made("logs")), (Some(11), Some(3), Some(2)), "{after}");
    assert_eq!(
        (&after["endpoint"][3], &after["revenue"]["calls"], &after["credit"]["balanceUsd"]),
        (&json!("Kept"), &json!(3), &json!(0.85))
    );
    assert_eq!(after["payouts"]["payouts"].as_array().map(Vec::len), Some(1), "{after}");
    assert_unchanged(&host, &owner, &after).await;
}
