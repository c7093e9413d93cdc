//! Turns of calls that compute for long and have what others leave of the processor: where that is nothing, they get on all
//! the same.

use std::thread::available_parallelism;

use tokio::time::Instant;

use crate::process::Process;

/// What such calls have of the cores together, however much others want of them.
const SHARE: f64 = 0.05;
/// The same, in cores, where there are few.
const LEAST_CORES: f64 = 0.2;

/// How many turns are due, each a core's from one look of the watchdog to the next.
#[derive(Debug)]
pub(crate) struct Turns {
    each_tick: f64,
    due: f64,
}

impl Turns {
    pub(crate) fn of_this_machine() -> Self {
        Self::of_cores(available_parallelism().map_or(1, usize::from))
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of cores")]
    fn of_cores(cores: usize) -> Self {
        Self { each_tick: (cores as f64 * SHARE).max(LEAST_CORES), due: 0.0 }
    }

    /// One tick: whoever waits for longest has its turn, if one is due.
    pub(crate) fn tick<'a>(&mut self, everyone: impl Iterator<Item = &'a Process>) {
        let waiting = everyone.filter_map(|process| Some((process.link.meter.starves_since()?, process)));
        let mut waiting: Vec<(Instant, &Process)> = waiting.collect();
        waiting.sort_unstable_by_key(|(since, _)| *since);
        for (since, process) in waiting.into_iter().take(self.now()) {
            process.link.meter.have_turn(process.pid, since);
        }
    }

    /// How many have a turn in this tick. None is saved up for later.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few")]
    fn now(&mut self) -> usize {
        self.due += self.each_tick;
        let now = self.due.trunc();
        self.due -= now;
        now as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_of_the_cores_is_theirs_and_no_less_than_a_fifth_of_one() {
        for (cores, in_100_ticks) in [(1, 20), (2, 20), (4, 20), (8, 40), (64, 320)] {
            let mut turns = Turns::of_cores(cores);
            let had: usize = (0..100).map(|_| turns.now()).sum();
            assert!(had.abs_diff(in_100_ticks) <= 1, "{cores} cores: {had} turns in 100 looks");
        }
    }
}
