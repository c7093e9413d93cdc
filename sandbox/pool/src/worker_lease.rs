//! A leased worker, and the two ways to return it.

#[cfg(test)]
mod tests;

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use tokio::time::Instant;
use tollhouse_protocol::{Bundle, Limits, Load, LoadFault, Loaded, Outcome, Spent, StopReason};

use crate::{
    core::Core,
    exchange::{self, CleanEnd, ExchangeEnd, ExchangeParams, StartMessage},
    idle::Warm,
    job::OpHost,
    pipeline::Next,
    process::{Handover, Process},
    scheduler::Permit,
    wire::{self, Buffers},
};

/// A worker in use. Dropping the lease ends the process. Only [`WorkerLease::recycle`] and
/// [`WorkerLease::hand_over`] keep it alive, and both need the proof that its last task ended normally.
#[derive(Debug)]
pub(crate) struct WorkerLease<'a> {
    core: &'a Arc<Core>,
    process: Option<Arc<Process>>,
    buffers: Buffers,
}

impl<'a> WorkerLease<'a> {
    /// Leases a worker that nobody else uses, with what is left in its buffers.
    pub(crate) fn new(core: &'a Arc<Core>, process: Arc<Process>, buffers: Buffers) -> Self {
        Self { core, process: Some(process), buffers }
    }

    /// Loads a bundle of `owner`, within the limits of loading.
    pub(crate) async fn load(&mut self, owner: &str, bundle: &Bundle, limits: &Limits) -> Result<(Loaded, CleanEnd), LoadFault> {
        let load = Load { bundle: bundle.clone(), limits: *limits };
        let process = self.process.as_ref().expect("a lease has its process until it is returned");
        process.limit_to(limits);
        let (kept, tier, mut compiled) = (&self.core.code, process.tier, Bytes::new());
        let code = kept.get(owner, bundle, tier);
        let had_code = code.is_some();
        let loaded = exchange::load(&process.link, &mut self.buffers, load, code, &mut compiled).await;
        match &loaded {
            Ok(_) => kept.put(owner, bundle, tier, compiled),
            // It can be the code's fault.
            Err(_) if had_code => kept.forget(owner, bundle, tier),
            Err(_) => {}
        }
        match loaded {
            Err(LoadFault::Stopped(StopReason::Crashed)) => Err(LoadFault::Stopped(process.last_reason(&limits.of_load()).await)),
            loaded => loaded,
        }
    }

    /// Runs a call to its end.
    pub(crate) async fn drive(
        &mut self,
        request: ExchangeParams<'_>,
        begin: StartMessage,
        host: &dyn OpHost,
        permit: &mut Permit<'_>,
    ) -> ExchangeEnd {
        let process = self.process.as_ref().expect("a lease has its process until it is returned");
        process.calls.fetch_add(1, Ordering::Relaxed);
        let limits = request.limits;
        process.limit_to(limits);
        let ended = exchange::drive(&process.link, &mut self.buffers, request, begin, host, permit).await;
        match ended.outcome {
            Outcome::Stopped(StopReason::Crashed) => ended.with_reason(process.last_reason(limits).await),
            _ => ended,
        }
    }

    /// Hands the worker and the running slot over to the first call that was sent ahead. Without
    /// such a call the worker becomes idle and the slot free.
    pub(crate) fn hand_over(mut self, proof: CleanEnd, spent: &Spent, mut permit: Permit<'_>) {
        let Some(Next { budget, turn }) = self.process().link.pipeline.next(spent) else { return self.recycle(proof) };
        let can_continue = self.is_reusable() && permit.regain_slot();
        if let Some(process) = self.process.take_if(|_| can_continue) {
            // The budget is in force from here: the worker may have begun.
            process.link.meter.begin(budget);
            match turn.send(Handover { process, buffers: std::mem::take(&mut self.buffers) }) {
                Ok(()) => return permit.hand_over(),
                // The call was abandoned, and the worker may be running it.
                Err(Handover { process, .. }) => self.process = Some(process),
            }
        }
        // The process goes first, because the call that gets the slot can need its place.
        drop(self);
        drop(permit);
    }

    /// Makes the worker idle, ready for its handler's next call.
    pub(crate) fn recycle(mut self, _proof: CleanEnd) {
        let fit = self.buffers.are_empty() && self.is_reusable();
        if !fit {
            return;
        }
        self.buffers.trim();
        let buffers = std::mem::take(&mut self.buffers);
        if let Some(process) = self.process.take() {
            self.core.put_idle(Warm { process, buffers, since: Instant::now() });
        }
    }

    /// Returns whether the worker can serve another call after one that ended normally.
    fn is_reusable(&self) -> bool {
        let process = self.process();
        !process.is_retired() && process.link.meter.is_free() && process.link.meter.restore_pace(process.pid)
    }

    /// Adds a blank worker to the spares.
    pub(crate) fn keep_as_spare(mut self) {
        let mut idle = self.core.idle.lock();
        if !idle.closed
            && let Some(process) = self.process.take()
        {
            idle.spares.push(process);
            drop(idle);
            self.core.slots.notify_idle();
        }
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().expect("a lease has its process until it is returned")
    }

    /// Returns whether the worker is fit for use: the second half of the invariant of [`CleanEnd`],
    /// asserted before each use.
    pub(crate) fn is_fit(&self) -> bool {
        let process = self.process();
        !process.is_retired()
            && process.is_live()
            && process.link.meter.is_free()
            && self.buffers.are_empty()
            && wire::is_silent(&process.link.stream)
    }
}

impl Drop for WorkerLease<'_> {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.link.pipeline.end();
            self.core.idle.lock().forget_pipelined(&process);
            self.core.kill_process(&process);
        }
    }
}
