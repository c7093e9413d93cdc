//! Schemas that common libraries generate: each is published, and accepts the values that its library accepts.
//!
//! `fixtures/schemas/` has them, with values and the verdicts of their own library (`valid`) and of Ajv (`ajv`, null if
//! it does not compile the schema).

use std::{collections::BTreeSet, fs, path::Path};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Host, Payer, chain::clients, js};

/// Values about which this host and the library differ: file, schema, position of the value, and the reason.
const LIBRARY: &[(&str, &str, usize, &str)] = &[
    ("zod-4", "network", 2, "the schema's pattern of IPv6 addresses has no dotted part, but zod's own check has"),
    ("zod-4", "intersection", 4, "the schema forbids unknown fields, but zod removes them"),
    ("valibot", "times", 3, "`date-time` requires seconds and an offset, but valibot writes it for minutes too"),
    ("pydantic", "times", 1, "`date-time` requires an offset, but Pydantic does not"),
    ("pydantic", "decimals", 2, "the schema describes a decimal as any text"),
    ("pydantic", "decimals", 3, "the schema describes a decimal as any text"),
];

/// Values about which this host and Ajv differ, although Ajv compiles the schema.
const AJV: &[(&str, &str, usize, &str)] = &[
    ("zod-4", "defaults", 0, "a required field with a default can be omitted"),
    ("zod-4", "defaults", 1, "a required field with a default can be omitted"),
    ("zod-4", "discriminated-union", 2, "a required field with a default can be omitted"),
    ("zod-3", "times", 3, "`time` without an offset is accepted"),
    ("openapi-zod-4", "nullable", 0, "`nullable` next to `enum` makes null valid"),
    ("openapi-zod-3", "nullable", 0, "`nullable` next to `enum` makes null valid"),
    ("openapi-zod-3", "nullable-literals", 0, "`nullable` next to `enum` makes null valid"),
];

struct Generated {
    file: String,
    name: String,
    schema: Value,
    instances: Vec<Value>,
}

fn generated() -> Vec<Generated> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/schemas");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut content: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(["library", "version", "generator"].iter().all(|name| content[*name].is_string()), "{file}");
        for one in content["schemas"].as_array_mut().unwrap() {
            all.push(Generated {
                file: file.clone(),
                name: one["name"].as_str().unwrap().to_owned(),
                schema: one["schema"].take(),
                instances: one["instances"].as_array().unwrap().clone(),
            });
        }
    }
    all
}

/// Returns the values that are either found or allowed, but not both.
fn surprises(found: &BTreeSet<(String, String, usize)>, allowed: &[(&str, &str, usize, &str)]) -> Vec<String> {
    let known: BTreeSet<_> = allowed.iter().map(|(file, name, position, _)| ((*file).to_owned(), (*name).to_owned(), *position)).collect();
    found.symmetric_difference(&known).map(|(file, name, position)| format!("{file} {name} {position}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_schemas_mean_what_their_libraries_mean() {
    let host = Host::start().await;
    let all = generated();
    let values: usize = all.iter().map(|one| one.instances.len()).sum();
    assert!(all.len() >= 80 && values >= 400, "{} schemas, {values} values", all.len());
    let (mut refused, mut library, mut ajv) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (number, Generated { file, name, schema, instances }) in all.iter().enumerate() {
        let slug = format!("generated-{number}");
        let tool = json!({ "slug": slug, "title": name, "handlerType": "static_json", "inputSchema": schema,
            "handler": { "response": { "ok": true } } });
        let created = host.manage(Method::POST, "/ai/endpoints/create", &tool).await;
        if created.status != 200 {
            refused.push(format!("{file} {name}: {created:?}"));
            continue;
        }
        let answers = join_all(instances.iter().map(|instance| host.call(&slug, &instance["value"]))).await;
        for (position, (instance, answer)) in instances.iter().zip(answers).enumerate() {
            let accepted = match answer.status {
                200 => true,
                422 if answer.json()["error"]["code"] == "invalid_input" => false,
                _ => panic!("{file} {name} {position}: {answer:?}"),
            };
            let key = || (file.clone(), name.clone(), position);
            if instance["valid"] != accepted {
                library.insert(key());
            }
            if instance["ajv"].is_boolean() && instance["ajv"] != accepted {
                ajv.insert(key());
            }
        }
    }
    assert!(refused.is_empty(), "{} schemas are refused:\n{}", refused.len(), refused.join("\n"));
    assert_eq!(surprises(&library, LIBRARY), [""; 0], "this host and the library differ otherwise than listed");
    assert_eq!(surprises(&ajv, AJV), [""; 0], "this host and Ajv differ otherwise than listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_clients_compile_the_list_with_all_generated_schemas() {
    let host = Host::start().await;
    let all = generated();
    let mut slugs = Vec::new();
    for (number, Generated { schema, .. }) in all.iter().enumerate() {
        let mut tool = js(&format!("generated-{number}"), 0.0, "export default (req) => req.input;");
        tool["inputSchema"] = schema.clone();
        tool["outputSchema"] = schema.clone();
        host.publish(&tool).await;
        slugs.push(format!("generated-{number}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut listed = BTreeSet::new();
    for page in slugs.chunks(20) {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
        let path = format!("/ai/mcp?tools={}", page.join(","));
        let request = host.request(Method::POST, &path).header("accept", "application/json").header("mcp-protocol-version", "2025-06-18");
        let result = host.send(request.json(&message)).await.is(200).json()["result"].clone();
        let file = folder.path().join("list.json");
        fs::write(&file, result.to_string()).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/clients/compile-lists.cjs");
        let output = Command::new("node").arg(script).arg(&file).current_dir(clients()).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["failures"], json!([]));
        listed.extend(printed["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()));
    }
    for (slug, Generated { file, name, schema, .. }) in slugs.iter().zip(&all) {
        let takes_objects = schema["type"].is_null() || schema["type"] == "object";
        assert_eq!(listed.contains(slug), takes_objects, "{file} {name}");
    }
}

#[tokio::test]
async fn defaults_change_no_payment_and_apply_to_every_way_of_calling() {
    let host = Host::start().await;
    let mut tool = js("paged", 0.01, "export default (req) => req.input;");
    tool["inputSchema"] = json!({ "type": "object", "required": ["limit"],
        "properties": { "limit": { "type": "integer", "default": 10 }, "sort": { "type": "string", "nullable": true, "default": null } } });
    host.publish(&tool).await;
    let filled = json!({ "limit": 10, "sort": null });
    let payer = Payer::funded(&host, 1.0).await;
    let payment = payer.pay(&host.challenge("paged").await);
    let first = host.call_paid("paged", &json!({}), &payment).await.is(200);
    assert_eq!(first.json(), filled);
    // The payment is bound to the input as sent.
    host.call_paid("paged", &filled, &payment).await.fails(409, "payment_reused", "caller");
    let again = host.call_paid("paged", &json!({}), &payment).await.is(200);
    assert_eq!((&again.body, again.receipt_id()), (&first.body, first.receipt_id()));
    host.change("paged", &json!({ "priceUsd": 0 })).await;
    assert_eq!(host.get("/tools/paged").await.is(200).json(), filled);
    assert_eq!(host.get("/tools/paged?limit=3").await.is(200).json(), json!({ "limit": 3, "sort": null }));
    let answer = host.mcp().call("paged", json!({ "limit": 4 }), json!({})).await;
    assert_eq!(answer["structuredContent"], json!({ "limit": 4, "sort": null }));
}
