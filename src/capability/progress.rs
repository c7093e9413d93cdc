//! `ctx.progress`: messages to a caller while its call runs.

use std::time::{Duration, Instant};

use tollhouse_base::lock::Lock;
use tollhouse_protocol::{Limits, ProgressMessage};

use super::{Redactor, log::sanitize};

/// A progress message, cleaned and redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// The text, redacted.
    pub message: String,
    /// The completed fraction, from 0 to 1.
    pub fraction: Option<f64>,
}

/// Receives a call's messages, with a rate limit.
pub(super) struct Listener {
    on_update: Box<dyn Fn(ProgressUpdate) + Send + Sync>,
    rate: Lock<MessageRate>,
}

/// The messages of the current second.
#[derive(Debug)]
struct MessageRate {
    since: Instant,
    sent: u64,
}

impl Listener {
    pub(super) fn new(on_update: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self { on_update: Box::new(on_update), rate: Lock::new(MessageRate { since: Instant::now(), sent: 0 }) }
    }

    /// Passes a message on, unless there were too many within a second.
    pub(super) fn update(&self, text: &ProgressMessage, limits: &Limits, redactor: &Redactor) {
        let is_admitted = self.rate.lock().admit(limits.progress_per_second);
        if is_admitted {
            let message = redactor.redact_limited(&text.message, &sanitize(&text.message), limits.progress_bytes);
            (self.on_update)(ProgressUpdate { message, fraction: text.fraction });
        }
    }
}

impl MessageRate {
    fn admit(&mut self, limit: u64) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self { since: Instant::now(), sent: 0 };
        }
        self.sent += 1;
        self.sent <= limit
    }
}
