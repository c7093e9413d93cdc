//! Developer credit, as its holder and the admin see it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, js};

const ECHO: &str = "export default (req) => req.input;";

async fn as_holder(host: &Host, token: &str, query: &str) -> Answer {
    host.send(host.request(Method::GET, &format!("/ai/credits{query}")).header("x-developer-credit", token)).await
}

async fn as_admin(host: &Host, query: &str) -> Answer {
    host.send(host.request(Method::GET, &format!("/ai/credits{query}")).header("x-admin-token", &host.admin)).await
}

async fn minted(host: &Host, body: Value) -> Answer {
    host.manage(Method::POST, "/ai/credits", &body).await
}

#[tokio::test]
async fn credit_lists_its_movements() {
    let mut host = Host::start().await;
    host.publish(&js("echo", 0.25, ECHO)).await;
    let credit = minted(&host, json!({ "amountUsd": 2, "label": "for tests" })).await.is(200).json();
    let (token, id) = (credit["credit"].as_str().unwrap().to_owned(), credit["creditId"].as_str().unwrap().to_owned());
    let bought = host.call_credit("echo", &json!({ "a": 1 }), &token).await.is(200).receipt_id();
    let register = host.request(Method::POST, "/ai/builders/register").header("x-developer-credit", &token);
    let registered = host.send(register.json(&json!({ "name": "Toolsmith" }))).await.is(200).receipt_id();
    // Failed calls cause no movement.
    host.call_credit("echo", &json!("not an object"), &token).await.fails(422, "invalid_input", "caller");
    let topped = minted(&host, json!({ "creditId": id, "amountUsd": 0.5 })).await.is(200).json();
    assert_eq!((&topped["balanceUsd"], topped.get("credit")), (&json!(1.25), None), "the token is shown once");
    host.restart().await;
    let own = as_holder(&host, &token, "").await.is(200).json();
    assert_eq!((&own["creditId"], &own["balanceUsd"], &own["label"]), (&json!(id), &json!(1.25), &json!("for tests")));
    let moved = |kind: &str, amount: f64, balance: f64, bought: Option<(&String, &str)>| {
        let mut movement = json!({ "kind": kind, "amountUsd": amount, "balanceUsd": balance });
        if let Some((receipt, slug)) = bought {
            movement["receiptId"] = json!(receipt);
            movement["slug"] = json!(slug);
        }
        movement
    };
    let requested = [
        moved("mint", 0.5, 1.25, None),
        moved("debit", 1.0, 0.75, Some((&registered, "builder-registration"))),
        moved("debit", 0.25, 1.75, Some((&bought, "echo"))),
        moved("mint", 2.0, 2.0, None),
    ];
    let mut movements = own["movements"].clone();
    for movement in movements.as_array_mut().unwrap() {
        assert!(movement.as_object_mut().unwrap().remove("at").unwrap().as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(movements, json!(numbers(&requested)), "{own}");
    assert_eq!(as_admin(&host, &format!("?creditId={id}")).await.is(200).json(), own, "the admin sees the same");
    let first = as_holder(&host, &token, "?limit=3").await.is(200).json();
    let rest = as_holder(&host, &token, &format!("?limit=3&cursor={}", first["nextCursor"].as_str().unwrap())).await.is(200).json();
    assert_eq!([first["movements"].as_array().unwrap(), rest["movements"].as_array().unwrap()].map(Vec::len), [3, 1]);
    assert_eq!((&rest["movements"][0], rest.get("nextCursor")), (&own["movements"][3], None));
}

/// Writes amounts as JSON does: whole dollars may be integers.
fn numbers(movements: &[Value]) -> Vec<Value> {
    let whole = |value: &Value| match value.as_f64() {
        Some(usd) if usd.fract() == 0.0 => json!(usd as u64),
        _ => value.clone(),
    };
    let fields = |movement: &Value| movement.as_object().unwrap().iter().map(|(name, value)| (name.clone(), whole(value))).collect();
    movements.iter().map(|movement| Value::Object(fields(movement))).collect()
}

#[tokio::test]
async fn an_admin_pages_through_all_credits_and_nobody_else_does() {
    let host = Host::start().await;
    let tokens = [host.mint(1.0).await, host.mint(2.0).await, host.mint(3.0).await];
    let (mut query, mut seen) = ("?limit=2".to_owned(), vec![]);
    loop {
        let page = as_admin(&host, &query).await.is(200).json();
        assert!(!page.to_string().contains("dc_") && !page.to_string().contains("ha256"), "{page}");
        seen.extend(page["credits"].as_array().unwrap().iter().map(|credit| credit["balanceUsd"].as_f64().unwrap()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        query = format!("?limit=2&cursor={next}");
    }
    seen.sort_by(f64::total_cmp);
    assert_eq!(seen, [1.0, 2.0, 3.0]);
    let other = as_holder(&host, &tokens[1], "").await.is(200).json()["creditId"].as_str().unwrap().to_owned();
    as_holder(&host, &tokens[0], &format!("?creditId={other}")).await.fails(403, "not_owner", "caller");
    let (_, key) = host.register("Toolsmith").await;
    host.as_builder(&key, Method::GET, "/ai/credits", &Value::Null).await.fails(403, "not_owner", "caller");
    host.as_builder(&key, Method::POST, "/ai/credits", &json!({ "creditId": other, "amountUsd": 1 })).await.fails(
        403,
        "not_owner",
        "caller",
    );
    as_admin(&host, "?creditId=crd_01ARZ3NDEKTSV4RRFFQ69G5FAV").await.fails(404, "unknown_credit", "caller");
    as_admin(&host, "?cursor=none").await.fails(400, "invalid_request", "caller");
    as_holder(&host, &tokens[0], "?cursor=none").await.fails(400, "invalid_request", "caller");
}

#[tokio::test]
async fn an_idempotency_key_mints_once_and_shows_the_token_once() {
    let mut host = Host::start().await;
    let mint = async |host: &Host, key: &str, body: &Value| {
        let request = host.request(Method::POST, "/ai/credits").header("x-admin-token", &host.admin);
        host.send(request.header("idempotency-key", key).json(body)).await
    };
    let body = json!({ "amountUsd": 2, "label": "once" });
    let mut first = mint(&host, "order-1", &body).await.is(200).json();
    let token = first.as_object_mut().unwrap().remove("credit").unwrap();
    host.restart().await;
    let again = mint(&host, "order-1", &body).await.is(200);
    assert_eq!(again.json(), first, "the same record without the token");
    let more = json!({ "creditId": first["creditId"], "amountUsd": 0.5 });
    for _ in 0..3 {
        assert_eq!(mint(&host, "order-2", &more).await.is(200).json()["balanceUsd"], 2.5);
    }
    mint(&host, "order-2", &body).await.fails(409, "payment_reused", "caller");
    mint(&host, &"x".repeat(256), &body).await.fails(400, "invalid_request", "caller");
    let own = as_holder(&host, token.as_str().unwrap(), "").await.is(200).json();
    assert_eq!((&own["balanceUsd"], own["movements"].as_array().unwrap().len()), (&json!(2.5), 2), "{own}");
    assert_eq!(as_admin(&host, "").await.is(200).json()["credits"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_mint_or_top_up_is_rejected() {
    let host = Host::start().await;
    let id = minted(&host, json!({ "amountUsd": 1 })).await.is(200).json()["creditId"].clone();
    minted(&host, json!({ "amountUsd": 0 })).await.fails(422, "invalid_credit", "caller");
    minted(&host, json!({ "creditId": id, "amountUsd": 0 })).await.fails(422, "invalid_credit", "caller");
    minted(&host, json!({ "creditId": id, "amountUsd": 1_000_000 })).await.fails(422, "invalid_credit", "caller");
    minted(&host, json!({ "creditId": id, "amountUsd": 1, "label": "new" })).await.fails(422, "invalid_credit", "caller");
    minted(&host, json!({ "creditId": "crd_nothing", "amountUsd": 1 })).await.fails(404, "unknown_credit", "caller");
    let credit = as_admin(&host, &format!("?creditId={}", id.as_str().unwrap())).await.is(200).json();
    assert_eq!((&credit["balanceUsd"], credit["movements"].as_array().unwrap().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_revoked_credit_pays_for_nothing_until_it_is_restored() {
    let mut host = Host::start().await;
    host.publish(&js("echo", 0.25, ECHO)).await;
    let made = minted(&host, json!({ "amountUsd": 1, "label": "leaked" })).await.is(200).json();
    let (token, id) = (made["credit"].as_str().unwrap().to_owned(), made["creditId"].as_str().unwrap().to_owned());
    host.call_credit("echo", &json!({}), &token).await.is(200);
    let path = format!("/ai/admin/credits/{id}");
    let decide =
        async |host: &Host, decision: &str| host.manage(Method::POST, &path, &json!({ "decision": decision, "reason": "it leaked" })).await;
    decide(&host, "restore").await.fails(409, "wrong_state", "caller");
    let revoked = decide(&host, "revoke").await.is(200).json();
    assert_eq!((&revoked["balanceUsd"], &revoked["revoked"]["amountUsd"]), (&json!(0), &json!(0.75)));
    decide(&host, "revoke").await.fails(409, "credit_revoked", "caller");
    host.restart().await;
    host.call_credit("echo", &json!({}), &token).await.fails(409, "credit_revoked", "caller");
    minted(&host, json!({ "creditId": id, "amountUsd": 1 })).await.fails(409, "credit_revoked", "caller");
    let own = as_holder(&host, &token, "").await.is(200).json();
    assert_eq!((&own["revoked"]["reason"], &own["movements"][0]["kind"]), (&json!("it leaked"), &json!("revoke")));
    assert_eq!(as_admin(&host, "").await.is(200).json()["credits"][0]["revoked"]["amountUsd"], 0.75);
    let restored = decide(&host, "restore").await.is(200).json();
    assert_eq!((&restored["balanceUsd"], &restored["revoked"]), (&json!(0.75), &Value::Null));
    host.call_credit("echo", &json!({}), &token).await.is(200);
    let kinds: Vec<_> =
        as_holder(&host, &token, "").await.json()["movements"].as_array().unwrap().iter().map(|m| m["kind"].clone()).collect();
    assert_eq!(kinds, ["debit", "restore", "revoke", "debit", "mint"]);
    let trail = host.manage(Method::GET, "/ai/admin/audit", &Value::Null).await.is(200).json();
    let entered =
        |status: u64| trail["entries"].as_array().unwrap().iter().filter(|e| e["path"] == path && e["outcome"]["status"] == status).count();
    assert_eq!((entered(200), entered(409)), (2, 2));
    host.manage(Method::POST, "/ai/admin/credits/crd_none", &json!({ "decision": "revoke" })).await.fails(404, "unknown_credit", "caller");
}

async fn budgeted(host: &Host, token: &str, budget: Value) -> Answer {
    host.send(host.request(Method::PUT, "/ai/credits/budget").header("x-developer-credit", token).json(&budget)).await
}

#[tokio::test]
async fn a_holder_limits_a_credit_and_every_way_to_spend_it_keeps_to_that() {
    let host = Host::start().await;
    host.publish(&js("echo", 0.25, ECHO)).await;
    let credit = minted(&host, json!({ "amountUsd": 10 })).await.is(200).json();
    let (token, id) = (credit["credit"].as_str().unwrap(), credit["creditId"].as_str().unwrap());
    let own = budgeted(&host, token, json!({ "perDayUsd": 0.5, "alertAtUsd": 0.5 })).await.is(200).json();
    assert_eq!((&own["budget"], &own["today"]["leftUsd"]), (&json!({ "perDayUsd": 0.5, "alertAtUsd": 0.5 }), &json!(0.5)));
    host.call_credit("echo", &json!({ "n": 1 }), token).await.is(200);
    assert_eq!(as_holder(&host, token, "").await.is(200).json()["today"]["alert"], false);
    host.call_credit("echo", &json!({ "n": 2 }), token).await.is(200);
    let error = host.call_credit("echo", &json!({ "n": 3 }), token).await.fails(403, "budget_exceeded", "caller");
    let reported = &error["budget"];
    assert_eq!((&reported["kind"], &reported["limitUsd"], &reported["spentUsd"]), (&json!("perDay"), &json!(0.5), &json!(0.5)));
    assert!(reported["resetsAt"].as_str().unwrap().ends_with("T00:00:00.000Z") && error["charged"] == false, "{error}");
    let invoke = host.request(Method::POST, "/ai/invoke").header("x-developer-credit", token);
    host.send(invoke.json(&json!({ "slug": "echo", "input": {} }))).await.fails(403, "budget_exceeded", "caller");
    let register = host.request(Method::POST, "/ai/builders/register").header("x-developer-credit", token);
    host.send(register.json(&json!({ "name": "Toolsmith" }))).await.fails(403, "budget_exceeded", "caller");
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "echo", "arguments": {}, "_meta": { "tollhouse/credit": token } },
    });
    let mcp = host.request(Method::POST, "/ai/mcp").header("accept", "application/json, text/event-stream");
    let over = host.send(mcp.header("x-developer-credit", token).json(&call)).await;
    assert!(String::from_utf8_lossy(&over.body).contains("budget_exceeded"), "{over:?}");

    let seen = as_holder(&host, token, "").await.is(200).json();
    assert_eq!((&seen["balanceUsd"], &seen["today"]["spentUsd"], &seen["today"]["alert"]), (&json!(9.5), &json!(0.5), &json!(true)));
    assert_eq!(seen["today"]["byTool"], json!([{ "slug": "echo", "spentUsd": 0.5, "leftUsd": null }]));
    // The holder cannot lift a restriction of an admin.
    let frozen = host.manage(Method::PUT, &format!("/ai/credits/budget?creditId={id}"), &json!({ "frozen": true })).await;
    assert_eq!(frozen.is(200).json()["budget"]["frozen"], true);
    budgeted(&host, token, json!({})).await.is(200);
    host.call_credit("echo", &json!({ "n": 4 }), token).await.fails(403, "credit_frozen", "caller");
    host.manage(Method::PUT, &format!("/ai/credits/budget?creditId={id}"), &json!({})).await.is(200);
    host.call_credit("echo", &json!({ "n": 5 }), token).await.is(200);
    // Other holders cannot either, nor can strangers.
    let other = host.mint(1.0).await;
    let path = format!("/ai/credits/budget?creditId={id}");
    let foreign = host.request(Method::PUT, &path).header("x-developer-credit", &other).json(&json!({}));
    host.send(foreign).await.fails(403, "not_owner", "caller");
    host.send(host.request(Method::PUT, "/ai/credits/budget").json(&json!({}))).await.fails(401, "unauthorized", "caller");
    budgeted(&host, token, json!({ "perYearUsd": 1 })).await.fails(422, "invalid_credit", "caller");
}

#[tokio::test]
async fn a_budget_is_set_onto_the_revision_that_was_read() {
    let host = Host::start().await;
    let token = host.mint(1.0).await;
    let read = async || host.send(host.request(Method::GET, "/ai/credits").header("x-developer-credit", &token)).await.is(200).json();
    let set = async |onto: &str, budget: Value| {
        let request = host.request(Method::PUT, "/ai/credits/budget").header("x-developer-credit", &token).header("if-match", onto);
        host.send(request.json(&budget)).await
    };
    assert_eq!(read().await["budgets"]["revision"], 0);
    assert_eq!(set("\"0\"", json!({ "perDayUsd": 0.5 })).await.is(200).has("etag"), "\"1\"");
    let error = set("\"0\"", json!({})).await.fails(412, "revision_changed", "caller");
    assert_eq!((&error["revision"], &read().await["budget"]["perDayUsd"]), (&json!(1), &json!(0.5)), "another's change is not lost");
    set("*", json!({})).await.is(200);
    assert_eq!(read().await["budgets"], json!({ "admin": {}, "holder": {}, "revision": 2 }));
}
