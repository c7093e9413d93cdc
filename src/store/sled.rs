//! The store on one machine's disk: a journal, and sled as the index of it.
//!
//! One tree holds every space. All commits go through one thread: it takes what is queued, and decides each over the tree and
//! those before it (`group`); then all of them are one frame of the journal, and one `fdatasync` if any is to be durable. Only
//! then is the tree brought there, in one batch, and they are answered (`disk`). Commits are serial without a lock, neighbours
//! share the sync, and no reader sees a durable commit that is not on disk. Reads do not pass through the thread. Those of more than a few
//! rows are done on a thread that may wait for the disk: commits wait for them, and so do other readers then, but no task of the runtime.
//!
//! The tree is never waited for: sled writes it out when it likes, and says in it which frame it was brought to (`position`). At
//! the next start it is brought to the journal's end, or, where it is not right, made anew (`open`). A row keeps a checksum, a
//! space a total (`recount`). Large values are cut into pieces (`values`). Checkpoints are made beside (`keeper`), and so is
//! another tree, which takes the place of one that has grown far beyond its rows (`renew`). A copy is walked out of it while others write (`feed`).
//!
//! When a write or a sync of the journal fails, nobody can tell what the disk has. Those who
//! waited get [`StoreError::Unknown`], and from then on every commit is refused as [`StoreError::Away`]
//! until the host is started again and reads what the disk has. Where there is only no room for more, nothing was written:
//! commits are refused until there is (`standing`). Reads go on.

mod archived;
mod away;
mod begin;
mod config;
mod disk;
mod feed;
mod footing;
mod group;
mod home;
mod job;
mod keeper;
mod kept;
mod look;
mod make;
mod moment;
mod older;
mod open;
mod position;
mod recount;
mod renew;
mod renewals;
mod repair;
mod rows;
mod sink;
mod standing;
mod told;
mod tree;
mod values;

use std::{
    fmt,
    fs::File,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, RwLockReadGuard, atomic::Ordering::Relaxed},
    thread::JoinHandle,
};

use async_trait::async_trait;
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    task::spawn_blocking,
};

pub(super) use self::feed::Feed;
pub use self::{
    archived::MoneyRows,
    config::{OpenError, SledConfig},
    repair::{Checked, MAX_LISTED, Repair, check, repair},
};
use self::{
    away::away,
    disk::Disk,
    group::Group,
    job::{Answer, Job},
    keeper::Keeper,
    kept::Kept,
    moment::Moment,
    position::Position,
    standing::Standing,
};
pub use super::journal::Damage;
use super::{
    Batch, Changes, Direction, Durability, KeyRange, Page, Pairs, Sizes, Space, Store, StoreError, check_sizes, journal::Counts, room::Room,
};

/// Commits that may wait for the writing thread before callers wait for a place in the queue.
const QUEUE: usize = 1_024;
/// Commits that share one frame, at most.
const NEIGHBOURS: usize = 256;
/// Keys counted before commits have their turn.
const COUNTED: usize = 1_000;
/// Rows that are read where they are asked for: as many as a walk takes at once. For more, a thread that may
/// wait costs less than it spares.
const FEW: usize = 100;

/// A store in a folder. Dropping it waits for what was committed to be on disk, then lets go of the folder.
pub struct SledStore {
    path: PathBuf,
    config: SledConfig,
    moment: Arc<Moment>,
    counts: Arc<Counts>,
    standing: Arc<Standing>,
    queue: Option<mpsc::Sender<Job>>,
    room: Room,
    writer: Option<JoinHandle<()>>,
    keeper: Option<Keeper>,
    /// The journal keeps all frames as long as this is held.
    frames: Arc<Mutex<()>>,
    /// Held locked.
    _lock: File,
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore").field("path", &self.path).field("config", &self.config).finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the store in the folder `path`; makes it if it is not there.
    ///
    /// # Errors
    ///
    /// Each [`OpenError`] says what to do about it. Nothing is changed in a folder that is damaged, in use
    /// or of another format.
    pub fn open(path: impl AsRef<Path>, config: SledConfig) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let open::Opened { disk, moment, counts, standing, left, lock } = open::open(&path, &config)?;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let io = |source| OpenError::Io { path: path.clone(), source };
        let writer = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || write_all(jobs, disk)).map_err(io)?;
        let frames = Arc::<Mutex<()>>::default();
        let keeper = Keeper::start(Kept {
            store: path.clone(),
            config: config.clone(),
            moment: Arc::clone(&moment),
            counts: Arc::clone(&counts),
            standing: Arc::clone(&standing),
            left,
            frames: Arc::clone(&frames),
            queue: queue.downgrade(),
        });
        let keeper = Some(keeper.map_err(io)?);
        Ok(Self {
            path,
            config,
            moment,
            counts,
            standing,
            queue: Some(queue),
            room: Room::new(),
            writer: Some(writer),
            keeper,
            frames,
            _lock: lock,
        })
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

    /// How many times commits were synced since the store was opened.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.counts.syncs.load(Relaxed)
    }

    /// Bytes of the tree on disk.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] if the folder cannot be read.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        self.moment.tree().size_on_disk().map_err(away)
    }

    /// Has another tree take the place of the one there is, as is done by itself once that is much larger than its rows; answers once
    /// it has. For tests.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] says why it could not be made; the one there is goes on.
    pub async fn renew(&self) -> Result<(), StoreError> {
        let (ask, answer) = oneshot::channel();
        if let Some(keeper) = &self.keeper {
            keeper.renew(ask);
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Away("the store is closed".to_owned())))
    }
}

impl SledStore {
    /// Has another checkpoint take the place of the journal up to now, and another tree that of the tree; answers once they have. Killed at
    /// any moment, the store is as it was, or as it is to be.
    ///
    /// # Errors
    ///
    /// [`StoreError::Away`] says why not; what there is goes on.
    pub async fn compact(&self) -> Result<(), StoreError> {
        let (ask, answer) = oneshot::channel();
        if let Some(keeper) = &self.keeper {
            keeper.compact(ask);
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Away("the store is closed".to_owned())))
    }

    /// A walk through all rows, and what is written meanwhile. Another one waits for its end.
    pub(super) async fn feed(&self) -> Feed {
        let frames = Arc::clone(&self.frames).lock_owned().await;
        Feed::begin(self.path.clone(), Arc::clone(&self.moment), frames)
    }

    /// Nothing is applied while it is held.
    fn still(&self) -> RwLockReadGuard<'_, Position> {
        self.moment.still()
    }
}

/// Does `read` on a thread that may wait for the disk.
async fn aside<T: Send + 'static>(read: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
    spawn_blocking(read).await.unwrap_or_else(|_| Err(StoreError::Away("the tree stopped while it was read".to_owned())))
}

/// At most `limit` rows of a range, as they are at one moment.
fn scan(moment: &Moment, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
    let _still = moment.still();
    let most = range.bytes;
    let tree = moment.tree();
    let found = rows::range(&tree, bounds(space, range));
    let resolve = |pair: ::sled::Result<(::sled::IVec, ::sled::IVec)>| {
        let (key, head) = pair.map_err(away)?;
        let key = key[1..].to_vec();
        let value = values::resolve(&tree, space as u8, &key, &head)?;
        Ok((key, value))
    };
    let mut held = 0;
    let read = |pair| {
        let pair = (held < most).then(|| resolve(pair))?;
        held += pair.as_ref().map_or(0, |(key, value)| key.len() + value.len());
        Some(pair)
    };
    match direction {
        Direction::Forward => found.take(limit).map_while(read).collect(),
        Direction::Backward => found.rev().take(limit).map_while(read).collect(),
    }
}

/// The number of keys of a range, at most `some`, and the last of them.
fn count_some(moment: &Moment, range: (Bound<Vec<u8>>, Bound<Vec<u8>>), some: usize) -> ::sled::Result<(usize, Option<Vec<u8>>)> {
    let _still = moment.still();
    let mut last = None;
    let mut found = 0;
    for row in rows::range(&moment.tree(), range).take(some) {
        last = Some(row?.0);
        found += 1;
    }
    Ok((found, last.map(|last| last.to_vec())))
}

impl Drop for SledStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        drop(self.keeper.take());
        if let Some(writer) = self.writer.take() {
            // A panic in it was reported when it happened; its commits answered `Unknown`.
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Store for SledStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(head) = self.moment.tree().get(values::head_key(space, key)).map_err(away)? else { return Ok(None) };
        if values::is_inline(&head) {
            return values::resolve(&self.moment.tree(), space as u8, key, &head).map(Some);
        }
        let _still = self.still();
        values::get(&self.moment.tree(), space, key)
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
        if range.is_empty() || limit == 0 {
            return Ok(Pairs::new());
        }
        if limit <= FEW {
            return scan(&self.moment, space, range, limit, direction);
        }
        let moment = Arc::clone(&self.moment);
        aside(move || scan(&moment, space, range, limit, direction)).await
    }

    async fn count(&self, space: Space, range: KeyRange, most: usize) -> Result<usize, StoreError> {
        if range.is_empty() {
            return Ok(0);
        }
        let (mut start, end) = bounds(space, range);
        let mut counted = 0;
        loop {
            let some = COUNTED.min(most - counted);
            let (moment, part) = (Arc::clone(&self.moment), (start, end.clone()));
            let count = move || count_some(&moment, part, some).map_err(away);
            let (found, last) = if some <= FEW { count()? } else { aside(count).await? };
            counted += found;
            match last {
                Some(last) if found == some && counted < most => start = Bound::Excluded(last),
                Some(_) | None => return Ok(counted),
            }
        }
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        check_sizes(&batch.writes, &batch.adds)?;
        let gone = || StoreError::Away("the store is closed".to_owned());
        let (answer, outcome) = oneshot::channel();
        let room = self.room.of(&batch).await;
        let job = Job { batch, durability, answer, room };
        self.queue.as_ref().ok_or_else(gone)?.send(job).await.map_err(|_| gone())?;
        outcome.await.unwrap_or_else(|_| Err(StoreError::Unknown("the writing thread ended".to_owned())))
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        let _still = self.still();
        told::read(&self.moment.tree(), after, limit)
    }

    async fn copy(&self, to: mpsc::Sender<Page>) -> Result<(), StoreError> {
        let mut feed = self.feed().await;
        let walking = spawn_blocking(move || {
            let hand = |page| to.blocking_send(page).map_err(|_| StoreError::Away("nobody takes the copy any more".to_owned()));
            while let Some(rows) = feed.rows()? {
                hand(Page::Rows(rows))?;
            }
            let until = feed.newest();
            while let Some(changes) = feed.changes(until)? {
                hand(Page::Changes(changes))?;
            }
            hand(Page::End(Box::new(feed.sums())))
        });
        walking.await.unwrap_or_else(|_| Err(StoreError::Away("the tree stopped while it was copied".to_owned())))
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            backend: "sled",
            syncs: self.syncs(),
            renewal_fails: self.standing.grown(),
            damage: self.standing.damage(),
            ..self.still().sizes()
        }
    }
}

/// The writing thread: until the store is dropped, takes what is queued and answers it.
fn write_all(mut jobs: mpsc::Receiver<Job>, mut disk: Disk) {
    let mut queued = Vec::with_capacity(NEIGHBOURS);
    while jobs.blocking_recv_many(&mut queued, NEIGHBOURS) > 0 {
        let mut left = queued.drain(..);
        while left.len() > 0 {
            write_group(&mut left, &mut disk);
        }
    }
    if let Err(error) = disk.commit(Group::default(), Durability::Durable) {
        tracing::error!(%error, "the store could not write its last commits when it was closed");
    }
}

/// Commits as many as go together, and answers them. Who is refused is answered with the others, since it may be for what
/// these write.
fn write_group(jobs: &mut impl Iterator<Item = Job>, disk: &mut Disk) {
    let (mut group, mut durability) = (Group::default(), Durability::Buffered);
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
        answer(waiter, sums.and_then(|sums| outcome.clone().map(|()| sums)));
    }
    disk.write_out();
}

/// Whoever asked may have gone; the commit stands.
fn answer(to: Answer, outcome: Result<Vec<i128>, StoreError>) {
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

#[cfg(test)]
mod tests;
