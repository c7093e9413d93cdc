//! Temporary folders below `.tollhouse`, for as long as a command runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates a folder. Also removes those of processes that were killed.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let own = folder.join(".tollhouse");
        sweep(&own);
        let path = own.join(format!("{PREFIX}{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&path).map_err(|error| format!("`{}` cannot be created: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

const PREFIX: &str = "tmp-";

fn sweep(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let remaining = folder.path().join(".tollhouse/tmp-4194399-0");
        fs::create_dir_all(&remaining).unwrap();
        let one = TempFolder::new(folder.path()).unwrap();
        let other = TempFolder::new(folder.path()).unwrap();
        assert!(!remaining.exists() && one.path().is_dir() && one.path() != other.path());
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().is_dir());
    }
}
