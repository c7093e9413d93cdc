//! Limit on the number of a builder's endpoints, enforced even if several hosts publish for the
//! same builder.
//!
//! Each host knows the number of endpoints that it has been notified of. Changes that it has not
//! seen yet are in a row for the builder, which every commit that adds or removes an endpoint
//! replaces. So if two hosts do that at the same time, one must retry. A row older than the maximum
//! lag of a host contains nothing new, and is ignored. So versions that do not write this row cause
//! no lasting harm.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{Batch, Row, StoreError, Table, TerminatedText, schema};
use tollhouse_tool::Owner;

use super::{Catalog, ChangedBy, PublishError, retired::of};

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
    pub(super) async fn one_more(&self, owner: &Owner, by: ChangedBy) -> Result<Batch, PublishError> {
        if !self.counts(owner) {
            return Ok(Batch::new());
        }
        let (row, endpoints) = self.owned(owner).await?;
        let max = self.policy().policy.max_endpoints_per_builder;
        if by == ChangedBy::Builder && endpoints >= max {
            return Err(PublishError::TooMany(max));
        }
        Ok(self.owns(owner, row.as_ref(), endpoints + 1))
    }

    /// Returns the conditions and rows for a commit that removes an endpoint of `owner`.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) async fn one_less(&self, owner: &Owner) -> Result<Batch, StoreError> {
        if !self.counts(owner) {
            return Ok(Batch::new());
        }
        let (row, endpoints) = self.owned(owner).await?;
        Ok(self.owns(owner, row.as_ref(), endpoints.saturating_sub(1)))
    }

    /// A host with its own store knows all endpoints.
    fn counts(&self, owner: &Owner) -> bool {
        self.store.is_shared() && matches!(owner, Owner::Builder(_))
    }

    async fn owned(&self, owner: &Owner) -> Result<(Option<Row<TerminatedText<String>, OwnedCount>>, u64), StoreError> {
        let row = OWNED.row(&*self.store, &of(owner)).await?;
        let (shown, now) = (self.all().owned(owner) as u64, self.clock.now());
        let recent = row.as_ref().filter(|row| row.value.at.0.abs_diff(now.0) < RECENT_MS);
        let endpoints = recent.map_or(shown, |row| row.value.endpoints.max(shown));
        Ok((row, endpoints))
    }

    fn owns(&self, owner: &Owner, before: Option<&Row<TerminatedText<String>, OwnedCount>>, endpoints: u64) -> Batch {
        let (mut batch, after) = (Batch::new(), OwnedCount { endpoints, at: self.clock.now() });
        match before {
            Some(row) => batch.replace(&OWNED, row, &after),
            None => batch.insert(&OWNED, &of(owner), &after),
        };
        batch
    }
}
