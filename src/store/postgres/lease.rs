//! Whose the database is: one host's at a time, as long as it says so again before its lease ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{error::OpenError, shared::Shared};
use crate::store::StoreError;

/// How long a host has the database after it said so, by the database's clock and by its own.
const LEASE: Duration = Duration::from_secs(5);
/// How often it says so.
const RENEWED: Duration = Duration::from_secs(1);
/// How long another host waits for the end of a lease, which may be that of a host that was killed.
const PATIENCE: Duration = Duration::from_secs(2 * LEASE.as_secs());

/// Takes the database for one host, and keeps it until the store is dropped.
pub(super) async fn take(shared: &Arc<Shared>) -> Result<(), OpenError> {
    let mut holder = [0; 16];
    // Without chance two hosts that start at once are taken for one.
    _ = getrandom::fill(&mut holder);
    let begun = Instant::now();
    while !claim(shared, holder).await.map_err(OpenError::Lease)? {
        if begun.elapsed() > PATIENCE {
            return Err(OpenError::Held);
        }
        tokio::time::sleep(RENEWED / 4).await;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(RENEWED);
        loop {
            tick.tick().await;
            if shared.pending.has_ended() {
                return;
            }
            match claim(&shared, holder).await {
                Ok(true) => {}
                Ok(false) => tracing::error!("another host has taken the database, and this one commits nothing more: end one of them"),
                Err(error) => tracing::warn!(%error, "the lease of the database could not be renewed; without it nothing is committed"),
            }
        }
    });
    Ok(())
}

/// Takes the lease where nobody else has it; false where somebody has.
async fn claim(shared: &Shared, holder: [u8; 16]) -> Result<bool, StoreError> {
    let asked = Instant::now();
    let ours = shared.readers.ask(|reader| async move { reader.claim(&holder, LEASE).await }).await?;
    if ours {
        shared.lease_ends(asked + LEASE);
    }
    Ok(ours)
}
