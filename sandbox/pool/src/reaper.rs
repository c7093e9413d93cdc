//! The end of worker processes: their owners kill them, and a dedicated thread waits for them.

use std::{
    fmt, io,
    sync::{Arc, mpsc},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::{cgroups::GroupLimits, process_slots::ProcessSlot};

/// Signals that a process gets from outside: from the kernel when memory runs out, from an
/// operator, or at the end of a session.
const SENT: [Signal; 5] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Waits for ended processes. Its thread stops after the reaper is dropped and the last process is
/// gone.
#[derive(Debug)]
pub(crate) struct Reaper {
    ended: mpsc::Sender<KilledProcess>,
    /// Processes that have started and are not reaped yet.
    unreaped: TaskTracker,
}

/// A killed process. Its token and place are dropped when the process is gone from the system.
type KilledProcess = (Pid, TaskTrackerToken, Arc<ProcessSlot>);

impl Reaper {
    /// Starts the reaper thread.
    ///
    /// # Errors
    ///
    /// The error of the system if it cannot start a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (ended, queue) = mpsc::channel::<KilledProcess>();
        let reap = move || {
            for (child, token, slot) in queue {
                wait_for(child);
                // The place goes first, so that it is free once all processes are gone.
                drop(slot);
                drop(token);
            }
        };
        thread::Builder::new().name("tollhouse-wait".into()).spawn(reap)?;
        let unreaped = TaskTracker::new();
        // A tracker accepts new tokens even when closed, and only a closed one reports that no
        // token is left.
        unreaped.close();
        Ok(Self { ended, unreaped })
    }

    /// Takes charge of a child that has just started in this place.
    pub(crate) fn adopt(&self, child: Pid, slot: Arc<ProcessSlot>) -> ProcessGuard {
        let running = Some((child, self.unreaped.token(), slot));
        ProcessGuard { running, exited: None, ended: self.ended.clone() }
    }

    /// Waits until every ended process is gone from the system.
    pub(crate) async fn all_reaped(&self) {
        self.unreaped.wait().await;
    }
}

/// How a process ended before this host ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// By the kernel, because its group ran out of memory.
    OutOfMemory,
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "with status {status}"),
            Self::Signal(signal) => write!(f, "by signal {signal}"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl ProcessExit {
    /// Returns whether the signal was sent from outside, and not caused by the process.
    pub(crate) fn is_external(self) -> bool {
        matches!(self, Self::Signal(signal) if SENT.iter().any(|sent| sent.as_raw() == signal))
    }
}

/// A process that has not been reaped. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    running: Option<KilledProcess>,
    /// How it had ended before `end` was called.
    exited: Option<ProcessExit>,
    ended: mpsc::Sender<KilledProcess>,
}

impl ProcessGuard {
    /// Kills the process, once.
    pub(crate) fn end(&mut self) {
        self.exited = self.exit();
        if let Some((child, token, slot)) = self.running.take() {
            kill(child);
            slot.leave();
            if let Err(mpsc::SendError((child, ..))) = self.ended.send((child, token, slot)) {
                wait_for(child);
            }
        }
    }

    /// Returns whether it has not been ended.
    pub(crate) fn is_live(&self) -> bool {
        self.running.is_some()
    }

    /// Returns how the process ended on its own, or `None` if it has not. The process stays
    /// unreaped, so its id remains its own.
    pub(crate) fn exit(&self) -> Option<ProcessExit> {
        let Some((child, _, slot)) = &self.running else { return self.exited };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(*child), options).ok()??;
        let exit = status.exit_status().map(ProcessExit::Status).or_else(|| status.terminating_signal().map(ProcessExit::Signal))?;
        let is_killed = exit == ProcessExit::Signal(Signal::KILL.as_raw());
        Some(if is_killed && slot.group_limits().is_some_and(GroupLimits::is_out_of_memory) { ProcessExit::OutOfMemory } else { exit })
    }
}

/// Kills a child. It must be unreaped, so that the id is still its own.
fn kill(child: Pid) {
    let _ = kill_process(child, Signal::KILL);
}

/// Waits until a child is gone from the system.
fn wait_for(child: Pid) {
    while matches!(waitid(WaitId::Pid(child), WaitIdOptions::EXITED), Err(Errno::INTR)) {}
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use futures_util::FutureExt;

    use super::*;
    use crate::process_slots::ProcessSlots;

    #[test]
    fn exit_of_a_process_shows_how_it_ended_and_whether_it_was_killed() {
        let (reaper, slot) = (Reaper::start().unwrap(), || ProcessSlots::new(1, 0, Default::default()).take().unwrap());
        let start = |command: &mut Command| reaper.adopt(Pid::from_child(&command.spawn().unwrap()), slot());
        let cases = [
            ("exit 72", ProcessExit::Status(72), false),
            ("kill -SEGV $$", ProcessExit::Signal(11), false),
            ("kill -KILL $$", ProcessExit::Signal(9), true),
            ("kill $$", ProcessExit::Signal(15), true),
        ];
        for (script, exit, from_outside) in cases {
            let mut adopted = start(Command::new("/bin/sh").args(["-c", script]));
            while adopted.exit().is_none() {
                thread::yield_now();
            }
            assert_eq!((adopted.exit(), adopted.is_live()), (Some(exit), true), "{script}: a check changes nothing");
            assert_eq!(exit.is_external(), from_outside, "{script}");
            adopted.end();
            assert_eq!(adopted.exit(), Some(exit), "{script}: the exit of a reaped process is known");
        }
        let mut adopted = start(Command::new("/bin/sleep").arg("600"));
        adopted.end();
        assert_eq!(adopted.exit(), None, "the pool ended it");
    }

    #[tokio::test]
    async fn process_keeps_its_place_until_it_is_reaped() {
        let (reaper, slots) = (Reaper::start().unwrap(), ProcessSlots::new(1, 0, Default::default()));
        #[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
        let sleeper = || {
            let child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
            reaper.adopt(Pid::from_child(&child), slots.take().unwrap())
        };
        let mut adopted = sleeper();
        assert!(adopted.is_live() && slots.taken() == 1);
        assert!(reaper.all_reaped().now_or_never().is_none());
        adopted.end();
        assert!(!adopted.is_live());
        adopted.end();
        reaper.all_reaped().await;
        assert_eq!(slots.taken(), 0);
        drop(adopted);
        drop(sleeper());
        reaper.all_reaped().await;
        assert_eq!(slots.taken(), 0, "nobody holds it");
    }
}
