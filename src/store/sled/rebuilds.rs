//! Decides when the tree is renewed, and reports the outcome.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{background::BackgroundState, common::is_loose, rebuild::rebuild, tree};
use crate::StoreError;

/// Delay after a failed renewal. It doubles with each further failure.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// The longest such delay.
const MAX_DELAY: Duration = Duration::from_secs(3_600);
/// Another renewal is due once the tree has grown to this multiple of the size after the last one, so that space sled
/// needs for these rows is not renewed again and again.
const GROWN: u64 = 2;

/// The sender for the outcome of a requested renewal.
pub(super) type RebuildRequester = oneshot::Sender<Result<(), StoreError>>;

/// A request to run now.
pub(super) enum RebuildRequest {
    /// Renew the tree.
    Renewal(RebuildRequester),
    /// Make a checkpoint, remove what it replaces, then renew the tree.
    Compaction(RebuildRequester),
}

/// Runs the renewals of a store's tree, one after the other.
pub(super) struct Rebuilds {
    background: Arc<BackgroundState>,
    not_before: Instant,
    pause: Duration,
    /// Size on disk after the last renewal, in bytes.
    remaining: u64,
}

impl Rebuilds {
    pub(super) fn new(background: Arc<BackgroundState>) -> Self {
        Self { background, not_before: Instant::now(), pause: RETRY_AFTER, remaining: 0 }
    }

    /// Renews the tree if it is due or requested.
    pub(super) fn look(&mut self, ended: &AtomicBool, reply: Option<RebuildRequester>) {
        if reply.is_none() && (Instant::now() < self.not_before || !self.is_due()) {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| rebuild(&self.background, ended)));
        let outcome = outcome.unwrap_or_else(|_| Err(StoreError::Away("a tree stopped".to_owned())));
        match &outcome {
            // The store is being closed. Log nothing.
            Err(_) if ended.load(Relaxed) => {}
            Err(error) => self.failed(error),
            Ok(()) => self.done(),
        }
        if let Some(reply) = reply {
            // The caller may have gone.
            _ = reply.send(outcome);
        }
    }

    fn is_due(&self) -> bool {
        let bytes = self.bytes();
        let rows = self.background.handle.still().totals.bytes();
        let loose = is_loose(bytes, rows, &self.background.config) && bytes > GROWN * self.remaining;
        loose && self.background.health.check().is_ok() && !tree::is_distrusted(&self.background.store)
    }

    fn bytes(&self) -> u64 {
        // If the size is unknown, assume that it has not grown.
        self.background.handle.tree().size_on_disk().unwrap_or_default()
    }

    fn done(&mut self) {
        (self.pause, self.remaining) = (RETRY_AFTER, self.bytes());
        self.background.health.grows(None);
        tracing::info!(bytes = self.remaining, "a new tree has replaced the store's, which was much larger than its rows");
    }

    fn failed(&mut self, error: &StoreError) {
        self.not_before = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_DELAY);
        if self.background.health.grows(Some(error.to_string())).is_none() {
            tracing::error!(%error, "the store's tree is much larger than its rows and could not be rebuilt; the host will try again");
        }
    }
}
