//! `POST /ai/invoke`: a call by its slug, answered with result and receipt together.

use std::{borrow::Cow, collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tollhouse_protocol::limits::Limits;

use super::{address::network, auth::called, body, failures::witnessed, offered::offered, reply, stream, tools};
use crate::{
    app::App,
    base::{
        aside::aside,
        misfit::{self, Misfit},
    },
    call::{Call, Content, Done, Input, bodiless, chosen_headers},
    front::{Code, Fault},
    money::PaymentId,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Invoke<I> {
    slug: String,
    /// Default: `{}`.
    input: Option<I>,
    /// Answers with Server-Sent Events; long-running services want it.
    #[serde(default)]
    stream: bool,
}

/// Largest body, in bytes: the largest input that a tool may take, and what stands around it.
const MOST_BYTES: usize = Limits::ceilings().input_bytes as usize + (16 << 10);

pub(super) async fn invoke(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    body::check_json(&parts.headers)?;
    let text = body::read(&app, peer.ip(), body, MOST_BYTES).await?;
    let Invoke { slug, input, stream } = read(&text).await?;
    let (live, by) = called(&app, &parts.headers, &slug).await?;
    let streamed = stream || tools::wants_events(&parts.headers);
    if !streamed && live.endpoint.long_running(app.long_running_ms) {
        let message = format!("`{slug}` may run for {} ms: its answer is streamed", live.endpoint.limits.wall_ms);
        return Err(Fault::new(Code::StreamingRequired, message).hint("send `\"stream\": true` or `Accept: text/event-stream`"));
    }
    let head = tools::request_head(&app, "POST", &parts.uri, vec![], &parts.headers);
    let offered = witnessed(&app, peer.ip(), offered(&parts.headers));
    let input = Input::Body(input.map(|input| Bytes::from(Box::<str>::from(input).into_string())).unwrap_or_default());
    let call = Call { live, by, input, offered, head, from: network(peer.ip()), progress: None };
    if streamed {
        return Ok(stream::events(app, call));
    }
    with_receipt(&app, &app.calls.perform(call).await?).await
}

/// Reads the body. The input stays the text that it is; only what does not fit is read again, to be told in words.
async fn read(text: &Bytes) -> Result<Invoke<Box<RawValue>>, Fault> {
    if let Ok(invoke) = aside(text.len(), || serde_json::from_slice(text)).await {
        return Ok(invoke);
    }
    let value = body::json(text).await?;
    let misfit = aside(text.len(), || misfit::json::<Invoke<IgnoredAny>>(&value)).await.err();
    let Misfit { message, pointer } = misfit.ok_or_else(|| Fault::bad_request("the body does not fit"))?;
    Err(Fault::invalid(Code::InvalidMember, message, &pointer))
}

async fn with_receipt(app: &App, done: &Done) -> Result<Response, Fault> {
    let status = done.answer.status;
    let status = if bodiless(status) { StatusCode::OK } else { StatusCode::from_u16(status).unwrap_or(StatusCode::OK) };
    let body = invoked(app, done, Front::Plain).await?;
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    reply::mark(&mut response, done);
    Ok(response)
}

/// How the answer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Front {
    /// Beside HTTP's headers, which name payment and settlement.
    Plain,
    /// As an event, which has no headers.
    Stream,
}

/// An answer with its receipt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Invoked<'a> {
    ok: bool,
    /// As the handler chose it, where it is not 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, &'a str>,
    result: ResultBody<'a>,
    receipt: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<&'a PaymentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settlement: Option<Value>,
}

/// What `/tools` would give as its body.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ResultBody<'a> {
    /// The text that the handler gave: its numbers are not read on the way.
    Json(&'a RawValue),
    #[serde(rename_all = "camelCase")]
    Text {
        media_type: Cow<'a, str>,
        text: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    Bytes {
        media_type: Cow<'a, str>,
        base64: String,
    },
    Nothing,
}

impl<'a> From<Content<'a>> for ResultBody<'a> {
    fn from(content: Content<'a>) -> Self {
        match content {
            Content::Json { json, .. } => Self::Json(json),
            Content::Text { media_type, text } => Self::Text { media_type, text },
            Content::Bytes { media_type, bytes } => Self::Bytes { media_type, base64: STANDARD.encode(bytes) },
            Content::Nothing => Self::Nothing,
        }
    }
}

/// `{ok, status?, headers?, result, receipt}` as JSON: a result that is not JSON is `{mediaType, text}` or
/// `{mediaType, base64}`, and that of a status without a body is `null`.
pub(super) async fn invoked(app: &App, done: &Done, front: Front) -> Result<String, Fault> {
    let answer = &done.answer;
    let receipt = if answer.receipt_id.is_empty() { None } else { app.receipt(&answer.receipt_id).await? };
    let paid = done.payment.as_ref().filter(|_| front == Front::Stream);
    let settlement = || answer.settlement.as_ref().and_then(|settled| serde_json::from_str(&settled.body).ok()).unwrap_or_default();
    let invoked = Invoked {
        ok: done.success,
        status: Some(answer.status).filter(|status| *status != 200),
        headers: chosen_headers(answer),
        result: Content::of(answer).into(),
        receipt,
        payment_id: paid,
        settlement: paid.map(|_| settlement()),
    };
    Ok(serde_json::to_string(&invoked).expect("an answer has text keys"))
}
