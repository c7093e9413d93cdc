//! Disk space. Some is kept in reserve, because files other than the journal must be able to complete too.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns the free bytes on the disk of a folder.
pub(crate) type FreeSpaceFn = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// The disk space of a store.
#[derive(Clone)]
pub(crate) struct DiskSpace {
    pub(crate) store: PathBuf,
    /// Number of bytes that must stay free.
    pub(crate) reserved: u64,
    pub(crate) free_bytes: FreeSpaceFn,
}

impl DiskSpace {
    /// Fails if writing `bytes` bytes would leave less than the reserve. If the disk does not report its free space,
    /// succeeds.
    pub(crate) fn check(&self, bytes: u64) -> io::Result<()> {
        let requested = self.reserved.saturating_add(bytes);
        match (self.free_bytes)(&self.store) {
            Ok(free) if free < requested => {
                Err(io::Error::new(io::ErrorKind::StorageFull, format!("{free} bytes are free on its disk, and {requested} are required")))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Asks the operating system for the free space.
pub(crate) fn query_system(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
