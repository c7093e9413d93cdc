//! The earnings of builders, compared with receipts and events.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, Payer, eventually, js, micros};

const FEE_BPS: u64 = 333;
/// In micro-dollars. The fee for this price is not a whole number.
const PRICE: u64 = 12_345;
const FEE: u64 = PRICE * FEE_BPS / 10_000;

/// A handler that fails if its input says so.
pub const SOMETIMES: &str = "export default async (req) => {
    if (req.input.fail === 'throws') throw new Error('came to nothing');
    if (req.input.fail === 'status') return new Response('no', { status: 404 });
    return { n: req.input.n ?? null };
};";

/// Returns a builder's tool.
pub fn tool(slug: &str, price_usd: f64, source: &str) -> Value {
    let mut tool = js(slug, price_usd, source);
    tool["safetyAttestation"] = json!({ "accepted": true });
    tool
}

/// Returns a builder's events of the last hour, newest first.
pub async fn events(host: &Host, key: &str, query: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (vec![], String::new());
    loop {
        let path = format!("/ai/builders/events?since=1h&limit=9{query}{cursor}");
        let page = host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json();
        all.extend(page["events"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

async fn revenue(host: &Host, key: &str) -> Value {
    host.as_builder(key, Method::GET, "/ai/builders/revenue?since=1d", &Value::Null).await.is(200).json()
}

#[tokio::test]
async fn revenue_events_and_receipts_agree_to_the_micro_dollar() {
    let host = Host::builder().flag("--fee-bps", FEE_BPS).start().await;
    let (_, key) = host.register("Earner").await;
    let (_, other) = host.register("Other").await;
    for (slug, price) in [("earns", PRICE as f64 / 1e6), ("earns-too", 0.5), ("is-free", 0.0)] {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, price, SOMETIMES)).await.is(200);
    }
    let payer = Payer::funded(&host, 1.0).await;
    let credit = host.mint(5.0).await;
    let challenge = host.challenge("earns").await;
    let mut receipts = vec![];
    for n in 0..12 {
        let fail = match n % 4 {
            3 => "throws",
            2 => "status",
            _ => "",
        };
        let answer = host.call_paid("earns", &json!({ "n": n, "fail": fail }), &payer.pay(&challenge)).await;
        receipts.extend((answer.status == 200).then(|| answer.receipt_id()));
        let answer = host.call_credit("earns-too", &json!({ "n": n, "fail": fail }), &credit).await;
        receipts.extend((answer.status == 200).then(|| answer.receipt_id()));
        let answer = host.call("is-free", &json!({ "n": n, "fail": fail })).await;
        receipts.extend((answer.status == 200).then(|| answer.receipt_id()));
    }
    assert_eq!(receipts.len(), 18);
    // Requests that do not run the handler do not count: without a payment, or with invalid input.
    host.call("earns", &json!({})).await.is(402);
    host.send(host.request(Method::POST, "/tools/is-free").header("content-type", "application/json").body("{")).await.is(400);

    let report = eventually("all calls are counted", Duration::from_secs(10), || async {
        let report = revenue(&host, &key).await;
        (report["totals"]["calls"] == 36).then_some(report)
    })
    .await;
    let totals = &report["totals"];
    assert_eq!((&totals["paidCalls"], &totals["failedCalls"]), (&json!(12), &json!(18)), "{report}");
    let mut gross = 0;
    for id in &receipts {
        gross += micros(&host.receipt(id).await["priceUsd"]);
    }
    let fees = 6 * FEE + 6 * (500_000 * FEE_BPS / 10_000);
    assert_eq!([micros(&totals["grossUsd"]), micros(&totals["feesUsd"]), micros(&totals["netUsd"])], [gross, fees, gross - fees]);
    for (list, name) in [("byEndpoint", "endpointSlug"), ("byDay", "day")] {
        let lines = report[list].as_array().unwrap();
        for sum in ["calls", "paidCalls", "failedCalls"] {
            assert_eq!(lines.iter().map(|line| line[sum].as_u64().unwrap()).sum::<u64>(), totals[sum].as_u64().unwrap(), "{list}");
        }
        for sum in ["grossUsd", "feesUsd", "netUsd"] {
            assert_eq!(lines.iter().map(|line| micros(&line[sum])).sum::<u64>(), micros(&totals[sum]), "{list}");
        }
        assert!(lines.iter().all(|line| line[name].is_string()));
    }
    let slugs: Vec<_> = report["byEndpoint"].as_array().unwrap().iter().map(|line| line["endpointSlug"].as_str().unwrap()).collect();
    assert_eq!(slugs, ["earns", "earns-too", "is-free"]);

    let events = events(&host, &key, "").await;
    let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).collect::<Vec<_>>();
    let mut listed: Vec<_> = of("call.succeeded").iter().map(|event| event["data"]["receiptId"].as_str().unwrap().to_owned()).collect();
    listed.sort();
    receipts.sort();
    assert_eq!(listed, receipts);
    assert_eq!(of("payment.settled").iter().map(|event| micros(&event["data"]["priceUsd"])).sum::<u64>(), gross);
    assert_eq!(of("payment.settled").iter().map(|event| micros(&event["data"]["feeUsd"])).sum::<u64>(), fees);
    let failed = of("call.failed");
    let codes = failed.iter().fold(BTreeMap::<&str, usize>::new(), |mut codes, event| {
        assert_eq!(event["data"]["charged"], false);
        *codes.entry(event["data"]["code"].as_str().unwrap()).or_default() += 1;
        codes
    });
    assert_eq!(codes, BTreeMap::from([("error_status", 9), ("handler_failed", 9)]));

    let nothing = revenue(&host, &other).await;
    assert_eq!((&nothing["totals"]["calls"], &nothing["byEndpoint"]), (&json!(0), &json!([])));
    let request = host.manage(Method::GET, "/ai/builders/revenue", &json!({})).await;
    request.fails(400, "invalid_request", "caller");
    for since in ["", "30", "1w", "-1d", "30days"] {
        let path = format!("/ai/builders/revenue?since={since}");
        host.as_builder(&key, Method::GET, &path, &Value::Null).await.fails(400, "invalid_request", "caller");
    }
    host.get("/ai/builders/revenue").await.fails(401, "unauthorized", "caller");
}

/// Kills the host during payments. The reported earnings and the payouts must equal the settled
/// amounts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revenue_equals_settlements_after_kills() {
    let mut host = Host::builder().flag("--fee-bps", FEE_BPS).start().await;
    let (_, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", PRICE as f64 / 1e6, SOMETIMES)).await.is(200);
    let settings = json!({ "address": format!("0x{}", "ab".repeat(20)), "minimumUsd": 0 });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &settings).await.is(200);
    let (mut settled, mut packets) = (0, 0);
    for round in 0..4_u64 {
        let payer = Payer::funded(&host, 1.0).await;
        let challenge = host.challenge("earns").await;
        let (removed, sent) = (AtomicBool::new(false), Mutex::new(vec![]));
        let paying = join_all((0..4).map(|lane| {
            let (host, payer, challenge, removed, sent) = (&host, &payer, &challenge, &removed, &sent);
            async move {
                for n in 0..15 {
                    if removed.load(Ordering::SeqCst) {
                        return;
                    }
                    let payment = payer.pay(challenge);
                    sent.lock().unwrap().push(payment.id());
                    _ = Host::try_send(host.paid_request("earns", &json!({ "n": n, "lane": lane }), &payment)).await;
                }
            }
        }));
        let killing = async {
            tokio::time::sleep(Duration::from_millis(120 + 130 * round)).await;
            // If the host is killed while it collects a payout, it continues later.
            _ = tokio::time::timeout(
                Duration::from_millis(10),
                Host::try_send(host.request(Method::POST, "/ai/builders/payouts").header("x-builder-key", &key)),
            )
            .await;
            host.cut_power();
            removed.store(true, Ordering::SeqCst);
        };
        tokio::join!(paying, killing);
        host.restart().await;
        for id in sent.into_inner().unwrap() {
            let state = eventually("the payment has an end", Duration::from_secs(10), || async {
                let state = host.payment(&id).await.map(|payment| payment["state"].as_str().unwrap().to_owned());
                (!matches!(state.as_deref(), Some("reserved" | "settling"))).then_some(state)
            })
            .await;
            settled += u64::from(state.as_deref() == Some("settled"));
        }
        let totals = revenue(&host, &key).await["totals"].clone();
        assert_eq!((totals["paidCalls"].as_u64(), micros(&totals["grossUsd"])), (Some(settled), settled * PRICE), "round {round}");
        host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200);
    }
    // Once more, for payments that came after a continued payout.
    host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200);
    let payouts = host.as_builder(&key, Method::GET, "/ai/builders/payouts", &Value::Null).await.is(200).json();
    for payout in payouts["payouts"].as_array().unwrap() {
        assert_eq!(payout["status"], "created");
        packets += micros(&payout["amountUsd"]);
    }
    assert!(settled > 0, "no call was settled");
    assert_eq!(packets, settled * (PRICE - FEE));
}

#[tokio::test]
async fn the_hosts_revenue_is_the_fees_of_all_and_the_sales_of_its_own() {
    let host = Host::builder().flag("--fee-bps", FEE_BPS).start().await;
    let ((_, one), (_, two)) = (host.register("One").await, host.register("Two").await);
    for (key, slug) in [(&one, "of-one"), (&two, "of-two")] {
        host.as_builder(key, Method::POST, "/ai/endpoints/create", &tool(slug, PRICE as f64 / 1e6, SOMETIMES)).await.is(200);
    }
    host.publish(&js("of-host", 0.25, SOMETIMES)).await;
    let credit = host.mint(5.0).await;
    let mut receipts = vec![];
    for (slug, calls) in [("of-one", 3), ("of-two", 2), ("of-host", 4)] {
        for n in 0..calls {
            receipts.push(host.call_credit(slug, &json!({ "n": n }), &credit).await.is(200).receipt_id());
        }
        host.call_credit(slug, &json!({ "fail": "throws" }), &credit).await.fails(502, "handler_failed", "tool");
    }
    let path = "/ai/admin/revenue?since=1d";
    let report = eventually("all calls are counted", Duration::from_secs(10), || async {
        let report = host.manage(Method::GET, path, &Value::Null).await.is(200).json();
        // The calls include two registrations, at a dollar each.
        (report["totals"]["calls"] == 14).then_some(report)
    })
    .await;
    let mut gross = 2_000_000;
    for id in &receipts {
        gross += micros(&host.receipt(id).await["priceUsd"]);
    }
    assert_eq!(micros(&report["totals"]["grossUsd"]), gross);
    assert_eq!([micros(&report["builders"]["grossUsd"]), micros(&report["builders"]["feesUsd"])], [5 * PRICE, 5 * FEE]);
    assert_eq!([&report["own"]["paidCalls"], &report["own"]["failedCalls"]], [&json!(6), &json!(1)]);
    assert_eq!(micros(&report["own"]["netUsd"]), 3_000_000);
    assert_eq!(micros(&report["revenueUsd"]), 3_000_000 + 5 * FEE);
    let own: Vec<_> = report["byEndpoint"].as_array().unwrap().iter().map(|line| line["endpointSlug"].as_str().unwrap()).collect();
    assert_eq!(own, ["builder-registration", "of-host"]);
    let days = report["byDay"].as_array().unwrap();
    assert_eq!(days.iter().map(|day| micros(&day["revenueUsd"])).sum::<u64>(), micros(&report["revenueUsd"]));
    assert_eq!(days.iter().map(|day| micros(&day["grossUsd"])).sum::<u64>(), gross);
    host.as_builder(&one, Method::GET, path, &Value::Null).await.fails(403, "not_owner", "caller");
}
