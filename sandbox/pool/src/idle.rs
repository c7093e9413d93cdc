//! Idle workers: warm ones with a handler, blank spares, and the number of spares that are
//! starting.

#[cfg(test)]
mod tests;
mod warm;

use std::sync::Arc;

use tokio::time::Instant;
use tollhouse_protocol::Tier;

pub(crate) use self::warm::{Warm, WarmSet};
use crate::{process::Process, process_slots::Shortage, tiers::EachTier, wire};

/// The idle workers. Bounded only by the [places](crate::process_slots) of all processes: a new process
/// can always replace an idle one.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    pub(crate) warm: WarmSet,
    pub(crate) spares: Vec<Arc<Process>>,
    /// Leased workers that can take calls ahead.
    pub(crate) pipelined: Vec<Arc<Process>>,
    /// Spares that are starting.
    pub(crate) booting: EachTier<usize>,
    /// When a blank worker was last needed.
    pub(crate) requested: EachTier<Option<Instant>>,
    /// Set once no more workers are accepted.
    pub(crate) closed: bool,
}

impl Idle {
    /// Accepts a warm worker. Returns it if the pool is closed.
    pub(crate) fn put(&mut self, warm: Warm) -> Option<Warm> {
        self.forget_pipelined(&warm.process);
        if self.closed {
            return Some(warm);
        }
        self.warm.push(warm);
        None
    }

    /// Stops sending calls ahead to a worker.
    pub(crate) fn forget_pipelined(&mut self, process: &Arc<Process>) {
        if let Some(at) = self.pipelined.iter().position(|pipelined| Arc::ptr_eq(pipelined, process)) {
            self.pipelined.swap_remove(at);
        }
    }

    /// Removes a warm worker. Returns false if it is not one.
    pub(crate) fn remove(&mut self, process: &Arc<Process>) -> bool {
        self.warm.remove(process).is_some()
    }

    /// Returns the number of spares, including those that are starting.
    pub(crate) fn pending_spares(&self) -> usize {
        self.spares.len() + self.booting.iter().map(|(_, booting)| booting).sum::<usize>()
    }

    /// Removes a spare of a tier.
    pub(crate) fn take_spare(&mut self, tier: Tier) -> Option<Arc<Process>> {
        let at = self.spares.iter().rposition(|spare| spare.tier == tier)?;
        Some(self.spares.remove(at))
    }

    /// Returns the number of spares of a tier, including those that are starting.
    pub(crate) fn spares_of(&self, tier: Tier) -> usize {
        self.spares.iter().filter(|spare| spare.tier == tier).count() + self.booting[tier]
    }

    /// Removes the least useful idle worker.
    pub(crate) fn evict(&mut self, shortage: Shortage) -> Option<Arc<Process>> {
        self.evict_warm(shortage).or_else(|| self.spares.pop())
    }

    /// Removes a warm worker: the one with the most memory if memory is short, else the oldest.
    pub(crate) fn evict_warm(&mut self, shortage: Shortage) -> Option<Arc<Process>> {
        let victim = match shortage {
            Shortage::Places => self.warm.oldest(),
            Shortage::Memory => self.warm.largest(),
        };
        let process = Arc::clone(victim?);
        self.warm.remove(&process).map(|warm| warm.process)
    }

    /// Removes workers that died or sent something while idle, and those that `is_stale` or
    /// `is_unused`. Also returns how many were at fault.
    pub(crate) fn sweep(&mut self, is_stale: impl Fn(&Warm) -> bool, is_unused: impl Fn(&Process) -> bool) -> (Vec<Arc<Process>>, usize) {
        let (mut swept, mut faults) = (Vec::new(), 0);
        let mut stays = |process: &Arc<Process>, is_stale: bool| {
            let is_silent = wire::is_silent(&process.link.stream);
            faults += usize::from(!is_silent);
            let stays = is_silent && !is_stale;
            if !stays {
                swept.push(Arc::clone(process));
            }
            stays
        };
        self.warm.retain(|warm| stays(&warm.process, is_stale(warm)));
        self.spares.retain(|spare| stays(spare, is_unused(spare)));
        (swept, faults)
    }

    /// Removes all idle workers.
    pub(crate) fn clear(&mut self) {
        self.warm.clear();
        self.spares.clear();
    }

    /// Returns the number of calls that were sent ahead and wait for their turn.
    pub(crate) fn sent_ahead(&self) -> usize {
        self.pipelined.iter().map(|process| process.link.pipeline.len()).sum()
    }
}
