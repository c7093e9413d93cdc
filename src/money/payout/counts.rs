//! How many packets there are of each state: counted when somebody asks, and again once one has changed.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::sync::Mutex;

use super::status::Status;
use crate::store::StoreError;

/// Packets by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "each is named as its state")]
pub struct Counts {
    pub collecting: u64,
    pub created: u64,
    pub approved: u64,
    pub paid: u64,
    pub failed: u64,
}

impl Counts {
    /// One more.
    pub(super) fn add(&mut self, status: Status) {
        *match status {
            Status::Collecting => &mut self.collecting,
            Status::Created => &mut self.created,
            Status::Approved => &mut self.approved,
            Status::Paid => &mut self.paid,
            Status::Failed => &mut self.failed,
        } += 1;
    }
}

/// What was counted last.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// How often a packet may have changed.
    changes: AtomicU64,
    /// After so many changes, what there was.
    known: Mutex<Option<(u64, Counts)>>,
}

impl Counted {
    /// A packet was changed, or may have been: what was begun before is counted again.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// What there is, by `count` where that is not known.
    pub(super) async fn counts(&self, count: impl Future<Output = Result<Counts, StoreError>>) -> Result<Counts, StoreError> {
        let mut known = self.known.lock().await;
        let changes = self.changes.load(Ordering::SeqCst);
        if let Some((after, counts)) = *known
            && after == changes
        {
            return Ok(counts);
        }
        let counts = count.await?;
        *known = Some((changes, counts));
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn packets_are_counted_once_and_again_after_a_change() {
        let counted = Counted::default();
        let of = |statuses: &'static [Status]| {
            let counted = counted.counts(async {
                let mut counts = Counts::default();
                statuses.iter().for_each(|status| counts.add(*status));
                Ok(counts)
            });
            async { counted.await.unwrap() }
        };
        let first = Counts { created: 2, paid: 1, ..Counts::default() };
        assert_eq!(of(&[Status::Created, Status::Paid, Status::Created]).await, first);
        assert_eq!(of(&[Status::Failed]).await, first, "none has changed");
        counted.changed();
        assert_eq!(of(&[Status::Failed]).await, Counts { failed: 1, ..Counts::default() });
    }
}
