//! Every declared management route, requested by every kind of caller. Strangers get only 401,
//! other builders only 403, and requests with unknown query parameters are refused.

use reqwest::Method;
use serde_json::{Value, json};
use tollhouse::http::{self, Access, Operation};

use crate::harness::{Answer, Host, js};

/// The paths for builders and admins.
const MANAGED: [&str; 4] = ["/ai/endpoints", "/ai/builders", "/ai/admin", "/ai/credits"];

/// Routes there that are open to strangers: the catalog, the public view of a record, and
/// registration.
const OPEN: [&str; 4] = ["GET /ai/endpoints", "GET /ai/endpoints/{slug}", "GET /ai/endpoints/{slug}/usage", "POST /ai/builders/register"];

/// Bodies that would cause a change on these routes. Other routes get `{}`.
const BODIES: &[(&str, &str)] = &[
    ("PATCH /ai/endpoints/{slug}", r#"{"description": "changed"}"#),
    ("POST /ai/endpoints/{slug}/secrets", r#"{"name": "API_TOKEN", "value": "a value"}"#),
    ("POST /ai/admin/builders/{id}", r#"{"decision": "restore"}"#),
    ("POST /ai/admin/credits/{id}", r#"{"decision": "restore"}"#),
    ("POST /ai/admin/reviews/{slug}", r#"{"decision": "takedown"}"#),
    ("POST /ai/admin/payouts/{id}", r#"{"decision": "approve"}"#),
    ("POST /ai/credits", r#"{"amountUsd": 1}"#),
];

/// Routes that delete what the others need. They come last.
const LAST: [&str; 2] = ["DELETE /ai/endpoints/{slug}", "POST /ai/builders/keys"];

fn name(row: &Operation) -> String {
    format!("{} {}", row.method, row.path)
}

/// Returns every route that is not public.
fn guarded() -> Vec<Operation> {
    let mut rows = http::managed_rows();
    rows.retain(|row| row.access != Access::Everyone);
    rows.sort_by_key(|row| LAST.iter().position(|last| *last == name(row)));
    rows
}

#[test]
fn strangers_manage_nothing() {
    let open = http::rows().into_iter().filter(|row| row.access == Access::Everyone);
    let there = open.filter(|row| MANAGED.iter().any(|start| row.path.starts_with(start)));
    let mut found: Vec<_> = there.map(|row| name(&row)).collect();
    found.sort();
    assert_eq!(found, OPEN);
    assert!(guarded().len() > 30 && guarded().iter().all(|row| MANAGED.iter().any(|start| row.path.starts_with(start))));
}

/// The headers that identify the caller.
type Headers<'a> = &'a [(&'a str, &'a str)];

struct Stage {
    host: Host,
    owner: String,
    packet: String,
}

impl Stage {
    async fn ask(&self, row: &Operation, named: bool, headers: Headers<'_>) -> Answer {
        let query = if named && row.access == Access::Themselves { format!("?builderId={}", self.owner) } else { String::new() };
        self.ask_with(row, &query, headers).await
    }

    async fn ask_with(&self, row: &Operation, query: &str, headers: Headers<'_>) -> Answer {
        let path = row.path.replace("{slug}", "a-tool").replace("{id}", &self.packet);
        let mut request = self.host.request(Method::from_bytes(row.method.as_bytes()).unwrap(), &format!("{path}{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !["GET", "DELETE"].contains(&row.method) {
            let body = BODIES.iter().find(|(route, _)| *route == name(row)).map_or("{}", |(_, body)| body);
            request = request.header("content-type", "application/json").body(body);
        }
        self.host.send(request).await
    }

    async fn record(&self) -> Value {
        self.host.manage(Method::GET, "/ai/endpoints/a-tool", &Value::Null).await.is(200).json()["endpoint"].clone()
    }
}

/// Returns the body of a refusal without the request id.
fn message(answer: &Answer) -> Value {
    let mut body = answer.json();
    body["error"]["requestId"] = Value::Null;
    body
}

async fn stage() -> (Stage, String, String, String) {
    let host = Host::builder().env("TOLLHOUSE_AUTH_FAILURES", 0).start().await;
    let (owner, key) = host.register("Owner").await;
    let (_, other) = host.register("Other").await;
    let tool = js("a-tool", 2.0, "export default () => ({ done: true });");
    host.as_builder(&key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
    let credit = host.mint(10.0).await;
    host.call_credit("a-tool", &json!({}), &credit).await.is(200);
    let address = json!({ "address": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C" });
    host.as_builder(&key, Method::POST, "/ai/builders/payout-settings", &address).await.is(200);
    let made = host.as_builder(&key, Method::POST, "/ai/builders/payouts", &Value::Null).await.is(200).json();
    let packet = made["payout"]["id"].as_str().unwrap().to_owned();
    (Stage { host, owner, packet }, key, other, credit)
}

#[tokio::test]
async fn a_stranger_learns_nothing_but_401_and_another_builder_nothing_but_403() {
    let (stage, key, other, credit) = stage().await;
    let admin = stage.host.admin.clone();
    // `bk_`, the id, the secret.
    let (head, secret) = (&key[..29], "x".repeat(43));
    let (wrong_secret, unknown_id) = (format!("{head}_{secret}"), format!("bk_01J00000000000000000000000_{secret}"));
    let strangers: [Headers; 7] = [
        &[],
        &[("x-builder-key", &wrong_secret)],
        &[("x-builder-key", &unknown_id)],
        &[("x-builder-key", "bk_")],
        &[("x-admin-token", "adm_not-the-admin-token")],
        &[("x-admin-token", &key), ("x-builder-key", &key)],
        &[("x-builder-key", &admin)],
    ];
    let before = stage.record().await;
    let mut listed = vec![];
    let rows = guarded();
    for row in &rows {
        let holder = row.access == Access::Holder;
        for (number, stranger) in strangers.iter().enumerate() {
            for named in [false, true] {
                let answer = stage.ask(row, named, stranger).await;
                answer.fails(401, "unauthorized", "caller");
                let message = message(&answer);
                // Routes that accept the token of a credit mention it in the refusal, the same text
                // for every stranger.
                listed.push((holder, message.clone()));
                assert!(listed.iter().all(|(holders, other)| *holders != holder || *other == message), "{row:?} {number}: {message}");
            }
        }
        if row.access != Access::Builders {
            let answer = stage.ask(row, true, &[("x-builder-key", &other)]).await;
            if holder && answer.status == 401 {
                continue;
            }
            answer.fails(403, "not_owner", "caller");
        }
    }
    assert_eq!(stage.record().await, before, "a refused request changed something");

    for row in &rows {
        let by_owner = stage.ask(row, false, &[("x-builder-key", &key)]).await;
        match row.access {
            Access::Builders | Access::Themselves | Access::Owner => assert!(allowed(&by_owner), "{row:?} {by_owner:?}"),
            Access::Admins => _ = by_owner.fails(403, "not_owner", "caller"),
            Access::Holder => assert_eq!(stage.ask(row, false, &[("x-developer-credit", &credit)]).await.status, 200, "{row:?}"),
            Access::Everyone => unreachable!("it is not guarded"),
        }
        if row.access != Access::Holder {
            let by_admin = stage.ask(row, true, &[("x-admin-token", &admin)]).await;
            assert!(allowed(&by_admin), "{row:?} {by_admin:?}");
        }
    }
}

#[tokio::test]
async fn a_query_that_a_route_does_not_take_is_refused_before_anything_is_done() {
    let (stage, _, _, _) = stage().await;
    let before = stage.record().await;
    for row in http::managed_rows() {
        let taken = row.query.iter().find(|name| **name == "builderId").map(|name| format!("&{name}={}", stage.owner));
        let request = format!("?bogus=1{}", taken.unwrap_or_default());
        let answer = stage.ask_with(&row, &request, &[("x-admin-token", &stage.host.admin)]).await;
        answer.fails(400, "invalid_request", "caller");
        let message = answer.json()["error"]["message"].to_string();
        assert!(message.contains("`bogus`") && row.query.iter().all(|name| message.contains(&format!("`{name}`"))), "{row:?} {message}");
    }
    assert_eq!(stage.record().await, before, "a refused request changed something");
}

/// Returns whether the answer is neither an authorization error nor a failure.
fn allowed(answer: &Answer) -> bool {
    !matches!(answer.status, 401 | 403) && answer.status < 500
}
