//! The current state of a tool, and its state when a form was opened.

use tollhouse_api::OwnEndpoint;

use super::draft::{self, ToolDraft};
use crate::{Answer, ApiRefusal, Fields, Visitor, pages::owner_pages};

pub(super) struct CurrentTool {
    pub(super) tool: Answer<Box<OwnEndpoint>>,
    pub(super) draft: ToolDraft,
}

impl CurrentTool {
    /// Fetches it.
    ///
    /// # Errors
    ///
    /// The tool does not exist, or belongs to somebody else.
    pub(super) async fn read(visitor: &Visitor, slug: &str) -> Result<Self, ApiRefusal> {
        let tool = owner_pages::record(visitor, slug).await?;
        let handler = owner_pages::handler(visitor, slug, &tool.version).await?;
        let draft = visitor.render(|| ToolDraft::from_tool(&tool, handler.as_ref().map(|answer| &answer.handler))).await?;
        Ok(Self { tool, draft })
    }

    /// Returns the state for a form that is opened now.
    pub(super) fn given(&self) -> InitialForm {
        InitialForm { base: self.draft.clone(), revision: self.tool.revision, version: self.tool.version.clone() }
    }
}

/// The state when a form was opened.
pub(super) struct InitialForm {
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
        let mut base = visitor.render(|| ToolDraft::parse(describe("base"))).await?;
        let handler = if version == now.tool.version { None } else { owner_pages::handler(visitor, slug, &version).await? };
        match handler {
            Some(answer) => base.set("source", visitor.render(|| draft::source(&answer.handler)).await?),
            // If the source is not stored anymore, the current one is assumed, so that the typed text stays.
            None => base.set("source", now.draft.get("source")),
        }
        Ok(Self { base, revision, version })
    }
}
