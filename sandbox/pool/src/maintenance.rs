//! Background upkeep of a pool: start and shutdown, the watchdog's rounds, and replacement of old or large workers.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, time::MissedTickBehavior};
use tollhouse_protocol::{Isolation, Tier};

use crate::{
    checkout::WorkerRequest,
    config::PoolConfig,
    core::Core,
    cpu_turns::Turns,
    error::PoolError,
    process::Process,
    status::count,
    watchdog::Inspection,
    watchdog_alarm::{Alarm, WatchdogRound},
};

/// Interval between two maintenance rounds.
const PERIOD: Duration = Duration::from_secs(1);

/// Private memory below which the growth of a process is no leak, in bytes, because a young heap
/// fills up.
const YOUNG_BYTES: u64 = 40 << 20;

/// Starts a pool in the current runtime, with its spares in the background.
///
/// # Errors
///
/// [`PoolError::Spawn`] outside a runtime, without the worker's binary, or if threads cannot be
/// started; [`PoolError::FewUsers`].
pub(crate) fn start(config: PoolConfig) -> Result<Arc<Core>, PoolError> {
    let runtime = Handle::try_current().map_err(|error| PoolError::Spawn(error.to_string()))?;
    let worker = std::fs::metadata(&config.worker).map_err(|error| PoolError::Spawn(format!("{}: {error}", config.worker.display())))?;
    if !worker.is_file() {
        return Err(PoolError::Spawn(format!("{} is not a file", config.worker.display())));
    }
    let (users, processes) = (config.users.max(), config.max_processes);
    if users < processes {
        return Err(PoolError::FewUsers { users, processes });
    }
    let core = Core::new(config)?;
    let (alarm, watched) = (Arc::clone(&core.alarm), Arc::downgrade(&core));
    let watchdog = thread::Builder::new().name("tollhouse-watch".into()).spawn(move || watch(&alarm, &watched));
    watchdog.map_err(|error| PoolError::Spawn(error.to_string()))?;
    runtime.spawn(core.stopped.clone().run_until_cancelled_owned(maintain(Arc::downgrade(&core))));
    core.refill();
    Ok(core)
}

/// Runs the watchdog. It has its own thread, so that a busy runtime does not delay it.
fn watch(alarm: &Alarm, core: &Weak<Core>) {
    let mut turns = Turns::for_this_machine();
    alarm.run(|round| Some(core.upgrade()?.inspect_all(round, &mut turns)));
}

async fn maintain(core: Weak<Core>) {
    let mut rounds = tokio::time::interval(PERIOD);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let Some(core) = core.upgrade() else { return };
        core.maintain();
    }
}

impl Core {
    /// Lets running calls end, refuses all others, and ends every process.
    pub(crate) async fn shut_down(&self) {
        self.scheduler.close();
        self.scheduler.drained().await;
        // From here on, a process that starts is ended at once.
        self.idle.lock().closed = true;
        self.stopped.cancel();
        self.everyone().iter().for_each(|process| self.kill_process(process));
        self.idle.lock().clear();
        self.tasks.close();
        self.tasks.wait().await;
        self.spawner.close().await;
        self.spawner.all_reaped().await;
    }

    /// Ends the workers that hold `version` for `endpoint`: idle ones now, busy ones after their call.
    pub(crate) fn retire(&self, endpoint: &str, version: &str) {
        let holders = self.everyone().into_iter().filter(|process| process.holds(endpoint, version));
        holders.for_each(|process| self.retire_process(&process));
    }

    /// Inspects every process. Returns the time until the next round.
    fn inspect_all(&self, round: WatchdogRound, turns: &mut Turns) -> Duration {
        let (everyone, mut soonest) = (self.everyone(), Duration::MAX);
        for process in &everyone {
            match process.link.meter.inspect(process.pid, round, self.config.kill_grace) {
                Inspection::Free => {}
                Inspection::WithinBudget { own_bytes, next } => {
                    own_bytes.into_iter().for_each(|bytes| process.record_own_bytes(bytes));
                    soonest = soonest.min(next);
                }
                Inspection::Dead => process.end(),
                Inspection::Over(reason) => {
                    // Counted before the call learns of the end, because its caller can read the counters next.
                    count(&self.counters.kills);
                    process.end();
                    tracing::info!(pid = process.pid, reason = %reason, "worker was killed");
                }
            }
        }
        if round == WatchdogRound::Tick {
            turns.tick(everyone.iter().map(|process| (process.pid, &process.link.meter)));
        }
        soonest
    }

    /// Ends workers that were idle for too long, and replaces those that are due.
    fn maintain(self: &Arc<Self>) {
        self.scheduler.prune_idle();
        self.sweep_idle();
        for process in self.everyone() {
            process.measure();
            if self.is_due(&process) {
                process.is_being_replaced.store(true, Ordering::Release);
                self.tasks.spawn(replace(Arc::clone(self), process));
            }
        }
        // Running processes may have grown.
        self.evict_one();
        self.evict_for_spares();
        self.refill();
    }

    /// Ends idle workers that were unused for long or have died.
    fn sweep_idle(&self) {
        let (swept, faults) = {
            let mut idle = self.idle.lock();
            let unused: Vec<_> = Tier::ALL.into_iter().filter(|tier| !self.has_spares(&idle, *tier)).collect();
            idle.sweep(|warm| warm.since.elapsed() >= self.config.max_idle_time, |spare| unused.contains(&spare.tier))
        };
        (0..faults).for_each(|_| count(&self.counters.idle_faults));
        swept.iter().for_each(|process| self.kill_process(process));
    }

    /// Returns whether a worker must be replaced because of its age, calls or memory.
    fn is_due(&self, process: &Process) -> bool {
        let reusable = process.loaded.get().is_some_and(|holding| holding.isolation == Isolation::Warm);
        if !reusable || process.is_retired() || process.is_being_replaced.load(Ordering::Acquire) {
            return false;
        }
        let calls = process.calls.load(Ordering::Relaxed);
        process.started.elapsed() >= self.config.max_life || calls >= self.config.max_calls || (calls > 0 && self.has_grown(process))
    }

    fn has_grown(&self, process: &Process) -> bool {
        let bytes = process.own_bytes();
        let first = process.first_own_bytes.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
        first.is_err_and(|first| is_leak(first, bytes, self.config.max_growth))
    }
}

/// Returns whether growth from `first` to `now` bytes counts as a leak.
fn is_leak(first: u64, now: u64, max_growth: u64) -> bool {
    now > first.saturating_mul(max_growth).max(YOUNG_BYTES)
}

/// Prepares a worker that replaces `old`, then retires the old one.
async fn replace(core: Arc<Core>, old: Arc<Process>) {
    let Some(holding) = old.loaded.get() else { return };
    match core.lease_loaded(WorkerRequest::of(holding, old.tier), &|_| ()).await {
        // Retired meanwhile: it needs no replacement.
        Ok(_) if old.is_retired() => {}
        Ok((fresh, clean)) => {
            fresh.recycle(clean);
            core.retire_process(&old);
            count(&core.counters.replaced);
            core.refill();
        }
        Err(_) if core.idle.lock().closed => {}
        Err(error) => {
            tracing::warn!(error = %error, "the replacement of a worker could not be started");
            old.is_being_replaced.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
