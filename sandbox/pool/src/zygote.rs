//! Processes that fork workers: they have booted an engine already, and a worker has that from its first moment on.
//!
//! A worker that was forked is a child of this process like any other, and its [`JailReport`](tollhouse_protocol::JailReport) is. What
//! it has in common with the others of one zygote is where things are in memory, and the keys of the engine's hash tables: that is why
//! a zygote is renewed. Where there is none, or it does not answer, workers are started by themselves. One of a tier that nobody has
//! asked for during a whole life of a zygote is ended, but for the usual tier's.
//!
//! One thread has them all, see [`Spawner`](crate::spawner::Spawner): the system ends a zygote with the thread that started it.

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

/// How long workers are started by themselves after a zygote failed.
const PAUSE: Duration = Duration::from_secs(10);

/// That of a process is known, and it is left for others to wait for.
const IS_CHILD: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);

/// The zygotes of a pool: one of each tier that is in use.
#[derive(Debug)]
pub(crate) struct Zygotes {
    usual: Tier,
    forks: usize,
    life: Duration,
    patience: Duration,
    boot_patience: Duration,
    lines: EachTier<Line>,
}

/// A zygote, and who comes after it.
#[derive(Debug, Default)]
struct Line {
    now: Option<Zygote>,
    /// On its way.
    next: Option<Zygote>,
    failed: Option<Instant>,
    /// When a worker was last asked for.
    asked: Option<Instant>,
}

/// What a worker is to be from its first moment on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    /// Whom it becomes, if not who the host is.
    pub(crate) user: Option<u32>,
    /// The folder of its control group, if there is one.
    pub(crate) group: Option<BorrowedFd<'a>>,
}

/// A worker that was just started, and is the caller's to end.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub(crate) pid: Pid,
    /// This end of its socket.
    pub(crate) socket: Socket,
    /// Whether it began in its control group.
    pub(crate) is_in_group: bool,
}

/// What the zygotes of a pool are at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) zygotes: usize,
    /// What they hold of the machine's memory, together.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Zygote {
    child: Child,
    control: OwnedFd,
    born: Instant,
    forks: usize,
    is_ready: bool,
}

impl Zygotes {
    pub(crate) fn new(config: &PoolConfig) -> Self {
        Self {
            usual: config.tier,
            forks: config.zygote_forks,
            life: config.zygote_life,
            patience: config.zygote_patience,
            boot_patience: config.boot_patience,
            lines: EachTier::default(),
        }
    }

    /// A worker of a tier, forked by the zygote that `start` gives. `None` where it has to be started by itself.
    pub(crate) fn fork(&mut self, start: impl Fn() -> io::Result<Zygote>, tier: Tier, terms: Terms<'_>) -> Option<Newborn> {
        if self.forks == 0 {
            return None;
        }
        let line = &mut self.lines[tier];
        line.asked = Some(Instant::now());
        line.advance(start, self.boot_patience, |zygote| zygote.forks >= self.forks || zygote.born.elapsed() >= self.life);
        let zygote = line.now.as_mut()?;
        let patience = self.patience.saturating_sub(zygote.born.elapsed());
        match zygote.wait_until_ready(patience).and_then(|()| zygote.fork(terms, self.patience)) {
            Ok(worker) => Some(worker),
            // Whoever comes later finds it ready.
            Err(error) if zygote.may_yet_boot(&error, self.boot_patience) => None,
            Err(error) => {
                tracing::warn!(%error, "a zygote is of no use: workers are started by themselves");
                line.now = None;
                line.failed = Some(Instant::now());
                None
            }
        }
    }

    /// Waits for those that have ended, so that the system lets go of them, and ends those that nobody uses any more.
    pub(crate) fn look(&mut self) {
        for (tier, line) in self.lines.iter_mut() {
            for zygote in [&mut line.now, &mut line.next] {
                if zygote.take_if(Zygote::has_ended).is_some() {
                    line.failed = Some(Instant::now());
                }
            }
            if tier != self.usual && line.asked.is_some_and(|asked| asked.elapsed() >= self.life) {
                *line = Line::default();
            }
        }
    }

    /// How many there are, those on their way among them, and what they hold.
    pub(crate) fn census(&self) -> Census {
        let zygotes = self.lines.iter().flat_map(|(_, line)| line.now.iter().chain(&line.next));
        zygotes.fold(Census::default(), |all, zygote| Census { zygotes: all.zygotes + 1, bytes: all.bytes + zygote.own_bytes() })
    }

    /// Ends all: what a worker of theirs was from its first moment is no good.
    pub(crate) fn distrust(&mut self) {
        for (_, line) in self.lines.iter_mut().filter(|(_, line)| line.now.is_some()) {
            (line.now, line.next, line.failed) = (None, None, Some(Instant::now()));
        }
    }

    /// Ends all, and starts none any more.
    pub(crate) fn close(&mut self) {
        self.forks = 0;
        self.lines = EachTier::default();
    }
}

impl Line {
    /// Sees to it that there is a zygote, and another one soon where it `is_due`.
    fn advance(&mut self, start: impl Fn() -> io::Result<Zygote>, boot_patience: Duration, is_due: impl Fn(&Zygote) -> bool) {
        let has_failed =
            |next: &mut Zygote| next.wait_until_ready(Duration::ZERO).is_err_and(|error| !next.may_yet_boot(&error, boot_patience));
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
        // As workers do, it closes all but its end first thing, and only this thread starts any.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        let child = command.args(["--zygote", &theirs.as_raw_fd().to_string()]).spawn()?;
        Ok(Self { child, control, born: Instant::now(), forks: 0, is_ready: false })
    }

    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] when it takes longer, another one when it has ended.
    fn wait_until_ready(&mut self, patience: Duration) -> io::Result<()> {
        if !self.is_ready {
            self.answer(patience)?;
            self.is_ready = true;
        }
        Ok(())
    }

    /// Whether it was but not waited for any longer, and may take longer.
    fn may_yet_boot(&self, error: &io::Error, boot_patience: Duration) -> bool {
        !self.is_ready && error.kind() == io::ErrorKind::TimedOut && self.born.elapsed() < boot_patience
    }

    fn fork(&mut self, terms: Terms<'_>, patience: Duration) -> io::Result<Newborn> {
        let (ours, theirs) = Socket::pair()?;
        let mut number = self.order(&theirs, terms, patience)?;
        let is_in_group = terms.group.is_some() && number > 0;
        if terms.group.is_some() && number < 0 {
            // There are systems that do not know how, and filters that do not let it.
            number = self.order(&theirs, Terms { group: None, ..terms }, patience)?;
        }
        let pid = match number {
            number @ 1.. => Pid::from_raw(number).ok_or(io::ErrorKind::InvalidData)?,
            errno => return Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        };
        // It is to be ended by this number, which nobody else's process may have.
        waitid(WaitId::Pid(pid), IS_CHILD)?;
        self.forks += 1;
        Ok(Newborn { pid, socket: ours, is_in_group })
    }

    /// Orders a worker that is to have this socket. What is answered.
    fn order(&mut self, socket: &Socket, terms: Terms<'_>, patience: Duration) -> io::Result<i32> {
        let descriptors: Vec<_> = std::iter::once(socket.as_fd()).chain(terms.group).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let order = terms.user.unwrap_or(0).to_le_bytes();
        sendmsg(&self.control, &[IoSlice::new(&order)], &mut ancillary, SendFlags::NOSIGNAL)?;
        self.answer(patience).or_else(|_| self.last_answer())
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it says that is not to be waited for any more: it may have forked at the last moment.
    fn last_answer(&mut self) -> io::Result<i32> {
        self.end();
        self.answer(Duration::ZERO)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it holds of the machine's memory; nothing where it has ended.
    fn own_bytes(&self) -> u64 {
        Resident::of(self.child.id()).map_or(0, |resident| resident.own_bytes)
    }

    fn answer(&self, patience: Duration) -> io::Result<i32> {
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        if retry_on_intr(|| poll(&mut [PollFd::new(&self.control, PollFlags::IN)], Some(&patience)))? == 0 {
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
