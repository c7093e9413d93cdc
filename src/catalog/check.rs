//! Validation of an upload: reports all problems at once, and stores nothing.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_base::boxed;
use tollhouse_base::deserialize_error::{self, DeserializeError};
use tollhouse_tool::{Endpoint, Owner, Slug, StaticResponse};

use super::{
    Catalog, ChangedBy, Draft, KeepsResponse, PublishError,
    examine::{DraftUpload, ExaminedUpload, MAX_PROBLEMS, Problems},
    scan::ScannedUpload,
};

/// The required fields of a draft, with a placeholder for a missing or invalid value.
const PLACEHOLDERS: [(&str, &str); 3] = [("slug", "draft"), ("title", "draft"), ("handlerType", "receipt_echo")];

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
    /// Whether the handler and its type in `draft` come from the caller.
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
    #[boxed]
    pub async fn check(&self, given: CheckBody, owner: Owner, by: ChangedBy) -> Result<CheckedUpload, Vec<PublishError>> {
        let DraftReader { draft, slug, handler, problems } = read(given);
        let Some(draft) = draft else { return Err(problems) };
        let mut problems = Problems::all(problems);
        let existing = match &slug {
            Some(slug) => self.shown(slug.as_str()).await.map_err(|error| vec![error.into()])?,
            None => None,
        };
        let existing = existing.filter(|shown| by != ChangedBy::Builder || shown.endpoint.owner == owner);
        let existing = existing.as_ref().map(|shown| &shown.endpoint);
        let owner = existing.map_or(owner, |endpoint| endpoint.owner.clone());
        let upload = DraftUpload { draft: &draft, owner: &owner, by, existing, has_slug: slug.is_some(), has_handler: handler };
        let ExaminedUpload { mut endpoint, report, .. } = self.examine(&upload, &mut problems).await.map_err(|error| vec![error])?;
        let mut problems = problems.found;
        if let (Some(existing), ChangedBy::Builder) = (existing, by) {
            endpoint.keep_approved(existing);
        }
        if let Some(report) = report {
            let attested_at = draft.is_attested().then(|| self.parts.clock.now());
            let upload = ScannedUpload { handler: draft.handler.as_ref(), report, attested_at, by };
            problems.extend(self.apply_findings(&mut endpoint, upload).await.err());
        }
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
}

fn read(given: CheckBody) -> DraftReader {
    let CheckBody { members: given, response } = given;
    let placeholders = || PLACEHOLDERS.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    let mut whole: Map<_, _> = placeholders().collect();
    let missing = PLACEHOLDERS[1..].iter().filter(|(name, _)| !given.contains_key(*name));
    let missing = missing.map(|(name, _)| PublishError::field(format!("/{name}"), format!("`{name}` is missing")));
    let (mut problems, mut sound): (Vec<_>, _) = (missing.collect(), Vec::new());
    for (name, value) in given {
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
        let mut alone: Map<_, _> = placeholders().collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn body(value: Value) -> CheckBody {
        value.as_object().unwrap().clone().into()
    }

    #[test]
    fn missing_fields_are_reported() {
        let read = read(body(json!({})));
        assert!(read.draft.is_some() && read.slug.is_none());
        let missing: Vec<_> = read.problems.iter().map(ToString::to_string).collect();
        assert_eq!(missing, ["`title` is missing", "`handlerType` is missing"]);
    }

    #[test]
    fn all_mistakes_are_reported() {
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
    fn check_keeps_exact_numbers_of_the_response() {
        let text = r#"{"slug":"abc","title":"A","handlerType":"static_json","handler":{"response":[0.1000,1e400]}}"#;
        let (rest, response) = StaticResponse::cut(text.as_bytes()).unwrap();
        let mut given: CheckBody = deserialize_error::json(&serde_json::from_slice(&rest).unwrap()).unwrap();
        given.keep_response(response);
        let Some(crate::HandlerDraft::Response { response }) = read(given).draft.unwrap().handler else { panic!("another handler") };
        assert_eq!(response.text(), "[0.1000,1e400]");
    }
}
