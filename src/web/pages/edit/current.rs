//! The current state of a tool, and its state when a form was opened.

use serde_json::Value;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::Code;

use super::draft::ToolDraft;
use crate::{
    forms::Fields,
    pages::owner_pages,
    visitor::{ApiRefusal, Visitor, with_query},
};

/// The current state of a tool.
pub(super) struct CurrentTool {
    answer: DropOffThread,
    /// The state as a draft.
    pub(super) draft: ToolDraft,
    pub(super) revision: u64,
}

impl CurrentTool {
    /// Fetches it.
    ///
    /// # Errors
    ///
    /// The tool does not exist, or belongs to somebody else.
    pub(super) async fn read(visitor: &Visitor, slug: &str) -> Result<Self, ApiRefusal> {
        let answer = owner_pages::record(visitor, slug).await?;
        let tool = &answer["endpoint"];
        let version = tool["version"].as_str().unwrap_or_default();
        let handler = source(visitor, slug, version).await?;
        let draft = visitor.made(|| ToolDraft::of(tool, &handler["handler"])).await?;
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
    pub(super) fn given(&self) -> InitialForm {
        InitialForm { base: self.draft.clone(), revision: self.revision, version: self.version().to_owned() }
    }
}

/// The state when a form was opened.
pub(super) struct InitialForm {
    /// The state as a draft.
    pub(super) base: ToolDraft,
    pub(super) revision: u64,
    /// The hash of its source.
    pub(super) version: String,
}

impl InitialForm {
    /// Reads the state that the form carries.
    ///
    /// # Errors
    ///
    /// The source is not available.
    pub(super) async fn read(visitor: &Visitor, slug: &str, now: &CurrentTool, fields: &Fields) -> Result<Self, ApiRefusal> {
        let describe = |name: &str| fields.get(name).unwrap_or_default();
        let revision = describe("revision").parse().unwrap_or_default();
        let version = describe("version").to_owned();
        let mut base = visitor.made(|| ToolDraft::of_written(describe("base"))).await?;
        if version == now.version() {
            base.set("source", now.draft.get("source"));
        } else {
            let handler = source(visitor, slug, &version).await?;
            // If the source is not kept any more, assume the current one, so that the typed text
            // stays.
            let source = visitor.made(|| ToolDraft::of(&Value::Null, &handler["handler"])).await?;
            base.set("source", if handler.is_null() { now.draft.get("source") } else { source.get("source") });
        }
        Ok(Self { base, revision, version })
    }
}

/// Fetches a version's handler, or null if there is none. A static response is its text.
async fn source(visitor: &Visitor, slug: &str, version: &str) -> Result<DropOffThread, ApiRefusal> {
    let path = with_query(&format!("{}/source", owner_pages::source(slug)), [("version", version)]);
    match visitor.get_handler(&path).await {
        Err(refused) if refused.is(Code::UnknownVersion) => Ok(DropOffThread::default()),
        answer => answer,
    }
}
