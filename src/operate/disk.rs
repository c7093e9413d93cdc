//! What the data folder takes on the disk, and what is left there: looked at now and then, off the runtime's threads.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, Weak},
    time::{Duration, Instant},
};

use serde::Serialize;

/// Shortest time between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// How much longer than a look the time to the next one is: looking takes at most this share of one core.
const SPARING: u32 = 50;
/// Bytes of a block, as the system counts what a file takes.
const BLOCK: u64 = 512;

/// What was found at the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskUsage {
    /// Of the data folder, in bytes; what follows is part of it.
    pub used_bytes: u64,
    /// Of the store's files.
    pub store_bytes: u64,
    /// Content of the tools' files.
    pub files_bytes: u64,
    /// What may still be written on the disk that the folder is on.
    pub free_bytes: u64,
}

/// The data folder's disk.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    found: RwLock<DiskUsage>,
}

impl Disk {
    /// Looks for the first time, and goes on as long as anybody holds the value. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(folder: &Path) -> Arc<Self> {
        let disk = Arc::new(Self { folder: folder.to_owned(), found: RwLock::default() });
        let weak = Arc::downgrade(&disk);
        tokio::spawn(async move {
            while let Some(disk) = Weak::upgrade(&weak) {
                let took = tokio::task::spawn_blocking(move || {
                    let begun = Instant::now();
                    disk.look();
                    begun.elapsed()
                });
                let pause = took.await.unwrap_or(EVERY).saturating_mul(SPARING).max(EVERY);
                tokio::time::sleep(pause).await;
            }
        });
        disk
    }

    /// What was found at the last look; zeros before the first.
    #[must_use]
    pub fn usage(&self) -> DiskUsage {
        *self.found.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let [store_bytes, files_bytes] = ["store", "files"].map(|part| taken(&self.folder.join(part)));
        let free = rustix::fs::statvfs(&self.folder).map(|disk| disk.f_bavail * disk.f_frsize);
        let free_bytes = free.unwrap_or_else(|error| {
            tracing::warn!(%error, "the disk of the data folder does not say what is free");
            0
        });
        let others = entries(&self.folder).filter(|path| !path.ends_with("store") && !path.ends_with("files"));
        let used_bytes = store_bytes + files_bytes + others.map(|path| taken(&path)).sum::<u64>();
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = DiskUsage { used_bytes, store_bytes, files_bytes, free_bytes };
    }
}

/// What a file or a folder takes on the disk. What goes while it is looked at counts nothing.
#[must_use]
pub fn taken(path: &Path) -> u64 {
    let Ok(about) = fs::symlink_metadata(path) else { return 0 };
    let own = about.blocks() * BLOCK;
    if !about.is_dir() {
        return own;
    }
    own + entries(path).map(|path| taken(&path)).sum::<u64>()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(io::Result::ok).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_takes_what_its_files_take() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("store/blobs")).unwrap();
        fs::write(folder.path().join("store/blobs/1"), vec![1; 100_000]).unwrap();
        fs::write(folder.path().join("key"), "x").unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("elsewhere")).unwrap();
        let disk = Disk::start(folder.path());
        while disk.usage() == DiskUsage::default() {
            tokio::task::yield_now().await;
        }
        let found = disk.usage();
        assert!((100_000..140_000).contains(&found.store_bytes), "{found:?}");
        assert!(found.used_bytes > found.store_bytes && found.used_bytes < 200_000, "{found:?}");
        assert!(found.free_bytes > 0 && found.files_bytes == 0, "{found:?}");
    }
}
