//! The data of two builders never mix: random operations on both, compared with a model of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Host, eventually, micros, random};

const OPERATIONS: usize = 400;
/// Number of endpoints of each builder.
const ENDPOINTS: usize = 2;
const PRICE: u64 = 2_000;
/// All builders use the same names.
const NAMES: [&str; 4] = ["a", "b", "a/b", "same"];
const SECRETS: [&str; 3] = ["KEY", "TOKEN_TWO", "SAME"];

/// Does what its input says, with everything that a handler has.
const SOURCE: &str = "export default async (req, ctx) => {
    const { what, name, value } = req.input;
    ctx.log.info(`${what} ${value ?? ''}`);
    switch (what) {
        case 'kvSet': await ctx.kv.set(name, value); return {};
        case 'kvDelete': await ctx.kv.delete(name); return {};
        case 'kvAll': return { all: Object.fromEntries((await ctx.kv.list()).entries.map(({ key, value }) => [key, value])) };
        case 'fileWrite': await ctx.files.write(name, value); return {};
        case 'fileDelete': await ctx.files.delete(name); return {};
        case 'fileAll': {
            const all = {};
            for (const { path } of (await ctx.files.list()).files) all[path] = await ctx.files.readText(path);
            return { all };
        }
        case 'env': return { all: Object.fromEntries(Object.entries(ctx.env).map(([name, value]) => [name, value.length])) };
        case 'fail': throw new Error(`failed ${value}`);
    }
};";

/// The expected state of an endpoint.
#[derive(Default)]
struct Model {
    kv: BTreeMap<String, Value>,
    files: BTreeMap<String, Value>,
    /// Name of the secret to the length of its value.
    secrets: BTreeMap<String, Value>,
    lines: Vec<String>,
    receipts: BTreeSet<String>,
    failed: usize,
}

struct Endpoint {
    slug: String,
    owner: usize,
    model: Model,
}

#[tokio::test]
async fn data_of_two_builders_never_meet() {
    let mut random = random();
    let host = Host::builder().flag("--fee-bps", 0).start().await;
    let keys = [host.register("One").await.1, host.register("Two").await.1];
    let mut endpoints = vec![];
    for (owner, key) in keys.iter().enumerate() {
        for n in 0..ENDPOINTS {
            let slug = format!("tool-{owner}-{n}");
            let tool = json!({
                "slug": slug, "title": "Tool", "priceUsd": PRICE as f64 / 1e6, "handlerType": "js_request_response",
                "capabilities": { "kv": true, "logs": true, "files": true },
                "handler": { "source": format!("// {slug}\n{SOURCE}"), "language": "js" },
                "safetyAttestation": { "accepted": true },
            });
            host.as_builder(key, Method::POST, "/ai/endpoints/create", &tool).await.is(200);
            let grant = json!({ "decision": "approve", "capabilities": { "files": true } });
            crate::gates::decide(&host, &slug, grant).await.is(200);
            endpoints.push(Endpoint { slug, owner, model: Model::default() });
        }
    }
    let credit = host.mint(100.0).await;
    for n in 0..OPERATIONS {
        let position = random.usize(..endpoints.len());
        let endpoint = &mut endpoints[position];
        operate(&host, &credit, &keys[endpoint.owner], endpoint, &mut random, n).await;
    }
    for (owner, key) in keys.iter().enumerate() {
        let own: Vec<_> = endpoints.iter().filter(|endpoint| endpoint.owner == owner).collect();
        agrees(&host, key, &own).await;
        for other in endpoints.iter().filter(|endpoint| endpoint.owner != owner) {
            for path in ["logs", "secrets"] {
                let path = format!("/ai/endpoints/{}/{path}", other.slug);
                host.as_builder(key, Method::GET, &path, &Value::Null).await.fails(403, "not_owner", "caller");
            }
            let events = format!("/ai/builders/events?endpointSlug={}", other.slug);
            let answer = host.as_builder(key, Method::GET, &events, &Value::Null).await;
            assert!(answer.status == 403 || answer.json()["events"] == json!([]), "{answer:?}");
        }
    }
}

async fn operate(host: &Host, credit: &str, key: &str, endpoint: &mut Endpoint, random: &mut fastrand::Rng, n: usize) {
    let (slug, model) = (endpoint.slug.clone(), &mut endpoint.model);
    let value = format!("{slug}-{n}");
    let secrets = format!("/ai/endpoints/{slug}/secrets");
    let what = *random
        .choice(&["kvSet", "kvSet", "kvDelete", "kvAll", "fileWrite", "fileDelete", "fileAll", "env", "fail", "setSecret", "removeSecret"])
        .unwrap();
    match what {
        "setSecret" => {
            let (name, value) = (*random.choice(&SECRETS).unwrap(), format!("secret-{value}"));
            host.as_builder(key, Method::POST, &secrets, &json!({ "name": name, "value": value })).await.is(200);
            model.secrets.insert(name.to_owned(), json!(value.len()));
            return;
        }
        "removeSecret" => {
            let name = *random.choice(&SECRETS).unwrap();
            let known = model.secrets.remove(name).is_some();
            let answer = host.as_builder(key, Method::DELETE, &format!("{secrets}?name={name}"), &Value::Null).await;
            answer.is(if known { 200 } else { 404 });
            return;
        }
        _ => {}
    }
    let name = *random.choice(&NAMES).unwrap();
    let answer = host.call_credit(&slug, &json!({ "what": what, "name": name, "value": value }), credit).await;
    model.lines.push(format!("{what} {value}"));
    if what == "fail" {
        answer.fails(502, "handler_failed", "tool");
        model.failed += 1;
        return;
    }
    let answer = answer.is(200);
    model.receipts.insert(answer.receipt_id());
    match what {
        "kvSet" => _ = model.kv.insert(name.to_owned(), json!(value)),
        "kvDelete" => _ = model.kv.remove(name),
        "fileWrite" => _ = model.files.insert(name.to_owned(), json!(value)),
        "fileDelete" => _ = model.files.remove(name),
        "kvAll" => assert_eq!(answer.json()["all"], json!(model.kv), "{slug}"),
        "fileAll" => assert_eq!(answer.json()["all"], json!(model.files), "{slug}"),
        _ => assert_eq!(answer.json()["all"], json!(model.secrets), "{slug}"),
    }
}

/// Checks that the host shows a builder exactly what the models of their endpoints say.
async fn agrees(host: &Host, key: &str, own: &[&Endpoint]) {
    let get = |path: String| async move { host.as_builder(key, Method::GET, &path, &Value::Null).await.is(200).json() };
    let calls: usize = own.iter().map(|endpoint| endpoint.model.receipts.len() + endpoint.model.failed).sum();
    let revenue = eventually("all calls are counted", Duration::from_secs(5), || async {
        let revenue = get("/ai/builders/revenue?since=1d".into()).await;
        (revenue["totals"]["calls"] == calls).then_some(revenue)
    })
    .await;
    let slugs: BTreeSet<_> = revenue["byEndpoint"].as_array().unwrap().iter().map(|row| row["endpointSlug"].as_str().unwrap()).collect();
    assert_eq!(slugs, own.iter().map(|endpoint| endpoint.slug.as_str()).collect());
    for endpoint in own {
        let (slug, model) = (endpoint.slug.as_str(), &endpoint.model);
        let rows = revenue["byEndpoint"].as_array().unwrap();
        let row = rows.iter().find(|row| row["endpointSlug"] == slug).unwrap();
        assert_eq!((&row["paidCalls"], &row["failedCalls"]), (&json!(model.receipts.len()), &json!(model.failed)));
        assert_eq!(micros(&row["netUsd"]), model.receipts.len() as u64 * PRICE);

        let listed = get(format!("/ai/endpoints/{slug}/secrets")).await;
        let names: BTreeSet<_> =
            listed["secrets"].as_array().unwrap().iter().map(|secret| secret["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, model.secrets.keys().cloned().collect());

        let lines = eventually("all lines are written", Duration::from_secs(5), || async {
            let lines = all(host, key, &format!("/ai/endpoints/{slug}/logs?since=1h"), "logs").await;
            let mut own: Vec<_> =
                lines.iter().filter(|line| line["level"] == "info").map(|line| line["message"].as_str().unwrap().to_owned()).collect();
            own.reverse();
            (own.len() == model.lines.len()).then_some(own)
        })
        .await;
        assert_eq!(lines, model.lines);

        let events = all(host, key, &format!("/ai/builders/events?since=1h&endpointSlug={slug}"), "events").await;
        let of = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
        let entries: BTreeSet<_> = events
            .iter()
            .filter(|event| event["kind"] == "call.succeeded")
            .map(|event| event["data"]["receiptId"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!((entries, of("call.failed")), (model.receipts.clone(), model.failed));
    }
    let events = all(host, key, "/ai/builders/events?since=1h", "events").await;
    for event in &events {
        assert!(event["endpointSlug"].is_null() || own.iter().any(|endpoint| event["endpointSlug"] == endpoint.slug.as_str()), "{event}");
    }
}

/// Fetches a whole list, page by page.
async fn all(host: &Host, key: &str, path: &str, name: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (vec![], String::new());
    loop {
        let page = host.as_builder(key, Method::GET, &format!("{path}&limit=200{cursor}"), &Value::Null).await.is(200).json();
        items.extend(page[name].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}
