//! Runs handlers in the sandbox: converts a task to a job of the pool, and its outcome to an answer.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use tokio_util::task::TaskTracker;
use tollhouse_base::offload::run_blocking;
use tollhouse_capability::{CallGrants, CapabilityServices, DryRunStore, Ops, Redactor, secret::SecretError};
use tollhouse_catalog::LiveEndpoint;
use tollhouse_money::PaymentId;
use tollhouse_pool::Pool;
use tollhouse_protocol::{
    FAILED, Isolation, LogLevel, Outcome, Problem, ReplyBody, STRUCTURED, Side, Start, StopReason, Thrown, ToolReply, Work, are_blocks,
};
use tollhouse_store::StoreError;
use tollhouse_telemetry::{Stage, enter};
use tollhouse_tool::{Mismatch, PortabilityIssue, depth};

use super::{
    HandlerResult, RunUsage, Task,
    handler_result::validation_error,
    sandbox_counts::RunGuard,
    sandboxed::{CallListener, OwnedJob, SandboxedRun},
};
use crate::{
    CallError, CalledBy, Progress, RequestHead,
    answer_head::{BYTES, check_status, checked_headers},
    bodiless, content_type, is_json_type,
    stream::AnswerSink,
};

#[derive(Serialize)]
struct Head<'a> {
    #[serde(flatten)]
    request: &'a RequestHead,
    caller: Caller<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Caller<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payer: Option<&'a str>,
    free: bool,
    receipt_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<&'a PaymentId>,
}

pub(super) async fn run(
    pool: &Pool,
    services: &Arc<CapabilityServices>,
    task: Task<'_>,
    counting: Option<RunGuard>,
    background: &TaskTracker,
) -> Result<HandlerResult, CallError> {
    let endpoint = &task.live.endpoint;
    let bundle = task.live.bundle.as_ref().ok_or(CallError::Internal)?;
    let secrets = services.secrets.for_call(&endpoint.id, &endpoint.owner).await.map_err(|error| match error {
        SecretError::Store(error) => CallError::Store(error),
        error => {
            tracing::error!(endpoint.slug = %endpoint.slug, %error, "a call was refused");
            CallError::SecretsUnavailable
        }
    })?;
    let env = secrets.iter().filter_map(|secret| Some((secret.name.clone(), secret.in_env()?.to_owned()))).collect();
    // A draft does not affect calls of its tool, and never shares a process with one.
    // Scheduled runs have places and a breaker of their own, so that they never hold up calls.
    let (alias, isolation, limits) = match (task.scratch, task.work) {
        (Some(_), _) => (Some(format!("{}/dry", endpoint.id)), Isolation::Fresh, DryRunStore::narrowed(endpoint.limits)),
        (None, Work::Scheduled) => (Some(format!("{}/scheduled", endpoint.id)), Isolation::Fresh, endpoint.limits),
        (None, Work::Handle | Work::Check(_)) => (None, endpoint.isolation, endpoint.limits),
    };
    let grants = CallGrants {
        owner: endpoint.owner.clone(),
        endpoint_id: endpoint.id.clone(),
        call_id: task.call.clone(),
        by_owner: task.by == CalledBy::Owner,
        grant: Arc::clone(&task.live.grant),
        secrets,
        limits,
    };
    let mut ops = Ops::new(grants, Arc::clone(services)).with_charge(Arc::clone(task.charge));
    if let Some(scratch) = task.scratch {
        ops = ops.with_dry_run(Arc::clone(scratch));
    }
    let raw = task.input.raw.as_ref();
    ops = ops.with_body(raw.and_then(|raw| raw.content.clone()));
    if let Some(stream) = task.stream {
        ops = ops.with_answer_stream(Arc::<AnswerSink>::clone(stream));
    }
    let mut limits = endpoint.limits;
    match task.progress.cloned() {
        // A slow reader misses messages.
        Some(progress) => ops = ops.with_listener(move |received| _ = progress.try_send(Progress::Update(received))),
        // Without a reader, the worker drops them.
        None => limits.progress_messages = 0,
    }
    // If the worker validates an input, it reports when that is done.
    let announced = task.progress.is_some() && bundle.schemas.input.is_some() && raw.is_none();
    if !announced {
        task.accept();
    }
    let job = OwnedJob {
        live: Arc::clone(task.live),
        alias,
        caller: Some(task.turn.address()),
        by_owner: task.by == CalledBy::Owner || task.scratch.is_some(),
        isolation,
        start: Start {
            call: task.call.to_string(),
            work: task.work,
            announced,
            head: head(&task)?,
            body: if raw.is_some() { Bytes::new() } else { task.input.text.clone() },
            body_bytes: raw.map(|raw| raw.bytes),
            env,
            now_ms: task.now.0,
            streams: task.stream.is_some(),
            limits,
        },
    };
    let ops = Arc::new(ops);
    let acceptance = announced.then(|| task.acceptance()).flatten();
    let listener = CallListener::new(Arc::clone(&ops), acceptance, task.turn.meter(), Arc::clone(task.charge));
    let running = SandboxedRun::new(pool.clone(), job, &listener);
    let ran = match task.scratch {
        // Its data vanishes with it, and its log is a part of the answer.
        Some(_) => running.ended().await,
        None => running.answered(background).await,
    };
    enter(Stage::Check);
    if let Some(counting) = counting {
        counting.ended(&ran);
    }
    let ran = ran?;
    _ = task.elapsed.set(RunUsage { spent: ran.spent, cold: ran.cold });
    match ran.outcome {
        // A secret can begin where the last chunk ended, so its end is still held back.
        Outcome::Returned(ToolReply { body: ReplyBody::Streamed, .. }) => {
            let stream = task.stream.ok_or(CallError::Internal)?;
            if stream.end(listener.rest()).await { Ok(HandlerResult::nothing()) } else { Err(CallError::Cancelled) }
        }
        // Nobody gets its result.
        Outcome::Returned(_) if task.work == Work::Scheduled => Ok(HandlerResult::nothing()),
        Outcome::Returned(reply) => {
            let answered = async { answer(redact_reply(pool, &task, reply, ops.redactor()).await?, task.live).await };
            answered.await.map_err(|error| log_error(&ops, error))
        }
        Outcome::Invalid(Side::Input, problems) => Err(CallError::Input(redacted_mismatch(problems, ops.redactor()))),
        Outcome::Invalid(Side::Output, problems) => Err(log_error(&ops, CallError::Output(redacted_mismatch(problems, ops.redactor())))),
        Outcome::Threw(thrown) => {
            // The worker truncated both, maybe within a secret. They can name the host of a URL, in lower case.
            let clean = |text: String| ops.redactor().ignoring_case().redact_cut(&text).into_owned();
            let thrown = Thrown { message: clean(thrown.message), stack: clean(thrown.stack) };
            ops.report(LogLevel::Error, &thrown.message, json!({ "stack": thrown.stack }));
            // If the host failed an op, the thrown error is a consequence of that.
            Err(if ops.host_failed() { StoreError::Away("for an op of the call".to_owned()).into() } else { CallError::Threw(thrown) })
        }
        Outcome::Stopped(reason) => Err(log_error(&ops, stopped(reason))),
    }
}

/// Converts the worker's report about an invalid value. The report is untrusted.
fn redacted_mismatch(problems: Vec<Problem>, redactor: &Redactor) -> Mismatch {
    // The worker truncated both, maybe within a secret.
    let clean = |text: String| redactor.redact_cut(&text).into_owned();
    let problems = problems.into_iter().map(|Problem { pointer, message }| Problem { pointer: clean(pointer), message: clean(message) });
    Mismatch { problems: problems.collect() }
}

/// Writes an error to the tool's log, and returns it.
fn log_error(ops: &Ops, error: CallError) -> CallError {
    ops.report(LogLevel::Error, &error.to_string(), json!({}));
    error
}

fn stopped(reason: StopReason) -> CallError {
    match reason {
        StopReason::Deadlock => CallError::Misbehaved(reason.to_string()),
        other => CallError::Stopped(other),
    }
}

fn head(task: &Task<'_>) -> Result<Bytes, CallError> {
    let caller = Caller { payer: task.payer.as_deref(), free: task.is_free(), receipt_id: task.receipt.as_str(), payment_id: task.payment };
    let mut request = Cow::Borrowed(task.head);
    if let Some(raw) = &task.input.raw {
        // The body can have come within JSON.
        request.to_mut().headers.insert("content-type".into(), raw.content_type.clone());
    }
    serde_json::to_vec(&Head { request: &request, caller }).map(Bytes::from).map_err(|_| CallError::Internal)
}

/// Removes the values of the call's secrets from the reply, before it is hashed, stored and sent. The result may no
/// longer match the schema.
async fn redact_reply(pool: &Pool, task: &Task<'_>, reply: ToolReply, redactor: &Redactor) -> Result<ToolReply, CallError> {
    if redactor.is_empty() {
        return Ok(reply);
    }
    let (has_changed, reply) = run_blocking(reply.body.bytes().len(), || redacted(reply, redactor)).await.map_err(CallError::Unreadable)?;
    if let (true, ReplyBody::Json(body), 200..300) = (has_changed, &reply.body, reply.status) {
        let proper = if are_blocks(&reply.headers) { structured(body) } else { Some(body.clone()) };
        if let Some(proper) = proper {
            Box::pin(task.live.fits(pool, Side::Output, proper, task.validation_subject()))
                .await
                .map_err(|error| validation_error(error, CallError::Output))?;
        }
    }
    Ok(reply)
}

/// Returns the structured result of an answer with MCP blocks. A failure has none.
fn structured(envelope: &[u8]) -> Option<Bytes> {
    let envelope: serde_json::Value = serde_json::from_slice(envelope).unwrap_or_default();
    (envelope[FAILED] != true).then(|| Bytes::from(envelope[STRUCTURED].to_string()))
}

/// Replaces each secret with the mark of [`Redactor::redact`]. Returns whether that changed a JSON body.
///
/// # Errors
///
/// Why a body cannot be searched for secrets.
fn redacted(reply: ToolReply, redactor: &Redactor) -> Result<(bool, ToolReply), PortabilityIssue> {
    let headers = reply.headers.into_iter().map(|(name, value)| (name, redactor.redact(&value).into_owned())).collect();
    let (has_changed, body) = match reply.body {
        ReplyBody::Json(body) => match redactor.redact_json_text(&body) {
            Ok(clean) => (clean.is_some(), ReplyBody::Json(clean.unwrap_or(body))),
            Err(_) => return Err(PortabilityIssue::parse(&body).err().unwrap_or(PortabilityIssue::NotJson)),
        },
        ReplyBody::Raw(body) => (false, ReplyBody::Raw(redactor.redact_bytes(&body).unwrap_or(body))),
        // Redacted as it came.
        ReplyBody::Streamed => (false, ReplyBody::Streamed),
    };
    Ok((has_changed, ToolReply { status: reply.status, headers, body }))
}

/// Converts the worker's reply, which is untrusted.
async fn answer(reply: ToolReply, live: &LiveEndpoint) -> Result<HandlerResult, CallError> {
    let limits = &live.endpoint.limits;
    let ToolReply { status, headers, body } = reply;
    check_status(status)?;
    let bytes = body.bytes().len();
    if bytes as u64 > limits.output_bytes {
        return Err(CallError::Stopped(StopReason::OutputSize { limit_bytes: limits.output_bytes }));
    }
    let mut headers = checked_headers(status, headers)?;
    let read = || match body {
        ReplyBody::Raw(_) if bodiless(status) => HandlerResult::check(live, status, headers, Bytes::new(), None),
        ReplyBody::Raw(body) => {
            match content_type(&headers) {
                Some(message) if is_json_type(message) && (200..300).contains(&status) => {
                    return Err(CallError::Output(Mismatch::whole(format!("the handler's answer declares `{message}`, but is not JSON"))));
                }
                Some(_) => {}
                None => headers.push(("content-type".to_owned(), BYTES.to_owned())),
            }
            HandlerResult::check(live, status, headers, body, None)
        }
        ReplyBody::Json(body) => {
            let value = PortabilityIssue::parse(&body).map_err(CallError::Unreadable)?;
            if depth(&value) as u64 > limits.output_depth {
                return Err(CallError::Stopped(StopReason::OutputDepth { limit: limits.output_depth }));
            }
            HandlerResult::check(live, status, headers, body, Some(&value))
        }
        // Its caller gets the bytes from the stream.
        ReplyBody::Streamed => Ok(HandlerResult::nothing()),
    };
    run_blocking(bytes, read).await
}
