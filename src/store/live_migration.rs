//! A store in a folder that can move: a running process continues with another store that has the same contents.
//!
//! Readers need no lock to find the current store. Commits hold a shared lock, which is free except for the moment in
//! which the last commits to the folder are completed. Commits that arrive in that moment wait and go to the other
//! store.
//!
//! The process relies on having its store to itself. So the other store stays exclusive to it until it has restarted
//! (`tollhouse_backup`). From the move on, all its commits are durable, because the other store can crash on its own.

use std::sync::{Arc, OnceLock};
use tollhouse_base::boxed;

use async_trait::async_trait;
use tokio::{
    sync::{Mutex, MutexGuard, OwnedRwLockWriteGuard, RwLock, mpsc},
    task::spawn_blocking,
};

use super::{
    Batch, Changes, CopyPage, Direction, Durability, KeyRange, KeyValues, Space, SpaceSizes, Store, StoreError,
    import::{FillError, Importer},
    sled::{MigrationFeed, SledStore},
};

/// A store in a folder, or the store that it has moved to.
pub struct MigratableStore {
    folder: SledStore,
    moved: OnceLock<Arc<dyn Store>>,
    /// Held shared by running commits, and exclusively while commits are paused.
    commits: Arc<RwLock<()>>,
    /// Held while the store is being moved.
    moving: Mutex<()>,
}

/// A copy of all rows, and of changes committed meanwhile, to another store.
pub struct MigrationWalk {
    /// Poisoned if reading it panicked.
    feed: Arc<std::sync::Mutex<MigrationFeed>>,
    importer: Importer,
    to: Arc<dyn Store>,
    /// Number of rows copied so far.
    pub rows: u64,
    /// Number of those rows that commits wrote meanwhile.
    pub changes: u64,
}

/// A guard that pauses commits. If it is dropped without a move, commits continue in the folder.
pub struct CommitPause(#[expect(dead_code, reason = "it is held")] OwnedRwLockWriteGuard<()>);

impl MigratableStore {
    /// Wraps a store that has not moved.
    pub fn new(folder: SledStore) -> Self {
        Self { folder, moved: OnceLock::new(), commits: Arc::default(), moving: Mutex::default() }
    }

    /// Returns the store in the folder, even if the rows have moved.
    pub fn folder(&self) -> &SledStore {
        &self.folder
    }

    /// Locks the store for moving. Returns `None` if another move holds the lock or the store has already moved.
    pub fn moving(&self) -> Option<MutexGuard<'_, ()>> {
        self.moving.try_lock().ok().filter(|_| self.moved.get().is_none())
    }

    /// Begins to copy all rows to `to`, which nobody else may use.
    #[boxed]
    pub async fn leave(&self, to: Arc<dyn Store>) -> MigrationWalk {
        MigrationWalk { feed: Arc::new(self.folder.feed().await.into()), importer: Importer::new(Arc::clone(&to)), to, rows: 0, changes: 0 }
    }

    /// Pauses commits after completing those that have begun.
    #[boxed]
    pub async fn pause(&self) -> Result<CommitPause, StoreError> {
        let alone = Arc::clone(&self.commits).write_owned().await;
        // An empty commit waits for commits whose callers have gone.
        self.folder.apply(Batch::new(), Durability::Durable).await?;
        Ok(CommitPause(alone))
    }

    /// Switches to `to`, which must have the same contents.
    pub fn switch(&self, to: Arc<dyn Store>, paused: CommitPause) {
        // A store moves only once, because there is no way back.
        _ = self.moved.set(to);
        drop(paused);
    }

    fn current(&self) -> &dyn Store {
        match self.moved.get() {
            Some(moved) => &**moved,
            None => &self.folder,
        }
    }
}

impl MigrationWalk {
    /// Copies the next rows. Returns false after the last.
    #[boxed]
    pub async fn copy_some(&mut self) -> Result<bool, StoreError> {
        let Some(rows) = self.read(MigrationFeed::rows).await? else { return Ok(false) };
        self.rows += self.importer.take(CopyPage::Rows(rows)).await?;
        Ok(true)
    }

    /// Copies the changes committed so far and returns the number of rows. If `look` is set, each row is read back.
    #[boxed]
    pub async fn follow(&mut self, look: bool) -> Result<u64, FillError> {
        let (until, mut followed) = (self.read(|feed| Ok(feed.newest())).await?, 0);
        while let Some(changes) = self.read(move |feed| feed.changes(until)).await? {
            followed +=
                if look { self.importer.take_and_look(changes).await? } else { self.importer.take(CopyPage::Changes(changes)).await? };
        }
        self.changes += followed;
        Ok(followed)
    }

    /// Reads all rows in the other store and compares them with the totals here at the last copied change.
    #[boxed]
    pub async fn compare(&self) -> Result<(), FillError> {
        self.importer.settle(&self.read(|feed| Ok(feed.sums())).await?).await
    }

    /// Makes everything copied durable in the other store.
    #[boxed]
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.to.apply(Batch::new(), Durability::Durable).await.map(drop)
    }

    /// Reads from the feed, which blocks, on another thread.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut MigrationFeed) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stopped = || StoreError::Away("the tree stopped while it was copied".to_owned());
        let feed = Arc::clone(&self.feed);
        let reading = spawn_blocking(move || read(&mut *feed.lock().map_err(|_| stopped())?));
        reading.await.map_err(|_| stopped())?
    }
}

#[async_trait]
impl Store for MigratableStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.current().get(space, key).await
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<KeyValues, StoreError> {
        self.current().scan(space, range, limit, direction).await
    }

    async fn count(&self, space: Space, range: KeyRange, max: usize) -> Result<usize, StoreError> {
        self.current().count(space, range, max).await
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        let _under_way = self.commits.read().await;
        match self.moved.get() {
            Some(moved) => moved.apply(batch, Durability::Durable).await,
            None => self.folder.apply(batch, durability).await,
        }
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        self.current().changes(after, limit).await
    }

    async fn copy(&self, to: mpsc::Sender<CopyPage>) -> Result<(), StoreError> {
        self.current().copy(to).await
    }

    fn sizes(&self) -> SpaceSizes {
        let sizes = self.current().sizes();
        match self.moved.get() {
            // Count all syncs since the start, in both stores.
            Some(_) => SpaceSizes { syncs: sizes.syncs + self.folder.syncs(), ..sizes },
            None => sizes,
        }
    }
}
