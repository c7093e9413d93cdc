//! The context of `dev` for one folder.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Mutex;
use tollhouse_tool::MicroUsd;

use super::{last_upload::LastUpload, reporter::Reporter};
use crate::local::LocalHost;

/// The context of `dev` for one folder.
pub(super) struct Workspace {
    pub(super) folder: PathBuf,
    pub(super) price: Option<MicroUsd>,
    pub(super) env: Option<PathBuf>,
    pub(super) types: bool,
    pub(super) host: Arc<LocalHost>,
    pub(super) teller: Reporter,
    /// Locked while something is published.
    pub(super) known: Mutex<LastUpload>,
}
