//! Shared parts of the tool owner's pages: the full record, breadcrumbs and tabs.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::{ApiError, Code};

use crate::{
    page::{Area, Page},
    parts::{
        form,
        tabs::{self, Tab},
    },
    visitor::{ApiRefusal, Visitor, segment},
};

/// Returns the API path of a tool.
pub(super) fn source(slug: &str) -> String {
    format!("/ai/endpoints/{}", segment(slug))
}

/// Returns the path of one of a tool's pages.
pub(super) fn place(slug: &str, page: &str) -> String {
    format!("/dashboard/tools/{}/{page}", segment(slug))
}

/// Fetches a tool's full record.
///
/// # Errors
///
/// The tool belongs to somebody else, for whom the API returns only the public record. Visitors
/// without a session get `unauthorized`.
pub(super) async fn record(visitor: &Visitor, slug: &str) -> Result<DropOffThread, ApiRefusal> {
    if visitor.kind().is_none() {
        return Err(ApiError::from(Code::Unauthorized).into());
    }
    let answer = visitor.get(&source(slug)).await?;
    if answer["endpoint"]["revision"].is_u64() { Ok(answer) } else { Err(ApiError::from(Code::NotOwner).into()) }
}

/// Returns a page of the tool, with tabs for its other pages.
pub(super) fn page(visitor: &Visitor, slug: &str, tab: Tab, title: String, main: &Markup) -> Page {
    let main = html! { (tabs::of_tool(visitor, slug, tab)) (main) };
    let page = Page { style: Some("make.css"), ..Page::new(Area::Tools, title, main) };
    page.under("/dashboard", "Tools").under(&format!("/dashboard/tools/{}", segment(slug)), slug)
}

/// Returns the hidden field with the revision that a change is based on.
pub(super) fn if_match(tool: &Value) -> Markup {
    form::onto(tool["revision"].as_u64().unwrap_or_default())
}
