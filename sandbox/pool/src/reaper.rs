//! The end of worker processes: killed by whoever holds them, waited for by a thread that does nothing else.

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

use crate::{groups::Bounds, places::Place};

/// What a process is ended by from outside: by the system that has no memory left, an operator, or the end of a session.
const SENT: [Signal; 5] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Waits for ended processes, so that nobody else has to. Its thread ends with it and with the last process.
#[derive(Debug)]
pub(crate) struct Reaper {
    ended: mpsc::Sender<Ended>,
    /// Started and not waited for.
    unreaped: TaskTracker,
}

/// A process that was killed. Its token and its place go when the system has let go of the process.
type Ended = (Pid, TaskTrackerToken, Arc<Place>);

impl Reaper {
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (ended, queue) = mpsc::channel::<Ended>();
        let reap = move || {
            for (child, token, place) in queue {
                wait_for(child);
                // The place first: whoever waits for all to be gone finds that free.
                drop(place);
                drop(token);
            }
        };
        thread::Builder::new().name("tollhouse-wait".into()).spawn(reap)?;
        let unreaped = TaskTracker::new();
        // Closed or not it takes new tokens; closed it also says when there are none left.
        unreaped.close();
        Ok(Self { ended, unreaped })
    }

    /// Takes care of a child that was just started, and has this place.
    pub(crate) fn adopt(&self, child: Pid, place: Arc<Place>) -> Adopted {
        let running = Some((child, self.unreaped.token(), place));
        Adopted { running, exited: None, ended: self.ended.clone() }
    }

    /// Waits until every ended process is gone from the system.
    pub(crate) async fn all_reaped(&self) {
        self.unreaped.wait().await;
    }
}

/// How a process ended before anybody here ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// By the system, for its group had all the memory that it may have.
    OutOfMemory,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "with status {status}"),
            Self::Signal(signal) => write!(f, "by signal {signal}"),
            Self::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

impl Exit {
    /// Whether it is a signal that a process is sent, and does not bring upon itself.
    pub(crate) fn is_from_outside(self) -> bool {
        matches!(self, Self::Signal(signal) if SENT.iter().any(|sent| sent.as_raw() == signal))
    }
}

/// A process until it is ended. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Adopted {
    running: Option<Ended>,
    /// How it had ended when it was to be ended.
    exited: Option<Exit>,
    ended: mpsc::Sender<Ended>,
}

impl Adopted {
    /// Kills the process, once.
    pub(crate) fn end(&mut self) {
        self.exited = self.exit();
        if let Some((child, token, place)) = self.running.take() {
            kill(child);
            place.leave();
            if let Err(mpsc::SendError((child, ..))) = self.ended.send((child, token, place)) {
                wait_for(child);
            }
        }
    }

    /// Whether nobody ended it yet.
    pub(crate) fn is_live(&self) -> bool {
        self.running.is_some()
    }

    /// How it ended before it was to be; `None` where it had not. The system is left to believe that nobody knows: until then
    /// the id is this process's own.
    pub(crate) fn exit(&self) -> Option<Exit> {
        let Some((child, _, place)) = &self.running else { return self.exited };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(*child), options).ok()??;
        let exit = status.exit_status().map(Exit::Status).or_else(|| status.terminating_signal().map(Exit::Signal))?;
        let is_killed = exit == Exit::Signal(Signal::KILL.as_raw());
        Some(if is_killed && place.bounds().is_some_and(Bounds::ran_out) { Exit::OutOfMemory } else { exit })
    }
}

/// Kills a child that nobody has waited for: until then the id is its own.
fn kill(child: Pid) {
    let _ = kill_process(child, Signal::KILL);
}

/// Waits until the system has let go of a child.
fn wait_for(child: Pid) {
    while matches!(waitid(WaitId::Pid(child), WaitIdOptions::EXITED), Err(Errno::INTR)) {}
}

impl Drop for Adopted {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use futures_util::FutureExt;

    use super::*;
    use crate::places::Places;

    #[test]
    fn a_process_says_how_it_ended_and_whether_that_came_from_outside() {
        let (reaper, place) = (Reaper::start().unwrap(), || Places::new(1, 0, Default::default()).take().unwrap());
        let start = |command: &mut Command| reaper.adopt(Pid::from_child(&command.spawn().unwrap()), place());
        let cases = [
            ("exit 72", Exit::Status(72), false),
            ("kill -SEGV $$", Exit::Signal(11), false),
            ("kill -KILL $$", Exit::Signal(9), true),
            ("kill $$", Exit::Signal(15), true),
        ];
        for (does, exit, from_outside) in cases {
            let mut adopted = start(Command::new("/bin/sh").args(["-c", does]));
            while adopted.exit().is_none() {
                thread::yield_now();
            }
            assert_eq!((adopted.exit(), adopted.is_live()), (Some(exit), true), "{does}: to look changes nothing");
            assert_eq!(exit.is_from_outside(), from_outside, "{does}");
            adopted.end();
            assert_eq!(adopted.exit(), Some(exit), "{does}: it is known of one that was waited for");
        }
        let mut adopted = start(Command::new("/bin/sleep").arg("600"));
        adopted.end();
        assert_eq!(adopted.exit(), None, "it was we who ended it");
    }

    #[tokio::test]
    async fn process_has_its_place_until_it_is_waited_for() {
        let (reaper, places) = (Reaper::start().unwrap(), Places::new(1, 0, Default::default()));
        #[expect(clippy::zombie_processes, reason = "the reaper waits for it")]
        let sleeper = || {
            let child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
            reaper.adopt(Pid::from_child(&child), places.take().unwrap())
        };
        let mut adopted = sleeper();
        assert!(adopted.is_live() && places.taken() == 1);
        assert!(reaper.all_reaped().now_or_never().is_none());
        adopted.end();
        assert!(!adopted.is_live());
        adopted.end();
        reaper.all_reaped().await;
        assert_eq!(places.taken(), 0);
        drop(adopted);
        drop(sleeper());
        reaper.all_reaped().await;
        assert_eq!(places.taken(), 0, "nobody holds it");
    }
}
