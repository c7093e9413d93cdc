//! What the writing thread does to the disk: open, apply, sync.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use sled::{Db, Error};

use super::{OpenError, SledConfig, journal::Journal, sizes::Counter, values};
use crate::{
    base::folder,
    store::{Batch, Sizes, StoreError, add},
};

/// sled syncs what is buffered this often by itself, in milliseconds.
const FLUSH_EVERY_MS: u64 = 500;

/// The tree and its files, owned by the writing thread.
#[derive(Debug)]
pub(super) struct Disk {
    db: Db,
    moment: Arc<RwLock<()>>,
    /// sled's log, opened a second time: syncing one descriptor syncs the file.
    log: File,
    /// Folder of the leaves too large for the log.
    blobs: PathBuf,
    synced_blobs: BTreeSet<OsString>,
    counter: Counter,
    journal: Journal,
    /// Why nothing is written any more.
    broken: Option<String>,
}

/// Opens or makes the store in a folder.
pub(super) fn open(path: &Path, config: &SledConfig) -> Result<(Db, Disk), OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let db = open_unlocked(path, config)?;
    let new = db.is_empty();
    match db.get(values::FORMAT_KEY).map_err(|error| refusal(path, error))? {
        Some(found) if found == values::FORMAT.as_bytes() => {}
        Some(found) if found == values::UNMARKED.as_bytes() => {
            db.insert(values::FORMAT_KEY, values::FORMAT).map_err(|error| refusal(path, error))?;
        }
        Some(found) => return Err(OpenError::Format { path: path.to_owned(), found: String::from_utf8_lossy(&found).into_owned() }),
        None if new => {
            db.insert(values::FORMAT_KEY, values::FORMAT).map_err(|error| refusal(path, error))?;
        }
        None => return Err(OpenError::Format { path: path.to_owned(), found: "none".to_owned() }),
    }
    let log = File::open(path.join("db")).map_err(io)?;
    let blobs = path.join("blobs");
    let counter = Counter::open(&db, new).map_err(|error| refusal(path, error))?;
    let journal = Journal::open(&db).map_err(|error| refusal(path, error))?;
    let synced_blobs = BTreeSet::new();
    let mut disk = Disk { db: db.clone(), moment: Arc::default(), log, blobs, synced_blobs, counter, journal, broken: None };
    disk.sync_files().map_err(io)?;
    // The names of new files are entries of folders, which have to be on disk too.
    File::open(path).and_then(|folder| folder.sync_all()).and_then(|()| folder::sync_entry(path)).map_err(io)?;
    Ok((db, disk))
}

impl Disk {
    /// The lock that readers of many keys share.
    pub(super) fn moment(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.moment)
    }

    /// What each space holds.
    pub(super) fn sizes(&self) -> Arc<RwLock<Sizes>> {
        self.counter.shared()
    }

    /// True while what an older version wrote is not counted yet.
    pub(super) fn is_counting(&self) -> bool {
        self.counter.is_behind() && self.broken.is_none()
    }

    /// Counts some of what an older version wrote.
    pub(super) fn count_some(&mut self) {
        let counted = catch_unwind(AssertUnwindSafe(|| self.counter.go_on(&self.db)));
        if !matches!(counted, Ok(Ok(()))) {
            tracing::error!("the store could not be counted; the next start tries again");
        }
        self.keep_count();
    }

    /// Keeps the count of what was applied. One that is not kept is a little behind after the next start.
    pub(super) fn keep_count(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let kept = catch_unwind(AssertUnwindSafe(|| self.counter.keep(&self.db)));
        match kept {
            Ok(Ok(())) => {}
            Ok(Err(error)) => _ = self.give_up(&error.to_string()),
            Err(_) => _ = self.give_up("the tree stopped while it was counted"),
        }
    }

    /// Checks, decides what is added, then applies. Readers see it; the disk may not have it yet.
    pub(super) fn apply(&mut self, batch: Batch) -> Result<Vec<i64>, StoreError> {
        if let Some(reason) = &self.broken {
            return Err(StoreError::Away(reason.clone()));
        }
        let away = |error: Error| StoreError::Away(error.to_string());
        let Batch { checks, mut writes, adds, told } = batch;
        for check in checks {
            if values::get(&self.db, check.space, &check.key).map_err(away)?.as_deref() != check.expected.as_deref() {
                return Err(StoreError::Conflict);
            }
        }
        let sums = add::decide(adds, &mut writes, |space, key| values::get(&self.db, space, key).map_err(away))?;
        if writes.is_empty() && told.is_empty() {
            return Ok(sums);
        }
        let (mut batch, changes) = values::batch(&self.db, writes).map_err(away)?;
        let newest = self.journal.tell(told, &mut batch).map_err(away)?;
        let moment = self.moment.write().unwrap_or_else(PoisonError::into_inner);
        let applied = catch_unwind(AssertUnwindSafe(|| self.db.apply_batch(batch)));
        drop(moment);
        match applied {
            Ok(Ok(())) => {
                self.counter.add(&changes);
                self.journal.told(newest);
                Ok(sums)
            }
            Ok(Err(error)) => Err(self.give_up(&error.to_string())),
            Err(_) => Err(self.give_up("the tree stopped in the middle of a commit")),
        }
    }

    /// Puts everything applied so far on disk.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if let Some(reason) = &self.broken {
            return Err(StoreError::Unknown(reason.clone()));
        }
        match catch_unwind(AssertUnwindSafe(|| self.sync_files())) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.give_up(&error.to_string())),
            Err(_) => Err(self.give_up("the tree stopped in the middle of a sync")),
        }
    }

    fn sync_files(&mut self) -> io::Result<()> {
        self.db.flush().map_err(io::Error::from)?;
        let blobs: BTreeSet<OsString> = fs::read_dir(&self.blobs)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        let mut any_new = false;
        for blob in blobs.difference(&self.synced_blobs) {
            match File::open(self.blobs.join(blob)) {
                Ok(file) => file.sync_data()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            any_new = true;
        }
        if any_new {
            File::open(&self.blobs)?.sync_all()?;
        }
        self.synced_blobs = blobs;
        self.log.sync_data()
    }

    /// Memory and disk may differ from here on: refuses all that follows.
    fn give_up(&mut self, cause: &str) -> StoreError {
        tracing::error!(cause, "the store failed to write; it refuses commits until the host is started again");
        self.broken = Some(format!("a write failed ({cause}); start the host again"));
        StoreError::Unknown(cause.to_owned())
    }
}

/// Opens the tree, waiting for whoever has it open to let go.
fn open_unlocked(path: &Path, config: &SledConfig) -> Result<Db, OpenError> {
    let give_up_at = Instant::now() + config.lock_patience;
    loop {
        let tree = sled::Config::new().path(path).cache_capacity(config.cache_bytes).flush_every_ms(Some(FLUSH_EVERY_MS));
        // sled panics on some kinds of damage instead of telling.
        let opened = catch_unwind(AssertUnwindSafe(|| tree.open()));
        let refused = match opened {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(error)) => refusal(path, error),
            Err(_) => OpenError::Corrupt { path: path.to_owned(), detail: "its files contradict each other".to_owned() },
        };
        if !matches!(refused, OpenError::Locked(_)) || Instant::now() >= give_up_at {
            return Err(refused);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The format that a store has after it was opened with this one.
    fn opened_with(format: &str) -> Result<String, OpenError> {
        let folder = tempfile::tempdir().unwrap();
        let (path, config) = (folder.path().join("store"), SledConfig::default());
        let (db, disk) = open(&path, &config)?;
        db.insert(values::FORMAT_KEY, format).unwrap();
        db.flush().unwrap();
        drop((db, disk));
        let (db, _disk) = open(&path, &config)?;
        Ok(String::from_utf8(db.get(values::FORMAT_KEY).unwrap().unwrap().to_vec()).unwrap())
    }

    #[test]
    fn a_store_of_values_without_formats_is_read_and_closed_to_versions_that_know_no_others() {
        assert_eq!(opened_with(values::UNMARKED).unwrap(), values::FORMAT);
        assert_eq!(opened_with(values::FORMAT).unwrap(), values::FORMAT);
    }

    #[test]
    fn a_store_of_a_later_version_is_refused() {
        assert!(matches!(opened_with("3"), Err(OpenError::Format { found, .. }) if found == "3"));
    }
}
