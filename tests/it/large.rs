//! Large answers and long sources, over HTTP.

use std::fs;

use reqwest::Method;
use serde_json::json;

use crate::harness::{Host, Payer, Payment, js, tollhouse};

/// Returns more than fits into a row, with the number of its runs.
pub const LARGE: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    return { runs, text: 'x'.repeat(100_000) };
};";

#[tokio::test]
async fn a_large_answer_survives_a_restart_and_a_lost_one_is_not_sold_again() {
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").start().await;
    host.publish(&js("large", 0.01, LARGE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("large").await);
    let first = host.call_paid("large", &json!({}), &payment).await.is(200);
    assert_eq!(first.json()["runs"], 1);
    host.restart().await;
    let again = host.call_paid("large", &json!({}), &payment).await.is(200);
    assert_eq!((&again.body, again.receipt_id()), (&first.body, first.receipt_id()));

    let folders = fs::read_dir(host.folder().join("data/files")).unwrap();
    let files: Vec<_> = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap()).map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    fs::remove_file(&files[0]).unwrap();
    let lost = host.call_paid("large", &json!({}), &payment).await.is(500).json();
    let error = &lost["error"];
    assert_eq!((&error["code"], &error["charged"], &error["paymentId"]), (&json!("answer_lost"), &json!(true), &json!(payment.id())));
    assert_eq!(host.balance(&payer.address).await, 990_000, "it was charged once");
    assert_eq!(host.payment(&payment.id()).await.unwrap()["receiptId"], first.receipt_id());
    // It is not sold again by a paused tool either.
    host.change("large", &json!({ "status": "paused" })).await;
    assert_eq!(host.call_paid("large", &json!({}), &payment).await.is(500).json()["error"]["code"], "answer_lost");
}

/// Regression test: the payer got 503 with `"charged": false`, although the money had moved, if the source was lost or the bucket
/// was down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_source_does_not_deny_what_a_payment_has_bought() {
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").start().await;
    let lines = (0..2_000).map(|n| format!("// line {n}\n")).collect::<String>();
    host.publish(&js("after", 0.01, &format!("{lines}export default () => ({{ r: Math.random() }});"))).await;
    let second = "export default async (req, ctx) => {
        const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
        await ctx.kv.set('runs', runs);
        if (runs < 2) throw new Error('not yet');
        return { runs };
    };";
    let mut upfront = js("before", 0.01, &format!("{lines}{second}"));
    upfront["settle"] = json!("before");
    host.publish(&upfront).await;
    let payer = Payer::funded(&host, 1.0).await;
    let (after, before) = (host.challenge("after").await, host.challenge("before").await);
    let (bought, owed) = (payer.pay(&after), payer.pay(&before));
    let unspent = [("after", payer.pay(&after)), ("before", payer.pay(&before))];
    let answer = host.call_paid("after", &json!({}), &bought).await.is(200).json();
    assert_eq!(host.call_paid("before", &json!({}), &owed).await.is(502).json()["error"]["code"], "paid_run_failed");
    host.restart().await;
    let (files, alongside) = (host.folder().join("data/files"), host.folder().join("beside"));
    fs::rename(&files, &alongside).unwrap();

    let invoke = |slug: &str, payment: &Payment| {
        let request = host.request(Method::POST, "/ai/invoke").header(payment.header, payment.encoded());
        host.send(request.json(&json!({ "slug": slug, "input": {} })))
    };
    let mcp = host.mcp();
    assert_eq!(host.call_paid("after", &json!({}), &bought).await.is(200).json(), answer);
    assert_eq!(invoke("after", &bought).await.is(200).json()["result"], answer);
    assert_eq!(mcp.call("after", json!({}), json!({ "x402/payment": bought.payload })).await["structuredContent"], answer);
    let streamed = host.paid_request("after", &json!({}), &bought).header("accept", "text/event-stream");
    assert_eq!(host.send(streamed).await.is(200).events().pop().unwrap().name, "result");

    let by_http = host.call_paid("before", &json!({}), &owed).await.is(409).json()["error"].clone();
    let invoked = invoke("before", &owed).await.is(409).json()["error"].clone();
    let result = mcp.call("before", json!({}), json!({ "x402/payment": owed.payload })).await;
    for error in [by_http, invoked, result["_meta"]["tollhouse/error"].clone()] {
        assert_eq!((&error["code"], &error["charged"]), (&json!("answer_owed"), &json!(true)), "{error}");
        assert_eq!(error["paymentId"], owed.id(), "{error}");
    }

    // A payment that bought nothing is neither verified nor charged.
    for (slug, payment) in &unspent {
        host.call_paid(slug, &json!({}), payment).await.fails(503, "source_unavailable", "host");
        let streamed = host.paid_request(slug, &json!({}), payment).header("accept", "text/event-stream");
        host.send(streamed).await.fails(503, "source_unavailable", "host");
        let result = mcp.call(slug, json!({}), json!({ "x402/payment": payment.payload })).await;
        let error = &result["_meta"]["tollhouse/error"];
        assert_eq!((&error["code"], &error["charged"]), (&json!("source_unavailable"), &json!(false)), "{result}");
        assert_eq!(host.payment(&payment.id()).await, None, "nobody has looked at it");
    }
    assert_eq!(host.balance(&payer.address).await, 980_000, "each tool was paid for once");
    // Callers can repeat such calls, so not each of them is an error in the log.
    let calls = 16;
    for _ in 0..calls {
        host.call("after", &json!({})).await.fails(503, "source_unavailable", "host");
    }
    let logged = host.log().matches("the source of a version is lost").count();
    assert!((1..calls).contains(&logged), "{logged}");

    // The same holds while no source can be read, for example because the bucket is down.
    fs::write(&files, "no folder").unwrap();
    assert_eq!(host.call_paid("after", &json!({}), &bought).await.is(200).json(), answer);
    assert_eq!(invoke("after", &bought).await.is(200).json()["result"], answer);
    assert_eq!(mcp.call("after", json!({}), json!({ "x402/payment": bought.payload })).await["structuredContent"], answer);
    assert_eq!(host.call_paid("before", &json!({}), &owed).await.is(409).json()["error"]["code"], "answer_owed");
    for (slug, payment) in &unspent {
        host.call_paid(slug, &json!({}), payment).await.fails(503, "store_unavailable", "host");
    }
    fs::remove_file(&files).unwrap();

    fs::rename(&alongside, &files).unwrap();
    assert_eq!(host.call_paid("before", &json!({}), &owed).await.is(200).json(), json!({ "runs": 2 }));
    assert_eq!(host.balance(&payer.address).await, 980_000, "the second run is not charged");
}

/// The source is stored as an object, because it is long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_with_unreadable_source_is_refused_before_payment() {
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").start().await;
    let lines = (0..2_000).map(|n| format!("// line {n}\n")).collect::<String>();
    host.publish(&js("long", 0.01, &format!("{lines}export default () => ({{ read: true }});"))).await;
    host.publish(&js("short", 0.0, "export default () => ({ read: true });")).await;
    let files = host.folder().join("data/files");
    assert_eq!(fs::read_dir(&files).unwrap().count(), 1, "the long one");
    host.publish(&js("gone", 0.0, &format!("{lines}export default () => ({{ gone: true }});"))).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("long").await);
    host.restart().await;
    let alongside = host.folder().join("beside");
    fs::rename(&files, &alongside).unwrap();
    // A lost source has its own code, because a retry does not help.
    let lost = host.call("long", &json!({})).await;
    assert_eq!(lost.header("retry-after"), None);
    lost.fails(503, "source_unavailable", "host");
    host.call_paid("long", &json!({}), &payment).await.fails(503, "source_unavailable", "host");
    host.manage(Method::GET, "/ai/endpoints/long/source", &json!(null)).await.fails(503, "source_unavailable", "host");
    assert_eq!(host.payment(&payment.id()).await, None, "nobody has looked at it");
    fs::write(&files, "no folder").unwrap();
    host.call("long", &json!({})).await.fails(503, "store_unavailable", "host");
    host.call_paid("long", &json!({}), &payment).await.fails(503, "store_unavailable", "host");
    assert_eq!(host.payment(&payment.id()).await, None, "nobody has looked at it");
    host.call("short", &json!({})).await.is(200);
    for decision in ["takedown", "restore"] {
        host.manage(Method::POST, "/ai/admin/reviews/long", &json!({ "decision": decision })).await.is(200);
        let body = host.call("long", &json!({})).await;
        assert_ne!(body.status, 402, "{body:?}");
    }
    for status in ["paused", "active"] {
        host.change("long", &json!({ "status": status })).await;
    }
    for part in ["", "/logs", "/secrets", "/calls"] {
        host.manage(Method::GET, &format!("/ai/endpoints/long{part}"), &json!(null)).await.is(200);
    }
    host.manage(Method::DELETE, "/ai/endpoints/gone", &json!(null)).await.is(200);
    fs::remove_file(&files).unwrap();
    fs::rename(&alongside, &files).unwrap();
    assert_eq!(host.call_paid("long", &json!({}), &payment).await.is(200).json(), json!({ "read": true }));
    host.kill9();
    let check = |data: &std::path::Path| tollhouse().args(["store", "check", "--data"]).arg(data).output().unwrap();
    let data = host.folder().join("data");
    assert!(check(&data).status.success());
    fs::rename(&files, &alongside).unwrap();
    let checked = check(&data);
    assert!(!checked.status.success() && String::from_utf8_lossy(&checked.stdout).contains(" is missing (object "), "{checked:?}");
}
