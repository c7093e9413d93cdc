//! `ctx.progress`: messages to a caller while its call runs.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

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
    hear: Box<dyn Fn(ProgressUpdate) + Send + Sync>,
    pace: Mutex<MessageRate>,
}

/// The messages of the current second.
#[derive(Debug)]
struct MessageRate {
    since: Instant,
    sent: u64,
}

impl Listener {
    pub(super) fn new(hear: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self { hear: Box::new(hear), pace: Mutex::new(MessageRate { since: Instant::now(), sent: 0 }) }
    }

    /// Passes a message on, unless there were too many within a second.
    pub(super) fn on_update(&self, text: &ProgressMessage, limits: &Limits, redactor: &Redactor) {
        let in_time = self.pace.lock().unwrap_or_else(PoisonError::into_inner).admit(limits.progress_per_second);
        if in_time {
            (self.hear)(ProgressUpdate { message: message(text, limits, redactor), fraction: text.fraction });
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("pace", &self.pace).finish_non_exhaustive()
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

fn message(text: &ProgressMessage, limits: &Limits, redactor: &Redactor) -> String {
    // The worker cuts at the limit, possibly within a character or a secret.
    let cut = text.message.len() as u64 + 4 >= limits.progress_bytes;
    let message = sanitize(&text.message);
    if cut { redactor.redact_cut(&message) } else { redactor.redact(&message) }.into_owned()
}
