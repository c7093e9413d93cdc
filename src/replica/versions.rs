//! Versions of the program that serve one store together: which [formats](super::formats) each reads and writes. Lists the
//! replicas for operators.

use std::sync::atomic::Ordering;

pub use tollhouse_api::Replica as SeenReplica;
use tollhouse_base::{clock::Timestamp, id::ReplicaId};
use tollhouse_store::{Batch, Durability, Row, Store, StoreError};

use super::{
    Replica,
    formats::{Formats, JoinError, OWN, WRITTEN, are_read},
};

/// Checks that this version can read all rows of a store that it does not serve.
pub async fn readable(store: &dyn Store) -> Result<(), JoinError> {
    are_read(WRITTEN.get(store, &()).await?.as_ref(), OWN.reads)
}

impl Replica {
    /// Records the formats that this version writes, unless the store or another replica rules them out. Called before
    /// anything is read, and again once others see the lease: of two replicas that start together, one sees the other.
    pub(super) async fn agree_on_formats(&self) -> Result<(), JoinError> {
        let writes = self.known.writes;
        are_read(WRITTEN.get(&*self.store, &()).await?.as_ref(), self.known.reads)?;
        let before = self.record_formats(writes).await?;
        let Some((id, reads)) = self.who_reads_less(writes).await? else { return Ok(()) };
        if let Some(before) = before {
            // Nothing has been written yet, so the hosts of the other version can still restart.
            let mut batch = Batch::new();
            match before {
                Some(row) => batch.put(&WRITTEN, &(), &row.value),
                None => batch.delete(&WRITTEN, &()),
            };
            batch.commit(&*self.store, Durability::Durable).await?;
        }
        Err(JoinError::Earlier { id, reads, writes })
    }

    /// Records that rows have formats up to `through`. Returns the record before, or `None` if it covered them already.
    async fn record_formats(&self, through: u32) -> Result<Option<Option<Row<(), Formats>>>, StoreError> {
        loop {
            let row = WRITTEN.row(&*self.store, &()).await?;
            if row.as_ref().is_some_and(|row| row.value.through >= through) {
                return Ok(None);
            }
            let mut batch = Batch::new();
            batch.replace_or_insert(&WRITTEN, row.as_ref(), &(), &Formats { through });
            if batch.commit_if_unchanged(&*self.store, Durability::Durable).await? {
                return Ok(Some(row));
            }
        }
    }

    /// Returns a replica that does not read formats up to `number`, with the highest format that it reads.
    async fn who_reads_less(&self, number: u32) -> Result<Option<(ReplicaId, u32)>, StoreError> {
        if !self.shared {
            return Ok(None);
        }
        let now = self.store.now().await?;
        // A malformed lease is of a later version.
        let readable = self.leases().await?.into_iter().filter_map(|(id, lease)| Some((id, lease?)));
        let mut others = readable.filter(|(id, lease)| *id != self.id && !lease.is_over(now));
        Ok(others.find(|(_, lease)| lease.reads < number).map(|(id, lease)| (id, lease.reads)))
    }

    /// Returns every replica, including those whose leases expired within the last hour.
    pub async fn seen(&self) -> Result<Vec<SeenReplica>, StoreError> {
        if !self.shared {
            let (id, version) = (self.id.clone(), env!("CARGO_PKG_VERSION").to_owned());
            let started_at = id.made_at();
            let formats = self.known.reads;
            return Ok(vec![SeenReplica { id, version, formats, started_at, lease_until: None, lives: true, behind: 0, own: true }]);
        }
        let newest = self.store.changes(self.applied.load(Ordering::SeqCst), 0).await?.newest;
        let now = self.store.now().await?;
        let mut seen = Vec::new();
        for (id, lease) in self.leases().await? {
            let Some(lease) = lease else { continue };
            seen.push(SeenReplica {
                formats: lease.reads,
                own: id == self.id,
                lives: !lease.is_over(now),
                id,
                started_at: Timestamp(lease.started_ms),
                lease_until: Some(Timestamp(lease.until_ms)),
                behind: newest.saturating_sub(lease.applied),
                version: lease.version,
            });
        }
        Ok(seen)
    }
}
