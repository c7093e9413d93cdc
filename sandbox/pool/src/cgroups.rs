//! Control groups for workers (cgroups(7), version 2), if this host can create them: limits that
//! the kernel enforces.
//!
//! ```text
//! the group of this host ─┬─ tollhouse-host           this process, and the zygotes
//!                         ╰─ tollhouse-workers-PID-N  the workers of a pool together: memory.max, pids.max, cpu.max
//!                              ├─ 0                   one worker: memory.max, pids.max
//!                              ╰─ …
//! ```
//!
//! They are layers of a worker's jail that the worker itself does not know about. If some or all of
//! them are unavailable, the other layers hold as usual.
//!
//! There are as many groups as there are workers at the same time, and later workers reuse them.
//! Workers are forked directly into their group, which takes no extra time. Moving an existing
//! process makes the kernel wait for all processors, about 12 ms unless another move just happened.
//! A worker that was started without a zygote is moved while it boots.

mod file;
mod own;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::Pid,
};
use tollhouse_fair::lock::Lock;
use tollhouse_protocol::{JailLayer, JailReport, LayerRefusal};

use self::file::{errno, write};
use crate::{config::PoolConfig, machine::Machine};

/// Memory that a worker's group can use beyond its `rssBytes`, because it includes the kernel's
/// memory. Before that point, the worker's own limit applies and the watchdog has had time to act.
const RESERVE_BYTES: u64 = 16 << 20;

/// Maximum processes and threads in a worker's group: twice what a worker has.
const TASKS: u64 = 4;

/// Period in which processor time is shared out, in microseconds. A group without time left waits
/// for the next period.
const PERIOD_US: u64 = 10_000;

/// Share of each core that is reserved for the host, in percent.
const HOST_PERCENT: u64 = 5;

/// CPU weight of the workers' group; the host has 100. Priorities count only within that group, not
/// between it and the host. Measured with six long computations on two cores: other calls keep 0.9
/// of their rate, against 0.6 with weight 100.
const WEIGHT: u64 = 10;

/// The control groups of a pool.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The group of all workers, if there is one.
    workers: Option<own::Workers>,
    /// The layers that a process in a group has.
    layers: JailReport,
    /// Groups of workers that have ended.
    free: Lock<Vec<GroupState>>,
    /// Number of groups so far.
    created: AtomicUsize,
}

/// A worker's group and its current limit, independent of the process in it.
#[derive(Debug)]
struct GroupState {
    path: PathBuf,
    memory_max: AtomicU64,
}

impl Groups {
    /// Creates the groups of a pool. There are none if this host may not create any.
    pub(crate) fn new(config: &PoolConfig) -> Arc<Self> {
        Self::within(own::own_group(), config)
    }

    /// Returns empty groups. Existing ones are removed with their last process.
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self { workers: None, layers: refused(Errno::SHUTDOWN), free: Lock::default(), created: AtomicUsize::new(0) })
    }

    fn within(own: Result<&Path, Errno>, config: &PoolConfig) -> Arc<Self> {
        let created = own.and_then(|own| own::Workers::new(own).map_err(|error| errno(&error)));
        let (workers, layers) = match created {
            Ok(workers) => {
                let layers = limit_workers(&workers.folder, config);
                (Some(workers), layers)
            }
            Err(errno) => (None, refused(errno)),
        };
        let groups = Self { workers, layers, free: Lock::default(), created: AtomicUsize::new(0) };
        Arc::new(groups)
    }

    /// Returns the limits for a new process, with an unused group if groups are available.
    pub(crate) fn take(self: &Arc<Self>) -> GroupLimits {
        let Some(workers) = self.workers.as_ref().filter(|_| !self.layers.in_force.is_empty()) else {
            return GroupLimits { group: None, layers: self.layers.clone() };
        };
        let stored = self.free.lock().pop();
        match stored.map_or_else(|| self.make(&workers.folder), Ok) {
            Ok(stored) => GroupLimits { group: Some(Group::new(self, stored)), layers: self.layers.clone() },
            Err(error) => GroupLimits { group: None, layers: refused(errno(&error)) },
        }
    }

    fn make(&self, workers: &Path) -> io::Result<GroupState> {
        let path = workers.join(self.created.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path)?;
        if self.has(JailLayer::PidsMax) {
            write(&path, "pids.max", TASKS)?;
        }
        Ok(GroupState { path, memory_max: AtomicU64::new(u64::MAX) })
    }

    fn has(&self, layer: JailLayer) -> bool {
        self.layers.in_force.contains(&layer)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.workers.iter().for_each(|workers| own::remove(&workers.folder));
    }
}

/// The limits of a process for its whole life.
#[derive(Debug)]
pub(crate) struct GroupLimits {
    group: Option<Group>,
    layers: JailReport,
}

/// The group of one process. Dropping it frees the group for another process.
#[derive(Debug)]
struct Group {
    groups: Arc<Groups>,
    state: Option<GroupState>,
    /// The group's out-of-memory count before this process.
    is_out_of_memory: u64,
}

impl GroupLimits {
    /// Opens the folder of the group, so that a process can be forked into it.
    pub(crate) fn folder(&self) -> Option<OwnedFd> {
        let group = self.group.as_ref()?;
        rustix::fs::open(group.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Moves a process that was not forked into the group to it.
    pub(crate) fn add_process(&mut self, process: Pid) {
        let Some(group) = &self.group else { return };
        if let Err(error) = write(group.path(), "cgroup.procs", process.as_raw_nonzero()) {
            (self.group, self.layers) = (None, refused(errno(&error)));
        }
    }

    /// Adds these layers to those that the process reports.
    pub(crate) fn report(&self, jail: &mut JailReport) {
        jail.in_force.extend(&self.layers.in_force);
        jail.refused.extend(&self.layers.refused);
    }

    /// Limits the process to `rss_bytes` of resident memory plus a reserve.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub(crate) fn limit_to(&self, rss_bytes: u64) -> io::Result<()> {
        let Some(group) = self.group.as_ref().filter(|group| group.groups.has(JailLayer::MemoryMax)) else { return Ok(()) };
        let max = rss_bytes.saturating_add(RESERVE_BYTES);
        if group.state().memory_max.swap(max, Ordering::Relaxed) == max {
            return Ok(());
        }
        write(group.path(), "memory.max", max)
    }

    /// Returns whether the group has run out of memory since the process started. If the kernel
    /// then kills the process, that is the reason.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.group.as_ref().is_some_and(|group| oom_count(group.path()) > group.is_out_of_memory)
    }
}

impl Group {
    fn new(groups: &Arc<Groups>, stored: GroupState) -> Self {
        let is_out_of_memory = oom_count(&stored.path);
        Self { groups: Arc::clone(groups), state: Some(stored), is_out_of_memory }
    }

    fn state(&self) -> &GroupState {
        self.state.as_ref().expect("a group has its state until it is dropped")
    }

    fn path(&self) -> &Path {
        &self.state().path
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.groups.free.lock().extend(self.state.take());
    }
}

/// Limits all workers together, and prepares a group for each. Returns which layers are in force.
fn limit_workers(workers: &Path, config: &PoolConfig) -> JailReport {
    // Memory beyond the limit must not go to swap instead. Not every system has this file.
    let _ = write(workers, "memory.swap.max", 0);
    let _ = write(workers, "cpu.weight", WEIGHT);
    let mut report = JailReport::default();
    for layer in JailLayer::OF_GROUPS {
        let bounded = match layer {
            JailLayer::MemoryMax => write(workers, "memory.max", total_memory_max(config.memory, Machine::this().memory_bytes))
                .and_then(|()| write(workers, "cgroup.subtree_control", "+memory")),
            JailLayer::PidsMax => write(workers, "pids.max", config.max_processes as u64 * TASKS)
                .and_then(|()| write(workers, "cgroup.subtree_control", "+pids")),
            _ => write(workers, "cpu.max", format!("{} {PERIOD_US}", cpu_quota_us(available_parallelism().map_or(1, usize::from)))),
        };
        match bounded {
            Ok(()) => report.in_force.push(layer),
            Err(error) => report.refused.push(LayerRefusal { layer, errno: errno(&error).raw_os_error() }),
        }
    }
    report
}

/// Returns the kernel's memory limit for workers that should use `budget` bytes together. Running
/// calls can exceed the budget, but the machine must keep some memory.
fn total_memory_max(budget: u64, machine: u64) -> u64 {
    budget + machine.saturating_sub(budget) / 2
}

/// Returns the processor time of the workers in one period, in microseconds.
fn cpu_quota_us(cores: usize) -> u64 {
    cores as u64 * PERIOD_US * (100 - HOST_PERCENT) / 100
}

fn refused(errno: Errno) -> JailReport {
    let refused = JailLayer::OF_GROUPS.map(|layer| LayerRefusal { layer, errno: errno.raw_os_error() });
    JailReport { in_force: Vec::new(), refused: refused.into() }
}

/// Returns how often the group ran out of memory so that the kernel killed a process.
fn oom_count(group: &Path) -> u64 {
    let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    events.lines().find_map(|line| line.strip_prefix("oom ")?.parse().ok()).unwrap_or(0)
}
