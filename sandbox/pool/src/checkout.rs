//! Provides a worker for a handler: a warm one if available, otherwise a blank one that loads the
//! handler.

use std::{sync::Arc, time::Duration};

use tollhouse_protocol::{Bundle, Isolation, Limits, LoadFault, Loaded, StopReason, Tier};

use crate::{
    core::Core,
    error::PoolError,
    exchange::CleanEnd,
    idle::Warm,
    process::{LoadedCode, Process},
    status::count,
    usage::Usage,
    worker_lease::WorkerLease,
};

/// A handler that needs a worker, with the worker's requirements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerRequest<'a> {
    pub(crate) bundle: &'a Arc<Bundle>,
    pub(crate) owner: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) limits: &'a Limits,
    pub(crate) isolation: Isolation,
    pub(crate) tier: Tier,
}

impl<'a> WorkerRequest<'a> {
    /// Returns the requirements that a worker of this tier with `holding` meets.
    pub(crate) fn of(holding: &'a LoadedCode, tier: Tier) -> Self {
        let LoadedCode { bundle, owner, endpoint, limits, isolation } = holding;
        Self { bundle, owner, endpoint, limits, isolation: *isolation, tier }
    }

    pub(crate) fn is_held_by(&self, process: &Process) -> bool {
        process.tier == self.tier && process.loaded.get().is_some_and(|holding| holding.serves(self.endpoint, self.bundle, self.limits))
    }
}

/// Receives the processor time that a worker used.
pub(crate) type CpuTimeSink<'a> = dyn Fn(Duration) + Sync + 'a;

impl Core {
    /// Leases a worker that meets `request`: a warm one if available, otherwise a cold one that loads
    /// the bundle now. Also returns whether it is a cold one. `used` gets the processor time of a cold
    /// worker's start and load, even if the load fails.
    ///
    /// # Errors
    ///
    /// [`PoolError::Load`] if the handler does not load, [`PoolError::Spawn`] if no process can be
    /// started to load it.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        request: WorkerRequest<'_>,
        used: &CpuTimeSink<'_>,
    ) -> Result<(WorkerLease<'_>, bool), PoolError> {
        if request.isolation == Isolation::Warm
            && let Some(lease) = self.lease_idle(request)
        {
            return Ok((lease, false));
        }
        count(&self.counters.cold_calls);
        let loaded = self.lease_loaded(request, used).await;
        // After the load, so that the replacement does not compete with it.
        self.refill();
        loaded.map(|(lease, _)| (lease, true))
    }

    /// Leases a worker that has loaded the bundle of `request` and served no call, with the proof that
    /// the load ended normally. For `used` see [`lease`](Self::lease).
    pub(crate) async fn lease_loaded(
        self: &Arc<Self>,
        request: WorkerRequest<'_>,
        used: &CpuTimeSink<'_>,
    ) -> Result<(WorkerLease<'_>, CleanEnd), PoolError> {
        let mut lease = self.lease_blank(request.owner, request.tier).await?;
        let mut loaded = load(&mut lease, request, used).await;
        if matches!(loaded, Err(LoadFault::Stopped(StopReason::Crashed))) {
            // The worker may have been dying when it was leased. Nothing has run, so a retry is
            // safe.
            drop(lease);
            lease = self.start_blank(request.owner, request.tier).await?;
            loaded = load(&mut lease, request, used).await;
        }
        let clean = match loaded {
            Ok((_, clean)) => clean,
            Err(fault) => return Err(self.load_error(lease.process(), request.endpoint, fault).await),
        };
        let holding = LoadedCode {
            bundle: Arc::clone(request.bundle),
            owner: request.owner.into(),
            endpoint: request.endpoint.into(),
            limits: *request.limits,
            isolation: request.isolation,
        };
        lease.process().loaded.set(holding).map_err(|_| PoolError::Spawn("a blank worker held a handler".into()))?;
        Ok((lease, clean))
    }

    fn lease_idle(self: &Arc<Self>, request: WorkerRequest<'_>) -> Option<WorkerLease<'_>> {
        loop {
            let Warm { process, buffers, .. } = self.take_idle(request)?;
            let lease = WorkerLease::new(self, process, buffers);
            if lease.is_fit() {
                return Some(lease);
            }
            count(&self.counters.idle_faults);
        }
    }

    fn take_idle(&self, request: WorkerRequest<'_>) -> Option<Warm> {
        let mut idle = self.idle.lock();
        let warm = idle.warm.take(request.endpoint, |process| request.is_held_by(process))?;
        if warm.process.link.pipeline.is_brief() {
            idle.pipelined.push(Arc::clone(&warm.process));
        }
        Some(warm)
    }
}

/// Loads the bundle of `request` into a blank worker. `used` gets the processor time of that worker
/// since its start, even if the future is dropped.
async fn load(lease: &mut WorkerLease<'_>, request: WorkerRequest<'_>, used: &CpuTimeSink<'_>) -> Result<(Loaded, CleanEnd), LoadFault> {
    let _starting = StartingWorker::new(lease.process(), used);
    lease.load(request.owner, request.bundle, request.limits).await
}

/// Reports the processor time of a worker since its start when dropped. The process must not be
/// reaped before.
pub(crate) struct StartingWorker<'a> {
    pid: u32,
    used: &'a CpuTimeSink<'a>,
}

impl<'a> StartingWorker<'a> {
    pub(crate) fn new(process: &Process, used: &'a CpuTimeSink<'a>) -> Self {
        Self { pid: process.pid, used }
    }
}

impl Drop for StartingWorker<'_> {
    fn drop(&mut self) {
        (self.used)(Usage::cpu_since_start(self.pid));
    }
}
