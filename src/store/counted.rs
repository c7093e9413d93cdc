//! Metrics of commits.

use std::time::Instant;

use tollhouse_telemetry::counters::{COMMIT_SECONDS, COMMITS};

use super::{Durability, StoreError};

/// Awaits a commit and records its duration and outcome.
pub(super) async fn counted<T>(commit: impl Future<Output = Result<T, StoreError>>, durability: Durability) -> Result<T, StoreError> {
    let started = Instant::now();
    let committed = commit.await;
    let durability = match durability {
        Durability::Durable => "durable",
        Durability::Buffered => "buffered",
    };
    let outcome = match &committed {
        Ok(_) => "ok",
        Err(StoreError::Conflict) => "conflict",
        Err(StoreError::Beyond { .. }) => "beyond",
        Err(StoreError::LockTimeout(_)) => "lock_timeout",
        Err(StoreError::Unknown(_)) => "unknown",
        Err(_) => "away",
    };
    COMMIT_SECONDS.observe(durability, started.elapsed());
    COMMITS.count([durability, outcome]);
    committed
}
