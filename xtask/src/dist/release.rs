//! What all parts of a release are made from.

use std::path::PathBuf;

use super::crates::Crate;

/// What a release is made of.
pub(crate) struct Release {
    pub(crate) version: String,
    /// As Debian names it.
    pub(crate) arch: String,
    /// Seconds since 1970 that every file is of.
    pub(crate) epoch: u64,
    pub(crate) host: PathBuf,
    pub(crate) worker: PathBuf,
    pub(crate) crates: Vec<Crate>,
    /// Where all is made.
    pub(crate) folder: PathBuf,
    /// Whether it is packed in less time, into more bytes.
    pub(crate) quick: bool,
}

impl Release {
    /// What the folder in the tarball is called.
    pub(crate) fn name(&self) -> String {
        format!("tollhouse-{}-linux-{}", self.version, self.arch)
    }

    /// Where the tarball is.
    pub(crate) fn tarball(&self) -> PathBuf {
        self.folder.join(format!("{}.tar.xz", self.name()))
    }
}
