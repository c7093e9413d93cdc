//! The state of a tool on the host, the state of a folder when it was last published or pulled, and the error if somebody
//! else changed the tool first.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollhouse_api::{EndpointResponse, EndpointSourceResponse, EventPage, OwnEndpoint, UploadedHandler};
use tollhouse_tool::Slug;

use crate::{
    base::{
        changed::changes,
        error::{Error, Result},
        private_files,
        session::Session,
        text::{moment, name},
    },
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
        match session.client.get(&["ai", "endpoints", slug.as_str()]).send::<EndpointResponse>().await {
            Ok(answer) => own(answer.body).map(|record| Some(Self::of(record))).ok_or_else(|| {
                Error::refused(format!("`{slug}` belongs to another builder on {}", session.host())).hint("use another slug in tool.json")
            }),
            Err(error) if error.code() == "unknown_endpoint" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the handler that the host runs, or `None` for a tool that is built into the host.
    pub(crate) async fn source(&self, session: &Session) -> Result<Option<UploadedHandler>> {
        match session.client.get(&["ai", "endpoints", self.record.common.slug.as_str(), "source"]).send::<EndpointSourceResponse>().await {
            Ok(answer) => Ok(Some(answer.body.handler)),
            Err(error) if error.code() == "unknown_version" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the base to store for the next deploy.
    pub(crate) fn base(&self, fields: Map<String, Value>) -> Baseline {
        Baseline { revision: self.revision(), version: self.record.version.clone(), fields }
    }
}

/// `.tollhouse/base.json`: the state of a folder's tool when the folder was last published or pulled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Baseline {
    pub(crate) revision: u64,
    /// Hash of the handler.
    pub(crate) version: String,
    pub(crate) fields: Map<String, Value>,
}

const FILE: &str = ".tollhouse/base.json";

impl Baseline {
    /// Reads the base of a revision, if the folder has it. Without it the plan is less precise, but nothing is lost.
    pub(crate) fn read(folder: &Path, revision: u64) -> Option<Self> {
        let text = private_files::read(&folder.join(FILE)).ok()??;
        serde_json::from_str(&text).ok().filter(|base: &Self| base.revision == revision)
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
    theirs["handler"] = json!(now.record.version);
    let reported = before.map(|before| {
        let mut was = json!(before.fields);
        was["handler"] = json!(before.version);
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

/// Returns the author of the last change, if the host names it.
async fn changed_by(session: &Session, slug: &Slug, record: &OwnEndpoint) -> Option<String> {
    let published = record.versions.iter().find(|version| version.created_at == record.common.updated_at);
    if let Some(version) = published {
        return Some(name(version.by));
    }
    let asking = session.client.get(&["ai", "builders", "events"]).query("endpointSlug", slug.as_str());
    let events: EventPage = asking.query("kind", "endpoint.updated").query("limit", 1).send().await.ok()?.body;
    match events.events.first()?.data["by"].as_str()? {
        "builder" => Some("its owner".to_owned()),
        by => Some(by.to_owned()),
    }
}
