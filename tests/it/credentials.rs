//! Every management route, asked by everyone: a stranger learns nothing but 401, another builder nothing but 403.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host, js};

/// Where builders and admins manage; what stands in [`OPEN`] is for everyone.
const MANAGED: [&str; 4] = ["/ai/endpoints", "/ai/builders", "/ai/admin", "/ai/credits"];

/// Routes below [`MANAGED`] that strangers may use: the catalogue, a record's public view, and becoming a builder.
const OPEN: [&str; 3] = ["GET /ai/endpoints", "GET /ai/endpoints/{slug}", "POST /ai/builders/register"];

/// Whose business a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Any builder's, for what becomes their own.
    Anyone,
    /// The builder's who shows the key; an admin names one by `?builderId=`, and a builder names no other.
    Themselves,
    /// The owner's of what the path names.
    Owner,
    Admins,
    /// Not a builder's; whoever holds the credit's token asks with that.
    Holder,
}
use For::{Admins, Anyone, Holder, Owner, Themselves};

/// Every management route, whose it is, and a body for it. What takes away stands last.
const ROUTES: &[(&str, For, &str)] = &[
    ("POST /ai/endpoints/create", Anyone, "{}"),
    ("POST /ai/endpoints/check", Anyone, "{}"),
    ("POST /ai/endpoints/{slug}/run", Owner, "{}"),
    ("PATCH /ai/endpoints/{slug}", Owner, r#"{"description": "changed"}"#),
    ("GET /ai/endpoints/{slug}/source", Owner, ""),
    ("GET /ai/endpoints/{slug}/logs", Owner, ""),
    ("GET /ai/endpoints/{slug}/calls", Owner, ""),
    ("GET /ai/endpoints/{slug}/metrics", Owner, ""),
    ("POST /ai/endpoints/{slug}/secrets", Owner, r#"{"name": "API_TOKEN", "value": "a value"}"#),
    ("GET /ai/endpoints/{slug}/secrets", Owner, ""),
    ("DELETE /ai/endpoints/{slug}/secrets", Owner, ""),
    ("GET /ai/builders/me", Themselves, ""),
    ("GET /ai/builders/endpoints", Themselves, ""),
    ("GET /ai/builders/revenue", Themselves, ""),
    ("GET /ai/builders/events", Themselves, ""),
    ("GET /ai/builders/payout-settings", Themselves, ""),
    ("POST /ai/builders/payout-settings", Themselves, "{}"),
    ("GET /ai/builders/payouts", Themselves, ""),
    ("POST /ai/builders/payouts", Themselves, ""),
    ("GET /ai/builders/payouts/{id}", Owner, ""),
    ("GET /ai/admin/builders", Admins, ""),
    ("POST /ai/admin/builders/{id}", Admins, r#"{"decision": "restore"}"#),
    ("GET /ai/admin/endpoints", Admins, ""),
    ("GET /ai/admin/revenue", Admins, ""),
    ("POST /ai/admin/credits/{id}", Admins, r#"{"decision": "restore"}"#),
    ("GET /ai/admin/audit", Admins, ""),
    ("GET /ai/admin/policy", Admins, ""),
    ("PUT /ai/admin/policy", Admins, "{}"),
    ("GET /ai/admin/reviews", Admins, ""),
    ("POST /ai/admin/reviews/{slug}", Admins, r#"{"decision": "takedown"}"#),
    ("POST /ai/admin/rescan", Admins, ""),
    ("GET /ai/admin/payouts", Admins, ""),
    ("POST /ai/admin/payouts/{id}", Admins, r#"{"decision": "approve"}"#),
    ("POST /ai/admin/secrets/rotate", Admins, "{}"),
    ("GET /ai/credits", Holder, ""),
    ("POST /ai/credits", Admins, r#"{"amountUsd": 1}"#),
    ("DELETE /ai/endpoints/{slug}", Owner, ""),
    ("POST /ai/builders/keys", Themselves, ""),
];

/// The routes of `src/http.rs` as `METHOD /path`.
fn routes() -> BTreeSet<String> {
    let methods = ["get", "post", "put", "patch", "delete"];
    let mut found = BTreeSet::new();
    for route in include_str!("../../src/http.rs").split(".route(").skip(1) {
        let path = route.split('"').nth(1).unwrap();
        for (at, _) in route.match_indices('(') {
            let word = route[..at].rsplit(|char: char| !char.is_ascii_alphanumeric() && char != '_').next().unwrap();
            found.extend(methods.iter().filter(|method| **method == word).map(|method| format!("{} {path}", method.to_uppercase())));
        }
    }
    found
}

#[test]
fn every_management_route_is_in_the_table() {
    let managed = routes().into_iter().filter(|route| {
        let (_, path) = route.split_once(' ').unwrap();
        MANAGED.iter().any(|start| path.starts_with(start)) && !OPEN.contains(&route.as_str())
    });
    let (managed, table): (BTreeSet<_>, BTreeSet<_>) =
        (managed.collect(), ROUTES.iter().map(|(route, _, _)| (*route).to_owned()).collect());
    assert!(managed.len() > 15, "{managed:?}");
    assert_eq!(table.len(), ROUTES.len(), "a route stands twice");
    assert_eq!(managed, table);
}

/// Who asks, by the headers that say so.
type Headers<'a> = &'a [(&'a str, &'a str)];

struct Stage {
    host: Host,
    owner: String,
    packet: String,
}

impl Stage {
    async fn ask(&self, (route, whose, body): (&str, For, &str), named: bool, headers: Headers<'_>) -> Answer {
        let (method, path) = route.split_once(' ').unwrap();
        let mut path = path.replace("{slug}", "a-tool").replace("{id}", &self.packet);
        if named && whose == Themselves {
            path += &format!("?builderId={}", self.owner);
        }
        let mut request = self.host.request(Method::from_bytes(method.as_bytes()).unwrap(), &path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = if body.is_empty() { request } else { request.header("content-type", "application/json").body(body.to_owned()) };
        self.host.send(request).await
    }
}

/// What a refusal says but for the request's id.
fn said(answer: &Answer) -> Value {
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
    let revision = async || stage.host.manage(Method::GET, "/ai/endpoints/a-tool", &Value::Null).await.is(200).json()["endpoint"].clone();
    let before = revision().await;
    let mut told = vec![];
    for route in ROUTES {
        for (number, stranger) in strangers.iter().enumerate() {
            for named in [false, true] {
                let answer = stage.ask(*route, named, stranger).await;
                answer.fails(401, "unauthorized", "caller");
                let said = said(&answer);
                // What the token of a credit is for is hinted at where one may be sent: to every stranger alike.
                told.push((route.1 == Holder, said.clone()));
                assert!(told.iter().all(|(holder, other)| *holder != (route.1 == Holder) || *other == said), "{route:?} {number}: {said}");
            }
        }
        if route.1 != Anyone {
            let answer = stage.ask(*route, true, &[("x-builder-key", &other)]).await;
            if route.1 == Holder && answer.status == 401 {
                continue;
            }
            answer.fails(403, "not_owner", "caller");
        }
    }
    assert_eq!(revision().await, before, "a refused request changed something");

    for route in ROUTES {
        let by_owner = stage.ask(*route, false, &[("x-builder-key", &key)]).await;
        match route.1 {
            Anyone | Themselves | Owner => assert!(allowed(&by_owner), "{route:?} {by_owner:?}"),
            Admins => _ = by_owner.fails(403, "not_owner", "caller"),
            Holder => assert!(stage.ask(*route, false, &[("x-developer-credit", &credit)]).await.status == 200),
        }
        if route.1 != Holder {
            let by_admin = stage.ask(*route, true, &[("x-admin-token", &admin)]).await;
            assert!(allowed(&by_admin), "{route:?} {by_admin:?}");
        }
    }
}

/// Neither refused for who asks, nor failed.
fn allowed(answer: &Answer) -> bool {
    !matches!(answer.status, 401 | 403) && answer.status < 500
}
