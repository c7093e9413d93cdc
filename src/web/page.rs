//! A page before it is a document: what is on it, and how it is answered.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use maud::Markup;

use super::doors::seal;

/// Where in the navigation a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Of no entry.
    Elsewhere,
}

/// Where who was refused goes on: to the page that the form was on.
#[derive(Debug, Clone)]
pub(super) struct Back(pub(super) String);

/// A page before it is a document.
pub(super) struct Page {
    /// What it is called: the heading, and the window's title.
    pub(super) title: String,
    pub(super) area: Area,
    pub(super) status: StatusCode,
    /// The ways back up: address and name of each.
    pub(super) crumbs: Vec<(String, String)>,
    /// The heading, where it is more than the title.
    pub(super) heading: Option<Markup>,
    pub(super) main: Markup,
    /// A module of its own, by its name.
    pub(super) script: Option<&'static str>,
    /// A style sheet of its own, by its name.
    pub(super) style: Option<&'static str>,
    /// The same as Markdown, for programs.
    pub(super) twin: Option<String>,
    /// Whether it has a search of its own, and needs none in the header.
    pub(super) searches: bool,
    /// Whether it is nobody's business but of who has its address.
    pub(super) unlisted: bool,
}

impl Page {
    pub(super) fn new(area: Area, title: impl Into<String>, main: Markup) -> Self {
        Self {
            title: title.into(),
            area,
            status: StatusCode::OK,
            crumbs: vec![],
            heading: None,
            main,
            script: None,
            style: None,
            twin: None,
            searches: false,
            unlisted: false,
        }
    }

    /// Below another page.
    pub(super) fn under(mut self, path: &str, name: &str) -> Self {
        self.crumbs.push((path.to_owned(), name.to_owned()));
        self
    }

    /// Its answer, as this document: asked for anew each time, since prices and states are of the moment; kept nowhere where it is for
    /// one reader.
    pub(super) fn answered(&self, document: String, for_one: bool) -> Response {
        let mut response = Response::new(Body::from(document));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        seal(headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(if self.unlisted || for_one { "no-store" } else { "no-cache" }));
        response
    }
}
