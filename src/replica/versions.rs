//! Versions of the program that serve one store beside each other: which [forms of rows](super::formats) each reads, and may write.

use std::sync::atomic::Ordering;

use tollhouse_base::id::ReplicaId;
use tollhouse_store::{Batch, Durability, Store, StoreError};

use super::{
    Replica,
    formats::{Formats, JoinError, OWN, READ_BY, UNSAID, WRITTEN, are_read},
};

/// Whether this version reads all rows of a store that it does not serve.
///
/// # Errors
///
/// [`JoinError::Later`] where it does not; the store's.
pub async fn readable(store: &dyn Store) -> Result<(), JoinError> {
    are_read(WRITTEN.get(store, &()).await?.as_ref(), OWN.reads)
}

impl Replica {
    /// Says that this version writes what it writes, unless the store or another replica forbids it. Called before it
    /// reads, and again once the others see its lease: of two that begin at once one sees the other.
    pub(super) async fn agree_on_formats(&self) -> Result<(), JoinError> {
        let writes = self.known.writes;
        let before = loop {
            let row = WRITTEN.row(&*self.store, &()).await?;
            are_read(row.as_ref().map(|row| &row.value), self.known.reads)?;
            if row.as_ref().is_some_and(|row| row.value.up_to >= writes) {
                break None;
            }
            let mut batch = Batch::new();
            match &row {
                Some(row) => batch.replace(&WRITTEN, row, &Formats { up_to: writes }),
                None => batch.insert(&WRITTEN, &(), &Formats { up_to: writes }),
            };
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => break Some(row),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let Some((id, reads)) = self.who_reads_less(writes).await? else { return Ok(()) };
        if let Some(before) = before {
            // Nothing is written yet: those who serve may start again.
            let mut batch = Batch::new();
            match before {
                Some(row) => batch.put(&WRITTEN, &(), &row.value),
                None => batch.delete(&WRITTEN, &()),
            };
            batch.commit(&*self.store, Durability::Durable).await?;
        }
        Err(JoinError::Earlier { id, reads, writes })
    }

    /// Whether rows may be written in a form that this version reads, and does not write from its start on: since all who serve the store
    /// read it, and the store says from now on that it has such rows, so that nobody comes who does not. Not before this one has been in touch
    /// for as long as a lease lasts: others may have been away from the store until then, and come back.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn may_write(&self, form: u32) -> Result<bool, StoreError> {
        debug_assert!(form <= self.known.reads, "a form that this version does not read");
        if self.writes(form) {
            return Ok(true);
        }
        if self.shared && !self.is_steady(self.store.now().await?) || self.who_reads_less(form).await?.is_some() {
            return Ok(false);
        }
        loop {
            let row = WRITTEN.row(&*self.store, &()).await?;
            if row.as_ref().is_some_and(|row| row.value.up_to >= form) {
                break;
            }
            let mut batch = Batch::new();
            match &row {
                Some(row) => batch.replace(&WRITTEN, row, &Formats { up_to: form }),
                None => batch.insert(&WRITTEN, &(), &Formats { up_to: form }),
            };
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => break,
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        // Whoever began meanwhile has read what the store said before, and its lease is there by now.
        if self.who_reads_less(form).await?.is_some() {
            return Ok(false);
        }
        self.written.fetch_max(form, Ordering::Relaxed);
        Ok(true)
    }

    /// Asks [`Replica::may_write`] for one form after the other, up to all that this version knows.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn write_what_all_read(&self) -> Result<(), StoreError> {
        while self.written.load(Ordering::Relaxed) < self.known.wants {
            if !self.may_write(self.written.load(Ordering::Relaxed) + 1).await? {
                break;
            }
        }
        Ok(())
    }

    /// Whether [`Replica::may_write`] has said so: for whoever cannot wait for the store.
    #[must_use]
    pub fn writes(&self, form: u32) -> bool {
        self.written.load(Ordering::Relaxed) >= form
    }

    /// Another one that lives and does not read forms up to `number`, and what it reads.
    async fn who_reads_less(&self, number: u32) -> Result<Option<(ReplicaId, u32)>, StoreError> {
        if !self.shared {
            return Ok(None);
        }
        let now = self.store.now().await?;
        for (id, lease) in self.leases().await? {
            // A lease that does not read is of a later version.
            if id == self.id || lease.is_none_or(|lease| lease.is_over(now)) {
                continue;
            }
            let reads = self.formats_of(&id).await?;
            if reads < number {
                return Ok(Some((id, reads)));
            }
        }
        Ok(None)
    }

    /// What a replica reads.
    pub(super) async fn formats_of(&self, id: &ReplicaId) -> Result<u32, StoreError> {
        Ok(READ_BY.get(&*self.store, id).await?.map_or(UNSAID, |formats| formats.up_to))
    }

    /// Has a batch say what this one reads: beside its lease.
    pub(super) fn say_formats(&self, batch: &mut Batch) {
        batch.put(&READ_BY, &self.id, &Formats { up_to: self.known.reads });
    }

    /// Has a batch forget what a replica reads that is gone.
    pub(super) fn forget_formats(batch: &mut Batch, id: &ReplicaId) {
        batch.delete(&READ_BY, id);
    }
}
