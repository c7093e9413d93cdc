//! Handlers in the sandbox: from a task to a job of the pool, and from its outcome to an answer.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tollhouse_pool::{Job, Pool};
use tollhouse_protocol::{LogLevel, Outcome, ReplyBody, Start, StopReason, Thrown, ToolReply};

use super::{Produced, Task};
use crate::{
    call::{CallError, Progress, RequestHead},
    capability::{CallGrants, Capabilities, Ops},
    tool::{Endpoint, depth},
};

/// Calls of one endpoint under way at once.
const ENDPOINT_CONCURRENCY: usize = 64;

/// Log lines of a streamed call that wait for their reader; further ones are left out of the stream.
const STREAM_LINES: usize = 64;

/// Response headers that a handler may set. Others are dropped: they speak for the host.
const REPLY_HEADERS: &[&str] = &["content-type", "content-language", "content-disposition", "location", "retry-after", "link"];

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
}

pub(super) async fn run(pool: &Pool, services: &Arc<Capabilities>, task: Task<'_>) -> Result<Produced, CallError> {
    let endpoint = &task.live.endpoint;
    let bundle = task.live.bundle.as_ref().ok_or(CallError::Internal)?;
    let grants = CallGrants {
        endpoint_id: endpoint.id.clone(),
        call_id: task.call.clone(),
        grant: Arc::clone(&task.live.grant),
        env: vec![],
        limits: endpoint.limits,
    };
    let mut ops = Ops::new(grants, Arc::clone(services));
    if let Some(progress) = task.progress {
        ops = ops.with_stream(forward(progress.clone()));
    }
    let job = Job {
        bundle,
        owner: endpoint.owner.share(),
        endpoint: endpoint.id.as_str(),
        isolation: endpoint.isolation,
        concurrency: ENDPOINT_CONCURRENCY,
        start: Start {
            call: task.call.to_string(),
            head: head(&task)?,
            body: task.input.text.clone(),
            env: vec![],
            now_ms: task.now.0,
            limits: endpoint.limits,
        },
    };
    let ran = pool.run(job, &ops).await?;
    match ran.outcome {
        Outcome::Returned(reply) => answer(reply, endpoint).inspect_err(|error| report(&ops, error)),
        Outcome::Threw(thrown) => {
            let message = ops.redactor().redact(&thrown.message).into_owned();
            ops.report(LogLevel::Error, &message, json!({ "stack": thrown.stack }));
            Err(CallError::Threw(Thrown { message, stack: thrown.stack }))
        }
        Outcome::Stopped(reason) => {
            let error = stopped(reason);
            report(&ops, &error);
            Err(error)
        }
    }
}

fn report(ops: &Ops, error: &CallError) {
    ops.report(LogLevel::Error, &error.to_string(), json!({}));
}

fn stopped(reason: StopReason) -> CallError {
    match reason {
        StopReason::Deadlock => CallError::Misbehaved(reason.to_string()),
        other => CallError::Stopped(other),
    }
}

fn head(task: &Task<'_>) -> Result<Bytes, CallError> {
    let caller = Caller { payer: task.payer.as_deref(), free: task.live.endpoint.price_usd.is_zero(), receipt_id: task.receipt.as_str() };
    serde_json::to_vec(&Head { request: task.head, caller }).map(Bytes::from).map_err(|_| CallError::Internal)
}

/// The worker's reply, read as the hostile input it is.
fn answer(reply: ToolReply, endpoint: &Endpoint) -> Result<Produced, CallError> {
    let ToolReply { status, headers, body } = reply;
    if !(200..600).contains(&status) || matches!(status, 401 | 402 | 407) {
        return Err(CallError::Misbehaved(format!("a handler cannot answer with status {status}")));
    }
    let (ReplyBody::Json(bytes) | ReplyBody::Raw(bytes)) = &body;
    if bytes.len() as u64 > endpoint.limits.output_bytes {
        return Err(CallError::Stopped(StopReason::OutputSize { limit_bytes: endpoint.limits.output_bytes }));
    }
    let headers = headers.into_iter().filter(|(name, _)| REPLY_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))).collect();
    match body {
        ReplyBody::Raw(body) => Ok(Produced { status, headers, body, value: None }),
        ReplyBody::Json(body) => {
            let value = serde_json::from_slice(&body).map_err(|_| CallError::Stopped(StopReason::Crashed))?;
            if depth(&value) as u64 > endpoint.limits.output_depth {
                return Err(CallError::Stopped(StopReason::OutputDepth { limit: endpoint.limits.output_depth }));
            }
            Ok(Produced { status, headers, body, value: Some(value) })
        }
    }
}

/// Passes log lines on to the stream of the call.
fn forward(progress: mpsc::Sender<Progress>) -> mpsc::Sender<crate::capability::LogEntry> {
    let (lines, mut waiting) = mpsc::channel(STREAM_LINES);
    tokio::spawn(async move {
        while let Some(line) = waiting.recv().await {
            if progress.send(Progress::Log(line)).await.is_err() {
                break;
            }
        }
    });
    lines
}
