//! `POST /ai/invoke`: calls a tool by slug, and returns the result and the receipt together.

use std::{net::SocketAddr, sync::Arc};

use axum::extract::ConnectInfo;
use bytes::Bytes;
use serde::de::IgnoredAny;
use tollhouse_api::InvokeRequest;
use tollhouse_call::{Call, CalledBy, CompletedCall, Input, ReplayRequest, bodiless};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_front::{
    ApiError, Code,
    body::{self, VerbatimJson},
    bought, network, offered, quote, sse,
};
use tollhouse_money::EntryMethod;
use tollhouse_protocol::limits::Limits;

use crate::{
    Answer, Http, IntoResponse as _, Parts, Request, Route, Services, State, StatusCode, header,
    invoke_response::{ResponseStyle, invoke_response_json},
    open, reply, stream, tools,
};

pub(super) fn routes() -> Vec<Route> {
    let invoke = open::post("/ai/invoke", "invokeTool", "calls a tool by its slug; returns the result and the receipt", invoke);
    let invoke = invoke.reads_headers(tools::OF_PAYERS).takes("InvokeRequest").answers("InvokeResponse").streams().for_agents();
    vec![invoke.fails(tools::OF_PAYMENTS).fails(tools::OF_CALLS).fails(&[Code::InvalidMember, Code::StreamingRequired])]
}

/// Maximum body, in bytes: the largest input of a tool, plus the fields around it.
const MAX_BYTES: usize = Limits::ceilings().input_bytes as usize + (16 << 10);

async fn invoke(State(http): State<Http>, ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    body::check_call(&parts.headers)?;
    let text = body::read(&http.shared.intake, peer.ip(), &parts.headers, body, MAX_BYTES).await?;
    let InvokeRequest { slug, input, quote_id, stream } =
        body::verbatim::<InvokeRequest<VerbatimJson>, InvokeRequest<IgnoredAny>>(&text, Code::InvalidMember).await?;
    let quote = named(quote_id, quote(&parts.headers))?;
    let streamed = stream || sse::requested(&parts.headers);
    let limits = &http.shared.limits;
    let offered = limits.observed(limits.sender(peer.ip(), &parts.headers), offered(&parts.headers));
    let input = Input::Body(input.map(Bytes::from).unwrap_or_default());
    let (live, by, streamed) = match called(&http, &parts, &slug, streamed).await {
        Ok(called) => called,
        Err(refused) => {
            let query = ReplayRequest { slug: &slug, method: "POST", query: parts.uri.query(), input, offered, from: network(peer.ip()) };
            let performing = bought(&http.calls, refused, query).await?;
            return if streamed { Ok(stream::bought(http, performing)) } else { with_receipt(&http, &performing.await?).await };
        }
    };
    let head = tools::request_head(&http, &live.endpoint, ("POST", &parts.uri), vec![], &parts.headers);
    let call = Call {
        live,
        by,
        entry_method: EntryMethod::Post,
        input,
        offered,
        quote,
        head,
        from: network(peer.ip()),
        progress: None,
        stream: None,
    };
    // A call may wait for long.
    drop(parts);
    if streamed {
        return Ok(stream::events(http, call));
    }
    with_receipt(&http, &http.calls.perform(call).await?).await
}

/// Returns the quote id from the body or the header. If both have one, they must be the same.
fn named(member: Option<String>, header: Option<String>) -> Result<Option<String>, ApiError> {
    match (member, header) {
        (Some(member), Some(header)) if member != header => Err(ApiError::bad_request("`quoteId` and `X-Quote-Id` name different quotes")),
        (member, header) => Ok(member.or(header)),
    }
}

/// Finds the tool, and decides whether its answer is streamed. A long-running tool must be streamed, which the caller
/// has to accept.
async fn called(http: &Services, parts: &Parts, slug: &str, streamed: bool) -> Result<(Arc<LiveEndpoint>, CalledBy, bool), ApiError> {
    let (live, by) = http.shared.callers.called(&http.calls, &parts.headers, &parts.extensions, slug).await?;
    let streamed = streamed || sse::accepts(&parts.headers) && live.endpoint.long_running(http.long_running_ms);
    if !streamed && live.endpoint.long_running(http.long_running_ms) {
        let message = format!("`{slug}` can run for {} ms, so its answer is streamed", live.endpoint.limits.wall_ms);
        return Err(ApiError::new(Code::StreamingRequired, message).hint("Send `\"stream\": true` or `Accept: text/event-stream`"));
    }
    Ok((live, by, streamed))
}

async fn with_receipt(http: &Services, done: &CompletedCall) -> Answer {
    let status = done.answer.status;
    let status = if bodiless(status) { StatusCode::OK } else { StatusCode::from_u16(status).unwrap_or(StatusCode::OK) };
    let body = invoke_response_json(http, done, ResponseStyle::Plain).await?;
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    reply::mark(&mut response, done);
    Ok(response)
}
