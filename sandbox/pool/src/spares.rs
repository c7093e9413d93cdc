//! Blank workers: booted ahead of the calls that need them, or for one that does.

use std::{pin::pin, sync::Arc};

use tokio::time::{Instant, timeout_at};

use crate::{
    core::Core,
    error::PoolError,
    lease::Lease,
    places::{Lack, Place},
    process::Process,
    status::count,
    wire::Buffers,
};

/// In whose name the host starts what no call waits for.
pub(crate) const HOST: &str = "";

/// Who serves a call that has no worker yet.
enum Blank<'a> {
    Spare(Lease<'a>),
    Place(Arc<Place>),
}

impl Core {
    /// Leases a spare, or starts a process when there is none.
    ///
    /// # Errors
    ///
    /// As [`start_blank`](Self::start_blank).
    pub(crate) async fn lease_blank(self: &Arc<Self>, owner: &str) -> Result<Lease<'_>, PoolError> {
        match self.lease_spare() {
            Some(lease) => Ok(lease),
            None => self.start_blank(owner).await,
        }
    }

    /// Starts a process, where there is none that became a spare while a place was waited for.
    ///
    /// # Errors
    ///
    /// [`PoolError::Busy`] when there is no memory for it, [`PoolError::Spawn`] when it does not start.
    pub(crate) async fn start_blank(self: &Arc<Self>, owner: &str) -> Result<Lease<'_>, PoolError> {
        match self.blank().await? {
            Blank::Spare(lease) => Ok(lease),
            Blank::Place(place) => self.boot(owner, place).await,
        }
    }

    /// Waits for a place, or for a spare. Who is idle makes room.
    async fn blank(self: &Arc<Self>) -> Result<Blank<'_>, PoolError> {
        let (began, _waits) = (Instant::now(), self.places.wait());
        loop {
            let mut changed = pin!(self.places.changed());
            changed.as_mut().enable();
            if let Some(place) = self.places.take() {
                return Ok(Blank::Place(place));
            }
            if let Some(lease) = self.lease_spare() {
                return Ok(Blank::Spare(lease));
            }
            self.make_room();
            // There are as many places as calls that are let in: what they wait for is that the system lets go of somebody.
            let (patience, refused) = match self.places.lack() {
                Some(Lack::Memory) => (self.config.patience, PoolError::Busy { retry_after: self.config.patience }),
                Some(Lack::Places) | None => (self.config.boot_patience, PoolError::Spawn("no process has ended".into())),
            };
            if timeout_at(began + patience, changed).await.is_err() {
                count(&self.counters.refused);
                return Err(refused);
            }
        }
    }

    /// Starts a process in the turn of `owner`, and waits until it is ready.
    async fn boot(self: &Arc<Self>, owner: &str, place: Arc<Place>) -> Result<Lease<'_>, PoolError> {
        let _turn = self.starts.turn(owner.into()).await;
        let started = self.spawner.start(&self.config, &self.alarm, place).await.inspect_err(|_| count(&self.counters.failed_starts))?;
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

    /// Ends as many warm workers as keep spares from their places, of which a quarter are for spares before all: else, where
    /// all are taken, the first call of every version would wait for a place and for a start.
    pub(crate) fn make_room_for_spares(&self) {
        let most = self.config.spares.min(self.config.max_processes / 4);
        let missing = most.saturating_sub(self.idle().spares_to_come());
        if missing == 0 {
            return;
        }
        while let Some(lack) = self.places.lack_with(missing) {
            let evicted = self.idle().evict_warm(lack);
            let Some(process) = evicted else { return };
            self.discard(&process);
        }
    }

    /// Boots spares until there are enough, in the background, where nobody else wants their places.
    pub(crate) fn refill(self: &Arc<Self>) {
        let places: Vec<_> = {
            let mut idle = self.idle();
            let missing = self.config.spares.saturating_sub(idle.spares_to_come());
            let missing = if idle.closed { 0 } else { missing };
            let places: Vec<_> = (0..missing).map_while(|_| self.places.take_unwanted()).collect();
            idle.booting += places.len();
            places
        };
        for place in places {
            let core = Arc::clone(self);
            self.tasks.spawn(async move {
                let booting = Booting(&core);
                match core.boot(HOST, place).await {
                    Ok(lease) => lease.keep_as_spare(),
                    Err(_) if core.idle().closed => {}
                    Err(error) => tracing::warn!(error = %error, "a spare worker could not be started"),
                }
                drop(booting);
            });
        }
    }

    fn lease_spare(self: &Arc<Self>) -> Option<Lease<'_>> {
        loop {
            let lease = Lease::new(self, self.take_spare()?, Buffers::default());
            if lease.is_fit() {
                return Some(lease);
            }
            count(&self.counters.idle_faults);
        }
    }

    fn take_spare(&self) -> Option<Arc<Process>> {
        self.idle().spares.pop()
    }

    /// Ends as many of those that are idle as keep others from a place.
    fn make_room(&self) {
        while let Some(lack) = self.places.lack() {
            let evicted = self.idle().evict(lack);
            let Some(process) = evicted else { return };
            self.discard(&process);
        }
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
    use crate::{config::PoolConfig, idle::Warm};

    #[tokio::test]
    async fn spares_on_their_way_count_as_those_that_are_there_until_they_fail() {
        for (spares, max_processes) in [(2, 9), (9, 2)] {
            let core = Core::new(PoolConfig { spares, max_processes, ..PoolConfig::new("/bin/false") }).unwrap();
            core.refill();
            core.refill();
            assert_eq!(core.idle().booting, 2);
            core.tasks.close();
            core.tasks.wait().await;
            core.spawner.all_reaped().await;
            assert_eq!((core.idle().booting, core.places.taken()), (0, 0));
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
    async fn oldest_warm_worker_makes_room_for_spares_where_all_places_are_taken() {
        for (spares, max_processes, staying) in [(0, 2, 2), (2, 2, 2), (1, 4, 4), (2, 8, 8)] {
            let core = Core::new(PoolConfig { spares, max_processes, ..PoolConfig::new("/bin/false") }).unwrap();
            let workers: Vec<_> = (0..max_processes).map(|_| Process::stand_in_at(core.places.take().unwrap()).0).collect();
            workers.iter().for_each(|worker| drop(core.idle().put(Warm::just_now(worker))));
            core.make_room_for_spares();
            core.make_room_for_spares();
            let live: Vec<_> = workers.iter().map(|worker| worker.is_live()).collect();
            let ended = live.iter().take_while(|live| !**live).count();
            assert_eq!((ended, core.idle().warm.len()), (spares.min(max_processes / 4), staying - ended), "{live:?}");
        }
    }

    #[tokio::test]
    async fn pool_that_ends_has_no_spares() {
        let core = Core::new(PoolConfig::new("/bin/false")).unwrap();
        core.idle().closed = true;
        core.refill();
        assert_eq!(core.idle().booting, 0);
        assert!(core.start_blank("a").await.is_err());
        core.spawner.all_reaped().await;
        assert_eq!(core.places.taken(), 0);
    }
}
