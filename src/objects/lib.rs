//! Objects: contents too large for rows, in a folder or a bucket, under generated names.
//!
//! A row references an object, and an object without a row is deleted. So a name is reserved before anything is stored
//! under it ([`Objects::put`]). The commit that makes a row reference the object removes that reservation
//! ([`PendingObject::claim`]), and the commit that deletes the row marks the object as unused ([`Objects::ends`]). Unused
//! objects, and those whose reservation is older than a day, are deleted ([`Objects::collect`]). The bucket never has
//! to be listed.

#![warn(missing_docs)]

mod bucket;
mod sample;

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, Semaphore};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_store::{Batch, Direction, Durability, Store, StoreError, Table, Tx, log_unavailable, schema};

use self::bucket::new_name;
pub use self::{
    bucket::{Bucket, BucketError, BucketLocation, ObjectLayout},
    sample::{SampleReport, SampledObject},
};

/// How long a name stays reserved, in milliseconds. No row may reference the object after that.
const PROMISED_MS: u64 = 24 * 3_600 * 1_000;

/// Timeout for storing contents in the bucket that the row could hold itself, because a caller waits.
const APART_WITHIN: Duration = Duration::from_secs(5);

/// How often unused objects are deleted.
const COLLECT_EVERY: Duration = Duration::from_secs(600);

/// Maximum number of marks read at once.
const SOME: usize = 500;

/// Maximum number of marks deleted in one commit, because commits of payments wait for it.
const MARKS: usize = 100;

/// Maximum number of concurrent deletes, which can be slow in a bucket.
const DELETES: usize = 16;

/// Names of objects to delete, by due time.
const OBJECT_ENDS: Table<DeletionKey, ()> = schema::OBJECT_ENDS.holding();

/// When an object may be deleted, and its name.
type DeletionKey = (Timestamp, String);

/// The storage for contents that are too large for rows. One per host.
pub struct Objects {
    store: Arc<dyn Store>,
    clock: Clock,
    bucket: Arc<dyn Bucket>,
    /// Permits for deleting an object.
    deletes: Semaphore,
    /// Wakes the task that deletes unused objects.
    to_collect: Arc<Notify>,
    /// Counts the holders of [`DeletionPause`].
    holders: Arc<()>,
}

/// A guard that prevents deletions. Unused objects are deleted later.
#[derive(Debug)]
pub struct DeletionPause(#[expect(dead_code, reason = "it is counted")] Arc<()>);

/// Why an object was not stored.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of the bucket.
    #[error(transparent)]
    Bucket(#[from] io::Error),
}

/// An object that no row references yet.
#[derive(Debug)]
pub struct PendingObject {
    /// Its name in the bucket.
    pub name: String,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
    end: DeletionKey,
}

impl PendingObject {
    /// Removes the reservation in a commit, which keeps the object. Returns false if the reservation has ended, after
    /// which no row may reference the object.
    pub async fn claim(&self, tx: &mut Tx<'_>) -> Result<bool, StoreError> {
        let row = tx.row(&OBJECT_ENDS, &self.end).await?;
        Ok(row.map(|row| tx.remove(&OBJECT_ENDS, &row)).is_some())
    }

    /// Removes the reservation in a batch, which keeps the object. The commit conflicts if the reservation has ended.
    pub fn keep(&self, batch: &mut Batch) {
        batch.remove(&OBJECT_ENDS, &OBJECT_ENDS.own(self.end.clone(), ()));
    }
}

/// Objects that a commit marks as unused.
#[derive(Debug, Default)]
#[must_use = "until it is discarded, or collected later, the object stays"]
pub struct EndedObjects(Vec<DeletionKey>);

impl EndedObjects {
    /// Merges both.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl Objects {
    /// Creates the storage for this bucket, with bookkeeping in this store.
    pub fn new(store: Arc<dyn Store>, clock: Clock, bucket: Arc<dyn Bucket>) -> Arc<Self> {
        let (deletes, to_collect) = (Semaphore::new(DELETES), Arc::default());
        Arc::new(Self { store, clock, bucket, deletes, to_collect, holders: Arc::default() })
    }

    /// Creates the storage in a folder.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_folder(store: Arc<dyn Store>, folder: &std::path::Path) -> Arc<Self> {
        Self::new(
            store,
            Clock::default(),
            Arc::new(ObjectLayout::at(&BucketLocation::Folder(folder.to_owned())).expect("a test has a folder")),
        )
    }

    /// Returns whether every host that shares the store can access the objects.
    fn are_everywhere(&self) -> bool {
        !self.store.is_shared() || self.bucket.is_everywhere()
    }

    /// Deletes unused objects periodically, as long as somebody holds the storage. Call it inside a tokio runtime.
    pub fn collect_garbage(self: &Arc<Self>) {
        let (objects, to_collect) = (Arc::downgrade(self), Arc::clone(&self.to_collect));
        tokio::spawn(async move {
            while let Some(objects) = objects.upgrade() {
                if let Err(error) = objects.collect().await {
                    log_unavailable(&error, "deleting unused objects");
                }
                drop(objects);
                _ = tokio::time::timeout(COLLECT_EVERY, to_collect.notified()).await;
            }
        });
    }

    /// Makes the task of [`Objects::collect_garbage`] delete unused objects soon instead of at its next due time.
    pub fn schedule_collection(&self) {
        self.to_collect.notify_one();
    }

    /// Prevents deletions while objects are copied, until the guard is dropped.
    pub fn pause_deletions(&self) -> DeletionPause {
        DeletionPause(Arc::clone(&self.holders))
    }

    /// Stores `content` under a new name.
    /// After an error no row may reference the object.
    pub async fn put(&self, content: Bytes) -> Result<PendingObject, PutError> {
        let (name, sha256) = (new_name()?, digest(&content));
        let end = (self.clock.now().plus_millis(PROMISED_MS), name.clone());
        // Make the reservation durable before the object exists, so that an object left by a crash is found.
        OBJECT_ENDS.put(&end, &()).commit(&*self.store, Durability::Durable).await?;
        let promised = PendingObject { name, sha256, end };
        match self.bucket.put(&promised.name, content).await {
            Ok(()) => Ok(promised),
            Err(error) => {
                self.discard(EndedObjects(vec![promised.end])).await;
                Err(error.into())
            }
        }
    }

    /// Stores contents as an object for a row that can also hold them itself. Returns `None` if the row must hold them:
    /// because another host of the store could not find the object, or because storing failed, which is logged for `what`.
    pub async fn put_apart(&self, what: &str, content: Bytes) -> Option<PendingObject> {
        if !self.are_everywhere() {
            return None;
        }
        let stored = match tokio::time::timeout(APART_WITHIN, self.put(content)).await {
            Ok(stored) => stored.map_err(|error| error.to_string()),
            Err(elapsed) => Err(elapsed.to_string()),
        };
        stored.inspect_err(|error| tracing::warn!(error, "{what} is stored in its row: the object could not be stored")).ok()
    }

    /// Returns the object with this name, or `None` if there is none. If `sha256` is given and does not match the
    /// content, that is an error.
    pub async fn get(&self, name: &str, sha256: Option<&str>) -> io::Result<Option<Bytes>> {
        let found = self.bucket.get(name).await?;
        let other = |content: &Bytes| sha256.is_some_and(|sha256| digest(content) != sha256);
        if found.as_ref().is_some_and(other) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the content of object {name} has changed")));
        }
        Ok(found)
    }

    /// Looks for each object of a sample.
    ///
    /// # Errors
    ///
    /// The bucket cannot be read.
    pub async fn look_for(&self, sample: Vec<SampledObject>) -> io::Result<SampleReport> {
        SampleReport::of(&*self.bucket, sample).await
    }

    /// Marks objects as unused, in the commit that deletes the rows which reference them.
    pub fn ends(&self, batch: &mut Batch, names: impl IntoIterator<Item = String>) -> EndedObjects {
        let now = self.clock.now();
        let ended: Vec<_> = names.into_iter().map(|name| (now, name)).collect();
        ended.iter().for_each(|end| _ = batch.put(&OBJECT_ENDS, end, &()));
        EndedObjects(ended)
    }

    /// Deletes the objects that a commit has marked, and then the marks. Anything that cannot be deleted now is
    /// collected later.
    pub async fn discard(&self, ended: EndedObjects) {
        if let Err(error) = self.delete(ended.0).await {
            tracing::warn!(%error, "marks of deleted objects stay in the store until the next collection");
        }
    }

    /// Deletes an object that was stored but is certainly not referenced.
    pub async fn withdraw(&self, promised: PendingObject) {
        self.discard(EndedObjects(vec![promised.end])).await;
    }

    /// Deletes unused objects and those with expired reservations. Returns their number.
    pub async fn collect(&self) -> Result<usize, StoreError> {
        let mut now = self.clock.now();
        if self.store.is_shared() {
            // Other hosts reserve names by their own clocks. If this host's clock is ahead, it must not delete what
            // they have stored.
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

    /// Deletes objects, then the marks of those that are gone. Returns their number.
    async fn delete(&self, ends: Vec<DeletionKey>) -> Result<usize, StoreError> {
        if Arc::strong_count(&self.holders) > 1 {
            return Ok(0);
        }
        let (mut removed, mut ends) = (0, ends.into_iter().peekable());
        while ends.peek().is_some() {
            let some: Vec<_> = ends.by_ref().take(MARKS).collect();
            let deleted: Vec<_> = stream::iter(some).map(|end| self.delete_one(end)).buffer_unordered(DELETES).collect().await;
            let mut batch = Batch::new();
            deleted.iter().flatten().for_each(|end| _ = batch.delete(&OBJECT_ENDS, end));
            removed += deleted.iter().flatten().count();
            if !batch.changes_nothing() {
                batch.commit(&*self.store, Durability::Buffered).await?;
            }
        }
        Ok(removed)
    }

    /// Deletes an object. Returns its mark once it is gone.
    async fn delete_one(&self, end: DeletionKey) -> Option<DeletionKey> {
        let _permit = self.deletes.acquire().await.ok()?;
        match self.bucket.delete(&end.1).await {
            Ok(()) => Some(end),
            Err(error) => {
                tracing::warn!(%error, object.name = end.1, "an unused object could not be deleted; the host will try again");
                None
            }
        }
    }
}

/// Returns the SHA-256 of an object's content, in hex.
pub fn digest(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

#[cfg(test)]
mod tests;
