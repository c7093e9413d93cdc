//! Paths: the repository, Cargo's home folder, the target folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Failure, args::from_env};

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = from_env("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").to_owned());
    PathBuf::from(xtask).parent().map(PathBuf::from).unwrap_or_default()
}

/// Returns the packages of the host: the one of the binary, and the crates in `src`.
pub(crate) fn packages() -> Result<Vec<String>, Failure> {
    let source = root().join("src");
    let folders = fs::read_dir(&source).map_err(|reason| format!("cannot list {}: {reason}", source.display()))?;
    let crates = folders.flatten().filter(|folder| folder.path().join("Cargo.toml").is_file());
    let mut names: Vec<_> = crates.map(|folder| format!("tollhouse-{}", folder.file_name().to_string_lossy())).collect();
    names.push("tollhouse".to_owned());
    names.sort_unstable();
    Ok(names)
}

/// Returns the target folder into which this program was built. Cargo leaves its tag there.
pub(crate) fn target() -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|exe| exe.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(PathBuf::from))
        .unwrap_or_else(|| root().join("target"))
}

/// Returns Cargo's home folder, found as Cargo does.
pub(crate) fn cargo_home() -> PathBuf {
    from_env("CARGO_HOME").map(PathBuf::from).unwrap_or_else(|| PathBuf::from(from_env("HOME").unwrap_or_default()).join(".cargo"))
}

/// Reads a text file.
pub(crate) fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|reason| format!("cannot read {}: {reason}", file.display()))
}
