//! The tree's files: opening, locking, and moving them aside.

use std::{
    fs::{self, File, TryLockError},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sled::{Db, Error};
use tollhouse_base::fsync_dir;

use super::{OpenError, SledConfig, tree_dir};

/// How often sled flushes its buffers, in milliseconds. Each flush cleans one 512 KiB segment of its file, and one page
/// for each page that it replaces. At twice a second, floods of small writes would leave garbage faster than that.
pub(super) const FLUSH_EVERY_MS: u64 = 50;
/// The lock file, held locked while a process has the store open, even without a tree.
const LOCK: &str = "lock";
/// The folder for a tree that was wrong.
const QUARANTINE: &str = "aside";
/// The file that marks the tree as wrong, created while the store is in use.
const DISTRUSTED: &str = "tree-is-wrong";
/// How long a closed tree may keep its files locked.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two attempts to lock.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Locks a store's folder, waiting for another process to release it.
pub(super) fn lock(store: &Path, config: &SledConfig) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    let file = File::options().create(true).truncate(false).write(true).open(store.join(LOCK)).map_err(io)?;
    match lock_within(&file, config.lock_timeout) {
        Ok(true) => Ok(file),
        Ok(false) => Err(OpenError::Locked(store.to_owned())),
        Err(source) => Err(io(source)),
    }
}

fn lock_within(file: &File, timeout: Duration) -> io::Result<bool> {
    let give_up_at = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() >= give_up_at => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(CHECK_EVERY),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Opens the current tree, waiting for another process to release it.
pub(super) fn open(store: &Path, config: &SledConfig) -> Result<Db, OpenError> {
    open_in(store, &tree_dir::of(store), config)
}

/// Opens the tree in a folder of the store.
pub(super) fn open_in(store: &Path, home: &Path, config: &SledConfig) -> Result<Db, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    // Only the text of sled's error would show that the tree is locked. Nobody locks it after this: see `lock`.
    if let Ok(log) = File::open(home.join("db"))
        && !lock_within(&log, config.lock_timeout).map_err(io)?
    {
        return Err(OpenError::Locked(store.to_owned()));
    }
    forget_unfinished(home).map_err(|source| OpenError::Io { path: home.to_owned(), source })?;
    let tree = sled::Config::new().path(home).cache_capacity(config.cache_bytes).flush_every_ms(Some(FLUSH_EVERY_MS));
    // sled panics on some kinds of damage instead of returning an error.
    match catch_unwind(AssertUnwindSafe(|| tree.open())) {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(Error::Io(source))) => Err(io(source)),
        Ok(Err(other)) => Err(OpenError::Corrupt { path: store.to_owned(), detail: other.to_string() }),
        Err(_) => Err(OpenError::Corrupt { path: store.to_owned(), detail: "its files contradict each other".to_owned() }),
    }
}

/// Removes an unfinished snapshot, which sled would read as its newest one. Nothing is lost without it.
fn forget_unfinished(home: &Path) -> io::Result<()> {
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether the files of the current tree exist.
pub(super) fn is_there(store: &Path) -> bool {
    tree_dir::has_tree(&tree_dir::of(store))
}

/// Moves the files of the current tree aside, replacing those moved before. Returns their folder. The next tree is
/// built in the store's folder.
pub(super) fn quarantine(store: &Path) -> io::Result<PathBuf> {
    let (home, aside) = (tree_dir::of(store), store.join(QUARANTINE));
    clear_quarantine(store)?;
    fs::create_dir(&aside)?;
    if let Ok(log) = File::open(home.join("db")) {
        // A tree that was dropped releases its files a moment later.
        if !lock_within(&log, DROP_TIMEOUT)? {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the tree is still in use"));
        }
    }
    if home.exists() {
        for file in tree_dir::files(&home)? {
            fs::rename(&file, aside.join(file.file_name().unwrap_or_default()))?;
        }
    }
    if home != store {
        tree_dir::remove(store, store)?;
        tree_dir::forget(store)?;
    }
    File::open(store)?.sync_all()?;
    Ok(aside)
}

/// Removes a tree that was moved aside.
pub(super) fn clear_quarantine(store: &Path) -> io::Result<()> {
    tree_dir::is_gone(fs::remove_dir_all(store.join(QUARANTINE)))
}

/// Marks the tree as wrong, so that the next start rebuilds it.
pub(super) fn distrust(store: &Path) -> io::Result<()> {
    let path = store.join(DISTRUSTED);
    File::create(&path)?.sync_all()?;
    fsync_dir::sync_entry(&path)
}

/// Returns whether the tree is marked as wrong.
pub(super) fn is_distrusted(store: &Path) -> bool {
    store.join(DISTRUSTED).exists()
}

/// Removes the mark that the tree is wrong.
pub(super) fn trust(store: &Path) -> io::Result<()> {
    tree_dir::is_gone(fs::remove_file(store.join(DISTRUSTED)))
}
