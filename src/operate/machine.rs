//! Checks the limits of this machine or of the process's control group: file descriptors, memory, processes.

use std::fs;

use rustix::process::{Resource, getrlimit};
use tollhouse_pool::Machine;

use super::finding::Finding;

/// Minimum number of descriptors to start a host, and the number for its default connection limit.
const MIN_DESCRIPTORS: u64 = 64;
const USUAL_DESCRIPTORS: u64 = 4 * 4_096;
/// Memory that is too small for the store's cache and for more than a few workers.
const LITTLE_MEMORY: u64 = 512 << 20;
/// Memory that is too small for a host and a worker.
const MIN_MEMORY: u64 = 128 << 20;
/// Numbers of processes and threads: for a host with some tens of workers, and the minimum.
const FEW_TASKS: u64 = 512;
const MIN_TASKS: u64 = 64;

/// Reports the resources that a host would have here.
pub fn examine() -> Vec<Finding> {
    let machine = Machine::this();
    let own = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let mut found = machine_findings(descriptors, machine.memory_bytes, machine.tasks.min(own));
    found.push(group(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default()));
    found
}

fn machine_findings(descriptors: u64, memory: u64, tasks: u64) -> Vec<Finding> {
    let graded = |has: u64, least: u64, usual: u64, text: String, remedy: &str| match has {
        few if few < least => Finding::fail("limits", text, remedy),
        some if some < usual => Finding::warn("limits", text, remedy),
        _ => Finding::ok("limits", text),
    };
    let many = |number: u64| if number == u64::MAX { "any number of".to_owned() } else { number.to_string() };
    let connections = (descriptors / 4).min(4_096);
    vec![
        graded(
            descriptors,
            MIN_DESCRIPTORS,
            USUAL_DESCRIPTORS,
            format!("{} descriptors, for {connections} connections", many(descriptors)),
            "raise the hard limit: `LimitNOFILE=1048576` in its service, `ulimit -Hn` in a shell",
        ),
        graded(
            memory,
            MIN_MEMORY,
            LITTLE_MEMORY,
            format!("{} MiB of memory, of which workers get half unless TOLLHOUSE_SANDBOX_MEMORY is set", memory >> 20),
            "give the machine or its control group more memory (`MemoryMax=`, memory.max)",
        ),
        graded(
            tasks,
            MIN_TASKS,
            FEW_TASKS,
            format!("{} processes and threads", many(tasks)),
            "raise the limit: `TasksMax=infinity` in its service, pids.max of the control group, `ulimit -u`",
        ),
    ]
}

/// Reports the control group (version 2) of the process.
fn group(own: &str) -> Finding {
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Finding::ok("limits", "no control group of version 2, so only the host limits what workers use");
    };
    let folder = format!("/sys/fs/cgroup{}", path.trim_end_matches('/'));
    let controllers = fs::read_to_string(format!("{folder}/cgroup.controllers")).unwrap_or_default();
    let controllers: Vec<_> = controllers.split_ascii_whitespace().collect();
    let with = if controllers.is_empty() { "without controllers".to_owned() } else { format!("with {}", controllers.join(" ")) };
    Finding::ok("limits", format!("control group `{path}`, {with}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    #[test]
    fn low_limits_warn_and_lower_ones_fail() {
        let levels = |descriptors, memory, tasks| {
            machine_findings(descriptors, memory, tasks).into_iter().map(|found| found.level).collect::<Vec<_>>()
        };
        assert_eq!(levels(u64::MAX, 8 << 30, u64::MAX), [Level::Ok; 3]);
        assert_eq!(levels(1_024, 511 << 20, 511), [Level::Warn; 3]);
        assert_eq!(levels(63, 127 << 20, 63), [Level::Fail; 3]);
    }

    #[test]
    fn machine_without_cgroup_v2_is_ok() {
        assert!(group("9:pids:/a\n").text.starts_with("no control group"));
        assert!(group("0::/a/b\n").text.contains("`/a/b`, without controllers"));
    }
}
