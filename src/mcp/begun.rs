//! A call under way, on a task of its own: waited for here, or by a task that outlives the request.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tollhouse_base::id::RequestId;
use tollhouse_call::{Call, CallError, Done, Progress, UnderWay};

use super::{
    cancel::{Cancellable, Session},
    progress::{Notifier, Subscriber},
    request::CallRequest,
    revision::Era,
    services::Services,
};

/// What happens on the way and waits for a slow reader; what is beyond it is left out.
const BUFFER: usize = 64;

/// A call under way. In 2026-07-28, dropping it takes the call back.
pub(super) struct Begun {
    pub(super) performing: UnderWay<Done>,
    /// What happens on the way, where somebody is told.
    pub(super) happened: Option<mpsc::Receiver<Progress>>,
    pub(super) cancel: CancellationToken,
    /// Takes the call back.
    pub(super) stop: Option<DropGuard>,
}

impl Begun {
    /// Begins `call`, which is answered with a task or when it ends.
    ///
    /// In 2026-07-28 a client takes back its request by closing the connection: the call is then stopped if its payment is
    /// not being settled yet. In older revisions a broken connection is no more than that: the call goes on to its end, unless
    /// `notifications/cancelled` takes it back.
    pub(super) fn begin(
        services: &Services,
        cancellable: &Arc<Cancellable>,
        mut call: Call,
        request: &CallRequest<'_>,
        as_task: bool,
    ) -> Self {
        let session = if request.era == Era::Legacy { Session::of(&request.parts.headers) } else { None };
        let held = session.and_then(|session| cancellable.hold(session, request.id));
        let cancel = held.as_ref().map_or_else(CancellationToken::new, |held| held.cancel.clone());
        // What is charged before it runs needs a name that its payer knows.
        if as_task && !call.live.terms.is_upfront() {
            // Whoever asks for a task later is given the answer, which is kept for who can name the call.
            call.offered.name(|| RequestId::generate().to_string());
        }
        let happened = (as_task || request.subscriber.is_some()).then(|| {
            let (progress, happened) = mpsc::channel(BUFFER);
            call.progress = Some(progress);
            happened
        });
        let stop = (request.era == Era::Modern).then(|| cancel.clone().drop_guard());
        // To its end the call keeps what it is taken back by.
        let performing = services.calls.begin(call, cancel.clone(), held);
        Self { performing, happened, cancel, stop }
    }

    /// Waits for the end; a subscriber is told what the handler says and, now and then, that it runs.
    pub(super) async fn ended(mut self, subscriber: Option<&Subscriber<'_>>, every: Duration) -> Result<Done, Arc<CallError>> {
        match (subscriber, self.happened.take()) {
            (Some(subscriber), Some(happened)) => Box::pin(self.told(subscriber, happened, every)).await,
            (Some(_), None) | (None, _) => self.performing.await,
        }
    }

    async fn told(
        mut self,
        subscriber: &Subscriber<'_>,
        mut happened: mpsc::Receiver<Progress>,
        every: Duration,
    ) -> Result<Done, Arc<CallError>> {
        let begun = Instant::now();
        let mut told = Notifier::new(subscriber, begun);
        let mut beat = interval_at(begun + every, every);
        loop {
            tokio::select! {
                biased;
                Some(progress) = happened.recv() => {
                    if let Progress::Update(heard) = progress {
                        told.tell(heard.message, heard.fraction).await;
                    }
                }
                ended = &mut self.performing => return ended,
                _ = beat.tick() => told.tell("running".to_owned(), None).await,
            }
        }
    }
}
