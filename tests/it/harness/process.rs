//! Processes, as `/proc` shows them.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Clock ticks per second, in which `/proc` counts processor time on Linux.
const TICKS: u64 = 100;

/// Returns the fields of `/proc/PID/stat` after the name: state, parent, … `None` if the process is
/// gone.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Returns all descendants of `pid`.
pub(super) fn descendants(pid: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> = all.filter_map(|child| Some((child, stat(child)?.get(1)?.parse().ok()?))).collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the processor time of a process.
pub(super) fn cpu(pid: i32) -> Option<Duration> {
    let stat = stat(pid)?;
    let ticks: u64 = stat.get(11)?.parse::<u64>().ok()? + stat.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS))
}

/// Returns the resident memory of a process, in bytes.
pub(super) fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Returns whether the process exists and is not a zombie.
pub(super) fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.first().map(String::as_str), Some("Z" | "X")))
}

/// Sends a signal.
pub fn signal(pid: i32, signal: Signal) {
    // If the process is already gone, that is fine.
    _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Returns those of `pids` that are still alive after `patience`.
pub(super) fn left_over(mut pids: Vec<i32>, timeout: Duration) -> Vec<i32> {
    let started = Instant::now();
    loop {
        pids.retain(|pid| lives(*pid));
        if pids.is_empty() || started.elapsed() > timeout {
            return pids;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
