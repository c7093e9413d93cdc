//! Records when builders' keys were last used, to about an hour.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};
use tollhouse_base::{
    clock::{Clock, Timestamp},
    id::BuilderId,
    lock::Lock,
};
use tollhouse_store::{Durability, Store, StoreError, Table, schema};

const BUILDER_SEEN: Table<BuilderId, LastSeen> = schema::BUILDER_SEEN.holding();
tollhouse_store::json_values!(LastSeen);

/// Minimum time between two writes for one builder, in milliseconds.
const WRITE_INTERVAL_MS: u64 = 3_600_000;

/// When a builder's key was last used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct LastSeen {
    at: Timestamp,
}

/// When each builder's key was last used.
pub(super) struct LastSeenTimes {
    store: Arc<dyn Store>,
    clock: Clock,
    /// The times that this process has written, so that a request costs the store nothing.
    written: Lock<HashMap<BuilderId, Timestamp>>,
}

impl LastSeenTimes {
    pub(super) fn new(store: Arc<dyn Store>, clock: Clock) -> Self {
        Self { store, clock, written: Lock::default() }
    }

    /// Records that a builder's key is in use. If the write fails, the next use tries again.
    pub(super) async fn note(&self, id: &BuilderId) {
        let at = self.clock.now();
        {
            let mut written = self.written.lock();
            if written.get(id).is_some_and(|before| at.0 < before.0.saturating_add(WRITE_INTERVAL_MS)) {
                return;
            }
            written.insert(id.clone(), at);
        }
        if let Err(error) = BUILDER_SEEN.put(id, &LastSeen { at }).commit(&*self.store, Durability::Buffered).await {
            tracing::debug!(%error, "the last use of a builder's key could not be recorded");
            self.written.lock().remove(id);
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
    async fn last_use_is_recorded_hourly() {
        let (store, clock) = (Arc::new(MemoryStore::new()), Clock::fixed(Timestamp(1_000)));
        let seen = LastSeenTimes::new(Arc::clone(&store) as _, clock.clone());
        let id = BuilderId::generate();
        assert_eq!(seen.of(&id).await.unwrap(), None);
        for (at, reported) in
            [(1_000, 1_000), (1_000 + WRITE_INTERVAL_MS - 1, 1_000), (1_000 + WRITE_INTERVAL_MS, 1_000 + WRITE_INTERVAL_MS)]
        {
            clock.set(Timestamp(at));
            seen.note(&id).await;
            assert_eq!(seen.of(&id).await.unwrap(), Some(Timestamp(reported)));
        }
        assert_eq!(
            LastSeenTimes::new(store, clock).of(&id).await.unwrap(),
            Some(Timestamp(1_000 + WRITE_INTERVAL_MS)),
            "also after a restart"
        );
    }
}
