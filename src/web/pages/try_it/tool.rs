//! The tool to call.

use axum::{
    body::Body,
    http::{HeaderMap, Method},
    response::Response,
};
use maud::Markup;
use serde_json::Value;
use tollhouse_account::session::SessionKind;
use tollhouse_base::offload::DropOffThread;
use tollhouse_front::{Code, code_of};

use crate::{
    page::{Area, Page},
    parts::text,
    visitor::{ApiRefusal, Visitor, segment},
};

/// A tool's public record.
pub(super) struct TriedTool {
    slug: String,
    answer: DropOffThread,
}

/// The price of a call for this visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallCost {
    Nothing,
    Something,
    /// No calls are accepted.
    Refused(Code),
}

impl TriedTool {
    pub(super) async fn find(visitor: &Visitor, slug: &str) -> Result<Self, ApiRefusal> {
        let answer = visitor.get(&format!("/ai/endpoints/{}", segment(slug))).await?;
        Ok(Self { slug: slug.to_owned(), answer })
    }

    pub(super) fn slug(&self) -> &str {
        &self.slug
    }

    pub(super) fn record(&self) -> &Value {
        &self.answer["endpoint"]
    }

    pub(super) fn schema(&self) -> &Value {
        &self.record()["inputSchema"]
    }

    pub(super) fn title(&self) -> &str {
        self.record()["title"].as_str().unwrap_or_default()
    }

    /// Returns the address for calls.
    pub(super) fn address(&self) -> String {
        format!("/tools/{}", segment(&self.slug))
    }

    /// Returns the path of this page.
    pub(super) fn here(&self) -> String {
        format!("/dashboard/tools/{}/try", segment(&self.slug))
    }

    /// Finds out whether a call has a price, with a request that is never a call and shows no
    /// credit.
    pub(super) async fn costs(&self, visitor: &Visitor) -> CallCost {
        let response = send_unpaid(visitor, Method::HEAD, &self.address(), HeaderMap::new(), Body::empty()).await;
        match code_of(&response) {
            None => CallCost::Nothing,
            Some(Code::PaymentRequired) => CallCost::Something,
            Some(code) => CallCost::Refused(code),
        }
    }

    /// Returns a page about the tool.
    pub(super) fn page(&self, heading: &str, main: Markup) -> Page {
        let below = format!("/dashboard/tools/{}", segment(&self.slug));
        let page = Page::new(Area::Tools, format!("{heading} {}", text::plain(self.title())), main);
        Page { script: Some("try.js"), ..page.under("/dashboard", "Tools").under(&below, &self.slug) }
    }
}

/// Sends a request without payment. Owners call their own tools for free, so they stay signed in. A
/// credit is not shown.
pub(super) async fn send_unpaid(visitor: &Visitor, method: Method, path: &str, headers: HeaderMap, body: Body) -> Response {
    match visitor.kind() {
        Some(SessionKind::Admin | SessionKind::Builder) => visitor.send(method, path, headers, body).await,
        Some(SessionKind::Holder) | None => visitor.unsigned().send(method, path, headers, body).await,
    }
}
