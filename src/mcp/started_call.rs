//! A running call in a separate task. The request waits for it, or another task that outlives the request.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tollhouse_base::id::RequestId;
use tollhouse_call::{Call, CallError, CompletedCall, Progress, RunningCall};

use super::{
    cancel::{CancelableCalls, ClientSession},
    progress::{Notifier, Subscriber},
    request::CallRequest,
    revision::Era,
    services::Services,
};

/// Maximum progress events waiting for a slow reader. Further ones are dropped.
const BUFFER: usize = 64;

/// A running call. In 2026-07-28, dropping it cancels the call.
pub(super) struct StartedCall {
    pub(super) run: RunningCall<CompletedCall>,
    /// The progress events, if somebody reads them.
    pub(super) on_progress: Option<mpsc::Receiver<Progress>>,
    pub(super) cancel: CancellationToken,
    /// Cancels the call when dropped.
    pub(super) stop: Option<DropGuard>,
}

impl StartedCall {
    /// Starts `call`. The response is a task, or the end of the call.
    ///
    /// In 2026-07-28 a client cancels a request by closing the connection. The call is then stopped, unless its payment
    /// is already being settled. In older revisions a broken connection means nothing: the call runs to its end, unless
    /// `notifications/cancelled` cancels it.
    pub(super) fn begin(
        services: &Services,
        cancellable: &Arc<CancelableCalls>,
        mut call: Call,
        request: &CallRequest<'_>,
        as_task: bool,
    ) -> Self {
        let session = if request.era == Era::Legacy { ClientSession::of(&request.parts.headers) } else { None };
        let held = session.and_then(|session| cancellable.hold(session, request.id));
        let cancel = held.as_ref().map_or_else(CancellationToken::new, |held| held.cancel.clone());
        // A call charged before its run needs an idempotency key that its payer knows, so it gets no generated one.
        if as_task && !call.live.terms.is_upfront() {
            // The answer is fetched later through the task, and it is only stored for a call with an idempotency key.
            call.offered.name(|| RequestId::generate().to_string());
        }
        let happened = (as_task || request.subscriber.is_some()).then(|| {
            let (progress, happened) = mpsc::channel(BUFFER);
            call.progress = Some(progress);
            happened
        });
        let stop = (request.era == Era::Modern).then(|| cancel.clone().drop_guard());
        // Keep the call cancelable until its end.
        let performing = services.calls.begin(call, cancel.clone(), held);
        Self { run: performing, on_progress: happened, cancel, stop }
    }

    /// Waits for the end. A subscriber gets the handler's progress, and periodic signs that the call still runs.
    pub(super) async fn ended(mut self, subscriber: Option<&Subscriber<'_>>, every: Duration) -> Result<CompletedCall, Arc<CallError>> {
        match (subscriber, self.on_progress.take()) {
            (Some(subscriber), Some(happened)) => Box::pin(self.respond(subscriber, happened, every)).await,
            (Some(_), None) | (None, _) => self.run.await,
        }
    }

    async fn respond(
        mut self,
        subscriber: &Subscriber<'_>,
        mut happened: mpsc::Receiver<Progress>,
        every: Duration,
    ) -> Result<CompletedCall, Arc<CallError>> {
        let started = Instant::now();
        let mut reported = Notifier::new(subscriber, started);
        let mut beat = interval_at(started + every, every);
        loop {
            tokio::select! {
                biased;
                Some(progress) = happened.recv() => {
                    if let Progress::Update(received) = progress {
                        reported.notify(received.message, received.fraction).await;
                    }
                }
                ended = &mut self.run => return ended,
                _ = beat.tick() => reported.notify("running".to_owned(), None).await,
            }
        }
    }
}
