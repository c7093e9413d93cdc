//! What the handles of one pool share, and the tasks that look after it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::{task::AbortHandle, time::MissedTickBehavior};
use tollhouse_protocol::{Isolation, JailLayer};

use crate::{
    PROCESS_BYTES, PoolConfig, PoolError, Status,
    breaker::BreakerRules,
    gate::{Gate, Rules},
    process::{Nursery, Process},
    shelf::{Idle, Shelf, Wanted},
    status::{Counters, count},
    usage::Usage,
    watch::{Alarm, Look},
    wire,
};

/// How often the keeper looks for what is old.
const KEEPER_PERIOD: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: PoolConfig,
    pub(crate) gate: Gate,
    pub(crate) nursery: Nursery,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) counters: Counters,
    shelf: Mutex<Shelf>,
    /// Every process that was not ended, by its id.
    everyone: Mutex<HashMap<u32, Arc<Process>>>,
    /// The layers that every worker so far reported.
    jail: Mutex<Option<Vec<JailLayer>>>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Core {
    /// # Errors
    ///
    /// [`PoolError::Spawn`] outside a runtime, without the worker's binary, or without threads.
    pub(crate) fn start(config: PoolConfig) -> Result<Arc<Self>, PoolError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| PoolError::Spawn(error.to_string()))?;
        let worker =
            std::fs::metadata(&config.worker).map_err(|error| PoolError::Spawn(format!("{}: {error}", config.worker.display())))?;
        if !worker.is_file() {
            return Err(PoolError::Spawn(format!("{} is not a file", config.worker.display())));
        }
        let core = Arc::new(Self {
            gate: Gate::new(rules(&config)),
            nursery: Nursery::new(&config)?,
            alarm: Arc::default(),
            counters: Counters::default(),
            shelf: Mutex::default(),
            everyone: Mutex::default(),
            jail: Mutex::default(),
            tasks: Mutex::default(),
            config,
        });
        let watchdog = runtime.spawn(watch(Arc::clone(&core.alarm), Arc::downgrade(&core)));
        let keeper = runtime.spawn(keep(Arc::downgrade(&core)));
        core.tasks().extend([watchdog.abort_handle(), keeper.abort_handle()]);
        core.refill();
        Ok(core)
    }

    pub(crate) fn status(&self) -> Status {
        let load = self.gate.load();
        let (idle, spares, ahead) = {
            let shelf = self.shelf();
            let ahead: usize = shelf.pipelined.iter().map(|process| process.link.pipeline.len()).sum();
            (shelf.idle.len(), shelf.spares.len(), ahead)
        };
        Status {
            processes: self.nursery.live(),
            idle,
            spares,
            running: load.running,
            waiting_in_ops: load.entered - load.running,
            queued: load.queued + ahead,
            jail: self.jail.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default(),
            totals: self.counters.totals(),
        }
    }

    /// Ends the workers that hold `version`: idle ones now, the others when their call has ended.
    pub(crate) fn retire(&self, version: &str) {
        let holders: Vec<_> = self.everyone().values().filter(|process| holds(process, version)).cloned().collect();
        for process in holders {
            self.retire_process(&process);
        }
    }

    pub(crate) async fn shut_down(&self) {
        self.gate.close();
        self.gate.drained().await;
        self.shelf().closed = true;
        self.tasks().iter().for_each(AbortHandle::abort);
        // A spare that is still on its way finds its process ended, or the shelf closed.
        loop {
            let everyone: Vec<_> = self.everyone().values().cloned().collect();
            everyone.iter().for_each(|process| self.discard(process));
            self.empty_shelf();
            drop(everyone);
            self.nursery.all_buried().await;
            if self.shelf_booting() == 0 && self.nursery.live() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Boots spares until there are enough, in the background.
    pub(crate) fn refill(self: &Arc<Self>) {
        let missing = {
            let mut shelf = self.shelf();
            let room = self.config.max_processes.saturating_sub(self.nursery.live() + shelf.booting);
            let missing = self.config.spares.saturating_sub(shelf.spares.len() + shelf.booting).min(room);
            let missing = if shelf.closed { 0 } else { missing };
            shelf.booting += missing;
            missing
        };
        for _ in 0..missing {
            let core = Arc::clone(self);
            tokio::spawn(async move {
                let booked = Booked(&core);
                match core.boot().await {
                    Ok(lent) => lent.keep_as_spare(),
                    Err(error) => tracing::warn!(error = %error, "a spare worker could not be started"),
                }
                drop(booked);
            });
        }
    }

    pub(crate) fn register(&self, process: Process) -> Arc<Process> {
        let process = Arc::new(process);
        self.everyone().insert(process.pid, Arc::clone(&process));
        process
    }

    /// Ends a process.
    pub(crate) fn discard(&self, process: &Arc<Process>) {
        // While it is not ended its id is its own.
        self.everyone().remove(&process.pid);
        process.end();
    }

    pub(crate) fn shelve(self: &Arc<Self>, idle: Idle) {
        let refused = {
            let mut shelf = self.shelf();
            shelf.forget_pipelined(&idle.process);
            if shelf.closed {
                Some(idle)
            } else {
                shelf.idle.push_back(idle);
                if shelf.idle.len() > self.config.max_idle { shelf.idle.pop_front() } else { None }
            }
        };
        if let Some(idle) = refused {
            let core = Arc::clone(self);
            // Ending a process takes a while; the call that came in between does not wait for it.
            tokio::spawn(async move { core.discard(&idle.process) });
        }
    }

    pub(crate) fn note_jail(&self, layers: &[JailLayer]) {
        let mut jail = self.jail.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *jail {
            Some(known) => known.retain(|layer| layers.contains(layer)),
            None => *jail = Some(layers.to_vec()),
        }
    }

    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn empty_shelf(&self) {
        let mut shelf = self.shelf();
        shelf.idle.clear();
        shelf.spares.clear();
    }

    fn shelf_booting(&self) -> usize {
        self.shelf().booting
    }

    fn everyone(&self) -> MutexGuard<'_, HashMap<u32, Arc<Process>>> {
        self.everyone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<AbortHandle>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retire_process(&self, process: &Arc<Process>) {
        process.doom();
        let was_idle = {
            let mut shelf = self.shelf();
            let place = shelf.idle.iter().position(|idle| Arc::ptr_eq(&idle.process, process));
            place.and_then(|place| shelf.idle.remove(place)).is_some()
        };
        if was_idle {
            self.discard(process);
        }
    }

    /// One look of the watchdog at every process.
    fn look_at_everyone(&self) {
        let everyone: Vec<_> = self.everyone().values().cloned().collect();
        for process in everyone {
            match process.link.look(process.pid, self.config.kill_grace) {
                Look::Well => {}
                Look::Dead => process.end(),
                Look::Over(reason) => {
                    process.end();
                    count(&self.counters.kills);
                    tracing::info!(pid = process.pid, reason = %reason, "worker was killed");
                }
            }
        }
    }

    /// One round of the keeper.
    fn tidy(self: &Arc<Self>) {
        self.gate.forget_absent();
        for process in self.take_stale() {
            self.discard(&process);
        }
        let everyone: Vec<_> = self.everyone().values().cloned().collect();
        for process in everyone.into_iter().filter(|process| self.is_due(process)) {
            process.has_heir.store(true, Ordering::Release);
            tokio::spawn(succeed(Arc::clone(self), process));
        }
        self.refill();
    }

    /// Takes from the shelf what nobody used for long, and what died there.
    fn take_stale(&self) -> Vec<Arc<Process>> {
        let mut stale = Vec::new();
        let mut shelf = self.shelf();
        shelf.idle.retain(|idle| {
            let fit = wire::is_silent(&idle.process.link.stream);
            let keep = fit && idle.since.elapsed() < self.config.max_idle_time;
            if !fit {
                count(&self.counters.idle_faults);
            }
            if !keep {
                stale.push(Arc::clone(&idle.process));
            }
            keep
        });
        shelf.spares.retain(|spare| {
            let fit = wire::is_silent(&spare.link.stream);
            if !fit {
                count(&self.counters.idle_faults);
                stale.push(Arc::clone(spare));
            }
            fit
        });
        stale
    }

    /// Whether a worker has to be replaced for its age, its calls or its memory.
    fn is_due(&self, process: &Process) -> bool {
        let reusable = process.loaded.get().is_some_and(|holding| holding.isolation == Isolation::Warm);
        if !reusable || process.is_doomed() || process.has_heir.load(Ordering::Acquire) {
            return false;
        }
        let calls = process.calls.load(Ordering::Relaxed);
        process.born.elapsed() >= self.config.max_life || calls >= self.config.max_calls || (calls > 0 && self.has_grown(process))
    }

    fn has_grown(&self, process: &Process) -> bool {
        let Ok(Usage { rss_bytes, .. }) = Usage::of(process.pid) else { return false };
        let first = process.first_idle_bytes.load(Ordering::Relaxed);
        if first == 0 {
            process.first_idle_bytes.store(rss_bytes, Ordering::Relaxed);
        }
        first > 0 && rss_bytes > first.saturating_mul(self.config.max_growth).max(PROCESS_BYTES)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.tasks().iter().for_each(AbortHandle::abort);
    }
}

/// A spare on its way.
struct Booked<'a>(&'a Core);

impl Drop for Booked<'_> {
    fn drop(&mut self) {
        self.0.shelf().booting -= 1;
    }
}

fn rules(config: &PoolConfig) -> Rules {
    Rules {
        running: config.running.max(1),
        processes: config.max_processes.max(1),
        owner_running: (config.running / config.owner_share.max(1)).max(1),
        queue: config.queue,
        patience: config.patience,
        breaker: BreakerRules { kills: config.breaker_kills.max(1), window: config.breaker_window, hold: config.breaker_hold },
    }
}

fn holds(process: &Process, version: &str) -> bool {
    process.loaded.get().is_some_and(|holding| holding.bundle.version == version)
}

async fn watch(alarm: Arc<Alarm>, core: Weak<Core>) {
    let look = || {
        core.upgrade().is_some_and(|core| {
            core.look_at_everyone();
            true
        })
    };
    alarm.ring(look).await;
}

async fn keep(core: Weak<Core>) {
    let mut rounds = tokio::time::interval(KEEPER_PERIOD);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let Some(core) = core.upgrade() else { return };
        core.tidy();
    }
}

/// Makes a worker's successor ready, then lets the old one go.
async fn succeed(core: Arc<Core>, old: Arc<Process>) {
    let Some(holding) = old.loaded.get() else { return };
    let wanted = Wanted { bundle: &holding.bundle, endpoint: &holding.endpoint, limits: &holding.limits, isolation: Isolation::Warm };
    match core.lend_loaded(wanted).await {
        // Retired meanwhile: nobody is to inherit.
        Ok(_) if old.is_doomed() => {}
        Ok((heir, clean)) => {
            heir.recycle(clean);
            core.retire_process(&old);
            count(&core.counters.replaced);
            core.refill();
        }
        Err(error) => {
            tracing::warn!(error = %error, "a worker's successor could not be made ready");
            old.has_heir.store(false, Ordering::Release);
        }
    }
}
