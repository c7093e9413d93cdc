//! Where the handler of a call threw, for who manages the endpoint and is in its folder: the payer is told the words alone.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tollhouse_base::id::{CallId, RequestId};

use crate::{
    base::{
        address::same_place,
        client::Who,
        error::Error,
        session::Session,
        words::{list, text},
    },
    logs::thrown_at,
    tool::{map, place::Place},
};

/// How often the record of the call is looked for, and how long it is waited between two looks: it is written behind the answer.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The error, with the place in the folder's own files where that is known. `own` says whether the call was of the host that is meant.
pub(super) async fn placed(session: &Session, name: &str, own: bool, error: Error) -> Error {
    if !own || error.code() != "handler_failed" {
        return error;
    }
    let place = tokio::select! {
        place = found(session, name, &error) => place,
        _ = tokio::signal::ctrl_c() => None,
    };
    match place {
        Some(place) => error.more([format!("thrown at {place}")]),
        None => error,
    }
}

async fn found(session: &Session, name: &str, error: &Error) -> Option<Place> {
    let folder = session.folder.as_ref()?;
    if folder.state.slug.as_str() != name || !same_place(&folder.state.host, session.client.base()) {
        return None;
    }
    session.client.credential(Who::Manager).ok()?;
    // By the host's own clock: the call began once the request had come.
    let begun = error.request_id().parse::<RequestId>().ok()?.made_at();
    for _ in 0..LOOKS {
        let asking = session.client.get(&["ai", "endpoints", name, "calls"]).query("outcome", "handler_failed").query("since", begun);
        let page = asking.send().await.ok()?.body;
        let is_it = |call: &&Value| {
            // The record has its words cut to a length.
            let words = text(call, "error").trim_end_matches('…');
            let after = text(call, "callId").parse::<CallId>().is_ok_and(|id| id.made_at() >= begun);
            after && !words.is_empty() && error.message.starts_with(words)
        };
        // The newest come first.
        if let Some(call) = list(&page, "calls").filter(is_it).last() {
            return map::first_own(&folder.path, &thrown_at(call)?);
        }
        sleep(LOOK_EVERY).await;
    }
    None
}
