//! How much of the processor a worker gets beside others.

use std::{fs, io};

use rustix::process::{Pid, getpriority_process, setpriority_process};

/// The niceness of a worker whose call computes for long: it gets what others leave, and next to nothing of what they want
/// (setpriority(2)).
const LOW: i32 = 19;

/// Lets a worker have what others leave.
pub(crate) fn lower(pid: u32) -> io::Result<()> {
    set(pid, LOW)
}

/// Lets a worker have as much as others again: what this process has. The system may refuse that to a host without privileges.
pub(crate) fn raise(pid: u32) -> io::Result<()> {
    set(pid, getpriority_process(None)?)
}

/// Of all threads: Linux keeps a niceness for each.
fn set(pid: u32, niceness: i32) -> io::Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        // One that has ended meanwhile needs no processor.
        match setpriority_process(thread, niceness) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn a_worker_is_slowed_and_no_other_process() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let niceness = |pid: u32| getpriority_process(Pid::from_raw(pid.cast_signed())).unwrap();
        let own = niceness(std::process::id());
        lower(child.id()).unwrap();
        assert_eq!((niceness(child.id()), niceness(std::process::id())), (LOW, own));
        if raise(child.id()).is_ok() {
            assert_eq!(niceness(child.id()), own);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(lower(child.id()).is_err(), "a process that is gone");
    }
}
