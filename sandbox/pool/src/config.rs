//! Settings of a pool: each once, with unit and default.

use std::{path::PathBuf, time::Duration};

use rustix::process::Resource;
use tollhouse_protocol::{JailLayer, Tier};

use crate::{machine::Machine, users::Users};

/// What a worker process needs of its own at least, in bytes: more of them than fit so are of no use.
const PROCESS_BYTES: u64 = 8 << 20;
/// Threads of a worker.
const PROCESS_TASKS: u64 = 2;

/// Least default of [`PoolConfig::bytes`]: as many calls as a small machine has processes for have all they may.
const LEAST_BYTES: usize = 256 << 20;

/// Settings of a [`Pool`](crate::Pool).
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// The `tollhouse-worker` binary. No default.
    pub worker: PathBuf,
    /// Arguments for the worker behind `--socket N`. Default: none.
    pub worker_args: Vec<String>,
    /// The tier of which spares are kept from the start. Another one has some while it is asked for: no worker of it for
    /// [`max_life`](Self::max_life), and they go. Default: [`Tier::Jit`].
    pub tier: Tier,
    /// Layers of the jail without which a worker serves nobody. Default: none.
    pub strict: Vec<JailLayer>,
    /// Users, and groups of the same numbers, that workers become where the host may have them be. Default: 1900000000 to
    /// 1900262143, where systemd gives none to anybody.
    pub users: Users,
    /// Calls that compute at the same time; a call that waits in an op is not among them.
    /// Default: cores × 2.
    pub running: usize,
    /// Calls sent ahead to one worker that is still at another, at most. 0 sends none. Default: 16.
    pub pipeline: usize,
    /// Processor time of the calls that were sent ahead to one worker, together, by what its last calls cost: a few times
    /// what waking another process costs. Default: 250 µs.
    pub pipeline_time: Duration,
    /// How long a call that was sent ahead waits for its turn before it goes elsewhere, at most
    /// [`patience`](Self::patience). The worker it leaves is ended, after the call it is at. Default: 100 ms.
    pub pipeline_patience: Duration,
    /// Blank workers kept ready for a cold call, of each tier that is in use. Default: 2.
    pub spares: usize,
    /// Processes that start at once; further ones wait, and owners take turns. Default: cores, and 2 at least.
    pub starts: usize,
    /// Workers forked from one zygote, at most about, before another one takes its place; 0 starts every worker by itself.
    /// Zygotes are no workers: there is one of each tier that is in use, and the next one while it boots. Default: 1,000.
    pub zygote_forks: usize,
    /// How long a zygote has been there when another one takes its place; and for how long nobody has asked for a worker of its
    /// tier when it is ended, where that is not the usual one. Default: 10 min.
    pub zygote_life: Duration,
    /// How long a zygote may take to fork a worker, which takes it less than 1 ms, and how long one that boots is waited for, which
    /// takes some 30 ms; then workers are started by themselves. Default: 250 ms.
    pub zygote_patience: Duration,
    /// Worker processes at most, whatever they do: those on their way and those that are about to go are among them. Default:
    /// [`memory`](Self::memory) in pieces of 8 MiB, and at most half of the descriptors this process may open and of the
    /// threads its control group may have.
    pub max_processes: usize,
    /// Memory that workers and zygotes may have to themselves, together, in bytes, as it is measured: where another one does not fit the
    /// largest idle one goes, and where none is idle it waits. Default: half of the machine's memory, or of the control group's
    /// where that is less.
    pub memory: u64,
    /// Bytes under way between the host and all workers: requests of ops, and answers until they are sent. Each owner has
    /// as much of them as is free, and each call one op whatever others have. Default: a sixteenth of the machine's memory
    /// (or of the control group's), 256 MiB at least.
    pub bytes: usize,
    /// Calls that may wait for a slot, besides those sent ahead; further ones are refused at once. Default: 256.
    pub queue: usize,
    /// How long a call waits for a slot, or its turn, before it is refused. Default: 1 s.
    pub patience: Duration,
    /// Part of [`running`](Self::running) that the calls of one caller may be computing at once, whether others wait or not, in
    /// percent, and one at least. Default: 75.
    pub caller_running_percent: usize,
    /// The same of [`max_processes`](Self::max_processes), whatever its calls do there. Default: 50.
    pub caller_process_percent: usize,
    /// The same of [`queue`](Self::queue). Default: 50.
    pub caller_queue_percent: usize,
    /// How long a call computes until it gives its slot to those who compute for less, and goes on where they leave the
    /// processor free. Where another owner's call waits for the slot it has that sooner, and the processor they share. As many as [`running`](Self::running) may do so at once. Default: 100 ms.
    pub quantum: Duration,
    /// Stops within [`breaker_window`](Self::breaker_window) after which a caller waits at an endpoint, or an endpoint whose
    /// own doing they are is held. Default: 5.
    pub breaker_kills: usize,
    /// See [`breaker_kills`](Self::breaker_kills). Default: 60 s.
    pub breaker_window: Duration,
    /// How long an endpoint is held. Default: 60 s.
    pub breaker_hold: Duration,
    /// Calls of one process, after which it is replaced. Default: 100,000.
    pub max_calls: u64,
    /// Idleness after which a worker is ended. Until then it goes only where others want its place, or its memory. Default: 60 s.
    pub max_idle_time: Duration,
    /// Life of a process, after which it is replaced. Default: 10 min.
    pub max_life: Duration,
    /// Growth over the memory of its first idle moment after which a process is replaced, as a
    /// factor. Up to 40 MiB no growth counts: a young heap that fills up is not a leak. Default: 2.
    pub max_growth: u64,
    /// What a worker gets beyond a limit to stop itself before it is killed. Default: 250 ms.
    pub kill_grace: Duration,
    /// How long a process, a zygote too, may take from its start until it is ready. Default: 10 s.
    pub boot_patience: Duration,
}

impl PoolConfig {
    /// The defaults, for this machine.
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
            pipeline_patience: Duration::from_millis(100),
            spares: 2,
            starts: cores.max(2),
            zygote_forks: 1_000,
            zygote_life: Duration::from_mins(10),
            zygote_patience: Duration::from_millis(250),
            max_processes: processes_on(machine, rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)),
            memory: machine.memory_bytes / 2,
            bytes: bytes_on(machine),
            queue: 256,
            patience: Duration::from_secs(1),
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
            boot_patience: Duration::from_secs(10),
        }
    }
}

fn processes_on(machine: Machine, descriptors: u64) -> usize {
    let processes = (machine.memory_bytes / 2 / PROCESS_BYTES).min(descriptors / 2).min(machine.tasks / 2 / PROCESS_TASKS);
    usize::try_from(processes).unwrap_or(usize::MAX).max(4)
}

fn bytes_on(machine: Machine) -> usize {
    usize::try_from(machine.memory_bytes / 16).unwrap_or(usize::MAX).max(LEAST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_take_half_of_what_there_is_and_are_a_few_at_least() {
        let gigabyte = 1 << 30;
        let on = |memory_bytes, tasks, descriptors| processes_on(Machine { memory_bytes, tasks }, descriptors);
        assert_eq!(on(4 * gigabyte, u64::MAX, 1 << 20), 256);
        assert_eq!(on(1_000 * gigabyte, u64::MAX, 256), 128);
        assert_eq!(on(1_000 * gigabyte, 256, 1 << 20), 64);
        assert_eq!(on(gigabyte / 64, u64::MAX, 256), 4);
        assert!(PoolConfig::new("").max_processes >= 4);
    }

    #[test]
    fn bytes_under_way_are_a_sixteenth_of_the_memory_and_enough_for_a_small_machine() {
        let on = |memory_bytes| bytes_on(Machine { memory_bytes, tasks: u64::MAX });
        assert_eq!([1 << 30, 4 << 30, 64 << 30].map(on), [256 << 20, 256 << 20, 4 << 30]);
        assert_eq!(on((4 << 30) + 16), (256 << 20) + 1);
    }
}
