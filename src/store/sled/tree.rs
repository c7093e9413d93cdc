//! The tree's files: opened, put aside, and kept from others.

use std::{
    fs::{self, File, TryLockError},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sled::{Db, Error};
use tollhouse_base::folder;

use super::{OpenError, SledConfig, home};

/// sled syncs what is buffered this often by itself, in milliseconds. It cleans one segment of its file each time, of 512 KiB, and one page
/// with each that it replaces: every half second that is slower than floods of small writes leave garbage.
pub(super) const FLUSH_EVERY_MS: u64 = 50;
/// Held locked by who has the store open, tree or not.
const LOCK: &str = "lock";
/// Where a tree goes that was not right.
const ASIDE: &str = "aside";
/// Says that the tree was found wrong while it was in use.
const DISTRUSTED: &str = "tree-is-wrong";
/// How long a tree that was let go of may keep its files.
const LETTING_GO: Duration = Duration::from_secs(5);
/// Between one look and the next.
const LOOK: Duration = Duration::from_millis(20);

/// Locks a store's folder, waiting for whoever has it to let go.
pub(super) fn lock(store: &Path, config: &SledConfig) -> Result<File, OpenError> {
    let io = |source| OpenError::Io { path: store.to_owned(), source };
    let file = File::options().create(true).truncate(false).write(true).open(store.join(LOCK)).map_err(io)?;
    match lock_within(&file, config.lock_patience) {
        Ok(true) => Ok(file),
        Ok(false) => Err(OpenError::Locked(store.to_owned())),
        Err(source) => Err(io(source)),
    }
}

fn lock_within(file: &File, patience: Duration) -> io::Result<bool> {
    let give_up_at = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() >= give_up_at => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Opens the tree in force, waiting for whoever has it open to let go.
pub(super) fn open(store: &Path, config: &SledConfig) -> Result<Db, OpenError> {
    open_in(store, &home::of(store), config)
}

/// Opens the tree in a folder of a store's.
pub(super) fn open_in(store: &Path, home: &Path, config: &SledConfig) -> Result<Db, OpenError> {
    let give_up_at = Instant::now() + config.lock_patience;
    loop {
        forget_unfinished(home).map_err(|source| OpenError::Io { path: home.to_owned(), source })?;
        let tree = sled::Config::new().path(home).cache_capacity(config.cache_bytes).flush_every_ms(Some(FLUSH_EVERY_MS));
        // sled panics on some kinds of damage instead of telling.
        let opened = catch_unwind(AssertUnwindSafe(|| tree.open()));
        let refused = match opened {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(error)) => refusal(store, error),
            Err(_) => OpenError::Corrupt { path: store.to_owned(), detail: "its files contradict each other".to_owned() },
        };
        if !matches!(refused, OpenError::Locked(_)) || Instant::now() >= give_up_at {
            return Err(refused);
        }
        std::thread::sleep(LOOK);
    }
}

/// Removes a snapshot that was not finished, which sled reads as its newest one. Nothing is missing without it.
fn forget_unfinished(home: &Path) -> io::Result<()> {
    let in_use = |log: File| matches!(log.try_lock(), Err(TryLockError::WouldBlock));
    if File::open(home.join("db")).is_ok_and(in_use) {
        return Ok(());
    }
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn refusal(path: &Path, error: Error) -> OpenError {
    let path = path.to_owned();
    match error {
        // sled wraps the refused lock in a text.
        Error::Io(source) if source.to_string().contains("could not acquire lock") => OpenError::Locked(path),
        Error::Io(source) => OpenError::Io { path, source },
        other => OpenError::Corrupt { path, detail: other.to_string() },
    }
}

/// Whether there are files of the tree in force.
pub(super) fn is_there(store: &Path) -> bool {
    home::has_tree(&home::of(store))
}

/// Puts the files of the tree in force aside, in place of those that were before; answers where they are. The next one is made
/// in the store's folder.
pub(super) fn put_aside(store: &Path) -> io::Result<PathBuf> {
    let (home, aside) = (home::of(store), store.join(ASIDE));
    forget_aside(store)?;
    fs::create_dir(&aside)?;
    if let Ok(log) = File::open(home.join("db")) {
        // A tree that was dropped lets go a moment later.
        if !lock_within(&log, LETTING_GO)? {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the tree is still in use"));
        }
    }
    if home.exists() {
        for file in home::files(&home)? {
            fs::rename(&file, aside.join(file.file_name().unwrap_or_default()))?;
        }
    }
    if home != store {
        home::remove(store, store)?;
        home::forget(store)?;
    }
    File::open(store)?.sync_all()?;
    Ok(aside)
}

/// Removes a tree that was put aside.
pub(super) fn forget_aside(store: &Path) -> io::Result<()> {
    match fs::remove_dir_all(store.join(ASIDE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Has the next start make the tree anew.
pub(super) fn distrust(store: &Path) -> io::Result<()> {
    let path = store.join(DISTRUSTED);
    File::create(&path)?.sync_all()?;
    folder::sync_entry(&path)
}

/// Whether the tree was found wrong while it was in use.
pub(super) fn is_distrusted(store: &Path) -> bool {
    store.join(DISTRUSTED).exists()
}

/// Says that the tree is right.
pub(super) fn trust(store: &Path) -> io::Result<()> {
    match fs::remove_file(store.join(DISTRUSTED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
