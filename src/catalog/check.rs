//! Validation of an upload: reports all problems at once, and stores nothing.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_base::deserialize_error::{self, DeserializeError};
use tollhouse_capability::AllowedHosts;
use tollhouse_protocol::Schemas;
use tollhouse_tool::{Endpoint, Owner, Slug, StaticResponse};

use super::{
    Catalog, ChangedBy, Draft, KeepsResponse, PublishError, draft,
    entitlements::{AccessSet, Entitlements},
    publish,
    scan::ScannedUpload,
};

/// Fields of a draft. Required ones have a placeholder for a missing or invalid value.
const MEMBERS: &[(&str, Option<&str>)] = &[
    ("slug", Some("draft")),
    ("title", Some("draft")),
    ("description", None),
    ("status", None),
    ("priceUsd", None),
    ("maxPriceUsd", None),
    ("handlerType", Some("receipt_echo")),
    ("tags", None),
    ("inputSchema", None),
    ("outputSchema", None),
    ("capabilities", None),
    ("handler", None),
    ("limits", None),
    ("allowedHosts", None),
    ("isolation", None),
    ("accepts", None),
    ("settle", None),
    ("safetyAttestation", None),
    ("note", None),
];

/// The body of a check: that of a create request, which is read field by field.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct CheckBody {
    members: Map<String, Value>,
    response: Option<StaticResponse>,
}

impl From<Map<String, Value>> for CheckBody {
    fn from(members: Map<String, Value>) -> Self {
        Self { members, response: None }
    }
}

impl KeepsResponse for CheckBody {
    fn keep_response(&mut self, response: StaticResponse) {
        self.response = Some(response);
    }
}

/// The endpoint that an upload would create.
#[derive(Debug)]
pub struct CheckedUpload {
    /// The endpoint with its grants, price and scan result.
    pub endpoint: Endpoint,
    /// Whether the upload would change an existing endpoint.
    pub existing: bool,
    /// Likely mistakes that are not refused.
    pub warnings: Vec<String>,
}

/// A draft that was read field by field, so that one mistake does not hide others.
struct DraftReader {
    draft: Option<Draft>,
    /// The given slug, if valid.
    slug: Option<Slug>,
    /// Whether handler and handler type are the given ones.
    handler: bool,
    problems: Vec<PublishError>,
}

impl Catalog {
    /// Validates `given`, the body of a create request with or without a slug. If the slug belongs
    /// to an endpoint of the caller, validates the change of that endpoint.
    ///
    /// # Errors
    ///
    /// Every reason for which [`Catalog::create`] would refuse it, in the same order, or the reason
    /// why it cannot be checked.
    pub async fn check(&self, given: CheckBody, owner: Owner, by: ChangedBy) -> Result<CheckedUpload, Vec<PublishError>> {
        let DraftReader { draft, slug, handler, mut problems } = read(given);
        let Some(draft) = draft else { return Err(problems) };
        if by == ChangedBy::Builder && !draft.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted) {
            problems.push(PublishError::AttestationRequired);
        }
        problems.extend(draft.problems());
        problems.extend(self.payable(&draft.accepts).err());
        problems.extend(self.known_to_all(draft.settle).await.err());
        let existing = match &slug {
            Some(slug) => self.shown(slug.as_str()).await.map_err(|error| vec![error.into()])?,
            None => None,
        };
        let existing = existing.filter(|shown| by != ChangedBy::Builder || shown.endpoint.owner == owner);
        if existing.is_none() {
            problems.extend(self.room_for(&owner, by).err());
            if let Some(slug) = &slug {
                problems.extend(self.free_slug(slug, &owner, by).await.err());
            }
        }
        let owner = existing.as_ref().map_or(owner, |live| live.endpoint.owner.clone());
        let policy = self.policy();
        let ceilings = draft::ceilings(&policy.policy, by);
        problems.extend(draft.limit_problems(&ceilings).take(MAX_PROBLEMS));
        problems.extend(host_problems(&draft.allowed_hosts));
        let now = self.clock.now();
        let mut endpoint = publish::new(&draft, owner, draft.limits(&ceilings).unwrap_or_default(), now);
        let mut had = Entitlements::default();
        if let Some(live) = &existing {
            had = Entitlements::of(&live.endpoint);
            endpoint.review = live.endpoint.review.clone();
            endpoint.limit_caps = live.endpoint.limit_caps.clone();
            endpoint.tier_cap = live.endpoint.tier_cap;
        }
        let wish = AccessSet { capabilities: draft.capabilities, hosts: draft::hosts(&draft.allowed_hosts).unwrap_or_default() };
        let standing = if by == ChangedBy::Builder { had.asked(&wish, &policy.policy) } else { had.set(&wish) };
        standing.put(&mut endpoint);
        self.apply_policy(&mut endpoint);
        if handler {
            match self.prepare(&endpoint, draft.handler.as_ref(), Schemas::default()).await {
                Ok(prepared) => (endpoint.handler, endpoint.version) = (prepared.handler, prepared.version),
                Err(error) => problems.push(error),
            }
        }
        let attested_at = draft.safety_attestation.as_ref().is_some_and(|attestation| attestation.accepted).then_some(now);
        let judged = match self.scan(&endpoint, draft.handler.as_ref()).await {
            Ok(report) => {
                self.weigh_findings(&mut endpoint, ScannedUpload { handler: draft.handler.as_ref(), report, attested_at, by }).await
            }
            Err(error) => Err(error),
        };
        problems.extend(judged.err());
        problems.extend(self.schema_problems(&endpoint).await);
        if problems.is_empty() {
            return Ok(CheckedUpload { warnings: self.warnings_of(&draft, &endpoint).await, endpoint, existing: existing.is_some() });
        }
        // A problem of the host says nothing about the upload.
        match problems.iter().position(|problem| matches!(problem, PublishError::Pool(_) | PublishError::Store(_))) {
            Some(hosts) => Err(vec![problems.swap_remove(hosts)]),
            None => {
                problems.truncate(MAX_PROBLEMS);
                Err(problems)
            }
        }
    }

    /// Returns the problems of each schema, and of a static response that does not match.
    async fn schema_problems(&self, endpoint: &Endpoint) -> Vec<PublishError> {
        let anything = Arc::new(json!({}));
        let (input, output) = (&endpoint.input_schema, &endpoint.output_schema);
        let mut problems: Vec<_> = self.usable(endpoint, input, &anything).await.err().into_iter().collect();
        let promised = match self.usable(endpoint, &anything, output).await {
            Ok(()) => {
                let endpoint = Endpoint { input_schema: Arc::clone(&anything), ..endpoint.clone() };
                self.check_promises(endpoint, None).await
            }
            unusable => unusable,
        };
        problems.extend(promised.err());
        problems
    }
}

/// Maximum problems in one answer. Further ones are left out.
const MAX_PROBLEMS: usize = 32;

/// Maximum length of a name repeated in a message, in characters.
const REPEATED: usize = 64;

fn read(given: CheckBody) -> DraftReader {
    let CheckBody { members: given, response } = given;
    let stand_ins = || MEMBERS.iter().filter_map(|(name, stand_in)| Some(((*name).to_owned(), json!((*stand_in)?))));
    let mut whole: Map<_, _> = stand_ins().collect();
    let mut problems = Vec::new();
    for (name, _) in stand_ins().filter(|(name, _)| name != "slug" && !given.contains_key(name)) {
        problems.push(PublishError::field(format!("/{name}"), format!("`{name}` is missing")));
    }
    let mut sound = Vec::new();
    for (name, value) in given {
        if MEMBERS.iter().all(|(known, _)| *known != name) {
            if problems.len() < MAX_PROBLEMS {
                let name: String = name.chars().take(REPEATED).collect();
                problems.push(PublishError::field(format!("/{name}"), format!("there is no member `{name}`")));
            }
            continue;
        }
        let mut alone: Map<_, _> = stand_ins().collect();
        alone.insert(name.clone(), value);
        match deserialize_error::members::<Draft>(&alone) {
            Ok(_) => {
                whole.extend(alone.remove_entry(&name));
                sound.push(name);
            }
            Err(DeserializeError { pointer, message }) => problems.push(PublishError::field(pointer, message)),
        }
    }
    let mut draft = Draft::deserialize(&Value::Object(whole)).ok();
    if let Some(response) = response {
        draft.keep_response(response);
    }
    let is_sound = |name: &str| sound.iter().any(|known| known == name);
    let slug = draft.as_ref().filter(|_| is_sound("slug")).map(|draft| draft.slug.clone());
    let unsound =
        |name: &str| problems.iter().any(|problem| matches!(problem, PublishError::Field { pointer, .. } if pointer.starts_with(name)));
    DraftReader { handler: is_sound("handlerType") && !unsound("/handler"), slug, draft, problems }
}

/// Returns a problem for each invalid host, or one if there are too many.
fn host_problems(hosts: &[String]) -> Vec<PublishError> {
    let Err(first) = draft::hosts(hosts) else { return vec![] };
    let alone = |(index, host): (usize, &String)| {
        let error = AllowedHosts::parse(std::slice::from_ref(host)).err()?;
        Some(PublishError::field(format!("/allowedHosts/{index}"), error.to_string()))
    };
    let each: Vec<_> = hosts.iter().take(draft::MAX_HOSTS).enumerate().filter_map(alone).collect();
    if each.is_empty() { vec![first] } else { each }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: Value) -> CheckBody {
        value.as_object().unwrap().clone().into()
    }

    #[test]
    fn the_members_are_those_of_a_draft() {
        let error = Draft::deserialize(&json!({ "nothing": 1 })).unwrap_err().to_string();
        let known: Vec<_> = error.split("expected one of ").nth(1).unwrap().split(", ").map(|name| name.trim_matches('`')).collect();
        assert_eq!(known, MEMBERS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let read = read(body(json!({})));
        assert!(read.draft.is_some() && read.slug.is_none());
        let missing: Vec<_> = read.problems.iter().map(ToString::to_string).collect();
        assert_eq!(missing, ["`title` is missing", "`handlerType` is missing"]);
    }

    #[test]
    fn one_mistake_hides_no_other() {
        let read = read(body(json!({
            "slug": "-", "title": 1, "priceUsd": "1", "tags": ["a", 2], "handlerType": "javascript", "handler": {}, "hamdler": {},
        })));
        let mut pointers: Vec<_> = read
            .problems
            .iter()
            .map(|problem| match problem {
                PublishError::Field { pointer, .. } => pointer.as_str(),
                other => panic!("{other}"),
            })
            .collect();
        pointers.sort_unstable();
        assert_eq!(pointers, ["/hamdler", "/handler", "/handlerType", "/priceUsd", "/slug", "/tags/1", "/title"]);
        assert!(!read.handler);
    }

    #[test]
    fn a_check_reads_the_response_with_its_digits() {
        let text = r#"{"slug":"abc","title":"A","handlerType":"static_json","handler":{"response":[0.1000,1e400]}}"#;
        let (rest, response) = StaticResponse::cut(text.as_bytes()).unwrap();
        let mut given: CheckBody = deserialize_error::json(&serde_json::from_slice(&rest).unwrap()).unwrap();
        given.keep_response(response);
        let Some(draft::HandlerDraft::Response { response }) = read(given).draft.unwrap().handler else { panic!("another handler") };
        assert_eq!(response.text(), "[0.1000,1e400]");
    }
}
