//! What endpoints kept that are gone without a mark.
//!
//! Hosts of older versions took away the record of a deleted endpoint first, and then what the endpoint kept. Where that was cut short,
//! keys, files, secrets and log lines are left of which nothing says that they are to go. A [round](Kept) comes by everyone who keeps
//! something, a part at a turn, and [marks](super::deletion) those of whom there is no record: the job of deletions does the rest.

use std::{collections::HashSet, time::Duration};

use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_capability::Kept;
use tollhouse_store::{Batch, Durability, StoreError, round};

use super::{
    Catalog,
    deletion::{DELETIONS, Deletion, done_once},
    entry::ENDPOINTS,
};

/// How often a round begins.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How old an endpoint is before it is looked for: a newer one may have a record of which this host has not heard.
const OLD_MS: u64 = 60 * 60 * 1_000;

/// Records that are read at once, and their bytes.
const SOME: usize = 100;
const SOME_BYTES: usize = 4 << 20;

impl Catalog {
    /// Marks endpoints as deleted that keep something and have no record: a turn of each round that is due. For a job that one host does at
    /// a time.
    ///
    /// # Errors
    ///
    /// The store's; the next turn comes by the same again.
    pub async fn mark_orphans(&self) -> Result<(), StoreError> {
        let now = self.now_for_sure().await?;
        for kept in Kept::ALL {
            if !round::is_due(&*self.store, kept.round(), EVERY, now).await? {
                continue;
            }
            let mut turn = kept.turn(&*self.store, now).await?;
            for id in self.without_record(std::mem::take(&mut turn.found), now).await? {
                tracing::info!(endpoint.id = %id, "an endpoint was deleted by an older version, and what it kept is removed now");
                self.mark(&id).await?;
            }
            turn.end().await?;
        }
        Ok(())
    }

    /// Those of `ids` that the store has no record of, and no mark either. None where a record does not read: it may be of any of them.
    async fn without_record(&self, ids: Vec<EndpointId>, now: Timestamp) -> Result<HashSet<EndpointId>, StoreError> {
        let all = self.all();
        let is_old = |id: &EndpointId| id.made_at().0.saturating_add(OLD_MS) < now.0;
        let mut left: HashSet<_> = ids.into_iter().filter(|id| is_old(id) && all.of_id(id).is_none()).collect();
        let mut marks = DELETIONS.all();
        while !left.is_empty()
            && let Some((page, rest)) = DELETIONS.sound(&*self.store, &marks, SOME).await?
        {
            page.iter().for_each(|mark| _ = left.remove(&mark.key.1));
            marks = rest;
        }
        // What this host has in memory may be less than the store has.
        let mut records = ENDPOINTS.all().within(SOME_BYTES);
        while !left.is_empty()
            && let Some(page) = ENDPOINTS.next(&*self.store, &mut records, SOME).await?
        {
            for row in page {
                match row {
                    Ok(row) => _ = left.remove(&row.value.id),
                    Err(error) => {
                        tracing::warn!(%error, "what deleted endpoints kept is not looked for as long as a record does not read");
                        return Ok(HashSet::new());
                    }
                }
            }
        }
        Ok(left)
    }

    /// Leaves the mark that its deletion would have left.
    async fn mark(&self, id: &EndpointId) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(&DELETIONS, &(Timestamp(0), id.clone()), &Deletion::of_nobody());
        self.services.close(&mut batch, id);
        done_once(batch.commit(&*self.store, Durability::Durable).await)
    }
}
