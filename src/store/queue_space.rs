//! Limits how much may wait to be written.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Batch;

/// Maximum bytes of queued commits before callers wait for room. A single commit may be larger.
const BYTES: usize = 64 << 20;

/// The unit of that limit, in bytes.
const UNIT: usize = 1 << 10;

/// The room left in the queue.
#[derive(Debug)]
pub(super) struct QueueSpace(Arc<Semaphore>);

impl QueueSpace {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BYTES / UNIT)))
    }

    /// Waits until there is room for `batch`. A batch larger than the limit waits until the queue is empty.
    pub(super) async fn of(&self, batch: &Batch) -> Option<OwnedSemaphorePermit> {
        let units = (batch.bytes() / UNIT + 1).min(BYTES / UNIT);
        Arc::clone(&self.0).acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX)).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{Space, Write};

    #[tokio::test]
    async fn queued_commits_are_limited_in_bytes_and_a_larger_one_waits_alone() {
        let batch = |bytes: usize| Batch::of(vec![], vec![Write { space: Space::Kv, key: b"k".to_vec(), value: Some(vec![0; bytes]) }]);
        let room = QueueSpace::new();
        let (small, half, large) = (batch(10), batch(BYTES / 2), batch(2 * BYTES));
        let first = room.of(&half).await.unwrap();
        let second = room.of(&small).await.unwrap();
        assert!(room.of(&half).now_or_never().is_none());
        drop(first);
        assert!(room.of(&large).now_or_never().is_none());
        let third = room.of(&half).now_or_never().flatten();
        assert!(third.is_some());
        drop((second, third));
        let alone = room.of(&large).now_or_never().flatten();
        assert!(alone.is_some() && room.of(&small).now_or_never().is_none());
    }
}
