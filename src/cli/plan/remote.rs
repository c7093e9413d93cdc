//! The state of a tool on the host, the state of a folder when it was last published or pulled, and the error if somebody
//! else changed the tool first.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_api::{EndpointResponse, EndpointSourceResponse, Event, EventPage, OwnEndpoint, UploadedHandler};
use tollhouse_tool::Slug;

use crate::{
    base::{Error, Result, Session, changes, moment, name, private_files},
    show::own,
    tool::changes,
};

/// A tool, as its owner reads it.
#[derive(Debug, Clone)]
pub(crate) struct RemoteEndpoint {
    pub(crate) record: OwnEndpoint,
    /// The record's fields, as a folder would have them.
    pub(crate) fields: Map<String, Value>,
}

impl RemoteEndpoint {
    pub(crate) fn of(record: OwnEndpoint) -> Self {
        Self { fields: changes::of_record(&record), record }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.record.revision
    }

    /// Reads the tool. Returns `None` if the host has none with this slug.
    ///
    /// # Errors
    ///
    /// The host's refusal. The tool belongs to somebody else.
    pub(crate) async fn read(session: &Session, slug: &Slug) -> Result<Option<Self>> {
        let asking = session.client.get(&["ai", "endpoints", slug.as_str()]);
        let Some(answer) = asking.find::<EndpointResponse>("unknown_endpoint").await? else { return Ok(None) };
        own(answer.body).map(|record| Some(Self::of(record))).ok_or_else(|| {
            Error::refused(format!("`{slug}` belongs to another builder on {}", session.host())).hint("use another slug in tool.json")
        })
    }

    /// Returns the handler that the host runs, or `None` for a tool that is built into the host.
    pub(crate) async fn source(&self, session: &Session) -> Result<Option<UploadedHandler>> {
        let asking = session.client.get(&["ai", "endpoints", self.record.common.slug.as_str(), "source"]);
        Ok(asking.find::<EndpointSourceResponse>("unknown_version").await?.map(|answer| answer.body.handler))
    }

    /// Returns the base to store for the next deploy.
    pub(crate) fn base(&self, fields: Map<String, Value>) -> Baseline {
        Baseline { revision: self.revision(), version: self.record.version.clone(), fields, kept: Map::new() }
    }
}

/// `.tollhouse/base.json`: the state of a folder's tool when the folder was last published or pulled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Baseline {
    pub(crate) revision: u64,
    /// Hash of the handler.
    pub(crate) version: String,
    pub(crate) fields: Map<String, Value>,
    /// The host's values that the last deploy kept although the folder has others: of fields, and `handler`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) kept: Map<String, Value>,
}

/// Name of the handler's hash among the fields.
const HANDLER: &str = "handler";

/// Kinds of events of which each change of a tool records at least one.
const CHANGE_KINDS: [&str; 5] = ["endpoint.updated", "endpoint.reviewed", "endpoint.paused", "endpoint.resumed", "capability.revoked"];

const FILE: &str = ".tollhouse/base.json";

impl Baseline {
    /// Reads the base of a revision, if the folder has it. Without it the plan is less precise, but nothing is lost.
    pub(crate) fn read(folder: &Path, revision: u64) -> Option<Self> {
        let text = private_files::read(&folder.join(FILE)).ok()??;
        serde_json::from_str(&text).ok().filter(|base: &Self| base.revision == revision)
    }

    /// Returns the fields of `folder` that somebody has changed on the host since, and `handler` if its version changed.
    /// A change to the folder's own value does not count.
    pub(crate) fn changed_on_host(&self, there: &RemoteEndpoint, folder: &Map<String, Value>) -> Vec<&'static str> {
        let was = |field: &str| self.kept.get(field).or_else(|| self.fields.get(field));
        let is_changed = |field: &&'static str| {
            let (now, mine) = (there.fields.get(*field), folder.get(*field).map(|mine| changes::plain(field, mine)));
            mine.is_some() && was(field).map(|was| changes::plain(field, was)).as_ref() != now && mine.as_ref() != now
        };
        let handler = self.kept.get(HANDLER).and_then(Value::as_str).unwrap_or(&self.version);
        let other_handler = (handler != there.record.version).then_some(HANDLER);
        changes::FIELDS.into_iter().filter(is_changed).chain(other_handler).collect()
    }

    pub(crate) fn write(&self, folder: &Path) {
        let file = folder.join(FILE);
        let Ok(text) = serde_json::to_string_pretty(self) else { return };
        _ = fs::create_dir_all(folder.join(".tollhouse")).and_then(|()| private_files::replace(&file, &text, 0o644));
    }
}

/// Returns the error for a tool that somebody else changed first: it lists their changes, and what can be done.
pub(crate) async fn conflict(session: &Session, slug: &Slug, since: u64, before: Option<&Baseline>, now: &RemoteEndpoint) -> Error {
    let at = moment(now.record.common.updated_at);
    let by = changed_by(session, slug, &now.record).await.map(|by| format!(", by {by}")).unwrap_or_default();
    let mut theirs = json!(now.fields);
    theirs[HANDLER] = json!(now.record.version);
    let reported = before.map(|before| {
        let mut was = json!(before.fields);
        was[HANDLER] = json!(before.version);
        changes(&was, &theirs)
    });
    let error = Error::refused(format!("`{slug}` changed on the host since revision {since}: now revision {}{by}, {at}", now.revision()));
    let mut error = error.more(reported.unwrap_or_default()).ending(format!(
        "nothing was published.  keep theirs and publish: --onto {}   compare: tollhouse diff   use theirs: tollhouse pull",
        now.revision()
    ));
    error.reported.insert("code".to_owned(), json!("revision_changed"));
    error.reported.insert("revision".to_owned(), json!(now.revision()));
    error
}

/// Returns who made the last change, if the host names them.
pub(crate) async fn changed_by(session: &Session, slug: &Slug, record: &OwnEndpoint) -> Option<String> {
    let at = record.common.updated_at;
    let builder = Some(&record.owner).filter(|owner| *owner != "platform");
    let mut last: Option<Event> = None;
    for kind in CHANGE_KINDS {
        let asking = session.client.get(&["ai", "builders", "events"]).query("endpointSlug", slug).query_opt("builderId", builder);
        let Ok(page) = asking.query("kind", kind).query("since", at).query("limit", 1).send::<EventPage>().await else { break };
        last = last.into_iter().chain(page.body.events).max_by_key(|event| event.at);
    }
    if let Some(event) = last {
        // Only admins decide reviews, so those events name nobody.
        return Some(event.data["by"].as_str().unwrap_or("admin").to_owned());
    }
    let published = record.versions.iter().find(|version| version.created_at == at).map(|version| name(version.by));
    published.or_else(|| record.review.decision.as_ref().filter(|decision| decision.at == at).map(|decision| decision.by.clone()))
}
