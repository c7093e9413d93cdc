//! A page before it becomes a document: its contents and its response.

use maud::Markup;

use crate::{Body, HeaderValue, Response, StatusCode, header, set_security_headers};

/// The navigation entry that a page belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Area {
    Tools,
    Receipts,
    Guides,
    Documents,
    Home,
    Revenue,
    Payouts,
    Events,
    Account,
    Overview,
    Reviews,
    Policy,
    Builders,
    Credits,
    AdminPayouts,
    Audit,
    Runtime,
    Credit,
    SignIn,
    #[default]
    Elsewhere,
}

/// The page that a refused form was on, to go back to.
#[derive(Debug, Clone)]
pub(super) struct BackLink(pub(super) String);

/// A page before it becomes a document.
#[derive(Default)]
pub(super) struct Page {
    /// The title: the heading, and the window's title.
    pub(super) title: String,
    pub(super) area: Area,
    pub(super) status: StatusCode,
    /// Breadcrumbs: address and name of each.
    pub(super) crumbs: Vec<(String, String)>,
    /// The heading, if it is more than the title.
    pub(super) heading: Option<Markup>,
    pub(super) main: Markup,
    /// Name of its own script module.
    pub(super) script: Option<&'static str>,
    /// Name of its own style sheet.
    pub(super) style: Option<&'static str>,
    /// Address of the same content as Markdown, for programs.
    pub(super) twin: Option<String>,
    /// Whether it has its own search, so that the header needs none.
    pub(super) searches: bool,
    /// Whether only people with its address should find it.
    pub(super) unlisted: bool,
}

impl Page {
    pub(super) fn new(area: Area, title: impl Into<String>, main: Markup) -> Self {
        Self { title: title.into(), area, main, ..Self::default() }
    }

    /// Adds a parent page to the breadcrumbs.
    pub(super) fn under(mut self, path: &str, name: &str) -> Self {
        self.crumbs.push((path.to_owned(), name.to_owned()));
        self
    }

    /// Returns the response with this document. It is revalidated each time, because prices and
    /// states change. A page for one reader is not stored.
    pub(super) fn response(&self, document: String, for_one: bool) -> Response {
        let mut response = Response::new(Body::from(document));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        set_security_headers(headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(if self.unlisted || for_one { "no-store" } else { "no-cache" }));
        response
    }
}
