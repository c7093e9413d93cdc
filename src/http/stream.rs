//! A call as Server-Sent Events: `accepted`, `progress`, then `result` or `error`.

use std::{convert::Infallible, sync::Arc};

use axum::response::sse::Event;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tollhouse_base::offload::for_same_client;
use tollhouse_call::{Call, CallError, CompletedCall, Progress, Receipts, RunningCall};
use tollhouse_capability::ProgressUpdate;
use tollhouse_front::{ApiError, REQUEST, sse};
use tollhouse_money::Unanswered;

use crate::{
    Http, IntoResponse as _, Response, Services,
    invoke_response::{ResponseStyle, invoke_response_json},
};

/// Maximum events waiting for a slow reader. Further progress of the handler is dropped.
const BUFFER: usize = 256;

/// Performs `call` and streams its events. A 402 is an `error` event with the challenge. If no payment was offered, it
/// is a plain 402 response before the stream.
pub(super) fn events(http: Http, mut call: Call) -> Response {
    if let Err(unpaid) = http.calls.check_offered(&call.live, (call.by, call.entry_method), &call.offered, call.quote.as_deref()) {
        return ApiError::from(unpaid).into_response();
    }
    let (progress, updates) = mpsc::channel(BUFFER);
    call.progress = Some(progress);
    let calls = Arc::clone(&http.calls);
    follow(http, async move { calls.perform(call).await }, updates)
}

/// Streams the end of a call that was paid for earlier, without its progress.
pub(super) fn bought(http: Http, performing: RunningCall<CompletedCall>) -> Response {
    let (_, nothing) = mpsc::channel(1);
    follow(http, performing, nothing)
}

fn follow(
    http: Http,
    performing: impl Future<Output = Result<CompletedCall, Arc<CallError>>> + Send + 'static,
    mut updates: mpsc::Receiver<Progress>,
) -> Response {
    let (events, receiver) = mpsc::channel::<Event>(BUFFER);
    let request = REQUEST.try_with(Clone::clone).ok();
    let report = async move {
        let started = Instant::now();
        let mut ticks = interval_at(started + http.progress, http.progress);
        tokio::pin!(performing);
        let ended = loop {
            tokio::select! {
                biased;
                Some(progress) = updates.recv() => send_progress(&events, progress, started).await,
                ended = &mut performing => break ended,
                // The call continues without its reader, because the payment may be settling. Only a request that
                // joined another one stops waiting.
                () = events.closed() => return,
                _ = ticks.tick() => { _ = events.try_send(event("progress", &json!({ "elapsedMs": elapsed_ms(started) }))); }
            }
        };
        while let Ok(progress) = updates.try_recv() {
            send_progress(&events, progress, started).await;
        }
        _ = events.send(final_event(&http, ended).await).await;
    };
    match request {
        Some(request) => tokio::spawn(for_same_client(REQUEST.scope(request, report))),
        None => tokio::spawn(for_same_client(report)),
    };
    let body = stream::unfold(receiver, |mut receiver| async { Some((Ok::<_, Infallible>(receiver.recv().await?), receiver)) });
    sse::response(body)
}

/// Sends the event of a progress, if it has one.
async fn send_progress(events: &mpsc::Sender<Event>, progress: Progress, started: Instant) {
    if let Some(event) = progress_event(progress, started) {
        _ = events.send(event).await;
    }
}

fn progress_event(progress: Progress, started: Instant) -> Option<Event> {
    Some(match progress {
        // `accepted` contains the payment.
        Progress::Admitted(_) => return None,
        Progress::Accepted { call, payment, receipt } => {
            event("accepted", &json!({ "callId": call, "paymentId": payment, "receiptId": receipt }))
        }
        Progress::Update(ProgressUpdate { message, fraction }) => {
            let mut body = json!({ "message": message, "elapsedMs": elapsed_ms(started) });
            if let Some(fraction) = fraction {
                body["fraction"] = json!(fraction);
            }
            event("progress", &body)
        }
    })
}

fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

async fn final_event(http: &Services, ended: Result<CompletedCall, Arc<CallError>>) -> Event {
    let fault: ApiError = match ended {
        Ok(done) => match invoke_response_json(http, &done, ResponseStyle::Stream).await {
            // In this JSON, line breaks occur only between tokens, where spaces mean the same. Event data must not
            // contain line breaks.
            Ok(json) => return Event::default().event("result").data(json.replace(['\r', '\n'], " ")),
            Err(fault) => fault,
        },
        Err(error) => error.into(),
    };
    event("error", &error_body(&http.receipts, &fault).await)
}

/// Returns the envelope of an error. An event has no headers, so payment, receipt and settlement are beside the error, as
/// in a `result`.
async fn error_body(receipts: &Receipts, fault: &ApiError) -> Value {
    let mut reported = fault.envelope();
    if let Some(Unanswered { payment, receipt, .. }) = fault.unanswered() {
        reported["paymentId"] = json!(payment);
        // If it cannot be read now, `error` still has its id.
        reported["receipt"] = json!(receipts.find(receipt).await.unwrap_or_default());
        reported["settlement"] = Value::Null;
    }
    if let Some(notice) = fault.settlement() {
        reported["settlement"] = serde_json::from_str(&notice.body).unwrap_or_default();
    }
    reported
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
