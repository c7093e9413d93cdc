//! Who may run: running slots, processes, owners' shares, endpoints' concurrency, the queue.
//!
//! A call is *admitted* and holds a [`Permit`] until it ends, or hands it over to the next call of its endpoint on the
//! same worker. One that may go ahead to a worker needs none until then. A permit counts for one process and for
//! its endpoint all the while, but for a running slot only while it computes: [`Permit::park`]
//! gives the slot back, [`Permit::ask_to_resume`] and [`Permit::resumed`] take one again.
//!
//! Owners take turns: the next slot goes to the one that computes least, and of those to the one that had none for longest.
//! Of one owner's calls those that resume go before those that are to be admitted; otherwise first come, first served among
//! those who may. Alone an owner has every slot and every place in line, and all processes but an eighth: a call that sleeps keeps
//! its process, and whoever comes then would have to wait until it wakes.
//!
//! Invariant: after every change no waiter that may run is left waiting. `Queue::dispatch`
//! keeps it, and [`Scheduler::wait`] relies on it to let a newcomer pass waiters that may not.

mod line;
mod owners;
mod permit;
mod queue;
mod rules;
mod waiter;

#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use tokio::time::{Instant, timeout_at};

pub(crate) use self::{
    permit::Permit,
    rules::{Ask, Occupancy, Rules},
};
use self::{
    queue::Shared,
    waiter::{Granted, Turn},
};
use crate::{breaker::Cause, error::PoolError};

/// What a call may do.
#[derive(Debug)]
pub(crate) enum Admitted<'a> {
    /// Run, on a worker of its own.
    Permit(Permit<'a>),
    /// Go ahead to a worker that is at another call of its endpoint: it is first among those who wait for a slot.
    Ahead,
}

/// Whether a call may go ahead to a worker that is at another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    Never,
    /// At once, where nobody waits and its endpoint has calls under way. This is tried before a slot of its own.
    Now,
    /// When it is first among those who wait.
    Queued,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Scheduler(Shared);

impl Scheduler {
    pub(crate) fn new(rules: Rules) -> Self {
        Self(Shared::new(rules))
    }

    /// The permit that another call of the same owner and endpoint left behind, see [`Permit::hand_over`].
    pub(crate) fn take_over<'a>(&'a self, ask: Ask<'a>) -> Permit<'a> {
        Permit::taken_over(&self.0, ask)
    }

    /// Waits for a running slot and a process.
    ///
    /// # Errors
    ///
    /// [`PoolError::Busy`] when the queue is full, patience is over or the pool is shut down;
    /// [`PoolError::Held`] while the endpoint's breaker is open, [`PoolError::Slowed`] while that is so for the caller alone.
    pub(crate) async fn acquire<'a>(&'a self, ask: Ask<'a>) -> Result<Permit<'a>, PoolError> {
        match self.wait(ask, Ahead::Never, self.deadline()).await? {
            Admitted::Permit(permit) => Ok(permit),
            Admitted::Ahead => unreachable!("only those go ahead who may"),
        }
    }

    /// Until when a call that comes now may wait.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.rules.patience
    }

    /// Waits for a running slot and a process, or for leave to go ahead without.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub(crate) async fn wait<'a>(&'a self, ask: Ask<'a>, ahead: Ahead, deadline: Instant) -> Result<Admitted<'a>, PoolError> {
        let (shared, rules) = (&self.0, &self.0.rules);
        let turn = {
            let mut queue = shared.lock();
            queue.check_open(&ask, rules)?;
            if ahead == Ahead::Now && queue.may_go_ahead(ask.endpoint) {
                return Ok(Admitted::Ahead);
            }
            if queue.may_enter(rules, ask) {
                queue.admit(ask);
                return Ok(Admitted::Permit(Permit::running(shared, ask)));
            }
            if !queue.make_place(rules, ask) {
                return Err(self.busy());
            }
            queue.enqueue(ask, ahead != Ahead::Never)
        };
        let mut waiting = Waiting { shared, ask, turn };
        match timeout_at(deadline, &mut waiting.turn.granted).await {
            Ok(Ok(granted)) => {
                let admitted = waiting.into_admitted(granted);
                let held = shared.lock().check_held(&ask, rules);
                held.map(|()| admitted)
            }
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }

    /// Notes that a call was stopped; true when that holds the endpoint.
    pub(crate) fn note_stop(&self, endpoint: &str, caller: Option<IpAddr>, cause: Cause) -> bool {
        self.0.lock().note_stop(endpoint, caller, cause, &self.0.rules)
    }

    /// Admits nobody any more, and sends away those who wait to be.
    pub(crate) fn close(&self) {
        self.0.lock().close();
    }

    /// Waits until everybody has left. Their number is a limit besides, so it is counted here, under the queue's lock, and
    /// by no tracker of its own.
    pub(crate) async fn drained(&self) {
        loop {
            let left = self.0.drained.notified();
            if self.occupancy().admitted == 0 {
                return;
            }
            left.await;
        }
    }

    /// How long an endpoint is held yet, if it is.
    pub(crate) fn held(&self, endpoint: &str) -> Option<Duration> {
        self.0.lock().held(endpoint)
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        self.0.lock().occupancy()
    }

    /// Forgets owners and endpoints that have nothing under way. Called now and then, because
    /// doing it at each call's end would only make the next call remember them again.
    pub(crate) fn forget_absent(&self) {
        self.0.lock().forget_absent(&self.0.rules);
    }

    fn busy(&self) -> PoolError {
        PoolError::Busy { retry_after: self.0.rules.patience }
    }
}

/// A place in the queue. Dropping it leaves the queue, or gives back what was granted meanwhile.
struct Waiting<'a> {
    shared: &'a Shared,
    ask: Ask<'a>,
    turn: Turn,
}

impl<'a> Waiting<'a> {
    /// What was granted: it is out of the queue, and `turn` has nothing more to say.
    fn into_admitted(self, granted: Granted) -> Admitted<'a> {
        match granted {
            Granted::Slot => Admitted::Permit(Permit::running(self.shared, self.ask)),
            Granted::Ahead => Admitted::Ahead,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.dequeue(self.ask, self.turn.ticket);
        if self.turn.granted.try_recv() == Ok(Granted::Slot) {
            queue.pause(self.ask);
            queue.leave(self.ask);
        }
        self.shared.settle(&mut queue);
    }
}
