//! Measures the disk use of the data folder and the free space, periodically and off the runtime's threads.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, Weak},
    time::{Duration, Instant},
};

use serde::Serialize;

/// Minimum interval between two measurements.
const EVERY: Duration = Duration::from_secs(10);
/// Minimum interval as a multiple of a measurement's duration. So measuring takes at most this fraction of one core.
const SPARING: u32 = 50;
/// Size of a block in which the system counts disk use, in bytes.
const BLOCK: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskUsage {
    /// Bytes in the data folder, including those below.
    pub used_bytes: u64,
    /// Bytes of the store's files.
    pub store_bytes: u64,
    /// Bytes of the content of tools' files.
    pub files_bytes: u64,
    /// Free bytes on the folder's disk.
    pub free_bytes: u64,
}

/// The disk of the data folder.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    found: RwLock<DiskUsage>,
}

impl Disk {
    /// Starts measuring, and continues as long as somebody holds the value. Call it inside a tokio runtime.
    pub fn start(folder: &Path) -> Arc<Self> {
        let disk = Arc::new(Self { folder: folder.to_owned(), found: RwLock::default() });
        let weak = Arc::downgrade(&disk);
        tokio::spawn(async move {
            while let Some(disk) = Weak::upgrade(&weak) {
                let elapsed = tokio::task::spawn_blocking(move || {
                    let started = Instant::now();
                    disk.look();
                    started.elapsed()
                });
                let pause = elapsed.await.unwrap_or(EVERY).saturating_mul(SPARING).max(EVERY);
                tokio::time::sleep(pause).await;
            }
        });
        disk
    }

    /// Returns the last measurement, or zeros before the first.
    pub fn usage(&self) -> DiskUsage {
        *self.found.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let [store_bytes, files_bytes] = ["store", "files"].map(|part| taken(&self.folder.join(part)));
        let free = rustix::fs::statvfs(&self.folder).map(|disk| disk.f_bavail * disk.f_frsize);
        let free_bytes = free.unwrap_or_else(|error| {
            tracing::warn!(%error, "the free space of the data folder could not be measured");
            0
        });
        let others = entries(&self.folder).filter(|path| !path.ends_with("store") && !path.ends_with("files"));
        let used_bytes = store_bytes + files_bytes + others.map(|path| taken(&path)).sum::<u64>();
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = DiskUsage { used_bytes, store_bytes, files_bytes, free_bytes };
    }
}

/// Returns the disk space of a file or folder, in bytes. Anything that is removed meanwhile counts as zero.
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
    async fn folder_size_is_the_sum_of_its_files() {
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
