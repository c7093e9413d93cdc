//! Workers that wait: warm ones with a handler, blank spares, and how many more are on their way.

#[cfg(test)]
mod tests;
mod warm;

use std::sync::Arc;

use tokio::time::Instant;
use tollhouse_protocol::Tier;

pub(crate) use self::warm::{Warm, WarmSet};
use crate::{places::Lack, process::Process, tiers::EachTier, wire};

/// Bounded by the [places](crate::places) of all processes alone: whoever wants one has an idle worker ended.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    pub(crate) warm: WarmSet,
    pub(crate) spares: Vec<Arc<Process>>,
    /// Leased ones that may take calls ahead.
    pub(crate) pipelined: Vec<Arc<Process>>,
    /// Spares on their way.
    pub(crate) booting: EachTier<usize>,
    /// When a blank worker was last asked for.
    pub(crate) wanted: EachTier<Option<Instant>>,
    /// Nothing is put here any more.
    pub(crate) closed: bool,
}

impl Idle {
    /// Takes back a warm worker. Where nothing is put here any more it comes back.
    pub(crate) fn put(&mut self, warm: Warm) -> Option<Warm> {
        self.forget_pipelined(&warm.process);
        if self.closed {
            return Some(warm);
        }
        self.warm.push(warm);
        None
    }

    /// Lets nothing more be sent ahead to a worker.
    pub(crate) fn forget_pipelined(&mut self, process: &Arc<Process>) {
        if let Some(at) = self.pipelined.iter().position(|pipelined| Arc::ptr_eq(pipelined, process)) {
            self.pipelined.swap_remove(at);
        }
    }

    /// Takes a warm worker out; false when it is none.
    pub(crate) fn remove(&mut self, process: &Arc<Process>) -> bool {
        self.warm.remove(process).is_some()
    }

    /// Spares, those on their way among them.
    pub(crate) fn spares_to_come(&self) -> usize {
        self.spares.len() + self.booting.iter().map(|(_, booting)| booting).sum::<usize>()
    }

    /// Takes a spare of a tier.
    pub(crate) fn take_spare(&mut self, tier: Tier) -> Option<Arc<Process>> {
        let at = self.spares.iter().rposition(|spare| spare.tier == tier)?;
        Some(self.spares.remove(at))
    }

    /// Spares of a tier, those on their way among them.
    pub(crate) fn spares_of(&self, tier: Tier) -> usize {
        self.spares.iter().filter(|spare| spare.tier == tier).count() + self.booting[tier]
    }

    /// Takes the worker out that can be missed most easily.
    pub(crate) fn evict(&mut self, lack: Lack) -> Option<Arc<Process>> {
        self.evict_warm(lack).or_else(|| self.spares.pop())
    }

    /// Takes a warm worker out: where there is no memory, the one that holds most of it, else the oldest.
    pub(crate) fn evict_warm(&mut self, lack: Lack) -> Option<Arc<Process>> {
        let missed_least = match lack {
            Lack::Places => self.warm.oldest(),
            Lack::Memory => self.warm.largest(),
        };
        let process = Arc::clone(missed_least?);
        self.warm.remove(&process).map(|warm| warm.process)
    }

    /// Takes out those that died here or have something to say, and those that `is_stale` or `is_unused`. How many of them
    /// were at fault.
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

    /// Forgets all that wait.
    pub(crate) fn clear(&mut self) {
        self.warm.clear();
        self.spares.clear();
    }

    /// Calls that were sent ahead and wait for their turn.
    pub(crate) fn sent_ahead(&self) -> usize {
        self.pipelined.iter().map(|process| process.link.pipeline.len()).sum()
    }
}
