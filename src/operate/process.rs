//! The host's own process, as seen by the system.

use std::fs;

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};
use tollhouse_telemetry::{Samples, metric_table};

/// A snapshot of the process. Values that the system does not report are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Process {
    /// Processor time of all its threads.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// When it started, in seconds since 1970.
    pub started_seconds: f64,
    /// Number of open file descriptors.
    pub descriptors: usize,
    /// Maximum number of open file descriptors.
    pub max_descriptors: u64,
}

impl Process {
    /// Takes a snapshot.
    pub fn look() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let system = fs::read_to_string("/proc/stat").unwrap_or_default();
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let max_descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { descriptors, max_descriptors, ..Self::read(&stat, &system) }
    }

    /// Parses `/proc/self/stat`, with the system's start time from `/proc/stat`.
    #[expect(clippy::cast_precision_loss, reason = "ticks of a process, and seconds since 1970, are below 2^53")]
    fn read(stat: &str, system: &str) -> Self {
        // The program's name is in parentheses and may contain some itself.
        let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second().max(1) as f64;
        let started = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok()).unwrap_or_default();
        Self {
            cpu_seconds: seconds(field(14) + field(15)),
            resident_bytes: field(24) * page_size() as u64,
            started_seconds: started as f64 + seconds(field(22)),
            ..Self::default()
        }
    }

    /// Adds the values to the metrics.
    pub fn measured(&self, samples: &mut Samples) {
        samples.put(&metric_table::CPU, [], self.cpu_seconds);
        samples.put(&metric_table::RESIDENT, [], self.resident_bytes);
        samples.put(&metric_table::STARTED, [], self.started_seconds);
        samples.put(&metric_table::DESCRIPTORS, [], self.descriptors);
        samples.put(&metric_table::DESCRIPTORS_LIMIT, [], self.max_descriptors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_measured() {
        let Process { cpu_seconds, resident_bytes, started_seconds, descriptors, max_descriptors } = Process::look();
        assert!(cpu_seconds >= 0.0 && resident_bytes > 1 << 20 && started_seconds > 1.6e9);
        assert!(descriptors > 2 && max_descriptors >= descriptors as u64);
    }

    #[test]
    fn process_name_with_brackets_is_parsed() {
        let stat = "1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 300 0 7";
        let read = Process::read(stat, "cpu 1\nbtime 1000\n");
        let ticks = clock_ticks_per_second() as f64;
        assert!((read.cpu_seconds - 200.0 / ticks).abs() < 1e-9 && (read.started_seconds - (1000.0 + 300.0 / ticks)).abs() < 1e-9);
        assert_eq!(read.resident_bytes, 7 * page_size() as u64);
    }
}
