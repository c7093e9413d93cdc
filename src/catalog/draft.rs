//! The body of a create request, and its validation.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_api::{Handler, SafetyAttestation};
use tollhouse_base::deserialize_error::ByName;
use tollhouse_capability::AllowedHosts;
use tollhouse_protocol::{Isolation, Language, Limits, Side};
use tollhouse_tool as tool;
use tollhouse_tool::{
    ANY_PUBLIC_HOST, Capabilities, ChangedVia, Endpoint, HandlerType, MicroUsd, Runtime, SettleTime, Slug, StaticResponse, Status,
    public_texts::MAX_VERSION_NOTE,
};

use super::{ChangedBy, Policy, PublishError, limits::limits_over, schedule_check};

/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 120;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION: usize = 2_000;
const MAX_TAGS: usize = 16;
/// Maximum length of a tag, in characters.
const MAX_TAG: usize = 32;
/// Slugs that would collide with paths below `/ai/endpoints/…`.
const PATHS: &[&str] = &["check", "create"];
const MAX_HOSTS: usize = 64;

/// The body of `POST /ai/endpoints/create`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Draft {
    pub slug: Slug,
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
    pub handler_type: HandlerType,
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
    /// Hosts for `fetch` and `httpGetJson`.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
    /// Whether a process may serve several calls. Default: warm, so it may.
    #[serde(default)]
    pub isolation: Isolation,
    /// Accepted ways to pay, from those of the host: networks as CAIP-2 ids, or tokens as
    /// `network/token`. Default: all.
    #[serde(default)]
    pub accepts: Vec<String>,
    /// When a call is charged. Default: after its handler has succeeded.
    #[serde(default)]
    pub settle: SettleTime,
    /// Cron expressions, in UTC, at which the handler's `scheduled` runs. Default: none, or those of the endpoint that the
    /// draft would change.
    pub schedules: Option<Vec<String>>,
    /// Media types of bodies that it takes beside JSON. Default: none.
    #[serde(default)]
    pub request_types: Vec<String>,
    /// Request headers that it sees, beside those that every tool sees. Default: none.
    #[serde(default)]
    pub request_headers: Vec<String>,
    /// Whether a call with developer credit is refunded if the tool breaks its streamed answer off. Default: no.
    #[serde(default)]
    pub refund_broken_streams: bool,
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
#[serde(try_from = "ByName<Handler>")]
pub enum HandlerDraft {
    /// `{source, language?}`. The default language is JavaScript.
    Source { source: String, language: Language },
    Response {
        /// The answer to every call.
        response: StaticResponse,
    },
}

impl TryFrom<ByName<Handler>> for HandlerDraft {
    type Error = &'static str;

    fn try_from(ByName(fields): ByName<Handler>) -> Result<Self, &'static str> {
        match fields {
            Handler { source: Some(source), language, response: None } => {
                Ok(Self::Source { source, language: language.unwrap_or(Language::Js) })
            }
            Handler { source: None, language: None, response: Some(response) } => {
                Ok(Self::Response { response: StaticResponse::from(&response) })
            }
            _ => Err("`handler` must be `{source, language}` or `{response}`"),
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

impl Draft {
    /// Returns the effective limits: the defaults with the draft's changes.
    pub(super) fn limits(&self, ceilings: &Limits) -> Result<Limits, PublishError> {
        limits_over(Limits::default(), &self.limits, ceilings)
    }

    pub(super) fn is_attested(&self) -> bool {
        self.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted)
    }

    /// Returns a problem for each invalid limit.
    pub(super) fn limit_problems(&self, ceilings: &Limits) -> impl Iterator<Item = PublishError> {
        self.limits
            .iter()
            .filter_map(|(name, value)| limits_over(Limits::default(), &Map::from_iter([(name.clone(), value.clone())]), ceilings).err())
    }

    /// Returns a problem for each invalid host, or one if there are too many.
    pub(super) fn host_problems(&self) -> Vec<PublishError> {
        let Err(first) = hosts(&self.allowed_hosts) else { return vec![] };
        let alone = |(index, host): (usize, &String)| {
            let error = AllowedHosts::parse(std::slice::from_ref(host)).err()?;
            Some(PublishError::field(format!("/allowedHosts/{index}"), error.to_string()))
        };
        let each: Vec<_> = self.allowed_hosts.iter().take(MAX_HOSTS).enumerate().filter_map(alone).collect();
        if each.is_empty() { vec![first] } else { each }
    }
}

/// Returns the ceilings for limits set by this kind of user.
pub(super) fn ceilings(policy: &Policy, by: ChangedBy) -> Limits {
    match by {
        ChangedBy::Host | ChangedBy::Admin => Limits::ceilings(),
        ChangedBy::Builder => policy.limits,
    }
}

/// Returns all problems with an endpoint's fields and the note about its version, except limits,
/// hosts and ways to pay.
pub(super) fn field_problems(endpoint: &Endpoint, note: &str) -> Vec<PublishError> {
    let Endpoint { slug, title, description, tags, price_usd: price, max_price_usd: max, .. } = endpoint;
    let metered = !max.is_zero();
    let is_long = |text: &str, max: usize| text.chars().count() > max;
    let mut problems = Vec::new();
    let mut refuse = |is_wrong: bool, pointer: &str, message: String| {
        if is_wrong {
            problems.push(PublishError::field(pointer, message));
        }
    };
    let is_reserved = *slug == Slug::builder_registration() || PATHS.contains(&slug.as_str());
    refuse(is_reserved, "/slug", format!("the slug `{slug}` is reserved"));
    refuse(title.trim().is_empty() || is_long(title, MAX_TITLE), "/title", format!("a title must have 1 to {MAX_TITLE} characters"));
    let message = format!("a description must have at most {MAX_DESCRIPTION} characters");
    refuse(is_long(description, MAX_DESCRIPTION), "/description", message);
    refuse(tags.len() > MAX_TAGS, "/tags", format!("a tool can have at most {MAX_TAGS} tags"));
    for (index, tag) in tags.iter().take(MAX_TAGS).enumerate() {
        let is_odd = tag.is_empty() || tag.len() > MAX_TAG || !tag.bytes().all(|b| (0x20..0x7f).contains(&b));
        refuse(is_odd, &format!("/tags/{index}"), format!("a tag must have 1 to {MAX_TAG} printable ASCII characters"));
    }
    if metered && endpoint.handler_type.runtime() == Runtime::ManagedBuiltin {
        refuse(true, "/maxPriceUsd", "only `js_request_response` handlers can charge by use".to_owned());
    } else {
        let message = "`priceUsd` must not be above `maxPriceUsd`".to_owned();
        refuse(metered && max < price, "/maxPriceUsd", message);
    }
    let message = "`settle: before` and `maxPriceUsd` cannot be combined: the price of a metered call is known only after its run. Remove one of them";
    refuse(metered && !endpoint.settle.is_after(), "/settle", message.to_owned());
    refuse(is_long(note, MAX_VERSION_NOTE), "/note", format!("a note must have at most {MAX_VERSION_NOTE} characters"));
    problems.extend(schedule_check::problems(endpoint));
    problems.extend(request_problems(endpoint));
    // Only matters to clients that list the tool.
    problems.extend(tool::check_headers(&endpoint.input_schema).map_err(|error| PublishError::schema(Side::Input, error)).err());
    problems
}

/// Returns the problems with the types of bodies that a tool takes, and with the headers that it sees.
fn request_problems(endpoint: &Endpoint) -> Vec<PublishError> {
    let Endpoint { request_types: types, request_headers: headers, .. } = endpoint;
    let mut problems = vec![];
    let mut refuse = |pointer: String, message: String| problems.push(PublishError::field(pointer, message));
    for (field, named, max, problem_of) in [
        ("requestTypes", types, tool::MAX_REQUEST_TYPES, tool::request_type_problem as fn(&str) -> Option<String>),
        ("requestHeaders", headers, tool::MAX_REQUEST_HEADERS, tool::request_header_problem as fn(&str) -> Option<String>),
    ] {
        if named.len() > max {
            refuse(format!("/{field}"), format!("a tool can list at most {max} in `{field}`"));
        }
        for (index, name) in named.iter().take(max).enumerate() {
            if let Some(problem) = problem_of(name) {
                refuse(format!("/{field}/{index}"), problem);
            }
        }
        if !named.is_empty() && endpoint.handler_type.runtime() == Runtime::ManagedBuiltin {
            refuse(format!("/{field}"), "only `js_request_response` handlers can read a request".to_owned());
        }
    }
    if !types.is_empty() && tool::TextReader::new(&endpoint.input_schema).describes(tool::BODY_FIELD) {
        let message = "a tool with `requestTypes` cannot have a property `body`: it is for files in JSON, over MCP for example";
        let is_direct = endpoint.input_schema["properties"].get(tool::BODY_FIELD).is_some();
        let pointer = if is_direct { "/inputSchema/properties/body" } else { "/inputSchema" };
        refuse(pointer.to_owned(), message.to_owned());
    }
    problems
}

/// Returns normalized hosts: in lowercase, without duplicates.
pub(super) fn hosts(named: &[String]) -> Result<Vec<String>, PublishError> {
    if named.len() > MAX_HOSTS {
        return Err(PublishError::field("/allowedHosts", format!("a tool can list at most {MAX_HOSTS} hosts")));
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

/// Refuses an upload of a builder that lists any public host without a grant. It does not wait for an admin, because a
/// builder who needs it must ask for it with a reason.
pub(super) fn may_reach(endpoint: &Endpoint, by: ChangedBy) -> Result<(), PublishError> {
    if by == ChangedBy::Builder && endpoint.requested_hosts.iter().any(|host| host == ANY_PUBLIC_HOST) {
        let message = "any public host (`*`) needs a grant for the tool or its builder: ask an admin of this host, or list the hosts";
        return Err(PublishError::field("/allowedHosts", message));
    }
    Ok(())
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
