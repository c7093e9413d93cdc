//! What kv and files share: keys that belong to one endpoint, its usage, and writers' turns.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use crate::base::id::EndpointId;

/// Where the keys of `endpoint` start. The id's length goes first, so that no endpoint's keys
/// start with another's id and continue.
pub(super) fn prefix(endpoint: &EndpointId) -> Vec<u8> {
    let id = endpoint.as_str().as_bytes();
    let length = u8::try_from(id.len()).expect("an id is 29 bytes");
    [&[length], id].concat()
}

/// `rest` among the keys of `endpoint`.
pub(super) fn key(endpoint: &EndpointId, rest: &[u8]) -> Vec<u8> {
    let mut key = prefix(endpoint);
    key.extend_from_slice(rest);
    key
}

/// How much an endpoint keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl Usage {
    pub(super) fn encode(self) -> Vec<u8> {
        [self.items.to_be_bytes(), self.bytes.to_be_bytes()].concat()
    }

    /// `None` when `stored` is not a usage.
    pub(super) fn decode(stored: Option<&[u8]>) -> Option<Self> {
        let Some(stored) = stored else { return Some(Self::default()) };
        let (items, bytes) = stored.split_first_chunk::<8>()?;
        Some(Self { items: u64::from_be_bytes(*items), bytes: u64::from_be_bytes(bytes.try_into().ok()?) })
    }

    /// `self` with an item of `before` bytes become one of `after` bytes; `None` is no item.
    pub(super) fn replaced(self, before: Option<u64>, after: Option<u64>) -> Self {
        let items = self.items + u64::from(after.is_some());
        let bytes = self.bytes + after.unwrap_or(0);
        Self { items: items.saturating_sub(u64::from(before.is_some())), bytes: bytes.saturating_sub(before.unwrap_or(0)) }
    }
}

/// One writer at a time for each endpoint, so that calls of one host do not make each other's
/// commits fail. Only a courtesy: what keeps usage right are the commits' checks.
#[derive(Debug)]
pub(super) struct Turns {
    stripes: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Turns {
    const STRIPES: usize = 128;

    pub(super) async fn take(&self, endpoint: &EndpointId) -> MutexGuard<'_, ()> {
        let hash = self.hasher.hash_one(endpoint);
        let index = usize::try_from(hash % Self::STRIPES as u64).unwrap_or(0);
        self.stripes[index].lock().await
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self { stripes: (0..Self::STRIPES).map(|_| Mutex::new(())).collect(), hasher: RandomState::new() }
    }
}

/// Most attempts at a commit that others' commits make fail.
pub(super) const ATTEMPTS: u32 = 12;

/// Waits before attempt `attempt`, longer each time and by chance, so that two hosts get out of step.
pub(super) async fn back_off(attempt: u32) {
    if attempt > 0 {
        let chance = getrandom::u32().unwrap_or(0);
        let most_us = 1_000_u64 << attempt.min(6);
        tokio::time::sleep(std::time::Duration::from_micros(u64::from(chance) % most_us)).await;
    }
}
