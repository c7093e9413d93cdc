//! Workers that wait: warm ones with a handler, blank spares, and how many more are on their way.

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc};

use tokio::time::Instant;

use crate::{
    places::Lack,
    process::Process,
    wire::{self, Buffers},
};

/// Short enough, at most [`PoolConfig::max_idle`](crate::PoolConfig::max_idle) and a few spares, to be searched from the end.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// The last used is last.
    pub(crate) warm: VecDeque<Warm>,
    pub(crate) spares: Vec<Arc<Process>>,
    /// Leased ones that may take calls ahead.
    pub(crate) pipelined: Vec<Arc<Process>>,
    /// Spares on their way.
    pub(crate) booting: usize,
    /// Nothing is put here any more.
    pub(crate) closed: bool,
}

/// A worker that waits for its handler's next call.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) process: Arc<Process>,
    pub(crate) buffers: Buffers,
    pub(crate) since: Instant,
}

impl Idle {
    /// Takes back a warm worker. Whoever is not to stay comes back: it itself where nothing is put here any more, or the
    /// oldest beyond `most`.
    pub(crate) fn put(&mut self, warm: Warm, most: usize) -> Option<Warm> {
        self.forget_pipelined(&warm.process);
        if self.closed {
            return Some(warm);
        }
        self.warm.push_back(warm);
        if self.warm.len() > most { self.warm.pop_front() } else { None }
    }

    /// Lets nothing more be sent ahead to a worker.
    pub(crate) fn forget_pipelined(&mut self, process: &Arc<Process>) {
        if let Some(at) = self.pipelined.iter().position(|pipelined| Arc::ptr_eq(pipelined, process)) {
            self.pipelined.swap_remove(at);
        }
    }

    /// Takes a warm worker out; false when it is none.
    pub(crate) fn remove(&mut self, process: &Arc<Process>) -> bool {
        let at = self.warm.iter().position(|warm| Arc::ptr_eq(&warm.process, process));
        at.and_then(|at| self.warm.remove(at)).is_some()
    }

    /// Takes the worker out that can be missed most easily: where there is no memory, the warm one that holds most of it, else
    /// the oldest.
    pub(crate) fn evict(&mut self, lack: Lack) -> Option<Arc<Process>> {
        let warm = match lack {
            Lack::Places => self.warm.pop_front(),
            Lack::Memory => {
                let largest = (0..self.warm.len()).max_by_key(|at| self.warm[*at].process.own_bytes());
                largest.and_then(|at| self.warm.remove(at))
            }
        };
        warm.map(|warm| warm.process).or_else(|| self.spares.pop())
    }

    /// Takes out those that died here or have something to say, and those that `is_stale`. How many of them were at fault.
    pub(crate) fn sweep(&mut self, is_stale: impl Fn(&Warm) -> bool) -> (Vec<Arc<Process>>, usize) {
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
        self.spares.retain(|spare| stays(spare, false));
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
