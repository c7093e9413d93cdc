//! The budget of a process for one task: a call, or the load of a bundle.

use std::time::Duration;

use tollhouse_protocol::{Limits, StopReason};

/// Interval between two ticks of the watchdog.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Longest interval between two memory measurements of a process that is far from its limit.
const MAX_MEMORY_INTERVAL: Duration = Duration::from_millis(250);

/// Assumed maximum growth of a process, in bytes per microsecond: 2 GiB/s, the speed of filling
/// fresh pages.
const GROWTH_BYTES_PER_US: u64 = 2_148;
/// How far a process can exceed its limit before a timely measurement detects it, in bytes. The same
/// amount again is reserved for a late one.
const OVERSHOOT_BYTES: u64 = 8 << 20;

/// A budget that is in force.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) wall_ms: u64,
    pub(crate) cpu_ms: u64,
    pub(crate) rss_bytes: u64,
}

impl Budget {
    /// Returns the budget of one call.
    pub(crate) fn of_call(limits: &Limits) -> Self {
        Self { wall_ms: limits.wall_ms, cpu_ms: limits.cpu_ms, rss_bytes: limits.rss_bytes }
    }

    /// Returns the budget for loading a bundle.
    pub(crate) fn of_load(limits: &Limits) -> Self {
        Self { wall_ms: limits.load_wall_ms, cpu_ms: limits.load_cpu_ms, rss_bytes: limits.rss_bytes }
    }

    /// Returns how long the memory of a process that holds `rss_bytes` can go unchecked.
    pub(crate) fn until_full(&self, rss_bytes: u64) -> Duration {
        let remaining = self.rss_bytes.saturating_sub(rss_bytes).saturating_add(OVERSHOOT_BYTES);
        Duration::from_micros(remaining / GROWTH_BYTES_PER_US).min(MAX_MEMORY_INTERVAL)
    }

    /// Returns which part of the budget is exceeded. `grace` is added to the limits on time.
    pub(crate) fn overrun(&self, wall: Duration, cpu: Duration, rss_bytes: u64, grace: Duration) -> Option<StopReason> {
        if rss_bytes > self.rss_bytes {
            return Some(StopReason::Memory { limit_bytes: self.rss_bytes });
        }
        if cpu > Duration::from_millis(self.cpu_ms) + grace {
            return Some(StopReason::CpuTime { limit_ms: self.cpu_ms });
        }
        (wall > Duration::from_millis(self.wall_ms) + grace).then_some(StopReason::WallTime { limit_ms: self.wall_ms })
    }
}

/// Measurements of a task, taken when its budget ended.
#[derive(Debug, Default)]
pub(crate) struct BudgetReport {
    pub(crate) wall: Duration,
    /// Processor time. `None` if the call ended before the watchdog's second tick.
    pub(crate) cpu: Option<Duration>,
    /// Why the watchdog ended the process, if it did.
    pub(crate) verdict: Option<StopReason>,
    /// Whether the call ended within its limits, without the grace.
    pub(crate) within: bool,
}

impl BudgetReport {
    /// Returns an upper bound of the processor time used. It adds one tick before the watchdog's
    /// first measurement and one after its last.
    pub(crate) fn cpu_at_most(&self) -> Duration {
        self.cpu.map_or(self.wall, |cpu| self.wall.min(cpu + 2 * TICK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_overrun_beyond_its_limits_and_not_at_them() {
        let budget = Budget { wall_ms: 300, cpu_ms: 100, rss_bytes: 4_096 };
        let [wall, cpu, grace, more] = [350, 150, 50, 1].map(Duration::from_millis);
        assert_eq!(budget.overrun(wall, cpu, 4_096, grace), None);
        assert_eq!(budget.overrun(wall + more, cpu, 4_096, grace), Some(StopReason::WallTime { limit_ms: 300 }));
        assert_eq!(budget.overrun(wall, cpu + more, 4_096, grace), Some(StopReason::CpuTime { limit_ms: 100 }));
        assert_eq!(budget.overrun(wall, cpu, 4_097, grace), Some(StopReason::Memory { limit_bytes: 4_096 }));
    }

    #[test]
    fn process_is_measured_before_it_can_grow_too_far_beyond_its_limit() {
        let budget = Budget { wall_ms: 300, cpu_ms: 100, rss_bytes: 224 << 20 };
        for holds in (0..300).map(|mib: u64| mib << 20) {
            let until = budget.until_full(holds);
            let grown = holds + u64::try_from(until.as_micros()).unwrap() * GROWTH_BYTES_PER_US;
            assert!(grown <= budget.rss_bytes.max(holds) + OVERSHOOT_BYTES, "from {holds} after {until:?} to {grown}");
            assert!((3..=250).contains(&until.as_millis()), "{until:?}");
        }
        assert!(budget.until_full(20 << 20) > TICK && budget.until_full(200 << 20) < TICK);
    }

    #[test]
    fn unobserved_ticks_count_as_used_up_to_the_elapsed_time() {
        let at_most = |wall, cpu: Option<u64>| {
            let [wall, cpu] = [Some(wall), cpu].map(|ms| ms.map(Duration::from_millis));
            BudgetReport { wall: wall.unwrap_or_default(), cpu, ..BudgetReport::default() }.cpu_at_most().as_millis()
        };
        assert_eq!((at_most(1_000, Some(100)), at_most(150, Some(100)), at_most(1_000, None)), (200, 150, 1_000));
    }
}
