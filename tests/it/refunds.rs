//! Refunds over HTTP: shown next to the receipt, which stays as it was signed.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Host, Payer, micros, tollhouse},
    revenue::{events, tool},
};

const SOURCE: &str = "export default async () => ({ done: true });";
const PATH: &str = "/ai/admin/refunds";

async fn refund(host: &Host, body: Value) -> Answer {
    host.manage(Method::POST, PATH, &body).await
}

#[tokio::test]
async fn a_refund_is_visible_to_both_sides_and_the_receipt_still_verifies() {
    let mut host = Host::builder().flag("--fee-bps", 1_000).start().await;
    let (builder, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.25, SOURCE)).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("gives", 0.0, SOURCE)).await.is(200);
    let credit = host.mint(1.0).await;
    let by_credit = host.call_credit("earns", &json!({}), &credit).await.is(200).receipt_id();
    let payer = Payer::funded(&host, 1.0).await;
    let paid = payer.pay(&host.challenge("earns").await);
    let by_x402 = host.call_paid("earns", &json!({}), &paid).await.is(200).receipt_id();
    let receipt = async |id: &str| host.get(&format!("/ai/receipts/{id}")).await.is(200).json();
    let (before, before_x402) = (receipt(&by_credit).await, receipt(&by_x402).await);

    let body = json!({ "receiptId": by_credit, "amountUsd": 0.1, "reason": "late" });
    let request = || host.request(Method::POST, PATH).header("x-admin-token", &host.admin).header("idempotency-key", "refund-1");
    let first = host.send(request().json(&body)).await.is(200).json();
    assert_eq!(
        (&first["refund"]["receiptId"], &first["refund"]["reason"], &first["refundedUsd"]),
        (&json!(by_credit), &json!("late"), &json!(0.1))
    );
    assert_eq!(host.send(request().json(&body)).await.is(200).json(), first);
    host.send(request().json(&json!({ "receiptId": by_credit }))).await.fails(409, "payment_reused", "caller");
    let over = refund(&host, json!({ "receiptId": by_credit, "amountUsd": 0.2 })).await.fails(409, "refund_too_large", "caller");
    assert_eq!(over["refund"], json!({ "paidUsd": 0.25, "refundedUsd": 0.1 }));
    let hash = format!("0x{}", "7".repeat(64));
    assert_eq!(refund(&host, json!({ "receiptId": by_x402 })).await.fails(422, "invalid_refund", "caller")["pointer"], "/transaction");
    refund(&host, json!({ "receiptId": by_x402, "transaction": hash })).await.is(200);
    let free = host.call("gives", &json!({})).await.is(200).receipt_id();
    refund(&host, json!({ "receiptId": free })).await.fails(409, "not_refundable", "caller");
    refund(&host, json!({ "receiptId": "rcpt_none" })).await.fails(404, "unknown_receipt", "caller");
    refund(&host, json!({ "receiptId": by_credit, "all": true })).await.fails(422, "invalid_refund", "caller");
    host.as_builder(&key, Method::POST, PATH, &json!({ "receiptId": by_credit })).await.fails(403, "not_owner", "caller");

    let after = receipt(&by_credit).await;
    assert_eq!((&after["receipt"], &after["refundedUsd"]), (&before["receipt"], &json!(0.1)));
    assert_eq!(after["refunds"], json!([{ "amountUsd": 0.1, "at": first["refund"]["at"] }]));
    let after = receipt(&by_x402).await;
    assert_eq!((&after["receipt"], &after["refunds"][0]["transaction"]), (&before_x402["receipt"], &json!(hash)));
    assert!(before.get("refunds").is_none() && before.get("refundedUsd").is_none(), "{before}");
    for id in [&by_credit, &by_x402] {
        host.verify_receipt(&receipt(id).await).unwrap();
    }

    let report = host.as_builder(&key, Method::GET, "/ai/builders/revenue", &Value::Null).await.is(200).json();
    let describe = |line: &Value| ["grossUsd", "refundedUsd", "feesUsd", "netUsd"].map(|name| micros(&line[name]));
    for line in [&report["totals"], &report["byDay"][0]] {
        assert_eq!(describe(line), [500_000, 350_000, 15_000, 135_000], "{report}");
    }
    let all = host.manage(Method::GET, "/ai/admin/revenue", &Value::Null).await.is(200).json();
    assert_eq!(describe(&all["builders"]), [500_000, 350_000, 15_000, 135_000], "{all}");
    let holder = host.request(Method::GET, "/ai/credits").header("x-developer-credit", &credit);
    let seen = host.send(holder).await.is(200).json();
    assert_eq!((&seen["balanceUsd"], &seen["movements"][0]["kind"]), (&json!(0.85), &json!("refund")));
    let events = events(&host, &key, "").await;
    let refunded: Vec<_> = events.iter().filter(|event| event["kind"] == "payment.refunded").collect();
    assert_eq!((refunded.len(), &refunded[0]["data"]["feeUsd"], &refunded[1]["data"]["reason"]), (2, &json!(0.025), &json!("late")));
    let audit = host.manage(Method::GET, "/ai/admin/audit?limit=200", &Value::Null).await.is(200).json();
    let entered = audit["entries"].as_array().unwrap().iter().filter(|entry| entry["path"] == PATH || entry["route"] == PATH).count();
    assert!(entered >= 3, "{audit}");
    let ledger = host.manage(Method::GET, "/ai/admin/ledger", &Value::Null).await.is(200).json();
    let own = ledger["accounts"].as_array().unwrap().iter().find(|line| line["account"] == format!("builder/{builder}")).unwrap();
    assert_eq!((&own["balanceUsd"], &own["agrees"]), (&json!(0.135), &json!(true)));
    host.kill9();
    let checked = tollhouse().args(["ledger", "check", "--data"]).arg(host.folder().join("data")).output().unwrap();
    assert!(checked.status.success() && String::from_utf8_lossy(&checked.stdout).contains("2 refunds"), "{checked:?}");
}
