//! Validation of the schedules of an endpoint.

use tollhouse_tool::{Cron, Endpoint, HandlerType};

use super::PublishError;

/// Maximum number of schedules of a tool.
pub const MAX_SCHEDULES: usize = 8;

/// Maximum number of schedules of all tools of a builder. Hosts that publish at the same moment can exceed it slightly.
pub const MAX_SCHEDULES_OF_BUILDER: usize = 100;

/// Returns a problem for each invalid schedule, or for too many.
pub(super) fn problems(endpoint: &Endpoint) -> Vec<PublishError> {
    let schedules = &endpoint.schedules;
    if !schedules.is_empty() && !matches!(endpoint.handler_type, HandlerType::JsRequestResponse) {
        return vec![PublishError::field("/schedules", "only `js_request_response` handlers can run on a schedule")];
    }
    if schedules.len() > MAX_SCHEDULES {
        return vec![PublishError::field("/schedules", format!("a tool can have at most {MAX_SCHEDULES} schedules"))];
    }
    let invalid = |(index, text): (usize, &String)| {
        let pointer = format!("/schedules/{index}");
        if schedules[..index].contains(text) {
            return Some(PublishError::field(pointer, format!("`{text}` is listed twice")));
        }
        Cron::parse(text).err().map(|error| PublishError::field(pointer, error.to_string()))
    };
    schedules.iter().enumerate().filter_map(invalid).collect()
}

/// Compares the schedules of an endpoint with whether its handler exports `scheduled`.
pub(super) fn check_export(endpoint: &Endpoint, exports: Option<bool>) -> Result<(), PublishError> {
    let message = match (exports, endpoint.schedules.is_empty()) {
        (Some(true), true) => "the handler exports `scheduled`, but the tool has no schedule: add one to `schedules`, or remove the export",
        (Some(false), false) => {
            "the tool has schedules, but its handler does not export the function `scheduled`: add it, or remove `schedules`"
        }
        (Some(_) | None, _) => return Ok(()),
    };
    Err(PublishError::field("/schedules", message))
}
