//! The state that the handles and tasks of one pool share.

use std::{collections::HashMap, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tollhouse_fair::{FairSemaphore, Share, lock::Lock};
use tollhouse_protocol::{JailReport, Tier};

use crate::{
    background::Background,
    breaker::BreakerRules,
    code_cache::CodeCache,
    config::PoolConfig,
    error::PoolError,
    flow::FlowControl,
    idle::{Idle, Warm},
    process::Process,
    process_slots::ProcessSlots,
    scheduler::{Rules, Scheduler},
    spawner::Spawner,
    status::{Counters, Jails, Status, TierStatus, merge_refusals},
    tiers::EachTier,
    watchdog_alarm::Alarm,
};

/// The shared state of a pool.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: PoolConfig,
    pub(crate) scheduler: Scheduler,
    pub(crate) flow: FlowControl,
    pub(crate) background: Background,
    pub(crate) slots: Arc<ProcessSlots>,
    pub(crate) spawner: Spawner,
    /// Limits concurrent process starts, fairly among the owners that need them.
    pub(crate) starts: Arc<FairSemaphore<Box<str>>>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) counters: Counters,
    /// Background work for calls: boots, replacements, ends. Shutdown waits for all of it.
    pub(crate) tasks: TaskTracker,
    /// Stops the tasks that run as long as the pool. Canceled with the last handle.
    pub(crate) stopped: CancellationToken,
    pub(crate) idle: Lock<Idle>,
    /// Every process that has not been ended, by process id.
    everyone: Lock<HashMap<u32, Arc<Process>>>,
    /// Compiled code of large sources.
    pub(crate) code: CodeCache,
    /// Jail reports of all workers so far, by tier.
    jails: Lock<EachTier<Jails>>,
    /// Failed process starts since the last success.
    failed_starts: Lock<FailedStarts>,
}

#[derive(Debug, Default)]
struct FailedStarts {
    times: u32,
    reason: Option<String>,
}

impl FailedStarts {
    /// A single failure can be a slow start on a busy machine.
    const MANY: u32 = 3;
}

impl Core {
    /// Starts the parts of a pool.
    ///
    /// # Errors
    ///
    /// [`PoolError::Spawn`] if threads cannot be started.
    pub(crate) fn new(config: PoolConfig) -> Result<Arc<Self>, PoolError> {
        let slots = ProcessSlots::new(config.max_processes, config.memory, config.users.allocator());
        Ok(Arc::new(Self {
            scheduler: Scheduler::new(rules(&config)),
            flow: FlowControl::new(config.bytes),
            background: Background::new(config.max_processes),
            spawner: Spawner::new(&config, Arc::clone(&slots))?,
            slots,
            starts: FairSemaphore::new(config.starts, Share::All),
            alarm: Arc::default(),
            counters: Counters::default(),
            tasks: TaskTracker::new(),
            stopped: CancellationToken::new(),
            idle: Lock::default(),
            everyone: Lock::default(),
            code: CodeCache::default(),
            jails: Lock::default(),
            failed_starts: Lock::default(),
            config,
        }))
    }

    pub(crate) fn status(&self) -> Status {
        let occupancy = self.scheduler.occupancy();
        let (idle, spares, ahead) = {
            let idle = self.idle.lock();
            (idle.warm.len(), idle.spares.len(), idle.sent_ahead())
        };
        let (tiers, jail) = self.tiers();
        let zygotes = self.slots.zygotes();
        Status {
            processes: self.slots.taken(),
            workers: self.everyone().iter().filter(|process| process.jail().is_some() && process.is_live()).count(),
            starts_fail: self.starts_fail(),
            process_bytes: self.slots.bytes(),
            zygotes: zygotes.zygotes,
            zygote_bytes: zygotes.bytes,
            idle,
            spares,
            running: occupancy.running,
            waiting_in_ops: occupancy.admitted - occupancy.running,
            queued: occupancy.queued + ahead,
            jail: jail.in_force,
            jail_refused: merge_refusals(&jail.refused),
            tiers,
            totals: self.counters.totals(),
        }
    }

    /// Returns every process that has not been ended.
    pub(crate) fn everyone(&self) -> Vec<Arc<Process>> {
        self.everyone.lock().values().cloned().collect()
    }

    pub(crate) fn register(&self, process: Process) -> Arc<Process> {
        let process = Arc::new(process);
        self.everyone.lock().insert(process.pid, Arc::clone(&process));
        process
    }

    /// Ends a process.
    pub(crate) fn kill_process(&self, process: &Arc<Process>) {
        // Until the process is ended, nobody else can have its id.
        self.everyone.lock().remove(&process.pid);
        process.end();
    }

    /// Makes a worker idle, ready for its handler's next call.
    pub(crate) fn put_idle(self: &Arc<Self>, warm: Warm) {
        let refused = self.idle.lock().put(warm);
        if let Some(warm) = refused {
            let core = Arc::clone(self);
            // Ending a process takes a while, and the current call should not wait for it.
            self.tasks.spawn(async move { core.kill_process(&warm.process) });
        }
        self.slots.notify_idle();
    }

    /// Prevents further calls on a worker. An idle worker is ended now, a busy one after its call.
    pub(crate) fn retire_process(&self, process: &Arc<Process>) {
        process.retire();
        if self.idle.lock().remove(process) {
            self.kill_process(process);
        }
    }

    pub(crate) fn note_jail(&self, tier: Tier, report: &JailReport) {
        self.jails.lock()[tier].note(report);
    }

    /// Records whether a process could be started, or why not.
    pub(crate) fn note_start(&self, failed: Option<&PoolError>) {
        let mut starts = self.failed_starts.lock();
        *starts =
            failed.map_or_else(FailedStarts::default, |error| FailedStarts { reason: Some(error.to_string()), times: starts.times + 1 });
    }

    /// Returns why the last start failed, unless a start has succeeded since.
    pub(crate) fn starts_fail(&self) -> Option<String> {
        self.failed_starts.lock().reason.clone()
    }

    /// Returns whether so many starts have failed in a row that the next one is likely to fail.
    pub(crate) fn cannot_start(&self) -> bool {
        self.failed_starts.lock().times >= FailedStarts::MANY
    }

    /// Returns the status and jail report of each tier, and the jail report of all tiers.
    fn tiers(&self) -> (Vec<TierStatus>, JailReport) {
        let (everyone, jails) = (self.everyone(), self.jails.lock().clone());
        let (mut tiers, mut all) = (Vec::new(), Jails::default());
        for (tier, report) in jails.iter().filter_map(|(tier, jails)| Some((tier, jails.report()?))) {
            all.note(report);
            let processes = everyone.iter().filter(|process| process.tier == tier).count();
            tiers.push(TierStatus { tier, processes, jail: report.in_force.clone(), jail_refused: merge_refusals(&report.refused) });
        }
        (tiers, all.report().cloned().unwrap_or_default())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.stopped.cancel();
        self.alarm.stop();
    }
}

/// Returns `percent` of `whole`, at least 1.
fn percent_of(whole: usize, percent: usize) -> usize {
    (whole * percent / 100).max(1)
}

fn rules(config: &PoolConfig) -> Rules {
    Rules {
        running: config.running.max(1),
        processes: config.max_processes.max(1),
        caller_running: percent_of(config.running, config.caller_running_percent),
        caller_processes: percent_of(config.max_processes, config.caller_process_percent),
        background: config.running.max(1),
        quantum: config.quantum,
        queue: config.queue,
        caller_queue: percent_of(config.queue, config.caller_queue_percent),
        timeout: config.timeout,
        breaker: BreakerRules { stops: config.breaker_kills.max(1), window: config.breaker_window, hold: config.breaker_hold },
    }
}

#[cfg(test)]
mod tests;
