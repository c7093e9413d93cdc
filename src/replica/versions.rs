//! Versions of the program that serve one store together: which [formats](super::formats) each reads and may write.

use std::sync::atomic::Ordering;

use tollhouse_base::id::ReplicaId;
use tollhouse_store::{Batch, Durability, Row, Store, StoreError};

use super::{
    Replica,
    formats::{Formats, JoinError, OWN, READ_BY, WRITTEN, are_read},
};

/// Checks that this version can read all rows of a store that it does not serve.
pub async fn readable(store: &dyn Store) -> Result<(), JoinError> {
    are_read(WRITTEN.get(store, &()).await?.as_ref(), OWN.reads)
}

/// Which leases name the replicas that a new format waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leases {
    /// The valid ones.
    Valid,
    /// Expired ones as well, because their holders may only have lost contact.
    All,
}

impl Replica {
    /// Records the formats that this version writes, unless the store or another replica rules them out. Called before
    /// anything is read, and again once others see the lease: of two replicas that start together, one sees the other.
    pub(super) async fn agree_on_formats(&self) -> Result<(), JoinError> {
        let writes = self.known.writes;
        are_read(WRITTEN.get(&*self.store, &()).await?.as_ref(), self.known.reads)?;
        let before = self.record_formats(writes).await?;
        let Some((id, reads)) = self.who_reads_less(writes, Leases::Valid).await? else { return Ok(()) };
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
            match &row {
                Some(row) => batch.replace(&WRITTEN, row, &Formats { through }),
                None => batch.insert(&WRITTEN, &(), &Formats { through }),
            };
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => return Ok(Some(row)),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns whether rows may be written in an optional format. That is so once all replicas read it. From then on the
    /// store records that it has such rows, so that no replica that cannot read them starts.
    ///
    /// A replica that has just started gets its final answer at once, unless the lease of an older replica is valid or
    /// has expired. An expired lease counts until this replica has been in contact for the duration of a lease, because
    /// its holder may have lost contact until then. It does not count if the store has such rows already: its holder
    /// cannot come back.
    pub async fn may_write(&self, form: u32) -> Result<bool, StoreError> {
        debug_assert!(form <= self.known.reads, "a form that this version does not read");
        if self.writes(form) {
            return Ok(true);
        }
        let Some(leases) = self.leases_to_check(form).await? else { return Ok(false) };
        if self.who_reads_less(form, leases).await?.is_some() {
            return Ok(false);
        }
        self.record_formats(form).await?;
        // A replica that started meanwhile has read the old record, and its lease exists by now.
        if self.who_reads_less(form, leases).await?.is_some() {
            return Ok(false);
        }
        self.written.fetch_max(form, Ordering::Relaxed);
        Ok(true)
    }

    /// Calls [`Replica::may_write`] for one format after the other, up to all that this version knows.
    pub async fn write_what_all_read(&self) -> Result<(), StoreError> {
        while self.written.load(Ordering::Relaxed) < self.known.wants {
            if !self.may_write(self.written.load(Ordering::Relaxed) + 1).await? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether [`Replica::may_write`] has already allowed a format, without asking the store.
    pub fn writes(&self, form: u32) -> bool {
        self.written.load(Ordering::Relaxed) >= form
    }

    /// Returns which leases name the replicas that this format waits for, or `None` if this replica has no valid lease.
    async fn leases_to_check(&self, form: u32) -> Result<Option<Leases>, StoreError> {
        if !self.shared {
            return Ok(Some(Leases::Valid));
        }
        let now = self.store.now().await?;
        if self.is_steady(now) {
            return Ok(Some(Leases::Valid));
        }
        let lease = self.contact().lease;
        if lease.is_none_or(|held| held.until <= now) {
            return Ok(None);
        }
        let is_written = WRITTEN.get(&*self.store, &()).await?.is_some_and(|written| written.through >= form);
        Ok(Some(if is_written { Leases::Valid } else { Leases::All }))
    }

    /// Returns a replica that does not read formats up to `number`, with the highest format that it reads.
    async fn who_reads_less(&self, number: u32, leases: Leases) -> Result<Option<(ReplicaId, u32)>, StoreError> {
        if !self.shared {
            return Ok(None);
        }
        let now = self.store.now().await?;
        for (id, lease) in self.leases().await? {
            // A malformed lease is of a later version.
            let counts = lease.is_some_and(|lease| leases == Leases::All || !lease.is_over(now));
            if id == self.id || !counts {
                continue;
            }
            let reads = self.formats_of(&id).await?;
            if reads < number {
                return Ok(Some((id, reads)));
            }
        }
        Ok(None)
    }

    /// Returns the highest format that a replica reads.
    pub(super) async fn formats_of(&self, id: &ReplicaId) -> Result<u32, StoreError> {
        Ok(READ_BY.get(&*self.store, id).await?.map_or(0, |formats| formats.through))
    }

    /// Adds the formats that this replica reads to a batch, next to its lease.
    pub(super) fn announce_formats(&self, batch: &mut Batch) {
        batch.put(&READ_BY, &self.id, &Formats { through: self.known.reads });
    }

    /// Deletes the record of the formats that a replica read, after it is gone.
    pub(super) fn forget_formats(batch: &mut Batch, id: &ReplicaId) {
        batch.delete(&READ_BY, id);
    }
}
