//! Status and counters of a pool.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tollhouse_protocol::{JailLayer, JailReport, LayerRefusal, Tier};

/// A snapshot of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Worker processes that are starting, running, or ended but not gone yet.
    pub processes: usize,
    /// Worker processes that are ready or busy.
    pub workers: usize,
    /// Why the last start of a process failed. `None` once a start has succeeded.
    pub starts_fail: Option<String>,
    /// Memory of the worker processes, in bytes.
    pub process_bytes: u64,
    /// Processes that workers are forked from, as of one or two seconds ago.
    pub zygotes: usize,
    /// Memory of the zygotes, in bytes.
    pub zygote_bytes: u64,
    /// Workers that hold a handler and wait for its next call.
    pub idle: usize,
    /// Blank workers that wait for a handler.
    pub spares: usize,
    /// Calls that compute.
    pub running: usize,
    /// Calls that wait in an op, and hold a process but no running slot.
    pub waiting_in_ops: usize,
    /// Calls that wait for a slot, or for their turn at a worker.
    pub queued: usize,
    /// Layers of the jail that every worker so far has reported as in force. Empty before the first
    /// worker. If `workers` is 0, these are reports of past workers.
    pub jail: Vec<JailLayer>,
    /// Layers that some worker could not enter.
    pub jail_refused: Vec<RefusedLayer>,
    /// The tiers that have had a worker.
    pub tiers: Vec<TierStatus>,
    /// Counts since the start of the pool.
    pub totals: Totals,
}

/// The workers of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TierStatus {
    /// How these workers execute code.
    pub tier: Tier,
    /// Its current processes.
    pub processes: usize,
    /// Layers of the jail that all its workers report as in force.
    pub jail: Vec<JailLayer>,
    /// Layers that some worker could not enter.
    pub jail_refused: Vec<RefusedLayer>,
}

/// A layer of the jail that the system refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedLayer {
    /// The layer that is missing.
    pub layer: JailLayer,
    /// The error number of the system.
    pub errno: i32,
    /// The description of that error.
    pub error: String,
}

impl From<LayerRefusal> for RefusedLayer {
    fn from(refused: LayerRefusal) -> Self {
        Self { layer: refused.layer, errno: refused.errno, error: std::io::Error::from_raw_os_error(refused.errno).to_string() }
    }
}

/// The combined jail report of several workers: layers in force for all of them, and layers that
/// any was refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jails(Option<JailReport>);

impl Jails {
    /// Adds the report of one worker.
    pub(crate) fn note(&mut self, report: &JailReport) {
        let known = self.0.get_or_insert_with(|| report.clone());
        known.in_force.retain(|layer| report.in_force.contains(layer));
        for refused in &report.refused {
            if known.refused.iter().all(|known| known.layer != refused.layer) {
                known.refused.push(*refused);
            }
        }
    }

    /// Returns the combined report, or `None` before the first worker.
    pub(crate) fn report(&self) -> Option<&JailReport> {
        self.0.as_ref()
    }
}

/// Converts refused layers for the status.
pub(crate) fn merge_refusals(refused: &[LayerRefusal]) -> Vec<RefusedLayer> {
    refused.iter().copied().map(RefusedLayer::from).collect()
}

/// Counts since the start of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Calls that ran, however they ended.
    pub calls: u64,
    /// Calls that had to load the handler first.
    pub cold_calls: u64,
    /// Calls that were sent ahead to a busy worker.
    pub pipelined: u64,
    /// Calls that were refused as busy or held.
    pub refused: u64,
    /// Calls that were stopped for a limit, by their worker or by the watchdog.
    pub stops: u64,
    /// Workers that the watchdog killed.
    pub kills: u64,
    /// Calls whose worker ended unexpectedly or broke the protocol.
    pub crashes: u64,
    /// Calls that their caller abandoned.
    pub cancels: u64,
    /// Processes started.
    pub started: u64,
    /// Processes that were forked from a zygote.
    pub forked: u64,
    /// Failed starts.
    pub failed_starts: u64,
    /// Idle workers that died, or sent something while idle.
    pub idle_faults: u64,
    /// Processes replaced because of their age, calls or memory.
    pub replaced: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// [`Totals`] as atomic counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        impl Counters {
            pub(crate) fn totals(&self) -> Totals {
                Totals { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters!(calls, cold_calls, pipelined, refused, stops, kills, crashes, cancels, started, forked, failed_starts, idle_faults, replaced);

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
