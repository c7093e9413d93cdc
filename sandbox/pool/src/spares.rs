//! Blank workers: booted ahead of the calls that need them.

use std::sync::Arc;

use crate::{core::Core, error::PoolError, lease::Lease, process::Process, starts::HOST, status::count, wire::Buffers};

impl Core {
    /// Leases a spare, or starts a process when there is none.
    pub(crate) async fn lease_blank(self: &Arc<Self>, owner: &str) -> Result<Lease<'_>, PoolError> {
        while let Some(process) = self.take_spare() {
            let lease = Lease::new(self, process, Buffers::default());
            if lease.is_fit() {
                return Ok(lease);
            }
            count(&self.counters.idle_faults);
        }
        self.boot(owner).await
    }

    /// Starts a process in the turn of `owner`, and waits until it is ready.
    pub(crate) async fn boot(self: &Arc<Self>, owner: &str) -> Result<Lease<'_>, PoolError> {
        let _turn = self.starts.turn(owner).await;
        let starting = self.make_room();
        let started = self.spawner.start(&self.config, &self.alarm).await.inspect_err(|_| count(&self.counters.failed_starts))?;
        drop(starting);
        count(&self.counters.started);
        let process = self.register(started);
        let lease = Lease::new(self, Arc::clone(&process), Buffers::default());
        if self.idle().closed {
            // The pool was shut down meanwhile, and may have ended every process before this one was among them.
            return Err(PoolError::Spawn("the pool is shut down".into()));
        }
        process.wait_until_ready(&self.config).await.inspect_err(|_| count(&self.counters.failed_starts))?;
        if let Some(jail) = process.jail() {
            self.note_jail(jail);
        }
        Ok(lease)
    }

    /// Boots spares until there are enough, in the background.
    pub(crate) fn refill(self: &Arc<Self>) {
        let missing = {
            let mut idle = self.idle();
            let room = self.config.max_processes.saturating_sub(self.spawner.live() + idle.booting);
            let missing = self.config.spares.saturating_sub(idle.spares.len() + idle.booting).min(room);
            let missing = if idle.closed { 0 } else { missing };
            idle.booting += missing;
            missing
        };
        for _ in 0..missing {
            let core = Arc::clone(self);
            self.tasks.spawn(async move {
                let booting = Booting(&core);
                match core.boot(HOST).await {
                    Ok(lease) => lease.keep_as_spare(),
                    Err(_) if core.idle().closed => {}
                    Err(error) => tracing::warn!(error = %error, "a spare worker could not be started"),
                }
                drop(booting);
            });
        }
    }

    fn take_spare(&self) -> Option<Arc<Process>> {
        self.idle().spares.pop()
    }

    /// Makes room for one more process. Where there are as many as may be, the oldest idle
    /// worker goes, or else a spare; the scheduler lets no more calls in than there may be processes.
    fn make_room(&self) -> Starting<'_> {
        let mut evicted = Vec::new();
        {
            let mut idle = self.idle();
            let allowed = self.config.max_processes.saturating_sub(idle.starting);
            while self.spawner.live().saturating_sub(evicted.len()) >= allowed {
                let Some(process) = idle.evict() else { break };
                evicted.push(process);
            }
            idle.starting += 1;
        }
        evicted.iter().for_each(|process| self.discard(process));
        Starting(self)
    }
}

/// A process that is ordered and not there yet.
struct Starting<'a>(&'a Core);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.idle().starting -= 1;
    }
}

/// A spare on its way.
struct Booting<'a>(&'a Core);

impl Drop for Booting<'_> {
    fn drop(&mut self) {
        self.0.idle().booting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PoolConfig;

    #[tokio::test]
    async fn spares_on_their_way_count_as_those_that_are_there_until_they_fail() {
        for (spares, max_processes) in [(2, 9), (9, 2)] {
            let core = Core::new(PoolConfig { spares, max_processes, ..PoolConfig::new("/bin/false") }).unwrap();
            core.refill();
            core.refill();
            assert_eq!(core.idle().booting, 2);
            core.tasks.close();
            core.tasks.wait().await;
            let idle = core.idle();
            assert_eq!((idle.booting, idle.starting, core.spawner.live()), (0, 0, 0));
        }
    }

    #[tokio::test]
    async fn spare_is_used_if_it_is_fit_before_a_process_is_started() {
        let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
        let [(fit, _fit), (retired, _retired)] = [(); 2].map(|()| Process::stand_in());
        retired.retire();
        core.idle().spares = vec![Arc::clone(&fit), Arc::clone(&retired)];
        assert_eq!(core.lease_blank("a").await.unwrap().process().pid, fit.pid);
        let totals = core.counters.totals();
        assert_eq!((totals.started, totals.idle_faults, retired.is_live()), (0, 1, false));
    }

    #[tokio::test]
    async fn pool_that_ends_has_no_spares() {
        let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
        core.idle().closed = true;
        core.refill();
        assert_eq!(core.idle().booting, 0);
        assert!(core.boot("a").await.is_err() && core.spawner.live() == 0);
    }
}
