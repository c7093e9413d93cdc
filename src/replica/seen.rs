//! Seeing: who serves a store, as operators are told.

use std::sync::atomic::Ordering;

use serde::Serialize;
use tollhouse_base::{clock::Timestamp, id::ReplicaId};
use tollhouse_store::StoreError;

use super::Replica;

/// A replica, as it has last said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// What others know it by.
    pub id: ReplicaId,
    /// Of the program.
    pub version: String,
    /// The newest forms of rows that it reads: every change of a form has a number.
    pub formats: u32,
    /// When it began to serve.
    pub started_at: Timestamp,
    /// Until when it is sure to be there, by the store's clock; `None` where nobody else can be.
    pub lease_until: Option<Timestamp>,
    /// Whether that is to come.
    pub lives: bool,
    /// Changes of others that it does not heed yet.
    pub behind: u64,
    /// Whether it is the one that is asked.
    pub own: bool,
}

impl Replica {
    /// Every replica, also those whose leases ended within the last hour.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn seen(&self) -> Result<Vec<Seen>, StoreError> {
        if !self.shared {
            let (id, version) = (self.id.clone(), env!("CARGO_PKG_VERSION").to_owned());
            let started_at = id.made_at();
            let formats = self.known.reads;
            return Ok(vec![Seen { id, version, formats, started_at, lease_until: None, lives: true, behind: 0, own: true }]);
        }
        let newest = self.store.changes(self.applied.load(Ordering::SeqCst), 0).await?.newest;
        let now = self.store.now().await?;
        let mut seen = Vec::new();
        for (id, lease) in self.leases().await? {
            let Some(lease) = lease else { continue };
            seen.push(Seen {
                formats: self.formats_of(&id).await?,
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
