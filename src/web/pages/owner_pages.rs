//! Shared parts of the tool owner's pages: the full record, breadcrumbs and tabs.

use maud::{Markup, html};
use tollhouse_api::{EndpointResponse, EndpointSourceResponse, EndpointView, OwnEndpoint, UploadedHandler};
use tollhouse_base::exact;
use tollhouse_front::{ApiError, Code};
use tollhouse_tool::StaticResponse;

use crate::{Answer, ApiRefusal, Area, Page, Tab, Visitor, form, segment, tabs, with_query};

pub(super) fn api_path(slug: &str) -> String {
    format!("/ai/endpoints/{}", segment(slug))
}

/// Returns the path of one of a tool's pages.
pub(super) fn page_path(slug: &str, page: &str) -> String {
    format!("/dashboard/tools/{}/{page}", segment(slug))
}

/// Fetches a tool's full record.
///
/// # Errors
///
/// The tool belongs to somebody else, for whom the API returns only the public record. Visitors
/// without a session get `unauthorized`.
pub(super) async fn record(visitor: &Visitor, slug: &str) -> Result<Answer<Box<OwnEndpoint>>, ApiRefusal> {
    if visitor.kind().is_none() {
        return Err(ApiError::from(Code::Unauthorized).into());
    }
    let own = |answer: EndpointResponse| match answer.endpoint {
        EndpointView::Own(tool) => Some(tool),
        EndpointView::Public(_) => None,
    };
    visitor.get::<EndpointResponse>(&api_path(slug)).await?.part(own).ok_or_else(|| ApiError::from(Code::NotOwner).into())
}

/// Fetches the handler of a version. Returns `None` if the version is not stored, or is built in.
pub(super) async fn handler(visitor: &Visitor, slug: &str, version: &str) -> Result<Option<Answer<EndpointSourceResponse>>, ApiRefusal> {
    match visitor.get(&with_query(&format!("{}/source", api_path(slug)), [("version", version)])).await {
        Err(refused) if refused.is(Code::UnknownVersion) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Returns the source of a handler, or its static response as indented JSON.
pub(super) fn source_text(handler: &UploadedHandler) -> String {
    match (&handler.source, handler.response.as_ref().map(StaticResponse::text)) {
        (Some(source), _) => source.clone(),
        (None, Some(response)) => exact::pretty(response).unwrap_or_default(),
        (None, None) => String::new(),
    }
}

/// Returns a page of the tool, with tabs for its other pages.
pub(super) fn page(visitor: &Visitor, slug: &str, tab: Tab, title: String, main: &Markup) -> Page {
    let main = html! { (tabs::tool_tabs(visitor, slug, tab)) (main) };
    let page = Page { style: Some("make.css"), ..Page::new(Area::Tools, title, main) };
    page.under("/dashboard", "Tools").under(&format!("/dashboard/tools/{}", segment(slug)), slug)
}

/// Returns the hidden field with the revision that a change is based on.
pub(super) fn if_match(tool: &OwnEndpoint) -> Markup {
    form::revision(tool.revision)
}
