//! The watchdog: what a process may use while a budget is in force, by the host's own clocks.
//!
//! A [`Meter`] holds the budget of the call that its worker runs. One task per pool, see
//! [`Alarm::ring`], looks at every meter each [`TICK`] while any budget is in force and ends a
//! process that is over: wall clock and processor time at limit + grace, resident memory at its
//! limit. The reason is kept in the meter, so that the call that finds its stream at an end
//! answers with it. Nothing of this listens to the worker.
//!
//! Processor time counts from the first tick that sees the call, so a worker gains at most one
//! tick and a call that is shorter costs no system call.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use tollhouse_pace as pace;
use tollhouse_protocol::StopReason;

use crate::{
    budget::{Budget, Seen, TICK},
    usage::{Usage, UsageError},
};

/// Ticks between two looks at a call that waits in ops.
const PARKED_TICKS: u32 = 5;

/// Processor time from one look to the next below which a slowed process starves.
const STARVED: Duration = TICK.checked_div(5).unwrap();

/// The budget that a process is under, if any.
#[derive(Debug)]
pub(crate) struct Meter {
    watch: Mutex<Option<Watch>>,
    /// Whether the process gets only what others leave.
    is_slowed: AtomicBool,
    alarm: Arc<Alarm>,
}

#[derive(Debug)]
struct Watch {
    budget: Budget,
    since: Instant,
    parked: bool,
    /// Whether the process is to get only what others leave, from the next look on.
    slow: bool,
    /// When its last turn beside others began, or the call.
    last_turn: Instant,
    ticks: u32,
    first: Option<Usage>,
    cpu: Duration,
    /// The part of that since the last look.
    gained: Duration,
    verdict: Option<StopReason>,
}

impl Meter {
    pub(crate) fn new(alarm: Arc<Alarm>) -> Self {
        Self { watch: Mutex::default(), is_slowed: AtomicBool::new(false), alarm }
    }

    /// Puts a budget in force.
    pub(crate) fn begin(&self, budget: Budget) {
        let since = Instant::now();
        *self.lock() = Some(Watch {
            budget,
            since,
            parked: false,
            slow: false,
            last_turn: since,
            ticks: 0,
            first: None,
            cpu: Duration::ZERO,
            gained: Duration::ZERO,
            verdict: None,
        });
        self.alarm.arm();
    }

    /// Says whether the call waits for the host, to be looked at less often.
    pub(crate) fn set_parked(&self, parked: bool) {
        if let Some(watch) = &mut *self.lock() {
            watch.parked = parked;
        }
    }

    /// Lets the process have what others leave of the processor, soon.
    pub(crate) fn slow_down(&self) {
        if let Some(watch) = &mut *self.lock() {
            watch.slow = true;
        }
    }

    /// Since when a slowed process has had no turn, if others leave it next to nothing.
    pub(crate) fn starves_since(&self) -> Option<Instant> {
        let starves = |watch: &&Watch| !watch.slow && !watch.parked && watch.verdict.is_none() && watch.gained < STARVED;
        let is_slowed = self.is_slowed.load(Ordering::Acquire);
        self.lock().as_ref().filter(starves).filter(|_| is_slowed).map(|watch| watch.last_turn)
    }

    /// Lets a process that [starves](Self::starves_since) have as much as others until the next look, if the system does.
    pub(crate) fn have_turn(&self, pid: u32, since: Instant) {
        if let Some(watch) = self.lock().as_mut().filter(|watch| watch.last_turn == since) {
            watch.last_turn = Instant::now();
            watch.slow = pace::raise(pid).is_ok();
        }
    }

    /// Lets a process that was slowed have as much as others again. False where the system does not: then it is to serve
    /// nobody else.
    pub(crate) fn regain_pace(&self, pid: u32) -> bool {
        let is_slowed = self.is_slowed.load(Ordering::Acquire) && pace::raise(pid).is_err();
        self.is_slowed.store(is_slowed, Ordering::Release);
        !is_slowed
    }

    /// Ends the budget.
    pub(crate) fn finish(&self) -> Seen {
        let Some(watch) = self.lock().take() else { return Seen::default() };
        self.alarm.disarm();
        let wall = watch.since.elapsed();
        let within = watch.verdict.is_none() && watch.budget.overrun(wall, watch.cpu, 0, Duration::ZERO).is_none();
        Seen { wall, cpu: watch.first.filter(|_| watch.ticks > 1).map(|_| watch.cpu), verdict: watch.verdict, within }
    }

    /// Whether no budget is in force.
    pub(crate) fn is_free(&self) -> bool {
        self.lock().is_none()
    }

    /// Looks at what the process uses. A reason to end it is kept for its call.
    pub(crate) fn look(&self, pid: u32, grace: Duration) -> Look {
        let mut watch = self.lock();
        let Some(watch) = watch.as_mut().filter(|watch| watch.verdict.is_none()) else { return Look::Well };
        if std::mem::take(&mut watch.slow) {
            match pace::lower(pid) {
                Ok(()) => self.is_slowed.store(true, Ordering::Release),
                Err(error) => tracing::warn!(%error, "a worker that computes for long could not be slowed"),
            }
        }
        let look = watch.look(pid, grace);
        if let Look::Over(reason) = &look {
            watch.verdict = Some(reason.clone());
        }
        look
    }

    fn lock(&self) -> MutexGuard<'_, Option<Watch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // A call that was dropped half-way never came to `finish`.
        self.finish();
    }
}

/// What the watchdog found.
#[derive(Debug)]
pub(crate) enum Look {
    Well,
    /// Its call reads what is left of the stream, and learns from that.
    Dead,
    Over(StopReason),
}

impl Watch {
    fn look(&mut self, pid: u32, grace: Duration) -> Look {
        self.ticks += 1;
        let wall = self.since.elapsed();
        let mut rss_bytes = 0;
        if !self.parked || self.ticks.is_multiple_of(PARKED_TICKS) {
            let now = match Usage::of(pid) {
                Ok(now) => now,
                Err(UsageError::Gone) => return Look::Dead,
                // A process that cannot be watched must not run.
                Err(UsageError::Unreadable) => return Look::Over(StopReason::Crashed),
            };
            let first = *self.first.get_or_insert(now);
            let cpu = now.cpu.saturating_sub(first.cpu);
            self.gained = cpu.saturating_sub(self.cpu);
            self.cpu = cpu;
            rss_bytes = now.rss_bytes;
        }
        self.budget.overrun(wall, self.cpu, rss_bytes, grace).map_or(Look::Well, Look::Over)
    }
}

/// How many budgets are in force; wakes the watchdog when there is a first.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    armed: AtomicUsize,
    first: Notify,
}

impl Alarm {
    /// Calls `look` each [`TICK`] while any budget is in force, until it says that it is over.
    pub(crate) async fn ring(&self, mut look: impl FnMut() -> bool) {
        loop {
            if self.armed.load(Ordering::Acquire) == 0 {
                self.first.notified().await;
            }
            tokio::time::sleep(TICK).await;
            if !look() {
                return;
            }
        }
    }

    fn arm(&self) {
        if self.armed.fetch_add(1, Ordering::AcqRel) == 0 {
            self.first.notify_one();
        }
    }

    fn disarm(&self) {
        self.armed.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    struct Busy(Child);

    impl Drop for Busy {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn busy() -> Busy {
        Busy(Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }

    const AMPLE: Budget = Budget { wall_ms: 600_000, cpu_ms: 600_000, rss_bytes: 1 << 40 };

    /// Looks until there is a verdict.
    async fn verdict(budget: Budget, pid: u32) -> (StopReason, Seen) {
        let meter = Meter::new(Arc::default());
        meter.begin(budget);
        loop {
            match meter.look(pid, Duration::from_millis(50)) {
                Look::Well => tokio::time::sleep(Duration::from_millis(10)).await,
                Look::Dead => panic!("it is alive"),
                Look::Over(reason) => {
                    assert!(matches!(meter.look(pid, Duration::ZERO), Look::Well), "one verdict is enough");
                    return (reason, meter.finish());
                }
            }
        }
    }

    #[tokio::test]
    async fn processor_time_is_the_process_s_own() {
        let busy = busy();
        let (reason, seen) = verdict(Budget { cpu_ms: 100, ..AMPLE }, busy.0.id()).await;
        assert_eq!(reason, StopReason::CpuTime { limit_ms: 100 });
        assert!(seen.cpu.is_some_and(|cpu| (150..400).contains(&cpu.as_millis())), "limit and grace: {seen:?}");
        assert!(!seen.within && seen.verdict == Some(reason));
    }

    /// One that has a core with others: `taskset` is in every Linux.
    fn busy_on_one_core() -> Busy {
        Busy(Command::new("taskset").args(["-c", "0", "/bin/sh", "-c", "while :; do :; done"]).spawn().unwrap())
    }

    #[tokio::test]
    #[expect(clippy::print_stdout, reason = "who is not judged is told")]
    async fn who_is_slowed_gets_on_by_its_turns_however_much_others_want() {
        let others = [(); 3].map(|()| busy_on_one_core());
        let (slowed, meter) = (busy_on_one_core(), Meter::new(Arc::default()));
        let pid = slowed.0.id();
        if pace::lower(pid).and_then(|()| pace::raise(pid)).is_err() {
            println!("not judged: this system does not let a process that was slowed have as much as others again");
            return;
        }
        let computed = async |turns: bool| {
            meter.begin(AMPLE);
            meter.slow_down();
            for tick in 0..30 {
                assert!(matches!(meter.look(pid, Duration::ZERO), Look::Well));
                if let Some(since) = meter.starves_since().filter(|_| turns && tick % 3 == 2) {
                    meter.have_turn(pid, since);
                }
                tokio::time::sleep(TICK).await;
            }
            meter.finish().cpu.unwrap()
        };
        let (without, with) = (computed(false).await, computed(true).await);
        assert!(with >= without + TICK, "{without:?} without turns, {with:?} with them");
        assert!(meter.regain_pace(pid));
        drop(others);
    }

    #[tokio::test]
    async fn who_starves_is_slowed_wants_to_compute_and_gets_nothing() {
        let idle = Busy(Command::new("sleep").arg("600").spawn().unwrap());
        let (pid, meter) = (idle.0.id(), Meter::new(Arc::default()));
        meter.begin(AMPLE);
        let look = || assert!(matches!(meter.look(pid, Duration::ZERO), Look::Well));
        look();
        assert_eq!(meter.starves_since(), None, "it is not slowed");
        meter.slow_down();
        look();
        let since = meter.starves_since();
        assert!(since.is_some());
        meter.set_parked(true);
        assert_eq!(meter.starves_since(), None, "it waits for the host");
        meter.set_parked(false);
        assert_eq!(meter.starves_since(), since);
        meter.slow_down();
        assert_eq!(meter.starves_since(), None, "it had its turn, which ends with the next look");
    }

    #[tokio::test]
    async fn resident_memory_and_wall_clock_have_their_limits() {
        let busy = busy();
        let (reason, _) = verdict(Budget { rss_bytes: 4_096, ..AMPLE }, busy.0.id()).await;
        assert_eq!(reason, StopReason::Memory { limit_bytes: 4_096 });
        let (reason, seen) = verdict(Budget { wall_ms: 100, ..AMPLE }, busy.0.id()).await;
        assert_eq!(reason, StopReason::WallTime { limit_ms: 100 });
        assert!(seen.wall >= Duration::from_millis(150));
    }

    #[tokio::test]
    async fn call_within_its_grace_is_answered_but_not_within_its_limits() {
        let meter = Meter::new(Arc::default());
        meter.begin(Budget { wall_ms: 10, ..AMPLE });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(matches!(meter.look(std::process::id(), Duration::from_secs(60)), Look::Well));
        let seen = meter.finish();
        assert!(seen.verdict.is_none() && !seen.within);
        assert!(meter.is_free());
    }

    #[tokio::test]
    async fn call_that_waits_is_looked_at_less_often() {
        let meter = Meter::new(Arc::default());
        meter.begin(Budget { rss_bytes: 4_096, ..AMPLE });
        meter.set_parked(true);
        let mut looks = (1..).map(|_| meter.look(std::process::id(), Duration::ZERO));
        assert_eq!(looks.position(|look| matches!(look, Look::Over(_))), Some(PARKED_TICKS as usize - 1));
        meter.begin(Budget { rss_bytes: 4_096, ..AMPLE });
        meter.set_parked(true);
        meter.set_parked(false);
        assert!(matches!(meter.look(std::process::id(), Duration::ZERO), Look::Over(_)));
    }

    #[tokio::test]
    async fn processor_time_is_known_between_two_looks() {
        let meter = Meter::new(Arc::default());
        for looks in 0..3 {
            meter.begin(AMPLE);
            (0..looks).for_each(|_| drop(meter.look(std::process::id(), Duration::ZERO)));
            assert_eq!(meter.finish().cpu.is_some(), looks > 1, "{looks} looks");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watchdog_looks_while_any_budget_is_in_force_and_no_longer() {
        let (alarm, looks) = (Arc::new(Alarm::default()), AtomicUsize::new(0));
        let rings = alarm.ring(|| looks.fetch_add(1, Ordering::Relaxed) < 100);
        let calls = async {
            let looks = async |ticks: u32| {
                looks.store(0, Ordering::Relaxed);
                tokio::time::sleep(ticks * TICK).await;
                looks.load(Ordering::Relaxed)
            };
            assert_eq!(looks(9).await, 0);
            let [one, other] = [(); 2].map(|()| Meter::new(Arc::clone(&alarm)));
            for _ in 0..2 {
                one.begin(AMPLE);
                tokio::time::sleep(TICK / 2).await;
                assert_eq!(looks(9).await, 9);
                other.begin(AMPLE);
                one.finish();
                assert_eq!(looks(9).await, 9);
                other.finish();
                looks(1).await;
                assert_eq!(looks(9).await, 0);
            }
            one.begin(AMPLE);
            drop(one);
            looks(2).await;
            assert_eq!(looks(9).await, 0, "nobody will end that budget");
            other.begin(AMPLE);
            looks(110).await
        };
        let ((), looked) = tokio::join!(rings, calls);
        assert_eq!(looked, 101, "until it says that it is over");
    }
}
