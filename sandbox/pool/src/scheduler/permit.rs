//! Leave to use a process, and to compute.

use super::{
    queue::Shared,
    rules::Ask,
    waiter::{Granted, Turn},
};

/// Leave to use a process, and to compute unless parked. Dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    shared: &'a Shared,
    ask: Ask<'a>,
    pace: Pace,
}

#[derive(Debug)]
enum Pace {
    Running,
    Parked,
    Resuming(Turn),
}

impl<'a> Permit<'a> {
    /// For one that was admitted, and has its running slot.
    pub(super) fn running(shared: &'a Shared, ask: Ask<'a>) -> Self {
        Self { shared, ask, pace: Pace::Running }
    }

    /// Gives the running slot back.
    pub(crate) fn park(&mut self) {
        if matches!(self.pace, Pace::Running) {
            self.pace = Pace::Parked;
            let mut queue = self.shared.lock();
            queue.pause(self.ask.owner);
            queue.dispatch(&self.shared.rules);
        }
    }

    /// Gets in line for a running slot, ahead of those who ask to be admitted.
    pub(crate) fn ask_to_resume(&mut self) {
        if matches!(self.pace, Pace::Parked) {
            let mut queue = self.shared.lock();
            let turn = queue.enqueue_resuming(self.ask);
            queue.dispatch(&self.shared.rules);
            self.pace = Pace::Resuming(turn);
        }
    }

    /// Waits for the running slot that was asked for. Losing the future loses no place in line.
    pub(crate) async fn resumed(&mut self) {
        if let Pace::Resuming(turn) = &mut self.pace {
            let granted = (&mut turn.granted).await;
            debug_assert!(granted == Ok(Granted::Slot), "only `Permit::drop` takes a resuming waiter away");
            self.pace = Pace::Running;
        }
    }

    /// Sends at most `room` of those ahead who wait for this endpoint, if nobody is before them.
    pub(crate) fn send_ahead(&self, room: usize) {
        if room > 0 {
            self.shared.lock().send_ahead(self.ask.endpoint, room);
        }
    }

    /// Leaves all that it counts for to the next call on the same worker, which is to
    /// [take it over](super::Scheduler::take_over).
    pub(crate) fn hand_over(self) {
        debug_assert!(self.is_running(), "a call that waits has no slot to hand over");
        std::mem::forget(self);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.pace, Pace::Running)
    }

    pub(crate) fn is_resuming(&self) -> bool {
        matches!(self.pace, Pace::Resuming(_))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        let computes = match &self.pace {
            Pace::Running => true,
            Pace::Parked => false,
            Pace::Resuming(turn) => !queue.dequeue_resuming(turn.ticket),
        };
        if computes {
            queue.pause(self.ask.owner);
        }
        queue.leave(self.ask.endpoint);
        self.shared.settle(&mut queue);
    }
}
