//! What kv and files share: an endpoint's usage, and writers' turns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollhouse_base::id::EndpointId;
use tollhouse_fair::{Fair, Leave, Share};
use tollhouse_store::Formatted;
use tollhouse_tool::Owner;

/// How much an endpoint keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl Usage {
    /// What a deleted endpoint is said to keep: no write of its calls has room beside it, at any host. It stands until every call that was
    /// running is over, also where nothing is kept any more. Versions before this one see a quota that is used up.
    pub(super) const CLOSED: Self = Self { items: 0, bytes: 1 << 62 };

    /// Whether the endpoint was deleted.
    pub(super) fn is_closed(self) -> bool {
        self == Self::CLOSED
    }

    /// `self` with an item of `before` bytes become one of `after` bytes; `None` is no item.
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

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        let (items, bytes) = bytes.split_first_chunk::<8>().filter(|_| format <= Self::FORMAT)?;
        Some(Self { items: u64::from_be_bytes(*items), bytes: u64::from_be_bytes(bytes.try_into().ok()?) })
    }
}

/// Whose turn it is to change what is kept.
#[derive(Debug)]
pub(super) struct Turns {
    /// Of those that write, or wait for it.
    endpoints: Mutex<HashMap<EndpointId, Arc<AsyncMutex<()>>>>,
    changes: Arc<Fair<Owner>>,
}

impl Turns {
    /// `most` changes at once. The next is of the owner that has fewest of them under way.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { endpoints: Mutex::default(), changes: Fair::new(most, Share::All) })
    }

    /// Waits for the turn of `owner` to change what `endpoint` keeps.
    pub(super) async fn take(self: &Arc<Self>, owner: &Owner, endpoint: &EndpointId) -> Turn {
        // In this order: who waits for its own endpoint keeps nobody of others out.
        let alone = self.alone(endpoint).await;
        Turn { _change: self.changes.turn(owner.clone()).await, _alone: alone }
    }

    /// Waits until nobody changes what `endpoint` keeps.
    pub(super) async fn alone(self: &Arc<Self>, endpoint: &EndpointId) -> Alone {
        let own = Arc::clone(self.endpoints().entry(endpoint.clone()).or_default());
        // There before it waits: one that is dropped meanwhile is forgotten too.
        let mut alone = Alone { turns: Arc::clone(self), endpoint: endpoint.clone(), own, guard: None };
        alone.guard = Some(Arc::clone(&alone.own).lock_owned().await);
        alone
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<EndpointId, Arc<AsyncMutex<()>>>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to change what an endpoint keeps, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _change: Leave<Owner>,
    _alone: Alone,
}

/// One writer at a time for each endpoint, so that calls of one host do not make each other's
/// commits fail. Only a courtesy: what keeps usage right are the commits' checks.
#[derive(Debug)]
pub(super) struct Alone {
    turns: Arc<Turns>,
    endpoint: EndpointId,
    own: Arc<AsyncMutex<()>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut endpoints = self.turns.endpoints();
        self.guard = None;
        // Of the map and of this one.
        if Arc::strong_count(&self.own) == 2 {
            endpoints.remove(&self.endpoint);
        }
    }
}

#[cfg(test)]
mod tests;
