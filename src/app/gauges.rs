//! Gauges, and the totals of the pool, read when metrics are requested. Other counters are kept where events happen.

use std::sync::{Arc, LazyLock, Weak};

use tokio::time::timeout;
use tollhouse_http::{STORE_TIMEOUT, check_commits};
use tollhouse_money::{GasFunds, count_unresolved};
use tollhouse_operate::process::Process;
use tollhouse_pool::Status;
use tollhouse_protocol::JailLayer;
use tollhouse_store::{Space, SpaceSize};
use tollhouse_telemetry::{Gather, Samples, metric_table};

use super::services::Services;

/// The layers of the jail with their names.
static LAYERS: LazyLock<Vec<(JailLayer, &'static str)>> =
    LazyLock::new(|| JailLayer::ALL.iter().map(|layer| (*layer, &*layer.to_string().leak())).collect());

/// Maximum number of unresolved settlements to count.
const MAX_UNRESOLVED: usize = 1_000;

/// Returns the function that measures all gauges, as long as the host exists.
pub(super) fn gather(services: Weak<Services>) -> Gather {
    Arc::new(move || {
        let services = services.upgrade();
        Box::pin(async move {
            let mut samples = Samples::counted();
            if let Some(services) = services {
                all(&mut samples, &services).await;
            }
            samples
        })
    })
}

async fn all(samples: &mut Samples, services: &Services) {
    samples.put(&metric_table::BUILD, [env!("CARGO_PKG_VERSION")], true);
    samples.put(&metric_table::CALLS_UNDER_WAY, [], services.calls.in_flight());
    services.shared.intake.measured(samples);
    samples.put(&metric_table::BODIES_SPOOLED, [], services.shared.spool.used());
    samples.put(&metric_table::SETTLEMENTS_OPEN, [], services.payments.open_intents());
    for (network, GasFunds { wei, settlements }) in services.payments.facilitators().gas_funds() {
        samples.put(&metric_table::GAS_BALANCE, [network.caip2], wei);
        samples.put(&metric_table::GAS_SETTLEMENTS_LEFT, [network.caip2], settlements);
    }
    let free_receipts = asked(samples, services).await;
    samples.put(&metric_table::FENCED, [], services.replica.is_fenced());
    samples.put(&metric_table::ENDING, [], services.shared.shutdown.announced());
    stored(samples, services, free_receipts);
    pool(samples, &services.pool.status());
    samples.put(&metric_table::POOL_FAILING, [], services.pool.cannot_start());
    Process::look().measured(samples);
}

/// Adds the gauges for which the store is asked, all at the same time. Without an answer they are left out. Returns the
/// size of the receipts of free calls.
async fn asked(samples: &mut Samples, services: &Services) -> SpaceSize {
    let store = &*services.store;
    let (committed, unresolved, free_receipts) = tokio::join!(
        check_commits(store, STORE_TIMEOUT),
        timeout(STORE_TIMEOUT, count_unresolved(store, MAX_UNRESOLVED)),
        services.free_receipts.size(),
    );
    samples.put(&metric_table::STORE_AVAILABLE, [], committed.is_ok());
    match unresolved {
        Ok(Ok(unresolved)) => samples.put(&metric_table::SETTLEMENTS_UNRESOLVED, [], unresolved),
        Ok(Err(error)) => tracing::warn!(%error, "unresolved settlements could not be counted"),
        Err(_) => tracing::warn!("unresolved settlements could not be counted in time"),
    }
    free_receipts
}

fn stored(samples: &mut Samples, services: &Services, free_receipts: SpaceSize) {
    let sizes = services.store.sizes();
    samples.put(&metric_table::SYNCS, [], sizes.syncs);
    let mut kinds: Vec<(&'static str, SpaceSize)> = vec![];
    for (space, kind) in Space::ALL.iter().filter_map(|space| Some((space, space.kind()?))) {
        let SpaceSize { entries, bytes } = sizes.spaces.get(space).copied().unwrap_or_default();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum = SpaceSize { entries: sum.entries + entries, bytes: sum.bytes + bytes },
            None => kinds.push((kind, SpaceSize { entries, bytes })),
        }
    }
    kinds.push(("freeReceipts", free_receipts));
    for (kind, SpaceSize { entries, bytes }) in kinds {
        samples.put(&metric_table::STORE_ROWS, [kind], entries);
        samples.put(&metric_table::STORE_BYTES, [kind], bytes);
    }
    let disk = services.disk.usage();
    for (part, bytes) in [("all", disk.used_bytes), ("store", disk.store_bytes), ("files", disk.files_bytes)] {
        samples.put(&metric_table::DATA_BYTES, [part], bytes);
    }
    samples.put(&metric_table::DISK_FREE, [], disk.free_bytes);
}

fn pool(samples: &mut Samples, status: &Status) {
    samples.put(&metric_table::POOL_PROCESSES, [], status.processes);
    let workers = [("idle", status.idle), ("spare", status.spares), ("running", status.running), ("waiting", status.waiting_in_ops)];
    workers.into_iter().for_each(|(state, many)| samples.put(&metric_table::POOL_WORKERS, [state], many));
    samples.put(&metric_table::POOL_QUEUED, [], status.queued);
    samples.put(&metric_table::POOL_BYTES, ["workers"], status.process_bytes);
    samples.put(&metric_table::POOL_BYTES, ["zygotes"], status.zygote_bytes);
    samples.put(&metric_table::POOL_ZYGOTES, [], status.zygotes);
    let totals = &status.totals;
    let counted = [
        (&metric_table::POOL_RUNS, totals.calls),
        (&metric_table::POOL_COLD, totals.cold_calls),
        (&metric_table::POOL_PIPELINED, totals.pipelined),
        (&metric_table::POOL_REFUSED, totals.refused),
        (&metric_table::POOL_STOPS, totals.stops),
        (&metric_table::POOL_KILLS, totals.kills),
        (&metric_table::POOL_CRASHES, totals.crashes),
        (&metric_table::POOL_CANCELS, totals.cancels),
        (&metric_table::POOL_STARTED, totals.started),
        (&metric_table::POOL_FORKED, totals.forked),
        (&metric_table::POOL_FAILED_STARTS, totals.failed_starts),
        (&metric_table::POOL_REPLACED, totals.replaced),
        (&metric_table::POOL_IDLE_FAULTS, totals.idle_faults),
    ];
    counted.into_iter().for_each(|(metric, count)| samples.put(metric, [], count));
    for (layer, name) in &*LAYERS {
        samples.put(&metric_table::JAIL, [*name], status.jail.contains(layer));
        samples.put(&metric_table::JAIL_REFUSED, [*name], status.jail_refused.iter().any(|refused| refused.layer == *layer));
    }
}
