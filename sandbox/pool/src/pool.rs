//! The public interface of the pool.

use async_recursion::async_recursion as boxed;
use std::{sync::Arc, time::Duration};

use tollhouse_fair::HOST;
use tollhouse_protocol::{Bundle, Isolation, JailReport, Limits, Loaded, Outcome, Tier};

use crate::{
    checkout::{StartingWorker, WorkerRequest},
    config::PoolConfig,
    core::Core,
    error::PoolError,
    exchange::ExchangeParams,
    job::{CompletedRun, Job, OpHost},
    maintenance,
    scheduler::AdmissionRequest,
    send_ahead::Ready,
    status::{Status, count},
};

/// Maximum number of concurrent [checks](Pool::check) for one owner.
const CHECKS: usize = 4;

/// The workers of one host. Clones share them. Dropping the last clone kills them.
#[derive(Debug, Clone)]
pub struct Pool {
    core: Arc<Core>,
}

impl Pool {
    /// Starts a pool in the current runtime, with its spares in the background.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] outside a tokio runtime, or if the worker's binary does not exist. Use
    /// [`ready`](Self::ready) to find out whether the binary works.
    pub fn start(config: PoolConfig) -> Result<Self, PoolError> {
        maintenance::start(config).map(|core| Self { core })
    }

    /// Waits until one worker of [`PoolConfig::tier`] is ready, and returns its jail report.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] if a worker cannot be started, or lacks a layer of
    /// [`PoolConfig::strict`].
    #[boxed]
    pub async fn ready(&self) -> Result<JailReport, PoolError> {
        let lease = self.core.lease_blank(HOST, self.core.config.tier).await?;
        let jail = lease.process().jail().cloned().unwrap_or_default();
        lease.keep_as_spare();
        Ok(jail)
    }

    /// Loads a bundle of `owner` in a fresh worker, within the limits of loading. `used` gets the
    /// processor time of the worker, even if the load fails.
    ///
    /// # Errors
    ///
    /// [`PoolError::Load`] with line and column if the handler does not load, [`PoolError::Schema`]
    /// with the pointer if a schema is not usable; the others as for [`run`](Self::run).
    #[boxed]
    pub async fn check(
        &self,
        owner: &str,
        bundle: &Bundle,
        limits: Limits,
        tier: Tier,
        used: &(dyn Fn(Duration) + Sync),
    ) -> Result<Loaded, PoolError> {
        // All checks of an owner share one endpoint name, so endless code delays only that owner's
        // uploads, whatever their names.
        let endpoint = &format!("{owner}/publishing");
        let admission = AdmissionRequest { owner, endpoint, caller: None, concurrency: CHECKS };
        let permit = self.core.scheduler.acquire(admission).await.inspect_err(|_| count(&self.core.counters.refused))?;
        let mut lease = self.core.lease_blank(owner, tier).await?;
        let starting = StartingWorker::new(lease.process(), used);
        let loaded = lease.load(owner, bundle, &limits).await;
        drop(starting);
        let loaded = match loaded {
            Ok((loaded, _)) => Ok(loaded),
            Err(fault) => Err(self.core.load_error(lease.process(), endpoint, fault).await),
        };
        drop(lease);
        drop(permit);
        self.core.refill();
        loaded
    }

    /// Runs one call to its end or its limits. Dropping the future kills the worker.
    ///
    /// # Errors
    ///
    /// [`PoolError`] means that the handler did not run, and a retry is safe. Faults of the handler
    /// are in [`CompletedRun::outcome`].
    #[boxed]
    pub async fn run<'a>(&'a self, job: Job<'a>, host: &'a dyn OpHost) -> Result<CompletedRun, PoolError> {
        let core = &self.core;
        let Job { bundle, owner, endpoint, caller, by_owner, isolation, tier, concurrency, start } = job;
        let (admission, limits, work) = (AdmissionRequest { owner, endpoint, caller, concurrency }, start.limits, start.work);
        let request = WorkerRequest { bundle, owner, endpoint, limits: &limits, isolation, tier };
        let Ready { lease, mut permit, begin } =
            core.ready(request, admission, start).await.inspect_err(|_| count(&core.counters.refused))?;
        let cancel = Cancel(core);
        let ran = async {
            let (mut lease, cold) = match lease {
                Some(lease) => (lease, false),
                None => core.lease(request, &|cpu| host.used(cpu)).await?,
            };
            let (account, background) = (core.flow.account(owner), core.background.of_call(owner, endpoint, caller));
            let request = ExchangeParams { limits: &limits, work, account, background };
            host.placed(cold);
            let ended = lease.drive(request, begin, host, &mut permit).await;
            Ok((lease, cold, ended))
        };
        let ran = ran.await;
        cancel.disarm();
        let (lease, cold, mut ended) = ran?;
        let blamed = caller.filter(|_| !by_owner);
        core.note_end_on(lease.process(), (endpoint, blamed), &ended).await;
        if matches!(ended.outcome, Outcome::Returned(_) | Outcome::Threw(_)) {
            permit.note_answer();
        }
        let (clean, spent) = (ended.clean.take(), ended.spent);
        match (clean, isolation) {
            (Some(clean), Isolation::Warm) => lease.hand_over(clean, &spent, permit),
            (Some(_), Isolation::Fresh) | (None, _) => drop((lease, permit)),
        }
        let (outcome, background) = ended.into_answer();
        Ok(CompletedRun { outcome, spent, cold, background })
    }

    /// Ends the workers that hold `version` for `endpoint`: idle ones now, busy ones after their
    /// call. A version is named after its code, which other endpoints can use as well. Their
    /// workers are not affected.
    pub fn retire(&self, endpoint: &str, version: &str) {
        self.core.retire(endpoint, version);
    }

    /// Returns how much longer calls of `endpoint` are refused with [`PoolError::Held`], for all or
    /// for some callers. `None` if they are not.
    #[must_use]
    pub fn held(&self, endpoint: &str) -> Option<Duration> {
        self.core.scheduler.held(endpoint)
    }

    /// Returns the least strict tier of the pool's calls: [`PoolConfig::tier`].
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.core.config.tier
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Returns whether calls wait for a slot.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.core.scheduler.occupancy().queued > 0
    }

    /// Returns whether several starts of workers have failed in a row.
    #[must_use]
    pub fn cannot_start(&self) -> bool {
        self.core.cannot_start()
    }

    /// Lets running calls end, refuses all others, then kills every worker and waits until all are
    /// gone from the system. Every call has a wall limit, so this terminates.
    #[boxed]
    pub async fn shutdown(&self) {
        self.core.shut_down().await;
    }
}

/// Counts a cancellation if the call's future is dropped.
struct Cancel<'a>(&'a Core);

impl Cancel<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        count(&self.0.counters.cancels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tier_of_a_pool_is_the_configured_one() {
        for tier in Tier::ALL {
            let config = PoolConfig { tier, spares: 0, ..PoolConfig::new("/bin/false") };
            assert_eq!(Pool::start(config).unwrap().tier(), tier);
        }
    }
}
