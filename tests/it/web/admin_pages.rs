//! The admins' pages about the host, and their decisions about builders and money, without script.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    admin_tools::deciding,
    browser::{Browser, form},
    html, text, values,
};
use crate::{
    harness::{Host, Payer, eventually, js},
    revenue::tool,
};

const SOURCE: &str = "export default () => ({ done: true });";
const ADDRESS: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

/// Text that would become markup if it were not escaped.
const HOSTILE: &str = "</bdi><script>alert(1)</script><img src=x onerror=alert(1)>";

fn is_text(page: &str) {
    assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
    assert!(text(page).contains("alert(1)"), "it is shown: {page}");
}

#[tokio::test]
async fn overview_lists_pending_work_or_none() {
    let host = Host::start().await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let quiet = text(&admin.page("/dashboard/admin").await);
    let jailed = host.get("/health").await.json()["sandbox"]["jailRefused"].as_array().unwrap().is_empty();
    assert_eq!(quiet.contains("Nothing needs your attention."), jailed, "{quiet}");
    let (_, key) = host.register("Waits").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("waits", 0.0, "export default () => eval('1');")).await.is(200);
    host.publish(&js("fails", 0.0, "export default () => { throw new Error('no'); };")).await;
    host.call("fails", &json!({})).await.is(502);
    let busy = text(&admin.page("/dashboard/admin").await);
    assert!(busy.contains("1 review waiting, the oldest since 20") && !busy.contains("Nothing needs"), "{busy}");
    assert!(busy.contains("1 of 1 call failed.") && busy.contains("1 × handler_failed"), "{busy}");
}

#[tokio::test]
async fn the_runtime_is_reported_as_health_reports_it() {
    let host = Host::start().await;
    host.publish(&js("runs", 0.0, SOURCE)).await;
    host.call("runs", &json!({})).await.is(200);
    let health = host.get("/health").await.json();
    let page = Browser::signed_in(&host, &host.admin).await.page("/dashboard/admin/runtime").await;
    let shown = text(&page);
    let layers = health["sandbox"]["jail"].as_array().unwrap();
    assert!(!layers.is_empty());
    for layer in layers.iter().chain(health["sandbox"]["jailRefused"].as_array().unwrap().iter().map(|refused| &refused["layer"])) {
        assert!(shown.contains(layer.as_str().unwrap()), "{layer}: {shown}");
    }
    for at in values(&page, "data-gauge") {
        assert!(health.pointer(&at).is_some_and(Value::is_u64), "{at}");
    }
    assert!(values(&page, "data-gauge").len() > 20);
}

#[tokio::test]
async fn a_policy_is_saved_as_it_was_read_or_not_at_all() {
    let host = Host::start().await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let policy = async || host.manage(Method::GET, "/ai/admin/policy", &Value::Null).await.is(200).json()["policy"].clone();
    let before = policy().await;
    let page = admin.page("/dashboard/admin/policy").await;
    let save = form(&page, "/dashboard/do/setPolicy");
    let limits: Vec<_> =
        before["limits"].as_object().unwrap().iter().map(|(name, value)| (format!("number:/limits/{name}"), value.to_string())).collect();
    for (name, _) in &limits {
        assert!(values(&page, "name").contains(name), "{name}");
    }
    let filled = |more: &[(&'static str, &'static str)]| {
        let all = limits.iter().map(|(name, value)| (name.clone(), value.clone()));
        all.chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect::<Vec<_>>()
    };
    let send = async |more: &[(&'static str, &'static str)]| {
        let fields = filled(more);
        admin.submit(&save, &fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>()).await
    };
    let stored = [("flag:/builderCapabilities/kv", "true"), ("text:/tier", "jitless"), ("number:/maxEndpointsPerBuilder", "7")];
    let wrong = send(&[&stored[..], &[("number:/limits/wallMs", "0")]].concat()).await.is(422);
    assert!(text(&html(&wrong)).contains("`wallMs` must be a whole number"), "{wrong:?}");
    assert_eq!(policy().await, before);
    send(&[&stored[..], &[("flag:/requireReview", "true"), ("number:/limits/wallMs", "20000")]].concat()).await.is(303);
    let mut requested = before.clone();
    (requested["builderCapabilities"]["logs"], requested["tier"], requested["maxEndpointsPerBuilder"]) =
        (json!(false), json!("jitless"), json!(7));
    (requested["requireReview"], requested["limits"]["wallMs"]) = (json!(true), json!(20_000));
    assert_eq!(policy().await, requested);
    // The preview of a narrower policy lists its effects, and saves nothing.
    let (_, key) = host.register("Toolsmith").await;
    let mut slow = tool("slow", 0.0, SOURCE);
    slow["limits"] = json!({ "wallMs": 20_000 });
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &slow).await.is(200);
    let look = super::browser::Form { action: "/dashboard/admin/policy".to_owned(), ..save.clone() };
    let fields = filled(&[&stored[..], &[("number:/limits/wallMs", "5000"), ("number:/limits/cpuMs", "900")]].concat());
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let checked = html(&admin.submit(&look, &fields).await.is(200));
    for part in ["restrict 1 existing tool at once", "cpuMs of 1", "wallMs of 1", "1 would stop being long-running", "slow"] {
        assert!(text(&checked).contains(part), "{part}: {checked}");
    }
    let shown: Vec<_> = checked.split("<input").filter(|input| input.contains("number:/limits/wallMs")).collect();
    assert!(shown.len() == 1 && shown[0].contains("value=\"5000\""), "typed fields stay: {shown:?}");
    admin.submit(&look, &[("number:/limits/wallMs", "0")]).await.is(422);
    let builder = Browser::signed_in(&host, &key).await;
    let csrf = form(&builder.page("/dashboard/account").await, "/dashboard/sign-out").fields[0].1.clone();
    assert!(text(&html(&builder.post("/dashboard/admin/policy", &[("csrf", &csrf)]).await.is(403))).contains("Only admins can do this"));
    assert_eq!(policy().await, requested);
    send(&stored).await.is(412);
    assert_eq!(policy().await, requested, "another's change is not lost");
}

#[tokio::test]
async fn builders_are_suspended_restored_and_given_new_keys() {
    let host = Host::start().await;
    let (id, key) = host.register("Toolsmith").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("mine", 0.0, SOURCE)).await.is(200);
    let admin = Browser::signed_in(&host, &host.admin).await;
    let path = format!("/dashboard/admin/builders/{id}");
    let listed = host.manage(Method::GET, "/ai/admin/builders", &Value::Null).await.is(200).json()["builders"][0].clone();
    assert_eq!((&listed["endpoints"], &listed["last30Days"]["calls"]), (&json!(1), &json!(0)));
    assert!(listed["seenAt"].as_str() >= listed["createdAt"].as_str(), "{listed}");
    host.call("mine", &json!({})).await.is(200);
    let called = async || {
        let page = host.manage(Method::GET, "/ai/admin/builders", &Value::Null).await.is(200).json();
        (page["builders"][0]["last30Days"]["calls"] == 1).then_some(())
    };
    eventually("the call is counted", Duration::from_secs(10), called).await;
    let list = admin.page("/dashboard/admin/builders").await;
    let row = list.split("<tr>").find(|row| row.contains("Toolsmith")).unwrap();
    let cells: Vec<_> = row.split("<td").skip(1).map(|cell| text(&format!("<td{cell}"))).collect();
    assert_eq!(cells[1..4], ["1", "1", "$0"], "{row}");
    assert!(row.contains(&format!("href=\"{path}\"")) && cells[4].ends_with("UTC"), "{row}");
    let judge = async |decision: &str, filled: &[(&str, &str)]| {
        let form = deciding(&admin.page(&path).await, "judgeBuilder", decision);
        admin.submit(&form, filled).await.is(303);
        admin.page(&path).await
    };
    let suspended = judge("suspend", &[("some:/reason", HOSTILE)]).await;
    is_text(&suspended);
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("more", 0.0, SOURCE)).await.fails(403, "builder_suspended", "caller");
    assert!(text(&suspended).contains("✕ suspended") && text(&suspended).contains("mine"), "{suspended}");
    judge("restore", &[]).await;
    assert!(text(&judge("tier", &[("text:/tier", "jitless")]).await).contains("jitless"));
    assert_eq!(host.manage(Method::GET, "/ai/endpoints/mine", &Value::Null).await.json()["endpoint"]["tier"], "jitless");

    let shown = html(&admin.submit(&form(&admin.page(&path).await, "/dashboard/do/rotateBuilderKey"), &[]).await.is(200));
    let new = text(&shown).split("bk_").nth(1).map(|rest| format!("bk_{}", rest.split("Copy").next().unwrap())).unwrap();
    host.as_builder(&new, Method::GET, "/ai/builders/me", &Value::Null).await.is(200);
    host.as_builder(&key, Method::GET, "/ai/builders/me", &Value::Null).await.is(401);
    assert!(!admin.page(&path).await.contains(&new), "it is shown once");
}

#[tokio::test]
async fn a_credit_is_minted_once_and_its_token_shown_once() {
    let host = Host::start().await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let path = "/dashboard/admin/credits";
    let mint = form(&admin.page(path).await, "/dashboard/do/mintCredit");
    let filled = [("number:/amountUsd", "2.5"), ("some:/label", HOSTILE)];
    let shown = admin.submit(&mint, &filled).await.is(200);
    assert_eq!(shown.has("cache-control"), "no-store");
    let shown = text(&html(&shown));
    let token = shown.split("dc_").nth(1).map(|rest| format!("dc_{}", rest.split("Copy").next().unwrap())).unwrap();
    assert_eq!(host.credit_balance(&token).await, 2_500_000);
    // A second click mints nothing, and shows no token.
    assert!(!text(&html(&admin.submit(&mint, &filled).await.is(200))).contains("dc_"));
    let list = admin.page(path).await;
    is_text(&list);
    let ids: Vec<_> = values(&list, "href").into_iter().filter(|link| link.contains("/credits/crd_")).collect();
    assert!(ids.len() == 1 && !list.contains(&token), "{list}");

    let one = admin.page(&ids[0]).await;
    admin.submit(&form(&one, "/dashboard/do/mintCredit"), &[("number:/amountUsd", "0.5")]).await.is(200);
    assert_eq!(host.credit_balance(&token).await, 3_000_000);
    let revoke = deciding(&one, "judgeCredit", "revoke");
    let after = admin.submit(&revoke, &[("some:/reason", HOSTILE)]).await.is(303).has("location").to_owned();
    let after = admin.page(&after).await;
    is_text(&after);
    assert!(text(&after).contains("✕ revoked") && text(&after).contains("$3 simulated removed") && !after.contains(&token), "{after}");
    admin.submit(&deciding(&after, "judgeCredit", "restore"), &[]).await.is(303);
    assert_eq!(host.credit_balance(&token).await, 3_000_000);
    admin.submit(&mint, &[("number:/amountUsd", "much")]).await.is(400);
}

#[tokio::test]
async fn an_admin_sees_which_tools_take_up_the_sandbox() {
    let host = Host::start().await;
    host.publish(&js("calm", 0.0, SOURCE)).await;
    let mut endless = js("endless", 0.0, "export default () => { for (;;) {} };");
    endless["limits"] = json!({ "cpuMs": 500 });
    host.publish(&endless).await;
    assert_eq!(host.manage(Method::GET, "/ai/admin/runtime", &Value::Null).await.is(200).json()["total"], 0);
    for _ in 0..2 {
        host.call("calm", &json!({})).await.is(200);
    }
    host.call("endless", &json!({})).await.is(504);
    let body = host.manage(Method::GET, "/ai/admin/runtime", &Value::Null).await.is(200).json();
    let of = |slug: &str| body["endpoints"].as_array().unwrap().iter().find(|line| line["slug"] == slug).cloned().unwrap();
    assert_eq!((&body["total"], &body["endpoints"][0]["slug"]), (&json!(2), &json!("endless")), "it took most: {body}");
    assert_eq!((&of("calm")["calls"], &of("calm")["stops"], &of("calm")["running"]), (&json!(2), &json!(0), &json!(0)));
    assert_eq!((&of("endless")["calls"], &of("endless")["stops"]), (&json!(1), &json!(1)));
    let cold = of("calm")["coldCalls"].as_u64().unwrap();
    assert!((1..=2).contains(&cold) && of("endless")["coldCalls"] == 1, "the first call of each loads it: {body}");
    let few = host.manage(Method::GET, "/ai/admin/runtime?limit=1", &Value::Null).await.is(200).json();
    assert_eq!((few["endpoints"].as_array().unwrap().len(), &few["total"]), (1, &json!(2)));
    let admin = Browser::signed_in(&host, &host.admin).await;
    let page = admin.page("/dashboard/admin/runtime").await;
    let row = page.split("<tr>").find(|row| row.contains(">calm<")).unwrap();
    let share = if cold == 1 { "50.0 %" } else { "100.0 %" };
    let cells = |row: &str| row.split("<td").skip(1).take(3).map(|cell| text(&format!("<td{cell}"))).collect::<Vec<_>>();
    assert_eq!(cells(row), ["0", "2", share], "{row}");
    assert!(text(&page).contains("2 of 2 called tools"), "{page}");
    // The script requests only the table again.
    let part = admin.page(&values(&page, "data-rows")[0]).await;
    let row = part.split("<tr>").find(|row| row.contains(">calm<")).unwrap();
    assert_eq!(cells(row), ["0", "2", share], "{part}");
    assert!(part.starts_with("<div id=\"rows\">") && !part.contains("data-gauge"), "{part}");
}

#[tokio::test]
async fn payouts_with_one_transaction_are_shown_with_a_warning() {
    let host = Host::start().await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let (credit, hash) = (host.mint(10.0).await, format!("0x{}", "5".repeat(64)));
    let (mut paid, mut shown) = (vec![], String::new());
    for slug in ["earns-one", "earns-two"] {
        let (_, key) = host.register(slug).await;
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 2.0, SOURCE)).await.is(200);
        host.call_credit(slug, &json!({}), &credit).await.is(200);
        host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &json!({ "address": ADDRESS })).await.is(200);
        let packet = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payout"].clone();
        let id = packet["id"].as_str().unwrap().to_owned();
        host.manage(Method::POST, &format!("/ai/admin/payouts/{id}"), &json!({ "decision": "approve" })).await.is(200);
        let page = admin.page("/dashboard/admin/payouts?status=approved").await;
        assert!(!text(&shown).contains("is also recorded for"), "{shown}");
        let recorded = admin.submit(&deciding(&page, "decidePayout", "paid"), &[("text:/transaction", &hash)]).await.is(303);
        // The admin comes to a page that shows the payout.
        shown = admin.page(recorded.has("location").split('#').next().unwrap()).await;
        assert!(text(&shown).contains(&id), "{shown}");
        paid.push((id, key));
    }
    assert!(text(&shown).contains("is also recorded for"), "{shown}");
    for ((id, key), (other, _)) in [(&paid[0], &paid[1]), (&paid[1], &paid[0])] {
        let path = format!("/ai/builders/payouts/{id}");
        let warning = host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json()["payout"]["warning"].clone();
        // It does not name the payout of another builder.
        assert_eq!(warning, "the transaction is also recorded for another payout; check that it sent this amount");
        let page = Browser::signed_in(&host, key).await.page(&format!("/dashboard/payouts/{id}")).await;
        assert!(text(&page).contains("is also recorded for") && !text(&page).contains(other), "{page}");
        let feed = host.as_builder(key, Method::GET, "/ai/builders/events", &Value::Null).await.is(200);
        assert!(!feed.words().contains(other), "{feed:?}");
        let all = host.manage(Method::GET, "/ai/admin/payouts", &Value::Null).await.is(200).json()["payouts"].clone();
        let listed = all.as_array().unwrap().iter().find(|listed| listed["id"] == **id).unwrap_or_else(|| panic!("{all}"));
        assert!(listed["warning"].as_str().is_some_and(|warning| warning.contains(other)), "{listed}");
    }
}

#[tokio::test]
async fn packets_are_approved_sent_and_failed_by_their_buttons() {
    let host = Host::start().await;
    let (id, key) = host.register("Earner").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool("earns", 2.0, SOURCE)).await.is(200);
    let credit = host.mint(10.0).await;
    host.call_credit("earns", &json!({}), &credit).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &json!({ "address": ADDRESS })).await.is(200);
    let packet = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json()["payout"].clone();
    let admin = Browser::signed_in(&host, &host.admin).await;
    let path = "/dashboard/admin/payouts";
    let status = async || host.manage(Method::GET, "/ai/admin/payouts", &Value::Null).await.json()["payouts"][0].clone();
    let amount = format!("${}", packet["amountUsd"]);
    let decide = async |state: &str, decision: &str, filled: &[(&str, &str)]| {
        let page = admin.page(&format!("{path}?status={state}")).await;
        assert!([&amount, &id, "for Earner"].iter().all(|reported| text(&page).contains(*reported)), "{page}");
        admin.submit(&deciding(&page, "decidePayout", decision), filled).await
    };
    decide("created", "approve", &[]).await.is(303);
    assert!(text(&admin.page("/dashboard/admin").await).contains("1 payout to send"));
    let counts = host.manage(Method::GET, "/ai/admin/payouts?limit=1&status=paid", &Value::Null).await.is(200).json()["counts"].clone();
    let expected = json!({ "collecting": 0, "created": 0, "approved": 1, "paid": 0, "failed": 0, "rejecting": 0, "rejected": 0 });
    assert_eq!(counts, expected, "of all, whatever is asked for");
    let to_send = text(&admin.page(&format!("{path}?status=approved")).await);
    assert!(
        to_send.contains(&format!("Total to send for the payouts on this page: {amount} simulated in 1 payout on base-sepolia, USDC")),
        "{to_send}"
    );
    decide("approved", "failed", &[("some:/reason", HOSTILE)]).await.is(303);
    is_text(&admin.page(&format!("{path}?status=failed")).await);
    decide("failed", "approve", &[]).await.is(303);
    let wrong = decide("approved", "paid", &[("text:/transaction", "0x1")]).await.is(422);
    assert!(text(&html(&wrong)).contains("64 hex digits"), "{wrong:?}");
    let hash = format!("0x{}", "5".repeat(64));
    decide("approved", "paid", &[("text:/transaction", &hash)]).await.is(303);
    assert_eq!((status().await["status"].clone(), status().await["transaction"].clone()), (json!("paid"), json!(hash)));
    assert!(text(&admin.page(&format!("{path}?status=created")).await).contains("No payouts in this state."));
    admin.get(&format!("{path}?status=lost")).await.is(400);
}

#[tokio::test]
async fn a_receipt_is_given_back_from_its_own_page() {
    let host = Host::start().await;
    host.publish(&js("earns", 0.25, SOURCE)).await;
    host.publish(&js("gives", 0.0, SOURCE)).await;
    let credit = host.mint(1.0).await;
    let paid = host.call_credit("earns", &json!({}), &credit).await.is(200).receipt_id();
    let free = host.call("gives", &json!({})).await.is(200).receipt_id();
    let payer = Payer::funded(&host, 1.0).await;
    let by_x402 = host.call_paid("earns", &json!({}), &payer.pay(&host.challenge("earns").await)).await.is(200).receipt_id();
    let (stranger, admin) = (Browser::new(&host), Browser::signed_in(&host, &host.admin).await);
    let path = format!("/dashboard/receipts/{paid}");
    assert!(!stranger.page(&path).await.contains("giveRefund"));
    assert!(!admin.page(&format!("/dashboard/receipts/{free}")).await.contains("giveRefund"));
    let form = |page: &str| form(page, "/dashboard/do/giveRefund");
    let some = form(&admin.page(&path).await);
    for _ in 0..2 {
        // Two clicks give one refund.
        admin.submit(&some, &[("number:/amountUsd", "0.1"), ("some:/reason", HOSTILE)]).await.is(303);
    }
    assert!(text(&stranger.page(&path).await).contains("Refunded: $0.1"));
    let over = admin.submit(&form(&admin.page(&path).await), &[("number:/amountUsd", "0.2")]).await.is(409);
    assert!(text(&html(&over)).contains("refund_too_large"), "{over:?}");
    let sent = admin.page(&format!("/dashboard/receipts/{by_x402}")).await;
    admin.submit(&form(&sent), &[]).await.is(422);
    admin.submit(&form(&sent), &[("some:/transaction", &format!("0x{}", "7".repeat(64)))]).await.is(303);
    assert!(text(&stranger.page(&format!("/dashboard/receipts/{by_x402}")).await).contains("Refunded: $0.25"));
}

#[tokio::test]
async fn the_trail_is_read_by_who_when_and_what() {
    let host = Host::start().await;
    let (id, key) = host.register("Toolsmith").await;
    for slug in ["one", "two"] {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool(slug, 0.0, SOURCE)).await.is(200);
    }
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &json!({ "slug": "three" })).await.is(422);
    host.change("one", &json!({ "title": "Another" })).await;
    let admin = Browser::signed_in(&host, &host.admin).await;
    let read = async |query: &str| {
        let page = admin.page(&format!("/dashboard/admin/audit{query}")).await;
        (page.matches("<tr").count().saturating_sub(1), text(&page))
    };
    let (all, reported) = read("").await;
    let api = host.manage(Method::GET, "/ai/admin/audit", &Value::Null).await.json()["entries"].as_array().unwrap().len();
    assert_eq!(all, api);
    for part in ["PATCH /ai/endpoints/one", &id, "title", "✓ done", "422 invalid_endpoint"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    assert_eq!(read("?slug=one").await.0, 2);
    assert_eq!(read(&format!("?slug=one&actor={id}&since=1h")).await.0, 1);
    assert!(read("?slug=none").await.1.contains("No matching changes."));
    for bad in ["?since=ever", "?actor=somebody", "?slug=No%20Slug", "?cursor=x"] {
        admin.get(&format!("/dashboard/admin/audit{bad}")).await.is(400);
    }
    for n in 0..52 {
        host.change("one", &json!({ "title": format!("Title {n}") })).await;
    }
    let first = admin.page("/dashboard/admin/audit?slug=one").await;
    let next = values(&first, "href").into_iter().find(|link| link.contains("cursor=")).unwrap();
    assert!(next.contains("slug=one"), "{next}");
    assert_eq!(admin.page(&next).await.matches("<tr").count() - 1, 4);
}
