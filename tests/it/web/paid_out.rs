//! Pages and forms for payouts, events and credit.

use std::{collections::BTreeSet, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    browser::{Browser, form},
    html, text, values,
};
use crate::{
    harness::{Host, eventually, micros},
    revenue::tool,
};

const ADDRESS: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const SOURCE: &str = "export default async () => ({ done: true });";
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"><img src=x onerror=alert(1)>";

#[tokio::test]
async fn payout_is_created_by_a_form_and_shown_with_its_proof() {
    let host = Host::builder().flag("--fee-bps", 1_000).start().await;
    let (_, key) = host.register("Earner").await;
    let (_, other) = host.register("Other").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 0.25, SOURCE)).await.is(200);
    let credit = host.mint(10.0).await;
    let mut receipts = vec![];
    for n in 0..4 {
        receipts.push(host.call_credit("earns", &json!({ "n": n }), &credit).await.is(200).receipt_id());
    }
    let browser = Browser::signed_in(&host, &key).await;
    let page = browser.page("/dashboard/payouts").await;
    assert!(text(&page).contains("No payout address is set.") && text(&page).contains("No payouts yet."));
    let saves = async |address: &str, minimum: &str| {
        let fields = [("text:/address", address), ("some:/network", ""), ("some:/asset", ""), ("number:/minimumUsd", minimum)];
        browser.fill("/dashboard/payouts", "/dashboard/do/setPayoutSettings", &fields).await
    };
    let wrong = saves(&ADDRESS.replace("Cb", "cb"), "").await.is(422);
    assert!(html(&wrong).contains("invalid_payout"), "an address whose checksum is wrong");
    let saved = saves(ADDRESS, "").await.is(303);
    assert!(saved.has("location").starts_with("/dashboard/payouts?done=setPayoutSettings."), "{saved:?}");
    let page = browser.page(saved.has("location")).await;
    assert!(values(&page, "value").contains(&ADDRESS.to_owned()), "the form shows the current setting");
    assert!(
        text(&page).contains("$0.9 simulated is waiting. The minimum for a payout is $1 simulated.") && !page.contains("makePayout"),
        "{}",
        text(&page)
    );
    assert!(text(&page).contains("$0.9 simulatedwaiting") && text(&page).contains("From 4 receipts"), "{}", text(&page));
    saves(ADDRESS, "0.5").await.is(303);
    assert!(text(&browser.page("/dashboard/payouts").await).contains("Create a payout of $0.9 simulated"));
    browser.fill("/dashboard/payouts", "/dashboard/do/makePayout", &[]).await.is(303);

    let made = host.as_builder(&key, Method::GET, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payouts"][0].clone();
    let id = made["id"].as_str().unwrap();
    let (list, path) = (browser.page("/dashboard/payouts").await, format!("/dashboard/payouts/{id}"));
    assert!(text(&list).contains("No revenue is waiting to be paid out.") && !list.contains("makePayout"), "{}", text(&list));
    assert!(values(&list, "href").contains(&path) && text(&list).contains("◐ waits for approval") && text(&list).contains("$0.9"));
    let packet = browser.page(&path).await;
    for member in ["digest", "signature", "address", "asset", "network", "id"] {
        assert!(text(&packet).contains(made[member].as_str().unwrap()), "{member}");
    }
    let linked: BTreeSet<_> =
        values(&packet, "href").into_iter().filter_map(|link| link.strip_prefix("/dashboard/receipts/").map(str::to_owned)).collect();
    assert_eq!(linked, receipts.iter().cloned().collect());
    assert_eq!(micros(&made["amountUsd"]), 900_000);

    for body in [json!({ "decision": "approve" }), json!({ "decision": "failed", "reason": HOSTILE.replace('\u{202e}', "") })] {
        host.manage(Method::POST, &format!("/ai/admin/payouts/{id}"), &body).await.is(200);
    }
    let failed = browser.page(&path).await;
    assert!(text(&failed).contains("✕ failed") && text(&failed).contains("<script>alert(1)"), "the reason is read");
    assert_eq!((failed.matches("<img").count(), failed.matches("<script>").count()), (0, 0), "and is text");
    let others = Browser::signed_in(&host, &other).await;
    assert!(html(&others.get(&path).await.is(403)).contains("not_owner"));
    assert!(html(&browser.get("/dashboard/payouts/pay_none").await.is(404)).contains("unknown_payout"));
}

#[tokio::test]
async fn events_are_reported_by_kind_and_by_tool() {
    let host = Host::start().await;
    let (builder, key) = host.register("Earner").await;
    let browser = Browser::signed_in(&host, &key).await;
    let quiet = browser.page("/dashboard/events?kind=payout.paid").await;
    assert!(text(&quiet).contains("No matching events."));
    for slug in ["one", "two"].map(|name| format!("tool-{name}")) {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(&slug, 0.0, SOURCE)).await.is(200);
        host.call(&slug, &json!({})).await.is(200);
    }
    host.manage(Method::POST, "/ai/admin/reviews/tool-two", &json!({ "decision": "takedown", "reason": HOSTILE })).await.is(200);
    let rows = async |query: &str| browser.page(&format!("/dashboard/events{query}")).await.matches("<th scope=\"row\">").count();
    eventually("calls are shown", Duration::from_secs(10), || async { (rows("?kind=call.succeeded").await == 2).then_some(()) }).await;
    assert_eq!(
        (rows("?tool=tool-one").await, rows("?kind=endpoint.created").await, rows("?tool=tool-one&kind=endpoint.created").await),
        (2, 2, 1)
    );
    let one = browser.page("/dashboard/events?tool=tool-one&kind=endpoint.created").await;
    assert_eq!(values(&one, "data-live"), ["/dashboard/api/ai/builders/events?kind=endpoint.created&endpointSlug=tool-one"]);
    assert!(values(&one, "data-row").iter().all(|id| id.starts_with("evt_")) && values(&one, "data-row").len() == 1, "{one}");
    // The script already has the page, and requests only as many rows as there are new events.
    assert_eq!(values(&one, "data-rows"), ["/dashboard/events?kind=endpoint.created&tool=tool-one"]);
    let part = browser.page("/dashboard/events?kind=endpoint.created&rows=1").await;
    assert!(part.starts_with("<div id=\"rows\">") && part.matches("<tr>").count() == 2 && !part.contains("<h2"), "{part}");
    assert!(part.contains("tool-two") && !part.contains("tool-one") && !part.contains("data-live"), "the newest alone: {part}");
    let page = browser.page("/dashboard/events").await;
    let seen = text(&page);
    for reported in ["tool published", "call succeeded", "tool reviewed", "takedown", "<script>alert(1)"] {
        assert!(seen.contains(reported), "{reported}: {seen}");
    }
    assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains('\u{202e}'), "{page}");

    // Every kind of event in the API can be selected, and has a description.
    let select = page.split("<select id=\"kind\"").nth(1).unwrap().split("</select>").next().unwrap();
    let offered: BTreeSet<_> = values(select, "value").into_iter().filter(|kind| !kind.is_empty()).collect();
    let refused =
        host.as_builder(&key, Method::GET, "/ai/builders/events?kind=none", &Value::Null).await.fails(400, "invalid_request", "caller");
    let known: BTreeSet<_> = refused["message"].as_str().unwrap().split('`').filter(|word| word.contains('.')).map(str::to_owned).collect();
    assert!(known.len() > 20, "{refused}");
    assert_eq!(offered, known);
    assert!(html(&browser.get("/dashboard/events?kind=none").await.is(400)).contains("invalid_request"));
    let admin = Browser::signed_in(&host, &host.admin).await;
    let seen = text(&admin.page(&format!("/dashboard/events?builderId={builder}&kind=endpoint.created")).await);
    assert!(seen.contains("tool-one") && seen.contains("tool-two"), "{seen}");
}

#[tokio::test]
async fn holder_sees_credit_movements_and_sets_a_budget() {
    let host = Host::start().await;
    host.publish(&tool("earns", 0.25, SOURCE)).await;
    let minted =
        host.manage(Method::POST, "/ai/credits", &json!({ "amountUsd": 5, "label": HOSTILE.replace('\u{202e}', "") })).await.is(200).json();
    let token = minted["credit"].as_str().unwrap();
    let browser = Browser::signed_in(&host, token).await;
    let bought: Vec<_> = {
        let mut bought = vec![];
        for n in 0..3 {
            bought.push(host.call_credit("earns", &json!({ "n": n }), token).await.is(200).receipt_id());
        }
        bought
    };
    let page = browser.page("/dashboard/credit").await;
    let seen = text(&page);
    for body in ["$4.25", "Spent today: $0.75 simulated", "−$0.25", "+$5", "<script>alert(1)", "simulated"] {
        assert!(seen.contains(body), "{body}: {seen}");
    }
    assert!(!page.contains("<img") && !page.contains("<script>"), "a label is text");
    assert!(!page.contains(token), "the token is shown nowhere");
    for id in &bought {
        assert!(values(&page, "href").contains(&format!("/dashboard/receipts/{id}")), "{id}");
    }
    assert_eq!(page.matches("<th scope=\"row\">").count(), 4);

    let bounds = |per_day: &'static str, frozen: &'static str| {
        [("number:/perCallUsd", ""), ("number:/perDayUsd", per_day), ("flag:/frozen", frozen)]
    };
    let set = browser.fill("/dashboard/credit", "/dashboard/do/setBudget", &bounds("1", "false")).await.is(303);
    assert!(set.has("location").starts_with("/dashboard/credit?done=setBudget."), "{set:?}");
    let body = host.send(host.request(Method::GET, "/ai/credits").header("x-developer-credit", token)).await.is(200).json();
    assert_eq!((micros(&body["budgets"]["holder"]["perDayUsd"]), &body["budgets"]["holder"]["perCallUsd"]), (1_000_000, &Value::Null));
    let page = browser.page("/dashboard/credit").await;
    assert!(text(&page).contains("left today: $0.25 simulated") && page.contains("value=\"1\""), "{page}");
    host.call_credit("earns", &json!({ "n": 4 }), token).await.is(200);
    host.call_credit("earns", &json!({ "n": 5 }), token).await.fails(403, "budget_exceeded", "caller");
    browser.fill("/dashboard/credit", "/dashboard/do/setBudget", &bounds("", "true")).await.is(303);
    assert!(text(&browser.page("/dashboard/credit").await).contains("✕ frozen"));
    browser.fill("/dashboard/credit", "/dashboard/do/setBudget", &bounds("-1", "false")).await.is(422);

    let (_, key) = host.register("Earner").await;
    assert!(html(&Browser::signed_in(&host, &key).await.get("/dashboard/credit").await.is(403)).contains("not_owner"));
    let admin = Browser::signed_in(&host, &host.admin).await;
    assert_eq!(admin.get("/dashboard/credit").await.is(303).has("location"), "/dashboard/admin/credits");
}

#[tokio::test]
async fn a_form_of_an_older_revision_changes_nothing() {
    let host = Host::start().await;
    let (_, key) = host.register("Earner").await;
    let (builder, holder) = (Browser::signed_in(&host, &key).await, Browser::signed_in(&host, &host.mint(1.0).await).await);
    let address = [("text:/address", ADDRESS)];
    for (browser, path, operation, filled) in [
        (&builder, "/dashboard/payouts", "/dashboard/do/setPayoutSettings", &address[..]),
        (&holder, "/dashboard/credit", "/dashboard/do/setBudget", &[("number:/perDayUsd", "0.5")]),
    ] {
        for _ in 0..2 {
            let old = form(&browser.page(path).await, operation);
            browser.submit(&old, filled).await.is(303);
            let refused = html(&browser.submit(&old, filled).await.is(412));
            assert!(refused.contains("revision_changed") && values(&refused, "href").contains(&path.to_owned()), "{refused}");
        }
    }
}
