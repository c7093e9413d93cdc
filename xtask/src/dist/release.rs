//! The inputs of all parts of a release.

use std::path::PathBuf;

use super::crates::Crate;

/// The inputs of a release.
pub(crate) struct Release {
    pub(crate) version: String,
    /// The architecture, by Debian's name.
    pub(crate) arch: String,
    /// The time of every file, in seconds since 1970.
    pub(crate) epoch: u64,
    pub(crate) host: PathBuf,
    pub(crate) worker: PathBuf,
    pub(crate) crates: Vec<Crate>,
    /// The folder of all results.
    pub(crate) folder: PathBuf,
    /// Whether to pack faster, with a larger result.
    pub(crate) quick: bool,
}

impl Release {
    /// Returns the name of the folder in the tarball.
    pub(crate) fn name(&self) -> String {
        format!("tollhouse-{}-linux-{}", self.version, self.arch)
    }

    pub(crate) fn tarball(&self) -> PathBuf {
        self.folder.join(format!("{}.tar.xz", self.name()))
    }
}
