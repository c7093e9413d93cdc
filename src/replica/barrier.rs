//! Barrier: a change is confirmed once every live replica has applied it.

use std::{sync::atomic::Ordering, time::Duration};

use tollhouse_store::StoreError;

use super::Replica;

/// How often the progress of other replicas is read.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Maximum wait for other replicas. A replica that has not read a change by then has been [fenced](super::APPLY_WINDOW)
/// for a while, and what it did before is over.
const WAITS: Duration = Duration::from_millis(2_500);

impl Replica {
    /// Waits until all replicas have applied all changes so far or are fenced. Returns at once if the store is not
    /// shared.
    pub async fn wait_until_applied(&self) {
        if !self.shared {
            return;
        }
        match tokio::time::timeout(WAITS, self.wait_for_all()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "whether other replicas heed a change could not be asked"),
            Err(_) => tracing::warn!("a replica did not heed a change in time; it takes no calls until it does"),
        }
    }

    async fn wait_for_all(&self) -> Result<(), StoreError> {
        let newest = self.store.changes(self.applied.load(Ordering::SeqCst), 0).await?.newest;
        loop {
            let now = self.store.now().await?;
            let leases = self.leases().await?;
            if leases.iter().flat_map(|(_, lease)| lease).all(|lease| lease.is_over(now) || lease.applied >= newest) {
                return Ok(());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}
