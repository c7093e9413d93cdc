//! Deletion of an endpoint: first a mark, then its data.
//!
//! The commit that removes the record leaves a mark, and
//! [closes](tollhouse_capability::CapabilityServices::close) the endpoint's data: no host stores
//! any of it after that commit. Then secrets, keys, log lines and files are removed without a lock.
//! If that is interrupted by a crash or the store, a [job](Catalog::finish_deletions) on any host
//! continues. The mark stays for one more hour, in which running calls may write their last log
//! lines. These are removed with the mark.
//!
//! All data of an endpoint is found by its id, and ids are never reused. So an endpoint that takes
//! the slug finds no data of the deleted one, and the job removes none of the new one.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollhouse_base::{boxed, clock::Timestamp, id::EndpointId};
use tollhouse_capability::Granted;
use tollhouse_event::{Events, Kind};
use tollhouse_store::{Batch, Durability, Row, StoreError, Table, schema};
use tollhouse_tool::Owner;

use super::{
    Catalog, ChangedBy, LiveEndpoint, PublishError,
    entry::ENDPOINTS,
    retired::{DELETED, DeletedEndpoint, RETIRED_OF, RETIRED_SLUGS, is_restricted, owner_key, slug_successor},
    version::uses,
};

/// Marks by the time when the next step is due.
pub(super) const DELETIONS: Table<(Timestamp, EndpointId), Deletion> = schema::DELETIONS.holding();
tollhouse_store::json_values!(Deletion);

/// Time that a deletion waits for the endpoint's data to be removed. After that the job does the
/// rest.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Lifetime of a mark, in milliseconds. Much longer than any call.
pub(super) const MARK_LIFETIME_MS: u64 = 60 * 60 * 1_000;

/// Marks per page.
const PAGE: usize = 100;

/// Maximum attempts of a deletion that conflicts with other changes of its owner's endpoints.
const MAX_ATTEMPTS: usize = 8;

/// The mark of a deleted endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deletion {
    slug: String,
    /// Whether its data has been removed.
    cleared: bool,
}

/// A stored mark.
type DeletionRow = Row<(Timestamp, EndpointId), Deletion>;

impl Catalog {
    /// Deletes an endpoint from the catalog. Its receipts stay. Its secrets, and the kv, files and
    /// logs of its handler are removed: at once, or in the background if there is much. Its slug
    /// stays reserved for its owner. If content was held back, or anything was revoked or capped,
    /// it stays with the admin, because deleting must not undo a decision. Its sources stay only
    /// after an admin's decision; otherwise they are removed.
    #[boxed]
    pub async fn delete(&self, slug: &str, if_match: Option<u64>, by: ChangedBy) -> Result<Arc<LiveEndpoint>, PublishError> {
        let mut deleted = self.delete_record(slug, if_match, by).await;
        for _ in 1..MAX_ATTEMPTS {
            // Another host has added or removed an endpoint of the owner at the same time.
            let Err(PublishError::Store(StoreError::Conflict)) = &deleted else { break };
            deleted = self.delete_record(slug, if_match, by).await;
        }
        let (old, mark) = deleted?;
        match tokio::time::timeout(REMOVAL_TIMEOUT, self.remove_data(&mark)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(endpoint.slug = slug, %error, "the data of a deleted tool could not be removed yet; the host will try again")
            }
            Err(_) => self.parts.services.schedule_collection(),
        }
        Ok(old)
    }

    /// Removes the record, and leaves the mark.
    async fn delete_record(
        &self,
        slug: &str,
        if_match: Option<u64>,
        by: ChangedBy,
    ) -> Result<(Arc<LiveEndpoint>, DeletionRow), PublishError> {
        let _one = self.changing.lock().await;
        let before = self.at_revision(slug, if_match).await?;
        let old = Arc::clone(&before.live);
        let (id, owner) = (&old.endpoint.id, &old.endpoint.owner);
        self.may_publish(owner, by)?;
        let event = self.parts.events.event(Kind::EndpointDeleted, Some(&old.endpoint.slug), json!({ "id": id, "by": by.as_str() }));
        let successor = slug_successor(&old.endpoint);
        // Strangers can get content held at will, so sources that nobody has decided on must not pile up.
        let is_kept = *owner != Owner::Platform && is_restricted(&old.endpoint);
        let mut rows = if is_kept { Batch::new() } else { self.unreference(&old.endpoint, None).await? };
        rows.append(uses(Some(&before.row.value), None));
        rows.append(self.schedule_rows(Some(&before.row.value), None).await?);
        rows.remove(&ENDPOINTS, &before.row).put(&RETIRED_SLUGS, &slug.to_owned(), &successor.share().to_owned());
        rows.put(&RETIRED_OF, &(owner_key(owner), slug.to_owned()), &());
        rows.append(self.count_removed(owner).await?);
        // Due at once, by any clock.
        let mark = DELETIONS.own((Timestamp(0), id.clone()), Deletion { slug: slug.to_owned(), cleared: false });
        rows.put(&DELETIONS, &mark.key, &mark.value);
        rows.put(&DELETED, &slug.to_owned(), &DeletedEndpoint { id: id.clone(), owner: owner.clone() });
        self.parts.services.close(&mut rows, id);
        rows.append(Events::stored(owner, &event));
        self.commit(slug, rows, None).await?;
        {
            let _shown = self.showing.lock().await;
            if self.is_as_committed(slug, None).await {
                self.show(|snapshot| snapshot.remove(slug));
                self.forget(slug);
            }
        }
        old.grant.set(Granted::default());
        self.parts.events.announce(owner, event);
        self.parts.pool.retire(id.as_str(), &old.endpoint.version);
        Ok((old, mark))
    }

    /// Removes remaining data of deleted endpoints, and old marks. For a job that runs on one host
    /// at a time. The next run continues where this one stops.
    ///
    /// # Errors
    ///
    /// The last error of the store. It does not stop the other deletions.
    #[boxed]
    pub async fn finish_deletions(&self) -> Result<(), StoreError> {
        let (mut due, mut finished) = (DELETIONS.all().before(&self.earliest_now().await?), Ok(()));
        while let Some(page) = DELETIONS.sound(&*self.store, &mut due, PAGE).await? {
            for mark in page {
                let done = if mark.value.cleared { self.remove_mark(&mark).await } else { self.remove_data(&mark).await };
                if let Err(error) = done {
                    tracing::warn!(endpoint.slug = mark.value.slug, %error, "the data of a deleted tool is not completely removed yet; the host will try again");
                    finished = Err(error);
                }
            }
        }
        finished
    }

    /// Removes the data of a deleted endpoint, and records that in its mark.
    async fn remove_data(&self, mark: &DeletionRow) -> Result<(), StoreError> {
        let id = &mark.key.1;
        self.parts.services.forget(id).await?;
        let until = self.earliest_now().await?.plus_millis(MARK_LIFETIME_MS);
        let mut batch = Batch::new();
        batch.remove(&DELETIONS, mark).put(&DELETIONS, &(until, id.clone()), &Deletion { cleared: true, ..mark.value.clone() });
        batch.commit_if_unchanged(&*self.store, Durability::Buffered).await.map(|_| ())
    }

    /// Removes data written by calls that ran during the deletion, and the mark.
    async fn remove_mark(&self, mark: &DeletionRow) -> Result<(), StoreError> {
        let id = &mark.key.1;
        self.parts.services.forget(id).await?;
        let mut batch = Batch::new();
        self.parts.services.release(&mut batch, id);
        batch.remove(&DELETIONS, mark);
        // Another endpoint may have been deleted under the same slug since.
        if let Some(row) = DELETED.row(&*self.store, &mark.value.slug).await?.filter(|row| row.value.id == *id) {
            batch.remove(&DELETED, &row);
        }
        batch.commit_if_unchanged(&*self.store, Durability::Buffered).await.map(|_| ())
    }

    /// Returns the earlier of this host's and the store's time, so that a fast clock ends no mark
    /// early.
    pub(super) async fn earliest_now(&self) -> Result<Timestamp, StoreError> {
        let now = self.parts.clock.now();
        if self.store.is_shared() { Ok(now.min(self.store.now().await?)) } else { Ok(now) }
    }
}
