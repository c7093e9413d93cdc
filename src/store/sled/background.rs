//! The state that the background threads work on.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::{Mutex, mpsc::WeakSender};

use super::{
    SledConfig,
    common::{self, RemainingCheck},
    health::StoreHealth,
    job::CommitJob,
    read_guard::TreeHandle,
};
use crate::journal::{DiskSpace, WriterCounts};

/// The state that the background threads work on.
pub(super) struct BackgroundState {
    pub(super) store: PathBuf,
    pub(super) config: SledConfig,
    pub(super) moment: Arc<TreeHandle>,
    pub(super) counts: Arc<WriterCounts>,
    pub(super) standing: Arc<StoreHealth>,
    pub(super) remaining: RemainingCheck,
    /// Locked while frames are read that the journal must keep.
    pub(super) frames: Arc<Mutex<()>>,
    pub(super) queue: WeakSender<CommitJob>,
}

impl BackgroundState {
    /// Returns the free space on the store's disk.
    pub(super) fn room(&self) -> DiskSpace {
        common::room(&self.store, &self.config)
    }
}
