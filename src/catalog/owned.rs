//! Limit on the number of a builder's endpoints, enforced even if several hosts publish for the
//! same builder.
//!
//! Each host knows the number of endpoints that it has been notified of. Changes that it has not
//! seen yet are in a row for the builder, which every commit that adds or removes an endpoint
//! replaces. So if two hosts do that at the same time, one must retry. A row older than the maximum
//! lag of a host contains nothing new, and is ignored.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{Batch, Table, TerminatedText, schema};
use tollhouse_tool::Owner;

use super::{Catalog, ChangedBy, PublishError, retired::owner_key};

pub(super) const OWNED: Table<TerminatedText<String>, OwnedCount> = schema::ENDPOINTS_OWNED.holding();
tollhouse_store::postcard_values!(OwnedCount);

/// Validity of a row, in milliseconds. A host that lags by more accepts no changes.
const RECENT_MS: u64 = 60_000;

/// Number of a builder's endpoints at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnedCount {
    endpoints: u64,
    at: Timestamp,
}

impl Catalog {
    /// Returns the conditions and rows for a commit that adds an endpoint of `owner`.
    ///
    /// # Errors
    ///
    /// [`PublishError::TooMany`] if the builder has reached the limit; those of the store.
    pub(super) async fn count_added(&self, owner: &Owner, by: ChangedBy) -> Result<Batch, PublishError> {
        let max = self.policy().policy.max_endpoints_per_builder;
        let change =
            |endpoints| if by == ChangedBy::Builder && endpoints >= max { Err(PublishError::TooMany(max)) } else { Ok(endpoints + 1) };
        self.count(owner, change).await
    }

    /// Returns the conditions and rows for a commit that removes an endpoint of `owner`.
    pub(super) async fn count_removed(&self, owner: &Owner) -> Result<Batch, PublishError> {
        self.count(owner, |endpoints| Ok(endpoints.saturating_sub(1))).await
    }

    async fn count(&self, owner: &Owner, change: impl FnOnce(u64) -> Result<u64, PublishError>) -> Result<Batch, PublishError> {
        let mut batch = Batch::new();
        // A host with its own store knows all endpoints.
        if !self.store.is_shared() || *owner == Owner::Platform {
            return Ok(batch);
        }
        let row = OWNED.row(&*self.store, &owner_key(owner)).await?;
        let (shown, at) = (self.all().owned(owner) as u64, self.parts.clock.now());
        let recent = row.as_ref().filter(|row| row.value.at.0.abs_diff(at.0) < RECENT_MS);
        let after = OwnedCount { endpoints: change(recent.map_or(shown, |row| row.value.endpoints.max(shown)))?, at };
        batch.replace_or_insert(&OWNED, row.as_ref(), &owner_key(owner), &after);
        Ok(batch)
    }
}
