//! What a client hears of a call on its way.

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::Instant;

/// Who gave a token for a call's progress.
pub(super) struct Subscriber<'a> {
    pub(super) peer: &'a Peer<RoleServer>,
    pub(super) token: ProgressToken,
}

/// Sends `notifications/progress`.
pub(super) struct Notifier<'a> {
    subscriber: &'a Subscriber<'a>,
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

impl<'a> Notifier<'a> {
    pub(super) fn new(subscriber: &'a Subscriber<'a>, begun: Instant) -> Self {
        Self { subscriber, scale: None, last: f64::NEG_INFINITY, begun }
    }

    pub(super) async fn tell(&mut self, message: String, fraction: Option<f64>) {
        let scale = *self.scale.get_or_insert(if fraction.is_some() { Scale::Fractions } else { Scale::Seconds });
        let (progress, total) = match scale {
            Scale::Fractions => (fraction.unwrap_or(0.0), Some(1.0)),
            Scale::Seconds => {
                let elapsed = (self.begun.elapsed().as_secs_f64() * 1e3).round() / 1e3;
                (elapsed, fraction.filter(|fraction| *fraction > 0.0).map(|fraction| elapsed / fraction))
            }
        };
        self.last = progress.max(self.last + STEP);
        let mut told = ProgressNotificationParam::new(self.subscriber.token.clone(), self.last).with_message(message);
        told.total = total;
        // A reader that has gone does not stop the call: the payment may be settling.
        _ = self.subscriber.peer.notify_progress(told).await;
    }
}
