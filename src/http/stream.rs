//! A call as Server-Sent Events: `accepted`, `progress`, then `result` or `error`.

use std::{convert::Infallible, sync::Arc};

use axum::response::{IntoResponse as _, Response, sse::Event};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tollhouse_base::aside::still_asked;
use tollhouse_call::{Call, CallError, Done, Progress, Receipts, UnderWay};
use tollhouse_capability::ProgressUpdate;
use tollhouse_front::{Fault, REQUEST, sse};
use tollhouse_money::Unanswered;

use super::{
    invoked::{Front, invoked},
    services::Calling,
};

/// Maximum events waiting for a slow reader. Further progress of the handler is dropped.
const BUFFER: usize = 256;

/// Performs `call` and streams its events. A 402 is an `error` event with the challenge. If no payment was offered, it
/// is a plain 402 response before the stream.
pub(super) fn events(calling: Arc<Calling>, mut call: Call) -> Response {
    if let Err(unpaid) = calling.calls.check_offered(&call.live, (call.by, call.way), &call.offered, call.quote.as_deref()) {
        return Fault::from(unpaid).into_response();
    }
    let (progress, happened) = mpsc::channel(BUFFER);
    call.progress = Some(progress);
    let calls = Arc::clone(&calling.calls);
    follow(calling, async move { calls.perform(call).await }, happened)
}

/// Streams the end of a call that was paid for earlier, without its progress.
pub(super) fn bought(calling: Arc<Calling>, performing: UnderWay<Done>) -> Response {
    let (_, nothing) = mpsc::channel(1);
    follow(calling, performing, nothing)
}

fn follow(
    calling: Arc<Calling>,
    performing: impl Future<Output = Result<Done, Arc<CallError>>> + Send + 'static,
    mut happened: mpsc::Receiver<Progress>,
) -> Response {
    let (events, written) = mpsc::channel::<Event>(BUFFER);
    let request = REQUEST.try_with(Clone::clone).ok();
    let tell = async move {
        let began = Instant::now();
        let mut beat = interval_at(began + calling.progress, calling.progress);
        tokio::pin!(performing);
        let ended = loop {
            tokio::select! {
                biased;
                Some(progress) = happened.recv() => { _ = events.send(told(progress, began)).await; }
                ended = &mut performing => break ended,
                // The call continues without its reader, because the payment may be settling.
                _ = beat.tick() => { _ = events.try_send(event("progress", &json!({ "elapsedMs": elapsed_ms(began) }))); }
            }
        };
        while let Ok(progress) = happened.try_recv() {
            _ = events.send(told(progress, began)).await;
        }
        _ = events.send(last(&calling, ended).await).await;
    };
    match request {
        Some(request) => tokio::spawn(still_asked(REQUEST.scope(request, tell))),
        None => tokio::spawn(still_asked(tell)),
    };
    let body = stream::unfold(written, |mut written| async { Some((Ok::<_, Infallible>(written.recv().await?), written)) });
    sse::response(body)
}

fn told(progress: Progress, began: Instant) -> Event {
    match progress {
        Progress::Accepted { call, payment, receipt } => {
            event("accepted", &json!({ "callId": call, "paymentId": payment, "receiptId": receipt }))
        }
        Progress::Update(ProgressUpdate { message, fraction }) => {
            let mut told = json!({ "message": message, "elapsedMs": elapsed_ms(began) });
            if let Some(fraction) = fraction {
                told["fraction"] = json!(fraction);
            }
            event("progress", &told)
        }
    }
}

fn elapsed_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

async fn last(calling: &Calling, ended: Result<Done, Arc<CallError>>) -> Event {
    let fault: Fault = match ended {
        Ok(done) => match invoked(calling, &done, Front::Stream).await {
            // In this JSON, line breaks occur only between tokens, where spaces mean the same. Event data must not
            // contain line breaks.
            Ok(invoked) => return Event::default().event("result").data(invoked.replace(['\r', '\n'], " ")),
            Err(fault) => fault,
        },
        Err(error) => error.into(),
    };
    event("error", &refused(&calling.receipts, &fault).await)
}

/// Returns the envelope of an error. An event has no headers, so payment, receipt and settlement are beside the error, as
/// in a `result`.
async fn refused(receipts: &Receipts, fault: &Fault) -> Value {
    let mut told = fault.envelope();
    if let Some(Unanswered { payment, receipt, .. }) = fault.unanswered() {
        told["paymentId"] = json!(payment);
        // If it cannot be read now, `error` still has its id.
        told["receipt"] = json!(receipts.find(receipt).await.unwrap_or_default());
        told["settlement"] = Value::Null;
    }
    if let Some(notice) = fault.settlement() {
        told["settlement"] = serde_json::from_str(&notice.body).unwrap_or_default();
    }
    told
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
