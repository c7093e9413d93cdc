//! Runs every `fixtures/tools/*/cases.jsonc` on a host. A new case needs no Rust.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Host};

/// Returns the folders of a kind, sorted by name.
pub fn folders(kind: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(kind);
    let mut folders: Vec<_> = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("tool.json").is_file());
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

/// Reads JSON with `//` comments on separate lines.
pub fn jsonc(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    serde_json::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the body of a create request for the tool in `folder`.
pub fn draft(folder: &Path) -> Value {
    let mut draft = jsonc(&folder.join("tool.json"));
    for (name, language) in [("handler.js", "js"), ("handler.ts", "ts")] {
        if let Ok(source) = fs::read_to_string(folder.join(name)) {
            draft["handler"] = json!({ "source": source, "language": language });
        }
    }
    if let Ok(response) = fs::read_to_string(folder.join("response.json")) {
        draft["handler"] = json!({ "response": serde_json::from_str::<Value>(&response).unwrap() });
    }
    draft
}

fn one_of(requested: &Value, found: &Value) -> bool {
    requested.as_array().map_or(requested == found, |several| several.contains(found))
}

/// Returns a complaint if an answer does not match its case.
pub fn wrong(case: &Value, reply: &Answer) -> Option<String> {
    let requested = case.get("error").or_else(|| case.get("publishError"));
    let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    if let Some(requested) = requested {
        let error = &body["error"];
        let text = requested["says"].as_str().is_none_or(|part| error["message"].as_str().is_some_and(|message| message.contains(part)));
        if !text
            || !one_of(&requested["code"], &error["code"])
            || !one_of(&requested["fault"], &error["fault"])
            || error["charged"] != false
        {
            return Some(format!("wanted {requested}"));
        }
    } else {
        if !one_of(case.get("status").unwrap_or(&json!(200)), &json!(reply.status)) {
            return Some(format!("status {}", reply.status));
        }
        if let Some(schema) = case.get("outputMatches") {
            let errors: Vec<_> = jsonschema::validator_for(schema).unwrap().iter_errors(&body).map(|error| error.to_string()).collect();
            if !errors.is_empty() {
                return Some(errors.join("; "));
            }
        } else if case["output"] != body {
            return Some(format!("wanted {}", case["output"]));
        }
    }
    for (name, value) in case["notHeaders"].as_object().into_iter().flatten() {
        if reply.header(name) == value.as_str() {
            return Some(format!("carries {name}: {value}"));
        }
    }
    None
}

/// Returns a complaint if an answer was later than its case permits. The limit is tripled, because
/// shared machines are slower.
fn is_late(case: &Value, elapsed: Duration) -> Option<String> {
    let bound = case["within_ms"].as_u64().map(Duration::from_millis);
    bound.is_some_and(|bound| elapsed > bound * 3).then(|| format!("took {} ms", elapsed.as_millis()))
}

#[tokio::test(flavor = "multi_thread")]
async fn shipped_tools_pass_their_cases() {
    let host = Host::start().await;
    let credit = host.mint(1000.0).await;
    let mut failures = Vec::new();
    let mut ran = 0;
    for folder in folders("tools") {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let draft = draft(&folder);
        let started = Instant::now();
        let created = host.manage(Method::POST, "/ai/endpoints/create", &draft).await;
        let cases = jsonc(&folder.join("cases.jsonc"));
        let mut recorded = false;
        for case in cases.as_array().unwrap() {
            // A host has no recorded answers of other servers, so it also lacks what a tool stored
            // from them in kv.
            recorded |= case.get("http").is_some();
            if case.get("http").is_some() || (recorded && draft["capabilities"]["kv"] == true) {
                continue;
            }
            ran += 1;
            let (reply, elapsed) = if created.status == 200 {
                let started = Instant::now();
                let text = case["inputText"].as_str().map_or_else(|| case["input"].to_string(), str::to_owned);
                let path = format!("/tools/{}", draft["slug"].as_str().unwrap());
                let request = host.request(Method::POST, &path).header("x-developer-credit", &credit);
                (host.send(request.header("content-type", "application/json").body(text)).await, started.elapsed())
            } else {
                (created.clone(), started.elapsed())
            };
            if let Some(wrong) = wrong(case, &reply).or_else(|| is_late(case, elapsed)) {
                let text: String = String::from_utf8_lossy(&reply.body).chars().take(400).collect();
                failures.push(format!("tools/{name}: {}: {wrong}\n    {} {text}", case["name"], reply.status));
            }
        }
        host.manage(Method::DELETE, &format!("/ai/endpoints/{}", draft["slug"].as_str().unwrap()), &json!({})).await;
    }
    assert!(ran > 0);
    assert!(failures.is_empty(), "{} of {ran} cases:\n{}", failures.len(), failures.join("\n"));
}
