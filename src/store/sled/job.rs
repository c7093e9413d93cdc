//! Commits on their way to the writing thread.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{Batch, Durability, StoreError};

/// A commit on its way to the writing thread.
pub(super) struct Job {
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    pub(super) answer: Answer,
    /// What it takes of the queue, until it is answered. `None` for one without rows.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) type Answer = oneshot::Sender<Result<Vec<i128>, StoreError>>;
