//! Texts on pages: amounts and whether they are real, readable facts, and content that depends on
//! the reader.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{browser::Browser, html, page, text, values};
use crate::{
    harness::{Host, eventually},
    revenue::tool,
};

const SOURCE: &str = "export default async (req) => { if (req.input.fail) throw new Error('no'); return { done: true }; };";
const ADDRESS: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

/// Creates a builder with a tool that was sold once, for a quarter of a dollar. Returns the
/// builder's id and key, and the receipt.
async fn sold(host: &Host) -> (String, String, String) {
    let (id, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.25, SOURCE)).await.is(200);
    let receipt = host.call_credit("earns", &json!({}), &host.mint(5.0).await).await.is(200).receipt_id();
    (id, key, receipt)
}

#[tokio::test]
async fn every_amount_says_that_it_is_not_real() {
    let host = Host::builder().flag("--fee-bps", 1_000).start().await;
    let (_, key, receipt) = sold(&host).await;
    let settings = json!({ "address": ADDRESS, "minimumUsd": 0.1 });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &settings).await.is(200);
    let builder = Browser::signed_in(&host, &key).await;
    let describe = async |path: &str, reported: &[&str]| {
        eventually(&format!("{path} shows {reported:?}"), Duration::from_secs(10), || async {
            let seen = text(&builder.page(path).await);
            reported.iter().all(|reported| seen.contains(reported)).then_some(())
        })
        .await;
    };
    describe("/dashboard/home", &["$0.25 simulated", "$0.225 simulated of 1 receipt"]).await;
    describe("/dashboard/events", &["✓ payment settled", "price $0.25 simulated", "fee $0.025 simulated", "paid by credit"]).await;
    describe("/dashboard/tools/earns/calls", &["Paid, simulated"]).await;
    let sums = [
        "$0.25 simulated gross − $0.025 simulated fees = $0.225 simulated net",
        "Gross, simulated",
        "Fees, simulated",
        "Maximum per day: $0.225 simulated",
    ];
    describe("/dashboard/revenue", &sums).await;
    describe(
        "/dashboard/payouts",
        &["$0.225 simulated", "Create a payout of $0.225 simulated", "Minimum payout$0.1 simulated", "base-sepolia", "USDC"],
    )
    .await;
    describe("/dashboard/tools/earns", &["$0.25 simulated 250000 units", "Paid inbase-sepolia, USDC"]).await;

    let packet = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payout"]["id"].clone();
    let packet = format!("/dashboard/payouts/{}", packet.as_str().unwrap());
    let seen = text(&builder.page(&packet).await);
    assert!(seen.contains("Net, simulated") && seen.contains("◐ waits for approval") && !seen.contains("Decided"), "{seen}");
    let path = packet.replace("/dashboard/payouts", "/ai/admin/payouts");
    host.manage(Method::POST, &path, &json!({ "decision": "approve" })).await.is(200);
    assert!(text(&builder.page(&packet).await).contains("Decided"));

    // A payment from a credit is simulated too, although the receipt does not say so.
    assert_eq!(host.receipt(&receipt).await["simulated"], false);
    let slip = text(&html(&page(&host, &format!("/dashboard/receipts/{receipt}")).await.is(200)));
    assert!(slip.contains("$0.25 ✓ paid from credit ◇ simulated"), "{slip}");
    let command = format!("tollhouse verify-receipt {}/ai/receipts/{receipt}", host.url);
    assert!(slip.contains(&command) && !slip.contains("target/"), "{slip}");
}

#[tokio::test]
async fn an_admin_is_not_taken_for_the_builder() {
    let host = Host::start().await;
    let (id, key, _) = sold(&host).await;
    let (builder, admin) = (Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &host.admin).await);
    let owners = ["your own", "Your own", "you get", "stays yours", "$BUILDER_KEY"];
    for (path, own) in [("settings", "stays yours"), ("secrets", "$BUILDER_KEY"), ("calls", "Your own calls"), ("edit", "you get")] {
        let path = format!("/dashboard/tools/earns/{path}");
        assert!(text(&builder.page(&path).await).contains(own), "{path}");
        let seen = text(&admin.page(&path).await);
        assert!(owners.iter().all(|words| !seen.contains(words)), "{path}: {seen}");
    }
    let seen = text(&admin.page("/dashboard/tools/earns/edit").await);
    assert!(seen.contains("Of $0.25 simulated the builder gets"), "{seen}");
    let seen = text(&admin.page(&format!("/dashboard/events?builderId={id}")).await);
    assert!(seen.contains("a builder's tools") && !seen.contains("your tools"), "{seen}");
}

#[tokio::test]
async fn owner_sees_all_terms_of_a_tool() {
    let host = Host::start().await;
    let (id, key, _) = sold(&host).await;
    let record = host.as_builder(&key, Method::GET, "/ai/endpoints/earns", &Value::Null).await.is(200).json()["endpoint"].clone();
    let version = record["version"].as_str().unwrap();
    for credential in [&key, &host.admin] {
        let browser = Browser::signed_in(&host, credential).await;
        let page = eventually("the call is counted", Duration::from_secs(60), || async {
            let page = browser.page("/dashboard/tools/earns").await;
            text(&page).contains("Called1 call in 30 days, median").then_some(page)
        })
        .await;
        let seen = text(&page);
        for reported in ["HandlerJavaScript", "Earner", &id, version, "Limits10 s, 64 MiB of memory, 256 KiB in, 256 KiB out"] {
            assert!(seen.contains(reported), "{reported}: {seen}");
        }
        let leads = values(&page, "href").contains(&format!("/dashboard/admin/builders/{id}"));
        assert_eq!(leads, *credential == host.admin);
    }
    let strangers = text(&html(&page(&host, "/dashboard/tools/earns").await.is(200)));
    assert!(strangers.contains("HandlerJavaScript") && !strangers.contains("Limits10 s"), "{strangers}");
}

#[tokio::test]
async fn calls_that_are_not_there_learn_of_by_why() {
    let host = Host::start().await;
    let (_, key, _) = sold(&host).await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("is-new", 0.0, SOURCE)).await.is(200);
    let builder = Browser::signed_in(&host, &key).await;
    let new = builder.page("/dashboard/tools/is-new/calls?since=1h").await;
    assert!(text(&new).contains("No calls since 20") && values(&new, "href").contains(&"/dashboard/tools/is-new/try".to_owned()), "{new}");
    assert!(text(&builder.page("/dashboard/tools/is-new/calls?code=failed").await).contains("No matching calls."));

    host.call_credit("earns", &json!({ "fail": true }), &host.mint(1.0).await).await.is(502);
    let failed = eventually("the failure is shown", Duration::from_secs(10), || async {
        let events = text(&builder.page("/dashboard/events?kind=call.failed").await);
        events.contains("handler_failed").then_some(events)
    })
    .await;
    assert!(failed.contains("✕ call failed") && failed.contains("charged no"), "{failed}");
    let seen = text(&builder.page("/dashboard/tools/earns/calls").await);
    assert!(seen.contains("The handler threw an error or did not answer"), "{seen}");
}
