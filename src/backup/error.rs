//! Errors of making and restoring backups.

use std::{io, path::PathBuf};

use tollhouse_store::{StoreError, dump::DumpError, import::FillError};

/// Why a backup cannot be made or restored. Each is one sentence, with its cause as the source.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each error message describes its variant")]
pub enum BackupError {
    #[error("the store could not be copied")]
    Store(#[from] StoreError),
    #[error("the rows could not be written to the store")]
    Fill(#[from] FillError),
    #[error("the dump `{}` is not usable", path.display())]
    Dump {
        path: PathBuf,
        #[source]
        source: DumpError,
    },
    #[error("the dump could not be written")]
    Written(#[source] DumpError),
    #[error("`{}` cannot be read or written", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is the host's data folder; put the backup into another folder", .0.display())]
    Own(PathBuf),
    #[error("another backup is being written to `{}`", .0.display())]
    Busy(PathBuf),
    #[error("`{}` does not contain a dump", .0.display())]
    NoDump(PathBuf),
    #[error("the host ended the copy early; its log has the reason")]
    CutOff,
    #[error("the host refused the request: {0}")]
    Refused(String),
    #[error(
        "the backup is of a host with the {what} key `{theirs}`, but {ours}: put that host's `{file}` into the data folder, or set the key in the \
         environment, and restore again"
    )]
    Key { what: &'static str, file: &'static str, theirs: String, ours: String },
    #[error("the store is not empty, and nothing was changed: use another data folder or database, or empty this one")]
    NotEmpty,
    #[error("the target contains only a part of a store ({0}): if no host uses the target, empty it, and start again")]
    Unfinished(String),
}

impl BackupError {
    /// Converts an I/O error at a path.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
