//! What is looked after beside the commits.

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

/// What the threads beside work on.
pub(super) struct Kept {
    pub(super) store: PathBuf,
    pub(super) config: SledConfig,
    pub(super) moment: Arc<Moment>,
    pub(super) counts: Arc<Counts>,
    pub(super) standing: Arc<Standing>,
    pub(super) left: Left,
    /// Held by whoever reads frames that the journal is to keep.
    pub(super) frames: Arc<Mutex<()>>,
    pub(super) queue: WeakSender<Job>,
}

impl Kept {
    /// The room on its disk.
    pub(super) fn room(&self) -> Room {
        footing::room(&self.store, &self.config)
    }
}
