//! Usage records and writers' turns, shared by kv and files.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollhouse_base::{id::EndpointId, lock::Lock};
use tollhouse_fair::{FairPermit, FairSemaphore, Share};
use tollhouse_store::{Batch, CountedText, Durability, Formatted, Store, StoreError, Table};
use tollhouse_tool::Owner;

/// How much data a tool stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl Usage {
    /// The usage of a deleted tool: so large that no write of its calls fits, on any host. It stays until all calls
    /// that were running have ended, even after all data is gone.
    pub(super) const CLOSED: Self = Self { items: 0, bytes: 1 << 62 };

    pub(super) fn is_closed(self) -> bool {
        self == Self::CLOSED
    }

    /// Returns the usage after an item of `before` bytes has become one of `after` bytes. `None` means no item.
    pub(super) fn replaced(self, before: Option<u64>, after: Option<u64>) -> Self {
        let items = self.items + u64::from(after.is_some());
        let bytes = self.bytes + after.unwrap_or(0);
        Self { items: items.saturating_sub(u64::from(before.is_some())), bytes: bytes.saturating_sub(before.unwrap_or(0)) }
    }
}

impl Formatted for Usage {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.items.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (items, bytes) = bytes.split_first_chunk()?;
        Some(Self { items: u64::from_be_bytes(*items), bytes: u64::from_be_bytes(bytes.try_into().ok()?) })
    }
}

/// The usage records of a kind of data.
#[derive(Clone, Copy)]
pub(super) struct UsageTable(pub(super) &'static Table<CountedText<EndpointId>, Usage>);

impl UsageTable {
    /// Prevents anything from being stored for `endpoint` from this commit on.
    pub(super) fn close(self, batch: &mut Batch, endpoint: &EndpointId) {
        batch.put(self.0, &CountedText(endpoint.clone()), &Usage::CLOSED);
    }

    /// Removes the mark that `endpoint` is closed, once none of its calls is running.
    pub(super) fn release(self, batch: &mut Batch, endpoint: &EndpointId) {
        batch.delete(self.0, &CountedText(endpoint.clone()));
    }

    /// Removes the record of `endpoint`, unless it is closed. Call it after all data is removed, so that the record never
    /// counts too little.
    pub(super) async fn forget(self, store: &dyn Store, endpoint: &EndpointId) -> Result<(), StoreError> {
        let row = self.0.row(store, &CountedText(endpoint.clone())).await?.filter(|row| !row.value.is_closed());
        let Some(row) = row else { return Ok(()) };
        let mut batch = Batch::new();
        batch.remove(self.0, &row);
        batch.commit(store, Durability::Buffered).await.map(drop)
    }
}

/// Schedules changes of stored data.
#[derive(Debug)]
pub(super) struct WriteTurns {
    /// Locks of tools with current or waiting writers.
    endpoints: Lock<HashMap<EndpointId, Arc<AsyncMutex<()>>>>,
    changes: Arc<FairSemaphore<Owner>>,
}

impl WriteTurns {
    /// Allows `max` concurrent changes. The next one goes to the owner with the fewest in progress.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { endpoints: Lock::default(), changes: FairSemaphore::new(max, Share::All) })
    }

    /// Waits for the turn of `owner` to change the data of `endpoint`.
    pub(super) async fn take(self: &Arc<Self>, owner: &Owner, endpoint: &EndpointId) -> WriteTurn {
        // In this order, so that a writer that waits for its own tool does not block other owners.
        let alone = self.lock_endpoint(endpoint).await;
        WriteTurn { _change: self.changes.turn(owner.clone()).await, _alone: alone }
    }

    /// Waits until nobody else changes the data of `endpoint`.
    pub(super) async fn lock_endpoint(self: &Arc<Self>, endpoint: &EndpointId) -> EndpointLocks {
        let own = Arc::clone(self.endpoints.lock().entry(endpoint.clone()).or_default());
        // Create the guard before waiting, so that it cleans up if it is dropped meanwhile.
        let mut alone = EndpointLocks { turns: Arc::clone(self), endpoint: endpoint.clone(), own, guard: None };
        alone.guard = Some(Arc::clone(&alone.own).lock_owned().await);
        alone
    }
}

/// Permission to change a tool's data, until it is dropped.
#[derive(Debug)]
pub(super) struct WriteTurn {
    _change: FairPermit<Owner>,
    _alone: EndpointLocks,
}

/// A lock that allows one writer at a time for each tool, so that calls of one host do not make each other's commits
/// conflict. It is only an optimization: the commits' checks keep the usage correct.
#[derive(Debug)]
pub(super) struct EndpointLocks {
    turns: Arc<WriteTurns>,
    endpoint: EndpointId,
    own: Arc<AsyncMutex<()>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for EndpointLocks {
    fn drop(&mut self) {
        let mut endpoints = self.turns.endpoints.lock();
        self.guard = None;
        // A count of 2 means that only the map and this guard hold it.
        if Arc::strong_count(&self.own) == 2 {
            endpoints.remove(&self.endpoint);
        }
    }
}

#[cfg(test)]
mod tests;
