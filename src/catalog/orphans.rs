//! Removes data of deleted tools that have no deletion mark.
//!
//! Older versions deleted the record of a tool first, and its data afterwards. An interruption left keys, files,
//! secrets and log lines that nothing marks for removal. A [round](Kept) visits all tools with data, part by part, and
//! [marks](super::deletion) those without a record. The deletion job does the rest.

use std::{collections::HashSet, time::Duration};

use tollhouse_base::{clock::Timestamp, id::EndpointId};
use tollhouse_capability::Kept;
use tollhouse_store::{Batch, Durability, StoreError, sweep_cursor};

use super::{
    Catalog,
    deletion::{DELETIONS, Deletion, delete_once},
    entry::ENDPOINTS,
};

/// Minimum interval between the starts of two rounds.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Minimum age of a tool to check, in milliseconds. A newer one may have a record that this host has not received yet.
const OLD_MS: u64 = 60 * 60 * 1_000;

/// Maximum records read at once, and their maximum bytes.
const SOME: usize = 100;
const SOME_BYTES: usize = 4 << 20;

impl Catalog {
    /// Marks tools as deleted that have data but no record. Runs one turn of each round that is due. Only one host may
    /// run it at a time.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next turn visits the same tools again.
    pub async fn mark_orphans(&self) -> Result<(), StoreError> {
        let now = self.strict_now().await?;
        let mut ended = Ok(());
        for stored in Kept::ALL {
            // An unreadable row of one kind does not hold up the others.
            if let Err(error) = self.mark_orphans_of(&stored, now).await {
                tracing::warn!(round = stored.round(), %error, "data of deleted tools could not be looked for");
                ended = Err(error);
            }
        }
        ended
    }

    /// Marks the tools that have data of one kind but no record, if its turn is due.
    async fn mark_orphans_of(&self, stored: &Kept, now: Timestamp) -> Result<(), StoreError> {
        if !sweep_cursor::is_due(&*self.store, stored.round(), EVERY, now).await? {
            return Ok(());
        }
        let mut turn = stored.turn(&*self.store, now).await?;
        for id in self.without_record(std::mem::take(&mut turn.found), now).await? {
            tracing::info!(endpoint.id = %id, "an endpoint was deleted by an older version, and what it kept is removed now");
            self.mark(&id).await?;
        }
        turn.end().await
    }

    /// Returns those of `ids` that have neither a record nor a mark in the store. Returns none if a record is
    /// unreadable, because it may belong to any of them.
    async fn without_record(&self, ids: Vec<EndpointId>, now: Timestamp) -> Result<HashSet<EndpointId>, StoreError> {
        let all = self.all();
        let is_old = |id: &EndpointId| id.made_at().0.saturating_add(OLD_MS) < now.0;
        let mut remaining: HashSet<_> = ids.into_iter().filter(|id| is_old(id) && all.of_id(id).is_none()).collect();
        let mut marks = DELETIONS.all();
        while !remaining.is_empty()
            && let Some((page, rest)) = DELETIONS.sound(&*self.store, &marks, SOME).await?
        {
            page.iter().for_each(|mark| _ = remaining.remove(&mark.key.1));
            marks = rest;
        }
        // The store may have more records than this host has in memory.
        let mut records = ENDPOINTS.all().within(SOME_BYTES);
        while !remaining.is_empty()
            && let Some(page) = ENDPOINTS.next(&*self.store, &mut records, SOME).await?
        {
            for row in page {
                match row {
                    Ok(row) => _ = remaining.remove(&row.value.id),
                    Err(error) => {
                        tracing::warn!(%error, "what deleted endpoints kept is not looked for as long as a record does not read");
                        return Ok(HashSet::new());
                    }
                }
            }
        }
        Ok(remaining)
    }

    /// Writes the mark that a deletion would have written.
    async fn mark(&self, id: &EndpointId) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        batch.put(&DELETIONS, &(Timestamp(0), id.clone()), &Deletion::of_nobody());
        self.services.close(&mut batch, id);
        delete_once(batch.commit(&*self.store, Durability::Durable).await)
    }
}
