//! Runs cargo-mutants on this repository.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// cargo-mutants, the copy of the tree to change, and its target folder.
pub(crate) struct Cargo {
    pub(crate) program: PathBuf,
    pub(crate) copy: PathBuf,
    pub(crate) target: PathBuf,
}

impl Cargo {
    pub(crate) fn mutants(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("mutants").current_dir(&self.copy);
        command
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(PathBuf::from).unwrap_or_default()
}
