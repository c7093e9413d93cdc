//! Blank workers: started ahead of the calls that need them, or for one such call.

use std::{pin::pin, sync::Arc};

use tokio::time::{Instant, timeout_at};
use tollhouse_fair::HOST;
use tollhouse_protocol::Tier;

use crate::{
    core::Core,
    error::PoolError,
    idle::Idle,
    process::Process,
    process_slots::{ProcessSlot, Shortage},
    status::count,
    wire::Buffers,
    worker_lease::WorkerLease,
};

/// A worker, or a place for one, for a call that has none yet.
enum SpareWorker<'a> {
    Spare(WorkerLease<'a>),
    Place(Arc<ProcessSlot>),
}

impl Core {
    /// Leases a spare of a tier, or starts a process if there is none.
    ///
    /// # Errors
    ///
    /// The same as [`start_blank`](Self::start_blank).
    pub(crate) async fn lease_blank(self: &Arc<Self>, owner: &str, tier: Tier) -> Result<WorkerLease<'_>, PoolError> {
        match self.lease_spare(tier) {
            Some(lease) => Ok(lease),
            None => self.start_blank(owner, tier).await,
        }
    }

    /// Starts a process of a tier. Uses a spare if one becomes available while it waits for a
    /// place.
    ///
    /// # Errors
    ///
    /// [`PoolError::Busy`] if there is no memory for it, [`PoolError::Spawn`] if it does not start.
    pub(crate) async fn start_blank(self: &Arc<Self>, owner: &str, tier: Tier) -> Result<WorkerLease<'_>, PoolError> {
        match self.wait_for_blank(tier).await? {
            SpareWorker::Spare(lease) => Ok(lease),
            SpareWorker::Place(slot) => self.boot(owner, tier, slot).await,
        }
    }

    /// Waits for a place, or for a spare of a tier. Idle workers of any tier are ended to make
    /// room.
    async fn wait_for_blank(self: &Arc<Self>, tier: Tier) -> Result<SpareWorker<'_>, PoolError> {
        let (started, _waits) = (Instant::now(), self.slots.wait());
        loop {
            let mut changed = pin!(self.slots.changed());
            changed.as_mut().enable();
            if let Some(slot) = self.slots.take() {
                return Ok(SpareWorker::Place(slot));
            }
            if let Some(lease) = self.lease_spare(tier) {
                return Ok(SpareWorker::Spare(lease));
            }
            self.evict_one();
            // There are as many places as admitted calls. Without a free one, the call waits until an
            // ended process is gone.
            let (timeout, refused) = match self.slots.shortage() {
                Some(Shortage::Memory) => (self.config.timeout, PoolError::Busy { retry_after: self.config.timeout }),
                Some(Shortage::Places) | None => (self.config.boot_timeout, PoolError::Spawn("no process has ended in time".into())),
            };
            if timeout_at(started + timeout, changed).await.is_err() {
                count(&self.counters.refused);
                return Err(refused);
            }
        }
    }

    /// Starts a process in the turn of `owner`, and waits until it is ready. Records the result.
    async fn boot(self: &Arc<Self>, owner: &str, tier: Tier, slot: Arc<ProcessSlot>) -> Result<WorkerLease<'_>, PoolError> {
        let booted = self.boot_uncounted(owner, tier, slot).await;
        self.note_start(booted.as_ref().err());
        booted
    }

    async fn boot_uncounted(self: &Arc<Self>, owner: &str, tier: Tier, slot: Arc<ProcessSlot>) -> Result<WorkerLease<'_>, PoolError> {
        let _turn = self.starts.turn(owner.into()).await;
        let started = self.spawner.start(&self.config, tier, &self.alarm, slot).await.inspect_err(|_| count(&self.counters.failed_starts));
        let (started, is_forked) = started?;
        count(&self.counters.started);
        if is_forked {
            count(&self.counters.forked);
        }
        let process = self.register(started);
        let lease = WorkerLease::new(self, Arc::clone(&process), Buffers::default());
        if self.idle.lock().closed {
            // The pool was shut down meanwhile, and may have ended every process before this one
            // was registered.
            return Err(PoolError::Spawn("the pool is shut down".into()));
        }
        if let Err(error) = process.wait_until_ready(&self.config).await {
            count(&self.counters.failed_starts);
            self.spawner.distrust_zygotes();
            return Err(error);
        }
        if let Some(jail) = process.jail() {
            self.note_jail(tier, jail);
        }
        Ok(lease)
    }

    /// Ends warm workers to make places for missing spares, up to a quarter of all places. Without
    /// this, if all places were taken, the first call of every version would wait for a place and
    /// for a start.
    pub(crate) fn evict_for_spares(&self) {
        let missing = {
            let idle = self.idle.lock();
            self.missing_spares(&idle).len().min((self.config.max_processes / 4).saturating_sub(idle.pending_spares()))
        };
        if missing == 0 {
            return;
        }
        while let Some(shortage) = self.slots.shortage_with(missing) {
            let evicted = self.idle.lock().evict_warm(shortage);
            let Some(process) = evicted else { return };
            self.kill_process(&process);
        }
    }

    /// Starts spares in the background until there are enough of each tier in use, as long as
    /// nobody else waits for their places.
    pub(crate) fn refill(self: &Arc<Self>) {
        let slots: Vec<_> = {
            let mut idle = self.idle.lock();
            let missing = if idle.closed { Vec::new() } else { self.missing_spares(&idle) };
            let slots: Vec<_> = missing.into_iter().map_while(|tier| Some((tier, self.slots.take_unused()?))).collect();
            slots.iter().for_each(|(tier, _)| idle.booting[*tier] += 1);
            slots
        };
        for (tier, slot) in slots {
            let core = Arc::clone(self);
            self.tasks.spawn(async move {
                let booting = BootingSpare(&core, tier);
                match core.boot(HOST, tier, slot).await {
                    Ok(lease) => lease.keep_as_spare(),
                    Err(_) if core.idle.lock().closed => {}
                    Err(error) => tracing::warn!(error = %error, tier = %tier, "a spare worker could not be started"),
                }
                drop(booting);
            });
        }
    }

    fn lease_spare(self: &Arc<Self>, tier: Tier) -> Option<WorkerLease<'_>> {
        loop {
            let lease = WorkerLease::new(self, self.take_spare(tier)?, Buffers::default());
            if lease.is_fit() {
                return Some(lease);
            }
            count(&self.counters.idle_faults);
        }
    }

    /// Returns the tier of each missing spare. Spares that are starting are not missing.
    fn missing_spares(&self, idle: &Idle) -> Vec<Tier> {
        let in_use = Tier::ALL.into_iter().filter(|tier| self.has_spares(idle, *tier));
        // While starts fail, at least one is retried so that recovery is noticed even without
        // calls.
        let spares = self.config.spares.max(usize::from(self.starts_fail().is_some()));
        in_use.flat_map(|tier| std::iter::repeat_n(tier, spares.saturating_sub(idle.spares_of(tier)))).collect()
    }

    /// Returns whether spares of a tier are kept. An unused tier costs nothing.
    pub(crate) fn has_spares(&self, idle: &Idle, tier: Tier) -> bool {
        tier == self.config.tier || idle.requested[tier].is_some_and(|requested| requested.elapsed() < self.config.max_life)
    }

    fn take_spare(&self, tier: Tier) -> Option<Arc<Process>> {
        let mut idle = self.idle.lock();
        idle.requested[tier] = Some(Instant::now());
        idle.take_spare(tier)
    }

    /// Ends idle workers while waiters need their places, or running ones need their memory.
    pub(crate) fn evict_one(&self) {
        while let Some(shortage) = self.slots.shortage() {
            let evicted = self.idle.lock().evict(shortage);
            let Some(process) = evicted else { return };
            self.kill_process(&process);
        }
    }
}

/// Counts a spare that is starting.
struct BootingSpare<'a>(&'a Core, Tier);

impl Drop for BootingSpare<'_> {
    fn drop(&mut self) {
        self.0.idle.lock().booting[self.1] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{config::PoolConfig, idle::Warm};

    #[tokio::test]
    async fn starting_spares_count_until_they_fail() {
        for (spares, max_processes) in [(2, 9), (9, 2)] {
            let core = Core::new(PoolConfig { spares, max_processes, ..PoolConfig::new("/bin/false") }).unwrap();
            core.refill();
            core.refill();
            assert_eq!(core.idle.lock().booting[Tier::Jit], 2);
            core.tasks.close();
            core.tasks.wait().await;
            core.spawner.all_reaped().await;
            assert_eq!((core.idle.lock().booting[Tier::Jit], core.slots.taken()), (0, 0));
        }
    }

    #[tokio::test]
    async fn failed_starts_are_reported_and_retried_without_calls() {
        let core = Core::new(PoolConfig { spares: 0, ..PoolConfig::new("/bin/false") }).unwrap();
        core.refill();
        assert_eq!((core.status().starts_fail, core.slots.taken()), (None, 0));
        assert!(core.lease_blank("a", Tier::Jit).await.is_err());
        let reported = core.status().starts_fail.unwrap();
        assert!(reported.ends_with("ended before it was ready, with status 1"), "{reported}");
        core.refill();
        assert_eq!(core.idle.lock().booting[Tier::Jit], 1);
        core.tasks.close();
        core.tasks.wait().await;
        assert_eq!((core.status().workers, core.cannot_start()), (0, false));
        assert!(core.lease_blank("a", Tier::Jit).await.is_err());
        assert!(core.cannot_start(), "the third in a row");
        core.note_start(None);
        assert_eq!((core.status().starts_fail, core.cannot_start()), (None, false));
    }

    #[tokio::test]
    async fn spare_is_used_if_it_is_fit_before_a_process_is_started() {
        let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
        let [(fit, _fit), (retired, _retired)] = [(); 2].map(|()| Process::standin());
        retired.retire();
        core.idle.lock().spares = vec![Arc::clone(&fit), Arc::clone(&retired)];
        assert_eq!(core.lease_blank("a", Tier::Jit).await.unwrap().process().pid, fit.pid);
        let totals = core.counters.totals();
        assert_eq!((totals.started, totals.idle_faults, retired.is_live()), (0, 1, false));
    }

    #[tokio::test(start_paused = true)]
    async fn tier_in_use_has_spares_and_the_default_tier_always() {
        let core = Core::new(PoolConfig { spares: 2, ..PoolConfig::new("/bin/false") }).unwrap();
        let missing = || core.missing_spares(&core.idle.lock());
        assert_eq!(missing(), [Tier::Jit; 2]);
        assert!(core.take_spare(Tier::Jitless).is_none());
        core.idle.lock().booting[Tier::Jit] = 1;
        assert_eq!(missing(), [Tier::Jit, Tier::Jitless, Tier::Jitless]);
        tokio::time::advance(core.config.max_life).await;
        assert_eq!(missing(), [Tier::Jit]);
    }

    #[tokio::test]
    async fn spare_of_another_tier_is_left() {
        let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
        let (spare, _theirs) = Process::standin();
        core.idle.lock().spares.push(Arc::clone(&spare));
        assert!(core.take_spare(Tier::Jitless).is_none() && core.idle.lock().spares_of(Tier::Jit) == 1);
        assert!(core.take_spare(Tier::Jit).is_some_and(|taken| Arc::ptr_eq(&taken, &spare)));
    }

    #[tokio::test]
    async fn oldest_warm_worker_makes_room_for_spares_if_all_places_are_taken() {
        for (spares, max_processes, staying) in [(0, 2, 2), (2, 2, 2), (1, 4, 4), (2, 8, 8)] {
            let core = Core::new(PoolConfig { spares, max_processes, ..PoolConfig::new("/bin/false") }).unwrap();
            let workers: Vec<_> = (0..max_processes).map(|_| Process::standin_at(core.slots.take().unwrap()).0).collect();
            workers.iter().for_each(|worker| drop(core.idle.lock().put(Warm::just_now(worker))));
            core.evict_for_spares();
            core.evict_for_spares();
            let live: Vec<_> = workers.iter().map(|worker| worker.is_live()).collect();
            let ended = live.iter().take_while(|live| !**live).count();
            assert_eq!((ended, core.idle.lock().warm.len()), (spares.min(max_processes / 4), staying - ended), "{live:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_slot_and_evicts_idle_workers() {
        for (memory, timeout) in [(0, Duration::from_secs(1)), (u64::MAX, Duration::from_secs(10))] {
            let config = PoolConfig { spares: 0, max_processes: if memory == 0 { 9 } else { 1 }, memory, ..PoolConfig::new("/bin/false") };
            let core = Core::new(config).unwrap();
            let _held = core.slots.take().unwrap();
            let (warm, _theirs) = Process::standin();
            drop(core.idle.lock().put(Warm::just_now(&warm)));
            let started = Instant::now();
            let refused = core.start_blank("a", Tier::Jit).await.unwrap_err();
            assert_eq!((matches!(refused, PoolError::Busy { .. }), started.elapsed()), (memory == 0, timeout));
            assert!(!warm.is_live() && core.idle.lock().warm.len() == 0);
        }
    }

    #[tokio::test]
    async fn ended_pool_has_no_spares() {
        let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
        core.idle.lock().closed = true;
        core.refill();
        assert_eq!(core.idle.lock().booting[Tier::Jit], 0);
        assert!(core.start_blank("a", Tier::Jit).await.is_err());
        core.spawner.all_reaped().await;
        assert_eq!(core.slots.taken(), 0);
    }
}
