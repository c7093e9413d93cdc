//! The end of worker processes: killed by whoever holds them, waited for by a thread that does nothing else.

use std::{
    io,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// What a process is ended by from outside: by the system that has no memory left, an operator, or the end of a session.
const SENT: [Signal; 5] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Waits for ended processes, so that nobody else has to. Its thread ends with it and with the last process.
#[derive(Debug)]
pub(crate) struct Reaper {
    ended: mpsc::Sender<Ended>,
    /// Started and not ended by us.
    live: Arc<AtomicUsize>,
    /// Started and not waited for.
    unreaped: TaskTracker,
}

/// A process that was killed. Its token goes when the system has let go of the process.
type Ended = (Child, TaskTrackerToken);

impl Reaper {
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (ended, queue) = mpsc::channel::<Ended>();
        let reap = move || {
            for (mut child, token) in queue {
                let _ = child.wait();
                drop(token);
            }
        };
        thread::Builder::new().name("tollhouse-wait".into()).spawn(reap)?;
        let unreaped = TaskTracker::new();
        // Closed or not it takes new tokens; closed it also says when there are none left.
        unreaped.close();
        Ok(Self { ended, live: Arc::default(), unreaped })
    }

    /// Takes care of a process that was just started.
    pub(crate) fn adopt(&self, child: Child) -> Adopted {
        self.live.fetch_add(1, Ordering::AcqRel);
        let running = Some((child, self.unreaped.token()));
        Adopted { running, exited: None, ended: self.ended.clone(), live: Arc::clone(&self.live) }
    }

    /// Processes that were started and not ended.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Acquire)
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
    live: Arc<AtomicUsize>,
}

impl Adopted {
    /// Kills the process, once.
    pub(crate) fn end(&mut self) {
        self.exited = self.exit();
        if let Some((mut child, token)) = self.running.take() {
            let _ = child.kill();
            self.live.fetch_sub(1, Ordering::AcqRel);
            if let Err(mpsc::SendError((mut child, _token))) = self.ended.send((child, token)) {
                let _ = child.wait();
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
        let Some((child, _)) = &self.running else { return self.exited };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(Pid::from_child(child)), options).ok()??;
        status.exit_status().map(Exit::Status).or_else(|| status.terminating_signal().map(Exit::Signal))
    }
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

    #[test]
    fn a_process_says_how_it_ended_and_whether_that_came_from_outside() {
        let reaper = Reaper::start().unwrap();
        let cases = [
            ("exit 72", Exit::Status(72), false),
            ("kill -SEGV $$", Exit::Signal(11), false),
            ("kill -KILL $$", Exit::Signal(9), true),
            ("kill $$", Exit::Signal(15), true),
        ];
        for (does, exit, from_outside) in cases {
            let mut adopted = reaper.adopt(Command::new("/bin/sh").args(["-c", does]).spawn().unwrap());
            while adopted.exit().is_none() {
                thread::yield_now();
            }
            assert_eq!((adopted.exit(), adopted.is_live()), (Some(exit), true), "{does}: to look changes nothing");
            assert_eq!(exit.is_from_outside(), from_outside, "{does}");
            adopted.end();
            assert_eq!(adopted.exit(), Some(exit), "{does}: it is known of one that was waited for");
        }
        let mut adopted = reaper.adopt(Command::new("/bin/sleep").arg("600").spawn().unwrap());
        adopted.end();
        assert_eq!(adopted.exit(), None, "it was we who ended it");
    }

    #[tokio::test]
    async fn process_counts_until_it_is_ended_and_is_waited_for() {
        let reaper = Reaper::start().unwrap();
        let mut adopted = reaper.adopt(Command::new("/bin/sleep").arg("600").spawn().unwrap());
        assert!(adopted.is_live() && reaper.live() == 1);
        assert!(reaper.all_reaped().now_or_never().is_none());
        adopted.end();
        assert!(!adopted.is_live() && reaper.live() == 0);
        adopted.end();
        reaper.all_reaped().await;
        drop(adopted);
        assert_eq!(reaper.live(), 0, "it was ended once");
        drop(reaper.adopt(Command::new("/bin/sleep").arg("600").spawn().unwrap()));
        assert_eq!(reaper.live(), 0, "nobody holds it");
        reaper.all_reaped().await;
    }
}
