//! Periodic jobs for all hosts of a store. Each runs on one host at a time.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tollhouse_account::session::Sessions;
use tollhouse_base::log_gate::LogGate;
use tollhouse_call::{History, Metrics};
use tollhouse_capability::Logs;
use tollhouse_catalog::PublishError;
use tollhouse_event::Events;
use tollhouse_money::sale::Sales;
use tollhouse_store::{StoreError, maintain, sweep_cursor};
use tollhouse_telemetry::counters::JOBS;

use super::services::Services;

/// Interval at which a host checks whether a rarer job is due, because another host may have done
/// it or be gone.
const POLL_EVERY: Duration = Duration::from_secs(60);

/// Interval at which a host checks whether another one has finished publishing the built-in tools.
const SEED_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Jobs that do not remove anything because of its age. They run even while [ages cannot be
/// determined](tollhouse_replica::Replica::can_expire).
const AGE_INDEPENDENT: [&str; 5] = [Sales::ROUND, "versions", "payouts", "reorganizations", "deletions"];

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// The work of a job. It is boxed, so that what surrounds it is compiled once, and not for each job.
type Work = Box<dyn Fn(Arc<Services>) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// Limits the lines about sources that are lost and cannot be scanned, because the host tries again each minute.
static NOT_SCANNED: LogGate = LogGate::every(HOUR);

/// Starts all jobs. They end when the host is dropped. Must be called after the host has joined the
/// other hosts of its store.
pub(super) fn start(services: &Arc<Services>) {
    run_schedules(services);
    job(
        services,
        "free-receipts",
        SECOND,
        "removing old receipts of free calls",
        |services| async move { services.free_receipts.turn().await },
    );
    job(services, "credit-days", 5 * SECOND, "removing old daily spending", |services| async move {
        services.payments.credits().forget_days().await
    });
    job(services, "nonces", 5 * SECOND, "removing expired nonces", |services| async move {
        let Some(ledger) = &services.ledger else { return Ok(()) };
        ledger.forget(services.payments.settling_since().await?).await
    });
    job(services, "reorganizations", 5 * SECOND, "comparing recent settlements with the chain", |services| async move {
        services.payments.watch_settlements().await
    });
    job(services, "deletions", 10 * SECOND, "removing the rest of deleted tools", |services| async move {
        services.catalog.finish_deletions().await
    });
    job(services, "audit", MINUTE, "sweeping the audit trail", |services| async move { services.audit.sweep().await });
    run_sweeps(services, Sales::ROUND, 10 * MINUTE, "aggregating sales", |services| async move {
        services.sales.fold_left(services.clock.now()).await
    });
    run_sweeps(services, Events::ROUND, HOUR, "sweeping events", |services| async move { services.events.sweep().await });
    run_sweeps(services, History::ROUND, HOUR, "removing old calls", |services| async move { services.history.sweep().await });
    run_sweeps(services, Metrics::ROUND, HOUR, "removing old metrics of calls", |services| async move { services.metrics.sweep().await });
    run_sweeps(services, Logs::ROUND, HOUR, "sweeping logs", |services| async move { services.capabilities.logs.sweep().await });
    run_sweeps(services, Sessions::ROUND, HOUR, "removing sessions that ended", |services| async move { services.sessions.sweep().await });
    if services.store.is_shared() {
        job(services, "versions", HOUR, "removing unused versions", |services| async move {
            services.catalog.forget_versions().await.map_err(|error| StoreError::Away(error.to_string()))
        });
        // A host with its own store completes payouts at start, and nobody else can have begun one.
        job(services, "payouts", 10 * MINUTE, "completing payouts", |services| async move {
            if let Err(error) = services.payouts.resume().await {
                tracing::error!(%error, "an interrupted payout could not be continued; the host will try again");
            }
            Ok(())
        });
    }
}

/// Begins scheduled runs of tools. Each host looks for them, and a claim in the store decides which one has a run.
fn run_schedules(services: &Arc<Services>) {
    maintain(services, SECOND, "beginning scheduled runs", |services, _| async move { services.calls.run_schedules().await });
}

/// Runs `work` now and then at the interval `every`.
fn job<Doing>(
    services: &Arc<Services>,
    name: &'static str,
    every: Duration,
    what: &'static str,
    work: impl Fn(Arc<Services>) -> Doing + Send + Sync + 'static,
) where
    Doing: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    run_job(services, name, every, what, Box::new(move |services| Box::pin(work(services))));
}

fn run_job(services: &Arc<Services>, name: &'static str, every: Duration, what: &'static str, work: Work) {
    let look = if services.store.is_shared() { every.min(POLL_EVERY) } else { every };
    maintain(services, look, what, move |services, _| {
        let (replica, clock, doing) = (Arc::clone(&services.replica), services.clock.clone(), work(services));
        async move {
            if !replica.can_expire() && !AGE_INDEPENDENT.contains(&name) {
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

/// Runs a step of the [round](sweep_cursor) with this name every minute while a round is active. A new
/// round begins at the interval `every`.
fn run_sweeps<Doing>(
    services: &Arc<Services>,
    name: &'static str,
    every: Duration,
    what: &'static str,
    work: impl Fn(Arc<Services>) -> Doing + Send + Sync + 'static,
) where
    Doing: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    sweep_when_due(services, name, every, what, Box::new(move |services| Box::pin(work(services))));
}

fn sweep_when_due(services: &Arc<Services>, name: &'static str, every: Duration, what: &'static str, work: Work) {
    let work = Arc::new(work);
    job(services, name, MINUTE, what, move |services| {
        let work = Arc::clone(&work);
        async move {
            if sweep_cursor::is_due(&*services.store, name, every, services.clock.now()).await? { work(services).await } else { Ok(()) }
        }
    });
}

/// Publishes the built-in tools, or those in `folder`, unless that was done before. If another host
/// of the store is doing it, waits until that is done and visible here.
pub(super) async fn publish_seed_tools(services: &Services, folder: Option<&Path>) -> Result<(), PublishError> {
    let (catalog, replica) = (&services.catalog, &services.replica);
    let mut waited = false;
    let tools = loop {
        match replica.alone("ship", Duration::ZERO, |turn| async move { catalog.publish_seed_tools(folder, &turn).await }).await? {
            Some(tools) => break tools,
            None if waited => {}
            None => {
                tracing::info!("waiting for another host of the store to publish the built-in tools");
                waited = true;
            }
        }
        tokio::time::sleep(SEED_POLL_INTERVAL).await;
    };
    if tools > 0 {
        tracing::info!(tools, "published the built-in tools");
    }
    if waited {
        replica.wait_until_applied().await;
    }
    Ok(())
}

/// Scans builders' endpoints in the background if the rules have changed and no other host of the
/// store is doing it. Continues the work of a host that is gone. Shutdown does not wait for it.
pub(super) fn rescan(services: &Arc<Services>) {
    maintain(services, MINUTE, "scanning tools with the current rules", |services, _| {
        let (catalog, replica) = (Arc::clone(&services.catalog), Arc::clone(&services.replica));
        async move {
            if !catalog.rescan_is_due().await? {
                return Ok(());
            }
            match replica.alone("rescan", Duration::ZERO, |turn| async move { catalog.rescan_if_due(&turn).await }).await {
                Ok(_) => Ok(()),
                // The store is available, and only an operator can restore a source.
                Err(PublishError::Lost(error)) => {
                    if let Some(skipped) = NOT_SCANNED.pass() {
                        tracing::warn!(error, skipped, "a tool could not be scanned with the current rules; the host will try again");
                    }
                    Ok(())
                }
                Err(error) => Err(StoreError::Away(error.to_string())),
            }
        }
    });
}
