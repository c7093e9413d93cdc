//! Where the handler of a call threw, for who manages the endpoint and is in its folder: the payer is told the words alone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cli::{
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

/// The error, with the place in the folder's own files where that is known. `own` says whether the call was of the host that is meant,
/// and `began` when.
pub(super) async fn placed(session: &Session, name: &str, own: bool, began: Instant, error: Error) -> Error {
    if !own || error.code() != "handler_failed" {
        return error;
    }
    let place = tokio::select! {
        place = found(session, name, began, &error.message) => place,
        _ = tokio::signal::ctrl_c() => None,
    };
    match place {
        Some(place) => error.more([format!("thrown at {place}")]),
        None => error,
    }
}

async fn found(session: &Session, name: &str, began: Instant, message: &str) -> Option<Place> {
    let folder = session.folder.as_ref()?;
    if folder.state.slug.as_str() != name || !same_place(&folder.state.host, session.client.base()) {
        return None;
    }
    session.client.credential(Who::Manager).ok()?;
    for _ in 0..LOOKS {
        let since = format!("{}s", began.elapsed().as_secs() + 1);
        let asking = session.client.get(&["ai", "endpoints", name, "calls"]).query("outcome", "handler_failed").query("since", since);
        let page = asking.send().await.ok()?.body;
        // The record has its words cut to a length.
        let same = |words: &str| !words.is_empty() && message.starts_with(words.trim_end_matches('…'));
        if let Some(call) = list(&page, "calls").find(|call| same(text(call, "error"))) {
            return map::first_own(&folder.path, &thrown_at(call)?);
        }
        sleep(LOOK_EVERY).await;
    }
    None
}
