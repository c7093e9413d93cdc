//! Lets only one `dev` at a time serve a folder, and lets other commands find it.

use std::{
    env,
    fs::{self, File, OpenOptions},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process,
};

use reqwest::Url;
use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};
use serde::{Deserialize, Serialize};

use crate::base::{Error, Result, is_loopback, private_files};

/// The address that a running `dev` publishes.
#[derive(Debug, Serialize, Deserialize)]
struct LockInfo {
    url: String,
    pid: u32,
}

/// A lock on serving a folder. It is released when the process ends in any way.
#[derive(Debug)]
pub(super) struct FolderLock {
    file: PathBuf,
    _lock: File,
}

fn lock(folder: &Path) -> PathBuf {
    folder.join(".tollhouse/dev.lock")
}

fn note(folder: &Path) -> PathBuf {
    folder.join(".tollhouse/dev.json")
}

impl FolderLock {
    /// Locks the folder.
    ///
    /// # Errors
    ///
    /// Another process serves it. The message names that process.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let path = lock(folder);
        private_files::make_folder(&folder.join(".tollhouse"))?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let who = read(folder).map(|here| format!(": {} (process {})", here.url, here.pid)).unwrap_or_default();
            return Err(Error::refused(format!("another `tollhouse dev` already serves this folder{who}")));
        }
        // Remove the note of a process that was killed.
        _ = fs::remove_file(note(folder));
        Ok(Self { file: note(folder), _lock: file })
    }

    /// Publishes the address.
    pub(super) fn announce(&self, url: &str) -> Result {
        let here = LockInfo { url: url.to_owned(), pid: process::id() };
        let text = serde_json::to_string(&here).map_err(|error| Error::refused(error.to_string()))?;
        Ok(private_files::replace(&self.file, &text, 0o644)?)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.file);
    }
}

/// Finds the `dev` of this user that serves the current folder or one of its parents.
pub(super) fn here() -> Option<(PathBuf, Url)> {
    let here = env::current_dir().ok()?;
    let folder = here.ancestors().find(|folder| note(folder).is_file())?;
    // A file that another user put into a parent folder must not decide which host is used.
    if fs::metadata(note(folder)).ok()?.uid() != geteuid().as_raw() || is_free(folder) {
        return None;
    }
    let url = Url::parse(&read(folder)?.url).ok().filter(is_loopback)?;
    Some((folder.to_owned(), url))
}

/// Returns whether no process serves the folder. A process that was killed leaves its note behind, and a copied folder may
/// contain one.
fn is_free(folder: &Path) -> bool {
    !File::open(lock(folder)).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn read(folder: &Path) -> Option<LockInfo> {
    serde_json::from_str(&private_files::read(&note(folder)).ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_served_by_one_process() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_free(folder.path()));
        let held = FolderLock::take(folder.path()).unwrap();
        assert!(!is_free(folder.path()) && FolderLock::take(folder.path()).is_err());
        drop(held);
        assert!(lock(folder.path()).is_file() && is_free(folder.path()));
    }
}
