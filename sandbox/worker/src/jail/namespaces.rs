//! The process's own, empty namespaces.

use rustix::{
    io::{Errno, Result},
    mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount},
    process::{chdir, getpid, pivot_root},
    thread::{UnshareFlags, unshare_unsafe},
};

/// A folder that exists on every host, because the host watches its workers through it.
const FOLDER: &str = "/proc";

/// Checks that this process is the first of its PID namespace, so that it cannot name any other
/// process. Only its parent can start it in such a namespace.
pub(crate) fn require_init() -> Result<()> {
    if getpid().is_init() { Ok(()) } else { Err(Errno::PERM) }
}

/// Enters a user namespace without a mapping: no user there corresponds to one outside, and none
/// can be gained.
pub(crate) fn enter_user() -> Result<()> {
    enter(UnshareFlags::NEWUSER)
}

/// Enters a mount namespace.
pub(crate) fn enter_mounts() -> Result<()> {
    enter(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// Enters a network namespace without a network. Even loopback is down.
pub(crate) fn enter_network() -> Result<()> {
    enter(UnshareFlags::NEWNET)
}

/// Enters an IPC namespace, without queues or shared memory of others.
pub(crate) fn enter_ipc() -> Result<()> {
    enter(UnshareFlags::NEWIPC)
}

/// Makes an empty, read-only folder the root, and detaches everything else.
pub(crate) fn empty_root() -> Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("none", FOLDER, "tmpfs", flags, c"size=4k,nr_inodes=1,mode=0555")?;
    chdir(FOLDER)?;
    // The old root is now stacked on top of the new one, and gets unmounted.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

#[expect(unsafe_code, reason = "the binding is unsafe because of one flag, which is not used here")]
fn enter(namespace: UnshareFlags) -> Result<()> {
    // SAFETY: the descriptor table stays shared.
    unsafe { unshare_unsafe(namespace) }
}
