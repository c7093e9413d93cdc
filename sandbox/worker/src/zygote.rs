//! Zygote: a process that has booted an engine, and forks workers that need not boot.
//!
//! ```text
//! boot ── harden ── warm up ──(a request)── fork ── jail ── Ready ── …     a worker, as a child of the host
//!                                   ╰── the next request
//! ```
//!
//! A worker is the first process of its own PID namespace, if the system permits that.
//!
//! A request contains the number of a user to switch to, or 0. The worker's end of a socket comes
//! with it, and optionally the folder of a control group that the worker starts in. The answer is
//! the worker's process id, or a negative error number of the system. Before the first request, the
//! zygote sends a 0 when it is ready. A worker shares the engine's memory with the zygote until it
//! writes to it.
//!
//! Workers also share all random choices before the fork: the memory layout, and the keys of hash
//! tables of the engine and of Rust. They share nothing else: no random number was drawn for a
//! handler (09_crypto.js draws them itself), no thread runs, no clock was read.

use std::{
    fs,
    io::{self, IoSliceMut},
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use rustix::{
    cmsg_space,
    io::{Errno, dup2},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send},
    process::{Signal, set_parent_process_death_signal},
    thread::{name, set_name},
};

use crate::{
    host::HostGone,
    worker::{BlankWorker, WorkerOptions},
};

/// Descriptor number of the zygote's control socket and of a worker's socket. The jail permits only a
/// few numbers.
const SOCKET_FD: RawFd = 3;

/// Makes a child start in a control group (clone(2)). The C library's bindings have the wrong type
/// for it.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Process name of a zygote. Its workers have the name of their program.
const NAME: &std::ffi::CStr = c"tollhouse-fork";

/// Serves the host at the descriptor of `options` until it goes away.
///
/// # Errors
///
/// If there is no host to communicate with, or the system does not provide what a fork needs. In a
/// worker, the same as [`worker::run`](crate::worker::run).
pub(crate) fn run(options: WorkerOptions) -> Result<(), HostGone> {
    move_socket(options.socket)?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| HostGone::Io)?;
    let program = name().map_err(|_| HostGone::Io)?;
    let mut blank = BlankWorker::boot(WorkerOptions { socket: SOCKET_FD, ..options });
    blank.warm_up();
    let mut fork = Forker::prepare().map_err(|_| HostGone::Io)?;
    let _ = set_name(NAME);
    answer(blank.socket(), 0)?;
    loop {
        let ForkRequest { user, socket, group } = receive_request(blank.socket())?;
        let forked = fork.fork(group.as_ref());
        // With it, a worker could open files in that folder.
        drop(group);
        match forked {
            Ok(0) => {
                let _ = set_name(&program);
                blank.switch_socket(&socket)?;
                drop(socket);
                return blank.serve(user);
            }
            Ok(worker) => answer(blank.socket(), worker)?,
            Err(errno) => answer(blank.socket(), -errno.raw_os_error())?,
        }
    }
}

/// Moves the socket to the descriptor number that workers use.
#[expect(unsafe_code, reason = "no safe binding takes over inherited descriptors")]
fn move_socket(descriptor: RawFd) -> Result<(), HostGone> {
    if descriptor == SOCKET_FD {
        return Ok(());
    }
    // SAFETY: the host opened the first descriptor for this process only, and nothing here owns the
    // second.
    let (socket, mut target) = unsafe { (OwnedFd::from_raw_fd(descriptor), OwnedFd::from_raw_fd(SOCKET_FD)) };
    let moved = dup2(&socket, &mut target);
    // The worker that boots with that number takes ownership of it.
    std::mem::forget(target);
    moved.map_err(|_| HostGone::Io)
}

/// A request for a worker.
struct ForkRequest {
    /// The user it runs as.
    user: Option<u32>,
    /// Its socket to the host.
    socket: OwnedFd,
    /// The folder of the control group that it starts in.
    group: Option<OwnedFd>,
}

/// Waits for the next request.
fn receive_request(control: BorrowedFd<'_>) -> Result<ForkRequest, HostGone> {
    let mut user = [0; 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(control, &mut [IoSliceMut::new(&mut user)], &mut ancillary, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            received => break received.map_err(|_| HostGone::Io)?,
        }
    };
    let (socket, group) = ancillary
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => Some((descriptors.next(), descriptors.next())),
            _ => None,
        })
        .unwrap_or_default();
    match (received.bytes, socket) {
        (0, _) => Err(HostGone::Closed),
        (4, Some(socket)) => Ok(ForkRequest { user: Some(u32::from_le_bytes(user)).filter(|user| *user != 0), socket, group }),
        _ => Err(HostGone::Frame),
    }
}

fn answer(control: BorrowedFd<'_>, number: i32) -> Result<(), HostGone> {
    send(control, &number.to_le_bytes(), SendFlags::NOSIGNAL).map_err(|_| HostGone::Io)?;
    Ok(())
}

/// The data needed to fork this single-threaded process.
#[derive(Debug)]
struct Forker {
    /// Address where the C library keeps the thread id, which must change in a child.
    tid_address: usize,
    /// Namespaces that a child starts, as in clone(2).
    namespaces: i32,
}

impl Forker {
    #[expect(unsafe_code, reason = "no safe binding returns this address")]
    fn prepare() -> io::Result<Self> {
        let mut tid_address = 0_usize;
        // SAFETY: the kernel writes one address to a valid variable.
        let reported = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut tid_address) };
        if reported != 0 || tid_address == 0 {
            return Err(io::Error::last_os_error());
        }
        inherit_all_memory()?;
        Ok(Self { tid_address, namespaces: libc::CLONE_NEWPID })
    }

    /// Forks. Returns 0 in the child, and the child's process id here. The child's parent is the
    /// parent of this process. It starts in `group`, if any, because moving it later would delay
    /// everybody who starts processes.
    ///
    /// # Errors
    ///
    /// The error of the system. `ENOSYS` means that it cannot start a process in a group.
    fn fork(&mut self, group: Option<&OwnedFd>) -> Result<i32, Errno> {
        match self.clone_with(self.namespaces, group) {
            // The system refuses namespaces. The child reports that this layer is not in force.
            Err(Errno::PERM | Errno::INVAL | Errno::NOSPC) if self.namespaces != 0 => {
                let forked = self.clone_with(0, group);
                if forked.is_ok() {
                    self.namespaces = 0;
                }
                forked
            }
            forked => forked,
        }
    }

    fn clone_with(&self, namespaces: i32, group: Option<&OwnedFd>) -> Result<i32, Errno> {
        let flags = namespaces | libc::CLONE_PARENT | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
        let child = group.map_or_else(|| self.clone_sibling(flags), |group| self.clone_into(flags, group));
        if child < 0 { Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)) } else { Ok(child as i32) }
    }

    #[expect(unsafe_code, reason = "no safe binding forks, least of all as a sibling")]
    fn clone_sibling(&self, flags: i32) -> libc::c_long {
        // SAFETY: there is no other thread that a child could miss, and the child shares only
        // descriptors with this process. The kernel writes the child's id where the C library looks
        // for it. The order of the last two arguments depends on the processor.
        unsafe {
            if cfg!(target_arch = "x86_64") {
                libc::syscall(libc::SYS_clone, flags, 0, 0, self.tid_address, 0)
            } else {
                libc::syscall(libc::SYS_clone, flags, 0, 0, 0, self.tid_address)
            }
        }
    }

    #[expect(unsafe_code, reason = "no safe binding forks, least of all as a sibling")]
    fn clone_into(&self, flags: i32, group: &OwnedFd) -> libc::c_long {
        let flags = flags as u64 | CLONE_INTO_CGROUP;
        // SAFETY: all fields can be 0, which means unset.
        let mut clone_args: libc::clone_args = unsafe { mem::zeroed() };
        (clone_args.flags, clone_args.child_tid, clone_args.cgroup) = (flags, self.tid_address as u64, group.as_raw_fd() as u64);
        // SAFETY: as in `clone_sibling`. The arguments outlive the call.
        unsafe { libc::syscall(libc::SYS_clone3, &raw const clone_args, mem::size_of_val(&clone_args)) }
    }
}

/// Lets children inherit all memory of this process, because V8 excludes some of its own
/// (madvise(2), `MADV_DONTFORK`).
#[expect(unsafe_code, reason = "no safe binding advises on memory that nobody here owns")]
#[expect(clippy::disallowed_methods, reason = "the kernel lists mappings in a file; no handler runs yet")]
fn inherit_all_memory() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    for (first, last) in maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-')) {
        if let (Some(first), Some(last)) = (address(first), address(last)) {
            // SAFETY: changes only what a fork inherits. The kernel's own pages refuse it, but are
            // inherited anyway.
            unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_DOFORK) };
        }
    }
    Ok(())
}
