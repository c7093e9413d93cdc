//! The watchdog: enforces budgets by the host's own clocks.
//!
//! A [`Meter`] holds the budget of the call that its worker runs. One thread per pool (see
//! [`Alarm::run`]) inspects every meter each [`TICK`] while any budget is in force, and ends a
//! process that is over its budget: wall clock and processor time at limit + grace, resident memory
//! at its limit. The closer a process is to its memory limit, the sooner its memory is measured
//! again (see [`Budget::until_full`]). The meter stores the reason, so that the call finds it at the
//! end of its stream. Nothing here trusts the worker.
//!
//! Processor time counts from the first tick that sees the call. So a worker gains at most one
//! tick, and a shorter call costs no system call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tollhouse_fair::lock::Lock;
use tollhouse_pace as pace;
use tollhouse_protocol::StopReason;

use crate::{
    budget::{Budget, BudgetReport, TICK},
    usage::{Resident, Usage, UsageError},
    watchdog_alarm::{Alarm, WatchdogRound},
};

/// Ticks between two measurements of processor time for a call that waits in ops.
const PARKED_TICKS: u32 = 5;

/// Processor time between two measurements below which a slowed process starves.
const STARVED: Duration = TICK.checked_div(5).unwrap();

/// The budget of a process, if one is in force.
#[derive(Debug)]
pub(crate) struct Meter {
    watch: Lock<Option<WatchedBudget>>,
    /// Whether the process has low priority.
    is_slowed: AtomicBool,
    /// Resident memory of the process at the last measurement, in bytes.
    resident: AtomicU64,
    alarm: Arc<Alarm>,
}

#[derive(Debug)]
struct WatchedBudget {
    budget: Budget,
    since: Instant,
    parked: bool,
    /// Whether the process gets low priority in the next round.
    slow: bool,
    /// Whether the process has a turn at normal priority, which ends with the next tick.
    has_turn: bool,
    /// Whether it had one before the last tick, so `gained` has that time.
    had_turn: bool,
    /// When its last turn at normal priority began, or when the call began if there was no turn.
    last_turn: Instant,
    ticks: u32,
    /// When its memory must be measured next.
    memory_due: Instant,
    first: Option<Usage>,
    cpu: Duration,
    /// The part of `cpu` since the previous measurement.
    gained: Duration,
    verdict: Option<StopReason>,
}

impl Meter {
    pub(crate) fn new(alarm: Arc<Alarm>) -> Self {
        Self { watch: Lock::default(), is_slowed: AtomicBool::new(false), resident: AtomicU64::new(0), alarm }
    }

    /// Puts a budget in force.
    pub(crate) fn begin(&self, budget: Budget) {
        let since = Instant::now();
        let until_full = budget.until_full(self.resident.load(Ordering::Relaxed));
        *self.watch.lock() = Some(WatchedBudget {
            budget,
            since,
            parked: false,
            slow: false,
            has_turn: false,
            had_turn: false,
            last_turn: since,
            ticks: 0,
            memory_due: since + until_full,
            first: None,
            cpu: Duration::ZERO,
            gained: Duration::ZERO,
            verdict: None,
        });
        self.alarm.arm();
        if until_full < TICK {
            self.alarm.wake();
        }
    }

    /// Sets whether the call waits for the host. Such a call is measured less often.
    pub(crate) fn set_parked(&self, parked: bool) {
        if let Some(watch) = &mut *self.watch.lock() {
            watch.parked = parked;
        }
    }

    /// Lowers the priority of the process, in a round of the watchdog that starts now.
    pub(crate) fn slow_down(&self) {
        if let Some(watch) = &mut *self.watch.lock() {
            watch.slow = true;
        }
        self.alarm.wake();
    }

    /// Returns since when a slowed process has had no turn, if it gets almost no processor time.
    pub(crate) fn starved_since(&self) -> Option<Instant> {
        let is_slow = |watch: &WatchedBudget| !watch.slow && !watch.has_turn;
        let starves = |watch: &&WatchedBudget| is_slow(watch) && !watch.parked && watch.verdict.is_none() && watch.gained < STARVED;
        let is_slowed = self.is_slowed.load(Ordering::Acquire);
        self.watch.lock().as_ref().filter(starves).filter(|_| is_slowed).map(|watch| watch.last_turn)
    }

    /// Returns the processor time that a slowed process got at its low priority between the last two measurements.
    pub(crate) fn gained_while_slowed(&self) -> Duration {
        if !self.is_slowed.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.watch.lock().as_ref().filter(|watch| !watch.had_turn).map_or(Duration::ZERO, |watch| watch.gained)
    }

    /// Gives a [starving](Self::starved_since) process normal priority until the next tick, if the
    /// system permits it.
    pub(crate) fn give_turn(&self, pid: u32, since: Instant) {
        if let Some(watch) = self.watch.lock().as_mut().filter(|watch| watch.last_turn == since) {
            watch.last_turn = Instant::now();
            watch.has_turn = pace::raise(pid).is_ok();
        }
    }

    /// Restores the normal priority of a slowed process. Returns false if the system refuses that;
    /// the process must then serve no other call.
    pub(crate) fn restore_pace(&self, pid: u32) -> bool {
        let is_slowed = self.is_slowed.load(Ordering::Acquire) && pace::raise(pid).is_err();
        self.is_slowed.store(is_slowed, Ordering::Release);
        !is_slowed
    }

    /// Ends the budget, and returns the measurements.
    pub(crate) fn finish(&self) -> BudgetReport {
        let Some(watch) = self.watch.lock().take() else { return BudgetReport::default() };
        self.alarm.disarm();
        let wall = watch.since.elapsed();
        let within = watch.verdict.is_none() && watch.budget.overrun(wall, watch.cpu, 0, Duration::ZERO).is_none();
        BudgetReport { wall, cpu: watch.first.filter(|_| watch.ticks > 1).map(|_| watch.cpu), verdict: watch.verdict, within }
    }

    /// Returns whether no budget is in force.
    pub(crate) fn is_free(&self) -> bool {
        self.watch.lock().is_none()
    }

    /// Measures the process. If it is over its budget, stores the reason for its call.
    pub(crate) fn inspect(&self, pid: u32, round: WatchdogRound, grace: Duration) -> Inspection {
        let mut watch = self.watch.lock();
        let Some(watch) = watch.as_mut().filter(|watch| watch.verdict.is_none()) else { return Inspection::Free };
        let turn_ends = round == WatchdogRound::Tick && std::mem::take(&mut watch.has_turn);
        if round == WatchdogRound::Tick {
            watch.had_turn = turn_ends;
        }
        if std::mem::take(&mut watch.slow) || turn_ends {
            match pace::lower(pid) {
                Ok(()) => self.is_slowed.store(true, Ordering::Release),
                Err(error) => tracing::warn!(%error, "a worker that computes for a long time could not be slowed down"),
            }
        }
        let inspect = watch.inspect(pid, round, grace, &self.resident);
        if let Inspection::Over(reason) = &inspect {
            watch.verdict = Some(reason.clone());
        }
        inspect
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // A call that was dropped midway never reached `finish`.
        self.finish();
    }
}

/// The result of an inspection by the watchdog.
#[derive(Debug)]
pub(crate) enum Inspection {
    /// No budget is in force, or the process is already being ended.
    Free,
    /// Within its budget. Contains its private memory, if that was measured, and the time until the
    /// next measurement.
    WithinBudget {
        own_bytes: Option<u64>,
        next: Duration,
    },
    /// The process is gone. Its call reads the rest of the stream, and learns the reason from that.
    Dead,
    Over(StopReason),
}

impl WatchedBudget {
    fn inspect(&mut self, pid: u32, round: WatchdogRound, grace: Duration, resident: &AtomicU64) -> Inspection {
        match self.measure(pid, round) {
            Ok(measured) => {
                let rss_bytes = measured.map_or(0, |measured| measured.bytes);
                if measured.is_some() {
                    resident.store(rss_bytes, Ordering::Relaxed);
                    self.memory_due = Instant::now() + self.budget.until_full(rss_bytes);
                }
                let next = self.memory_due.saturating_duration_since(Instant::now());
                let well = Inspection::WithinBudget { own_bytes: measured.map(|measured| measured.own_bytes), next };
                self.budget.overrun(self.since.elapsed(), self.cpu, rss_bytes, grace).map_or(well, Inspection::Over)
            }
            Err(UsageError::Gone) => Inspection::Dead,
            // A process that cannot be watched must not run.
            Err(UsageError::Unreadable) => Inspection::Over(StopReason::Crashed),
        }
    }

    /// Measures what is due: processor time if the round is a tick, memory if its time has come.
    fn measure(&mut self, pid: u32, round: WatchdogRound) -> Result<Option<Resident>, UsageError> {
        if round == WatchdogRound::Tick {
            self.ticks += 1;
            if !self.parked || self.ticks.is_multiple_of(PARKED_TICKS) {
                let now = Usage::of(pid)?;
                let first = *self.first.get_or_insert(now);
                let cpu = now.cpu.saturating_sub(first.cpu);
                self.gained = cpu.saturating_sub(self.cpu);
                self.cpu = cpu;
            }
        }
        if Instant::now() < self.memory_due { Ok(None) } else { Resident::of(pid).map(Some) }
    }
}

#[cfg(test)]
mod tests;
