//! Turns for slowed calls, which run in the processor time that others leave free, so that they make
//! progress even if that is none.

use std::{thread::available_parallelism, time::Duration};

use tokio::time::Instant;

use crate::{budget::TICK, watchdog::Meter};

/// Share of all cores that slowed calls get together, however busy the others are.
const SHARE: f64 = 0.05;
/// Minimum of that share, in cores, for small machines.
const MIN_CORES: f64 = 0.2;

/// Counts the turns that are due. A turn is one core for one watchdog interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turns {
    per_tick: f64,
    due: f64,
}

impl Turns {
    pub(crate) fn for_this_machine() -> Self {
        Self::for_cores(available_parallelism().map_or(1, usize::from))
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of cores")]
    pub(crate) fn for_cores(cores: usize) -> Self {
        Self { per_tick: (cores as f64 * SHARE).max(MIN_CORES), due: 0.0 }
    }

    /// Runs one tick: the calls that have starved longest get the turns that are due.
    pub(crate) fn tick<'a>(&mut self, everyone: impl Iterator<Item = (u32, &'a Meter)>) {
        let (mut waiting, mut together) = (Vec::<(Instant, u32, &Meter)>::new(), Duration::ZERO);
        for (pid, meter) in everyone {
            together += meter.gained_while_slowed();
            waiting.extend(meter.starved_since().map(|since| (since, pid, meter)));
        }
        waiting.sort_unstable_by_key(|(since, ..)| *since);
        for (since, pid, meter) in waiting.into_iter().take(self.turns_due(together)) {
            meter.give_turn(pid, since);
        }
    }

    /// Returns how many turns to give in this tick, in whose last one slowed calls computed for `together` in the time that
    /// others left free. That time counts as part of their share, because a turn delays the others. The system divides it
    /// among the slowed calls, so each gets little of it if they are many. Unused turns are lost.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few")]
    fn turns_due(&mut self, together: Duration) -> usize {
        self.due = (self.due + self.per_tick - together.div_duration_f64(TICK)).max(0.0);
        let turns_due = self.due.trunc();
        self.due -= turns_due;
        turns_due as usize
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Child, Command},
        sync::Arc,
    };

    use super::*;
    use crate::{budget::Budget, watchdog_alarm::WatchdogRound};

    const AMPLE: Budget = Budget { wall_ms: 600_000, cpu_ms: 600_000, rss_bytes: 1 << 40 };

    struct Idle(Child);

    impl Drop for Idle {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[tokio::test]
    async fn longest_waiting_process_gets_the_next_turn() {
        let idle = [(); 2].map(|()| Idle(Command::new("sleep").arg("600").spawn().unwrap()));
        let pids = [idle[0].0.id(), idle[1].0.id()];
        let slowed = pids.map(|pid| {
            let meter = Meter::new(Arc::default());
            meter.begin(AMPLE);
            meter.slow_down();
            meter.inspect(pid, WatchdogRound::Tick, Duration::ZERO);
            meter
        });
        let since = || [slowed[0].starved_since(), slowed[1].starved_since()];
        let before = since();
        assert!(before[0].is_some() && before[0] < before[1], "both starve: {before:?}");
        let mut turns = Turns { per_tick: 0.5, due: 0.0 };
        turns.tick(pids.into_iter().zip(&slowed).rev());
        assert_eq!(since(), before, "none is due");
        turns.tick(pids.into_iter().zip(&slowed).rev());
        assert_ne!(since()[0], before[0]);
        assert_eq!(since()[1], before[1]);
    }

    #[test]
    fn slowed_processes_share_a_twentieth_of_the_cores() {
        for (cores, in_100_ticks) in [(1, 20), (2, 20), (4, 20), (8, 40), (64, 320)] {
            let mut turns = Turns::for_cores(cores);
            let had: usize = (0..100).map(|_| turns.turns_due(Duration::ZERO)).sum();
            assert!(had.abs_diff(in_100_ticks) <= 1, "{cores} cores: {had} turns in 100 ticks");
        }
    }

    #[test]
    fn time_that_others_leave_free_is_part_of_the_share() {
        let mut turns = Turns::for_cores(2);
        let mut had = |together| (0..100).map(|_| turns.turns_due(together)).sum::<usize>();
        assert_eq!((had(TICK / 5), had(TICK)), (0, 0));
        let half = had(TICK / 10);
        assert!(half.abs_diff(10) <= 1, "{half}");
    }
}
