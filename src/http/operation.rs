//! A row of the operation table, for the router, tests and documentation.

use tollhouse_front::Code;

/// The callers that can use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone, without authentication.
    Everyone,
    /// Any builder, who will own the result.
    Builders,
    /// The builder whose key it is. An admin names a builder with `?builderId=`; a builder cannot name another.
    Themselves,
    /// The owner of the tool in the path.
    Owner,
    /// Admins only.
    Admins,
    /// The holder of a developer credit with its token, or an admin. Builders cannot use it.
    Holder,
}

impl Access {
    /// Returns its name in the documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Everyone => "everyone",
            Self::Builders => "builders",
            Self::Themselves => "the builder",
            Self::Owner => "the owner",
            Self::Admins => "admins",
            Self::Holder => "the holder",
        }
    }
}

/// An operation of the HTTP API.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The HTTP method, in capitals.
    pub method: &'static str,
    /// The path, with parameters such as `{slug}` or `{id}`.
    pub path: &'static str,
    /// The operation id for programs.
    pub id: &'static str,
    /// The subject, which is also its page in the documentation.
    pub subject: &'static str,
    /// The callers that can use it. Admins can use everything that builders can.
    pub access: Access,
    /// The query parameters. Management operations reject others.
    pub query: &'static [&'static str],
    /// Request headers that it reads, besides credentials and payments.
    pub headers: &'static [&'static str],
    /// Its purpose.
    pub what: &'static str,
    /// The schema of its request body, if it has one.
    pub takes: Option<&'static str>,
    /// The kind of its response.
    pub answers: ResponseKind,
    /// Whether `Accept: text/event-stream` returns a stream.
    pub streams: bool,
    /// Whether `/openapi.json` shows it to agents.
    pub for_agents: bool,
    /// Its error codes, besides those that [`Operation::codes`] adds for all operations of its kind.
    pub(super) fails: Vec<Code>,
}

/// The content of a response's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseKind {
    /// JSON with this schema.
    Json(&'static str),
    /// The answer of a tool: any JSON, with the tool's status.
    Tool,
    /// Other text with this media type.
    Text(&'static str),
    /// A document: Markdown, or a page for browsers.
    Page,
    /// JSON with this schema, or a page for browsers.
    JsonOrPage(&'static str),
}

impl ResponseKind {
    /// Returns whether browsers get a page, also for errors.
    #[must_use]
    pub fn is_page(self) -> bool {
        matches!(self, Self::Page | Self::JsonOrPage(_))
    }
}

/// Error codes of all operations.
const ALWAYS: &[Code] = &[Code::InvalidRequest, Code::RateLimited, Code::Busy, Code::StoreUnavailable, Code::Internal];

/// Further error codes of operations with a request body.
const OF_BODIES: &[Code] = &[Code::InvalidJson, Code::UnsupportedMediaType, Code::BodyTooLarge, Code::BodyTooSlow];

impl Operation {
    /// Returns a row without a known response.
    pub(super) fn new(method: &'static str, path: &'static str, id: &'static str, what: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            subject: "",
            access: Access::Everyone,
            query: &[],
            headers: &[],
            what,
            takes: None,
            answers: ResponseKind::Json(""),
            streams: false,
            for_agents: false,
            fails: vec![],
        }
    }

    /// Returns the schema of its response, if it has one.
    #[must_use]
    pub fn schema(&self) -> Option<&'static str> {
        match self.answers {
            ResponseKind::Json(schema) | ResponseKind::JsonOrPage(schema) => Some(schema),
            ResponseKind::Tool | ResponseKind::Text(_) | ResponseKind::Page => None,
        }
    }

    /// Returns all its error codes, in the order of the error table.
    #[must_use]
    pub fn codes(&self) -> Vec<Code> {
        let access_codes: &[Code] = match self.access {
            Access::Everyone => &[],
            Access::Builders | Access::Themselves => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownBuilder],
            Access::Owner => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownEndpoint],
            Access::Admins => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner],
            Access::Holder => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownCredit],
        };
        let body_codes = if self.takes.is_some() { OF_BODIES } else { &[] };
        let has = |code: &&Code| [ALWAYS, access_codes, body_codes, &self.fails].iter().any(|some| some.contains(code));
        Code::ALL.iter().filter(has).copied().collect()
    }
}
