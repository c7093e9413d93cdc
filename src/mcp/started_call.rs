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

/// The result of a call, for everyone who shares it.
pub(super) type CallEnd = Result<CompletedCall, Arc<CallError>>;

/// A running call. In 2026-07-28, dropping it cancels the call.
pub(super) struct StartedCall {
    pub(super) run: RunningCall<CompletedCall>,
    /// The progress events, if somebody reads them.
    pub(super) progress: Option<mpsc::Receiver<Progress>>,
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
        cancelable: &Arc<CancelableCalls>,
        mut call: Call,
        request: &CallRequest<'_>,
        as_task: bool,
    ) -> Self {
        let session = if request.era == Era::Legacy { ClientSession::of(&request.parts.headers) } else { None };
        let guard = session.and_then(|session| cancelable.hold(session, request.id));
        let cancel = guard.as_ref().map_or_else(CancellationToken::new, |guard| guard.cancel.clone());
        // A call charged before its run needs an idempotency key that its payer knows, so it gets no generated one.
        if as_task && !call.live.terms.is_upfront() {
            // The answer is fetched later through the task, and it is only stored for a call with an idempotency key.
            call.offered.name(|| RequestId::generate().to_string());
        }
        let progress = (as_task || request.subscriber.is_some()).then(|| {
            let (sender, receiver) = mpsc::channel(BUFFER);
            call.progress = Some(sender);
            receiver
        });
        let stop = (request.era == Era::Modern).then(|| cancel.clone().drop_guard());
        // Keep the call cancelable until its end.
        let run = services.calls.begin(call, cancel.clone(), guard);
        Self { run, progress, cancel, stop }
    }

    /// Waits for the end. A subscriber gets the handler's progress, and periodic signs that the call still runs.
    pub(super) async fn ended(mut self, subscriber: Option<&Subscriber<'_>>, every: Duration) -> CallEnd {
        match (subscriber, self.progress.take()) {
            (Some(subscriber), Some(progress)) => Box::pin(self.notify_until_end(subscriber, progress, every)).await,
            _ => self.run.await,
        }
    }

    async fn notify_until_end(mut self, subscriber: &Subscriber<'_>, mut progress: mpsc::Receiver<Progress>, every: Duration) -> CallEnd {
        let started = Instant::now();
        let mut notifier = Notifier::new(subscriber, started);
        let mut beat = interval_at(started + every, every);
        loop {
            tokio::select! {
                biased;
                Some(progress) = progress.recv() => {
                    if let Progress::Update(update) = progress {
                        notifier.notify(update.message, update.fraction).await;
                    }
                }
                ended = &mut self.run => return ended,
                _ = beat.tick() => notifier.notify("running".to_owned(), None).await,
            }
        }
    }
}
