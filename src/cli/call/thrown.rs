//! Finds where a handler threw an error, for the tool's manager in its folder. The payer gets only the message.

use std::time::Duration;

use tokio::time::sleep;
use tollhouse_api::{Call, CallPage};
use tollhouse_base::id::RequestId;

use crate::{
    base::{CredentialChoice, Error, Session, same_place},
    logs::thrown_at,
    tool::{FilePosition, source_map},
};

/// How often, and at what interval, to look for the record of the call, which is written after the answer.
const LOOKS: u32 = 20;
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Adds the location in the folder's own files to the error, if it is known. `own` says whether the call went to the
/// session's host.
pub(super) async fn placed(session: &Session, name: &str, own: bool, error: Error) -> Error {
    if !own || error.code() != "handler_failed" {
        return error;
    }
    let position = tokio::select! {
        position = found(session, name, &error) => position,
        _ = tokio::signal::ctrl_c() => None,
    };
    match position {
        Some(position) => error.more([format!("thrown at {position}")]),
        None => error,
    }
}

async fn found(session: &Session, name: &str, error: &Error) -> Option<FilePosition> {
    let folder = session.folder.as_ref()?;
    if folder.state.slug.as_str() != name || !same_place(&folder.state.host, session.client.base()) {
        return None;
    }
    session.client.credential(CredentialChoice::Manager).ok()?;
    // Use the host's own clock: the call began after the request arrived.
    let started = error.request_id().parse::<RequestId>().ok()?.made_at();
    for _ in 0..LOOKS {
        let asking = session.client.get(&["ai", "endpoints", name, "calls"]).query("outcome", "handler_failed").query("since", started);
        let page: CallPage = asking.send().await.ok()?.body;
        let is_it = |call: &&Call| {
            // The record contains a shortened message.
            let text = call.error.as_deref().unwrap_or_default().trim_end_matches('…');
            let is_after = call.call_id.made_at() >= started;
            is_after && !text.is_empty() && error.message.starts_with(text)
        };
        // The newest come first.
        if let Some(call) = page.calls.iter().rfind(is_it) {
            return source_map::first_own(&folder.path, &thrown_at(call)?);
        }
        sleep(POLL_EVERY).await;
    }
    None
}
