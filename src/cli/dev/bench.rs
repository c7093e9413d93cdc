//! The context of `dev` for one folder.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Mutex;
use tollhouse_tool::MicroUsd;

use super::{known::Known, tell::Teller};
use crate::local::Local;

/// The context of `dev` for one folder.
pub(super) struct Bench {
    pub(super) folder: PathBuf,
    pub(super) price: Option<MicroUsd>,
    pub(super) env: Option<PathBuf>,
    pub(super) types: bool,
    pub(super) host: Arc<Local>,
    pub(super) teller: Teller,
    /// Locked while something is published.
    pub(super) known: Mutex<Known>,
}
