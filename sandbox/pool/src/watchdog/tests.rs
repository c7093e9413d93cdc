use std::{
    io::Write as _,
    process::{Child, Command},
};

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
async fn verdict(budget: Budget, pid: u32) -> (StopReason, BudgetReport) {
    let meter = Meter::new(Arc::default());
    meter.begin(budget);
    loop {
        match meter.inspect(pid, WatchdogRound::Tick, Duration::from_millis(50)) {
            Inspection::WithinBudget { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
            Inspection::Dead | Inspection::Free => panic!("the process is alive"),
            Inspection::Over(reason) => {
                assert!(matches!(meter.inspect(pid, WatchdogRound::Tick, Duration::ZERO), Inspection::Free), "one verdict is enough");
                return (reason, meter.finish());
            }
        }
    }
}

#[tokio::test]
async fn processor_time_belongs_to_the_process() {
    let busy = busy();
    let (reason, seen) = verdict(Budget { cpu_ms: 100, ..AMPLE }, busy.0.id()).await;
    assert_eq!(reason, StopReason::CpuTime { limit_ms: 100 });
    assert!(seen.cpu.is_some_and(|cpu| (150..400).contains(&cpu.as_millis())), "limit and grace: {seen:?}");
    assert!(!seen.within && seen.verdict == Some(reason));
}

/// A busy process that shares one core with others. `taskset` is part of every Linux.
fn busy_on_one_core() -> Busy {
    Busy(Command::new("taskset").args(["-c", "0", "/bin/sh", "-c", "while :; do :; done"]).spawn().unwrap())
}

#[tokio::test]
async fn slowed_process_makes_progress_under_full_load() {
    let others = [(); 3].map(|()| busy_on_one_core());
    let (slowed, meter) = (busy_on_one_core(), Meter::new(Arc::default()));
    let pid = slowed.0.id();
    if pace::lower(pid).and_then(|()| pace::raise(pid)).is_err() {
        writeln!(std::io::stdout(), "skipped: the pace of slowed processes: this system does not let one be raised again").unwrap();
        return;
    }
    let computed = async |turns: bool| {
        meter.begin(AMPLE);
        meter.slow_down();
        for tick in 0..30 {
            assert!(matches!(meter.inspect(pid, WatchdogRound::Tick, Duration::ZERO), Inspection::WithinBudget { .. }));
            if let Some(since) = meter.starved_since().filter(|_| turns && tick % 3 == 2) {
                meter.give_turn(pid, since);
            }
            tokio::time::sleep(TICK).await;
        }
        meter.finish().cpu.unwrap()
    };
    let (mut without, mut with) = (Duration::ZERO, Duration::ZERO);
    // If many processes want that core, each turn is short.
    for _ in 0..20 {
        without += computed(false).await;
        with += computed(true).await;
        if with >= without + TICK {
            break;
        }
    }
    assert!(with >= without + TICK, "{without:?} without turns, {with:?} with them");
    assert!(meter.restore_pace(pid));
    drop(others);
}

#[tokio::test]
async fn starvation_means_slowed_runnable_and_without_processor_time() {
    let idle = Busy(Command::new("sleep").arg("600").spawn().unwrap());
    let (pid, meter) = (idle.0.id(), Meter::new(Arc::default()));
    meter.begin(AMPLE);
    let inspect = || assert!(matches!(meter.inspect(pid, WatchdogRound::Tick, Duration::ZERO), Inspection::WithinBudget { .. }));
    inspect();
    assert_eq!(meter.starved_since(), None, "it is not slowed");
    meter.slow_down();
    inspect();
    let since = meter.starved_since();
    assert!(since.is_some());
    meter.set_parked(true);
    assert_eq!(meter.starved_since(), None, "it waits for the host");
    meter.set_parked(false);
    assert_eq!(meter.starved_since(), since);
    meter.slow_down();
    assert_eq!(meter.starved_since(), None, "its turn ends with the next tick");
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
    assert!(matches!(meter.inspect(std::process::id(), WatchdogRound::Tick, Duration::from_secs(60)), Inspection::WithinBudget { .. }));
    let seen = meter.finish();
    assert!(seen.verdict.is_none() && !seen.within);
    assert!(meter.is_free());
}

#[tokio::test]
async fn processor_time_of_a_waiting_call_is_read_less_often() {
    let (busy, meter) = (busy(), Meter::new(Arc::default()));
    let inspections = |parked| {
        meter.begin(AMPLE);
        meter.set_parked(parked);
        let checked = |_| {
            assert!(matches!(meter.inspect(busy.0.id(), WatchdogRound::Tick, Duration::ZERO), Inspection::WithinBudget { .. }));
            meter.watch.lock().as_ref().unwrap().first.is_some()
        };
        let first = (1..=PARKED_TICKS).map(checked).position(|seen| seen);
        meter.finish();
        first
    };
    assert_eq!((inspections(true), inspections(false)), (Some(PARKED_TICKS as usize - 1), Some(0)));
}

#[tokio::test(start_paused = true)]
async fn memory_is_measured_when_due_even_between_ticks_and_while_a_call_waits() {
    let (pid, meter) = (std::process::id(), Meter::new(Arc::default()));
    let own = Resident::of(pid).unwrap().bytes;
    for (parked, limit) in [(false, own + (64 << 20)), (true, own + (64 << 20)), (false, u64::MAX)] {
        let budget = Budget { rss_bytes: limit, ..AMPLE };
        meter.begin(budget);
        meter.set_parked(parked);
        let inspect = || match meter.inspect(pid, WatchdogRound::Between, Duration::ZERO) {
            Inspection::WithinBudget { own_bytes, next } => (own_bytes.is_some(), next),
            other => panic!("{other:?}"),
        };
        let (measured, next) = inspect();
        assert!(!measured && !next.is_zero(), "the call has just begun");
        tokio::time::advance(next).await;
        let (measured, next) = inspect();
        assert!(measured);
        assert!(limit == u64::MAX || next < TICK, "there is not so much left: {next:?}");
        assert_eq!(inspect(), (false, next));
        meter.finish();
    }
    meter.begin(Budget { rss_bytes: own / 2, ..AMPLE });
    tokio::time::advance(Duration::from_millis(4)).await;
    assert!(
        matches!(meter.inspect(pid, WatchdogRound::Between, Duration::ZERO), Inspection::Over(StopReason::Memory { .. })),
        "it is known to be full"
    );
}

#[test]
fn process_that_can_exceed_its_memory_before_the_next_tick_is_measured_now() {
    let of = |rss_bytes| Budget { rss_bytes, ..AMPLE };
    let full_at_the_tick = (0..1 << 20).map(|kib: u64| of(kib << 10)).find(|budget| budget.until_full(0) >= TICK).unwrap();
    assert_eq!(full_at_the_tick.until_full(0), TICK);
    for (budget, is_woken) in [(of(full_at_the_tick.rss_bytes - (4 << 10)), true), (full_at_the_tick, false), (AMPLE, false)] {
        let alarm = Arc::new(Alarm::default());
        Meter::new(Arc::clone(&alarm)).begin(budget);
        assert_eq!(alarm.is_woken(), is_woken, "{budget:?}");
    }
}

#[test]
fn budget_of_a_dropped_call_is_no_longer_in_force() {
    let alarm = Arc::new(Alarm::default());
    let meter = Meter::new(Arc::clone(&alarm));
    meter.begin(AMPLE);
    assert!(alarm.is_armed());
    drop(meter);
    assert!(!alarm.is_armed());
}

#[tokio::test]
async fn processor_time_is_known_between_two_measurements() {
    let meter = Meter::new(Arc::default());
    for inspections in 0..3 {
        meter.begin(AMPLE);
        (0..inspections).for_each(|_| drop(meter.inspect(std::process::id(), WatchdogRound::Tick, Duration::ZERO)));
        assert_eq!(meter.finish().cpu.is_some(), inspections > 1, "{inspections} inspections");
    }
}
