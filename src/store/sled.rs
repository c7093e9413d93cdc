//! The store on one machine's disk: sled.
//!
//! One tree holds every space, so that one batch is atomic over spaces. All commits go through one
//! thread: it takes what is queued, checks and applies each in turn, then makes all of them durable
//! with a single sync and answers. Commits are serial without a lock, and neighbours share the fsync.
//! Reads do not pass through the thread.
//!
//! sled's own `flush` writes the log but leaves the file's length to the kernel, so a commit is called
//! durable only after an `fdatasync` of our own (`disk`). Large values are cut into pieces (`values`).
//!
//! When a sync fails, the state in memory is ahead of the disk and nobody can tell by how much. Those who
//! waited get [`StoreError::Unknown`], and from then on every commit is refused as [`StoreError::Away`]
//! until the host is started again and reads what the disk has. Reads go on.

mod config;
mod disk;
mod journal;
mod sizes;
mod values;

use std::{
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    thread::JoinHandle,
};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

pub use self::config::{OpenError, SledConfig};
use self::disk::Disk;
use super::{Batch, Changes, Direction, Durability, KeyRange, Pairs, Sizes, Space, Store, StoreError, check_sizes};

/// Commits that may wait for the writing thread before callers wait for a place in the queue.
const QUEUE: usize = 1_024;
/// Commits that share one sync, at most.
const NEIGHBOURS: usize = 256;
/// Keys counted before commits have their turn.
const COUNTED: usize = 1_000;

/// A store in a folder. Dropping it waits for what was committed to be on disk, then lets go of the folder.
#[derive(Debug)]
pub struct SledStore {
    path: PathBuf,
    config: SledConfig,
    db: ::sled::Db,
    /// Held shared by whoever reads more than one key, and alone while a commit is applied.
    moment: Arc<RwLock<()>>,
    sizes: Arc<RwLock<Sizes>>,
    queue: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

/// A commit on its way to the writing thread.
struct Job {
    batch: Batch,
    durability: Durability,
    answer: Answer,
}

type Answer = oneshot::Sender<Result<Vec<i64>, StoreError>>;

impl SledStore {
    /// Opens the store in the folder `path`; makes it if it is not there.
    ///
    /// # Errors
    ///
    /// Each [`OpenError`] says what to do about it. Nothing is changed in a folder that is damaged, in use
    /// or of another format.
    pub fn open(path: impl AsRef<Path>, config: SledConfig) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let (db, disk) = disk::open(&path, &config)?;
        let (moment, sizes) = (disk.moment(), disk.sizes());
        let (queue, jobs) = mpsc::channel(QUEUE);
        let writer = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || write_all(jobs, disk));
        let writer = writer.map_err(|source| OpenError::Io { path: path.clone(), source })?;
        Ok(Self { path, config, db, moment, sizes, queue: Some(queue), writer: Some(writer) })
    }

    /// Closes the store and opens it again: what a restart would find. For tests.
    ///
    /// # Errors
    ///
    /// As [`SledStore::open`].
    pub fn reopen(self) -> Result<Self, OpenError> {
        let (path, config) = (self.path.clone(), self.config.clone());
        drop(self);
        Self::open(path, config)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes on disk.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] if the folder cannot be read.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        self.db.size_on_disk().map_err(away)
    }
}

impl SledStore {
    /// The number of keys of a range, at most `some`, and the last of them.
    fn count_some(&self, range: (Bound<Vec<u8>>, Bound<Vec<u8>>), some: usize) -> ::sled::Result<(usize, Option<Vec<u8>>)> {
        let _moment = self.moment.read().unwrap_or_else(PoisonError::into_inner);
        let mut last = None;
        let mut found = 0;
        for key in self.db.range::<Vec<u8>, _>(range).keys().take(some) {
            last = Some(key?);
            found += 1;
        }
        Ok((found, last.map(|last| last.to_vec())))
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // A panic in it was reported when it happened; its commits answered `Unknown`.
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Store for SledStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(head) = self.db.get(values::head_key(space, key)).map_err(away)? else { return Ok(None) };
        if let Some(value) = values::inline(&head) {
            return Ok(Some(value.to_vec()));
        }
        let _moment = self.moment.read().unwrap_or_else(PoisonError::into_inner);
        values::get(&self.db, space, key).map_err(away)
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
        if range.is_empty() || limit == 0 {
            return Ok(Pairs::new());
        }
        let _moment = self.moment.read().unwrap_or_else(PoisonError::into_inner);
        let found = self.db.range::<Vec<u8>, _>(bounds(space, range));
        let read = |pair: ::sled::Result<(::sled::IVec, ::sled::IVec)>| {
            let (key, head) = pair?;
            let key = key[1..].to_vec();
            let value = values::resolve(&self.db, space, &key, &head)?;
            Ok((key, value))
        };
        let pairs: ::sled::Result<Pairs> = match direction {
            Direction::Forward => found.take(limit).map(read).collect(),
            Direction::Backward => found.rev().take(limit).map(read).collect(),
        };
        pairs.map_err(away)
    }

    async fn count(&self, space: Space, range: KeyRange, most: usize) -> Result<usize, StoreError> {
        if range.is_empty() {
            return Ok(0);
        }
        let (mut start, end) = bounds(space, range);
        let mut counted = 0;
        loop {
            let some = COUNTED.min(most - counted);
            let (found, last) = self.count_some((start, end.clone()), some).map_err(away)?;
            counted += found;
            match last {
                Some(last) if found == some && counted < most => start = Bound::Excluded(last),
                Some(_) | None => return Ok(counted),
            }
            // The writer, and others on this thread, go first.
            tokio::task::yield_now().await;
        }
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i64>, StoreError> {
        check_sizes(&batch.writes, &batch.adds)?;
        let gone = || StoreError::Away("the store is closed".to_owned());
        let (answer, outcome) = oneshot::channel();
        let job = Job { batch, durability, answer };
        self.queue.as_ref().ok_or_else(gone)?.send(job).await.map_err(|_| gone())?;
        outcome.await.unwrap_or_else(|_| Err(StoreError::Unknown("the writing thread ended".to_owned())))
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        let _moment = self.moment.read().unwrap_or_else(PoisonError::into_inner);
        journal::read(&self.db, after, limit).map_err(away)
    }

    fn sizes(&self) -> Sizes {
        self.sizes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The writing thread: until the store is dropped, takes what is queued and answers it.
fn write_all(mut jobs: mpsc::Receiver<Job>, mut disk: Disk) {
    let mut queued = Vec::with_capacity(NEIGHBOURS);
    let mut waiting = Vec::new();
    while take(&mut jobs, &mut queued, &mut disk) {
        for job in queued.drain(..) {
            match (disk.apply(job.batch), job.durability) {
                (Ok(sums), Durability::Durable) => waiting.push((job.answer, sums)),
                (outcome, _) => answer(job.answer, outcome),
            }
        }
        disk.keep_count();
        if !waiting.is_empty() {
            let outcome = disk.sync();
            for (waiter, sums) in waiting.drain(..) {
                answer(waiter, outcome.clone().map(|()| sums));
            }
        }
    }
    if let Err(error) = disk.sync() {
        tracing::error!(%error, "the store could not write its last commits when it was closed");
    }
}

/// Takes what is queued, and waits for something to be. While a store of an older version is not counted yet, it counts
/// instead of waiting. False once the store is dropped.
fn take(jobs: &mut mpsc::Receiver<Job>, queued: &mut Vec<Job>, disk: &mut Disk) -> bool {
    while disk.is_counting() {
        match jobs.try_recv() {
            Ok(job) => {
                queued.push(job);
                return true;
            }
            Err(mpsc::error::TryRecvError::Empty) => disk.count_some(),
            Err(mpsc::error::TryRecvError::Disconnected) => return false,
        }
    }
    jobs.blocking_recv_many(queued, NEIGHBOURS) > 0
}

/// Whoever asked may have gone; the commit stands.
fn answer(to: Answer, outcome: Result<Vec<i64>, StoreError>) {
    let _ = to.send(outcome);
}

/// A range of a space as the tree has it.
fn bounds(space: Space, range: KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let start = match range.start {
        Bound::Included(key) => Bound::Included(values::head_key(space, &key)),
        Bound::Excluded(key) => Bound::Excluded(values::head_key(space, &key)),
        Bound::Unbounded => Bound::Included(vec![space as u8]),
    };
    let end = match range.end {
        Bound::Included(key) => Bound::Included(values::head_key(space, &key)),
        Bound::Excluded(key) => Bound::Excluded(values::head_key(space, &key)),
        Bound::Unbounded => Bound::Excluded(vec![space as u8 + 1]),
    };
    (start, end)
}

#[expect(clippy::needless_pass_by_value, reason = "fits `map_err`")]
fn away(error: ::sled::Error) -> StoreError {
    StoreError::Away(error.to_string())
}
