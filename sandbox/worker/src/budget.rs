//! The watchdog: stops code that exceeds its processor time, wall-clock time, or memory.
//!
//! The part that detects an exceeded limit records the reason in [`Budget::stop`]. The first reason
//! stays. From then on the watchdog asks the engine every 10 ms to terminate, because a single
//! request can be lost. Code that still runs after [`TERMINATE_TIMEOUT`] loops inside one native
//! function (`indexOf` on an array-like of length 2^53), which no engine can interrupt. The
//! watchdog then reports to the host itself and ends the process. The engine cannot interrupt a
//! schema check either, so a schema that exceeds its limits ends the process at once.
//!
//! Invariant: once [`Budget::reason`] is set, this process serves nothing anymore. `worker::run`
//! exits on it, and [`Budget::arm`] asserts it.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use deno_core::v8::IsolateHandle;
use tollhouse_protocol::{Limits, LoadFault, Outcome, Side, Spent, StopReason, ToHost};

use crate::{
    clock::{ThreadClock, monotonic_ns},
    host::{Lifeline, exit_now},
};

/// Interval between two termination requests.
const TERMINATE_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time for the engine to end stopped code.
const TERMINATE_TIMEOUT: Duration = Duration::from_millis(100);
/// Longest sleep of the watchdog while code runs. Bounds how late it sees the next, shorter limit.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Shortest sleep of the watchdog, so that it does not spin near a limit.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// Number of idle sleeps after which the watchdog waits to be woken.
const IDLE_ROUNDS: u32 = 10;

const NANOS_PER_MS: u64 = 1_000_000;

/// The work that runs under a budget. It decides how a stop is reported to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Load,
    Call,
}

/// The current use of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaActivity {
    /// Checks whether a value is valid.
    Checking(Side),
    /// Lists the problems of a value that is known to be invalid.
    Listing(Side),
}

impl SchemaActivity {
    /// All variants, at the index that [`SchemaActivity::number`] gives, from 1. The number 0 means no
    /// schema.
    const ALL: [Self; 4] =
        [Self::Checking(Side::Input), Self::Checking(Side::Output), Self::Listing(Side::Input), Self::Listing(Side::Output)];

    fn number(self) -> u8 {
        match self {
            Self::Checking(Side::Input) => 1,
            Self::Checking(Side::Output) => 2,
            Self::Listing(Side::Input) => 3,
            Self::Listing(Side::Output) => 4,
        }
    }
}

/// Time limits of the running call, and why it was stopped. Shared by both threads.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Processor clock of the limited thread, once it is watched.
    clock: OnceLock<ThreadClock>,
    lifeline: Lifeline,
    loading: AtomicBool,
    /// The current [`SchemaActivity::number`], or 0.
    activity: AtomicU8,
    started_cpu_ns: AtomicU64,
    armed: AtomicBool,
    cpu_deadline_ns: AtomicU64,
    cpu_ms: AtomicU64,
    wall_deadline_ns: AtomicU64,
    wall_ms: AtomicU64,
    limits: Mutex<Limits>,
    stopped: AtomicBool,
    reason: Mutex<Option<StopReason>>,
    paused: AtomicBool,
    watchdog: OnceLock<Thread>,
    isolate: OnceLock<IsolateHandle>,
}

impl Budget {
    /// Creates a budget for the work of one thread.
    pub(crate) fn new(lifeline: Lifeline) -> Arc<Self> {
        Arc::new(Self {
            clock: OnceLock::new(),
            lifeline,
            loading: AtomicBool::new(true),
            activity: AtomicU8::new(0),
            started_cpu_ns: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            cpu_deadline_ns: AtomicU64::new(0),
            cpu_ms: AtomicU64::new(0),
            wall_deadline_ns: AtomicU64::new(0),
            wall_ms: AtomicU64::new(0),
            limits: Mutex::default(),
            stopped: AtomicBool::new(false),
            reason: Mutex::new(None),
            paused: AtomicBool::new(false),
            watchdog: OnceLock::new(),
            isolate: OnceLock::new(),
        })
    }

    /// Starts the watchdog for `isolate`, which runs on the calling thread.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(crate) fn watch(self: &Arc<Self>, isolate: IsolateHandle) -> std::io::Result<()> {
        let _ = self.clock.set(ThreadClock::current());
        let _ = self.isolate.set(isolate);
        let budget = Arc::clone(self);
        let handle = thread::Builder::new().name("watchdog".into()).stack_size(64 << 10).spawn(move || budget.watch_loop())?;
        let _ = self.watchdog.set(handle.thread().clone());
        Ok(())
    }

    /// Limits the work that starts now. `cpu_ns` is the current reading of the thread's clock.
    pub(crate) fn arm(&self, phase: Phase, limits: Limits, cpu_ns: u64, now_ns: u64) {
        assert!(!self.stopped(), "a stopped worker runs nothing");
        let limits = if phase == Phase::Load { limits.of_load() } else { limits };
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        self.loading.store(phase == Phase::Load, Ordering::Relaxed);
        self.started_cpu_ns.store(cpu_ns, Ordering::Relaxed);
        self.cpu_ms.store(limits.cpu_ms, Ordering::Relaxed);
        self.wall_ms.store(limits.wall_ms, Ordering::Relaxed);
        self.cpu_deadline_ns.store(cpu_ns.saturating_add(limits.cpu_ms.saturating_mul(NANOS_PER_MS)), Ordering::Relaxed);
        self.wall_deadline_ns.store(now_ns.saturating_add(limits.wall_ms.saturating_mul(NANOS_PER_MS)), Ordering::Relaxed);
        self.armed.store(true, Ordering::SeqCst);
        if self.paused.load(Ordering::SeqCst)
            && let Some(watchdog) = self.watchdog.get()
        {
            watchdog.unpark();
        }
    }

    /// Returns the processor time of the watched thread, or 0 before it is watched.
    fn cpu_ns(&self) -> u64 {
        self.clock.get().map_or(0, |clock| clock.read_ns())
    }

    /// Attributes usage to the schema of `side` until the returned value is dropped.
    pub(crate) fn checking(&self, side: Side) -> CheckGuard<'_> {
        self.begin(SchemaActivity::Checking(side))
    }

    /// Attributes usage to the schema of `side` while it lists problems, for at most `cpu_ms`,
    /// until the returned value is dropped.
    pub(crate) fn listing(&self, side: Side, cpu_ms: u64) -> CheckGuard<'_> {
        let listing = self.begin(SchemaActivity::Listing(side));
        let deadline_ns = self.cpu_ns().saturating_add(cpu_ms.saturating_mul(NANOS_PER_MS));
        self.cpu_deadline_ns.store(listing.cpu_deadline_ns.min(deadline_ns), Ordering::SeqCst);
        listing
    }

    fn begin(&self, activity: SchemaActivity) -> CheckGuard<'_> {
        let cpu_deadline_ns = self.cpu_deadline_ns.load(Ordering::SeqCst);
        CheckGuard { budget: self, before: self.activity.swap(activity.number(), Ordering::SeqCst), cpu_deadline_ns }
    }

    fn activity(&self) -> Option<SchemaActivity> {
        SchemaActivity::ALL.into_iter().find(|activity| activity.number() == self.activity.load(Ordering::SeqCst))
    }

    /// Stops the work because a schema needs more memory than `limit_bytes`.
    pub(crate) fn stop_schema(&self, limit_bytes: u64) {
        match self.activity() {
            Some(SchemaActivity::Checking(side)) => self.stop(StopReason::SchemaMemory { side, limit_bytes }),
            Some(SchemaActivity::Listing(side)) => self.stop(StopReason::Unlisted { side }),
            None => self.stop(StopReason::Memory { limit_bytes }),
        }
    }

    /// Ends the process because it has used all its memory. Blames the schema that is at work, if
    /// any.
    pub(crate) fn end_exhausted(&self) -> ! {
        let limits = *self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        // This thread may be reporting a stop already.
        if let Some(reason) = self.reason() {
            exit_now(reason.exit_status(&limits));
        }
        self.stop_schema(limits.rss_bytes);
        self.end_process()
    }

    /// Ends the limits: nothing runs anymore.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    /// Stops the running work for `reason`. If it is already being stopped, the first reason stays.
    pub(crate) fn stop(&self, reason: StopReason) {
        {
            let mut held = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            held.get_or_insert(reason);
        }
        self.stopped.store(true, Ordering::SeqCst);
        self.terminate();
        if let Some(watchdog) = self.watchdog.get() {
            watchdog.unpark();
        }
    }

    /// Returns whether anything has been stopped. The process then ends soon.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Returns why the work was stopped, if it was.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        if !self.stopped() {
            return None;
        }
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports to the host why the work was stopped, and ends the process. For use if the main thread
    /// cannot.
    pub(crate) fn end_process(&self) -> ! {
        let reason = self.reason().unwrap_or(StopReason::Crashed);
        let status = reason.exit_status(&self.limits.lock().unwrap_or_else(PoisonError::into_inner));
        let message = if self.loading.load(Ordering::Relaxed) {
            ToHost::Loaded(Err(LoadFault::Stopped(reason)))
        } else {
            let cpu_us = self.cpu_ns().saturating_sub(self.started_cpu_ns.load(Ordering::Relaxed)) / 1_000;
            ToHost::Done { outcome: Outcome::Stopped(reason), spent: Spent { cpu_us, ..Spent::default() } }
        };
        self.lifeline.final_message(&message, status)
    }

    /// Returns the time until the wall limit, and stops the call if none is left.
    pub(crate) fn wall_left(&self) -> Duration {
        let remaining = self.wall_deadline_ns.load(Ordering::Relaxed).saturating_sub(monotonic_ns());
        if remaining == 0 {
            self.stop(StopReason::WallTime { limit_ms: self.wall_ms.load(Ordering::Relaxed) });
        }
        Duration::from_nanos(remaining)
    }

    fn terminate(&self) {
        if let Some(isolate) = self.isolate.get() {
            isolate.terminate_execution();
        }
    }

    fn watch_loop(&self) {
        let mut idle = 0;
        let mut stopped_at_ns = None;
        loop {
            if self.stopped() {
                let stopped_at_ns = *stopped_at_ns.get_or_insert_with(monotonic_ns);
                let since = monotonic_ns() - stopped_at_ns;
                if self.activity().is_some() || Duration::from_nanos(since) > TERMINATE_TIMEOUT {
                    self.end_process();
                }
                self.terminate();
                thread::park_timeout(TERMINATE_INTERVAL);
            } else if self.armed.load(Ordering::SeqCst) {
                idle = 0;
                thread::park_timeout(self.check());
            } else if idle < IDLE_ROUNDS {
                idle += 1;
                thread::park_timeout(LONGEST_SLEEP);
            } else {
                self.paused.store(true, Ordering::SeqCst);
                if !self.armed.load(Ordering::SeqCst) && !self.stopped() {
                    thread::park();
                }
                self.paused.store(false, Ordering::SeqCst);
                idle = 0;
            }
        }
    }

    /// Stops work that is over its limits. Otherwise returns for how long no limit can be exceeded.
    fn check(&self) -> Duration {
        let cpu_left = self.cpu_deadline_ns.load(Ordering::Relaxed).saturating_sub(self.cpu_ns());
        let wall_left = self.wall_deadline_ns.load(Ordering::Relaxed).saturating_sub(monotonic_ns());
        // The call may have ended, and another begun, while the clocks were read. Deadlines only
        // move forward, so a stale one can at worst look exceeded. Look again before acting.
        if cpu_left == 0 || wall_left == 0 {
            return self.confirm();
        }
        Duration::from_nanos(cpu_left.min(wall_left)).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    fn confirm(&self) -> Duration {
        // Read first, because a listing that ends meanwhile removes its deadline.
        let activity = self.activity();
        let (cpu, wall) = (self.cpu_deadline_ns.load(Ordering::SeqCst), self.wall_deadline_ns.load(Ordering::SeqCst));
        let (cpu_over, wall_over) = (self.cpu_ns() >= cpu, monotonic_ns() >= wall);
        let same = self.cpu_deadline_ns.load(Ordering::SeqCst) == cpu && self.wall_deadline_ns.load(Ordering::SeqCst) == wall;
        if !same || !self.armed.load(Ordering::SeqCst) {
            return SHORTEST_SLEEP;
        }
        let limit_ms = self.cpu_ms.load(Ordering::Relaxed);
        match activity {
            Some(SchemaActivity::Listing(side)) if cpu_over || wall_over => self.stop(StopReason::Unlisted { side }),
            Some(SchemaActivity::Checking(side)) if cpu_over => self.stop(StopReason::SchemaTime { side, limit_ms }),
            None if cpu_over => self.stop(StopReason::CpuTime { limit_ms }),
            _ if wall_over => self.stop(StopReason::WallTime { limit_ms: self.wall_ms.load(Ordering::Relaxed) }),
            _ => {}
        }
        SHORTEST_SLEEP
    }
}

/// Marks a schema as in use. Dropping it restores the previous activity and deadline.
pub(crate) struct CheckGuard<'a> {
    budget: &'a Budget,
    before: u8,
    cpu_deadline_ns: u64,
}

impl Drop for CheckGuard<'_> {
    fn drop(&mut self) {
        self.budget.cpu_deadline_ns.store(self.cpu_deadline_ns, Ordering::SeqCst);
        self.budget.activity.store(self.before, Ordering::SeqCst);
    }
}
