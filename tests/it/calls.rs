//! The records of calls that an endpoint's owner reads: one by one, live, and as totals.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Host, Payer, eventually, micros, stream::Stream},
    revenue::{SOMETIMES, tool},
};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn calls(host: &Host, key: &str, slug: &str, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (vec![], String::new());
    loop {
        let path = format!("/ai/endpoints/{slug}/calls?limit=3{query}{cursor}");
        let page = host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json();
        all.extend(page["calls"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

async fn settled(host: &Host, key: &str, slug: &str, count: usize) -> Vec<Value> {
    eventually("the calls are stored", TIMEOUT, || async {
        let all = calls(host, key, slug, "").await;
        (all.len() == count).then_some(all)
    })
    .await
}

#[tokio::test]
async fn calls_are_read_by_their_owner_one_by_one_and_added_up() {
    let host = Host::start().await;
    let ((_, key), (_, other)) = (host.register("Earner").await, host.register("Other").await);
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.01, SOMETIMES)).await.is(200);
    let (payer, credit) = (Payer::funded(&host, 1.0).await, host.mint(1.0).await);
    let challenge = host.challenge("earns").await;
    let paid = host.call_paid("earns", &json!({ "n": 1 }), &payer.pay(&challenge)).await.is(200).receipt_id();
    let by_credit = host.call_credit("earns", &json!({ "n": 2 }), &credit).await.is(200).receipt_id();
    host.call_paid("earns", &json!({ "fail": "throws" }), &payer.pay(&challenge)).await.fails(502, "handler_failed", "tool");
    host.call_credit("earns", &json!({ "fail": "status" }), &credit).await;
    // A request that does not run the handler is not a call.
    host.call("earns", &json!({})).await.is(402);

    let all = settled(&host, &key, "earns", 4).await;
    let of = |name: &str| all.iter().map(|call| call[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("outcome"), ["failed", "failed", "succeeded", "succeeded"]);
    assert_eq!(of("code"), [json!("error_status"), json!("handler_failed"), json!(null), json!(null)]);
    assert_eq!(of("charged"), [false, false, true, true]);
    assert_eq!(of("error"), [Value::Null, json!("Handler failed: Error: came to nothing"), Value::Null, Value::Null]);
    let cold = of("cold");
    assert!(cold[3] == true && cold.contains(&json!(false)), "the first call loaded its handler: {cold:?}");
    assert_eq!(of("payment"), ["credit", "x402", "credit", "x402"]);
    assert_eq!(of("receiptId"), [json!(null), json!(null), json!(by_credit), json!(paid)]);
    let version = host.receipt(&paid).await["version"].clone();
    for call in &all {
        assert!(call["callId"].as_str().unwrap().starts_with("call_"), "{call}");
        assert!(call["durationMs"].as_f64().unwrap() > 0.0 && call["cpuMs"].as_f64().unwrap() > 0.0, "{call}");
        assert_eq!((&call["version"], micros(&call["priceUsd"])), (&version, 10_000), "{call}");
        assert!(!call.to_string().to_lowercase().contains(&payer.address.to_lowercase()[2..10]), "{call}");
    }
    assert_eq!(of("inputBytes"), [17, 17, 7, 7]);
    assert_eq!(calls(&host, &key, "earns", "&outcome=failed").await, all[..2]);
    assert_eq!(calls(&host, &key, "earns", "&outcome=handler_failed").await, all[1..2]);
    assert_eq!(calls(&host, &key, "earns", "&outcome=error_status").await, all[..1]);
    assert_eq!(calls(&host, &key, "earns", "&outcome=succeeded&since=1h").await, all[2..]);
    assert_eq!(calls(&host, &key, "earns", "&since=0s").await, Vec::<Value>::new());
    // The times of two calls, as the host reports them, as the bounds of a list.
    let at = |call: &Value| call["at"].as_str().unwrap().to_owned();
    let between: Vec<_> = all.iter().filter(|call| at(call) >= at(&all[2]) && at(call) < at(&all[0])).cloned().collect();
    assert_eq!(calls(&host, &key, "earns", &format!("&since={}&until={}", at(&all[2]), at(&all[0]))).await, between);
    assert_eq!(calls(&host, &key, "earns", "&until=1h").await, Vec::<Value>::new());

    let metrics = |query: &str| {
        let path = format!("/ai/endpoints/earns/metrics{query}");
        let (host, key) = (&host, &key);
        async move { host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json() }
    };
    for (query, max) in
        [("", 25), ("?since=1h&step=1m", 61), ("?since=2h&step=5m", 25), ("?since=7d&step=1h", 169), ("?since=30d&step=1d", 31)]
    {
        let series = metrics(query).await;
        let buckets = series["buckets"].as_array().unwrap();
        assert!((max - 1..=max).contains(&buckets.len()), "{query}: {}", buckets.len());
        let sum = |of: &dyn Fn(&Value) -> u64| buckets.iter().map(of).sum::<u64>();
        assert_eq!(sum(&|one| one["calls"].as_u64().unwrap()), 4, "{query}");
        assert_eq!(sum(&|one| one["paid"].as_u64().unwrap()), 2, "{query}");
        assert_eq!(sum(&|one| micros(&one["grossUsd"])), 20_000, "{query}");
        assert_eq!(sum(&|one| one["failed"]["handler_failed"].as_u64().unwrap_or(0)), 1, "{query}");
        assert_eq!(sum(&|one| one["failed"]["error_status"].as_u64().unwrap_or(0)), 1, "{query}");
        assert_eq!(series["since"], buckets[0]["at"]);
        let busy = buckets.iter().find(|one| one["calls"] != 0).unwrap();
        assert!(busy["p50Ms"].as_f64().unwrap() <= busy["p95Ms"].as_f64().unwrap(), "{busy}");
        assert_eq!(buckets.iter().filter(|one| one["calls"] == 0).find(|one| one.get("p50Ms").is_some()), None);
    }

    for path in ["calls", "metrics"] {
        let path = format!("/ai/endpoints/earns/{path}");
        host.as_builder(&other, Method::GET, &path, &Value::Null).await.fails(403, "not_owner", "caller");
        host.get(&path).await.fails(401, "unauthorized", "caller");
        host.manage(Method::GET, &path, &json!({})).await.is(200);
    }
}

#[tokio::test]
async fn call_record_has_a_short_reason_without_private_details() {
    let host = Host::start().await;
    let source = "export default (req, ctx) => { throw new Error(`${ctx.env.KEY} ${'é'.repeat(req.input.n)}`); };";
    host.publish(&tool("throws", 0.0, source)).await;
    let secret = json!({ "name": "KEY", "value": "kept-to-itself", "visibility": "env" });
    host.manage(Method::POST, "/ai/endpoints/throws/secrets", &secret).await.is(200);
    let answer = host.call("throws", &json!({ "n": 900 })).await.fails(502, "handler_failed", "tool");
    let call = eventually("the call is stored", TIMEOUT, || async {
        let page = host.manage(Method::GET, "/ai/endpoints/throws/calls", &Value::Null).await.is(200).json();
        page["calls"].as_array().unwrap().first().cloned()
    })
    .await;
    let (words, shown) = (call["error"].as_str().unwrap(), answer["message"].as_str().unwrap());
    assert_eq!(words.chars().count(), 301);
    assert!(shown.starts_with(words.trim_end_matches('…')) && !words.contains("kept-to-itself"), "{words}");
}

#[tokio::test]
async fn invalid_calls_query_names_the_valid_ones() {
    let host = Host::start().await;
    host.publish(&tool("a-tool", 0.0, SOMETIMES)).await;
    let wrong = [
        ("calls?outcome=Well", "handler_failed"),
        ("calls?outcome=handler_faild", "`handler_faild` is not one of them"),
        ("calls?since=1w", "30d"),
        ("calls?since=2026-11-31", "2026-11-22"),
        ("calls?until=soon", "30d"),
        ("calls?cursor=zz", "nextCursor"),
        ("metrics?step=2m", "`1m`, `5m`, `1h` or `1d`"),
        ("metrics?since=7d&step=1m", "36h"),
        ("metrics?since=7d&step=5m", "`step=1h`"),
        ("metrics?since=365d&step=1d", "90d"),
        ("metrics?since=soon", "30d"),
    ];
    for (query, text) in wrong {
        let answer = host.manage(Method::GET, &format!("/ai/endpoints/a-tool/{query}"), &json!({})).await;
        answer.clone().fails(400, "invalid_request", "caller");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(text), "{query}: {answer:?}");
    }
}

/// Regression: the clock moves on between two readings.
#[tokio::test]
async fn metrics_can_always_be_asked_for_from_as_far_back_as_they_are_kept() {
    let host = Host::start().await;
    host.publish(&tool("a-tool", 0.0, SOMETIMES)).await;
    for _ in 0..400 {
        for query in ["since=90d&step=1d", "since=2d&step=5m"] {
            host.manage(Method::GET, &format!("/ai/endpoints/a-tool/metrics?{query}"), &json!({})).await.is(200);
        }
    }
}

#[tokio::test]
async fn calls_are_followed_from_before_into_the_present() {
    let host = Host::start().await;
    host.publish(&tool("watched", 0.0, SOMETIMES)).await;
    for n in 0..150 {
        host.call("watched", &json!({ "n": n })).await.is(200);
    }
    let follow =
        |query: &str| host.request(Method::GET, &format!("/ai/endpoints/watched/calls{query}")).header("x-admin-token", &host.admin);
    host.send(follow("?until=1h").header("accept", "text/event-stream")).await.fails(400, "invalid_request", "caller");
    let mut stream = Stream::open(follow("?since=1h")).await;
    let mut ids = std::collections::HashSet::new();
    let mut last = None;
    for _ in 0..150 {
        let answer = stream.next().await.unwrap();
        assert_eq!((answer.name.as_str(), &answer.data["outcome"]), ("call", &json!("succeeded")));
        assert!(ids.insert(answer.data["callId"].to_string()), "reported twice: {}", answer.data);
        last = answer.id;
    }
    host.call("watched", &json!({ "fail": "throws" })).await;
    let live = stream.next().await.unwrap();
    assert_eq!(live.data["code"], "handler_failed");
    // A client that reconnects gets the calls since its last one, and no others.
    let mut again = Stream::open(follow("").header("last-event-id", last.unwrap())).await;
    assert_eq!(again.next().await.unwrap().data, live.data);
    let mut failed = Stream::open(follow("?outcome=failed&since=1h")).await;
    assert_eq!(failed.next().await.unwrap().data, live.data);
}

#[tokio::test]
async fn calls_and_metrics_outlive_a_restart() {
    let mut host = Host::start().await;
    host.publish(&tool("kept", 0.0, SOMETIMES)).await;
    let admin = host.admin.clone();
    let of_admin = async |host: &Host, path: &str| {
        host.send(host.request(Method::GET, &format!("/ai/endpoints/kept/{path}")).header("x-admin-token", &admin)).await.is(200).json()
    };
    for called in 1..=2 {
        host.call("kept", &json!({})).await.is(200);
        eventually("the call is stored", TIMEOUT, || async {
            (of_admin(&host, "calls").await["calls"].as_array().unwrap().len() == called).then_some(())
        })
        .await;
        of_admin(&host, "metrics").await;
        // A durable write puts all earlier buffered ones on disk too.
        host.mint(1.0).await;
        host.restart().await;
    }
    assert_eq!(of_admin(&host, "calls").await["calls"].as_array().unwrap().len(), 2);
    let buckets = of_admin(&host, "metrics?since=1d&step=1d").await;
    let calls: u64 = buckets["buckets"].as_array().unwrap().iter().map(|one| one["calls"].as_u64().unwrap()).sum();
    assert_eq!(calls, 2);
}

#[tokio::test]
async fn free_receipts_go_when_there_are_too_many_and_paid_ones_stay() {
    let host = Host::builder().flag("--free-receipts-kept", 20).flag("--calls-kept", 20).start().await;
    host.publish(&tool("is-free", 0.0, SOMETIMES)).await;
    host.publish(&tool("earns", 0.01, SOMETIMES)).await;
    let credit = host.mint(1.0).await;
    let paid = host.call_credit("earns", &json!({}), &credit).await.is(200).receipt_id();
    let mut free = vec![];
    for n in 0..100 {
        free.push(host.call("is-free", &json!({ "n": n })).await.is(200).receipt_id());
    }
    let last = free.pop().unwrap();
    assert_eq!(host.receipt(&last).await["kind"], "free");
    let stored = eventually("the first receipt is gone", TIMEOUT, || async {
        let stored = host.get("/health").await.is(200).json()["stored"].clone();
        let retained = (20..40).contains(&stored["freeReceipts"]["count"].as_u64().unwrap());
        // The count is also that low before all receipts are written.
        let removed = host.get(&format!("/ai/receipts/{}", free[0])).await.status == 404;
        (retained && removed).then_some(stored)
    })
    .await;
    host.get(&format!("/ai/receipts/{}", free[0])).await.fails(404, "unknown_receipt", "caller");
    assert_eq!(host.receipt(&last).await["receiptId"], json!(last));
    assert_eq!(host.receipt(&paid).await["kind"], "credit");
    assert_eq!((&stored["paidReceipts"]["count"], &stored["complete"]), (&json!(1), &json!(true)));
    for kind in ["payments", "events", "logs", "audit", "sales", "calls", "callMetrics", "kv", "files", "credits", "versions"] {
        assert!(stored[kind]["count"].is_u64() && stored[kind]["bytes"].is_u64(), "{kind}: {stored}");
    }
    let disk = eventually("the disk was looked at", TIMEOUT, || async {
        let disk = host.get("/health").await.is(200).json()["disk"].clone();
        (disk["usedBytes"] != 0).then_some(disk)
    })
    .await;
    assert!(disk["storeBytes"].as_u64().unwrap() > 0 && disk["freeBytes"].as_u64().unwrap() > 0, "{disk}");
}
