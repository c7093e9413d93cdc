//! Settings of a pool, each with its unit and default.

use std::{path::PathBuf, time::Duration};

use rustix::process::Resource;
use tollhouse_protocol::{JailLayer, Tier};

use crate::{machine::Machine, users::Users};

/// Minimum memory of a worker process, in bytes, for the default of [`PoolConfig::max_processes`].
const PROCESS_BYTES: u64 = 8 << 20;
/// Threads of a worker.
const PROCESS_TASKS: u64 = 2;

/// Minimum default of [`PoolConfig::bytes`]: enough for all calls of a small machine.
const MIN_BYTES: usize = 256 << 20;

/// Settings of a [`Pool`](crate::Pool).
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Path of the `tollhouse-worker` binary. No default.
    pub worker: PathBuf,
    /// Arguments for the worker after `--socket N`. Default: none.
    pub worker_args: Vec<String>,
    /// The tier whose spares are kept from the start. Another tier has spares from its first use
    /// until no worker of it was needed for [`max_life`](Self::max_life). Default: [`Tier::Jit`].
    pub tier: Tier,
    /// Layers of the jail that a worker must have to serve calls. Default: none.
    pub strict: Vec<JailLayer>,
    /// Users, and groups with the same numbers, that workers run as if the host has the right to
    /// switch. Default: 1900000000 to 1900262143, a range that systemd assigns to nobody.
    pub users: Users,
    /// Maximum number of calls that compute at the same time. Calls that wait in an op do not
    /// count. Default: cores × 2.
    pub running: usize,
    /// Maximum number of calls sent ahead to one busy worker. 0 turns this off. Default: 16.
    pub pipeline: usize,
    /// Maximum total processor time of the calls sent ahead to one worker, estimated from its last
    /// calls. A useful value is a few times the cost of waking another process. Default: 250 µs.
    pub pipeline_time: Duration,
    /// Time that a call that was sent ahead waits for its turn before it runs elsewhere, at most
    /// [`timeout`](Self::timeout). The worker that it leaves is ended after its current call.
    /// Default: 100 ms.
    pub pipeline_timeout: Duration,
    /// Blank workers kept ready for cold calls, for each tier in use. Default: 2.
    pub spares: usize,
    /// Maximum number of processes that start at the same time. Further starts wait, and owners
    /// take turns. Default: cores, at least 2.
    pub starts: usize,
    /// Approximate maximum number of workers forked from one zygote before it is replaced. 0 starts
    /// every worker without a zygote. Zygotes do not count as workers: there is one for each tier
    /// in use, and its successor while that boots. Default: 1,000.
    pub zygote_forks: usize,
    /// Age at which a zygote is replaced. A zygote of a tier other than [`tier`](Self::tier) is
    /// ended when no worker of its tier was needed for as long. Default: 10 min.
    pub zygote_life: Duration,
    /// Maximum time for a zygote to fork a worker (usually below 1 ms), and to boot (usually about
    /// 30 ms). After that workers start without it. Default: 250 ms.
    pub zygote_timeout: Duration,
    /// Maximum number of worker processes in any state, including those that start or end. Default:
    /// [`memory`](Self::memory) divided by 8 MiB, but at most half of this process's descriptor
    /// limit and half of its control group's thread limit.
    pub max_processes: usize,
    /// Maximum private memory of all workers and zygotes together, in bytes, as measured. If a new
    /// worker does not fit, the largest idle one is ended; if none is idle, the new one waits.
    /// Default: half of the machine's memory, or of the control group's limit if that is lower.
    pub memory: u64,
    /// Maximum number of bytes in transit between the host and all workers: requests of ops, and
    /// answers until they are sent. Each owner gets as much as is free, and each call can always
    /// have one op. Default: 1/16 of the memory of the machine or control group, at least 256 MiB.
    pub bytes: usize,
    /// Calls that can wait for a slot, in addition to those sent ahead. Further calls are refused
    /// at once. Default: 256.
    pub queue: usize,
    /// Time that a call waits for a slot or its turn before it is refused. Default: 1 s.
    pub timeout: Duration,
    /// Maximum share of [`running`](Self::running) for the computing calls of one caller, in
    /// percent, at least one call. It applies even if nobody else waits. Default: 75.
    pub caller_running_percent: usize,
    /// Maximum share of [`max_processes`](Self::max_processes) for one caller, whatever its calls
    /// do, in percent. Default: 50.
    pub caller_process_percent: usize,
    /// Maximum share of [`queue`](Self::queue) for one caller, in percent. Default: 50.
    pub caller_queue_percent: usize,
    /// Time that a call computes before it gives its slot to shorter calls. It then continues at
    /// low priority, in the time that others leave free. If a call of another owner waits for the
    /// slot, the waiting call gets it earlier, and both share the processor. If the caller has other
    /// calls that compute, beside calls of others, the call continues at low priority after only
    /// 10 ms. At most [`running`](Self::running) calls are slowed at the same time. Default: 100 ms.
    pub quantum: Duration,
    /// Number of stops within [`breaker_window`](Self::breaker_window) that slow a caller at an
    /// endpoint, or hold an endpoint whose code caused them. Default: 5.
    pub breaker_kills: usize,
    /// Time window for [`breaker_kills`](Self::breaker_kills). Default: 60 s.
    pub breaker_window: Duration,
    /// Time for which an endpoint is held. Default: 60 s.
    pub breaker_hold: Duration,
    /// Number of calls after which a process is replaced. Default: 100,000.
    pub max_calls: u64,
    /// Idle time after which a worker is ended. An idle worker ends earlier if another needs its
    /// place or its memory. Default: 60 s.
    pub max_idle_time: Duration,
    /// Age at which a process is replaced. Default: 10 min.
    pub max_life: Duration,
    /// Growth factor, relative to the memory of its first idle moment, at which a process is
    /// replaced. Growth below 40 MiB does not count, because a young heap that fills is not a leak.
    /// Default: 2.
    pub max_growth: u64,
    /// Time beyond a limit in which a worker can stop itself before it is killed. Default: 250 ms.
    pub kill_grace: Duration,
    /// Maximum time from the start of a worker or zygote until it is ready. Default: 10 s.
    pub boot_timeout: Duration,
}

impl PoolConfig {
    /// Returns the defaults for this machine.
    #[must_use]
    pub fn new(worker: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let machine = Machine::this();
        Self {
            worker: worker.into(),
            worker_args: Vec::new(),
            tier: Tier::default(),
            strict: Vec::new(),
            users: Users::default(),
            running: cores * 2,
            pipeline: 16,
            pipeline_time: Duration::from_micros(250),
            pipeline_timeout: Duration::from_millis(100),
            spares: 2,
            starts: cores.max(2),
            zygote_forks: 1_000,
            zygote_life: Duration::from_mins(10),
            zygote_timeout: Duration::from_millis(250),
            max_processes: default_max_processes(machine, rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)),
            memory: machine.memory_bytes / 2,
            bytes: default_bytes(machine),
            queue: 256,
            timeout: Duration::from_secs(1),
            caller_running_percent: 75,
            caller_process_percent: 50,
            caller_queue_percent: 50,
            quantum: Duration::from_millis(100),
            breaker_kills: 5,
            breaker_window: Duration::from_mins(1),
            breaker_hold: Duration::from_mins(1),
            max_calls: 100_000,
            max_idle_time: Duration::from_mins(1),
            max_life: Duration::from_mins(10),
            max_growth: 2,
            kill_grace: Duration::from_millis(250),
            boot_timeout: Duration::from_secs(10),
        }
    }
}

fn default_max_processes(machine: Machine, descriptors: u64) -> usize {
    let processes = (machine.memory_bytes / 2 / PROCESS_BYTES).min(descriptors / 2).min(machine.tasks / 2 / PROCESS_TASKS);
    usize::try_from(processes).unwrap_or(usize::MAX).max(4)
}

fn default_bytes(machine: Machine) -> usize {
    usize::try_from(machine.memory_bytes / 16).unwrap_or(usize::MAX).max(MIN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_use_half_of_the_memory_with_a_minimum() {
        let gigabyte = 1 << 30;
        let on = |memory_bytes, tasks, descriptors| default_max_processes(Machine { memory_bytes, tasks }, descriptors);
        assert_eq!(on(4 * gigabyte, u64::MAX, 1 << 20), 256);
        assert_eq!(on(1_000 * gigabyte, u64::MAX, 256), 128);
        assert_eq!(on(1_000 * gigabyte, 256, 1 << 20), 64);
        assert_eq!(on(gigabyte / 64, u64::MAX, 256), 4);
        assert!(PoolConfig::new("").max_processes >= 4);
    }

    #[test]
    fn bytes_in_flight_are_a_sixteenth_of_memory_with_a_minimum() {
        let on = |memory_bytes| default_bytes(Machine { memory_bytes, tasks: u64::MAX });
        assert_eq!([1 << 30, 4 << 30, 64 << 30].map(on), [256 << 20, 256 << 20, 4 << 30]);
        assert_eq!(on((4 << 30) + 16), (256 << 20) + 1);
    }
}
