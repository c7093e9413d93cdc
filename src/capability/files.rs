//! `ctx.files`: files of a tool, with quotas. Their entries are in the store. Their content is in an object store under
//! generated names.
//!
//! A write stores the content first and then commits the entry, so that an entry never names missing content. Content
//! whose entry was replaced is deleted afterwards (see [`Objects`]). Usage is tracked as in `kv`.

mod path;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::EndpointId,
    plural::plural,
};
use tollhouse_fair::{FairSemaphore, Share};
use tollhouse_objects::{EndedObjects, Objects, PendingObject};
use tollhouse_protocol::{Limits, OpFailure, OpValue};
use tollhouse_store::{
    Batch, CountedText, Direction, Durability, Store, StoreError, Table, TextPrefix, Tx, UpdatePlan, WrittenRow, schema, update,
};
use tollhouse_tool::Owner;

use self::path::normalize;
use super::{
    failure::{self, UpdateError, quota_exceeded},
    kv::list::{check_limit, decode_cursor, encode_cursor},
    usage::{Usage, UsageTable, WriteTurn, WriteTurns},
};

/// Maximum number of attempts to read content that is being replaced, before the call fails.
const ATTEMPTS: u32 = 12;
/// Maximum number of concurrent changes of all owners. Each waits for the disk and keeps its content in memory, even if
/// its call was stopped.
const CHANGES: usize = 16;
/// Maximum number of concurrent reads of all owners.
const READS: usize = 16;
/// Number of entries removed in one commit, because commits of payments wait for it.
const SOME: usize = 100;

pub(super) const FILES: Table<Key, Entry> = schema::FILES.holding();
pub(super) const FILES_USAGE: Table<CountedText<EndpointId>, Usage> = schema::FILES_USAGE.holding();
pub(super) const USAGE: UsageTable = UsageTable(&FILES_USAGE);

pub(super) type Key = (CountedText<EndpointId>, String);

/// Returns the object with a file's content and its SHA-256 in hex. Returns `None` if the row is not a file.
pub fn object_of(written: &WrittenRow) -> Option<(String, String)> {
    let entry = FILES.read(written.of(&FILES)?).ok()?.value;
    Some((entry.object, entry.sha256))
}

/// The files of all tools. Clones share them.
#[derive(Clone)]
pub struct Files(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Clock,
    objects: Arc<Objects>,
    turns: Arc<WriteTurns>,
    reads: Arc<FairSemaphore<Owner>>,
    /// Changes in progress, including those whose call was stopped.
    changes: TaskTracker,
}

impl Files {
    /// Creates the files of this store, with their content in `objects`.
    pub fn new(store: Arc<dyn Store>, clock: Clock, objects: Arc<Objects>) -> Self {
        Self(Arc::new(Inner {
            store,
            clock,
            objects,
            turns: WriteTurns::new(CHANGES),
            reads: FairSemaphore::new(READS, Share::All),
            changes: TaskTracker::new(),
        }))
    }

    pub(super) fn scoped(&self, owner: &Owner, endpoint: &EndpointId, limits: &Limits) -> EndpointFiles {
        EndpointFiles { files: Arc::clone(&self.0), owner: owner.clone(), endpoint: endpoint.clone(), limits: *limits }
    }

    /// Waits until no change is in progress. Call it at shutdown: running calls could begin more.
    pub(super) async fn finish(&self) {
        self.0.changes.close();
        self.0.changes.wait().await;
    }

    /// Removes every file of `endpoint`: first all entries, then their content. If this is interrupted, the content is
    /// collected later.
    pub(super) async fn forget(&self, endpoint: &EndpointId) -> Result<(), StoreError> {
        let (own, mut ended) = (CountedText(endpoint.clone()), EndedObjects::default());
        loop {
            let page = FILES.readable(&*self.0.store, &FILES.under(&own), SOME, Direction::Forward).await?;
            if page.is_empty() {
                break;
            }
            let mut batch = Batch::new();
            page.iter().for_each(|(key, _)| _ = batch.delete(&FILES, key));
            let contents = self.0.objects.ends(&mut batch, page.into_iter().filter_map(|(_, entry)| Some(entry?.object)));
            batch.commit(&*self.0.store, Durability::built_on(&*self.0.store)).await?;
            ended = ended.and(contents);
        }
        USAGE.forget(&*self.0.store, endpoint).await?;
        self.0.objects.discard(ended).await;
        Ok(())
    }

    /// Wakes the background task that deletes contents without an entry.
    pub(super) fn schedule_collection(&self) {
        self.0.objects.schedule_collection();
    }
}

impl Inner {
    /// Runs a change on a separate task. If a call were stopped in the middle of it, content would be left that no
    /// entry names and no quota counts.
    async fn run_to_end(&self, change: impl Future<Output = Result<OpValue, OpFailure>> + Send + 'static) -> Result<OpValue, OpFailure> {
        self.changes.spawn(change).await.unwrap_or_else(|error| Err(failure::objects(&error)))
    }
}

/// The files of one tool, with one call's limits.
pub(super) struct EndpointFiles {
    files: Arc<Inner>,
    owner: Owner,
    endpoint: EndpointId,
    limits: Limits,
}

impl EndpointFiles {
    pub(super) async fn read(&self, path: String) -> Result<OpValue, OpFailure> {
        let path = normalize(&path)?;
        let key = self.key(path);
        for _ in 0..ATTEMPTS {
            let stored = FILES.get(&*self.files.store, &key).await.map_err(failure::store)?;
            let Some(entry) = &stored else { return Ok(OpValue::None) };
            if entry.size > self.limits.file_bytes {
                return Err(quota_exceeded(format!("the file has {} bytes, and the maximum is {}", entry.size, self.limits.file_bytes)));
            }
            let reading = self.files.reads.turn(self.owner.clone()).await;
            let found = self.files.objects.get(&entry.object, Some(&entry.sha256)).await.map_err(|e| failure::objects(&e))?;
            drop(reading);
            match found {
                Some(content) => return Ok(OpValue::Bytes(content)),
                // Replaced between the two reads: the entry names other content by now.
                None if FILES.get(&*self.files.store, &key).await.map_err(failure::store)? != stored => {}
                None => return Err(failure::damaged("file content")),
            }
        }
        Err(failure::contended())
    }

    pub(super) async fn write(self, path: String, content: Bytes) -> Result<OpValue, OpFailure> {
        let path = normalize(&path)?;
        if content.len() as u64 > self.limits.file_bytes {
            return Err(quota_exceeded(format!("the file has {} bytes, and the maximum is {}", content.len(), self.limits.file_bytes)));
        }
        let key = self.key(path);
        let turn = self.turn().await;
        let files = Arc::clone(&self.files);
        files.run_to_end(async move { self.store(turn, &key, content).await }).await
    }

    /// Waits for the call's turn. A call that is stopped while it waits leaves nothing behind.
    async fn turn(&self) -> WriteTurn {
        self.files.turns.take(&self.owner, &self.endpoint).await
    }

    async fn store(&self, _turn: WriteTurn, key: &Key, content: Bytes) -> Result<OpValue, OpFailure> {
        let size = content.len() as u64;
        // Refuse early, before storing content. The commit checks again.
        let before = FILES.get(&*self.files.store, key).await.map_err(failure::store)?;
        let usage = FILES_USAGE.get(&*self.files.store, &key.0).await.map_err(failure::store)?.unwrap_or_default();
        if usage.is_closed() {
            return Err(failure::deleted());
        }
        self.usage_with(usage, before.as_ref(), Some(size))?;
        let object = self.files.objects.put(content).await.map_err(failure::put)?;
        match self.replace(key, Some((&object, size))).await {
            Ok(replaced) => self.files.objects.discard(replaced).await,
            Err(refusal) => {
                // A commit that was not confirmed may still have happened, so its content must stay.
                if refusal.code != failure::STORE_UNAVAILABLE {
                    self.files.objects.withdraw(object).await;
                }
                return Err(refusal);
            }
        }
        Ok(OpValue::None)
    }

    pub(super) async fn delete(self, path: String) -> Result<OpValue, OpFailure> {
        let path = normalize(&path)?;
        let key = self.key(path);
        let turn = self.turn().await;
        let files = Arc::clone(&self.files);
        let delete = async move {
            let _turn = turn;
            let replaced = self.replace(&key, None).await?;
            self.files.objects.discard(replaced).await;
            Ok(OpValue::None)
        };
        files.run_to_end(delete).await
    }

    pub(super) async fn list(&self, prefix: String, limit: u32, cursor: Option<String>) -> Result<OpValue, OpFailure> {
        let limit = check_limit(limit)?;
        let mut range = FILES.under(&(CountedText(self.endpoint.clone()), TextPrefix(&prefix)));
        if let Some(cursor) = cursor {
            range = range.after(&self.key(decode_cursor(&cursor, &prefix)?));
        }
        let rows = FILES.page(&*self.files.store, &range, limit + 1, Direction::Forward).await.map_err(failure::store)?;
        let more = rows.len() > limit;
        let listed = rows.into_iter().take(limit).map(|row| (row.key.1, row.value));
        let files: Vec<_> = listed.map(|(path, entry)| Line { path, size: entry.size, modified_at: entry.modified_at }).collect();
        let cursor = files.last().filter(|_| more).map(|last| encode_cursor(&last.path));
        let page = serde_json::to_vec(&Page { files, cursor }).map_err(|_| failure::damaged("file list"))?;
        Ok(OpValue::Json(page.into()))
    }

    /// Commits an entry with this content at `key`, or its removal. Returns the objects that the old entry held.
    async fn replace(&self, key: &Key, content: Option<(&PendingObject, u64)>) -> Result<EndedObjects, OpFailure> {
        // The replaced content is deleted after this commit.
        update(&*self.files.store, Durability::built_on(&*self.files.store), |tx| self.decide(tx, key, content))
            .await
            .map_err(|error| error.0)
    }

    async fn decide<'a>(
        &self,
        mut tx: Tx<'a>,
        key: &Key,
        content: Option<(&PendingObject, u64)>,
    ) -> Result<UpdatePlan<'a, EndedObjects>, UpdateError> {
        let row = tx.row(&FILES, key).await?;
        if row.is_none() && content.is_none() {
            return tx.answer(EndedObjects::default());
        }
        let before = tx.get(&FILES_USAGE, &key.0).await?.unwrap_or_default();
        if before.is_closed() {
            return Err(failure::deleted().into());
        }
        let after = self.usage_with(before, row.as_ref().map(|row| &row.value), content.map(|(_, size)| size))?;
        match content {
            Some((object, size)) => {
                if !object.claim(&mut tx).await? {
                    return Err(failure::objects(&"the file's entry was not written within a day").into());
                }
                let (object, sha256) = (object.name.clone(), object.sha256.clone());
                tx.put(&FILES, key, &Entry { object, size, modified_at: self.files.clock.now(), sha256 });
            }
            None => _ = tx.delete(&FILES, key),
        }
        tx.put(&FILES_USAGE, &key.0, &after);
        let ended = self.files.objects.ends(&mut tx, row.map(|row| row.value.object));
        tx.answer(ended)
    }

    /// Returns the usage after a file of `size` bytes (`None`: no file) has replaced `old`. Fails if it exceeds the
    /// quota.
    fn usage_with(&self, before: Usage, old: Option<&Entry>, size: Option<u64>) -> Result<Usage, OpFailure> {
        let usage = before.replaced(old.map(|old| old.size), size);
        if usage.items > self.limits.files && usage.items > before.items {
            return Err(quota_exceeded(format!(
                "the tool would have {}, and the maximum is {}",
                plural(usage.items, "file"),
                self.limits.files
            )));
        }
        if usage.bytes > self.limits.files_bytes && usage.bytes > before.bytes {
            return Err(quota_exceeded(format!(
                "all files together would have {} bytes, and the maximum is {}",
                usage.bytes, self.limits.files_bytes
            )));
        }
        Ok(usage)
    }

    fn key(&self, path: String) -> Key {
        (CountedText(self.endpoint.clone()), path)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    object: String,
    size: u64,
    modified_at: Timestamp,
    /// SHA-256 of the content, in hex.
    sha256: String,
}
tollhouse_store::json_values!(Entry);

impl Entry {
    /// Returns the object with its content, and the content's hash in hex.
    pub(super) fn object(&self) -> (&str, &str) {
        (&self.object, &self.sha256)
    }

    /// Returns the size of its content in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

#[derive(Serialize)]
struct Page {
    files: Vec<Line>,
    cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    path: String,
    size: u64,
    modified_at: Timestamp,
}

#[cfg(test)]
mod tests;
