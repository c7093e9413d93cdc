//! Gauges, measured when metrics are requested. Counters are kept where events happen.

use std::sync::{Arc, LazyLock};

use tollhouse_front::Shared;
use tollhouse_money::count_unresolved;
use tollhouse_operate::process::Process;
use tollhouse_pool::Status;
use tollhouse_protocol::JailLayer;
use tollhouse_store::{Size, Space};
use tollhouse_telemetry::{Gather, Samples, table};

use super::rooms::Rooms;

/// The layers of the jail with their names.
static LAYERS: LazyLock<Vec<(JailLayer, &'static str)>> =
    LazyLock::new(|| JailLayer::ALL.iter().map(|layer| (*layer, &*layer.to_string().leak())).collect());

/// Maximum number of unresolved settlements to count.
const MOST_UNRESOLVED: usize = 1_000;

/// Returns the function that measures all gauges, as long as the host exists.
pub(super) fn gather(rooms: &Arc<Rooms>, shared: &Arc<Shared>) -> Gather {
    let (rooms, shared) = (Arc::downgrade(rooms), Arc::downgrade(shared));
    Arc::new(move || {
        let host = rooms.upgrade().zip(shared.upgrade());
        Box::pin(async move {
            let mut samples = Samples::counted();
            if let Some((rooms, shared)) = host {
                all(&mut samples, &rooms, &shared).await;
            }
            samples
        })
    })
}

async fn all(samples: &mut Samples, rooms: &Rooms, shared: &Shared) {
    samples.put(&table::BUILD, [env!("CARGO_PKG_VERSION")], true);
    samples.put(&table::CALLS_UNDER_WAY, [], rooms.calls.under_way());
    shared.intake.measured(samples);
    samples.put(&table::SETTLEMENTS_OPEN, [], rooms.gate.open_intents());
    match count_unresolved(&*rooms.store, MOST_UNRESOLVED).await {
        Ok(unresolved) => samples.put(&table::SETTLEMENTS_UNRESOLVED, [], unresolved),
        Err(error) => tracing::warn!(%error, "unresolved settlements could not be counted"),
    }
    samples.put(&table::FENCED, [], rooms.replica.is_fenced());
    samples.put(&table::ENDING, [], shared.shutdown.announced());
    stored(samples, rooms).await;
    pool(samples, &rooms.pool.status());
    samples.put(&table::POOL_FAILING, [], rooms.pool.cannot_start());
    Process::look().measured(samples);
}

async fn stored(samples: &mut Samples, rooms: &Rooms) {
    let sizes = rooms.store.sizes();
    samples.put(&table::SYNCS, [], sizes.syncs);
    let mut kinds: Vec<(&'static str, Size)> = vec![];
    for (space, kind) in Space::ALL.iter().filter_map(|space| Some((space, space.kind()?))) {
        let Size { entries, bytes } = sizes.spaces.get(space).copied().unwrap_or_default();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum = Size { entries: sum.entries + entries, bytes: sum.bytes + bytes },
            None => kinds.push((kind, Size { entries, bytes })),
        }
    }
    kinds.push(("freeReceipts", rooms.free_receipts.size().await));
    for (kind, Size { entries, bytes }) in kinds {
        samples.put(&table::STORE_ROWS, [kind], entries);
        samples.put(&table::STORE_BYTES, [kind], bytes);
    }
    let disk = rooms.disk.usage();
    for (part, bytes) in [("all", disk.used_bytes), ("store", disk.store_bytes), ("files", disk.files_bytes)] {
        samples.put(&table::DATA_BYTES, [part], bytes);
    }
    samples.put(&table::DISK_FREE, [], disk.free_bytes);
}

fn pool(samples: &mut Samples, status: &Status) {
    samples.put(&table::POOL_PROCESSES, [], status.processes);
    let workers = [("idle", status.idle), ("spare", status.spares), ("running", status.running), ("waiting", status.waiting_in_ops)];
    workers.into_iter().for_each(|(state, many)| samples.put(&table::POOL_WORKERS, [state], many));
    samples.put(&table::POOL_QUEUED, [], status.queued);
    samples.put(&table::POOL_BYTES, ["workers"], status.process_bytes);
    samples.put(&table::POOL_BYTES, ["zygotes"], status.zygote_bytes);
    samples.put(&table::POOL_ZYGOTES, [], status.zygotes);
    let totals = &status.totals;
    let counted = [
        (&table::POOL_RUNS, totals.calls),
        (&table::POOL_COLD, totals.cold_calls),
        (&table::POOL_PIPELINED, totals.pipelined),
        (&table::POOL_REFUSED, totals.refused),
        (&table::POOL_STOPS, totals.stops),
        (&table::POOL_KILLS, totals.kills),
        (&table::POOL_CRASHES, totals.crashes),
        (&table::POOL_CANCELS, totals.cancels),
        (&table::POOL_STARTED, totals.started),
        (&table::POOL_FORKED, totals.forked),
        (&table::POOL_FAILED_STARTS, totals.failed_starts),
        (&table::POOL_REPLACED, totals.replaced),
        (&table::POOL_IDLE_FAULTS, totals.idle_faults),
    ];
    counted.into_iter().for_each(|(metric, count)| samples.put(metric, [], count));
    for (layer, name) in &*LAYERS {
        samples.put(&table::JAIL, [*name], status.jail.contains(layer));
        samples.put(&table::JAIL_REFUSED, [*name], status.jail_refused.iter().any(|refused| refused.layer == *layer));
    }
}
