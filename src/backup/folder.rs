//! The backup folder: complete dumps under their final names, and at most one that is being written.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use tollhouse_base::{clock::Timestamp, fsync_dir};

use super::BackupError;

/// Extension of dumps.
const EXTENSION: &str = "tollhouse";
/// Extension of incomplete dumps.
const UNFINISHED: &str = "unfinished";
/// The lock file, held locked by the writer.
const LOCK: &str = "lock";
/// The subfolder for objects.
const FILES: &str = "files";

/// A backup folder that is locked for writing.
#[derive(Debug)]
pub struct BackupFolder {
    path: PathBuf,
    /// The lock file, held locked.
    _lock: File,
}

/// A dump that has not got its final name yet.
#[derive(Debug)]
pub struct UnfinishedDump {
    path: PathBuf,
    named: PathBuf,
}

impl BackupFolder {
    /// Locks a folder, and creates it for this user alone if it does not exist. Removes incomplete dumps.
    pub fn take(path: &Path) -> Result<Self, BackupError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(BackupError::io(path))?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path.join(LOCK));
        let lock = lock.map_err(BackupError::io(path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(BackupError::io(path)(error)),
        }
        for (_, unfinished) in found(path, UNFINISHED)? {
            fs::remove_file(&unfinished).map_err(BackupError::io(unfinished))?;
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Begins the dump of this time.
    pub fn begin(&self, at: Timestamp) -> Result<(UnfinishedDump, File), BackupError> {
        let name = at.to_string().replace(':', "-");
        let [path, named] = [UNFINISHED, EXTENSION].map(|extension| self.path.join(format!("{name}.{extension}")));
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).map_err(BackupError::io(&path))?;
        Ok((UnfinishedDump { path, named }, file))
    }

    /// Returns the subfolder for objects.
    pub fn files(&self) -> PathBuf {
        self.path.join(FILES)
    }
}

impl UnfinishedDump {
    /// Returns its path until it has its final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs it and gives it its final name, which is returned.
    pub fn finish(self) -> Result<PathBuf, BackupError> {
        let finish = || -> io::Result<()> {
            File::open(&self.path)?.sync_all()?;
            fs::rename(&self.path, &self.named)?;
            fsync_dir::sync_entry(&self.named)
        };
        finish().map_err(BackupError::io(&self.named))?;
        Ok(self.named.clone())
    }
}

impl Drop for UnfinishedDump {
    fn drop(&mut self) {
        // A finished dump no longer has this name. If removal fails, the next backup removes it.
        _ = fs::remove_file(&self.path);
    }
}

/// Finds a dump and the folder of its objects. `path` is the dump, or a folder whose newest dump is used.
pub fn newest(path: &Path) -> Result<(PathBuf, PathBuf), BackupError> {
    let dump = if path.is_dir() {
        found(path, EXTENSION)?.pop().map(|(_, dump)| dump).ok_or_else(|| BackupError::NoDump(path.to_owned()))?
    } else {
        path.to_owned()
    };
    let files = dump.parent().unwrap_or(Path::new(".")).join(FILES);
    Ok((dump, files))
}

/// Lists the files in a folder with this extension, sorted by name.
fn found(path: &Path, extension: &str) -> Result<Vec<(String, PathBuf)>, BackupError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(BackupError::io(path))? {
        let entry = entry.map_err(BackupError::io(path))?;
        if entry.path().extension().is_some_and(|of_it| of_it == extension) {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}
