//! Measures whether the machine has idle processor time.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::lock::Lock;

/// Fraction of the cores above which the machine counts as busy. Using the rest still slows others, who compete for
/// caches and scheduling.
const BUSY: f64 = 0.6;

/// Minimum interval over which use is measured.
const SPAN: Duration = Duration::from_millis(100);

/// The cores that this process may use, and how busy they are.
#[derive(Debug)]
pub(super) struct Machine {
    cores: f64,
    last: Lock<Last>,
}

#[derive(Debug)]
struct Last {
    at: Option<Instant>,
    used: Used,
    busy: bool,
}

/// Processor time since the machine started, summed over all cores, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    busy: u64,
    all: u64,
    cores: usize,
}

impl Machine {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        Self { cores, last: Lock::new(Last { at: None, used: Used::default(), busy: true }) }
    }

    /// A machine with a fixed number of cores and a fixed load.
    #[cfg(test)]
    pub(super) fn fixed(cores: f64, busy: bool) -> Self {
        let far = Instant::now() + Duration::from_secs(1 << 20);
        Self { cores, last: Lock::new(Last { at: Some(far), used: Used::default(), busy }) }
    }

    pub(super) fn cores(&self) -> f64 {
        self.cores
    }

    /// Returns whether the machine was busy in the last interval, or true if that is unknown.
    pub(super) fn is_busy(&self) -> bool {
        let mut last = self.last.lock();
        if last.at.is_some_and(|at| at.elapsed() < SPAN) {
            return last.busy;
        }
        let used = fs::read_to_string("/proc/stat").ok().and_then(|text| Used::read(&text));
        let before = last.at.replace(Instant::now()).map(|_| last.used);
        last.used = used.unwrap_or_default();
        last.busy = before.zip(used).and_then(|(before, used)| used.since(&before)).is_none_or(|cores| cores >= BUSY * self.cores);
        last.busy
    }
}

impl Used {
    /// Reads `/proc/stat` (proc_stat(5)).
    fn read(text: &str) -> Option<Self> {
        let cores = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        let ticks: Vec<u64> =
            text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        // Guest time is already included in user time. Niced time, for example of throttled workers, counts as idle because it
        // takes nothing from others.
        let (all, idle) = (ticks.get(..8)?.iter().sum::<u64>(), ticks[1] + ticks[3] + ticks[4]);
        Some(Self { busy: all.saturating_sub(idle), all, cores })
    }

    /// Returns the number of busy cores since `before`.
    fn since(&self, before: &Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.busy.saturating_sub(before.busy) as f64 / all as f64 * self.cores as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_read_as_busy_cores() {
        let first = Used::read("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1\ncpu1 1\nintr 1\n").unwrap();
        let then = Used::read("cpu  165 0 110 720 105 0 0 0 60 0\ncpu0 1\ncpu1 1\n").unwrap();
        let slowed = Used::read("cpu  100 75 100 720 105 0 0 0 60 0\ncpu0 1\ncpu1 1\n").unwrap();
        assert_eq!(first, Used { busy: 200, all: 1_000, cores: 2 });
        assert_eq!(then.since(&first), Some(1.5));
        assert_eq!(slowed.since(&first), Some(0.0), "what slowed workers take is left over");
        assert_eq!(first.since(&then), None, "a clock that went back measures nothing");
        assert_eq!((Used::read(""), Used::read("cpu  1 2")), (None, None));
    }

    #[test]
    fn machine_is_measured_at_most_once_per_interval() {
        let machine = Machine::new();
        assert!(machine.is_busy(), "nothing is known yet");
        let first = machine.last.lock().at;
        machine.is_busy();
        assert_eq!(machine.last.lock().at, first);
    }
}
