//! `tools/call`: the same call as over HTTP, in MCP's wrapping.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use axum::http::request::Parts;
use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{CallToolResponse, JsonObject, MetaObject, ProgressNotificationParam, ProgressToken, RequestId as MessageId},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, interval_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    answer::{self, Told},
    cancel::{Held, Session},
    offer::{Dialect, offer},
    own,
    server::Front,
    tasks::{Started, joined},
    tools::Narrowed,
};
use crate::{
    base::{
        aside::{Bulk, aside},
        id::RequestId,
    },
    call::{Call, CallError, CalledBy, Done, Input, Progress, RequestHead},
    catalog::Live,
    front::{Code, Fault},
    http::{called, limit_credit, network, peer, wrong_credential},
    money::Offered,
};

/// Messages that wait for a slow reader; further ones are left out.
const BUFFER: usize = 64;

/// Which call is wanted, and by whom, whichever way it came in.
pub(super) struct Asked<'a> {
    /// The request's own.
    pub(super) id: &'a MessageId,
    pub(super) name: &'a str,
    pub(super) meta: &'a MetaObject,
    pub(super) parts: &'a Parts,
    pub(super) era: Era,
    /// Whether a long-running call may be answered with a task.
    pub(super) takes_tasks: bool,
    /// Who is told of progress, if anybody.
    pub(super) hearer: Option<Hearer<'a>>,
    /// Cancelled when the caller is gone. `None` where the future is dropped then.
    pub(super) gone: Option<&'a CancellationToken>,
}

/// What a closed connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// Before 2026-07-28: nothing.
    Legacy,
    /// That the call is taken back.
    Modern,
}

/// Who gave a token for a call's progress.
pub(super) struct Hearer<'a> {
    pub(super) peer: &'a Peer<RoleServer>,
    pub(super) token: ProgressToken,
}

/// How a call is told to the log.
struct Ending {
    outcome: &'static str,
    charged: &'static str,
}

/// The caller closed the connection: in the older revisions the call goes on, and even in the newest it may be settling.
const GONE: Ending = Ending { outcome: "cancelled", charged: "unknown" };

/// A call's line in the log: written when the call ends, or when its caller goes before.
struct Line<'a> {
    asked: &'a Asked<'a>,
    address: IpAddr,
    begun: Instant,
    ending: Ending,
}

impl<'a> Line<'a> {
    fn begin(asked: &'a Asked<'a>, address: IpAddr) -> Self {
        Self { asked, address, begun: Instant::now(), ending: GONE }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let name = self.asked.name;
        tracing::info!(
            request.id = %self.asked.parts.extensions.get::<RequestId>().map(RequestId::as_str).unwrap_or_default(),
            caller.address = %self.address,
            tool.name = %name.get(..64).unwrap_or(name),
            outcome = self.ending.outcome,
            charged = self.ending.charged,
            elapsed_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            "a tool was called over MCP"
        );
    }
}

/// Performs a call. Must run where [`crate::front::REQUEST`] is set.
///
/// # Errors
///
/// See [`answer::failed`].
pub(super) async fn perform(front: &Arc<Front>, asked: Asked<'_>, arguments: JsonObject) -> Result<Told, ErrorData> {
    let address = peer(&asked.parts.extensions);
    let mut line = Line::begin(&asked, address);
    let (mut told, ending) = answered(front, &asked, address, Bulk::new(Value::Object(arguments))).await;
    line.ending = ending;
    match told.as_mut().map(|told| &mut told.response) {
        Ok(CallToolResponse::Complete(result)) if asked.era == Era::Modern => front.sign(&mut result.meta),
        Ok(CallToolResponse::Task(result)) => front.sign(&mut result.meta),
        _ => {}
    }
    told
}

async fn answered(front: &Arc<Front>, asked: &Asked<'_>, address: IpAddr, arguments: Bulk) -> (Result<Told, ErrorData>, Ending) {
    let app = &front.app;
    let narrowed = Narrowed::of(asked.parts);
    let unpaid = Dialect::of(asked.era, asked.meta, &Offered::Nothing);
    if let Some(rate) = &app.mcp.rate
        && let Some(seconds) = rate.wait(&(address, asked.name.to_owned()))
    {
        let message = format!("more than {} calls per second of `{}` from your address", rate.per_second(), asked.name);
        return refused(Fault::new(Code::RateLimited, message).hint(format!("try again in {seconds} s")), unpaid);
    }
    if let Some(answered) = own::perform(app, address, &narrowed, asked.name, &arguments).await {
        let ending = Ending { outcome: answered.as_ref().map_or_else(|fault| fault.code().row().name, |_| "ok"), charged: "no" };
        return (Ok(answered.unwrap_or_else(|fault| answer::refused(&fault)).into()), ending);
    }
    let found = if narrowed.has(asked.name) {
        called(app, &asked.parts.headers, &app.mcp.slug_of(asked.name)).await
    } else {
        Err(Fault::unknown_endpoint(asked.name))
    };
    let (live, by) = match found {
        Ok(found) => found,
        Err(error) => {
            wrong_credential(app, address, &error);
            return refused(error, unpaid);
        }
    };
    let offered = match limit_credit(app, address, offer(asked.meta, &asked.parts.headers)) {
        Ok(offered) => offered,
        Err(error) => return refused(error, unpaid),
    };
    let dialect = Dialect::of(asked.era, asked.meta, &offered);
    if matches!(offered, Offered::Nothing) && by == CalledBy::Anyone && !live.endpoint.price_usd.is_zero() {
        return refused(Fault::from(app.calls.unpaid(&live.terms)), dialect);
    }
    let head = head(&live, asked);
    let call =
        Call { live: Arc::clone(&live), by, input: Input::Json(arguments.take()), offered, head, from: network(address), progress: None };
    let ended = if asked.takes_tasks && live.endpoint.long_running(app.long_running_ms) {
        match Box::pin(front.tasks.start(app, call, dialect)).await {
            Ok(Started::Task(task)) => return (Ok(task), Ending { outcome: "task", charged: "no" }),
            Ok(Started::Ended(ended)) => ended,
            Err(error) => return refused(Fault::from(error), dialect),
        }
    } else {
        followed(front, call, asked).await
    };
    match ended {
        Ok(done) => {
            let ending = Ending { outcome: if done.success { "ok" } else { "tool_error" }, charged: charged(&done) };
            let told = aside(done.answer.body.len(), || answer::done(&done, &app.base_url, dialect)).await;
            (Ok(told), ending)
        }
        Err(error) => {
            let (told, ending) = refused(Fault::from(&*error), dialect);
            (told, if matches!(*error, CallError::Cancelled) { GONE } else { ending })
        }
    }
}

fn charged(done: &Done) -> &'static str {
    if done.payment.is_some() && done.success { "yes" } else { "no" }
}

fn refused(fault: Fault, dialect: Dialect) -> (Result<Told, ErrorData>, Ending) {
    let row = fault.code().row();
    let ending = Ending { outcome: row.name, charged: row.charged.as_str() };
    (answer::failed(&fault, dialect).map(Told::from), ending)
}

/// Performs `call`, and tells what happens on the way to a client that gave a token for it.
///
/// In 2026-07-28 a client takes back its request by closing the connection: the call is then stopped if its payment is
/// not being settled yet. In older revisions a broken connection is no more than that: the call goes on to its end, unless
/// `notifications/cancelled` takes it back.
async fn followed(front: &Front, call: Call, asked: &Asked<'_>) -> Result<Done, Arc<CallError>> {
    let session = if asked.era == Era::Legacy { Session::of(&asked.parts.headers) } else { None };
    let held = session.and_then(|session| front.cancellable.hold(session, asked.id));
    let cancel = held.as_ref().map_or_else(CancellationToken::new, |held| held.cancel.clone());
    let _stop = (asked.era == Era::Modern).then(|| cancel.clone().drop_guard());
    let ended = async {
        match &asked.hearer {
            Some(hearer) => Box::pin(told(front, call, hearer, cancel.clone(), held)).await,
            None if held.is_some() => joined(begun(front, call, cancel.clone(), held).await),
            None => Box::pin(front.app.calls.perform_until(call, cancel.clone())).await,
        }
    };
    let Some(gone) = asked.gone else { return ended.await };
    tokio::select! {
        biased;
        ended = ended => ended,
        () = gone.cancelled() => Err(Arc::new(CallError::Cancelled)),
    }
}

/// Performs `call` on a task of its own, which keeps to its end what the call is taken back by.
fn begun(front: &Front, call: Call, cancel: CancellationToken, held: Option<Held>) -> JoinHandle<Result<Done, Arc<CallError>>> {
    let app = Arc::clone(&front.app);
    tokio::spawn(async move {
        let ended = app.calls.perform_until(call, cancel).await;
        drop(held);
        ended
    })
}

/// Performs `call`, and tells `hearer` what its handler says and, now and then, that it runs.
async fn told(
    front: &Front,
    mut call: Call,
    hearer: &Hearer<'_>,
    cancel: CancellationToken,
    held: Option<Held>,
) -> Result<Done, Arc<CallError>> {
    let (progress, mut happened) = mpsc::channel(BUFFER);
    call.progress = Some(progress);
    let every = front.app.mcp.progress;
    let mut told = Teller { hearer, scale: None, last: f64::NEG_INFINITY, begun: Instant::now() };
    let mut beat = interval_at(told.begun + every, every);
    // On a task of its own: a client that reads slowly must not slow the call.
    let mut performing = begun(front, call, cancel, held);
    loop {
        tokio::select! {
            biased;
            Some(progress) = happened.recv() => {
                if let Progress::Update(heard) = progress {
                    told.tell(heard.message, heard.fraction).await;
                }
            }
            ended = &mut performing => return joined(ended),
            _ = beat.tick() => told.tell("running".to_owned(), None).await,
        }
    }
}

/// Sends `notifications/progress`.
struct Teller<'a> {
    hearer: &'a Hearer<'a>,
    /// As the first message has it.
    scale: Option<Scale>,
    last: f64,
    begun: Instant,
}

/// What the progress of a call counts. One for the whole call: it must rise from message to message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// The handler's fractions, of a total of 1.
    Fractions,
    /// Seconds; of as many as a fraction lets expect, where the handler gives one.
    Seconds,
}

/// By how much progress rises at least.
const STEP: f64 = 1e-6;

impl Teller<'_> {
    async fn tell(&mut self, message: String, fraction: Option<f64>) {
        let scale = *self.scale.get_or_insert(if fraction.is_some() { Scale::Fractions } else { Scale::Seconds });
        let (progress, total) = match scale {
            Scale::Fractions => (fraction.unwrap_or(0.0), Some(1.0)),
            Scale::Seconds => {
                let elapsed = (self.begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
                (elapsed, fraction.filter(|fraction| *fraction > 0.0).map(|fraction| elapsed / fraction))
            }
        };
        self.last = progress.max(self.last + STEP);
        let mut told = ProgressNotificationParam::new(self.hearer.token.clone(), self.last).with_message(message);
        told.total = total;
        // A reader that has gone does not stop the call: the payment may be settling.
        _ = self.hearer.peer.notify_progress(told).await;
    }
}

/// What the handler knows of the request: the same as over HTTP, so that it need not know of MCP.
fn head(live: &Live, asked: &Asked<'_>) -> RequestHead {
    let traced = |name: &str| asked.meta.get(name).and_then(Value::as_str).map(str::to_owned);
    let given = |name: &str| asked.parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let header = |name: &&'static str| {
        let value = match *name {
            "traceparent" | "tracestate" => traced(name).or_else(|| given(name)),
            // These speak of JSON-RPC, not of the input.
            "accept" | "content-type" => Some("application/json".to_owned()),
            _ => given(name),
        };
        value.map(|value| (*name, value))
    };
    RequestHead {
        method: "POST",
        url: live.terms.resource_url.clone(),
        path: format!("/tools/{}", live.endpoint.slug),
        query: BTreeMap::new(),
        headers: RequestHead::HEADERS.iter().filter_map(header).collect(),
    }
}
