//! The store on one machine's disk: a journal, and sled as its index.
//!
//! One tree contains every space. All commits go through one thread. It takes the queued commits and decides each
//! against the tree and the commits before it (`group`). Then all of them are written as one frame of the journal, with
//! one `fdatasync` if any is durable. Only then are they applied to the tree in one batch and confirmed (`disk`).
//! Commits are serial without a lock, concurrent commits share a sync, and no reader sees a durable commit that is not
//! on disk. Reads do not use that thread. Reads of more than a few rows run on a blocking thread: commits and other
//! readers wait for them, but no task of the runtime does.
//!
//! The tree is never synced explicitly: sled writes it when it likes, and records which frame it includes (`position`).
//! At the next start it is brought up to the end of the journal, or rebuilt if it is wrong (`open`). Each row has a
//! checksum and each space a total (`recount`). Large values are split (`values`). Checkpoints are made in the
//! background (`sync_threads`), and so is a new tree that replaces one that has grown far beyond its rows (`rebuild`). A copy
//! is read from the tree while others write (`feed`).
//!
//! If a write or a sync of the journal fails, it is unknown what is on disk. The waiting commits get
//! [`StoreError::Unknown`], and every later commit is refused with [`StoreError::Away`] until the host is restarted and
//! has read the disk. If the disk is merely full, nothing was written, and commits are refused until there is room
//! (`health`). Reads continue.

mod archived;
mod background;
mod changelog;
mod common;
mod config;
mod disk;
mod feed;
mod follower;
mod group;
mod health;
mod open;
mod position;
mod read_guard;
mod rebuild;
mod rebuilds;
mod recount;
mod repair;
mod rows;
mod sink;
mod sync_threads;
mod tree;
mod tree_builder;
mod tree_dir;
mod values;

use std::{
    fmt,
    fs::File,
    ops::Bound,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::JoinHandle,
};

use async_trait::async_trait;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
};

pub(super) use self::feed::MigrationFeed;
pub use self::{
    archived::MoneyRows,
    config::{OpenError, SledConfig},
    repair::{MAX_LISTED, Repair, Repaired, StoreReport, check, repair},
};
use self::{
    background::{BackgroundState, CommitJob},
    disk::Disk,
    group::CommitGroup,
    read_guard::TreeHandle,
    rebuilds::{RebuildRequest, RebuildRequester},
    sync_threads::SyncThreads,
};
pub use super::journal::{ArchiveGap, JournalDamage};
use super::{
    Batch, Changes, CopyPage, Direction, Durability, KeyRange, KeyValues, Space, SpaceSizes, Store, StoreError, check_sizes,
    queue_space::QueueSpace,
};

/// Maximum number of queued commits before callers wait.
const QUEUED_COMMITS: usize = 1_024;
/// Maximum number of commits in one frame.
const GROUP_COMMITS: usize = 256;
/// Number of keys counted before commits get a turn.
const COUNT_ROWS: usize = 1_000;
/// Maximum number of rows that are read inline: as many as a walk takes at once. For more rows, moving to a blocking
/// thread costs less than it saves.
const INLINE_ROWS: usize = 100;

/// A store in a folder. Dropping it waits until all commits are on disk, then releases the folder.
pub struct SledStore {
    state: Arc<BackgroundState>,
    queue: Option<mpsc::Sender<CommitJob>>,
    room: QueueSpace,
    writer: Option<JoinHandle<()>>,
    threads: Option<SyncThreads>,
    /// The lock file, held locked.
    _lock: File,
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore").field("path", &self.state.store).field("config", &self.state.config).finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the store in the folder `path`, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Each [`OpenError`] says what to do about it. A folder that is damaged, in use or of another format is left
    /// unchanged.
    pub fn open(path: impl AsRef<Path>, config: SledConfig) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let open::OpenStore { disk, handle, counts, health, remaining, lock } = open::open(&path, &config)?;
        let (queue, jobs) = mpsc::channel(QUEUED_COMMITS);
        let state =
            BackgroundState { store: path, config, handle, counts, health, remaining, frames: Arc::default(), queue: queue.downgrade() };
        let state = Arc::new(state);
        let io = |source| OpenError::Io { path: state.store.clone(), source };
        let writer = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || write_all(jobs, disk)).map_err(io)?;
        let threads = Some(SyncThreads::start(Arc::clone(&state)).map_err(io)?);
        Ok(Self { state, queue: Some(queue), room: QueueSpace::new(), writer: Some(writer), threads, _lock: lock })
    }

    /// Closes the store and opens it again, as a restart does. For tests.
    pub fn reopen(self) -> Result<Self, OpenError> {
        let (path, config) = (self.state.store.clone(), self.state.config.clone());
        drop(self);
        Self::open(path, config)
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.state.store
    }

    /// Returns the number of syncs of commits since the store was opened.
    pub fn syncs(&self) -> u64 {
        self.state.counts.syncs.load(Relaxed)
    }

    /// Returns the size of the tree on disk, in bytes.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        self.state.handle.tree().size_on_disk().map_err(StoreError::away)
    }

    /// Replaces the tree with a new one, and waits until this is done. That happens automatically once the tree is much larger than
    /// its rows. For tests.
    pub async fn renew(&self) -> Result<(), StoreError> {
        self.request(RebuildRequest::Renewal).await
    }

    /// Replaces the journal so far with a new checkpoint, and the tree with a new one, and waits for both. If the process
    /// is killed, the store is in its old or its new state.
    /// After an error the current files stay in use.
    pub async fn compact(&self) -> Result<(), StoreError> {
        self.request(RebuildRequest::Compaction).await
    }

    /// Sends a request to the background threads and waits for its outcome.
    async fn request(&self, kind: fn(RebuildRequester) -> RebuildRequest) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        if let Some(threads) = &self.threads {
            threads.request(kind(reply));
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Away("the store is closed".to_owned())))
    }

    /// Starts a walk through all rows and the changes written meanwhile. Only one walk runs at a time; others wait.
    pub(super) async fn feed(&self) -> MigrationFeed {
        let frames = Arc::clone(&self.state.frames).lock_owned().await;
        MigrationFeed::begin(self.state.store.clone(), Arc::clone(&self.state.handle), frames)
    }
}

/// Runs `read` on a blocking thread.
async fn run_blocking<T: Send + 'static>(read: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
    spawn_blocking(read).await.unwrap_or_else(|_| Err(StoreError::Away("the tree stopped while it was read".to_owned())))
}

/// Returns up to `limit` rows of a range, as a snapshot.
fn scan(handle: &TreeHandle, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
    let _still = handle.still();
    let max = range.bytes;
    let tree = handle.tree();
    let found = rows::range(&tree, bounds(space, range));
    let resolve = |pair: ::sled::Result<(::sled::IVec, ::sled::IVec)>| {
        let (key, head) = pair.map_err(StoreError::away)?;
        let key = key[1..].to_vec();
        let value = values::resolve(&tree, space as u8, &key, &head)?;
        Ok((key, value))
    };
    let mut bytes = 0;
    let read = |pair| {
        let pair = (bytes < max).then(|| resolve(pair))?;
        bytes += pair.as_ref().map_or(0, |(key, value)| key.len() + value.len());
        Some(pair)
    };
    match direction {
        Direction::Forward => found.take(limit).map_while(read).collect(),
        Direction::Backward => found.rev().take(limit).map_while(read).collect(),
    }
}

/// Counts the keys of a range, up to `some`. Returns the last key counted too.
fn count_some(handle: &TreeHandle, range: (Bound<Vec<u8>>, Bound<Vec<u8>>), some: usize) -> ::sled::Result<(usize, Option<Vec<u8>>)> {
    let _still = handle.still();
    let mut last = None;
    let mut found = 0;
    for row in rows::range(&handle.tree(), range).take(some) {
        last = Some(row?.0);
        found += 1;
    }
    Ok((found, last.map(|last| last.to_vec())))
}

impl Drop for SledStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        drop(self.threads.take());
        if let Some(writer) = self.writer.take() {
            // A panic of that thread was reported when it happened, and its commits got `Unknown`.
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Store for SledStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let handle = &self.state.handle;
        let Some(head) = handle.tree().get(values::head_key(space, key)).map_err(StoreError::away)? else { return Ok(None) };
        if values::is_inline(&head) {
            return values::resolve(&handle.tree(), space as u8, key, &head).map(Some);
        }
        let _still = handle.still();
        values::get(&handle.tree(), space, key)
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        if range.is_empty() || limit == 0 {
            return Ok(KeyValues::new());
        }
        if limit <= INLINE_ROWS {
            return scan(&self.state.handle, space, range, limit, direction);
        }
        let handle = Arc::clone(&self.state.handle);
        run_blocking(move || scan(&handle, space, range, limit, direction)).await
    }

    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        if range.is_empty() {
            return Ok(0);
        }
        let (mut start, end) = bounds(space, range);
        let mut counted = 0;
        loop {
            let some = COUNT_ROWS.min(max - counted);
            let (handle, part) = (Arc::clone(&self.state.handle), (start, end.clone()));
            let count = move || count_some(&handle, part, some).map_err(StoreError::away);
            let (found, last) = if some <= INLINE_ROWS { count()? } else { run_blocking(count).await? };
            counted += found;
            match last {
                Some(last) if found == some && counted < max => start = Bound::Excluded(last),
                Some(_) | None => return Ok(counted),
            }
        }
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        check_sizes(&batch.writes, &batch.adds)?;
        let removed = || StoreError::Away("the store is closed".to_owned());
        let (answer, outcome) = oneshot::channel();
        let room = self.room.of(&batch).await;
        let job = CommitJob { batch, durability, answer, room };
        self.queue.as_ref().ok_or_else(removed)?.send(job).await.map_err(|_| removed())?;
        outcome.await.unwrap_or_else(|_| Err(StoreError::Unknown("the writing thread ended".to_owned())))
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        let _still = self.state.handle.still();
        changelog::read(&self.state.handle.tree(), after, limit)
    }

    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        let mut feed = self.feed().await;
        let walking = spawn_blocking(move || {
            let hand = |page| to.blocking_send(page).map_err(|_| StoreError::Away("the receiver of the copy has gone".to_owned()));
            while let Some(rows) = feed.rows()? {
                hand(CopyPage::Rows(rows))?;
            }
            let until = feed.newest();
            while let Some(changes) = feed.changes(until)? {
                hand(CopyPage::Changes(changes))?;
            }
            hand(CopyPage::End(Box::new(feed.sums())))
        });
        walking.await.unwrap_or_else(|_| Err(StoreError::Away("the tree stopped while it was copied".to_owned())))
    }

    fn sizes(&self) -> SpaceSizes {
        SpaceSizes {
            backend: "sled",
            syncs: self.syncs(),
            renewal_fails: self.state.health.grown(),
            damage: self.state.health.damage(),
            ..self.state.handle.still().sizes()
        }
    }
}

/// The writing thread: takes queued commits and completes them until the store is dropped.
fn write_all(mut jobs: mpsc::Receiver<CommitJob>, mut disk: Disk) {
    let mut queued = Vec::with_capacity(GROUP_COMMITS);
    while jobs.blocking_recv_many(&mut queued, GROUP_COMMITS) > 0 {
        let mut remaining = queued.drain(..);
        while remaining.len() > 0 {
            write_group(&mut remaining, &mut disk);
        }
    }
    if let Err(error) = disk.commit(CommitGroup::default(), Durability::Durable) {
        tracing::error!(%error, "the store could not write its last commits when it was closed");
    }
}

/// Writes as many commits as fit in one group and reports their outcomes. Rejected commits are answered together with
/// the others, because the reason may be a write in the same group.
fn write_group(jobs: &mut impl Iterator<Item = CommitJob>, disk: &mut Disk) {
    let (mut group, mut durability) = (CommitGroup::default(), Durability::Buffered);
    let mut decided = Vec::new();
    while !group.is_full()
        && let Some(job) = jobs.next()
    {
        if job.durability == Durability::Durable {
            durability = Durability::Durable;
        }
        decided.push((job.answer, job.room, disk.decide(&mut group, job.batch)));
    }
    let outcome = disk.commit(group, durability);
    for (waiter, _room, sums) in decided {
        // The caller may have gone. The commit stands.
        _ = waiter.send(sums.and_then(|sums| outcome.clone().map(|()| sums)));
    }
    disk.write_out();
}

/// Converts a range of a space to a range of the tree.
fn bounds(space: Space, range: KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let at = |key: Vec<u8>| values::head_key(space, &key);
    let start = match range.start {
        Bound::Unbounded => Bound::Included(vec![space as u8]),
        start => start.map(at),
    };
    let end = match range.end {
        Bound::Unbounded => Bound::Excluded(vec![space as u8 + 1]),
        end => end.map(at),
    };
    (start, end)
}

#[cfg(test)]
mod tests;
