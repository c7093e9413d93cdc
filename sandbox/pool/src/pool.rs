//! The pool, as the host sees it.

use std::{sync::Arc, time::Duration};

use tollhouse_fair::HOST;
use tollhouse_protocol::{Bundle, Isolation, JailReport, Limits, Loaded, Outcome, Tier};

use crate::{
    ahead::Ready,
    checkout::{Starting, Wanted},
    config::PoolConfig,
    core::Core,
    error::PoolError,
    exchange::Asked,
    job::{Job, OpHost, Ran},
    maintenance,
    scheduler::Ask,
    status::{Status, count},
};

/// Bundles of one owner that are [checked](Pool::check) at once.
const CHECKS: usize = 4;

/// The workers of one host. Clones share them; the last one dropped kills them.
#[derive(Debug, Clone)]
pub struct Pool {
    core: Arc<Core>,
}

impl Pool {
    /// Starts a pool in the current runtime, and its spares in the background.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] outside a tokio runtime, or when the worker's binary is not there.
    /// Whether it works is what [`ready`](Self::ready) finds out.
    pub fn start(config: PoolConfig) -> Result<Self, PoolError> {
        maintenance::start(config).map(|core| Self { core })
    }

    /// Waits until one worker of [`PoolConfig::tier`] is ready, and says what became of its jail.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] when a worker cannot be started, or lacks a layer of [`PoolConfig::strict`].
    pub async fn ready(&self) -> Result<JailReport, PoolError> {
        let lease = self.core.lease_blank(HOST, self.core.config.tier).await?;
        let jail = lease.process().jail().cloned().unwrap_or_default();
        lease.keep_as_spare();
        Ok(jail)
    }

    /// Loads a bundle of `owner` in a worker that does nothing else, under the limits of loading. Tells `used` how much processor time the
    /// worker took, also where the bundle does not load.
    ///
    /// # Errors
    ///
    /// [`PoolError::Load`] with line and column where the handler does not load,
    /// [`PoolError::Schema`] with the pointer where a schema cannot be used; the others as of
    /// [`run`](Self::run).
    pub async fn check(
        &self,
        owner: &str,
        bundle: &Bundle,
        limits: Limits,
        tier: Tier,
        used: &(dyn Fn(Duration) + Sync),
    ) -> Result<Loaded, PoolError> {
        // Whoever uploads what does not end holds up their own uploads, whatever those are called, and nobody else's.
        let endpoint = &format!("{owner}/publishing");
        let ask = Ask { owner, endpoint, caller: None, concurrency: CHECKS };
        let permit = self.core.scheduler.acquire(ask).await.inspect_err(|_| count(&self.core.counters.refused))?;
        let mut lease = self.core.lease_blank(owner, tier).await?;
        let starting = Starting::new(lease.process(), used);
        let loaded = lease.load(bundle, &limits).await;
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

    /// Runs one call, to its end or to its limits. Dropping the future kills the worker.
    ///
    /// # Errors
    ///
    /// [`PoolError`]: the handler did not run, and repeating the call is safe. What the handler
    /// did wrong is in [`Ran::outcome`].
    pub async fn run(&self, job: Job<'_>, host: &dyn OpHost) -> Result<Ran, PoolError> {
        let core = &self.core;
        let Job { bundle, owner, endpoint, caller, by_owner, isolation, tier, concurrency, start } = job;
        let (ask, limits, work) = (Ask { owner, endpoint, caller, concurrency }, start.limits, start.work);
        let wanted = Wanted { bundle, owner, endpoint, limits: &limits, isolation, tier };
        let Ready { lease, mut permit, begin } = core.ready(wanted, ask, start).await.inspect_err(|_| count(&core.counters.refused))?;
        let cancel = Cancel(core);
        let ran = async {
            let (mut lease, cold) = match lease {
                Some(lease) => (lease, false),
                None => core.lease(wanted, &|cpu| host.used(cpu)).await?,
            };
            let asked = Asked { limits: &limits, work, account: core.flow.account(owner) };
            host.placed();
            let ended = lease.drive(asked, begin, host, &mut permit).await;
            Ok((lease, cold, ended))
        };
        let ran = ran.await;
        cancel.disarm();
        let (lease, cold, ended) = ran?;
        let blamed = caller.filter(|_| !by_owner);
        core.note_end_on(lease.process(), (endpoint, blamed), &ended).await;
        if matches!(ended.outcome, Outcome::Returned(_) | Outcome::Threw(_)) {
            permit.note_answer();
        }
        match (ended.clean, isolation) {
            (Some(clean), Isolation::Warm) => lease.hand_over(clean, &ended.spent, permit),
            (Some(_), Isolation::Fresh) | (None, _) => drop((lease, permit)),
        }
        Ok(Ran { outcome: ended.outcome, spent: ended.spent, cold })
    }

    /// Ends the workers that hold `version` for `endpoint`: idle ones now, the others after their call. A version is named
    /// after its code, which anybody may publish as well: another endpoint's workers are none of this one's business.
    pub fn retire(&self, endpoint: &str, version: &str) {
        self.core.retire(endpoint, version);
    }

    /// How long calls of `endpoint` are refused yet with [`PoolError::Held`], by all or by some callers; `None` where they are not.
    #[must_use]
    pub fn held(&self, endpoint: &str) -> Option<Duration> {
        self.core.scheduler.held(endpoint)
    }

    /// The least strict tier of its calls: [`PoolConfig::tier`].
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.core.config.tier
    }

    /// How the pool is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// Whether starts of workers fail, one after the other.
    #[must_use]
    pub fn cannot_start(&self) -> bool {
        self.core.cannot_start()
    }

    /// Lets the calls under way end, refuses all others, then kills every worker and waits until
    /// the system has none of them left. No call outlasts its wall limit, so this ends too.
    pub async fn shutdown(&self) {
        self.core.shut_down().await;
    }
}

/// Counts a call whose future was dropped.
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
    async fn tier_of_a_pool_is_the_one_that_is_set() {
        for tier in Tier::ALL {
            let config = PoolConfig { tier, spares: 0, ..PoolConfig::new("/bin/false") };
            assert_eq!(Pool::start(config).unwrap().tier(), tier);
        }
    }
}
