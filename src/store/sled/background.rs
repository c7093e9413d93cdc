//! The state that the threads of a store share, and the commits queued for its writing thread.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc::WeakSender, oneshot};

use super::{
    SledConfig,
    common::{self, RemainingCheck},
    health::StoreHealth,
    read_guard::TreeHandle,
};
use crate::{
    Batch, Durability, StoreError,
    journal::{DiskSpace, WriterCounts},
};

/// A commit queued for the writing thread.
pub(super) struct CommitJob {
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    pub(super) answer: CommitReply,
    /// Its share of the queue's room, held until it is answered. `None` for a commit without rows.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) type CommitReply = oneshot::Sender<Result<Vec<i128>, StoreError>>;

/// The state that the background threads work on.
pub(super) struct BackgroundState {
    pub(super) store: PathBuf,
    pub(super) config: SledConfig,
    pub(super) handle: Arc<TreeHandle>,
    pub(super) counts: Arc<WriterCounts>,
    pub(super) health: Arc<StoreHealth>,
    pub(super) remaining: RemainingCheck,
    /// While this is locked, the journal keeps all frames.
    pub(super) frames: Arc<Mutex<()>>,
    pub(super) queue: WeakSender<CommitJob>,
}

impl BackgroundState {
    /// Returns the free space on the store's disk.
    pub(super) fn room(&self) -> DiskSpace {
        common::room(&self.store, &self.config)
    }
}
