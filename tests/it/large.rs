//! Large answers, over HTTP.

use serde_json::json;

use crate::harness::{Host, Payer, js};

/// Answers more than a row holds, and how often it ran.
const LARGE: &str = "export default async (req, ctx) => {
    const runs = ((await ctx.kv.get('runs')) ?? 0) + 1;
    await ctx.kv.set('runs', runs);
    return { runs, text: 'x'.repeat(100_000) };
};";

#[tokio::test]
async fn a_large_answer_outlives_a_restart_and_one_that_is_lost_is_told_and_not_sold_again() {
    let mut host = Host::builder().env("TOLLHOUSE_BASE_URL", "https://tollhouse.example").start().await;
    host.publish(&js("large", 0.01, LARGE)).await;
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("large").await);
    let first = host.call_paid("large", &json!({}), &payment).await.is(200);
    assert_eq!(first.json()["runs"], 1);
    host.restart().await;
    let again = host.call_paid("large", &json!({}), &payment).await.is(200);
    assert_eq!((&again.body, again.receipt_id()), (&first.body, first.receipt_id()));

    let folders = std::fs::read_dir(host.folder().join("data/files")).unwrap();
    let files: Vec<_> =
        folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap()).map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    std::fs::remove_file(&files[0]).unwrap();
    let lost = host.call_paid("large", &json!({}), &payment).await.is(500).json();
    let error = &lost["error"];
    assert_eq!((&error["code"], &error["charged"], &error["paymentId"]), (&json!("answer_lost"), &json!(true), &json!(payment.id())));
    assert_eq!(host.balance(&payer.address).await, 990_000, "it was charged once");
    assert_eq!(host.payment(&payment.id()).await.unwrap()["receiptId"], first.receipt_id());
    // Nor is it sold again of a tool that takes no calls.
    host.change("large", &json!({ "status": "paused" })).await;
    assert_eq!(host.call_paid("large", &json!({}), &payment).await.is(500).json()["error"]["code"], "answer_lost");
}
