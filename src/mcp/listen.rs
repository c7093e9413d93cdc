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
use rmcp::model::{JsonObject, RequestId, SubscriptionsListenResult};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tollhouse_base::offload::run_blocking;
use tollhouse_front::{ApiError, Code, Places, peer};
use tollhouse_telemetry::counters::MCP_REQUESTS;

use super::{
    accepted_forms::AcceptedForms,
    cancel::{MAX_ID, is_long},
    fast_path::agreed,
    front::McpFront,
    refusal::of_message,
    revision::{Era, era, is_json, sole},
};

const METHOD: &str = "subscriptions/listen";

/// The key in a message's `_meta` of the request id that its stream answers.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Interval of comments on a silent stream, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The hint for a client that found no slot.
const CROWDED: &str = "close one, or ask for the list of tools now and then";

#[derive(Deserialize)]
struct Message {
    jsonrpc: String,
    id: RequestId,
    method: String,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    notifications: ListenFilter,
    #[serde(rename = "_meta")]
    meta: JsonObject,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListenFilter {
    tools_list_changed: Option<bool>,
}

/// Answers a fully valid listen request. Returns `None` for anything else.
pub(super) async fn answer(front: &McpFront, parts: &Parts, accepted: AcceptedForms, body: &[u8]) -> Option<Response> {
    let headers = &parts.headers;
    if era(headers) != Some(Era::Modern) || sole(headers, "mcp-method") != Some(METHOD) || !is_json(headers) {
        return None;
    }
    let message = run_blocking(body.len(), || serde_json::from_slice::<Message>(body).ok()).await?;
    let Message { id, params: Params { notifications, meta }, .. } =
        Some(message).filter(|message| message.jsonrpc == "2.0" && message.method == METHOD)?;
    agreed(Era::Modern, headers, &meta, METHOD)?;
    MCP_REQUESTS.count([METHOD]);
    if is_long(&id) {
        let message = format!("the id of a request to listen has at most {MAX_ID} bytes");
        return Some(of_message(None, ApiError::bad_request(message)));
    }
    if accepted == AcceptedForms::JsonOnly {
        let fault =
            ApiError::new(Code::NotAcceptable, format!("`{METHOD}` is answered with `text/event-stream`, which `Accept` leaves out"));
        return Some(of_message(Some(id), fault));
    }
    let shared = &front.services.shared;
    let (streams, address) = (front.listeners.places(), peer(&parts.extensions));
    let permits = match Places::take(streams, &shared.intake, address, "streams that listen", CROWDED) {
        Ok(permits) => permits,
        Err(fault) => return Some(of_message(Some(id), fault)),
    };
    let tools = notifications.tools_list_changed == Some(true);
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
    begins: Option<Bytes>,
    changed: Option<watch::Receiver<()>>,
    announced: Bytes,
    ends: Option<Bytes>,
    ending: CancellationToken,
    _places: Places,
}

impl ListenStream {
    fn new(id: &RequestId, changed: Option<watch::Receiver<()>>, ending: CancellationToken, permits: Places) -> Self {
        let honored = if changed.is_some() { json!({ "toolsListChanged": true }) } else { json!({}) };
        let meta = json!({ SUBSCRIPTION: id });
        let notification = |method: &str, params: Value| event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        let acknowledged = json!({ "notifications": honored, "_meta": meta });
        let result = SubscriptionsListenResult::complete(id.clone());
        Self {
            begins: Some(notification("notifications/subscriptions/acknowledged", acknowledged)),
            changed,
            announced: notification("notifications/tools/list_changed", json!({ "_meta": meta })),
            ends: Some(event(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))),
            ending,
            _places: permits,
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(begins) = self.begins.take() {
            return Some(begins);
        }
        // After the message about the shutdown, the stream is over.
        self.ends.as_ref()?;
        let changed = async {
            match &mut self.changed {
                Some(changed) => changed.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.ending.cancelled() => self.ends.take(),
            changes = changed => if changes { Some(self.announced.clone()) } else { self.ends.take() },
            () = sleep(KEEP_ALIVE) => Some(Bytes::from_static(b":\n\n")),
        }
    }
}

fn event(message: &Value) -> Bytes {
    Bytes::from(format!("data: {message}\n\n"))
}
