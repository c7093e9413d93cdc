//! The audit trail: the actions and attempts of admins and builders, without the data that they
//! sent.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, eventually, js};

const SOURCE: &str = "export default () => ({ answer: 'marzipan' });";

/// Delays its version for the maximum time of a start.
const SLOW: &str = "for (;;) {} export default () => 1;";

async fn trail(host: &Host, query: &str) -> Value {
    host.manage(Method::GET, &format!("/ai/admin/audit{query}"), &Value::Null).await.is(200).json()
}

async fn entries(host: &Host, query: &str) -> Vec<Value> {
    trail(host, query).await["entries"].as_array().unwrap().clone()
}

/// Returns method, path and status of an entry.
fn brief(entry: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{} {} {}", text(&entry["method"]), text(&entry["path"]), entry["outcome"]["status"])
}

#[tokio::test]
async fn audit_trail_shows_actor_action_and_outcome_without_bodies() {
    let mut host = Host::start().await;
    host.mint(31.415_926).await;
    let (id, key) = host.register("Toolsmith Saffron").await;
    let (other, other_key) = host.register("Toolsmith Juniper").await;
    let tool = js("a-tool", 0.271_828, SOURCE);
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &json!({ "slug": "b-tool", "marzipan": 1 })).await.is(422);
    host.as_builder(&other_key, Method::PATCH, "/ai/endpoints/a-tool", &json!({ "description": "nutmeg" })).await.is(403);
    host.manage(Method::PATCH, "/ai/endpoints/a-tool", &json!({ "description": "nutmeg" })).await.is(200);
    host.as_builder(&key, Method::POST, "/ai/admin/payouts/pay_x", &json!({})).await.is(403);
    let rotated = host.manage(Method::POST, &format!("/ai/builders/keys?builderId={other}"), &Value::Null).await.is(200).json();
    let new_key = rotated["builderKey"].as_str().unwrap();
    host.as_builder(&key, Method::DELETE, "/ai/endpoints/a-tool", &Value::Null).await.is(200);

    // Requests of strangers and reads leave no entry.
    let before = entries(&host, "").await;
    host.post("/ai/endpoints/create", &tool).await.is(401);
    host.as_builder("bk_01J00000000000000000000000_x", Method::DELETE, "/ai/endpoints/a-tool", &Value::Null).await.is(401);
    host.as_builder(&key, Method::GET, "/ai/builders/me", &Value::Null).await.is(200);
    assert_eq!(entries(&host, "").await, before);

    let listed: Vec<_> = before.iter().map(brief).collect();
    let expected = [
        "DELETE /ai/endpoints/a-tool 200",
        "POST /ai/builders/keys 200",
        "POST /ai/admin/payouts/pay_x 403",
        "PATCH /ai/endpoints/a-tool 200",
        "PATCH /ai/endpoints/a-tool 403",
        "POST /ai/endpoints/create 422",
        "POST /ai/endpoints/create 200",
        "POST /ai/builders/register 200",
        "POST /ai/credits 200",
        "POST /ai/builders/register 200",
        "POST /ai/credits 200",
        "POST /ai/credits 200",
    ];
    assert_eq!(listed, expected);
    let builder = |id: &str| json!({ "kind": "builder", "builderId": id });
    assert_eq!(before[0]["actor"], builder(&id));
    assert_eq!((&before[1]["actor"], &before[1]["builderId"]), (&json!({ "kind": "admin" }), &json!(other)));
    assert_eq!((&before[4]["actor"], &before[4]["outcome"]["code"]), (&builder(&other), &json!("not_owner")));
    assert_eq!((&before[4]["slug"], &before[4]["fields"]), (&json!("a-tool"), &json!(["description"])));
    assert_eq!((&before[5]["slug"], &before[5]["outcome"]["code"]), (&json!("b-tool"), &json!("invalid_endpoint")));
    assert_eq!((&before[7]["actor"], &before[9]["actor"]), (&builder(&other), &builder(&id)));
    assert!(before.iter().all(|entry| entry["id"].as_str().unwrap().starts_with("aud_")));
    assert!(before.iter().all(|entry| entry["requestId"].as_str().unwrap().starts_with("req_")));

    let text = json!(before).to_string();
    // A key is `bk_{id}_{secret}`, and the secret may contain `_`.
    let secret_of = |key: &str| key.splitn(3, '_').nth(2).unwrap().to_owned();
    for secret in [&host.admin, &secret_of(&key), &secret_of(&other_key), &secret_of(new_key)] {
        assert!(!text.contains(secret.as_str()), "a credential is in the trail: {text}");
    }
    // Numbers that are too long to appear in a time or an identifier by chance.
    for value in ["Saffron", "Juniper", "nutmeg", "export default", "271828", "415926"] {
        assert!(!text.contains(value), "`{value}` is in the trail: {text}");
    }

    host.restart().await;
    assert_eq!(entries(&host, "").await, before, "a crash changed the trail");
}

#[tokio::test]
async fn the_trail_is_read_in_pages_and_by_actor_endpoint_and_time() {
    let host = Host::start().await;
    let (id, key) = host.register("Toolsmith").await;
    for slug in ["a-tool", "b-tool"] {
        host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js(slug, 0.0, SOURCE)).await.is(200);
        for n in 0..3 {
            host.change(slug, &json!({ "description": format!("take {n}") })).await;
        }
    }
    let all = entries(&host, "").await;
    assert_eq!(all.len(), 10, "{all:?}");
    let (mut paged, mut query) = (vec![], "?limit=3".to_owned());
    loop {
        let page = trail(&host, &query).await;
        assert!(page["entries"].as_array().unwrap().len() <= 3);
        paged.extend(page["entries"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        query = format!("?limit=3&cursor={next}");
    }
    assert_eq!(paged, all);
    let of = async |query: &str| entries(&host, query).await.len();
    assert_eq!(of("?actor=admin").await, 7);
    assert_eq!(of(&format!("?actor={id}")).await, 3);
    assert_eq!(of("?slug=b-tool").await, 4);
    assert_eq!(of("?slug=b-tool&actor=admin").await, 3);
    assert_eq!((of("?since=1h").await, of("?since=0s").await), (10, 0));
    for wrong in ["since=1w", "actor=someone", "slug=B", "limit=0", "limit=201", "cursor=x", "kind=x"] {
        let answer = host.manage(Method::GET, &format!("/ai/admin/audit?{wrong}"), &Value::Null).await;
        answer.fails(400, "invalid_request", "caller");
    }
}

#[tokio::test]
async fn an_action_that_the_end_of_the_host_cut_off_has_no_outcome() {
    let mut host = Host::start().await;
    let slow = host.request(Method::POST, "/ai/endpoints/create").header("x-admin-token", &host.admin).json(&js("slow-tool", 0.0, SLOW));
    let creating = tokio::spawn(Host::try_send(slow));
    let entered = async || entries(&host, "?slug=slow-tool").await.into_iter().next();
    let started = eventually("the action is entered", Duration::from_secs(5), entered).await;
    assert_eq!(started.get("outcome"), None, "{started}");
    // The entry is visible before it is on disk. A later acknowledged write puts it there.
    host.mint(1.0).await;
    host.restart().await;
    assert!(creating.await.unwrap().is_err(), "the host was to be killed before it answered");
    assert_eq!(entries(&host, "?slug=slow-tool").await, [started]);
    host.manage(Method::GET, "/ai/endpoints/slow-tool", &Value::Null).await.is(404);
}

#[tokio::test]
async fn an_action_whose_caller_hangs_up_continues_and_has_an_outcome() {
    let host = Host::start().await;
    let slow = host.request(Method::POST, "/ai/endpoints/create").header("x-admin-token", &host.admin).json(&js("slow-tool", 0.0, SLOW));
    let creating = tokio::spawn(Host::try_send(slow));
    eventually("the action is entered", Duration::from_secs(5), async || entries(&host, "").await.into_iter().next()).await;
    creating.abort();
    let ended = async || entries(&host, "").await.into_iter().find(|entry| entry.get("outcome").is_some());
    let ended = eventually("the action ends", Duration::from_secs(30), ended).await;
    assert_eq!(ended["outcome"]["code"], "invalid_handler", "{ended}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_entered() {
    let host = Host::start().await;
    let body = js("a-tool", 0.0, &"x".repeat(10 << 20));
    host.manage(Method::POST, "/ai/endpoints/create", &body).await.fails(413, "body_too_large", "caller");
    let entry = entries(&host, "").await.remove(0);
    assert_eq!((&entry["outcome"]["status"], &entry["fields"]), (&json!(413), &json!([])));
}

#[tokio::test]
async fn changes_of_money_name_what_they_are_about() {
    let host = Host::start().await;
    let credit = host.manage(Method::POST, "/ai/credits", &json!({ "amountUsd": 1 })).await.is(200).json();
    let (token, credit) = (credit["credit"].as_str().unwrap(), credit["creditId"].as_str().unwrap());
    let (builder, key) = host.register("Toolsmith").await;
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &js("a-tool", 0.5, SOURCE)).await.is(200);
    let receipt = host.call_credit("a-tool", &json!({}), token).await.is(200).receipt_id();
    host.manage(Method::PUT, &format!("/ai/credits/budget?creditId={credit}"), &json!({ "perDayUsd": 5 })).await.is(200);
    host.manage(Method::POST, &format!("/ai/admin/credits/{credit}"), &json!({ "decision": "revoke", "reason": "a test" })).await.is(200);
    host.manage(Method::POST, &format!("/ai/admin/credits/{credit}"), &json!({ "decision": "restore" })).await.is(200);
    let address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &json!({ "address": address, "minimumUsd": 0.1 })).await.is(200);
    let payout = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json();
    let payout = payout["payout"]["id"].as_str().unwrap().to_owned();
    host.manage(Method::POST, &format!("/ai/admin/payouts/{payout}"), &json!({ "decision": "approve" })).await.is(200);
    host.manage(Method::POST, "/ai/admin/refunds", &json!({ "receiptId": receipt, "amountUsd": 0.1 })).await.is(200);
    host.manage(Method::POST, &format!("/ai/builders/keys?builderId={builder}"), &Value::Null).await.is(200);
    host.manage(Method::POST, "/ai/admin/rescan", &Value::Null).await.is(200);

    let listed = entries(&host, "").await;
    let listed: Vec<_> =
        listed.iter().map(|entry| (entry["path"].as_str().unwrap(), entry["subject"].as_str().unwrap_or("host"))).collect();
    let judged = format!("/ai/admin/credits/{credit}");
    let decided = format!("/ai/admin/payouts/{payout}");
    assert_eq!(
        listed[..10],
        [
            ("/ai/admin/rescan", "host"),
            ("/ai/builders/keys", builder.as_str()),
            ("/ai/admin/refunds", receipt.as_str()),
            (decided.as_str(), payout.as_str()),
            ("/ai/builders/payouts", builder.as_str()),
            ("/ai/builders/payout-settings", builder.as_str()),
            (judged.as_str(), credit),
            (judged.as_str(), credit),
            ("/ai/credits/budget", credit),
            ("/ai/endpoints/create", "a-tool"),
        ]
    );
    assert_eq!(listed.last(), Some(&("/ai/credits", credit)), "the new credit");
    assert!(listed.contains(&("/ai/builders/register", builder.as_str())));
}
