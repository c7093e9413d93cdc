//! A store in a folder that may move: the process that has it open goes on with another one, which then holds the same.
//!
//! Who reads asks no lock where the rows are. Who commits holds one that is shared, and free but for the moment in which the last commits
//! are on their way: whoever comes then waits, and commits to the other store.
//!
//! The process built on having its store to itself, and goes on so: the other store stays its own until it has started again
//! (`tollhouse_backup`). What a commit of it was answered is durable from then on, for the other store may crash without it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use tokio::{
    sync::{Mutex, MutexGuard, OwnedRwLockWriteGuard, RwLock, mpsc},
    task::spawn_blocking,
};

use super::{
    Batch, Changes, Direction, Durability, KeyRange, Page, Pairs, Sizes, Space, Store, StoreError, Write,
    fill::{FillError, Filler},
    sled::{Feed, SledStore},
};

/// A store in a folder, or the one that it has moved to.
pub struct MovableStore {
    folder: SledStore,
    moved: OnceLock<Arc<dyn Store>>,
    /// Shared by commits under way.
    commits: Arc<RwLock<()>>,
    /// Held by who moves it.
    moving: Mutex<()>,
}

/// A walk through all rows, and what is committed meanwhile.
pub struct Leaving {
    /// Away while it reads.
    feed: Option<Feed>,
    filler: Filler,
    to: Arc<dyn Store>,
    /// Rows that were copied so far.
    pub rows: u64,
    /// Of them those that commits wrote meanwhile.
    pub changes: u64,
}

/// No commit is under way, and none happens: who dropped it lets them go on where they were.
pub struct Paused(#[expect(dead_code, reason = "it is held")] OwnedRwLockWriteGuard<()>);

impl fmt::Debug for MovableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovableStore").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl MovableStore {
    /// A store that is here.
    #[must_use]
    pub fn new(folder: SledStore) -> Self {
        Self { folder, moved: OnceLock::new(), commits: Arc::default(), moving: Mutex::default() }
    }

    /// The store in the folder, wherever the rows are.
    pub fn folder(&self) -> &SledStore {
        &self.folder
    }

    /// Leave to move it, which one has at a time; none where it has moved.
    pub fn moving(&self) -> Option<MutexGuard<'_, ()>> {
        self.moving.try_lock().ok().filter(|_| self.moved.get().is_none())
    }

    /// Begins to copy all rows to `to`, which nobody else has.
    pub async fn leave(&self, to: Arc<dyn Store>) -> Leaving {
        Leaving { feed: Some(self.folder.feed().await), filler: Filler::new(Arc::clone(&to)), to, rows: 0, changes: 0 }
    }

    /// Has commits wait, once those are written that were on their way.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn pause(&self) -> Result<Paused, StoreError> {
        let alone = Arc::clone(&self.commits).write_owned().await;
        // Behind those whose askers have gone.
        self.folder.apply(Batch::new(), Durability::Durable).await?;
        Ok(Paused(alone))
    }

    /// From now on the rows are in `to`, which holds the same.
    pub fn go(&self, to: Arc<dyn Store>, paused: Paused) {
        // It moves once: there is no way from there.
        _ = self.moved.set(to);
        drop(paused);
    }

    fn there(&self) -> &dyn Store {
        match self.moved.get() {
            Some(moved) => &**moved,
            None => &self.folder,
        }
    }
}

impl Leaving {
    /// Copies the next rows; false behind the last.
    ///
    /// # Errors
    ///
    /// Those of both stores.
    pub async fn copy_some(&mut self) -> Result<bool, StoreError> {
        let Some(rows) = self.ask(Feed::rows).await? else { return Ok(false) };
        self.rows += self.filler.take(Page::Rows(rows)).await?;
        Ok(true)
    }

    /// Copies what was committed by now; answers how many rows that were. Each is read back where `look` says so.
    ///
    /// # Errors
    ///
    /// Those of both stores; rows that are not there as they were written.
    pub async fn follow(&mut self, look: bool) -> Result<u64, FillError> {
        let (until, mut followed) = (self.feed()?.newest(), 0);
        while let Some(changes) = self.changes(until).await? {
            followed += if look { self.filler.take_and_look(changes).await? } else { self.filler.take(Page::Changes(changes)).await? };
        }
        self.changes += followed;
        Ok(followed)
    }

    /// Reads all rows there, and holds them against what the rows here came to when the last was copied.
    ///
    /// # Errors
    ///
    /// Those of both stores; rows that differ.
    pub async fn compare(&self) -> Result<(), FillError> {
        self.filler.settle(&self.feed()?.sums()).await
    }

    /// Has all that was copied be on disk there.
    ///
    /// # Errors
    ///
    /// The other store's.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.to.apply(Batch::new(), Durability::Durable).await.map(drop)
    }

    async fn changes(&mut self, until: u64) -> Result<Option<Vec<Write>>, StoreError> {
        self.ask(move |feed| feed.changes(until)).await
    }

    /// Asks for what is read on the disk.
    async fn ask<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut Feed) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stopped = || StoreError::Away("the tree stopped while it was copied".to_owned());
        let mut feed = self.feed.take().ok_or_else(stopped)?;
        let asked = spawn_blocking(move || {
            let answer = what(&mut feed);
            (feed, answer)
        });
        let (feed, answer) = asked.await.map_err(|_| stopped())?;
        self.feed = Some(feed);
        answer
    }

    fn feed(&self) -> Result<&Feed, StoreError> {
        self.feed.as_ref().ok_or_else(|| StoreError::Away("the tree stopped while it was copied".to_owned()))
    }
}

#[async_trait]
impl Store for MovableStore {
    async fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.there().get(space, key).await
    }

    async fn scan(&self, space: Space, range: KeyRange, limit: usize, direction: Direction) -> Result<Pairs, StoreError> {
        self.there().scan(space, range, limit, direction).await
    }

    async fn count(&self, space: Space, range: KeyRange, most: usize) -> Result<usize, StoreError> {
        self.there().count(space, range, most).await
    }

    async fn apply(&self, batch: Batch, durability: Durability) -> Result<Vec<i128>, StoreError> {
        let _under_way = self.commits.read().await;
        match self.moved.get() {
            Some(moved) => moved.apply(batch, Durability::Durable).await,
            None => self.folder.apply(batch, durability).await,
        }
    }

    async fn changes(&self, after: u64, limit: usize) -> Result<Changes, StoreError> {
        self.there().changes(after, limit).await
    }

    async fn copy(&self, to: mpsc::Sender<Page>) -> Result<(), StoreError> {
        self.there().copy(to).await
    }

    fn sizes(&self) -> Sizes {
        let sizes = self.there().sizes();
        match self.moved.get() {
            // Of all since the start, wherever they were.
            Some(_) => Sizes { syncs: sizes.syncs + self.folder.syncs(), ..sizes },
            None => sizes,
        }
    }
}
