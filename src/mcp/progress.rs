//! Progress notifications of a call.

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::Instant;

/// A client that sent a token for a call's progress.
pub(super) struct Subscriber<'a> {
    pub(super) peer: &'a Peer<RoleServer>,
    pub(super) token: ProgressToken,
}

/// Sends `notifications/progress`.
pub(super) struct Notifier<'a> {
    subscriber: &'a Subscriber<'a>,
    /// Set by the first message.
    scale: Option<Scale>,
    last: f64,
    started: Instant,
}

/// The unit of a call's progress. It is fixed for the call, because progress must increase with every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// The handler's fractions, of a total of 1.
    Fractions,
    /// Seconds. The total is an estimate from the handler's fraction, if there is one.
    Seconds,
}

/// Minimum increase of progress.
const STEP: f64 = 1e-6;

impl<'a> Notifier<'a> {
    pub(super) fn new(subscriber: &'a Subscriber<'a>, started: Instant) -> Self {
        Self { subscriber, scale: None, last: f64::NEG_INFINITY, started }
    }

    pub(super) async fn notify(&mut self, message: String, fraction: Option<f64>) {
        let scale = *self.scale.get_or_insert(if fraction.is_some() { Scale::Fractions } else { Scale::Seconds });
        let (progress, total) = match scale {
            Scale::Fractions => (fraction.unwrap_or(0.0), Some(1.0)),
            Scale::Seconds => {
                let elapsed = (self.started.elapsed().as_secs_f64() * 1e3).round() / 1e3;
                (elapsed, fraction.filter(|fraction| *fraction > 0.0).map(|fraction| elapsed / fraction))
            }
        };
        self.last = progress.max(self.last + STEP);
        let mut reported = ProgressNotificationParam::new(self.subscriber.token.clone(), self.last).with_message(message);
        reported.total = total;
        // The call continues without its reader, because the payment may be settling.
        _ = self.subscriber.peer.notify_progress(reported).await;
    }
}
