//! Objects: contents too large for rows, in a folder or a bucket, under names that the host makes up.
//!
//! What an object is for is a row, and one that nothing is for goes away. So a name is promised before anything is put under it
//! ([`Objects::put`]), the commit that makes a row hold the object takes that promise back ([`Promised::kept`]), and the commit that
//! takes the row away marks the object as done with ([`Objects::ends`]). What is promised for over a day, and what is done with, is
//! deleted ([`Objects::collect`]); no list of the bucket is needed to find it.

#![warn(missing_docs)]

mod bucket;

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, Semaphore};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, Table, Tx, schema};

use self::bucket::new_name;
pub use self::bucket::{Bucket, BucketError, Kept, Place};

/// How long a name is promised for, in milliseconds: nothing is held by a row later than that.
const PROMISED_MS: u64 = 24 * 3_600 * 1_000;

/// How long a bucket may take for what its row can take as well: somebody waits.
const APART_WITHIN: Duration = Duration::from_secs(5);

/// How often what nothing is for is deleted.
const COLLECT_EVERY: Duration = Duration::from_secs(600);

/// Marks that are read at once.
const SOME: usize = 500;

/// Marks that one commit takes away: the commits of payments wait for it.
const MARKS: usize = 100;

/// Objects that a host deletes at the same time: a bucket may take its time for each.
const DELETES: usize = 16;

/// Names of what goes away, by when it does.
const OBJECT_ENDS: Table<Ending, ()> = schema::OBJECT_ENDS.holding();

/// From when on an object may be deleted, and its name.
type Ending = (Timestamp, String);

/// Where a host keeps what is too large for rows. One per host.
pub struct Objects {
    store: Arc<dyn Store>,
    clock: Clock,
    bucket: Arc<dyn Bucket>,
    /// Permits to delete an object.
    deletes: Semaphore,
    /// Wakes the task that deletes what nothing is for.
    to_collect: Arc<Notify>,
    /// Of those who want everything to stay.
    holders: Arc<()>,
}

/// Nothing is deleted as long as one is there: what is done with goes later.
#[derive(Debug)]
pub struct Stays(#[expect(dead_code, reason = "it is counted")] Arc<()>);

/// Why nothing was put.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bucket's.
    #[error(transparent)]
    Bucket(#[from] io::Error),
}

/// An object that no row holds yet.
#[derive(Debug)]
pub struct Promised {
    /// What it is got by.
    pub name: String,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
    end: Ending,
}

impl Promised {
    /// Makes the commit one that holds the object for good. False where the promise is over: nothing may hold the object any more.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn kept(&self, tx: &mut Tx<'_>) -> Result<bool, StoreError> {
        let row = tx.row(&OBJECT_ENDS, &self.end).await?;
        Ok(row.map(|row| tx.remove(&OBJECT_ENDS, &row)).is_some())
    }

    /// The same of a batch, which is not committed where the promise is over.
    pub fn keep(&self, batch: &mut Batch) {
        batch.remove(&OBJECT_ENDS, &OBJECT_ENDS.own(self.end.clone(), ()));
    }
}

/// Objects that a commit has marked as done with.
#[derive(Debug, Default)]
#[must_use = "until it is discarded, or collected later, the object stays"]
pub struct Ended(Vec<Ending>);

impl Ended {
    /// Both.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl Objects {
    /// Objects in this bucket, and what becomes of them in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, bucket: Arc<dyn Bucket>) -> Arc<Self> {
        let (deletes, to_collect) = (Semaphore::new(DELETES), Arc::default());
        Arc::new(Self { store, clock, bucket, deletes, to_collect, holders: Arc::default() })
    }

    /// Objects in a folder.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_folder(store: Arc<dyn Store>, folder: &std::path::Path) -> Arc<Self> {
        Self::new(store, Clock::default(), Arc::new(Kept::at(&Place::Folder(folder.to_owned())).expect("a test has a folder")))
    }

    /// Whether every host that has the store is sure to have the objects.
    #[must_use]
    fn are_everywhere(&self) -> bool {
        !self.store.is_shared() || self.bucket.is_everywhere()
    }

    /// Deletes every so often what nothing is for, as long as somebody has the objects. Must be called inside a tokio runtime.
    pub fn keep_tidy(self: &Arc<Self>) {
        let (objects, to_collect) = (Arc::downgrade(self), Arc::clone(&self.to_collect));
        tokio::spawn(async move {
            while let Some(objects) = objects.upgrade() {
                if let Err(error) = objects.collect().await {
                    tracing::warn!(%error, "the store was not there for objects that nothing is for");
                }
                drop(objects);
                _ = tokio::time::timeout(COLLECT_EVERY, to_collect.notified()).await;
            }
        });
    }

    /// Has the task of [`Objects::keep_tidy`] delete what nothing is for soon, and not only when it is due.
    pub fn collect_soon(&self) {
        self.to_collect.notify_one();
    }

    /// Has everything stay that is there from now on, for who copies it.
    #[must_use]
    pub fn all_stays(&self) -> Stays {
        Stays(Arc::clone(&self.holders))
    }

    /// Puts `content` under a new name.
    ///
    /// # Errors
    ///
    /// The store's and the bucket's; no row may hold it then.
    pub async fn put(&self, content: Bytes) -> Result<Promised, PutError> {
        let (name, sha256) = (new_name()?, digest(&content));
        let end = (self.clock.now().plus_millis(PROMISED_MS), name.clone());
        // On disk before the object is: what a crash leaves is found.
        OBJECT_ENDS.put(&end, &()).commit(&*self.store, Durability::Durable).await?;
        let promised = Promised { name, sha256, end };
        match self.bucket.put(&promised.name, content).await {
            Ok(()) => Ok(promised),
            Err(error) => {
                self.discard(Ended(vec![promised.end])).await;
                Err(error.into())
            }
        }
    }

    /// Puts apart what a row would hold, for a row that names it instead, if rows [may do so](tollhouse_replica::Replica::may_write). `None`
    /// where the row is to hold it still: a host serves the store that does not find it here, or does not read the other form, or nothing
    /// can be put now, which is logged of `what`.
    pub async fn put_apart(
        &self,
        may_name: impl Future<Output = Result<bool, StoreError>>,
        what: &str,
        content: Bytes,
    ) -> Option<Promised> {
        if !self.are_everywhere() {
            return None;
        }
        let logged = |error: &dyn fmt::Display| tracing::warn!(%error, "{what} is stored in a row: it could not be put apart");
        match may_name.await {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                logged(&error);
                return None;
            }
        }
        match tokio::time::timeout(APART_WITHIN, self.put(content)).await {
            Ok(Ok(promised)) => Some(promised),
            Ok(Err(error)) => {
                logged(&error);
                None
            }
            Err(elapsed) => {
                logged(&elapsed);
                None
            }
        }
    }

    /// What is under a name; `None` where nothing is. Content that is not what was put there, where that is known, is an error.
    ///
    /// # Errors
    ///
    /// The bucket's; [`io::ErrorKind::InvalidData`].
    pub async fn get(&self, name: &str, sha256: Option<&str>) -> io::Result<Option<Bytes>> {
        let found = self.bucket.get(name).await?;
        let other = |content: &Bytes| sha256.is_some_and(|sha256| digest(content) != sha256);
        if found.as_ref().is_some_and(other) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("object {name} is not what was put there")));
        }
        Ok(found)
    }

    /// Marks objects as done with, in the commit that takes away the rows which hold them.
    pub fn ends(&self, batch: &mut Batch, names: impl IntoIterator<Item = String>) -> Ended {
        let now = self.clock.now();
        let ended: Vec<_> = names.into_iter().map(|name| (now, name)).collect();
        ended.iter().for_each(|end| _ = batch.put(&OBJECT_ENDS, end, &()));
        Ended(ended)
    }

    /// Deletes what a commit has marked, and the marks. What cannot be deleted now is collected later.
    pub async fn discard(&self, ended: Ended) {
        if let Err(error) = self.delete(ended.0).await {
            tracing::warn!(%error, "marks of objects that are gone stay in the store until they are collected");
        }
    }

    /// Takes back what was put and is held by nothing, as is known.
    pub async fn withdraw(&self, promised: Promised) {
        self.discard(Ended(vec![promised.end])).await;
    }

    /// Deletes what is promised no more, and what is done with: how many objects.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn collect(&self) -> Result<usize, StoreError> {
        let mut now = self.clock.now();
        if self.store.is_shared() {
            // Others have promised them by their clocks: where this one is ahead, that is no reason to delete what they have put.
            now = now.min(self.store.now().await?);
        }
        let mut due = OBJECT_ENDS.all().before(&now);
        let mut collected = 0;
        loop {
            let page = OBJECT_ENDS.page(&*self.store, &due, SOME, Direction::Forward).await?;
            let Some(last) = page.last() else { return Ok(collected) };
            due = due.after(&last.key);
            collected += self.delete(page.into_iter().map(|row| row.key).collect()).await?;
        }
    }

    /// Deletes objects, then the marks of those that are gone: how many.
    async fn delete(&self, ends: Vec<Ending>) -> Result<usize, StoreError> {
        if Arc::strong_count(&self.holders) > 1 {
            return Ok(0);
        }
        let (mut gone, mut ends) = (0, ends.into_iter().peekable());
        while ends.peek().is_some() {
            let some: Vec<_> = ends.by_ref().take(MARKS).collect();
            let deleted: Vec<_> = stream::iter(some).map(|end| self.delete_one(end)).buffer_unordered(DELETES).collect().await;
            let mut batch = Batch::new();
            deleted.iter().flatten().for_each(|end| _ = batch.delete(&OBJECT_ENDS, end));
            gone += deleted.iter().flatten().count();
            if !batch.changes_nothing() {
                batch.commit(&*self.store, Durability::Buffered).await?;
            }
        }
        Ok(gone)
    }

    /// Deletes an object; answers its mark once it is gone.
    async fn delete_one(&self, end: Ending) -> Option<Ending> {
        let _permit = self.deletes.acquire().await.ok()?;
        match self.bucket.delete(&end.1).await {
            Ok(()) => Some(end),
            Err(error) => {
                tracing::warn!(%error, object.name = end.1, "an object that nothing is for stays for now");
                None
            }
        }
    }
}

/// What the content of an object is known by: its SHA-256, in hex.
#[must_use]
pub fn digest(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
