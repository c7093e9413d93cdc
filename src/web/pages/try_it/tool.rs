//! The tool to call, and a requested call of it.

use maud::Markup;
use serde_json::Value;
use tollhouse_account::session::SessionKind;
use tollhouse_api::{EndpointCommon, EndpointResponse};
use tollhouse_base::clock::Timestamp;
use tollhouse_front::{Code, code_of};
use tollhouse_tool::PricingMode;

use crate::{Answer, ApiRefusal, Area, Body, Fields, HeaderMap, Method, Page, Response, Visitor, money, pages::owner_pages, segment, text};

/// A tool, as far as the visitor can see it.
pub(super) struct TriedTool {
    slug: String,
    answer: Answer<EndpointResponse>,
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
        let answer = visitor.get(&owner_pages::api_path(slug)).await?;
        Ok(Self { slug: slug.to_owned(), answer })
    }

    pub(super) fn slug(&self) -> &str {
        &self.slug
    }

    pub(super) fn record(&self) -> &EndpointCommon {
        self.answer.endpoint.common()
    }

    pub(super) fn schema(&self) -> &Value {
        &self.record().input_schema.0
    }

    /// Returns the types of files that it takes in place of its input.
    pub(super) fn request_types(&self) -> &[String] {
        &self.record().request_types
    }

    /// Returns whether a call has a price, at least for others.
    pub(super) fn is_paid(&self) -> bool {
        self.record().pricing_mode != PricingMode::FreePublicUtility
    }

    pub(super) fn price(&self, simulated: bool) -> Markup {
        money::price(self.record().price_usd, self.answer.endpoint.max_price_usd(), simulated)
    }

    pub(super) fn address(&self) -> String {
        format!("/tools/{}", segment(&self.slug))
    }

    /// Returns the path of this page.
    pub(super) fn here(&self) -> String {
        owner_pages::page_path(&self.slug, "try")
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

    pub(super) fn page(&self, heading: &str, main: Markup) -> Page {
        let below = format!("/dashboard/tools/{}", segment(&self.slug));
        let page = Page::new(Area::Tools, format!("{heading} {}", text::plain(&self.record().title)), main);
        Page { script: Some("try.js"), ..page.under("/dashboard", "Tools").under(&below, &self.slug) }
    }
}

/// Sends a request without payment. Owners call their own tools for free, so they stay signed in. A
/// credit is not shown.
pub(super) async fn send_unpaid(visitor: &Visitor, method: Method, path: &str, headers: HeaderMap, body: Body) -> Response {
    match visitor.kind() {
        Some(SessionKind::Admin | SessionKind::Builder) => visitor.send(method, path, headers, body).await,
        Some(SessionKind::Holder) | None => visitor.without_session().send(method, path, headers, body).await,
    }
}

pub(super) struct CallRequest<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) tool: &'a TriedTool,
    /// JSON on a single line.
    pub(super) input: &'a str,
    pub(super) fields: &'a Fields,
    pub(super) headers: &'a HeaderMap,
    /// When this step began.
    pub(super) started_at: Timestamp,
}

impl CallRequest<'_> {
    /// Returns how the input was typed.
    pub(super) fn state(&self) -> &'static str {
        if self.fields.get("as") == Some("json") { "json" } else { "form" }
    }
}
