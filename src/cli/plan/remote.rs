//! The state of a tool on the host, and the error if somebody else changed it first.

use serde_json::{Map, Value, json};
use tollhouse_tool::Slug;

use super::baseline::Baseline;
use crate::{
    base::{
        changed::changes,
        error::{Error, Result},
        session::Session,
        text::{list, moment, text},
    },
    tool::changes,
};

/// A tool, as its owner reads it.
#[derive(Debug, Clone)]
pub(crate) struct RemoteEndpoint {
    pub(crate) record: Value,
    pub(crate) fields: Map<String, Value>,
    pub(crate) revision: u64,
}

impl RemoteEndpoint {
    pub(crate) fn of(record: Value) -> Self {
        Self { fields: changes::of_record(&record), revision: record["revision"].as_u64().unwrap_or_default(), record }
    }

    /// Reads the tool. Returns `None` if the host has none with this slug.
    ///
    /// # Errors
    ///
    /// The host's refusal. The tool belongs to somebody else.
    pub(crate) async fn read(session: &Session, slug: &Slug) -> Result<Option<Self>> {
        match session.client.get(&["ai", "endpoints", slug.as_str()]).send().await {
            Ok(mut answer) => {
                let there = Self::of(answer.body["endpoint"].take());
                if there.record["revision"].is_null() {
                    return Err(
                        Error::refused(format!("{slug} is somebody else's on {}", session.host())).hint("take another slug in tool.json")
                    );
                }
                Ok(Some(there))
            }
            Err(error) if error.code() == "unknown_endpoint" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the handler that the host runs, with a fixed response as its [text](tollhouse_tool::WithResponse).
    ///
    /// # Errors
    ///
    /// The host's refusal.
    pub(crate) async fn source(&self, session: &Session) -> Result<Value> {
        let slug = text(&self.record, "slug");
        let request = session.client.get(&["ai", "endpoints", slug, "source"]).send_for_handler().await;
        match request {
            Ok(mut answer) => Ok(answer.body["handler"].take()),
            // A tool that is built into the host has no source.
            Err(error) if error.code() == "unknown_version" => Ok(Value::Null),
            Err(error) => Err(error),
        }
    }

    /// Returns the base to store for the next deploy.
    pub(crate) fn base(&self, fields: Map<String, Value>) -> Baseline {
        Baseline { revision: self.revision, version: text(&self.record, "version").to_owned(), fields }
    }
}

/// Returns the error for a tool that somebody else changed first: it lists their changes, and what can be done.
pub(crate) async fn conflict(session: &Session, slug: &Slug, since: u64, before: Option<&Baseline>, now: &RemoteEndpoint) -> Error {
    let at = moment(&now.record, "updatedAt");
    let by = changed_by(session, slug, &now.record).await.map(|by| format!(", by {by}")).unwrap_or_default();
    let mut theirs = json!(now.fields);
    theirs["handler"] = now.record["version"].clone();
    let reported = before.map(|before| {
        let mut was = json!(before.fields);
        was["handler"] = json!(before.version);
        changes(&was, &theirs)
    });
    let error = Error::refused(format!("{slug} changed on the host since revision {since}: now {}{by}, {at}", now.revision));
    let mut error = error.more(reported.unwrap_or_default()).ending(format!(
        "nothing was published.  keep theirs and publish: --onto {}   look: tollhouse diff   take theirs: tollhouse pull",
        now.revision
    ));
    error.reported.insert("code".to_owned(), json!("revision_changed"));
    error.reported.insert("revision".to_owned(), json!(now.revision));
    error
}

/// Returns who made the last change, as far as the host says.
async fn changed_by(session: &Session, slug: &Slug, record: &Value) -> Option<String> {
    let at = text(record, "updatedAt");
    let published = list(record, "versions").find(|version| text(version, "createdAt") == at);
    if let Some(by) = published.and_then(|version| version["by"].as_str()) {
        return Some(by.to_owned());
    }
    let request = session
        .client
        .get(&["ai", "builders", "events"])
        .query("endpointSlug", slug.as_str())
        .query("kind", "endpoint.updated")
        .query("limit", 1);
    let events = request.send().await.ok()?;
    Some(match text(list(&events.body, "events").next()?, "data.by") {
        "builder" => "its owner".to_owned(),
        by => by.to_owned(),
    })
    .filter(|by| !by.is_empty())
}
