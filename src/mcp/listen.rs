//! `subscriptions/listen` of 2026-07-28: streams that report changes of the tool list.
//!
//! A stream costs two messages, serialized once, and a slot among the streams of its address, all streams and all
//! connections.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use rmcp::model::{RequestId, SubscriptionsListenResult};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tollhouse_front::{ApiError, Code, Places, peer};
use tollhouse_telemetry::counters::MCP_REQUESTS;

use super::{
    accepted_forms::AcceptedForms,
    cancel::{MAX_ID, is_long},
    fast_path::agreed,
    front::McpFront,
    message::{LISTEN, Message},
    refusal::of_message,
    revision::{Era, era},
};

/// The key in a message's `_meta` of the request id that its stream answers.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Interval of comments on a silent stream, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The hint for a client that found no slot.
const CROWDED: &str = "Close one, or request the list of tools from time to time";

/// Answers a fully valid listen request. Returns `None` for anything else.
pub(super) fn answer(front: &McpFront, parts: &Parts, accepted: AcceptedForms, message: &Message<'_>) -> Option<Response> {
    let headers = &parts.headers;
    if era(headers) != Some(Era::Modern) {
        return None;
    }
    let (id, params) = (message.id.clone()?, &message.params);
    agreed(Era::Modern, headers, &params.meta, LISTEN)?;
    MCP_REQUESTS.count([LISTEN]);
    if is_long(&id) {
        let message = format!("the id of a request to listen must have at most {MAX_ID} bytes");
        return Some(of_message(None, ApiError::bad_request(message)));
    }
    if accepted == AcceptedForms::JsonOnly {
        let fault =
            ApiError::new(Code::NotAcceptable, format!("`{LISTEN}` is answered with `text/event-stream`, but `Accept` does not list it"));
        return Some(of_message(Some(id), fault));
    }
    let shared = &front.services.shared;
    let permits =
        match Places::take(front.listeners.slots(), &shared.intake, peer(&parts.extensions), "streams for `subscriptions/listen`", CROWDED)
        {
            Ok(permits) => permits,
            Err(fault) => return Some(of_message(Some(id), fault)),
        };
    let tools = params.notifications.tools_list_changed == Some(true);
    let changed = tools.then(|| front.listeners.follow());
    let listening = ListenStream::new(&id, changed, shared.shutdown.token(), permits);
    let events = stream::unfold(listening, |mut listening| async {
        let event = listening.next().await?;
        Some((Ok::<_, Infallible>(event), listening))
    });
    let mut response = Body::from_stream(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Some(response)
}

/// An open stream.
struct ListenStream {
    /// The acknowledgment, until it is sent.
    acknowledgment: Option<Bytes>,
    changed: Option<watch::Receiver<()>>,
    change_event: Bytes,
    /// The result, until it is sent at shutdown.
    result: Option<Bytes>,
    shutdown: CancellationToken,
    _permits: Places,
}

impl ListenStream {
    fn new(id: &RequestId, changed: Option<watch::Receiver<()>>, shutdown: CancellationToken, permits: Places) -> Self {
        let honored = if changed.is_some() { json!({ "toolsListChanged": true }) } else { json!({}) };
        let meta = json!({ SUBSCRIPTION: id });
        let notification = |method: &str, params: Value| event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        let acknowledged = json!({ "notifications": honored, "_meta": meta });
        let result = SubscriptionsListenResult::complete(id.clone());
        Self {
            acknowledgment: Some(notification("notifications/subscriptions/acknowledged", acknowledged)),
            changed,
            change_event: notification("notifications/tools/list_changed", json!({ "_meta": meta })),
            result: Some(event(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))),
            shutdown,
            _permits: permits,
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(acknowledgment) = self.acknowledgment.take() {
            return Some(acknowledgment);
        }
        // After the result, the stream is over.
        self.result.as_ref()?;
        let changed = async {
            match &mut self.changed {
                Some(changed) => changed.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => self.result.take(),
            changes = changed => if changes { Some(self.change_event.clone()) } else { self.result.take() },
            () = sleep(KEEP_ALIVE) => Some(Bytes::from_static(b":\n\n")),
        }
    }
}

fn event(message: &Value) -> Bytes {
    Bytes::from(format!("data: {message}\n\n"))
}
