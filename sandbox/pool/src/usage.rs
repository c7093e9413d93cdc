//! Resource usage of a process, as the kernel counts it.

use std::{io::ErrorKind, time::Duration};

/// Processor time of a process with all its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// In steps of the kernel's clock tick, usually 10 ms.
    pub(crate) cpu: Duration,
}

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resident {
    pub(crate) bytes: u64,
    /// Private memory, without pages of files, which other processes share.
    pub(crate) own_bytes: u64,
}

impl Resident {
    /// Reads the memory from `/proc`. Fails for a process that has exited. The process must not be
    /// reaped before the call ends.
    pub(crate) fn of(pid: u32) -> Result<Self, UsageError> {
        Self::parse(&read(pid, "statm")?).ok_or(UsageError::Unreadable)
    }

    /// Parses proc_pid_statm(5): the second field is the resident memory, the third is the shared
    /// part of it.
    fn parse(text: &str) -> Option<Self> {
        let mut pages = text.split_ascii_whitespace().skip(1).map_while(|pages| pages.parse::<u64>().ok());
        let (resident, shared) = (pages.next()?, pages.next()?);
        let bytes = |pages: u64| pages.saturating_mul(rustix::param::page_size() as u64);
        Some(Self { bytes: bytes(resident), own_bytes: bytes(resident.saturating_sub(shared)) })
    }
}

/// Why [`Usage`] or [`Resident`] is unavailable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    Gone,
    Unreadable,
}

impl Usage {
    /// Returns the processor time of a process since its start, even if it has exited. The kernel
    /// rounds user time and system time down to its tick. One tick is added, so that the mean error
    /// is zero.
    pub(crate) fn cpu_since_start(pid: u32) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let usage = text.rsplit_once(')').and_then(|(_, fields)| Self::parse_fields(fields));
        usage.map_or(Duration::ZERO, |usage| usage.cpu + Duration::from_millis(1_000 / rustix::param::clock_ticks_per_second()))
    }

    /// Reads the usage from `/proc`. The caller must hold the process unreaped, so that `pid` is
    /// still its own.
    pub(crate) fn of(pid: u32) -> Result<Self, UsageError> {
        Self::parse(&read(pid, "stat")?)
    }

    /// Parses proc_pid_stat(5). The name in field 2 can contain spaces and parentheses, so parsing
    /// begins after its last parenthesis with field 3, the state. A dead process that nobody has
    /// waited for counts as gone.
    fn parse(text: &str) -> Result<Self, UsageError> {
        let (_, fields) = text.rsplit_once(')').ok_or(UsageError::Unreadable)?;
        if matches!(fields.trim_start().chars().next(), Some('Z' | 'X')) {
            return Err(UsageError::Gone);
        }
        Self::parse_fields(fields).ok_or(UsageError::Unreadable)
    }

    fn parse_fields(fields: &str) -> Option<Self> {
        let mut fields = fields.split_ascii_whitespace();
        let user: u64 = fields.nth(14 - 3)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let cpu = Duration::from_millis((user + system).saturating_mul(1_000) / ticks_per_second);
        Some(Self { cpu })
    }
}

fn read(pid: u32, what: &str) -> Result<String, UsageError> {
    std::fs::read_to_string(format!("/proc/{pid}/{what}")).map_err(|error| match error.kind() {
        ErrorKind::NotFound => UsageError::Gone,
        _ => UsageError::Unreadable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_fields_are_counted_after_the_process_name() {
        let stat = "77 (a) b (c) S 1 77 77 0 -1 4194560 6000 0 0 0 120 30 0 0 20 0 5 0 1000 90000000 2500 18446744073709551615 1 1";
        let usage = Usage::parse(stat).unwrap();
        assert_eq!(usage.cpu.as_millis() as u64, 150 * 1_000 / rustix::param::clock_ticks_per_second());
        assert_eq!(Usage::parse(&stat.replace(") S ", ") Z ")), Err(UsageError::Gone));
        assert_eq!(Usage::parse("77 (a) S 1"), Err(UsageError::Unreadable));
    }

    #[test]
    fn own_memory_excludes_shared_memory() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(Resident::parse("9000 2500 1500 4 0 500 0\n"), Some(Resident { bytes: 2_500 * page, own_bytes: 1_000 * page }));
        assert_eq!((Resident::parse("9000 2500"), Resident::parse("")), (None, None));
    }

    #[test]
    fn own_process_uses_memory_and_an_unknown_one_is_gone() {
        let own = Resident::of(std::process::id()).unwrap();
        assert!(own.bytes > 100_000 && own.own_bytes < own.bytes, "{own:?}");
        assert!(Usage::of(std::process::id()).is_ok());
        assert_eq!((Usage::of(u32::MAX), Resident::of(u32::MAX)), (Err(UsageError::Gone), Err(UsageError::Gone)));
    }

    #[test]
    fn usage_of_an_ended_process_is_known_plus_one_tick() {
        let count = "n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done";
        let mut child = std::process::Command::new("/bin/sh").args(["-c", count]).spawn().unwrap();
        while Usage::of(child.id()) != Err(UsageError::Gone) {
            std::thread::yield_now();
        }
        let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let counted = Usage::parse(&text.replace(") Z ", ") S ")).unwrap().cpu;
        let tick = Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap();
        assert_eq!(Usage::cpu_since_start(child.id()), counted + tick);
        child.wait().unwrap();
        assert_eq!(Usage::cpu_since_start(child.id()), Duration::ZERO);
    }
}
