//! Zygotes: processes that have booted an engine and fork workers, which then need no boot.
//!
//! A forked worker is a child of this process like any other, and sends its own
//! [`JailReport`](tollhouse_protocol::JailReport). Workers of one zygote share their memory layout
//! and the keys of the engine's hash tables, so zygotes are replaced regularly. Without a zygote, or
//! if it does not answer, workers are started directly. Except in the default tier, a zygote is
//! ended if no worker of its tier was needed for the lifetime of a zygote.
//!
//! One thread owns all zygotes (see [`Spawner`](crate::spawner::Spawner)), because the kernel ends a
//! zygote together with the thread that started it.

#[cfg(test)]
mod tests;

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream as Socket,
    },
    process::{Child, Command},
    time::Duration,
};

use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, Timespec, poll},
    io::{FdFlags, fcntl_setfd, retry_on_intr},
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, sendmsg, socketpair,
    },
    process::{Pid, WaitId, WaitIdOptions, waitid},
};
use tokio::time::Instant;
use tollhouse_protocol::Tier;

use crate::{config::PoolConfig, tiers::EachTier, usage::Resident};

/// Time for which workers are started directly after a zygote failed.
const PAUSE: Duration = Duration::from_secs(10);

/// Checks that a process is our child, and leaves it unreaped.
const IS_CHILD: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);

/// The zygotes of a pool: one for each tier in use.
#[derive(Debug)]
pub(crate) struct Zygotes {
    config: PoolConfig,
    slots: EachTier<ZygoteSlot>,
}

/// A zygote and its successor.
#[derive(Debug, Default)]
struct ZygoteSlot {
    now: Option<Zygote>,
    /// The successor, while it boots.
    next: Option<Zygote>,
    failed: Option<Instant>,
    /// When a worker was last needed.
    requested: Option<Instant>,
}

/// Properties of a worker from its start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkerSpec<'a> {
    /// The user it runs as, if not the host's.
    pub(crate) user: Option<u32>,
    /// The folder of its control group, if there is one.
    pub(crate) group: Option<BorrowedFd<'a>>,
}

/// A worker that has just started. The caller must end it.
#[derive(Debug)]
pub(crate) struct ForkedWorker {
    pub(crate) pid: Pid,
    /// The host's end of its socket.
    pub(crate) socket: Socket,
    /// Whether it started in its control group.
    pub(crate) is_in_group: bool,
}

/// Number and memory of the zygotes of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ZygoteCounts {
    pub(crate) zygotes: usize,
    /// Their total private memory, in bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Zygote {
    child: Child,
    control: OwnedFd,
    forked: Instant,
    forks: usize,
    is_ready: bool,
}

impl Zygotes {
    pub(crate) fn new(config: &PoolConfig) -> Self {
        Self { config: config.clone(), slots: EachTier::default() }
    }

    /// Forks a worker of a tier. `start` starts a zygote if one is needed. Returns `None` if the
    /// worker must be started directly.
    pub(crate) fn fork_worker(&mut self, start: impl Fn() -> io::Result<Zygote>, tier: Tier, spec: WorkerSpec<'_>) -> Option<ForkedWorker> {
        let PoolConfig { zygote_forks: max_forks, zygote_life: life, zygote_timeout: timeout, boot_timeout, .. } = self.config;
        if max_forks == 0 {
            return None;
        }
        let slot = &mut self.slots[tier];
        slot.requested = Some(Instant::now());
        slot.advance(start, boot_timeout, |zygote| zygote.forks >= max_forks || zygote.forked.elapsed() >= life);
        let zygote = slot.now.as_mut()?;
        let ready = zygote.wait_until_ready(timeout.saturating_sub(zygote.forked.elapsed()));
        match ready.and_then(|()| zygote.fork_worker(spec, timeout)) {
            Ok(worker) => Some(worker),
            // The zygote will be ready for a later worker.
            Err(error) if zygote.may_still_boot(&error, boot_timeout) => None,
            Err(error) => {
                tracing::warn!(%error, "a zygote does not work, so workers are started without it");
                slot.now = None;
                slot.failed = Some(Instant::now());
                None
            }
        }
    }

    /// Reaps zygotes that have ended, and ends those that are unused.
    pub(crate) fn check(&mut self) {
        for (tier, slot) in self.slots.iter_mut() {
            for zygote in [&mut slot.now, &mut slot.next] {
                if zygote.take_if(Zygote::has_ended).is_some() {
                    slot.failed = Some(Instant::now());
                }
            }
            if tier != self.config.tier && slot.requested.is_some_and(|request| request.elapsed() >= self.config.zygote_life) {
                *slot = ZygoteSlot::default();
            }
        }
    }

    /// Returns the number of zygotes, including those that boot, and their memory.
    pub(crate) fn counts(&self) -> ZygoteCounts {
        let zygotes = self.slots.iter().flat_map(|(_, slot)| slot.now.iter().chain(&slot.next));
        zygotes
            .fold(ZygoteCounts::default(), |all, zygote| ZygoteCounts { zygotes: all.zygotes + 1, bytes: all.bytes + zygote.own_bytes() })
    }

    /// Ends all zygotes, because a worker forked from one did not work.
    pub(crate) fn distrust(&mut self) {
        for (_, slot) in self.slots.iter_mut().filter(|(_, slot)| slot.now.is_some()) {
            (slot.now, slot.next, slot.failed) = (None, None, Some(Instant::now()));
        }
    }

    /// Ends all zygotes and prevents new ones.
    pub(crate) fn close(&mut self) {
        self.config.zygote_forks = 0;
        self.slots = EachTier::default();
    }
}

impl ZygoteSlot {
    /// Ensures that there is a zygote, and starts its successor once it `is_due`.
    fn advance(&mut self, start: impl Fn() -> io::Result<Zygote>, boot_timeout: Duration, is_due: impl Fn(&Zygote) -> bool) {
        let has_failed =
            |next: &mut Zygote| next.wait_until_ready(Duration::ZERO).is_err_and(|error| !next.may_still_boot(&error, boot_timeout));
        if self.next.as_mut().is_some_and(has_failed) {
            (self.next, self.failed) = (None, Some(Instant::now()));
        }
        let may_start = self.next.is_none() && self.failed.is_none_or(|failed| failed.elapsed() >= PAUSE);
        if may_start && self.now.as_ref().is_none_or(is_due) {
            self.next = start().inspect_err(|_| self.failed = Some(Instant::now())).ok();
        }
        if self.now.is_none() || self.next.as_ref().is_some_and(|next| next.is_ready) {
            self.now = self.next.take().or(self.now.take());
        }
    }
}

impl Zygote {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let (control, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // Like a worker, it first closes all descriptors except its end of the socket. Only this
        // thread starts processes, so none inherits the socket of another.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let child = command.args(["--zygote", &theirs.as_raw_fd().to_string()]).spawn()?;
        Ok(Self { child, control, forked: Instant::now(), forks: 0, is_ready: false })
    }

    /// Waits until the zygote has booted.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] if it takes longer than `timeout`, another kind if it has ended.
    fn wait_until_ready(&mut self, timeout: Duration) -> io::Result<()> {
        if !self.is_ready {
            self.answer(timeout)?;
            self.is_ready = true;
        }
        Ok(())
    }

    /// Returns whether `error` is a time-out of a zygote that is still within its boot time.
    fn may_still_boot(&self, error: &io::Error, boot_timeout: Duration) -> bool {
        !self.is_ready && error.kind() == io::ErrorKind::TimedOut && self.forked.elapsed() < boot_timeout
    }

    fn fork_worker(&mut self, spec: WorkerSpec<'_>, timeout: Duration) -> io::Result<ForkedWorker> {
        let (ours, theirs) = Socket::pair()?;
        let mut number = self.request(&theirs, spec, timeout)?;
        let is_in_group = spec.group.is_some() && number > 0;
        if spec.group.is_some() && number < 0 {
            // Some kernels do not support this, and some seccomp filters forbid it.
            number = self.request(&theirs, WorkerSpec { group: None, ..spec }, timeout)?;
        }
        let pid = match number {
            number @ 1.. => Pid::from_raw(number).ok_or(io::ErrorKind::InvalidData)?,
            errno => return Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        };
        // The worker will be killed by this number, so it must be our child.
        waitid(WaitId::Pid(pid), IS_CHILD)?;
        self.forks += 1;
        Ok(ForkedWorker { pid, socket: ours, is_in_group })
    }

    /// Requests a worker with this socket. Returns its process id, or a negative error number.
    fn request(&mut self, socket: &Socket, spec: WorkerSpec<'_>, timeout: Duration) -> io::Result<i32> {
        let descriptors: Vec<_> = std::iter::once(socket.as_fd()).chain(spec.group).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let request = spec.user.unwrap_or(0).to_le_bytes();
        sendmsg(&self.control, &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL)?;
        self.answer(timeout).or_else(|_| self.last_answer())
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends the zygote and returns its last answer, because it may have forked just before.
    fn last_answer(&mut self) -> io::Result<i32> {
        self.end();
        self.answer(Duration::ZERO)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its private memory in bytes, or 0 if it has ended.
    fn own_bytes(&self) -> u64 {
        Resident::of(self.child.id()).map_or(0, |resident| resident.own_bytes)
    }

    fn answer(&self, timeout: Duration) -> io::Result<i32> {
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        if retry_on_intr(|| poll(&mut [PollFd::new(&self.control, PollFlags::IN)], Some(&timeout)))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut number = [0; 4];
        match recv(&self.control, &mut number, RecvFlags::DONTWAIT)? {
            (_, 4) => Ok(i32::from_le_bytes(number)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.end();
    }
}
