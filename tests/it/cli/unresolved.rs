//! Unresolved settlements: where operators see them, and `tollhouse settlements resolve`.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::harness::Shell;
use crate::harness::{Facilitator, Host, Payer, SettleMode, eventually, js};

const ECHO: &str = "export default async (req) => ({ echo: req.input });";

/// The report of a host about its unresolved settlements.
#[derive(Debug, PartialEq)]
struct Reported {
    health: Value,
    gauge: bool,
    /// Payment ids in the list for admins, and in that of the command line.
    listed: [Vec<String>; 2],
    on_the_page: bool,
    doctor: String,
}

fn ids(page: &Value) -> Vec<String> {
    page["settlements"].as_array().unwrap().iter().map(|one| one["paymentId"].as_str().unwrap().to_owned()).collect()
}

async fn metrics(host: &Host) -> String {
    host.get("/metrics").await.is(200).words()
}

/// Returns the page of the runtime for an admin who has signed in.
async fn page(host: &Host) -> String {
    let form = host.request(Method::POST, "/dashboard/session").header("sec-fetch-site", "same-origin");
    let form = form.header("content-type", "application/x-www-form-urlencoded").body(format!("credential={}", host.admin));
    let signed_in = host.send(form).await.is(303);
    let cookie = signed_in.has("set-cookie").split(';').next().unwrap();
    let request = host.request(Method::GET, "/dashboard/admin/runtime").header("accept", "text/html").header("cookie", cookie);
    host.send(request).await.is(200).words()
}

/// Returns the level and the text of doctor's finding about settlements.
async fn doctor(admin: &Shell, host: &Host) -> String {
    let data = host.folder().join("data").display().to_string();
    let ran = admin.run(&["doctor", "--json", "--data", &data]).await;
    let reported: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let finding = reported["findings"].as_array().unwrap().iter().find(|finding| finding["part"] == "settlements");
    let finding = finding.unwrap_or_else(|| panic!("nothing of settlements: {reported}"));
    format!("{}: {}", finding["level"].as_str().unwrap(), finding["text"].as_str().unwrap())
}

async fn reported(host: &Host, admin: &Shell) -> Reported {
    Reported {
        health: host.get("/health").await.is(200).json()["unresolvedSettlements"].clone(),
        gauge: metrics(host).await.contains("\ntollhouse_settlements_unresolved 1\n"),
        listed: [
            ids(&host.manage(Method::GET, "/ai/admin/unresolved", &Value::Null).await.is(200).json()),
            ids(&admin.json(&["settlements"]).await),
        ],
        on_the_page: page(host).await.contains("It is unknown whether the money moved."),
        doctor: doctor(admin, host).await,
    }
}

/// The facilitator never says how the settlement ended. A real one would in the end.
#[tokio::test]
async fn unresolved_settlement_is_seen_everywhere_until_an_admin_resolves_it() {
    let facilitator = Facilitator::start(SettleMode::Unanswered).await;
    let host = Host::builder().settled_by(&facilitator.url).flag("--unresolved-after-ms", 1_000).start().await;
    let (_, key) = host.register("Toolsmith").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("echo", 0.01, ECHO)).await.is(200);
    let admin = Shell::admin(&host);
    let payment = Payer::new().pay(&host.challenge("echo").await);
    let none = Reported {
        health: json!(0),
        gauge: false,
        listed: [vec![], vec![]],
        on_the_page: false,
        doctor: "ok: no unresolved settlements".to_owned(),
    };
    assert_eq!(reported(&host, &admin).await, none);

    host.call_paid("echo", &json!({}), &payment).await.is(502);
    eventually("the host gives up", Duration::from_secs(60), async || {
        host.payment(&payment.id()).await.filter(|payment| payment["state"] == "unresolved")
    })
    .await;
    let request = facilitator.asked();
    let found = reported(&host, &admin).await;
    let (level_and_count, rest) = found.doctor.split_once(", the oldest since 20").unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(level_and_count, "warn: 1 settlement is unresolved");
    assert!(rest.ends_with(": it is unknown whether the money moved"), "{found:?}");
    let listed = [(); 2].map(|()| vec![payment.id()]);
    let one = Reported { health: json!(1), gauge: true, listed, on_the_page: true, doctor: found.doctor.clone() };
    assert_eq!(found, one);
    assert!(metrics(&host).await.contains("\ntollhouse_payments_total{state=\"unresolved\"} 1\n"));
    let feed = host.as_builder(&key, Method::GET, "/ai/builders/events", &Value::Null).await.is(200).json();
    let events = |feed: &Value, kind: &str| feed["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count();
    assert_eq!(events(&feed, "payment.unresolved"), 1, "{feed}");
    // The payment stays used, and nobody is asked anymore.
    host.call_paid("echo", &json!({}), &payment).await.is(502);
    assert_eq!(facilitator.asked(), request);

    let (id, transaction) = (payment.id(), format!("0x{}", "ab".repeat(32)));
    let resolved = admin.run(&["settlements", "resolve", &id, "--paid", &transaction, "--yes"]).await;
    resolved.is(0).stderr_text(&format!("{id} is settled"));
    assert_eq!(reported(&host, &admin).await, none);
    let answer = host.call_paid("echo", &json!({}), &payment).await.is(200);
    assert_eq!(host.receipt(&answer.receipt_id()).await["transaction"], transaction.as_str());
}
