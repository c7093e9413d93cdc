//! Commits queued for the writing thread.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{Batch, Durability, StoreError};

/// A commit queued for the writing thread.
pub(super) struct CommitJob {
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    pub(super) answer: CommitReply,
    /// Its share of the queue's room, held until it is answered. `None` for a commit without rows.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) type CommitReply = oneshot::Sender<Result<Vec<i128>, StoreError>>;
