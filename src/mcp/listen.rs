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
use tollhouse_base::aside::aside;
use tollhouse_front::{Code, Fault, Places, peer};
use tollhouse_telemetry::counted::MCP_REQUESTS;

use super::{
    accept::Accepted,
    cancel::{MAX_ID, is_long},
    direct::agreed,
    front::Front,
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
    notifications: Wanted,
    #[serde(rename = "_meta")]
    meta: JsonObject,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    tools_list_changed: Option<bool>,
}

/// Answers a fully valid listen request. Returns `None` for anything else.
pub(super) async fn answer(front: &Front, parts: &Parts, accepted: Accepted, body: &[u8]) -> Option<Response> {
    let headers = &parts.headers;
    if era(headers) != Some(Era::Modern) || sole(headers, "mcp-method") != Some(METHOD) || !is_json(headers) {
        return None;
    }
    let message = aside(body.len(), || serde_json::from_slice::<Message>(body).ok()).await?;
    let Message { id, params: Params { notifications, meta }, .. } =
        Some(message).filter(|message| message.jsonrpc == "2.0" && message.method == METHOD)?;
    agreed(Era::Modern, headers, &meta, METHOD)?;
    MCP_REQUESTS.count([METHOD]);
    if is_long(&id) {
        let message = format!("the id of a request to listen has at most {MAX_ID} bytes");
        return Some(of_message(None, Fault::bad_request(message)));
    }
    if accepted == Accepted::JsonOnly {
        let fault = Fault::new(Code::NotAcceptable, format!("`{METHOD}` is answered with `text/event-stream`, which `Accept` leaves out"));
        return Some(of_message(Some(id), fault));
    }
    let shared = &front.services.shared;
    let (streams, address) = (front.listeners.places(), peer(&parts.extensions));
    let places = match Places::take(streams, &shared.intake, address, "streams that listen", CROWDED) {
        Ok(places) => places,
        Err(fault) => return Some(of_message(Some(id), fault)),
    };
    let tools = notifications.tools_list_changed == Some(true);
    let changed = tools.then(|| front.listeners.follow());
    let listening = Listening::new(&id, changed, shared.shutdown.token(), places);
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
struct Listening {
    begins: Option<Bytes>,
    changed: Option<watch::Receiver<()>>,
    told: Bytes,
    ends: Option<Bytes>,
    ending: CancellationToken,
    _places: Places,
}

impl Listening {
    fn new(id: &RequestId, changed: Option<watch::Receiver<()>>, ending: CancellationToken, places: Places) -> Self {
        let honoured = if changed.is_some() { json!({ "toolsListChanged": true }) } else { json!({}) };
        let meta = json!({ SUBSCRIPTION: id });
        let notification = |method: &str, params: Value| event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        let acknowledged = json!({ "notifications": honoured, "_meta": meta });
        let result = SubscriptionsListenResult::complete(id.clone());
        Self {
            begins: Some(notification("notifications/subscriptions/acknowledged", acknowledged)),
            changed,
            told: notification("notifications/tools/list_changed", json!({ "_meta": meta })),
            ends: Some(event(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))),
            ending,
            _places: places,
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
            changes = changed => if changes { Some(self.told.clone()) } else { self.ends.take() },
            () = sleep(KEEP_ALIVE) => Some(Bytes::from_static(b":\n\n")),
        }
    }
}

fn event(message: &Value) -> Bytes {
    Bytes::from(format!("data: {message}\n\n"))
}
