use std::{
    io::Write as _,
    process::{Child, Command, Stdio},
    thread::yield_now,
    time::Duration,
};

use tokio::time::Instant;

use super::*;
use crate::{
    process_slots::ProcessSlots,
    reaper::{ProcessExit, ProcessGuard, Reaper},
};

#[test]
fn own_group_is_found_below_its_mount_point() {
    let mounts = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    let v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
    let found = |mounts: &str, groups: &str| own::find(mounts, groups).map(|own| (own.folder, own.covers_machine));
    let at = |folder: &str, is_all| Some((PathBuf::from(folder), is_all));
    assert_eq!(found(mounts, "4:memory:/x\n0::/a/b\n"), at("/sys/fs/cgroup/unified/a/b", false));
    assert_eq!(found(&format!("{v1}{mounts}"), "0::/\n"), at("/sys/fs/cgroup/unified/", true));
    assert_eq!(found(mounts, "0::/a/tollhouse-host\n"), at("/sys/fs/cgroup/unified/a", false), "the group is divided");
    assert_eq!(found(mounts, "0::/tollhouse-host\n"), at("/sys/fs/cgroup/unified/", true));
    let bound = "41 31 0:38 /a /sys/fs/cgroup ro shared:9 - cgroup2 cgroup2 rw\n";
    assert_eq!(found(bound, "0::/a/b\n"), at("/sys/fs/cgroup/b", false), "of another mount's root");
    for (mounts, groups) in [(v1, "0::/a\n"), (mounts, "4:memory:/x\n"), (bound, "0::/b\n"), (mounts, "0::/../x\n"), ("", "0::/\n")] {
        assert_eq!(found(mounts, groups), None, "{mounts}{groups}");
    }
}

#[test]
fn group_of_another_process_is_left_unchanged() {
    let group = tempfile::tempdir().unwrap();
    let offer = |controllers: &str| fs::write(group.path().join("cgroup.controllers"), controllers).unwrap();
    assert_eq!(own::split(group.path(), true), Err(Errno::OPNOTSUPP), "it is not a control group");
    offer("cpuset io hugetlb\n");
    assert_eq!(own::split(group.path(), true), Err(Errno::OPNOTSUPP));
    offer("cpuset cpu io memory pids\n");
    assert_eq!(own::split(group.path(), false), Err(Errno::PERM));
    assert_eq!(fs::read_dir(group.path()).unwrap().count(), 1, "nothing was created");
}

#[test]
fn groups_of_dead_hosts_are_removed_and_those_of_live_hosts_stay() {
    let group = tempfile::tempdir().unwrap();
    fs::write(group.path().join("cgroup.controllers"), "pids\n").unwrap();
    let (removed, others) = (["tollhouse-workers-1-0", "tollhouse-workers-4000000000-3"], ["tollhouse-worker", "4000000000"]);
    for name in removed.into_iter().chain(others) {
        fs::create_dir_all(group.path().join(name).join("0")).unwrap();
    }
    // The process ids cannot decide this: our id can belong to another process in another
    // namespace.
    let had = own::Workers::new(group.path()).unwrap();
    let next = own::Workers::new(group.path()).unwrap();
    assert_ne!(had.folder, next.folder);
    fs::create_dir(had.folder.join("0")).unwrap();
    let divide = || assert_eq!(own::split(group.path(), true), Err(Errno::OPNOTSUPP), "it is not a control group");
    divide();
    assert!(removed.iter().all(|name| !group.path().join(name).exists()));
    assert!(others.iter().all(|name| group.path().join(name).join("0").exists()));
    assert!(had.folder.join("0").exists() && next.folder.exists());
    let folder = had.folder.clone();
    drop(had);
    // A process that another test starts also has the lock until it executes its program.
    let started = Instant::now();
    while folder.exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "{}", folder.display());
        divide();
        yield_now();
    }
    assert!(next.folder.exists());
}

#[test]
fn divided_group_moves_its_processes_to_a_subgroup() {
    let Some(groups) = groups_with(JailLayer::PidsMax) else { return };
    // Within the pool's own group: a group can be delegated there.
    let group = groups.workers.as_ref().unwrap().folder.join("delegated");
    fs::create_dir(&group).unwrap();
    assert!(!own::is_delegated(&group));
    rustix::fs::setxattr(&group, "user.delegate", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    assert!(own::is_delegated(&group));
    let mut there = [(); 2].map(|()| Command::new("/bin/sleep").arg("600").spawn().unwrap());
    for process in &there {
        write(&group, "cgroup.procs", process.id()).unwrap();
    }
    own::split(&group, true).unwrap();
    assert_eq!(report(&group, "cgroup.procs"), "");
    assert_eq!(report(&group.join("tollhouse-host"), "cgroup.procs").lines().count(), 2);
    assert!(report(&group, "cgroup.subtree_control").contains("pids"));
    for process in &mut there {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    own::remove(&group);
}

#[test]
fn without_groups_processes_start_and_group_layers_are_refused() {
    let groups = Groups::within(Err(Errno::PERM), &config());
    let mut group_limits = groups.take();
    group_limits.add_process(Pid::INIT);
    group_limits.limit_to(1).unwrap();
    assert!(group_limits.folder().is_none() && !group_limits.is_out_of_memory());
    let mut jail = JailReport { in_force: vec![JailLayer::Seccomp], refused: Vec::new() };
    group_limits.report(&mut jail);
    assert_eq!(jail.in_force, [JailLayer::Seccomp]);
    assert_eq!(jail.refused, JailLayer::OF_GROUPS.map(|layer| LayerRefusal { layer, errno: 1 }));
}

#[test]
fn workers_leave_spare_memory_and_part_of_each_core() {
    assert_eq!([(8, 16), (1, 16), (16, 16), (20, 16)].map(|(budget, machine)| total_memory_max(budget, machine)), [12, 8, 16, 20]);
    assert_eq!([1, 2, 64].map(cpu_quota_us), [9_500, 19_000, 608_000]);
}

fn config() -> PoolConfig {
    PoolConfig { memory: 1 << 30, max_processes: 7, ..PoolConfig::new("/bin/false") }
}

/// Returns the groups of a pool if this machine has them with `layer`. Otherwise reports that the
/// test is skipped.
fn groups_with(layer: JailLayer) -> Option<Arc<Groups>> {
    let groups = Groups::new(&config());
    let has = groups.has(layer);
    if !has {
        let reason = groups.layers.refused.iter().find(|refused| refused.layer == layer);
        let reason = reason.map_or_else(|| layer.to_string(), ToString::to_string);
        // Written directly, so that it shows even if the test passes. `cargo xtask test` counts these lines.
        writeln!(io::stdout(), "skipped: a test of cgroups: there is no {reason}").unwrap();
    }
    has.then_some(groups)
}

/// A process in its own group that runs `script` when the test starts it.
struct Bound {
    stdin: Option<std::process::ChildStdin>,
    slot: Arc<crate::process_slots::ProcessSlot>,
    adopted: ProcessGuard,
}

impl Bound {
    #[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
    fn new(groups: &Arc<Groups>, script: &str) -> Self {
        let script = format!("read go; {script}");
        let mut child: Child = Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut group_limits = groups.take();
        group_limits.add_process(Pid::from_child(&child));
        let slot = ProcessSlots::new(1, 0, Default::default()).take().unwrap();
        slot.bind(group_limits);
        let adopted = Reaper::start().unwrap().adopt(Pid::from_child(&child), Arc::clone(&slot));
        Self { stdin: child.stdin.take(), slot, adopted }
    }

    fn group_limits(&self) -> &GroupLimits {
        self.slot.group_limits().unwrap()
    }

    fn path(&self) -> &Path {
        self.group_limits().group.as_ref().unwrap().path()
    }

    fn start(&mut self) {
        self.stdin.take().unwrap().write_all(b"\n").unwrap();
    }

    fn exit(&mut self) -> ProcessExit {
        until(|| self.adopted.exit())
    }
}

fn until<T>(mut is: impl FnMut() -> Option<T>) -> T {
    let timeout = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(it) = is() {
            return it;
        }
        assert!(Instant::now() < timeout, "it was never started");
        yield_now();
    }
}

fn report(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).unwrap().trim().to_owned()
}

/// Takes all the memory that it can get.
const FILLS: &str = "exec tail /dev/zero";

#[test]
fn process_out_of_group_memory_is_distinguished_from_a_killed_one() {
    let Some(groups) = groups_with(JailLayer::MemoryMax) else { return };
    let all = &groups.workers.as_ref().unwrap().folder;
    let page = rustix::param::page_size() as u64;
    let of_all: u64 = report(all, "memory.max").parse().unwrap();
    assert_eq!(of_all / page, total_memory_max(1 << 30, Machine::this().memory_bytes) / page);
    assert!(!all.join("memory.swap.max").exists() || report(all, "memory.swap.max") == "0");
    for _ in 0..2 {
        let mut fills = Bound::new(&groups, FILLS);
        fills.group_limits().limit_to(1 << 20).unwrap();
        assert_eq!(report(fills.path(), "memory.max"), ((1_u64 << 20) + RESERVE_BYTES).to_string());
        fills.start();
        assert_eq!(fills.exit(), ProcessExit::OutOfMemory);
        fills.adopted.end();
        assert_eq!(fills.adopted.exit(), Some(ProcessExit::OutOfMemory), "the exit of a reaped process is known");
    }
    until(|| (groups.free.lock().len() == 1).then_some(()));
    let mut killed = Bound::new(&groups, "kill -KILL $$");
    assert!(killed.path().ends_with("0"), "the group of the previous process");
    killed.start();
    assert_eq!(killed.exit(), ProcessExit::Signal(9));
    // Others use the memory that it would be allowed.
    write(all, "memory.max", RESERVE_BYTES).unwrap();
    let mut fills = Bound::new(&groups, FILLS);
    fills.start();
    assert_eq!(fills.exit(), ProcessExit::Signal(9), "the kernel killed it for another process");
}

#[test]
fn group_limits_the_processes_of_a_worker() {
    let Some(groups) = groups_with(JailLayer::PidsMax) else { return };
    let mut forks = Bound::new(&groups, "for i in 1 2 3 4 5 6; do sleep 600 & done; wait");
    assert_eq!(report(forks.path(), "pids.max"), TASKS.to_string());
    assert_eq!(report(&groups.workers.as_ref().unwrap().folder, "pids.max"), (7 * TASKS).to_string());
    forks.start();
    until(|| (report(forks.path(), "pids.events") != "max 0").then_some(()));
    assert!(report(forks.path(), "pids.peak").parse::<u64>().is_ok_and(|max| max <= TASKS));
    write(forks.path(), "cgroup.kill", 1).unwrap();
}

#[test]
fn workers_together_leave_the_host_some_of_the_processor() {
    let Some(groups) = groups_with(JailLayer::CpuMax) else { return };
    let workers = &groups.workers.as_ref().unwrap().folder;
    assert_eq!(report(workers, "cpu.max"), format!("{} {PERIOD_US}", cpu_quota_us(available_parallelism().unwrap().get())));
    assert_eq!(report(workers, "cpu.weight"), WEIGHT.to_string());
}

#[test]
fn groups_are_reused_and_removed_with_the_pool() {
    let Some(groups) = JailLayer::OF_GROUPS.into_iter().find_map(groups_with) else { return };
    let workers = groups.workers.as_ref().unwrap().folder.clone();
    let two = [groups.take(), groups.take()];
    assert_eq!(
        two.each_ref().map(|group_limits| group_limits.group.as_ref().unwrap().path().to_owned()),
        ["0", "1"].map(|name| workers.join(name))
    );
    drop(two);
    assert!(groups.take().group.is_some());
    assert_eq!(groups.created.load(Ordering::Relaxed), 2);
    drop(groups);
    assert!(!workers.exists());
}
