//! Commits on their way to the writing thread.

use tokio::sync::oneshot;

use crate::store::{Batch, Durability, StoreError};

/// A commit on its way to the writing thread.
pub(super) struct Job {
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    pub(super) answer: Answer,
}

pub(super) type Answer = oneshot::Sender<Result<Vec<i128>, StoreError>>;
