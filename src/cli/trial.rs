//! Tries a tool's cases on a host of one's own, on an endpoint that is there for them alone: what they leave behind goes with it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use reqwest::{Url, header};
use serde_json::{Value, json};
use tollhouse_config::Hidden;

use super::{
    base::{
        answer, clean,
        client::Client,
        error::{Error, Exit, Result},
    },
    local::Local,
    tool::{
        cases::{Case, FILE, Reply},
        map,
        place::{Place, Problem},
        upload::Upload,
    },
};

/// The endpoint that cases are tried on.
const SLUG: &str = "cases-of-this-folder";
/// Most bytes of an answer that are read.
const MOST_BYTES: usize = 64 << 20;

/// How often a log is looked at for what was thrown, and how long it is waited between two looks.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A secret of a tool, and where it stands.
#[derive(Debug)]
pub(crate) struct Secret {
    pub(crate) name: String,
    pub(crate) value: Hidden,
    pub(crate) place: Place,
}

/// What came of the cases.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    pub(crate) passed: usize,
    pub(crate) problems: Vec<Problem>,
}

impl Tried {
    /// As one line tells it: `2/3`.
    pub(crate) fn told(&self) -> String {
        format!("{}/{}", self.passed, self.passed + self.problems.len())
    }
}

/// Tries all of them, in their order, with the secrets of the tool that the host takes.
///
/// # Errors
///
/// A host that does not answer.
pub(crate) async fn run(host: &Local, upload: &Upload, cases: &[Case], secrets: &[Secret]) -> Result<Tried> {
    let mut tried = Tried::default();
    if cases.is_empty() {
        return Ok(tried);
    }
    let mut body = upload.body();
    body.insert("slug".to_owned(), json!(SLUG));
    body.insert("status".to_owned(), json!("active"));
    host.remove(SLUG).await?;
    let published = host.put(&body).await;
    if let Ok(record) = &published {
        if let Some(bundle) = &upload.bundle {
            bundle.map.keep(&upload.tool.folder, record["version"].as_str().unwrap_or_default());
        }
        // What it does not take was told where it was published.
        set(host, SLUG, secrets).await?;
    }
    for case in cases {
        let recorded = case.recorded();
        if published.is_ok() {
            host.answer_recorded(SLUG, recorded.clone()).await?;
        }
        let begun = Timestamp::now();
        let reply = match (&published, case.is_of_publishing()) {
            (Ok(_), false) => call(&host.client, case).await?,
            (Ok(_), true) => Reply { status: 200, headers: vec![], body: json!({}), took: Duration::ZERO },
            (Err(error), _) => Reply { status: 422, headers: vec![], body: json!({ "error": error.said }), took: Duration::ZERO },
        };
        let left = recorded.map(|recorded| recorded.left()).unwrap_or_default();
        match case.wrong(&reply).or_else(|| unasked(&left)) {
            None => tried.passed += 1,
            Some(wrong) => {
                let place = thrown_at(host, &upload.tool.folder, &reply, begun).await.unwrap_or_else(|| Place::file(FILE));
                tried.problems.push(Problem::new("cases", place, format!("✗ {:?}: {wrong}", case.name)));
            }
        }
    }
    host.remove(SLUG).await?;
    Ok(tried)
}

/// Sets the secrets of an endpoint. Those that the host refuses are problems of where they stand.
///
/// # Errors
///
/// A host that does not answer.
pub(crate) async fn set(host: &Local, slug: &str, secrets: &[Secret]) -> Result<Vec<Problem>> {
    let mut refused = vec![];
    for Secret { name, value, place } in secrets {
        match host.secret(slug, name, value.expose()).await {
            Err(error) if !is_away(&error) => {
                refused.push(Problem::new("host", place.clone(), format!("the secret `{name}`: {}", error.message)));
            }
            ended => ended?,
        }
    }
    Ok(refused)
}

/// Whether nobody answered at all: a host that is busy has said so.
pub(crate) fn is_away(error: &Error) -> bool {
    error.exit == Exit::Away && error.said.is_empty()
}

/// What is wrong where recorded answers were not asked for.
fn unasked(left: &[Url]) -> Option<String> {
    left.first().map(|url| format!("nothing asked for {}", clean::line(url.as_str())))
}

/// Calls it as its owner does: for nothing.
async fn call(client: &Client, case: &Case) -> Result<Reply> {
    let began = Instant::now();
    let response = client.post(&["tools", SLUG]).text(case.input()).open().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let bytes = answer::bytes(response, MOST_BYTES).await?;
    let body = match serde_json::from_slice(&bytes) {
        Ok(body) if is_json => body,
        _ => json!(String::from_utf8_lossy(&bytes)),
    };
    let headers = headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())).collect();
    Ok(Reply { status, headers, body, took: began.elapsed() })
}

/// Where a handler threw that was called no earlier than `begun`, by its log, which has the stack. The log is written behind the answer.
async fn thrown_at(host: &Local, folder: &Path, reply: &Reply, begun: Timestamp) -> Option<Place> {
    if reply.body["error"]["code"] != "handler_failed" {
        return None;
    }
    for _ in 0..LOOKS {
        let logs = host.client.get(&["ai", "endpoints", SLUG, "logs"]).query("level", "error").query("limit", 1).send().await.ok()?;
        let entry = &logs.body["logs"][0];
        let at = entry["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        // The log has whole milliseconds.
        if at.is_some_and(|at| at.as_millisecond() >= begun.as_millisecond()) {
            return map::first_own(folder, &stack(entry)?);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    None
}

/// The stack of a line of the log, where it has one.
pub(crate) fn stack(entry: &Value) -> Option<String> {
    match &entry["fields"]["stack"] {
        Value::String(stack) => Some(stack.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")),
        _ => None,
    }
}
