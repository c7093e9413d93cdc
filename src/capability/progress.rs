//! `ctx.progress`: messages to a caller while its call runs.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tollhouse_protocol::{Limits, Said};

use super::{Redactor, log::clean};

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
    pace: Mutex<Pace>,
}

/// The messages of the current second.
#[derive(Debug)]
struct Pace {
    since: Instant,
    heard: u64,
}

impl Listener {
    pub(super) fn new(hear: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self { hear: Box::new(hear), pace: Mutex::new(Pace { since: Instant::now(), heard: 0 }) }
    }

    /// Passes a message on, unless there were too many within a second.
    pub(super) fn hear(&self, said: &Said, limits: &Limits, redactor: &Redactor) {
        let in_time = self.pace.lock().unwrap_or_else(PoisonError::into_inner).admit(limits.progress_per_second);
        if in_time {
            (self.hear)(ProgressUpdate { message: message(said, limits, redactor), fraction: said.fraction });
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("pace", &self.pace).finish_non_exhaustive()
    }
}

impl Pace {
    fn admit(&mut self, limit: u64) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self { since: Instant::now(), heard: 0 };
        }
        self.heard += 1;
        self.heard <= limit
    }
}

fn message(said: &Said, limits: &Limits, redactor: &Redactor) -> String {
    // The worker cuts at the limit, possibly within a character or a secret.
    let cut = said.message.len() as u64 + 4 >= limits.progress_bytes;
    let message = clean(&said.message);
    if cut { redactor.redact_cut(&message) } else { redactor.redact(&message) }.into_owned()
}
