//! The folder of backups: dumps that have their names once they are whole, and one at a time that is written.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use tollhouse_base::{clock::Timestamp, folder};

use super::BackupError;

/// What the names of dumps end with.
const EXTENSION: &str = "tollhouse";
/// What they end with until they are whole.
const UNFINISHED: &str = "unfinished";
/// Held locked by who writes.
const LOCK: &str = "lock";
/// Where the contents of files lie.
const FILES: &str = "files";

/// A folder of backups, of which nobody else is writing one.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held locked.
    _lock: File,
}

/// A dump on its way to its name.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    named: PathBuf,
}

impl Folder {
    /// Takes a folder, which is made for this user alone where it is not there. What was not finished in it goes.
    ///
    /// # Errors
    ///
    /// [`BackupError::Busy`]; a folder that cannot be written.
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
    ///
    /// # Errors
    ///
    /// A file that cannot be made.
    pub fn begin(&self, at: Timestamp) -> Result<(Unfinished, File), BackupError> {
        let name = at.to_string().replace(':', "-");
        let [path, named] = [UNFINISHED, EXTENSION].map(|extension| self.path.join(format!("{name}.{extension}")));
        let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).map_err(BackupError::io(&path))?;
        Ok((Unfinished { path, named }, file))
    }

    /// Where the contents of files lie.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.path.join(FILES)
    }
}

impl Unfinished {
    /// Where it is until it has its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has it on disk, under its name; answers that.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub fn finish(self) -> Result<PathBuf, BackupError> {
        let finish = || -> io::Result<()> {
            File::open(&self.path)?.sync_all()?;
            fs::rename(&self.path, &self.named)?;
            folder::sync_entry(&self.named)
        };
        finish().map_err(BackupError::io(&self.named))?;
        Ok(self.named.clone())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // One that is finished is no longer there; one that stays is removed by the next backup.
        _ = fs::remove_file(&self.path);
    }
}

/// The dump that is meant, and where the contents of its files lie: `path` itself, or the newest in it, where it is a folder.
///
/// # Errors
///
/// [`BackupError::NoDump`]; a folder that cannot be read.
pub fn newest(path: &Path) -> Result<(PathBuf, PathBuf), BackupError> {
    let dump = if path.is_dir() {
        found(path, EXTENSION)?.pop().map(|(_, dump)| dump).ok_or_else(|| BackupError::NoDump(path.to_owned()))?
    } else {
        path.to_owned()
    };
    let files = dump.parent().unwrap_or(Path::new(".")).join(FILES);
    Ok((dump, files))
}

/// Files of a folder by what their names end with, by their names.
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
