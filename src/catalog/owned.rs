//! How many endpoints a builder may have, kept to by hosts that publish for the same builder at the same time.
//!
//! Each host knows how many there are of those that it has heard of. What it has not heard of yet is in a row of the builder, which every
//! commit that adds or removes an endpoint replaces: of two hosts that do so at once, one decides again. A row that is older than any host
//! may lag behind says nothing that the host does not know, and is not gone by: so versions that leave no such row do no harm for long.

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_store::{Batch, Ended, Row, StoreError, Table, schema};
use tollhouse_tool::Owner;

use super::{By, Catalog, PublishError, retired::of};

pub(super) const OWNED: Table<Ended<String>, Owned> = schema::ENDPOINTS_OWNED.holding();
tollhouse_store::postcard_values!(Owned);

/// How long a row is gone by, in milliseconds: a host that lags behind by more takes no changes.
const RECENT_MS: u64 = 60_000;

/// How many endpoints a builder had at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owned {
    endpoints: u64,
    at: Timestamp,
}

impl Catalog {
    /// What a commit that adds an endpoint of `owner` has to hold and to write.
    ///
    /// # Errors
    ///
    /// [`PublishError::TooMany`] where a builder adds one that is too many; the store's.
    pub(super) async fn one_more(&self, owner: &Owner, by: By) -> Result<Batch, PublishError> {
        if !self.counts(owner) {
            return Ok(Batch::new());
        }
        let (row, endpoints) = self.owned(owner).await?;
        let most = self.policy().policy.max_endpoints_per_builder;
        if by == By::Builder && endpoints >= most {
            return Err(PublishError::TooMany(most));
        }
        Ok(self.owns(owner, row.as_ref(), endpoints + 1))
    }

    /// The same for one that removes an endpoint.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn one_less(&self, owner: &Owner) -> Result<Batch, StoreError> {
        if !self.counts(owner) {
            return Ok(Batch::new());
        }
        let (row, endpoints) = self.owned(owner).await?;
        Ok(self.owns(owner, row.as_ref(), endpoints.saturating_sub(1)))
    }

    /// A host that has the store to itself knows all that there is.
    fn counts(&self, owner: &Owner) -> bool {
        self.store.is_shared() && matches!(owner, Owner::Builder(_))
    }

    async fn owned(&self, owner: &Owner) -> Result<(Option<Row<Ended<String>, Owned>>, u64), StoreError> {
        let row = OWNED.row(&*self.store, &of(owner)).await?;
        let (shown, now) = (self.all().owned(owner) as u64, self.clock.now());
        let recent = row.as_ref().filter(|row| row.value.at.0.abs_diff(now.0) < RECENT_MS);
        let endpoints = recent.map_or(shown, |row| row.value.endpoints.max(shown));
        Ok((row, endpoints))
    }

    fn owns(&self, owner: &Owner, before: Option<&Row<Ended<String>, Owned>>, endpoints: u64) -> Batch {
        let (mut batch, after) = (Batch::new(), Owned { endpoints, at: self.clock.now() });
        match before {
            Some(row) => batch.replace(&OWNED, row, &after),
            None => batch.insert(&OWNED, &of(owner), &after),
        };
        batch
    }
}
