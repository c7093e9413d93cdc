//! Options of a measurement.

use std::path::PathBuf;

/// Options from xtask.
pub(crate) struct Options {
    pub(crate) subject: String,
    pub(crate) host: PathBuf,
    pub(crate) worker: PathBuf,
    pub(crate) engine: String,
    pub(crate) seconds: u64,
    /// Whether to check only that each row of `victims` works, without measuring.
    pub(crate) short: bool,
    /// Parts of the names of the rows of `victims` that are measured. Empty means all.
    pub(crate) only: Vec<String>,
    /// Receipts of the longest history.
    pub(crate) max: u64,
    /// Node, and the folder of the clients that the subject needs.
    pub(crate) node: PathBuf,
    pub(crate) clients: PathBuf,
    /// The folder of the standard middleware.
    pub(crate) express: PathBuf,
}
