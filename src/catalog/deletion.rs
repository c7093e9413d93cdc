//! Deleting an endpoint: a mark first, then what the endpoint kept.
//!
//! The commit that takes the record away leaves a mark, and [closes](tollhouse_capability::CapabilityServices::close) what the endpoint keeps:
//! no host stores anything of it after that commit. Then secrets, keys, log lines and files go, outside every lock. Where that is cut short,
//! by a crash or by the store, a [job](Catalog::finish_deletions) of any host goes on with it. The mark stays for an hour more, in which a
//! call that was running may write its last log lines; they go with the mark.
//!
//! All that an endpoint keeps is found by its id, and no id is used twice. So an endpoint that takes the slug finds nothing of the deleted
//! one, and the job removes nothing of the new one.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_capability::Granted;
use tollhouse_event::{Events, Kind};
use tollhouse_store::{Batch, Durability, Row, StoreError, Table, schema};

use super::{
    By, Catalog, Live, PublishError,
    entry::ENDPOINTS,
    retired::{DELETED, Deleted, RETIRED_OF, RETIRED_SLUGS, of, slug_successor},
    version::uses,
};

/// By when there is something to do about it.
pub(super) const DELETIONS: Table<(Timestamp, EndpointId), Deletion> = schema::DELETIONS.holding();
tollhouse_store::json_values!(Deletion);

/// How long whoever deletes an endpoint waits for what it kept to be gone; after that the job does the rest.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// How long a mark stays, in milliseconds: many times longer than a call may run.
pub(super) const MARKED_MS: u64 = 60 * 60 * 1_000;

/// Marks that are read at once.
const SOME: usize = 100;

/// How often a deletion is tried that meets other changes of its owner's endpoints.
const TRIES: usize = 8;

/// The mark of an endpoint that was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Deletion {
    slug: String,
    /// Whether what it kept is gone.
    cleared: bool,
}

impl Deletion {
    /// Of an endpoint of which the slug is not known any more.
    pub(super) fn of_nobody() -> Self {
        Self { slug: String::new(), cleared: false }
    }
}

/// A mark as it is stored.
type Mark = Row<(Timestamp, EndpointId), Deletion>;

impl Catalog {
    /// Takes an endpoint out of the catalogue. Its receipts stay; what its handler kept in kv, files and logs goes, and so do its secrets:
    /// at once, or in the background where there is much of it. Its slug stays with its owner, or with the admin where something was held
    /// back, taken away or capped: deleting undoes no decision. There its sources stay too; else they go.
    ///
    /// # Errors
    ///
    /// [`PublishError::Unknown`] and the store's.
    pub async fn delete(&self, slug: &str, if_match: Option<u64>, by: By) -> Result<Arc<Live>, PublishError> {
        let mut deleted = self.delete_record(slug, if_match, by).await;
        for _ in 1..TRIES {
            // Another host has added or removed an endpoint of the owner at that moment.
            let Err(PublishError::Store(StoreError::Conflict)) = &deleted else { break };
            deleted = self.delete_record(slug, if_match, by).await;
        }
        let (old, mark) = deleted?;
        match tokio::time::timeout(GONE_WITHIN, self.clear(&mark)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(endpoint.slug = slug, %error, "what a deleted endpoint kept is removed later"),
            Err(_) => self.services.collect_soon(),
        }
        Ok(old)
    }

    /// Takes the record away, and leaves the mark.
    async fn delete_record(&self, slug: &str, if_match: Option<u64>, by: By) -> Result<(Arc<Live>, Mark), PublishError> {
        let _one = self.changing.lock().await;
        let before = self.at_revision(slug, if_match).await?;
        let old = Arc::clone(&before.live);
        let (id, owner) = (&old.endpoint.id, &old.endpoint.owner);
        self.may_publish(owner, by)?;
        let event = self.events.event(Kind::EndpointDeleted, Some(&old.endpoint.slug), json!({ "id": id, "by": by.as_str() }));
        let successor = slug_successor(&old.endpoint);
        let mut rows = if successor == owner { self.let_go(&old.endpoint, None).await? } else { Batch::new() };
        rows.append(uses(Some(&before.row.value), None));
        rows.remove(&ENDPOINTS, &before.row).put(&RETIRED_SLUGS, &slug.to_owned(), &successor.share().to_owned());
        rows.put(&RETIRED_OF, &(of(owner), slug.to_owned()), &());
        rows.append(self.one_less(owner).await?);
        // Due from the first moment on, by whichever clock.
        let mark = DELETIONS.own((Timestamp(0), id.clone()), Deletion { slug: slug.to_owned(), cleared: false });
        rows.put(&DELETIONS, &mark.key, &mark.value);
        rows.put(&DELETED, &slug.to_owned(), &Deleted { id: id.clone(), owner: owner.clone() });
        self.services.close(&mut rows, id);
        rows.append(Events::stored(owner, &event));
        self.commit(slug, rows, None).await?;
        {
            let _shown = self.showing.lock().await;
            if self.is_left(slug, None).await {
                self.show(|snapshot| snapshot.remove(slug));
                self.forget(slug);
            }
        }
        old.grant.set(Granted::default());
        self.events.announce(owner, event);
        self.pool.retire(id.as_str(), &old.endpoint.version);
        Ok((old, mark))
    }

    /// Removes what deleted endpoints kept and is there still, and the marks of those that were deleted long ago. For a job that one host
    /// does at a time; what it does not come to, the next turn does.
    ///
    /// # Errors
    ///
    /// The store's, of the last that failed. It stops none of the others.
    pub async fn finish_deletions(&self) -> Result<(), StoreError> {
        let (mut due, mut finished) = (DELETIONS.all().before(&self.now_for_sure().await?), Ok(()));
        while let Some((page, rest)) = DELETIONS.sound(&*self.store, &due, SOME).await? {
            due = rest;
            for mark in page {
                let done = if mark.value.cleared { self.unmark(&mark).await } else { self.clear(&mark).await };
                if let Err(error) = done {
                    tracing::warn!(endpoint.slug = mark.value.slug, %error, "what a deleted endpoint kept is not all removed yet");
                    finished = Err(error);
                }
            }
        }
        finished
    }

    /// Removes what a deleted endpoint kept, and says in the mark that it has.
    async fn clear(&self, mark: &Mark) -> Result<(), StoreError> {
        let id = &mark.key.1;
        self.services.forget(id).await?;
        let until = self.now_for_sure().await?.plus_millis(MARKED_MS);
        let mut batch = Batch::new();
        batch.remove(&DELETIONS, mark).put(&DELETIONS, &(until, id.clone()), &Deletion { cleared: true, ..mark.value.clone() });
        done_once(batch.commit(&*self.store, Durability::Buffered).await)
    }

    /// Removes what calls wrote that ran while their endpoint was deleted, and the mark.
    async fn unmark(&self, mark: &Mark) -> Result<(), StoreError> {
        let id = &mark.key.1;
        self.services.forget(id).await?;
        let mut batch = Batch::new();
        self.services.release(&mut batch, id);
        batch.remove(&DELETIONS, mark);
        // Another endpoint may have been deleted under the slug since.
        if let Some(row) = DELETED.row(&*self.store, &mark.value.slug).await?.filter(|row| row.value.id == *id) {
            batch.remove(&DELETED, &row);
        }
        done_once(batch.commit(&*self.store, Durability::Buffered).await)
    }

    /// The time, as both this host and the store have it by now: where this host is ahead, that ends no mark early.
    pub(super) async fn now_for_sure(&self) -> Result<Timestamp, StoreError> {
        let now = self.clock.now();
        if self.store.is_shared() { Ok(now.min(self.store.now().await?)) } else { Ok(now) }
    }
}

/// A commit that another host has made meanwhile is made.
pub(super) fn done_once<T>(committed: Result<T, StoreError>) -> Result<(), StoreError> {
    match committed {
        Ok(_) | Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}
