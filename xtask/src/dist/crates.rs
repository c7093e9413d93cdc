//! The crates that are linked into host and worker.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{Failure, engine::Engine, paths, shell};

/// A crate from a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SPDX expression in its manifest.
    pub(crate) license: String,
    /// Hex checksum of its archive, from `Cargo.lock`.
    pub(crate) sha256: Option<String>,
    /// Its source folder, if it is unpacked.
    pub(crate) source: Option<PathBuf>,
}

/// Returns the crates of the host and of this engine's worker, by name and version. Crates that are
/// used only in builds or tests are left out.
pub(crate) fn linked(engine: Engine) -> Result<Vec<Crate>, Failure> {
    let mut found = BTreeMap::new();
    let quickjs = ["--no-default-features", "--features", "quickjs"];
    for (package, features) in [("tollhouse", &[][..]), ("tollhouse-worker", if engine == Engine::QuickJs { &quickjs[..] } else { &[] })] {
        let mut cargo =
            shell::cargo(&["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}|{l}", "--package", package]);
        let reported = shell::output(cargo.args(features)).ok_or_else(|| format!("`cargo tree --package {package}` failed"))?;
        found.extend(reported.lines().filter_map(read));
    }
    let lock = paths::read(&paths::root().join("Cargo.lock"))?;
    let sums = checksums(&lock);
    let sources = sources();
    let crates = found.into_iter().map(|((name, version), license)| {
        let sha256 = sums.get(&(name.clone(), version.clone())).cloned();
        let source = sources.iter().map(|registry| registry.join(format!("{name}-{version}"))).find(|source| source.is_dir());
        Crate { name, version, license, sha256, source }
    });
    // Crates of the workspace are the release itself.
    Ok(crates.filter(|one| one.sha256.is_some()).collect())
}

/// Parses a line, for example `name v1.2.3 (proc-macro)|MIT (*)`.
fn read(line: &str) -> Option<((String, String), String)> {
    let (package, license) = line.split_once('|')?;
    let mut words = package.split_ascii_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some(((name.to_owned(), version.to_owned()), license.trim_end_matches(" (*)").trim().replace('/', " OR ")))
}

/// Returns the checksums in a `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let of = |entry: &str| {
        let value =
            |key: &str| entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')).map(str::to_owned);
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

/// Returns the folders with unpacked crates of registries.
fn sources() -> Vec<PathBuf> {
    let folder = paths::cargo_home().join("registry/src");
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = listed.filter(|path: &PathBuf| Path::is_dir(path)).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_tree_and_entries_of_a_lock_are_read() {
        let of = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert_eq!(read("serde v1.0.2 (proc-macro)|MIT/Apache-2.0 (*)"), Some((of("serde", "1.0.2"), "MIT OR Apache-2.0".to_owned())));
        assert_eq!(read("no line"), None);
        let lock =
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        assert_eq!(checksums(lock), BTreeMap::from([(of("a", "1.0.0"), "ff".to_owned())]));
    }
}
