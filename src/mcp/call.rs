//! `tools/call`: the same calls as over HTTP, wrapped in MCP.
//!
//! Every call takes the same path, whether this crate or rmcp parsed it, and however its caller waits:
//!
//! ```text
//! perform ─▶ built-in tools
//!         └▶ admit: rate, find, payment ─▶ begin ─┬▶ task, unless the call ends soon ─┬▶ answer
//!                                                 └▶ wait for the end, with progress ─┘
//! ```

use std::{net::IpAddr, sync::Arc};

use rmcp::{ErrorData, model::CallToolResponse};
use tokio::time::Instant;
use tollhouse_base::{boxed, id::RequestId, offload::run_blocking, plural::plural};
use tollhouse_call::{Call, CallError, CompletedCall, ReplayRequest, RunningCall};
use tollhouse_front::{ApiError, Code, bought, network, peer};
use tollhouse_money::{EntryMethod, OfferedPayment};
use tollhouse_telemetry::counters::{MCP_CALLS, MCP_REQUESTS};

use super::{
    answer::{self, ToolAnswer},
    arguments::Arguments,
    builtin_tools,
    dialect::{Dialect, offer, quote},
    front::McpFront,
    message::CALL,
    names::{ToolName, shortened},
    request::CallRequest,
    revision::Era,
    services::Services,
    started_call::{CallEnd, StartedCall},
    tasks::TaskStart,
    tool_filter::ToolFilter,
};

/// The result of a call for the log.
struct CallSummary {
    outcome: &'static str,
    charged: &'static str,
}

/// The answer to a call, and its log result.
type Answered = (Result<ToolAnswer, ErrorData>, CallSummary);

/// The caller closed the connection. In older revisions the call continues, and even in the newest it may be settling.
const CALLER_GONE: CallSummary = CallSummary { outcome: "cancelled", charged: "unknown" };

/// Writes the log line of a call when the call ends or its caller disconnects.
struct LogLine<'a> {
    request: &'a CallRequest<'a>,
    address: IpAddr,
    started: Instant,
    summary: CallSummary,
}

impl<'a> LogLine<'a> {
    fn begin(request: &'a CallRequest<'a>, address: IpAddr) -> Self {
        Self { request, address, started: Instant::now(), summary: CALLER_GONE }
    }
}

impl Drop for LogLine<'_> {
    fn drop(&mut self) {
        MCP_CALLS.count(self.summary.outcome);
        let name = self.request.name;
        tracing::info!(
            request.id = %self.request.parts.extensions.get::<RequestId>().map(RequestId::as_str).unwrap_or_default(),
            caller.address = %self.address,
            tool.name = shortened(name),
            outcome = self.summary.outcome,
            charged = self.summary.charged,
            elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "a tool was called over MCP"
        );
    }
}

/// Performs a call. [`tollhouse_front::REQUEST`] must be set.
///
/// # Errors
///
/// See [`answer::failed`].
pub(super) async fn perform(front: &Arc<McpFront>, request: CallRequest<'_>, arguments: Arguments) -> Result<ToolAnswer, ErrorData> {
    let address = peer(&request.parts.extensions);
    MCP_REQUESTS.count([CALL]);
    let mut line = LogLine::begin(&request, address);
    let (mut answer, summary) = answered(front, &request, address, arguments).await;
    line.summary = summary;
    match answer.as_mut().map(|answer| &mut answer.response) {
        Ok(CallToolResponse::Complete(result)) if request.era == Era::Modern => front.sign(&mut result.meta),
        Ok(CallToolResponse::Task(result)) => front.sign(&mut result.meta),
        _ => {}
    }
    answer
}

#[boxed]
async fn answered(front: &McpFront, request: &CallRequest<'_>, address: IpAddr, arguments: Arguments) -> Answered {
    let (services, filter) = (&front.services, ToolFilter::of(request.parts));
    if let Err(fault) = ToolName::read(request.name).and_then(|name| count(services, address, name)) {
        let fault = match offer(request.meta, &request.parts.headers) {
            Ok(offered) => fault.before_lookup(&offered),
            Err(_) => fault,
        };
        return refused(&fault, Dialect::of(request.era, request.meta, &OfferedPayment::Nothing));
    }
    if let Some(answered) = builtin_tools::perform(services, address, &filter, request.name, &arguments).await {
        let summary = CallSummary { outcome: answered.as_ref().map_or_else(|fault| fault.code().row().name, |_| "ok"), charged: "no" };
        return (Ok(answered.unwrap_or_else(|fault| answer::refused(&fault)).into()), summary);
    }
    let (admitted, dialect) = match admit(services, request, address, &filter, arguments).await {
        Ok(admitted) => admitted,
        Err((fault, dialect)) => return refused(&fault, dialect),
    };
    let call = match admitted {
        AdmittedAs::Call(call) => call,
        AdmittedAs::Replay(replay) => return render_end(replay.await, services, dialect).await,
    };
    let takes_task = request.takes_tasks && call.live.endpoint.long_running(services.long_running_ms);
    // If there is no room for another task, the call is answered when it ends.
    let permit = takes_task.then(|| front.tasks.reserve(address, &call)).flatten();
    let started = StartedCall::begin(services, &front.cancelable, *call, request, permit.is_some());
    let ended = if let Some(permit) = permit {
        match Box::pin(front.tasks.start(started, permit, dialect)).await {
            Ok(TaskStart::Task(task)) => return (Ok(*task), CallSummary { outcome: "task", charged: "no" }),
            Ok(TaskStart::Ended(ended)) => ended,
            Err(error) => return refused(&ApiError::from(error), dialect),
        }
    } else {
        wait(started, request, services).await
    };
    render_end(ended, services, dialect).await
}

/// Converts the end of a call to its answer and log result.
async fn render_end(ended: CallEnd, services: &Services, dialect: Dialect) -> Answered {
    match ended {
        Ok(done) => {
            let summary = CallSummary { outcome: if done.success { "ok" } else { "tool_error" }, charged: charged(&done) };
            let answer = run_blocking(done.answer.body.len(), || answer::done(&done, &services.base_url, dialect)).await;
            (Ok(answer), summary)
        }
        Err(error) => {
            let (answer, summary) = refused(&ApiError::from(&*error), dialect);
            (answer, if matches!(*error, CallError::Cancelled) { CALLER_GONE } else { summary })
        }
    }
}

/// Counts a call of a tool by an address.
fn count(services: &Services, address: IpAddr, name: ToolName) -> Result<(), ApiError> {
    let Some(rate) = &services.settings.rate else { return Ok(()) };
    let key = (network(address), name);
    let Some(seconds) = rate.wait(&key) else { return Ok(()) };
    let message = format!("more than {} per second of `{}` from your address", plural(rate.per_second(), "call"), key.1.as_str());
    Err(ApiError::new(Code::RateLimited, message).retry_after(seconds))
}

/// An admitted request.
enum AdmittedAs {
    Call(Box<Call>),
    /// A call that its payment bought earlier, of a tool that no longer takes calls.
    Replay(RunningCall<CompletedCall>),
}

/// Checks that the tool takes this call, and reads the offered payment. Also returns the dialect of the answer.
async fn admit(
    services: &Services,
    request: &CallRequest<'_>,
    address: IpAddr,
    filter: &ToolFilter,
    arguments: Arguments,
) -> Result<(AdmittedAs, Dialect), (ApiError, Dialect)> {
    let limits = &services.shared.limits;
    let unpaid = Dialect::of(request.era, request.meta, &OfferedPayment::Nothing);
    if !filter.has(request.name) {
        return Err((ApiError::unknown_endpoint(request.name), unpaid));
    }
    let slug = services.settings.slug_of(request.name);
    let (headers, extensions) = (&request.parts.headers, &request.parts.extensions);
    let found = services.shared.callers.called(&services.calls, headers, extensions, &slug).await;
    let offered = offer(request.meta, headers).and_then(|offered| limits.limit_credit(limits.sender(address, headers), offered));
    let ((live, by), offered) = match (found, offered) {
        (Ok(found), Ok(offered)) => (found, offered),
        (Err(refused), Ok(offered)) => {
            let dialect = Dialect::of(request.era, request.meta, &offered);
            let request =
                ReplayRequest { slug: &slug, method: "POST", query: None, input: arguments.input(), offered, from: network(address) };
            let replay = bought(&services.calls, refused, request).await.map_err(|fault| (fault, unpaid))?;
            return Ok((AdmittedAs::Replay(replay), dialect));
        }
        (Err(fault), Err(_)) | (Ok(_), Err(fault)) => return Err((fault, unpaid)),
    };
    let dialect = Dialect::of(request.era, request.meta, &offered);
    let quote = quote(request.meta, headers).map_err(|fault| (fault, dialect))?;
    services.calls.check_offered(&live, (by, EntryMethod::Mcp), &offered, quote.as_deref()).map_err(|error| (error.into(), dialect))?;
    let head = request.head(&live);
    let call = Call {
        live,
        by,
        entry_method: EntryMethod::Mcp,
        input: arguments.input(),
        offered,
        quote,
        head,
        from: network(address),
        progress: None,
        stream: None,
    };
    Ok((AdmittedAs::Call(Box::new(call)), dialect))
}

/// Waits for the end of a call, or until its caller disconnects.
async fn wait(started: StartedCall, request: &CallRequest<'_>, services: &Services) -> CallEnd {
    let ended = started.ended(request.subscriber.as_ref(), services.settings.given.progress);
    let Some(caller_gone) = request.caller_gone else { return ended.await };
    tokio::select! {
        biased;
        ended = ended => ended,
        () = caller_gone.cancelled() => Err(Arc::new(CallError::Cancelled)),
    }
}

fn charged(done: &CompletedCall) -> &'static str {
    if done.payment.is_some() && done.success { "yes" } else { "no" }
}

fn refused(fault: &ApiError, dialect: Dialect) -> Answered {
    let row = fault.code().row();
    (answer::failed(fault, dialect).map(ToolAnswer::from), CallSummary { outcome: row.name, charged: row.charged.as_str() })
}
