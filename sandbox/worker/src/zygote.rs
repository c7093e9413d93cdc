//! Where workers come from that need not boot: a process that has booted an engine, and forks.
//!
//! ```text
//! boot ── harden ── rehearse ──(an order)── fork ── jail ── Ready ── …     a worker, the child of the host as if that had started it
//!                                   ╰── the next order
//! ```
//!
//! A worker is the first process of a namespace of PIDs of its own, where the system lets it.
//!
//! An order is the number of a user to become, 0 for none, with the worker's end of a socket, and the folder of a control group where
//! the worker is to be in one from its first moment on; it is answered with the worker's id, or with the system's error number below 0.
//! Before the first one a 0 says that the zygote is ready. What a worker has of the engine it shares with the zygote until it writes to
//! it.
//!
//! Shared as well is what was chosen at random by then: where things are in memory, and the keys of the engine's hash tables and ours.
//! Nothing else is: no random number was drawn for a handler (09_crypto.js draws them itself), no thread runs, no clock was read.

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
    host::Gone,
    worker::{Blank, Terms},
};

/// Where a zygote hears its orders, and a worker its host. One of the few numbers that a jail leaves.
const PLACE: RawFd = 3;

/// Has a child begin in a control group (clone(2)). Not of a number that the C library's bindings have right.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// What a zygote goes by in the system's lists; its workers go by the name of their program.
const NAME: &std::ffi::CStr = c"tollhouse-fork";

/// Serves the host at the descriptor of `terms` until that goes away.
///
/// # Errors
///
/// When there is no host to speak to, or the system does not tell what a fork needs. In a worker as of
/// [`worker::run`](crate::worker::run).
pub(crate) fn run(terms: Terms) -> Result<(), Gone> {
    move_to_place(terms.socket)?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| Gone::Io)?;
    let program = name().map_err(|_| Gone::Io)?;
    let mut blank = Blank::boot(Terms { socket: PLACE, ..terms });
    blank.rehearse();
    let mut fork = Fork::prepare().map_err(|_| Gone::Io)?;
    let _ = set_name(NAME);
    answer(blank.socket(), 0)?;
    loop {
        let Order { user, socket, group } = order(blank.socket())?;
        let forked = fork.fork(group.as_ref());
        // Whoever had it could open files from there.
        drop(group);
        match forked {
            Ok(0) => {
                let _ = set_name(&program);
                blank.turn_to(&socket)?;
                drop(socket);
                return blank.serve(user);
            }
            Ok(worker) => answer(blank.socket(), worker)?,
            Err(errno) => answer(blank.socket(), -errno.raw_os_error())?,
        }
    }
}

/// Moves the socket to where a jail has room for another one to take its place.
#[expect(unsafe_code, reason = "descriptors inherited by number have no other way in")]
fn move_to_place(descriptor: RawFd) -> Result<(), Gone> {
    if descriptor == PLACE {
        return Ok(());
    }
    // SAFETY: the host opened the one for this process alone, and nothing here owns the other.
    let (socket, mut place) = unsafe { (OwnedFd::from_raw_fd(descriptor), OwnedFd::from_raw_fd(PLACE)) };
    let moved = dup2(&socket, &mut place);
    // Whoever boots at that place takes it over.
    std::mem::forget(place);
    moved.map_err(|_| Gone::Io)
}

/// A worker that is wanted.
struct Order {
    /// Whom it becomes.
    user: Option<u32>,
    /// Where the host is.
    socket: OwnedFd,
    /// The folder of the control group that it begins in.
    group: Option<OwnedFd>,
}

/// Waits for an order.
fn order(control: BorrowedFd<'_>) -> Result<Order, Gone> {
    let mut user = [0; 4];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(control, &mut [IoSliceMut::new(&mut user)], &mut ancillary, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            received => break received.map_err(|_| Gone::Io)?,
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
        (0, _) => Err(Gone::Closed),
        (4, Some(socket)) => Ok(Order { user: Some(u32::from_le_bytes(user)).filter(|user| *user != 0), socket, group }),
        _ => Err(Gone::Frame),
    }
}

fn answer(control: BorrowedFd<'_>, number: i32) -> Result<(), Gone> {
    send(control, &number.to_le_bytes(), SendFlags::NOSIGNAL).map_err(|_| Gone::Io)?;
    Ok(())
}

/// What it takes to fork this process, which has one thread.
#[derive(Debug)]
struct Fork {
    /// Where the C library keeps the number of this thread, which is another one in a child.
    thread_place: usize,
    /// Namespaces that a child begins, as in clone(2).
    namespaces: i32,
}

impl Fork {
    #[expect(unsafe_code, reason = "no safe binding asks where that is")]
    fn prepare() -> io::Result<Self> {
        let mut thread_place = 0_usize;
        // SAFETY: the kernel writes one address, to a valid place.
        let told = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut thread_place) };
        if told != 0 || thread_place == 0 {
            return Err(io::Error::last_os_error());
        }
        take_all_along()?;
        Ok(Self { thread_place, namespaces: libc::CLONE_NEWPID })
    }

    /// 0 in the child, and its id here. Its parent is that of this process, and it begins in `group` where there is one: to move there
    /// later would hold up everybody who starts processes.
    ///
    /// # Errors
    ///
    /// The system's; `ENOSYS` is that of one which does not know groups here.
    fn fork(&mut self, group: Option<&OwnedFd>) -> Result<i32, Errno> {
        match self.clone_with(self.namespaces, group) {
            // Not for us, none in this kernel, or none left: the child tells that this layer is refused.
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
        let child = group.map_or_else(|| self.clone_beside(flags), |group| self.clone_into(flags, group));
        if child < 0 { Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)) } else { Ok(child as i32) }
    }

    #[expect(unsafe_code, reason = "no safe binding forks, and none lets the parent have the child")]
    fn clone_beside(&self, flags: i32) -> libc::c_long {
        // SAFETY: there is no other thread that a child could miss, and nothing of this process is shared with it but descriptors.
        // The kernel writes the child's number where the C library looks for it. The last two arguments are in the order of the
        // processor's own.
        unsafe {
            if cfg!(target_arch = "x86_64") {
                libc::syscall(libc::SYS_clone, flags, 0, 0, self.thread_place, 0)
            } else {
                libc::syscall(libc::SYS_clone, flags, 0, 0, 0, self.thread_place)
            }
        }
    }

    #[expect(unsafe_code, reason = "no safe binding forks, and none lets the parent have the child")]
    fn clone_into(&self, flags: i32, group: &OwnedFd) -> libc::c_long {
        let flags = flags as u64 | CLONE_INTO_CGROUP;
        // SAFETY: all of it may be 0, which says nothing.
        let mut how: libc::clone_args = unsafe { mem::zeroed() };
        (how.flags, how.child_tid, how.cgroup) = (flags, self.thread_place as u64, group.as_raw_fd() as u64);
        // SAFETY: as of `clone_beside`; the arguments live as long as the call.
        unsafe { libc::syscall(libc::SYS_clone3, &raw const how, mem::size_of_val(&how)) }
    }
}

/// Lets children have all of this process's memory: V8 keeps some of its own from them (madvise(2), `MADV_DONTFORK`).
#[expect(unsafe_code, reason = "to speak of memory is to name it by its place")]
#[expect(clippy::disallowed_methods, reason = "the kernel tells by a file, before there is anything to run")]
fn take_all_along() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    for (first, last) in maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-')) {
        if let (Some(first), Some(last)) = (address(first), address(last)) {
            // SAFETY: changes what a fork takes along and nothing else. The kernel's own pages refuse it, and are there anyway.
            unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_DOFORK) };
        }
    }
    Ok(())
}
