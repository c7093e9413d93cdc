//! The audit trail: what admins and builders did or tried to do.
//!
//! An entry is on disk before its action begins, and gets its outcome when the action has ended. An entry without an
//! outcome means that the host ended during the action. Entries contain only names, never a submitted value or a
//! credential. They are removed when they are too old. If there are too many, the oldest entries of actors with more
//! than an equal share are removed.

mod entry;
mod list;
mod trim;

use std::sync::Arc;

use tollhouse_api::AuditOutcome;
use tollhouse_base::{
    boxed,
    clock::{Clock, Timestamp},
    id::AuditId,
};
use tollhouse_store::{Durability, Space, Store, StoreError};

use self::entry::AUDIT;
pub use self::{
    entry::{Action, Actor, Entry},
    list::{AuditPage, AuditQuery},
};

/// How many entries are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Maximum number of entries. Above it, the oldest entries of actors with more than an equal share are removed. A
    /// tenth more, and those of the last minute, may exist until they are trimmed. Default: 1,000,000.
    pub count: u64,
    /// Maximum age of an entry, in milliseconds. Default: 400 days, for those who look once a year.
    pub age_ms: u64,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { count: 1_000_000, age_ms: 400 * 24 * 3_600 * 1_000 }
    }
}

/// The audit trail of a host.
pub struct Audit {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: AuditSettings,
}

impl Audit {
    /// Creates a trail with these retention settings.
    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: AuditSettings) -> Self {
        Self { store, clock, settings }
    }

    /// Records an action that is about to begin. It must not begin unless this succeeds.
    #[boxed]
    pub async fn begin(&self, action: Action) -> Result<Entry, StoreError> {
        let at = self.clock.now();
        let entry = Entry { id: AuditId::of_time(at), at, action, outcome: None };
        entry.stored().commit(&*self.store, Durability::Durable).await?;
        Ok(entry)
    }

    /// Records how an action ended.
    #[boxed]
    pub async fn end(&self, mut entry: Entry, status: u16, code: Option<&str>) -> Result<(), StoreError> {
        entry.outcome = Some(AuditOutcome { at: self.clock.now(), status, code: code.map(str::to_owned) });
        entry.stored().commit(&*self.store, Durability::Durable).await.map(|_| ())
    }

    /// Removes entries that are too old or too many.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next call tries the rest again.
    #[boxed]
    pub async fn sweep(&self) -> Result<(), StoreError> {
        AUDIT.expire(&*self.store, &AUDIT.all().before(&self.oldest())).await?;
        // The store's own count may be wrong after a crash. It only decides when to count.
        let about = self.store.sizes().spaces.get(&Space::Audit).map_or(0, |size| size.entries);
        if about > self.settings.count.saturating_add(self.settings.count / 10) {
            self.trim().await?;
        }
        Ok(())
    }

    /// Returns the time before which entries are no longer kept.
    fn oldest(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_sub(self.settings.age_ms))
    }
}

#[cfg(test)]
mod tests;
