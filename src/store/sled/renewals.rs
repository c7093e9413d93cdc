//! When the tree is renewed, and what is told of it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{footing::is_loose, kept::Kept, renew::renew, tree};
use crate::StoreError;

/// After a renewal that failed; twice as long after each that follows.
const AGAIN: Duration = Duration::from_secs(60);
/// The longest such pause.
const LONGEST: Duration = Duration::from_secs(3_600);
/// So many times what the last renewal left is due for another: what sled needs for these rows is not renewed again and again.
const GROWN: u64 = 2;

/// Who asks for a renewal, and is told how it went.
pub(super) type Ask = oneshot::Sender<Result<(), StoreError>>;

/// What is asked for at once.
pub(super) enum Asked {
    /// Another tree.
    Renewal(Ask),
    /// Another checkpoint first, and let go of what is before it.
    Compaction(Ask),
}

/// Renewals of a store's tree, one after the other.
pub(super) struct Renewals {
    kept: Arc<Kept>,
    not_before: Instant,
    pause: Duration,
    /// What the last one left on disk, in bytes.
    left: u64,
}

impl Renewals {
    pub(super) fn new(kept: Arc<Kept>) -> Self {
        Self { kept, not_before: Instant::now(), pause: AGAIN, left: 0 }
    }

    /// Renews the tree if it is due, or somebody asks for it.
    pub(super) fn look(&mut self, ended: &AtomicBool, ask: Option<Ask>) {
        if ask.is_none() && (Instant::now() < self.not_before || !self.is_due()) {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| renew(&self.kept, ended)));
        let outcome = outcome.unwrap_or_else(|_| Err(StoreError::Away("a tree stopped".to_owned())));
        match &outcome {
            // Who closes the store is told nothing.
            Err(_) if ended.load(Relaxed) => {}
            Err(error) => self.failed(error),
            Ok(()) => self.done(),
        }
        if let Some(ask) = ask {
            // Whoever asked may have gone.
            _ = ask.send(outcome);
        }
    }

    fn is_due(&self) -> bool {
        let bytes = self.bytes();
        let rows = self.kept.moment.still().totals.bytes();
        let loose = is_loose(bytes, rows, &self.kept.config) && bytes > GROWN * self.left;
        loose && self.kept.standing.check().is_ok() && !tree::is_distrusted(&self.kept.store)
    }

    fn bytes(&self) -> u64 {
        // One that does not say how large it is has not grown.
        self.kept.moment.tree().size_on_disk().unwrap_or_default()
    }

    fn done(&mut self) {
        (self.pause, self.left) = (AGAIN, self.bytes());
        self.kept.standing.grows(None);
        tracing::info!(bytes = self.left, "another tree took the place of the store's, which was much larger than what it holds");
    }

    fn failed(&mut self, error: &StoreError) {
        self.not_before = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
        if self.kept.standing.grows(Some(error.to_string())).is_none() {
            tracing::error!(%error, "the store's tree, much larger than what it holds, could not be made anew; it goes on, and that is tried again");
        }
    }
}
