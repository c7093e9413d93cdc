//! Permits to use a process and to compute.

use std::time::Duration;

use super::{
    queue::Shared,
    rules::AdmissionRequest,
    waiter::{WaiterGrant, WaiterHandle},
};

/// Time that a call computes before it can have to yield. Most calls end within it, so calls of
/// others do not wait longer for them.
const SLICE: Duration = Duration::from_millis(10);

/// The same for a call whose caller had long ones lately, while calls of others compute.
const EXPECTED_LONG_SLICE: Duration = Duration::from_millis(1);

/// Permit to use a process, and to compute unless parked. Dropping it releases both.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    shared: &'a Shared,
    admission: AdmissionRequest<'a>,
    pace: Pace,
    /// Whether its call ended normally.
    is_answered: bool,
}

#[derive(Debug)]
enum Pace {
    Running,
    /// A long computation that holds nobody up: its slot has been released.
    Background,
    Parked,
    Resuming(WaiterHandle),
}

impl<'a> Permit<'a> {
    /// Creates the permit of an admitted call with a running slot.
    pub(super) fn running(shared: &'a Shared, admission: AdmissionRequest<'a>) -> Self {
        Self { shared, admission, pace: Pace::Running, is_answered: false }
    }

    /// Creates the permit of a call that another one left behind (see
    /// [`hand_over`](Self::hand_over)).
    pub(super) fn taken_over(shared: &'a Shared, admission: AdmissionRequest<'a>) -> Self {
        shared.queue.lock().taken_over(admission);
        Self::running(shared, admission)
    }

    /// Records that the call ended normally, so the endpoint's code works.
    pub(crate) fn note_answer(&mut self) {
        self.is_answered = true;
    }

    /// Stops computing.
    pub(crate) fn park(&mut self) {
        if !self.computes() {
            return;
        }
        let mut queue = self.shared.queue.lock();
        match self.pace {
            Pace::Background => queue.leave_background(self.admission),
            _ => queue.release_slot(self.admission),
        }
        self.pace = Pace::Parked;
        queue.dispatch(&self.shared.rules);
    }

    /// Ends a slice of computing. A call that is long, or whose caller has several or had long ones lately, gives its running
    /// slot to shorter calls and continues in the background. It returns true then, and false if too many calls are there. Another call does so
    /// only if a call of another owner waits for the slot, and returns false.
    pub(crate) fn end_slice(&mut self, is_long: bool) -> bool {
        let mut queue = self.shared.queue.lock();
        let (rules, owner) = (&self.shared.rules, self.admission.owner);
        let slows = is_long || queue.makes_way(self.admission.caller);
        let enters = self.is_running() && if slows { queue.enter_background(rules, owner) } else { queue.yield_slot(rules, owner) };
        if enters {
            self.pace = Pace::Background;
            queue.dispatch(rules);
        }
        let is_slowed = slows && matches!(self.pace, Pace::Background);
        if is_slowed {
            queue.note_slowed(self.admission.caller);
        }
        is_slowed
    }

    /// Queues for a running slot, ahead of calls to be admitted.
    pub(crate) fn request_resume(&mut self) {
        if matches!(self.pace, Pace::Parked) {
            let mut queue = self.shared.queue.lock();
            let turn = queue.enqueue_resuming(self.admission);
            queue.dispatch(&self.shared.rules);
            self.pace = Pace::Resuming(turn);
        }
    }

    /// Waits for the requested running slot. Dropping the future keeps the place in the queue.
    pub(crate) async fn resumed(&mut self) {
        if let Pace::Resuming(turn) = &mut self.pace {
            let granted = (&mut turn.granted).await;
            debug_assert!(granted == Ok(WaiterGrant::Slot), "only `Permit::drop` removes a resuming waiter");
            self.pace = Pace::Running;
        }
    }

    /// Returns whether the call has a running slot. A call in the background takes one if it is
    /// free.
    pub(crate) fn regain_slot(&mut self) -> bool {
        if matches!(self.pace, Pace::Background) {
            let mut queue = self.shared.queue.lock();
            if queue.regain_slot(&self.shared.rules, self.admission.owner) {
                self.pace = Pace::Running;
                queue.dispatch(&self.shared.rules);
            }
        }
        self.is_running()
    }

    /// Returns how long the call computes before it must [make way](Self::end_slice), each time.
    pub(crate) fn slice(&self) -> Duration {
        let is_long = self.shared.queue.lock().is_expected_long(self.admission.caller);
        let slice = if is_long { EXPECTED_LONG_SLICE } else { SLICE };
        slice.min(self.quantum())
    }

    /// Returns how long the call computes before it enters [the
    /// background](Self::end_slice).
    pub(crate) fn quantum(&self) -> Duration {
        self.shared.rules.quantum
    }

    /// Sends up to `room` waiters of this endpoint ahead, as long as they are first in the queue.
    pub(crate) fn send_ahead(&self, room: usize) {
        if room > 0 {
            self.shared.queue.lock().send_ahead(self.admission.endpoint, room);
        }
    }

    /// Leaves everything that the permit counts for to the next call on the same worker, which must
    /// [take it over](super::Scheduler::take_over).
    pub(crate) fn hand_over(self) {
        debug_assert!(self.is_running(), "a call that waits has no slot to hand over");
        let mut queue = self.shared.queue.lock();
        if self.is_answered {
            queue.note_answer(self.admission);
        }
        queue.handed_over(self.admission);
        // The caller may have another call in the queue that waited for this.
        queue.dispatch(&self.shared.rules);
        drop(queue);
        std::mem::forget(self);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.pace, Pace::Running)
    }

    /// Returns whether its worker can compute.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.pace, Pace::Running | Pace::Background)
    }

    pub(crate) fn is_resuming(&self) -> bool {
        matches!(self.pace, Pace::Resuming(_))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        let runs = match &self.pace {
            Pace::Running => true,
            Pace::Background => {
                queue.leave_background(self.admission);
                false
            }
            Pace::Parked => false,
            Pace::Resuming(turn) => !queue.dequeue_resuming(self.admission, turn.ticket),
        };
        if runs {
            queue.release_slot(self.admission);
        }
        if self.is_answered {
            queue.note_answer(self.admission);
        }
        queue.leave(self.admission);
        self.shared.settle(&mut queue);
    }
}
