//! Leave to use a process, and to compute.

use std::time::Duration;

use super::{
    queue::{Queue, Shared},
    rules::{Ask, Rules},
    waiter::{Granted, Turn},
};

/// What a call computes without being asked to make way: most end within it, and those of others wait no longer for theirs.
const SLICE: Duration = Duration::from_millis(10);

/// Leave to use a process, and to compute unless parked. Dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    shared: &'a Shared,
    ask: Ask<'a>,
    pace: Pace,
    /// Whether its call came to an end of its own.
    is_answered: bool,
}

#[derive(Debug)]
enum Pace {
    Running,
    /// It computes for long, and holds nobody up: its slot is given back.
    Background,
    Parked,
    Resuming(Turn),
}

impl<'a> Permit<'a> {
    /// For one that was admitted, and has its running slot.
    pub(super) fn running(shared: &'a Shared, ask: Ask<'a>) -> Self {
        Self { shared, ask, pace: Pace::Running, is_answered: false }
    }

    /// For one that another left behind, see [`hand_over`](Self::hand_over).
    pub(super) fn taken_over(shared: &'a Shared, ask: Ask<'a>) -> Self {
        shared.lock().taken_over(ask.caller);
        Self::running(shared, ask)
    }

    /// Its call came to an end of its own: its endpoint's code works.
    pub(crate) fn note_answer(&mut self) {
        self.is_answered = true;
    }

    /// Computes no more.
    pub(crate) fn park(&mut self) {
        if !self.computes() {
            return;
        }
        let mut queue = self.shared.lock();
        match self.pace {
            Pace::Background => queue.leave_background(self.ask),
            _ => queue.pause(self.ask),
        }
        self.pace = Pace::Parked;
        queue.dispatch(&self.shared.rules);
    }

    /// Gives the running slot back to those who compute for less, and goes on, where it has not yet. False where too many do so already.
    pub(crate) fn enter_background(&mut self) -> bool {
        matches!(self.pace, Pace::Background) || self.enter_background_if(Queue::enter_background)
    }

    /// The same, where another owner's call waits for the slot.
    pub(crate) fn make_way(&mut self) -> bool {
        self.enter_background_if(Queue::make_way)
    }

    fn enter_background_if(&mut self, may_enter: impl FnOnce(&mut Queue, &Rules, &str) -> bool) -> bool {
        let mut queue = self.shared.lock();
        let goes = self.is_running() && may_enter(&mut queue, &self.shared.rules, self.ask.owner);
        if goes {
            self.pace = Pace::Background;
            queue.dispatch(&self.shared.rules);
        }
        goes
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

    /// Whether it has a running slot, which one in the background takes again where one is free.
    pub(crate) fn regain_slot(&mut self) -> bool {
        if matches!(self.pace, Pace::Background) {
            let mut queue = self.shared.lock();
            if queue.regain_slot(&self.shared.rules, self.ask.owner) {
                self.pace = Pace::Running;
                queue.dispatch(&self.shared.rules);
            }
        }
        self.is_running()
    }

    /// How long it computes until it is to [make way](Self::make_way), and again each time.
    pub(crate) fn slice(&self) -> Duration {
        SLICE.min(self.quantum())
    }

    /// How long it computes until it is to go [to the background](Self::enter_background).
    pub(crate) fn quantum(&self) -> Duration {
        self.shared.rules.quantum
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
        let mut queue = self.shared.lock();
        if self.is_answered {
            queue.note_answer(self.ask);
        }
        queue.handed_over(self.ask.caller);
        // Its caller may have another call in line that waited for just this.
        queue.dispatch(&self.shared.rules);
        drop(queue);
        std::mem::forget(self);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.pace, Pace::Running)
    }

    /// Whether its worker may compute.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.pace, Pace::Running | Pace::Background)
    }

    pub(crate) fn is_resuming(&self) -> bool {
        matches!(self.pace, Pace::Resuming(_))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        let runs = match &self.pace {
            Pace::Running => true,
            Pace::Background => {
                queue.leave_background(self.ask);
                false
            }
            Pace::Parked => false,
            Pace::Resuming(turn) => !queue.dequeue_resuming(self.ask, turn.ticket),
        };
        if runs {
            queue.pause(self.ask);
        }
        if self.is_answered {
            queue.note_answer(self.ask);
        }
        queue.leave(self.ask);
        self.shared.settle(&mut queue);
    }
}
