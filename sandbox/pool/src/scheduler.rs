//! Admission control: running slots, processes, owners' shares, endpoints' concurrency and the
//! queue.
//!
//! A call is *admitted* and holds a [`Permit`] until it ends or hands the permit over to the next
//! call of its endpoint on the same worker. A call that is sent ahead to a worker needs no permit
//! until its turn. A permit always counts for one process and for its endpoint, but for a running
//! slot only while the call computes: [`Permit::park`] releases the slot, [`Permit::request_resume`]
//! and [`Permit::resumed`] take one again.
//!
//! Owners take turns: the next slot goes to the owner with the fewest computing calls, and among
//! those to the one that has waited longest since its last slot. Within an owner, calls that resume
//! go before calls to be admitted. Otherwise the order is first come, first served among those that
//! can run. A single owner can have every slot and every place in the queue, but only 7/8 of the
//! processes: a sleeping call keeps its process, and a newcomer would have to wait until it wakes.
//! For the same reason, a caller can have only as many places of an endpoint as it leaves free.
//!
//! Invariant: after every change no waiter that can run is left waiting. `Queue::dispatch`
//! maintains it, and [`Scheduler::wait`] relies on it to let a newcomer pass waiters that may not
//! run.

mod caller;
mod owners;
mod permit;
mod queue;
mod rules;
mod wait_queue;
mod waiter;

#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use tokio::time::{Instant, timeout_at};

pub(crate) use self::{
    permit::Permit,
    rules::{AdmissionRequest, Occupancy, Rules},
};
use self::{
    queue::Shared,
    waiter::{WaiterGrant, WaiterHandle},
};
use crate::{breaker::Cause, error::PoolError};

/// How a call can run.
#[derive(Debug)]
pub(crate) enum Admitted<'a> {
    /// Run on its own worker.
    Permit(Permit<'a>),
    /// Be sent ahead to a worker that is busy with another call of its endpoint. It is first in the
    /// queue for a slot.
    Ahead,
}

/// Whether a call can be sent ahead to a busy worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    Never,
    /// At once, if nobody waits and its endpoint has running calls, one of whose places its caller
    /// can have. Tried before a slot of its own.
    Now,
    /// Once it is first in the queue.
    Queued,
}

/// The scheduler of a pool.
#[derive(Debug)]
pub(crate) struct Scheduler(Shared);

impl Scheduler {
    pub(crate) fn new(rules: Rules) -> Self {
        Self(Shared::new(rules))
    }

    /// Takes over the permit that another call of the same owner and endpoint left behind (see
    /// [`Permit::hand_over`]).
    pub(crate) fn take_over<'a>(&'a self, admission: AdmissionRequest<'a>) -> Permit<'a> {
        Permit::taken_over(&self.0, admission)
    }

    /// Waits for a running slot and a process.
    ///
    /// # Errors
    ///
    /// [`PoolError::Busy`] if the queue is full, the patience is over or the pool is shut down;
    /// [`PoolError::Held`] while the endpoint's breaker is open, [`PoolError::Slowed`] while it is
    /// open for the caller only.
    pub(crate) async fn acquire<'a>(&'a self, admission: AdmissionRequest<'a>) -> Result<Permit<'a>, PoolError> {
        match self.wait(admission, Ahead::Never, self.deadline()).await? {
            Admitted::Permit(permit) => Ok(permit),
            Admitted::Ahead => unreachable!("only permitted calls are sent ahead"),
        }
    }

    /// Returns the deadline for a call that arrives now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.rules.timeout
    }

    /// Waits for a running slot and a process, or for permission to be sent ahead without them.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire).
    pub(crate) async fn wait<'a>(
        &'a self,
        admission: AdmissionRequest<'a>,
        ahead: Ahead,
        deadline: Instant,
    ) -> Result<Admitted<'a>, PoolError> {
        let (shared, rules) = (&self.0, &self.0.rules);
        let turn = {
            let mut queue = shared.queue.lock();
            queue.check_open(&admission, rules)?;
            if ahead == Ahead::Now && queue.may_run_ahead(admission) {
                return Ok(Admitted::Ahead);
            }
            if queue.may_enter(rules, admission) {
                queue.admit(admission);
                return Ok(Admitted::Permit(Permit::running(shared, admission)));
            }
            if !queue.evict_for(rules, admission) {
                return Err(self.busy());
            }
            queue.enqueue(admission, ahead != Ahead::Never)
        };
        let mut waiting = QueueGuard { shared, admission, turn };
        match timeout_at(deadline, &mut waiting.turn.granted).await {
            Ok(Ok(granted)) => {
                let admitted = waiting.into_admitted(granted);
                let open = shared.queue.lock().check_held(&admission, rules);
                open.map(|()| admitted)
            }
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }

    /// Records that a call was stopped. Returns true if that makes the endpoint held.
    pub(crate) fn note_stop(&self, endpoint: &str, caller: Option<IpAddr>, cause: Cause) -> bool {
        self.0.queue.lock().note_stop(endpoint, caller, cause, &self.0.rules)
    }

    /// Stops admitting calls, and dismisses those in the queue.
    pub(crate) fn close(&self) {
        self.0.queue.lock().close();
    }

    /// Waits until all calls have left. Their number is also a limit, so it is counted here under
    /// the queue's lock and not by a separate tracker.
    pub(crate) async fn drained(&self) {
        loop {
            let remaining = self.0.drained.notified();
            if self.occupancy().admitted == 0 {
                return;
            }
            remaining.await;
        }
    }

    /// Returns how much longer an endpoint is held, if it is.
    pub(crate) fn held(&self, endpoint: &str) -> Option<Duration> {
        self.0.queue.lock().held(endpoint)
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        self.0.queue.lock().occupancy()
    }

    /// Forgets owners and endpoints without calls. Called periodically: doing it at the end of each
    /// call would make the next call create them again.
    pub(crate) fn prune_idle(&self) {
        self.0.queue.lock().prune_idle(&self.0.rules);
    }

    fn busy(&self) -> PoolError {
        PoolError::Busy { retry_after: self.0.rules.timeout }
    }
}

/// A place in the queue. Dropping it leaves the queue, or returns what was granted meanwhile.
struct QueueGuard<'a> {
    shared: &'a Shared,
    admission: AdmissionRequest<'a>,
    turn: WaiterHandle,
}

impl<'a> QueueGuard<'a> {
    /// Converts the grant. The waiter has left the queue, and nothing more arrives on `turn`.
    fn into_admitted(self, granted: WaiterGrant) -> Admitted<'a> {
        match granted {
            WaiterGrant::Slot => Admitted::Permit(Permit::running(self.shared, self.admission)),
            WaiterGrant::Ahead => Admitted::Ahead,
        }
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.dequeue(self.admission, self.turn.ticket);
        if self.turn.granted.try_recv() == Ok(WaiterGrant::Slot) {
            queue.release_slot(self.admission);
            queue.leave(self.admission);
        }
        self.shared.settle(&mut queue);
    }
}
