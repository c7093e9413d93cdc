//! Finds where a handler threw an error, for the tool's manager in its folder. The payer gets only the message.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tollhouse_base::id::{CallId, RequestId};

use crate::{
    base::{
        address::same_place,
        client::CredentialChoice,
        error::Error,
        session::Session,
        text::{list, text},
    },
    logs::thrown_at,
    tool::{position::FilePosition, source_map},
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
        let page = asking.send().await.ok()?.body;
        let is_it = |call: &&Value| {
            // The record contains a shortened message.
            let words = text(call, "error").trim_end_matches('…');
            let after = text(call, "callId").parse::<CallId>().is_ok_and(|id| id.made_at() >= started);
            after && !words.is_empty() && error.message.starts_with(words)
        };
        // The newest come first.
        if let Some(call) = list(&page, "calls").filter(is_it).last() {
            return source_map::first_own(&folder.path, &thrown_at(call)?);
        }
        sleep(POLL_EVERY).await;
    }
    None
}
