//! Lists the replicas of a store for operators.

use std::sync::atomic::Ordering;

pub use tollhouse_api::Replica as SeenReplica;
use tollhouse_base::clock::Timestamp;
use tollhouse_store::StoreError;

use super::Replica;

impl Replica {
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
