//! Scheduling priority of workers, and the state of the system clock.
//!
//! This is a separate crate because of its system calls: the pool, which parses data from hostile
//! processes, and the host contain no unsafe code.

mod clock;

use std::{fs, io};

use rustix::process::{Pid, setpriority_process};

pub use self::clock::{ClockState, clock};

/// Nice values. They have no effect besides the policy, but let proc_stat(5) account for slowed
/// processes separately.
const SLOWED: i32 = 19;
const NORMAL: i32 = 0;

/// Gives a process only the processor time that others leave (sched(7), `SCHED_IDLE`). Measured
/// with six computing processes next to a host on four cores: the host keeps 94 % of its calls per
/// second, compared with 56 % for a nice value of 19.
///
/// # Errors
///
/// The error of the system, for example for a process that is gone or belongs to another user.
pub fn lower(pid: u32) -> io::Result<()> {
    set(pid, libc::SCHED_IDLE, SLOWED)
}

/// Restores the normal priority that workers start with (sched(7), `SCHED_BATCH`).
///
/// # Errors
///
/// The error of the system. A host without `CAP_SYS_NICE` cannot do this.
pub fn raise(pid: u32) -> io::Result<()> {
    set(pid, libc::SCHED_BATCH, NORMAL)
}

/// Sets the policy of all threads, because Linux keeps one for each thread.
fn set(pid: u32, policy: libc::c_int, niceness: i32) -> io::Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name().to_str().and_then(|name| name.parse().ok());
        match thread.map_or(Ok(()), |thread| set_one(thread, policy, niceness)) {
            // The thread has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            ended => ended?,
        }
    }
    Ok(())
}

fn set_one(thread: libc::pid_t, policy: libc::c_int, niceness: i32) -> io::Result<()> {
    set_policy(thread, policy)?;
    Ok(setpriority_process(Pid::from_raw(thread), niceness)?)
}

#[expect(unsafe_code, reason = "no safe binding sets a scheduling policy")]
fn set_policy(thread: libc::pid_t, policy: libc::c_int) -> io::Result<()> {
    let unused = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call, which uses no other address.
    let failed = unsafe { libc::sched_setscheduler(thread, policy, &raw const unused) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Returns fields 41 and 19 of proc_pid_stat(5).
    fn policy(pid: u32) -> (i32, i32) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3).unwrap().parse().unwrap();
        (field(41), field(19))
    }

    #[test]
    fn one_process_is_slowed_and_no_other() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let own = policy(std::process::id());
        lower(child.id()).unwrap();
        assert_eq!((policy(child.id()), policy(std::process::id())), ((libc::SCHED_IDLE, SLOWED), own));
        if raise(child.id()).is_ok() {
            assert_eq!(policy(child.id()), (libc::SCHED_BATCH, NORMAL));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(lower(child.id()).is_err(), "the process is gone");
    }
}
