//! `tools/call`: the same call as over HTTP, in MCP's wrapping.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::ConnectInfo,
    http::{StatusCode, request::Parts},
};
use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ProgressNotificationParam, ProgressToken, ProtocolVersion},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    answer,
    offer::offer,
    own,
    server::{Front, narrowed},
    tasks::Started,
    transport::JsonOnly,
};
use crate::{
    call::{Call, CallError, Done, Input, Progress, RequestHead},
    catalog::Live,
    http::{ApiError, REQUEST, limit_credit},
    id::RequestId,
    payment::{Offered, WireVersion},
};

/// Log lines that wait for a slow reader; further ones are left out.
const BUFFER: usize = 64;

/// Who asks, and by which request.
struct Asked {
    id: RequestId,
    address: IpAddr,
    parts: Arc<Parts>,
}

/// How a call is told to the audit.
struct Told {
    outcome: &'static str,
    charged: &'static str,
}

pub(super) async fn perform(
    front: &Arc<Front>,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let asked = asked(&context);
    let begun = Instant::now();
    let name = request.name.to_string();
    let (id, address) = (asked.id.clone(), asked.address);
    let (response, told) = REQUEST.scope(id.clone(), answered(front, request, context, asked)).await;
    let elapsed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        request.id = %id,
        caller.address = %address,
        tool.name = %name.get(..64).unwrap_or(&name),
        outcome = told.outcome,
        charged = told.charged,
        elapsed_ms = elapsed,
        "a tool was called over MCP"
    );
    response
}

fn asked(context: &RequestContext<RoleServer>) -> Asked {
    let parts = context.extensions.get::<Parts>().cloned();
    let parts = Arc::new(parts.unwrap_or_else(|| axum::http::Request::new(()).into_parts().0));
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip().to_canonical());
    let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
    Asked { id, address, parts }
}

async fn answered(
    front: &Arc<Front>,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    asked: Asked,
) -> (Result<CallToolResponse, ErrorData>, Told) {
    let app = &front.app;
    let arguments = request.arguments.unwrap_or_default();
    let narrowed = narrowed(&context);
    if let Some(rate) = &app.mcp.rate
        && let Some(seconds) = rate.wait(&(asked.address, request.name.to_string()))
    {
        let message = format!("more than {} calls per second of `{}` from your address", rate.per_second(), request.name);
        return refused(
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).hint(format!("try again in {seconds} s")),
            None,
        );
    }
    if let Some(result) = own::perform(app, &narrowed, &request.name, &arguments).await {
        let told = Told { outcome: if result.is_error == Some(true) { "refused" } else { "ok" }, charged: "no" };
        return (Ok(result.into()), told);
    }
    let found = if narrowed.has(&request.name) {
        app.calls.find(&app.mcp.slug_of(&request.name))
    } else {
        Err(CallError::UnknownEndpoint(request.name.to_string()))
    };
    let live = match found {
        Ok(live) => live,
        Err(error) => return refused(ApiError::from_call(&error, |_| Default::default()), None),
    };
    let offered = offer(&context.meta, &asked.parts.headers);
    let paid_in = match &offered {
        Offered::X402 { version, .. } => Some(*version),
        Offered::Nothing | Offered::Credit(_) => None,
    };
    // Those in headers are counted where all requests come in.
    if let Offered::Credit(credit) = &offered
        && !asked.parts.headers.contains_key("x-developer-credit")
        && let Err(error) = limit_credit(app, asked.address, &credit.token).await
    {
        return refused(error, None);
    }
    if matches!(offered, Offered::Nothing) && !live.endpoint.price_usd.is_zero() {
        return refused(ApiError::challenge(app.gate.challenge(&live.terms, "payment required")), None);
    }
    let head = head(&live, &asked.parts, &context);
    let call = Call { live: Arc::clone(&live), input: Input::Json(Value::Object(arguments)), offered, head, progress: None };
    let takes_tasks = modern(&context) && context.client_capabilities().is_some_and(|client| client.supports_tasks());
    let ended = if takes_tasks && live.endpoint.long_running(app.long_running_ms) {
        match front.tasks.start(app, call, paid_in).await {
            Ok(Started::Task(task)) => return (Ok(task), Told { outcome: "task", charged: "no" }),
            Ok(Started::Ended(ended)) => ended,
            Err(error) => return refused(ApiError::from(error), paid_in),
        }
    } else {
        followed(front, call, &context).await
    };
    match ended {
        Ok(done) => {
            let told = Told { outcome: if done.success { "ok" } else { "tool_error" }, charged: charged(&done) };
            (Ok(answer::done(&done, &app.base_url).into()), told)
        }
        Err(error) => refused(ApiError::from_call(&error, |reason| app.gate.challenge(&live.terms, reason)), paid_in),
    }
}

fn charged(done: &Done) -> &'static str {
    if done.payment.is_some() && done.success { "yes" } else { "no" }
}

fn refused(error: ApiError, paid_in: Option<WireVersion>) -> (Result<CallToolResponse, ErrorData>, Told) {
    let told = Told { outcome: error.code(), charged: error.charged() };
    (answer::failed(error, paid_in).map(CallToolResult::into), told)
}

/// Performs `call`, and tells what happens on the way to a client that gave a token for it.
///
/// In 2026-07-28 a client takes back its request by closing the connection: the call is then stopped if its payment is
/// not being settled yet. In older revisions a broken connection is no more than that, and the call goes on.
async fn followed(front: &Front, mut call: Call, context: &RequestContext<RoleServer>) -> Result<Done, Arc<CallError>> {
    let cancel = CancellationToken::new();
    let _stop = (modern(context)).then(|| cancel.clone().drop_guard());
    let streams = context.extensions.get::<Parts>().is_none_or(|parts| parts.extensions.get::<JsonOnly>().is_none());
    let Some(token) = context.meta.get_progress_token().filter(|_| streams) else {
        let performing = front.app.calls.perform_until(call, cancel.clone());
        tokio::select! {
            ended = performing => return ended,
            () = context.ct.cancelled() => return Err(Arc::new(CallError::Cancelled)),
        }
    };
    let (progress, mut happened) = mpsc::channel(BUFFER);
    call.progress = Some(progress);
    let every = front.app.mcp.progress;
    let mut told = Teller { peer: &context.peer, token, last: 0.0, begun: Instant::now() };
    let mut beat = interval_at(told.begun + every, every);
    // On a task of its own: a client that reads slowly must not slow the call.
    let app = Arc::clone(&front.app);
    let mut performing = tokio::spawn(async move { app.calls.perform_until(call, cancel).await });
    loop {
        tokio::select! {
            biased;
            Some(progress) = happened.recv() => {
                if let Progress::Log(line) = progress {
                    told.tell(line.message).await;
                }
            }
            ended = &mut performing => return ended.unwrap_or_else(|_| Err(Arc::new(CallError::Internal))),
            _ = beat.tick() => told.tell("running".to_owned()).await,
            () = context.ct.cancelled() => return Err(Arc::new(CallError::Cancelled)),
        }
    }
}

/// Sends `notifications/progress`.
struct Teller<'a> {
    peer: &'a Peer<RoleServer>,
    token: ProgressToken,
    last: f64,
    begun: Instant,
}

impl Teller<'_> {
    /// The progress is the time in seconds, which rises; there is no total.
    async fn tell(&mut self, message: String) {
        let elapsed = self.begun.elapsed().max(Duration::from_millis(1)).as_secs_f64();
        self.last = if elapsed > self.last { elapsed } else { self.last + 0.001 };
        let told = ProgressNotificationParam::new(self.token.clone(), (self.last * 1e3).round() / 1e3).with_message(message);
        // A reader that has gone does not stop the call: the payment may be settling.
        _ = self.peer.notify_progress(told).await;
    }
}

pub(super) fn modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// What the handler knows of the request: the same as over HTTP, so that it need not know of MCP.
fn head(live: &Live, parts: &Parts, context: &RequestContext<RoleServer>) -> RequestHead {
    let traced = |name: &str| context.meta.get(name).and_then(Value::as_str).map(str::to_owned);
    let given = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let header = |name: &&'static str| {
        let value = match *name {
            "traceparent" | "tracestate" => traced(name).or_else(|| given(name)),
            // These speak of JSON-RPC, not of the input.
            "accept" | "content-type" => Some("application/json".to_owned()),
            _ => given(name),
        };
        value.map(|value| ((*name).to_owned(), value))
    };
    RequestHead {
        method: "POST",
        url: live.terms.resource_url.clone(),
        path: format!("/tools/{}", live.endpoint.slug),
        query: json!({}),
        headers: RequestHead::HEADERS.iter().filter_map(header).collect(),
    }
}
