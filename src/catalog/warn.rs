//! What is allowed and hardly meant: said once to whoever publishes, and never in the way.

use serde_json::Map;

use super::{Catalog, Draft, HandlerDraft};
use crate::{
    catalog::safety::{Reach, reaches},
    tool::Endpoint,
};

impl Catalog {
    /// What the handler of `endpoint` reaches for and does not have. What cannot be read has no warnings.
    pub async fn warnings(&self, endpoint: &Endpoint) -> Vec<String> {
        match self.uploaded(&endpoint.version).await {
            Ok(Some(HandlerDraft::Source { source, .. })) => reached(endpoint, source).await,
            Ok(Some(HandlerDraft::Response { .. }) | None) | Err(_) => vec![],
        }
    }
}

/// The same of a draft, which would become `endpoint`, and what else is odd about it.
pub(super) async fn of_draft(draft: &Draft, endpoint: &Endpoint) -> Vec<String> {
    let mut warnings = match &draft.handler {
        Some(HandlerDraft::Source { source, .. }) => reached(endpoint, source.clone()).await,
        Some(HandlerDraft::Response { .. }) | None => vec![],
    };
    match (draft.capabilities.http_get_json, draft.allowed_hosts.is_empty()) {
        (true, true) => warnings.push("`httpGetJson` reaches nothing: `allowedHosts` is empty".to_owned()),
        (false, false) => warnings.push("`allowedHosts` serves nothing: `capabilities.httpGetJson` is not asked for".to_owned()),
        (true, false) | (false, true) => {}
    }
    if draft.description.trim().is_empty() {
        warnings.push("the description is empty: agents find a tool by it".to_owned());
    }
    if draft.output_schema.as_object().is_some_and(Map::is_empty) {
        warnings.push("the outputSchema lets everything through: a wrong result is charged like a right one".to_owned());
    }
    warnings
}

/// Reading a source of a megabyte takes milliseconds.
async fn reached(endpoint: &Endpoint, source: String) -> Vec<String> {
    let found = tokio::task::spawn_blocking(move || reaches(&source)).await.unwrap_or_default();
    found.iter().filter_map(|reach| warning(endpoint, reach)).collect()
}

fn warning(endpoint: &Endpoint, reach: &Reach) -> Option<String> {
    let Reach { name, capability, line } = *reach;
    if endpoint.capabilities.names().any(|granted| granted == capability) {
        return None;
    }
    let what = match (name, capability) {
        ("console", _) => "`console` writes nothing".to_owned(),
        (_, "logs") => format!("`ctx.{name}` writes nothing"),
        _ => format!("`ctx.{name}` is refused"),
    };
    let requested = endpoint.requested_capabilities.names().any(|asked| asked == capability);
    let next = if requested {
        format!("`capabilities.{capability}` waits for an admin")
    } else {
        format!("ask for it with `capabilities.{capability}: true`")
    };
    Some(format!("{what} (line {line}): {next}"))
}
