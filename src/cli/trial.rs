//! Runs a tool's cases on a local host, on a temporary tool of its own, so that the data they leave is removed with it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use reqwest::{Method, Url, header};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tollhouse_api::{LogLine, LogPage, SecretVisibility, SetSecretRequest};
use tollhouse_config::HiddenValue;
use zeroize::Zeroizing;

use super::{
    base::{Client, Error, Exit, Result, answer, sanitize},
    local::LocalHost,
    secret_hosts::SecretHosts,
    tool::{
        FilePosition, Problem, Upload,
        cases::{Case, FILE, Reply},
        source_map,
    },
};

/// Slug of the temporary tool.
const SLUG: &str = "cases-of-this-folder";
/// Maximum number of bytes of a response that are read.
const MAX_BYTES: usize = 64 << 20;

/// Number of times that the log is searched for the exception, and the wait in between.
const LOOKS: u32 = 20;
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A secret of a tool, and its place in the file.
#[derive(Debug)]
pub(crate) struct Secret {
    pub(crate) name: String,
    pub(crate) value: HiddenValue,
    pub(crate) visibility: SecretVisibility,
    pub(crate) hosts: SecretHosts,
    pub(crate) position: FilePosition,
}

/// The cases that passed, and the problems of the others.
#[derive(Debug, Default)]
pub(crate) struct CaseResults {
    pub(crate) passed: usize,
    pub(crate) problems: Vec<Problem>,
    /// Secrets that the host refused.
    pub(crate) refused: Vec<Problem>,
}

impl CaseResults {
    /// Formats the result in short, such as `2/3`.
    pub(crate) fn summary(&self) -> String {
        format!("{}/{}", self.passed, self.passed + self.problems.len())
    }
}

/// Runs all cases in their order, with those of the tool's secrets that the host accepts.
pub(crate) async fn run(host: &LocalHost, upload: &Upload, cases: &[Case], secrets: &[Secret]) -> Result<CaseResults> {
    let mut tried = CaseResults::default();
    if cases.is_empty() {
        return Ok(tried);
    }
    let mut body = upload.body();
    body.insert("slug".to_owned(), json!(SLUG));
    body.insert("status".to_owned(), json!("active"));
    host.remove(SLUG).await?;
    let published = host.put(&body).await;
    if let Ok(published) = &published {
        if let Some(bundle) = &upload.bundle {
            bundle.map.keep(&upload.tool.folder, &published.endpoint.version);
        }
        tried.refused = set(host, SLUG, secrets).await?;
    }
    for case in cases {
        let recorded = case.recorded();
        if published.is_ok() {
            host.answer_recorded(SLUG, recorded.clone()).await?;
        }
        let started = Timestamp::now();
        let reply = match (&published, case.tests_publishing_only()) {
            (Ok(_), false) => call(&host.client, case).await?,
            (Ok(_), true) => publish_reply(200, &json!({}))?,
            (Err(error), _) => publish_reply(422, &json!({ "error": error.reported }))?,
        };
        let remaining = recorded.map(|recorded| recorded.remaining()).unwrap_or_default();
        let mismatch = match case.output_schema() {
            Some(schema) => host.mismatch(schema, &reply.value()).await?,
            None => None,
        };
        match case.wrong(&reply, mismatch).or_else(|| not_run(&remaining)) {
            None => tried.passed += 1,
            Some(wrong) => {
                let position = thrown_at(host, &upload.tool.folder, &reply, started).await.unwrap_or_else(|| FilePosition::file(FILE));
                tried.problems.push(Problem::new("cases", position, format!("✗ {:?}: {wrong}", case.name)));
            }
        }
    }
    host.remove(SLUG).await?;
    Ok(tried)
}

/// Sets the secrets of a tool. Returns a problem for each secret that the host refuses.
pub(crate) async fn set(host: &LocalHost, slug: &str, secrets: &[Secret]) -> Result<Vec<Problem>> {
    let mut refused = vec![];
    for Secret { name, value, visibility, hosts: SecretHosts { hosts, places }, position } in secrets {
        let value = Zeroizing::new(value.expose().to_owned());
        let (hosts, places) = (hosts.clone(), places.clone());
        // The file says who gets them each time.
        let body = SetSecretRequest { name: name.clone(), value, visibility: *visibility, hosts, places, expose: true };
        match host.secret(slug, &body).await {
            Err(error) if !is_unavailable(&error) => {
                refused.push(Problem::new("host", position.clone(), format!("the secret `{name}`: {}", error.message)));
            }
            ended => ended?,
        }
    }
    Ok(refused)
}

/// Returns whether there was no response at all. A host that is busy has responded.
pub(crate) fn is_unavailable(error: &Error) -> bool {
    error.exit == Exit::Unavailable && error.reported.is_empty()
}

/// Describes a recorded response that was never requested.
fn not_run(remaining: &[(Method, Url)]) -> Option<String> {
    let (method, url) = remaining.first()?;
    let method = if method == Method::GET { String::new() } else { format!("{} ", sanitize::line(method.as_str())) };
    Some(format!("no request was made to {method}{}", sanitize::line(url.as_str())))
}

/// Returns the reply for a case that only publishes.
fn publish_reply(status: u16, body: &Value) -> Result<Reply> {
    let body = to_raw_value(body).map_err(|error| Error::refused(error.to_string()))?;
    Ok(Reply { status, headers: vec![], body, elapsed: Duration::ZERO })
}

/// Calls the tool as its owner, which is free.
async fn call(client: &Client, case: &Case) -> Result<Reply> {
    let started = Instant::now();
    let response = client.post(&["tools", SLUG]).text(case.input()).open().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let bytes = answer::bytes(response, MAX_BYTES).await?;
    let body = match serde_json::from_slice::<Box<RawValue>>(&bytes) {
        Ok(body) if is_json => body,
        _ => to_raw_value(&String::from_utf8_lossy(&bytes)).map_err(|error| Error::refused(error.to_string()))?,
    };
    let headers = headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect();
    Ok(Reply { status, headers, body, elapsed: started.elapsed() })
}

/// Finds the place at which a handler threw, from the stack in its log. Entries before `started` do not count. The log is
/// written after the response, so this waits for it.
async fn thrown_at(host: &LocalHost, folder: &Path, reply: &Reply, started: Timestamp) -> Option<FilePosition> {
    if reply.error_code() != "handler_failed" {
        return None;
    }
    for _ in 0..LOOKS {
        let asking = host.client.get(&["ai", "endpoints", SLUG, "logs"]).query("level", "error").query("limit", 1);
        let newest = asking.send::<LogPage>().await.ok()?.body.logs.into_iter().next();
        // The log has whole milliseconds.
        if let Some(entry) = newest.filter(|entry| i64::try_from(entry.at.0).is_ok_and(|at| at >= started.as_millisecond())) {
            return source_map::first_own(folder, &stack(&entry)?);
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    None
}

/// Returns the stack trace of a log entry, if it has one.
pub(crate) fn stack(entry: &LogLine) -> Option<String> {
    match entry.fields.get("stack")? {
        Value::String(stack) => Some(stack.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")),
        _ => None,
    }
}
