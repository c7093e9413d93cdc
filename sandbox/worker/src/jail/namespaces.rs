//! Namespaces of the process's own, with nothing in them.

use rustix::{
    io::{Errno, Result},
    mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount},
    process::{chdir, getpid, pivot_root},
    thread::{UnshareFlags, unshare_unsafe},
};

/// A folder that is there wherever a host runs, for it watches its workers by it.
const FOLDER: &str = "/proc";

/// No process that it could name but itself. Who starts it sees to that, for a process enters no such namespace by itself: whether
/// it is the first of one shows that the system let them.
pub(crate) fn be_first() -> Result<()> {
    if getpid().is_init() { Ok(()) } else { Err(Errno::PERM) }
}

/// One without a map: nobody there is anybody outside, and nobody can become anybody.
pub(crate) fn enter_user() -> Result<()> {
    enter(UnshareFlags::NEWUSER)
}

/// Mounts that nobody else sees.
pub(crate) fn enter_mounts() -> Result<()> {
    enter(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// No network, not even to itself: its loopback device is down.
pub(crate) fn enter_network() -> Result<()> {
    enter(UnshareFlags::NEWNET)
}

/// No queue or shared memory of others.
pub(crate) fn enter_ipc() -> Result<()> {
    enter(UnshareFlags::NEWIPC)
}

/// Makes a folder the root that is empty and stays so, and lets go of all else there was.
pub(crate) fn empty_root() -> Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("none", FOLDER, "tmpfs", flags, c"size=4k,nr_inodes=1,mode=0555")?;
    chdir(FOLDER)?;
    // The old root comes to lie over the new one, and goes.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

#[expect(unsafe_code, reason = "the binding is unsafe for one flag, which is not among these")]
fn enter(namespace: UnshareFlags) -> Result<()> {
    // SAFETY: the table of descriptors stays shared.
    unsafe { unshare_unsafe(namespace) }
}
