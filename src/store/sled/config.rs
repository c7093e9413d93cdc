//! How the store is opened, and why it is not.

use std::{path::PathBuf, time::Duration};

use super::values;

/// Settings of the store on disk.
#[derive(Debug, Clone)]
pub struct SledConfig {
    /// Memory for pages read before, in bytes. Default: 64 MiB.
    pub cache_bytes: u64,
    /// How long to wait for another process to let go of the folder. Default: 1 s.
    pub lock_patience: Duration,
}

impl Default for SledConfig {
    fn default() -> Self {
        Self { cache_bytes: 64 * 1024 * 1024, lock_patience: Duration::from_secs(1) }
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum OpenError {
    #[error("the store at `{}` is in use by another process; stop that one first, or name another data folder", .0.display())]
    Locked(PathBuf),
    #[error("the store at `{}` is damaged ({detail}); keep a copy of the folder, then restore the newest backup over it", path.display())]
    Corrupt { path: PathBuf, detail: String },
    #[error("the store at `{}` has format {found}, this version reads {}; run the version that wrote it", path.display(), values::FORMAT)]
    Format { path: PathBuf, found: String },
    #[error("cannot open the store at `{}`", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
