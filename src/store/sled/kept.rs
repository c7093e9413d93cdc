//! The state that the background threads work on.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::{Mutex, mpsc::WeakSender};

use super::{
    SledConfig,
    footing::{self, Left},
    job::Job,
    moment::Moment,
    standing::Standing,
};
use crate::journal::{Counts, Room};

/// The state that the background threads work on.
pub(super) struct Kept {
    pub(super) store: PathBuf,
    pub(super) config: SledConfig,
    pub(super) moment: Arc<Moment>,
    pub(super) counts: Arc<Counts>,
    pub(super) standing: Arc<Standing>,
    pub(super) left: Left,
    /// Locked while frames are read that the journal must keep.
    pub(super) frames: Arc<Mutex<()>>,
    pub(super) queue: WeakSender<Job>,
}

impl Kept {
    /// Returns the free space on the store's disk.
    pub(super) fn room(&self) -> Room {
        footing::room(&self.store, &self.config)
    }
}
