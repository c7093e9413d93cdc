//! The body of a create request, and its validation.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_capability::AllowedHosts;
use tollhouse_protocol::{Isolation, Language, Limits, Side};
use tollhouse_tool as tool;
use tollhouse_tool::{Capabilities, ChangedVia, HandlerType, MicroUsd, Runtime, SettleTime, Slug, StaticResponse, Status};

use super::{ChangedBy, Policy, PublishError, limits::limits_over};

/// Maximum length of a title, in characters.
pub(super) const MAX_TITLE: usize = 120;
/// Maximum length of a description, in characters.
pub(super) const MAX_DESCRIPTION: usize = 2_000;
/// Maximum number of tags.
pub(super) const MAX_TAGS: usize = 16;
/// Maximum length of a tag, in characters.
pub(super) const MAX_TAG: usize = 32;
/// Maximum length of a note, in characters.
const MAX_NOTE: usize = tool::public_texts::MAX_VERSION_NOTE;
/// Slugs that would collide with paths below `/ai/endpoints/…`.
const PATHS: &[&str] = &["check", "create"];
/// Maximum number of allowed hosts.
pub(super) const MAX_HOSTS: usize = 64;

/// The body of `POST /ai/endpoints/create`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Draft {
    /// Its name in addresses.
    pub slug: Slug,
    /// Title for people.
    pub title: String,
    /// Description for people, and for models that choose a tool.
    #[serde(default)]
    pub description: String,
    /// Initial status. Default: active.
    #[serde(default = "active")]
    pub status: Status,
    /// Price of a call. Default: 0.
    #[serde(default)]
    pub price_usd: MicroUsd,
    /// Maximum price of a call, if its handler sets the price with `ctx.charge`. Default: the price
    /// is fixed.
    #[serde(default)]
    pub max_price_usd: MicroUsd,
    /// Type of the handler.
    pub handler_type: HandlerType,
    /// Tags for search.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Schema of inputs. Default: any object.
    #[serde(default = "any_object")]
    pub input_schema: Arc<Value>,
    /// Schema of results. Default: anything.
    #[serde(default = "anything")]
    pub output_schema: Arc<Value>,
    /// Requested capabilities. Default: none.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The handler. Absent for the host's built-in ones.
    pub handler: Option<HandlerDraft>,
    #[serde(default)]
    limits: Map<String, Value>,
    /// Hosts for `httpGetJson`.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Whether a process may serve several calls. Default: warm, so it may.
    #[serde(default = "warm")]
    pub isolation: Isolation,
    /// Accepted ways to pay, from those of the host: networks as CAIP-2 ids, or tokens as
    /// `network/token`. Default: all.
    #[serde(default)]
    pub accepts: Vec<String>,
    /// When a call is charged. Default: after its handler has succeeded.
    #[serde(default)]
    pub settle: SettleTime,
    /// Attestation of a builder.
    pub safety_attestation: Option<SafetyAttestation>,
    /// Note about this version for its owner and admins. Default: none.
    #[serde(default)]
    pub note: String,
    /// The interface of the upload. Set by the interface itself, not in the body.
    #[serde(skip)]
    pub via: Option<ChangedVia>,
}

/// A handler as uploaded.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "HandlerFields")]
pub enum HandlerDraft {
    /// `{source, language?}`. The default language is JavaScript.
    Source {
        /// Source of a single module.
        source: String,
        /// Language of the source.
        language: Language,
    },
    /// `{response}`
    Response {
        /// The answer to every call.
        response: StaticResponse,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandlerFields {
    source: Option<String>,
    language: Option<Language>,
    response: Option<Value>,
}

impl TryFrom<HandlerFields> for HandlerDraft {
    type Error = &'static str;

    fn try_from(fields: HandlerFields) -> Result<Self, &'static str> {
        match fields {
            HandlerFields { source: Some(source), language, response: None } => {
                Ok(Self::Source { source, language: language.unwrap_or(Language::Js) })
            }
            HandlerFields { source: None, language: None, response: Some(response) } => {
                Ok(Self::Response { response: StaticResponse::from(&response) })
            }
            _ => Err("a handler is `{source, language}` or `{response}`"),
        }
    }
}

/// A body with a handler. Deserialized from a value, its static response has numbers that may be rounded.
pub trait KeepsResponse {
    /// Sets the static response as it was [cut](StaticResponse::cut) out of the body's text. Without effect if the body has none.
    fn keep_response(&mut self, response: StaticResponse);
}

impl KeepsResponse for HandlerDraft {
    fn keep_response(&mut self, stored: StaticResponse) {
        if let Self::Response { response } = self {
            *response = stored;
        }
    }
}

impl<T: KeepsResponse> KeepsResponse for Option<T> {
    fn keep_response(&mut self, response: StaticResponse) {
        if let Some(body) = self {
            body.keep_response(response);
        }
    }
}

impl KeepsResponse for Draft {
    fn keep_response(&mut self, response: StaticResponse) {
        self.handler.keep_response(response);
    }
}

/// A builder's statement that the upload is lawful and theirs to publish.
#[derive(Debug, Clone, Deserialize)]
pub struct SafetyAttestation {
    pub accepted: bool,
}

impl Draft {
    /// Returns the effective limits: the defaults with the draft's changes.
    pub(super) fn limits(&self, ceilings: &Limits) -> Result<Limits, PublishError> {
        limits_over(Limits::default(), &self.limits, ceilings)
    }

    pub(super) fn check(&self) -> Result<(), PublishError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all problems with slug, texts and headers.
    pub(super) fn problems(&self) -> Vec<PublishError> {
        let taken = self.slug == Slug::builder_registration() || PATHS.contains(&self.slug.as_str());
        let slug = taken.then(|| PublishError::field("/slug", format!("the slug `{}` is reserved", self.slug)));
        let texts = text_problems(&self.title, &self.description, &self.tags);
        let metered = check_most(self.handler_type, self.price_usd, self.max_price_usd).err();
        slug.into_iter()
            .chain(texts)
            .chain(metered)
            .chain(check_settle(self.settle, self.max_price_usd).err())
            .chain(check_input(&self.input_schema).err())
            .chain(check_note(&self.note).err())
            .collect()
    }

    /// Returns a problem for each invalid limit.
    pub(super) fn limit_problems(&self, ceilings: &Limits) -> impl Iterator<Item = PublishError> {
        self.limits
            .iter()
            .filter_map(|(name, value)| limits_over(Limits::default(), &Map::from_iter([(name.clone(), value.clone())]), ceilings).err())
    }
}

/// Returns the ceilings for limits set by this kind of user.
pub(super) fn ceilings(policy: &Policy, by: ChangedBy) -> Limits {
    match by {
        ChangedBy::Host | ChangedBy::Admin => Limits::ceilings(),
        ChangedBy::Builder => policy.limits,
    }
}

/// Checks parts of an input schema that only matter to clients which list the tool.
pub(super) fn check_input(schema: &Value) -> Result<(), PublishError> {
    tool::check_headers(schema).map_err(|error| PublishError::schema(Side::Input, error))
}

/// Checks the length of a note.
pub(super) fn check_note(note: &str) -> Result<(), PublishError> {
    if note.chars().count() <= MAX_NOTE {
        Ok(())
    } else {
        Err(PublishError::field("/note", format!("a note has at most {MAX_NOTE} characters")))
    }
}

/// Checks that a handler of this type can set its price within these bounds.
pub(super) fn check_most(handler: HandlerType, price: MicroUsd, max: MicroUsd) -> Result<(), PublishError> {
    let refused = |message: &str| Err(PublishError::field("/maxPriceUsd", message));
    match (max.is_zero(), handler.runtime()) {
        (true, _) => Ok(()),
        (false, Runtime::ManagedBuiltin) => refused("only a handler of your own says what a call costs"),
        (false, _) if max < price => refused("a call costs at most `maxPriceUsd`, and `priceUsd` is more"),
        (false, _) => Ok(()),
    }
}

/// Checks that a call can be charged at this time. A charge before the run needs a fixed price.
pub(super) fn check_settle(settle: SettleTime, max: MicroUsd) -> Result<(), PublishError> {
    match settle {
        SettleTime::Before if !max.is_zero() => {
            let message = "`settle` is `before` and `maxPriceUsd` is set: what a metered call costs is known only after its run. Remove one of the two";
            Err(PublishError::field("/settle", message))
        }
        SettleTime::Before | SettleTime::After => Ok(()),
    }
}

/// Returns all problems with texts.
pub(super) fn text_problems(title: &str, description: &str, tags: &[String]) -> Vec<PublishError> {
    let mut problems = Vec::new();
    if title.trim().is_empty() || title.chars().count() > MAX_TITLE {
        problems.push(PublishError::field("/title", format!("a title has 1 to {MAX_TITLE} characters")));
    }
    if description.chars().count() > MAX_DESCRIPTION {
        problems.push(PublishError::field("/description", format!("a description has at most {MAX_DESCRIPTION} characters")));
    }
    if tags.len() > MAX_TAGS {
        problems.push(PublishError::field("/tags", format!("an endpoint has at most {MAX_TAGS} tags")));
    }
    let odd = |tag: &&String| tag.is_empty() || tag.len() > MAX_TAG || !tag.bytes().all(|b| (0x20..0x7f).contains(&b));
    for (index, _) in tags.iter().take(MAX_TAGS).enumerate().filter(|(_, tag)| odd(tag)) {
        problems.push(PublishError::field(format!("/tags/{index}"), format!("a tag is 1 to {MAX_TAG} printable ASCII characters")));
    }
    problems
}

/// Returns normalized hosts: in lowercase, without duplicates.
pub(super) fn hosts(named: &[String]) -> Result<Vec<String>, PublishError> {
    if named.len() > MAX_HOSTS {
        return Err(PublishError::field("/allowedHosts", format!("an endpoint names at most {MAX_HOSTS} hosts")));
    }
    let parsed = AllowedHosts::parse(named).map_err(|error| PublishError::field("/allowedHosts", error.to_string()))?;
    let mut hosts = Vec::<String>::new();
    for host in parsed.iter() {
        if !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
    Ok(hosts)
}

fn active() -> Status {
    Status::Active
}

fn any_object() -> Arc<Value> {
    Arc::new(json!({ "type": "object" }))
}

fn anything() -> Arc<Value> {
    Arc::new(json!({}))
}

/// Returns the default isolation of drafts.
fn warm() -> Isolation {
    Isolation::default()
}
