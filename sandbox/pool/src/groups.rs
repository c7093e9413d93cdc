//! Control groups around workers (cgroups(7), version 2), where this host may make some: bounds that the system holds by itself.
//!
//! ```text
//! the group of this host ─┬─ tollhouse-host           this process, and the zygotes
//!                         ╰─ tollhouse-workers-PID-N  the workers of a pool together: memory.max, pids.max, cpu.max
//!                              ├─ 0                   one worker: memory.max, pids.max
//!                              ╰─ …
//! ```
//!
//! They are layers of a worker's jail that it knows nothing of. Where there are none, or not all of them, the others hold as ever.
//!
//! A group is made for as many workers as there are at once, and kept for those who come after them. Workers are forked into theirs, in
//! no more time: to move a process that is there the system waits for all processors, some 12 ms where that has not been done just
//! before. One that is started by itself is moved, while it boots.

mod file;
mod own;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::Pid,
};
use tollhouse_protocol::{JailLayer, JailReport, Refused};

use self::file::{errno, write};
use crate::{config::PoolConfig, machine::Machine};

/// What a worker's group may hold beyond its `rssBytes`: the kernel's own memory counts there too. By then the worker has been refused
/// more, and the watchdog has had time to see it.
const RESERVE_BYTES: u64 = 16 << 20;

/// Processes and threads of a worker's group: twice what a worker has.
const TASKS: u64 = 4;

/// How much of the processor's time is shared out at once, in microseconds: who has none left waits for the next.
const PERIOD_US: u64 = 10_000;

/// What workers leave to the host of each core, in percent, whatever they want.
const LEFT_PERCENT: u64 = 5;

/// What they get where both want all, beside the 100 of the host. Within their group what others leave is told from the rest, and not
/// beside the host: measured with six that compute for long on two cores, the calls/s of others stay at .9, where 100 leave .6.
const WEIGHT: u64 = 10;

/// The groups of a pool.
#[derive(Debug)]
pub(crate) struct Groups {
    /// That of all workers, where there is one.
    workers: Option<own::Workers>,
    /// The layers of who has a group in it.
    layers: JailReport,
    /// Those of workers that are gone, and how many were made.
    free: Mutex<Vec<Kept>>,
    made: AtomicUsize,
}

/// What is known of a worker's group, whoever is in it.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    memory_max: AtomicU64,
}

impl Groups {
    /// None where this host may make none.
    pub(crate) fn new(config: &PoolConfig) -> Arc<Self> {
        Self::within(own::divided(), config)
    }

    /// None, and those there are go with the last process in them.
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self { workers: None, layers: refused(Errno::SHUTDOWN), free: Mutex::default(), made: AtomicUsize::new(0) })
    }

    fn within(own: Result<&Path, Errno>, config: &PoolConfig) -> Arc<Self> {
        let made = own.and_then(|own| own::Workers::new(own).map_err(|error| errno(&error)));
        let (workers, layers) = match made {
            Ok(workers) => {
                let layers = bound(&workers.folder, config);
                (Some(workers), layers)
            }
            Err(errno) => (None, refused(errno)),
        };
        let groups = Self { workers, layers, free: Mutex::default(), made: AtomicUsize::new(0) };
        Arc::new(groups)
    }

    /// The bounds of a process that is to be started: a group that nobody else is in, where there are groups.
    pub(crate) fn take(self: &Arc<Self>) -> Bounds {
        let Some(workers) = self.workers.as_ref().filter(|_| !self.layers.in_force.is_empty()) else {
            return Bounds { group: None, layers: self.layers.clone() };
        };
        let kept = self.free().pop();
        match kept.map_or_else(|| self.make(&workers.folder), Ok) {
            Ok(kept) => Bounds { group: Some(Group::new(self, kept)), layers: self.layers.clone() },
            Err(error) => Bounds { group: None, layers: refused(errno(&error)) },
        }
    }

    fn make(&self, workers: &Path) -> io::Result<Kept> {
        let path = workers.join(self.made.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path)?;
        if self.has(JailLayer::PidsMax) {
            write(&path, "pids.max", TASKS)?;
        }
        Ok(Kept { path, memory_max: AtomicU64::new(u64::MAX) })
    }

    fn has(&self, layer: JailLayer) -> bool {
        self.layers.in_force.contains(&layer)
    }

    fn free(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.workers.iter().for_each(|workers| own::remove(&workers.folder));
    }
}

/// What a process may use whatever it does, for as long as it is there.
#[derive(Debug)]
pub(crate) struct Bounds {
    group: Option<Group>,
    layers: JailReport,
}

/// A group of one process. Dropping it leaves it to the next one.
#[derive(Debug)]
struct Group {
    groups: Arc<Groups>,
    kept: Option<Kept>,
    /// How often memory had run out in it before.
    ran_out: u64,
}

impl Bounds {
    /// The folder of the group, for a process to be forked into.
    pub(crate) fn folder(&self) -> Option<OwnedFd> {
        let group = self.group.as_ref()?;
        rustix::fs::open(group.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Takes in a process that was not forked into it.
    pub(crate) fn take_in(&mut self, process: Pid) {
        let Some(group) = &self.group else { return };
        if let Err(error) = write(group.path(), "cgroup.procs", process.as_raw_nonzero()) {
            (self.group, self.layers) = (None, refused(errno(&error)));
        }
    }

    /// Tells of these layers beside those that the process tells of.
    pub(crate) fn tell(&self, jail: &mut JailReport) {
        jail.in_force.extend(&self.layers.in_force);
        jail.refused.extend(&self.layers.refused);
    }

    /// Lets the process have so much resident memory, and a reserve beyond it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn hold_to(&self, rss_bytes: u64) -> io::Result<()> {
        let Some(group) = self.group.as_ref().filter(|group| group.groups.has(JailLayer::MemoryMax)) else { return Ok(()) };
        let most = rss_bytes.saturating_add(RESERVE_BYTES);
        if group.kept().memory_max.swap(most, Ordering::Relaxed) == most {
            return Ok(());
        }
        write(group.path(), "memory.max", most)
    }

    /// Whether the group has had all the memory that it may have since the process was started: what the system kills then is that.
    pub(crate) fn ran_out(&self) -> bool {
        self.group.as_ref().is_some_and(|group| times_out(group.path()) > group.ran_out)
    }
}

impl Group {
    fn new(groups: &Arc<Groups>, kept: Kept) -> Self {
        let ran_out = times_out(&kept.path);
        Self { groups: Arc::clone(groups), kept: Some(kept), ran_out }
    }

    fn kept(&self) -> &Kept {
        self.kept.as_ref().expect("a group is given back when it is dropped")
    }

    fn path(&self) -> &Path {
        &self.kept().path
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.groups.free().extend(self.kept.take());
    }
}

/// Bounds all workers together, and lets each have bounds of its own. What came of it.
fn bound(workers: &Path, config: &PoolConfig) -> JailReport {
    // What does not fit is not to go to disk instead. Not every system has that.
    let _ = write(workers, "memory.swap.max", 0);
    let _ = write(workers, "cpu.weight", WEIGHT);
    let mut report = JailReport::default();
    for layer in JailLayer::OF_GROUPS {
        let bounded = match layer {
            JailLayer::MemoryMax => write(workers, "memory.max", memory_of(config.memory, Machine::this().memory_bytes))
                .and_then(|()| write(workers, "cgroup.subtree_control", "+memory")),
            JailLayer::PidsMax => write(workers, "pids.max", config.max_processes as u64 * TASKS)
                .and_then(|()| write(workers, "cgroup.subtree_control", "+pids")),
            _ => write(workers, "cpu.max", format!("{} {PERIOD_US}", time_on(available_parallelism().map_or(1, usize::from)))),
        };
        match bounded {
            Ok(()) => report.in_force.push(layer),
            Err(error) => report.refused.push(Refused { layer, errno: errno(&error).raw_os_error() }),
        }
    }
    report
}

/// What workers may have together that are meant to have `budget`: calls that grow as they run may go beyond it, and the machine has to
/// have some left.
fn memory_of(budget: u64, machine: u64) -> u64 {
    budget + machine.saturating_sub(budget) / 2
}

/// What workers may have of the processor in one period, in microseconds.
fn time_on(cores: usize) -> u64 {
    cores as u64 * PERIOD_US * (100 - LEFT_PERCENT) / 100
}

fn refused(errno: Errno) -> JailReport {
    let refused = JailLayer::OF_GROUPS.map(|layer| Refused { layer, errno: errno.raw_os_error() });
    JailReport { in_force: Vec::new(), refused: refused.into() }
}

/// How often an allocation has met the bound of a group, and could be met in no other way than by an end.
fn times_out(group: &Path) -> u64 {
    let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    events.lines().find_map(|line| line.strip_prefix("oom ")?.parse().ok()).unwrap_or(0)
}
