//! `POST /ai/invoke`: a call by its slug, answered with result and receipt together.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json,
    extract::{ConnectInfo, State, rejection::JsonRejection},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{auth::called, error::ApiError, failures::witnessed, offered::offered, reply, stream, tools};
use crate::{
    app::App,
    call::{Call, Done, Input},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Invoke {
    slug: String,
    /// Default: `{}`.
    input: Option<Value>,
    /// Answers with Server-Sent Events; long-running services want it.
    #[serde(default)]
    stream: bool,
}

pub(super) async fn invoke(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Json<Invoke>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(Invoke { slug, input, stream }) = body?;
    let (live, by) = called(&app, &headers, &slug).await?;
    let streamed = stream || tools::wants_events(&headers);
    if !streamed && live.endpoint.long_running(app.long_running_ms) {
        let message = format!("`{slug}` may run for {} ms: its answer is streamed", live.endpoint.limits.wall_ms);
        return Err(ApiError::new(StatusCode::CONFLICT, "streaming_required", message)
            .hint("send `\"stream\": true` or `Accept: text/event-stream`"));
    }
    let head = tools::request_head(&app, "POST", &uri, vec![], &headers);
    let terms = Arc::clone(&live.terms);
    let offered = witnessed(&app, peer.ip(), offered(&headers));
    let call = Call { live, by, input: Input::Json(input.unwrap_or_else(|| json!({}))), offered, head, progress: None };
    if streamed {
        return Ok(stream::events(app, call));
    }
    match app.calls.perform(call).await {
        Ok(done) => with_receipt(&app, &done).await,
        Err(error) => Err(ApiError::from_call(&error, |reason| app.gate.challenge(&terms, reason))),
    }
}

async fn with_receipt(app: &App, done: &Done) -> Result<Response, ApiError> {
    let body = result_and_receipt(app, done).await?;
    let status = StatusCode::from_u16(done.answer.status).unwrap_or(StatusCode::OK);
    let mut response = (status, Json(body)).into_response();
    reply::mark(&mut response, done);
    Ok(response)
}

/// `{ok, result, receipt}`. A result that is not JSON is a string.
pub(super) async fn result_and_receipt(app: &App, done: &Done) -> Result<Value, ApiError> {
    let answer = &done.answer;
    // JSON passes as the bytes it is.
    let result = match std::str::from_utf8(&answer.body).ok().and_then(|text| RawValue::from_string(text.to_owned()).ok()) {
        Some(raw) => serde_json::to_value(raw).unwrap_or_default(),
        None => Value::String(String::from_utf8_lossy(&answer.body).into_owned()),
    };
    let receipt = if answer.receipt_id.is_empty() { None } else { app.receipt(&answer.receipt_id).await? };
    Ok(json!({ "ok": done.success, "result": result, "receipt": receipt }))
}
