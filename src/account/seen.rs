//! When builders were last seen: when their key was last shown, to about an hour.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::BuilderId,
};
use tollhouse_store::{Durability, Store, StoreError, Table, schema};

const BUILDER_SEEN: Table<BuilderId, LastSeen> = schema::BUILDER_SEEN.holding();
tollhouse_store::json_values!(LastSeen);

/// How much later a builder was seen before that is written down, in milliseconds.
const EVERY_MS: u64 = 3_600_000;

/// When a builder was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct LastSeen {
    at: Timestamp,
}

/// Who was seen when.
pub(super) struct Seen {
    store: Arc<dyn Store>,
    clock: Clock,
    /// What was written by this process, so that a request costs the store nothing.
    written: Mutex<HashMap<BuilderId, Timestamp>>,
}

impl Seen {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, written: Mutex::default() }
    }

    /// Notes that a builder is here. Where it is not noted, the next time does it.
    pub(super) async fn note(&self, id: &BuilderId) {
        let at = self.clock.now();
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            if written.get(id).is_some_and(|before| at.0 < before.0.saturating_add(EVERY_MS)) {
                return;
            }
            written.insert(id.clone(), at);
        }
        if let Err(error) = BUILDER_SEEN.put(id, &LastSeen { at }).commit(&*self.store, Durability::Buffered).await {
            tracing::debug!(%error, "when a builder was seen was not noted");
            self.written.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }

    pub(super) async fn of(&self, id: &BuilderId) -> Result<Option<Timestamp>, StoreError> {
        Ok(BUILDER_SEEN.get(&*self.store, id).await?.map(|seen| seen.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_store::memory::MemoryStore;

    #[tokio::test]
    async fn a_builder_is_seen_to_about_an_hour() {
        let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000)));
        let seen = Seen::new(Arc::clone(&store) as _, clock.clone());
        let id = BuilderId::generate();
        assert_eq!(seen.of(&id).await.unwrap(), None);
        for (at, told) in [(1_000, 1_000), (1_000 + EVERY_MS - 1, 1_000), (1_000 + EVERY_MS, 1_000 + EVERY_MS)] {
            clock.set(Timestamp(at));
            seen.note(&id).await;
            assert_eq!(seen.of(&id).await.unwrap(), Some(Timestamp(told)));
        }
        assert_eq!(Seen::new(store, clock).of(&id).await.unwrap(), Some(Timestamp(1_000 + EVERY_MS)), "also after a restart");
    }
}
