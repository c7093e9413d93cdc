//! Room on the disk, part of which is kept back: what is added to beside the journal has to end well too.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What is free on the disk of a folder, in bytes.
pub(crate) type AskFree = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// The room on the disk of a store.
#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) store: PathBuf,
    /// Bytes that stay free.
    pub(crate) kept: u64,
    pub(crate) ask: AskFree,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("store", &self.store).field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl Room {
    /// Refuses what would leave less than is kept back. A disk that does not say what is free is tried.
    pub(crate) fn check(&self, bytes: u64) -> io::Result<()> {
        let wanted = self.kept.saturating_add(bytes);
        match (self.ask)(&self.store) {
            Ok(free) if free < wanted => {
                Err(io::Error::new(io::ErrorKind::StorageFull, format!("{free} bytes are free on its disk, and it wants {wanted}")))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Asks the system.
pub(crate) fn ask_system(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
