//! What kv and files share: an endpoint's usage, and writers' turns.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use crate::{base::id::EndpointId, store::Formatted};

/// How much an endpoint keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

impl Usage {
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
