//! Blank workers: booted ahead of the calls that need them.

use std::sync::Arc;

use crate::{core::Core, error::PoolError, lease::Lease, process::Process, status::count, wire::Buffers};

impl Core {
    /// Leases a spare, or starts a process when there is none.
    pub(crate) async fn lease_blank(self: &Arc<Self>) -> Result<Lease<'_>, PoolError> {
        while let Some(process) = self.take_spare() {
            let lease = Lease::new(self, process, Buffers::default());
            if lease.is_fit() {
                return Ok(lease);
            }
            count(&self.counters.idle_faults);
        }
        self.boot().await
    }

    /// Starts a process and waits until it is ready.
    pub(crate) async fn boot(self: &Arc<Self>) -> Result<Lease<'_>, PoolError> {
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
        self.note_jail(process.jail().unwrap_or_default());
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
                match core.boot().await {
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
