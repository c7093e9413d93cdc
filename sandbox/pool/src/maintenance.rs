//! What looks after a pool off the path of calls: its start and end, the watchdog's rounds, workers grown old or large.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::{runtime::Handle, time::MissedTickBehavior};
use tollhouse_protocol::Isolation;

use crate::{
    checkout::Wanted,
    config::{PROCESS_BYTES, PoolConfig},
    core::Core,
    error::PoolError,
    process::Process,
    status::count,
    usage::Usage,
    watchdog::{Alarm, Look},
};

/// How often there is a look for what is old.
const PERIOD: Duration = Duration::from_secs(1);

/// Starts a pool in the current runtime, and its spares in the background.
///
/// # Errors
///
/// [`PoolError::Spawn`] outside a runtime, without the worker's binary, or without threads.
pub(crate) fn start(config: PoolConfig) -> Result<Arc<Core>, PoolError> {
    let runtime = Handle::try_current().map_err(|error| PoolError::Spawn(error.to_string()))?;
    let worker = std::fs::metadata(&config.worker).map_err(|error| PoolError::Spawn(format!("{}: {error}", config.worker.display())))?;
    if !worker.is_file() {
        return Err(PoolError::Spawn(format!("{} is not a file", config.worker.display())));
    }
    let core = Core::new(config)?;
    let watchdog = watch(Arc::clone(&core.alarm), Arc::downgrade(&core));
    runtime.spawn(core.stopped.clone().run_until_cancelled_owned(watchdog));
    runtime.spawn(core.stopped.clone().run_until_cancelled_owned(maintain(Arc::downgrade(&core))));
    core.refill();
    Ok(core)
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
    /// Lets the calls under way end, refuses all others, and leaves no process.
    pub(crate) async fn shut_down(&self) {
        self.scheduler.close();
        self.scheduler.drained().await;
        // From here on no process is started that is not ended again at once.
        self.idle().closed = true;
        self.stopped.cancel();
        self.everyone().iter().for_each(|process| self.discard(process));
        self.idle().clear();
        self.tasks.close();
        self.tasks.wait().await;
        self.spawner.all_reaped().await;
    }

    /// Ends the workers that hold `version`: idle ones now, the others when their call has ended.
    pub(crate) fn retire(&self, version: &str) {
        let holders = self.everyone().into_iter().filter(|process| process.holds(version));
        holders.for_each(|process| self.retire_process(&process));
    }

    /// One look of the watchdog at every process.
    fn look_at_everyone(&self) {
        for process in self.everyone() {
            match process.link.meter.look(process.pid, self.config.kill_grace) {
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

    /// One round: what nobody used for long goes, and what is due is replaced.
    fn maintain(self: &Arc<Self>) {
        self.scheduler.forget_absent();
        self.sweep_idle();
        for process in self.everyone().into_iter().filter(|process| self.is_due(process)) {
            process.is_being_replaced.store(true, Ordering::Release);
            self.tasks.spawn(replace(Arc::clone(self), process));
        }
        self.refill();
    }

    /// Ends idle workers that nobody used for long, and those that died.
    fn sweep_idle(&self) {
        let (swept, faults) = self.idle().sweep(|warm| warm.since.elapsed() >= self.config.max_idle_time);
        (0..faults).for_each(|_| count(&self.counters.idle_faults));
        swept.iter().for_each(|process| self.discard(process));
    }

    /// Whether a worker has to be replaced for its age, its calls or its memory.
    fn is_due(&self, process: &Process) -> bool {
        let reusable = process.loaded.get().is_some_and(|holding| holding.isolation == Isolation::Warm);
        if !reusable || process.is_retired() || process.is_being_replaced.load(Ordering::Acquire) {
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

/// Makes a worker ready that takes the place of `old`, then lets the old one go.
async fn replace(core: Arc<Core>, old: Arc<Process>) {
    let Some(holding) = old.loaded.get() else { return };
    let wanted = Wanted { bundle: &holding.bundle, endpoint: &holding.endpoint, limits: &holding.limits, isolation: Isolation::Warm };
    match core.lease_loaded(wanted, &|_| ()).await {
        // Retired meanwhile: nobody is to take its place.
        Ok(_) if old.is_retired() => {}
        Ok((fresh, clean)) => {
            fresh.recycle(clean);
            core.retire_process(&old);
            count(&core.counters.replaced);
            core.refill();
        }
        Err(_) if core.idle().closed => {}
        Err(error) => {
            tracing::warn!(error = %error, "a worker's replacement could not be made ready");
            old.is_being_replaced.store(false, Ordering::Release);
        }
    }
}
