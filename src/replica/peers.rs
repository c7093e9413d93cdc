//! Lists the replicas of a store for operators.

use std::sync::atomic::Ordering;

use serde::Serialize;
use tollhouse_base::{clock::Timestamp, id::ReplicaId};
use tollhouse_store::StoreError;

use super::Replica;

/// A replica, as it last described itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenReplica {
    /// Its id.
    pub id: ReplicaId,
    /// Version of the program.
    pub version: String,
    /// The newest format of rows that it reads. Every change of a format has a number.
    pub formats: u32,
    /// When it started to serve.
    pub started_at: Timestamp,
    /// When its lease expires, by the store's clock. `None` if the store is not shared.
    pub lease_until: Option<Timestamp>,
    /// Whether its lease is valid.
    #[serde(rename = "lives")]
    pub is_live: bool,
    /// Number of others' changes that it has not applied yet.
    pub behind: u64,
    /// Whether it is this replica.
    pub own: bool,
}

impl Replica {
    /// Returns every replica, including those whose leases expired within the last hour.
    pub async fn seen(&self) -> Result<Vec<SeenReplica>, StoreError> {
        if !self.shared {
            let (id, version) = (self.id.clone(), env!("CARGO_PKG_VERSION").to_owned());
            let started_at = id.made_at();
            let formats = self.known.reads;
            return Ok(vec![SeenReplica { id, version, formats, started_at, lease_until: None, is_live: true, behind: 0, own: true }]);
        }
        let newest = self.store.changes(self.applied.load(Ordering::SeqCst), 0).await?.newest;
        let now = self.store.now().await?;
        let mut seen = Vec::new();
        for (id, lease) in self.leases().await? {
            let Some(lease) = lease else { continue };
            seen.push(SeenReplica {
                formats: self.formats_of(&id).await?,
                own: id == self.id,
                is_live: !lease.is_over(now),
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
