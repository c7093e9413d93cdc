//! The current state of a tool, and its state when a form was opened.

use serde_json::Value;
use tollhouse_base::aside::Bulk;
use tollhouse_front::Code;

use super::draft::Draft;
use crate::{
    forms::Fields,
    pages::own,
    visitor::{Refused, Visitor, with_query},
};

/// The current state of a tool.
pub(super) struct Now {
    answer: Bulk,
    /// The state as a draft.
    pub(super) draft: Draft,
    pub(super) revision: u64,
}

impl Now {
    /// Fetches it.
    ///
    /// # Errors
    ///
    /// The tool does not exist, or belongs to somebody else.
    pub(super) async fn read(visitor: &Visitor, slug: &str) -> Result<Self, Refused> {
        let answer = own::record(visitor, slug).await?;
        let tool = &answer["endpoint"];
        let version = tool["version"].as_str().unwrap_or_default();
        let handler = source(visitor, slug, version).await?;
        let draft = visitor.made(|| Draft::of(tool, &handler["handler"])).await?;
        let revision = tool["revision"].as_u64().unwrap_or_default();
        Ok(Self { answer, draft, revision })
    }

    /// Returns its record.
    pub(super) fn tool(&self) -> &Value {
        &self.answer["endpoint"]
    }

    /// Returns the hash of the current version.
    fn version(&self) -> &str {
        self.tool()["version"].as_str().unwrap_or_default()
    }

    /// Returns the state for a form that is opened now.
    pub(super) fn given(&self) -> Given {
        Given { base: self.draft.clone(), revision: self.revision, version: self.version().to_owned() }
    }
}

/// The state when a form was opened.
pub(super) struct Given {
    /// The state as a draft.
    pub(super) base: Draft,
    pub(super) revision: u64,
    /// The hash of its source.
    pub(super) version: String,
}

impl Given {
    /// Reads the state that the form carries.
    ///
    /// # Errors
    ///
    /// The source is not available.
    pub(super) async fn read(visitor: &Visitor, slug: &str, now: &Now, fields: &Fields) -> Result<Self, Refused> {
        let said = |name: &str| fields.get(name).unwrap_or_default();
        let revision = said("revision").parse().unwrap_or_default();
        let version = said("version").to_owned();
        let mut base = visitor.made(|| Draft::of_written(said("base"))).await?;
        if version == now.version() {
            base.set("source", now.draft.get("source"));
        } else {
            let handler = source(visitor, slug, &version).await?;
            // If the source is not kept any more, assume the current one, so that the typed text
            // stays.
            let source = visitor.made(|| Draft::of(&Value::Null, &handler["handler"])).await?;
            base.set("source", if handler.is_null() { now.draft.get("source") } else { source.get("source") });
        }
        Ok(Self { base, revision, version })
    }
}

/// Fetches a version's handler, or null if there is none. A static response is its text.
async fn source(visitor: &Visitor, slug: &str, version: &str) -> Result<Bulk, Refused> {
    let path = with_query(&format!("{}/source", own::source(slug)), [("version", version)]);
    match visitor.get_handler(&path).await {
        Err(refused) if refused.is(Code::UnknownVersion) => Ok(Bulk::default()),
        answer => answer,
    }
}
