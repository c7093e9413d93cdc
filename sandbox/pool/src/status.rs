//! What a pool says of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tollhouse_protocol::{JailLayer, JailReport, Refused, Tier};

/// A moment of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Worker processes that are there, on their way, or ended and not gone yet.
    pub processes: usize,
    /// Those of them that are ready, or at work.
    pub workers: usize,
    /// Why the last start of a process failed, as long as none has succeeded since.
    pub starts_fail: Option<String>,
    /// What processes hold of the machine's memory, in bytes.
    pub process_bytes: u64,
    /// Processes that workers are forked from, as of a second ago or two.
    pub zygotes: usize,
    /// What they hold of the machine's memory, in bytes.
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
    /// Layers of the jail that every worker so far reports as in force; empty before there was one. Where `workers` is 0 it tells of none
    /// that is there.
    pub jail: Vec<JailLayer>,
    /// The layers that a worker was refused.
    pub jail_refused: Vec<RefusedLayer>,
    /// The tiers of which there has been a worker.
    pub tiers: Vec<TierStatus>,
    /// Since the start of the pool.
    pub totals: Totals,
}

/// The workers of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TierStatus {
    /// Which.
    pub tier: Tier,
    /// Those that are there.
    pub processes: usize,
    /// Layers of the jail that every one reports as in force.
    pub jail: Vec<JailLayer>,
    /// The layers that one was refused.
    pub jail_refused: Vec<RefusedLayer>,
}

/// A layer of the jail that the system refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedLayer {
    /// Which.
    pub layer: JailLayer,
    /// The system's error number.
    pub errno: i32,
    /// What that means.
    pub error: String,
}

impl From<Refused> for RefusedLayer {
    fn from(refused: Refused) -> Self {
        Self { layer: refused.layer, errno: refused.errno, error: std::io::Error::from_raw_os_error(refused.errno).to_string() }
    }
}

/// The jail of several workers: what is in force for all of them, and what one was refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jails(Option<JailReport>);

impl Jails {
    /// One more.
    pub(crate) fn note(&mut self, report: &JailReport) {
        let known = self.0.get_or_insert_with(|| report.clone());
        known.in_force.retain(|layer| report.in_force.contains(layer));
        for refused in &report.refused {
            if known.refused.iter().all(|known| known.layer != refused.layer) {
                known.refused.push(*refused);
            }
        }
    }

    /// Nothing before there was one.
    pub(crate) fn report(&self) -> Option<&JailReport> {
        self.0.as_ref()
    }
}

/// As it is told.
pub(crate) fn told(refused: &[Refused]) -> Vec<RefusedLayer> {
    refused.iter().copied().map(RefusedLayer::from).collect()
}

/// Counts since the start of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Calls that ran, however they ended.
    pub calls: u64,
    /// Those of them that had to load the handler first.
    pub cold_calls: u64,
    /// Calls that were sent ahead to a worker still at another call.
    pub pipelined: u64,
    /// Calls that were refused: busy or held.
    pub refused: u64,
    /// Calls that were stopped for a limit, by their worker or by the watchdog.
    pub stops: u64,
    /// Workers that the watchdog killed.
    pub kills: u64,
    /// Calls whose worker ended unexpectedly or broke the protocol.
    pub crashes: u64,
    /// Calls that their caller gave up.
    pub cancels: u64,
    /// Processes started.
    pub started: u64,
    /// Those of them that were forked from a zygote.
    pub forked: u64,
    /// Starts that failed.
    pub failed_starts: u64,
    /// Idle workers that were found dead or talking.
    pub idle_faults: u64,
    /// Processes replaced for their age, calls or memory.
    pub replaced: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// [`Totals`] as they grow.
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
