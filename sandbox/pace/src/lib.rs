//! How much of the processor a worker gets beside others, and what the kernel says of its clock.
//!
//! A package of its own for its system calls: the pool, which reads what hostile processes say, and the host have no unsafe code.

mod clock;

use std::{fs, io};

use rustix::process::{Pid, setpriority_process};

pub use self::clock::{ClockState, clock};

/// Nicenesses: what a slowed process takes is told apart by it in proc_stat(5), and has no other effect beside its policy.
const SLOWED: i32 = 19;
const USUAL: i32 = 0;

/// Lets a process have what others leave of the processor, and nothing of what they want (sched(7), `SCHED_IDLE`). Measured
/// with six that compute beside a host on four cores: its calls/s stay at .94, where a niceness of 19 leaves .56.
///
/// # Errors
///
/// The system's, for a process that is gone or another user's.
pub fn lower(pid: u32) -> io::Result<()> {
    set(pid, libc::SCHED_IDLE, SLOWED)
}

/// Lets a process have as much as others again, as workers have it from their start (sched(7), `SCHED_BATCH`).
///
/// # Errors
///
/// The system's. It refuses this to a host without `CAP_SYS_NICE`.
pub fn raise(pid: u32) -> io::Result<()> {
    set(pid, libc::SCHED_BATCH, USUAL)
}

/// Of all threads: Linux keeps a policy for each.
fn set(pid: u32, policy: libc::c_int, niceness: i32) -> io::Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name().to_str().and_then(|name| name.parse().ok());
        match thread.map_or(Ok(()), |thread| set_one(thread, policy, niceness)) {
            // It has ended meanwhile, and needs no processor.
            Err(gone) if gone.raw_os_error() == Some(libc::ESRCH) => {}
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
    // SAFETY: the parameter lives as long as the call, which takes nothing else by its address.
    let failed = unsafe { libc::sched_setscheduler(thread, policy, &raw const unused) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Fields 41 and 19 of proc_pid_stat(5).
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
            assert_eq!(policy(child.id()), (libc::SCHED_BATCH, USUAL));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(lower(child.id()).is_err(), "a process that is gone");
    }
}
