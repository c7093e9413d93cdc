//! A row of the table of operations, as the router, tests and documents read it.

use tollhouse_front::Code;

/// Whose business a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Everyone's, strangers' too.
    Everyone,
    /// Any builder's, for what becomes their own.
    Builders,
    /// The builder's who shows the key; an admin names one by `?builderId=`, and a builder names no other.
    Themselves,
    /// The owner's of the endpoint that the path names.
    Owner,
    /// Admins'.
    Admins,
    /// Not a builder's; whoever holds the credit's token asks with that.
    Holder,
}

impl Whose {
    /// As documents say it.
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

/// An operation, as tests and documents read it.
#[derive(Debug, Clone)]
pub struct Row {
    /// In capitals.
    pub method: &'static str,
    /// With `{slug}` or `{id}` where it names something.
    pub path: &'static str,
    /// What programs call it.
    pub id: &'static str,
    /// What it is about: the page of the documents that it is on.
    pub subject: &'static str,
    /// Who may ask. Admins may wherever a builder may.
    pub whose: Whose,
    /// The names that its query takes. Of management, any other is refused.
    pub query: &'static [&'static str],
    /// Headers that it heeds, besides those of credentials and payment.
    pub headers: &'static [&'static str],
    /// What it is for.
    pub what: &'static str,
    /// The schema of its body, where it takes one.
    pub takes: Option<&'static str>,
    /// What it answers.
    pub answers: Answers,
    /// Whether `Accept: text/event-stream` gets a stream of it.
    pub streams: bool,
    /// Whether agents are told of it in `/openapi.json`.
    pub for_agents: bool,
    /// What it is refused for, besides what every operation of its kind is: [`Row::codes`].
    pub(super) fails: Vec<Code>,
}

/// What an operation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// JSON that fits this schema.
    Json(&'static str),
    /// What a tool says: any JSON, with the status that it chose.
    Tool,
    /// Other text, of this media type.
    Text(&'static str),
    /// A document: as Markdown, and to browsers as a page.
    Page,
}

/// What any operation may be refused for.
const ALWAYS: &[Code] = &[Code::InvalidRequest, Code::RateLimited, Code::Busy, Code::StoreUnavailable, Code::Internal];

/// What one is refused for besides that takes a body.
const OF_BODIES: &[Code] = &[Code::InvalidJson, Code::UnsupportedMediaType, Code::BodyTooLarge, Code::BodyTooSlow];

impl Row {
    /// The row of what is asked for so; it answers nothing that is known yet.
    pub(super) fn new(method: &'static str, path: &'static str, id: &'static str, what: &'static str) -> Self {
        Self {
            method,
            path,
            id,
            subject: "",
            whose: Whose::Everyone,
            query: &[],
            headers: &[],
            what,
            takes: None,
            answers: Answers::Json(""),
            streams: false,
            for_agents: false,
            fails: vec![],
        }
    }

    /// The schema of its answer, where it has one.
    #[must_use]
    pub fn schema(&self) -> Option<&'static str> {
        match self.answers {
            Answers::Json(schema) => Some(schema),
            Answers::Tool | Answers::Text(_) | Answers::Page => None,
        }
    }

    /// All that it is refused for, in the order of the table of faults.
    #[must_use]
    pub fn codes(&self) -> Vec<Code> {
        let of_who: &[Code] = match self.whose {
            Whose::Everyone => &[],
            Whose::Builders => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownBuilder],
            Whose::Themselves => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownBuilder],
            Whose::Owner => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownEndpoint],
            Whose::Admins => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner],
            Whose::Holder => &[Code::Unauthorized, Code::BuilderSuspended, Code::NotOwner, Code::UnknownCredit],
        };
        let of_body = if self.takes.is_some() { OF_BODIES } else { &[] };
        let has = |code: &&Code| [ALWAYS, of_who, of_body, &self.fails].iter().any(|some| some.contains(code));
        Code::ALL.iter().filter(has).copied().collect()
    }
}
