//! What the pages of a tool's owner have in common: its whole record, the way back, and the way to each other.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::aside::Bulk;
use tollhouse_front::{Code, Fault};

use crate::{
    page::{Area, Page},
    parts::{
        form,
        tabs::{self, Tab},
    },
    visitor::{Refused, Visitor, segment},
};

/// Where the public API has a tool.
pub(super) fn source(slug: &str) -> String {
    format!("/ai/endpoints/{}", segment(slug))
}

/// Where a page of its is.
pub(super) fn place(slug: &str, page: &str) -> String {
    format!("/dashboard/tools/{}/{page}", segment(slug))
}

/// All of a tool's record.
///
/// # Errors
///
/// Of a tool that is somebody else's: of that, the API answers what strangers see. Who is not signed in is told that.
pub(super) async fn record(visitor: &Visitor, slug: &str) -> Result<Bulk, Refused> {
    if visitor.kind().is_none() {
        return Err(Fault::from(Code::Unauthorized).into());
    }
    let answer = visitor.get(&source(slug)).await?;
    if answer["endpoint"]["revision"].is_u64() { Ok(answer) } else { Err(Fault::from(Code::NotOwner).into()) }
}

/// A page of the tool's, with the way to the others on top.
pub(super) fn page(visitor: &Visitor, slug: &str, tab: Tab, title: String, main: &Markup) -> Page {
    let main = html! { (tabs::of_tool(visitor, slug, tab)) (main) };
    let page = Page { style: Some("make.css"), ..Page::new(Area::Tools, title, main) };
    page.under("/dashboard", "Tools").under(&format!("/dashboard/tools/{}", segment(slug)), slug)
}

/// The field that names the revision which a change is made to.
pub(super) fn if_match(tool: &Value) -> Markup {
    form::onto(tool["revision"].as_u64().unwrap_or_default())
}
