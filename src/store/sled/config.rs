//! Settings of the store, and errors of opening it.

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use super::values;
use crate::journal::{FreeSpaceFn, JournalDamage, query_system};

/// Settings of the store on disk.
#[derive(Clone)]
pub struct SledConfig {
    /// Cache size for pages that were read, in bytes on disk. In memory they take several times as much. Default: 24
    /// MiB.
    pub cache_bytes: u64,
    /// How long to wait for another process to release the folder. Default: 1 s.
    pub lock_timeout: Duration,
    /// Maximum bytes of a journal segment, unless a single commit is longer. The first segment is smaller. Default: 64
    /// MiB.
    pub segment_bytes: u64,
    /// Bytes of frames after which a new checkpoint is made, if all rows together are smaller. Default: 256 MiB.
    pub checkpoint_bytes: u64,
    /// Approximate bytes of the journal and of rows that are verified before the store opens. The rest is verified
    /// while it runs. Default: 256 MiB.
    pub start_bytes: u64,
    /// Size of the tree on disk above which it is replaced by a new one, in bytes, if it is also more than eight times
    /// the size of all rows. Default: 512 MiB.
    pub tree_bytes: u64,
    /// Minimum free space on the disk, in bytes. Below it, commits are refused. Default: 128 MiB.
    pub reserved_bytes: u64,
    /// Returns the free space on the disk. Tests simulate a full disk with it. Default: the system's answer.
    pub free_bytes: FreeSpaceFn,
    /// Called before each `fdatasync` of commits. Tests use it to look at the state before a sync and to make syncs
    /// fail.
    pub before_sync: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
}

impl Default for SledConfig {
    fn default() -> Self {
        Self {
            cache_bytes: 24 * 1024 * 1024,
            lock_timeout: Duration::from_secs(1),
            segment_bytes: 64 * 1024 * 1024,
            checkpoint_bytes: 256 * 1024 * 1024,
            start_bytes: 256 * 1024 * 1024,
            tree_bytes: 512 * 1024 * 1024,
            reserved_bytes: 128 * 1024 * 1024,
            free_bytes: Arc::new(query_system),
            before_sync: Arc::new(|| Ok(())),
        }
    }
}

impl fmt::Debug for SledConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledConfig").finish_non_exhaustive()
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each error message describes its variant")]
pub enum OpenError {
    #[error("the store at `{}` is in use by another process; stop that process first, or use another data folder", .0.display())]
    Locked(PathBuf),
    #[error("the store at `{}` is damaged ({detail}); keep a copy of the folder, then restore the newest backup over it", path.display())]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "the store at `{}` is damaged: {damage}. Nothing was changed. Keep a copy of the folder, then restore the newest backup over it, \
         or check with `tollhouse store repair` which rows it would drop",
        path.display()
    )]
    Damaged { path: PathBuf, damage: Box<JournalDamage> },
    #[error(
        "the store at `{}` cannot be repaired: {damage}. The tree is missing or damaged, and checkpoint and journal cannot rebuild it \
         (the archive has only rows of money). Nothing was changed. Restore the newest backup",
        path.display()
    )]
    Unrepairable { path: PathBuf, damage: Box<JournalDamage> },
    #[error(
        "the archive of the store at `{}` is damaged: {damage}. Restore the file from a copy of the data folder, or record the gap with \
         `tollhouse store repair`",
        path.display()
    )]
    Archive { path: PathBuf, damage: Box<JournalDamage> },
    #[error("the store at `{}` has format {found}, but this version reads {}; run the version that wrote it", path.display(), values::FORMAT)]
    Format { path: PathBuf, found: String },
    #[error("cannot open the store at `{}`", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
