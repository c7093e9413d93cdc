//! Periodic jobs for all hosts of a store. Each runs on one host at a time.

use std::{path::Path, sync::Arc, time::Duration};

use tollhouse_account::session::Sessions;
use tollhouse_call::{History, Metrics};
use tollhouse_capability::Logs;
use tollhouse_catalog::PublishError;
use tollhouse_event::Events;
use tollhouse_money::sale::Sales;
use tollhouse_store::{StoreError, keep_up, round};
use tollhouse_telemetry::counted::JOBS;

use super::rooms::Rooms;

/// Interval at which a host checks whether a rarer job is due, because another host may have done
/// it or be gone.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Interval at which a host checks whether another one has finished publishing the built-in tools.
const SHIPS_EVERY: Duration = Duration::from_millis(250);

/// Jobs that do not remove anything because of its age. They run even while [ages cannot be
/// determined](tollhouse_replica::Replica::can_tell_ages).
const WHATEVER_THE_TIME: [&str; 7] = [Sales::ROUND, "sellers", "versions", "payouts", "reorganizations", "deletions", "orphans"];

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Starts all jobs. They end when the host is dropped. Must be called after the host has joined the
/// other hosts of its store.
pub(super) fn start(rooms: &Arc<Rooms>) {
    job(rooms, "free-receipts", SECOND, "removing old receipts of free calls", |rooms| async move { rooms.free_receipts.turn().await });
    job(rooms, "credit-days", 5 * SECOND, "forgetting what was spent on days long gone", |rooms| async move {
        rooms.gate.credits().forget_days().await
    });
    job(rooms, "nonces", 5 * SECOND, "forgetting nonces that expired", |rooms| async move {
        let Some(ledger) = &rooms.ledger else { return Ok(()) };
        ledger.forget(rooms.gate.settling_since().await?).await
    });
    job(rooms, "reorganizations", 5 * SECOND, "comparing recent settlements with the chain", |rooms| async move {
        rooms.gate.watch_settlements().await
    });
    job(rooms, "deletions", 10 * SECOND, "removing the rest of deleted endpoints", |rooms| async move {
        rooms.catalog.finish_deletions().await
    });
    job(rooms, "orphans", MINUTE, "looking for what endpoints kept that older versions deleted", |rooms| async move {
        rooms.catalog.mark_orphans().await
    });
    job(rooms, "audit", MINUTE, "sweeping the audit trail", |rooms| async move { rooms.audit.sweep().await });
    rounds(rooms, Sales::ROUND, 10 * MINUTE, "folding sales", |rooms| async move { rooms.sales.fold_left(rooms.clock.now()).await });
    job(rooms, "sellers", MINUTE, "listing who sold something", |rooms| async move {
        rooms.sales.list_sellers(&rooms.replica, rooms.clock.now()).await
    });
    rounds(rooms, Events::ROUND, HOUR, "sweeping events", |rooms| async move { rooms.events.sweep().await });
    rounds(rooms, History::ROUND, HOUR, "removing old calls", |rooms| async move { rooms.history.sweep().await });
    rounds(rooms, Metrics::ROUND, HOUR, "removing old metrics of calls", |rooms| async move { rooms.metrics.sweep().await });
    rounds(rooms, Logs::ROUND, HOUR, "sweeping logs", |rooms| async move { rooms.capabilities.logs().sweep().await });
    rounds(rooms, Sessions::ROUND, HOUR, "removing sessions that ended", |rooms| async move { rooms.sessions.sweep().await });
    if rooms.store.is_shared() {
        job(rooms, "versions", HOUR, "removing versions that nobody has", |rooms| async move {
            rooms.catalog.forget_versions().await.map_err(|error| StoreError::Away(error.to_string()))
        });
        // A host with its own store completes payouts at start, and nobody else can have begun one.
        job(rooms, "payouts", 10 * MINUTE, "completing payouts", |rooms| async move {
            if let Err(error) = rooms.payouts.resume().await {
                tracing::error!(%error, "a payout that was cut off could not go on; it is tried again");
            }
            Ok(())
        });
    }
}

/// Runs `work` now and then at the interval `every`.
fn job<Work, Doing>(rooms: &Arc<Rooms>, name: &'static str, every: Duration, what: &'static str, work: Work)
where
    Work: Fn(Arc<Rooms>) -> Doing + Send + 'static,
    Doing: Future<Output = Result<(), StoreError>> + Send,
{
    let look = if rooms.store.is_shared() { every.min(LOOK_EVERY) } else { every };
    keep_up(rooms, look, what, move |rooms, _| {
        let (replica, clock, doing) = (Arc::clone(&rooms.replica), rooms.clock.clone(), work(rooms));
        async move {
            if !replica.can_tell_ages() && !WHATEVER_THE_TIME.contains(&name) {
                return Ok(());
            }
            let done = replica.alone(name, every, |_| doing).await;
            if !matches!(done, Ok(None)) {
                JOBS.ended(name, done.is_ok().then(|| clock.now()));
            }
            done.map(drop)
        }
    });
}

/// Runs a step of the [round](round) with this name every minute while a round is active. A new
/// round begins at the interval `every`.
fn rounds<Work, Doing>(rooms: &Arc<Rooms>, name: &'static str, every: Duration, what: &'static str, work: Work)
where
    Work: Fn(Arc<Rooms>) -> Doing + Send + Sync + 'static,
    Doing: Future<Output = Result<(), StoreError>> + Send,
{
    let work = Arc::new(work);
    job(rooms, name, MINUTE, what, move |rooms| {
        let work = Arc::clone(&work);
        async move { if round::is_due(&*rooms.store, name, every, rooms.clock.now()).await? { work(rooms).await } else { Ok(()) } }
    });
}

/// Publishes the built-in tools, or those in `folder`, unless that was done before. If another host
/// of the store is doing it, waits until that is done and visible here.
pub(super) async fn ship(rooms: &Rooms, folder: Option<&Path>) -> Result<(), PublishError> {
    let Rooms { catalog, replica, .. } = rooms;
    let mut waited = false;
    let tools = loop {
        match replica.alone("ship", Duration::ZERO, |turn| async move { catalog.ship(folder, &turn).await }).await? {
            Some(tools) => break tools,
            None if waited => {}
            None => {
                tracing::info!("waiting for another host of the store, which publishes the shipped tools");
                waited = true;
            }
        }
        tokio::time::sleep(SHIPS_EVERY).await;
    };
    if tools > 0 {
        tracing::info!(tools, "published the shipped catalogue");
    }
    if waited {
        replica.told().await;
    }
    Ok(())
}

/// Scans builders' endpoints in the background if the rules have changed and no other host of the
/// store is doing it. Continues the work of a host that is gone. Shutdown does not wait for it.
pub(super) fn rescan(rooms: &Arc<Rooms>) {
    keep_up(rooms, MINUTE, "scanning endpoints by the rules in force", |rooms, _| {
        let (catalog, replica) = (Arc::clone(&rooms.catalog), Arc::clone(&rooms.replica));
        async move {
            if !catalog.rescan_is_due().await? {
                return Ok(());
            }
            let scanned = replica.alone("rescan", Duration::ZERO, |turn| async move { catalog.rescan_if_due(&turn).await }).await;
            scanned.map(drop).map_err(|error| StoreError::Away(error.to_string()))
        }
    });
}
