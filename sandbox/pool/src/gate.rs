//! Who may run: running slots, processes, owners' shares, endpoints' concurrency, the queue.
//!
//! A call *enters* and holds an [`Entry`] until it ends, or hands it on to the next call of its endpoint on the
//! same worker. One that may go ahead to a worker needs none until then. An entry counts for one process and for
//! its endpoint all the while, but for a running slot only while it computes: [`Entry::park`]
//! gives the slot back, [`Entry::ask_to_resume`] and [`Entry::resumed`] take one again. Calls that
//! resume go before calls that enter; otherwise first come, first served among those who may.
//!
//! Invariant: after every change no waiter that may run is left waiting. [`State::dispatch`]
//! keeps it, and [`Gate::wait`] relies on it to let a newcomer pass waiters that may not.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    PoolError,
    breaker::{Breaker, BreakerRules},
};

/// The gate's limits; see [`PoolConfig`](crate::PoolConfig) for their meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) running: usize,
    pub(crate) processes: usize,
    /// Running slots of one owner while others wait.
    pub(crate) owner_running: usize,
    pub(crate) queue: usize,
    pub(crate) patience: Duration,
    pub(crate) breaker: BreakerRules,
}

/// Who asks to enter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) owner: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) concurrency: usize,
}

/// How full the gate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) entered: usize,
    pub(crate) running: usize,
    pub(crate) queued: usize,
}

/// What a call may do.
#[derive(Debug)]
pub(crate) enum Leave<'a> {
    Enter(Entry<'a>),
    /// Go ahead to a worker that is at another call of its endpoint: it is first among those who wait for a slot.
    GoAhead,
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

/// [`Leave`], on its way to a waiter.
#[derive(Debug, PartialEq, Eq)]
enum Granted {
    Entry,
    GoAhead,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Gate {
    rules: Rules,
    state: Mutex<State>,
    drained: Notify,
}

#[derive(Debug, Default)]
struct State {
    entered: usize,
    running: usize,
    closed: bool,
    tickets: u64,
    owners: HashMap<Box<str>, usize>,
    endpoints: HashMap<Box<str>, Endpoint>,
    resuming: VecDeque<Waiter>,
    queued: VecDeque<Waiter>,
}

#[derive(Debug, Default)]
struct Endpoint {
    entered: usize,
    breaker: Breaker,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    owner: Box<str>,
    endpoint: Box<str>,
    concurrency: usize,
    may_go_ahead: bool,
    /// Gone when the gate was closed.
    wake: Option<oneshot::Sender<Granted>>,
}

impl Gate {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, state: Mutex::default(), drained: Notify::new() }
    }

    /// The entry that another call of the same owner and endpoint left behind, see [`Entry::hand_on`].
    pub(crate) fn inherit<'a>(&'a self, ask: Ask<'a>) -> Entry<'a> {
        Entry { gate: self, ask, pace: Pace::Running }
    }

    /// Waits for a running slot and a process.
    ///
    /// # Errors
    ///
    /// [`PoolError::Busy`] when the queue is full, patience is over or the gate is closed;
    /// [`PoolError::Held`] while the endpoint's breaker is open.
    pub(crate) async fn enter<'a>(&'a self, ask: Ask<'a>) -> Result<Entry<'a>, PoolError> {
        match self.wait(ask, Ahead::Never, self.deadline()).await? {
            Leave::Enter(entry) => Ok(entry),
            Leave::GoAhead => unreachable!("only those go ahead who may"),
        }
    }

    /// Until when a call that comes now may wait.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.rules.patience
    }

    /// Waits for a running slot and a process, or for leave to go ahead without.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    pub(crate) async fn wait<'a>(&'a self, ask: Ask<'a>, ahead: Ahead, deadline: Instant) -> Result<Leave<'a>, PoolError> {
        let (ticket, turn) = {
            let mut state = self.lock();
            state.check_open(&ask, &self.rules)?;
            if ahead == Ahead::Now && state.may_go_ahead(ask.endpoint) {
                return Ok(Leave::GoAhead);
            }
            if state.may_enter(&self.rules, ask) {
                state.admit(ask);
                return Ok(Leave::Enter(Entry { gate: self, ask, pace: Pace::Running }));
            }
            if state.queued.len() >= self.rules.queue {
                return Err(self.busy());
            }
            state.enqueue(ask, ahead != Ahead::Never)
        };
        let mut waiting = Waiting { gate: self, ask, ticket, turn };
        match timeout_at(deadline, &mut waiting.turn).await {
            Ok(Ok(granted)) => {
                let leave = waiting.into_leave(granted);
                let held = self.lock().check_held(ask.endpoint);
                held.map(|()| leave)
            }
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }

    /// Notes that a worker of `endpoint` was killed; true when that holds the endpoint.
    pub(crate) fn note_kill(&self, endpoint: &str) -> bool {
        let mut state = self.lock();
        state.endpoint(endpoint).breaker.note_kill(&self.rules.breaker, Instant::now())
    }

    /// Lets nobody in any more, and sends away those who queue to enter.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        // Each takes itself out of the queue when it finds that nobody can wake it any more.
        state.queued.iter_mut().for_each(|waiter| waiter.wake = None);
    }

    /// Waits until everybody has left.
    pub(crate) async fn drained(&self) {
        loop {
            let left = self.drained.notified();
            if self.lock().entered == 0 {
                return;
            }
            left.await;
        }
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.lock();
        Load { entered: state.entered, running: state.running, queued: state.queued.len() }
    }

    /// Forgets owners and endpoints that have nothing under way. Called now and then, because
    /// doing it at each call's end would only make the next call remember them again.
    pub(crate) fn forget_absent(&self) {
        let (mut state, now) = (self.lock(), Instant::now());
        state.owners.retain(|_, running| *running > 0);
        state.endpoints.retain(|_, endpoint| endpoint.entered > 0 || !endpoint.breaker.is_forgotten(&self.rules.breaker, now));
    }

    fn busy(&self) -> PoolError {
        PoolError::Busy { retry_after: self.rules.patience }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check_open(&self, ask: &Ask<'_>, rules: &Rules) -> Result<(), PoolError> {
        if self.closed {
            return Err(PoolError::Busy { retry_after: rules.patience });
        }
        self.check_held(ask.endpoint)
    }

    fn check_held(&self, endpoint: &str) -> Result<(), PoolError> {
        match self.endpoints.get(endpoint).and_then(|endpoint| endpoint.breaker.held_for(Instant::now())) {
            Some(retry_after) => Err(PoolError::Held { retry_after }),
            None => Ok(()),
        }
    }

    /// Hands free slots to those who may have them.
    fn dispatch(&mut self, rules: &Rules) {
        while self.running < rules.running {
            let rivals = self.rivals(rules);
            if let Some(place) = self.resuming.iter().position(|waiter| self.has_share(rules, &waiter.owner, &rivals)) {
                let Some(waiter) = self.resuming.remove(place) else { return };
                self.run(&waiter.owner);
                waiter.wake(Granted::Entry);
                continue;
            }
            let may_enter = |waiter: &Waiter| self.has_room(rules, waiter.ask()) && self.has_share(rules, &waiter.owner, &rivals);
            let Some(place) = self.queued.iter().position(may_enter).filter(|_| !self.closed) else { return };
            let Some(waiter) = self.queued.remove(place) else { return };
            self.admit(waiter.ask());
            waiter.wake(Granted::Entry);
        }
    }

    /// Sends those ahead who are first in the queue and wait for `endpoint`, at most `room`. Nobody is passed by.
    fn send_ahead(&mut self, endpoint: &str, room: usize) {
        if self.closed || !self.resuming.is_empty() {
            return;
        }
        for _ in 0..room {
            let goes = |waiter: &mut Waiter| waiter.may_go_ahead && *waiter.endpoint == *endpoint;
            let Some(waiter) = self.queued.pop_front_if(goes) else { return };
            waiter.wake(Granted::GoAhead);
        }
    }

    fn may_enter(&self, rules: &Rules, ask: Ask<'_>) -> bool {
        self.running < rules.running && self.has_room(rules, ask) && {
            self.running_of(ask.owner) < rules.owner_running || self.has_share(rules, ask.owner, &self.rivals(rules))
        }
    }

    fn may_go_ahead(&self, endpoint: &str) -> bool {
        self.queued.is_empty() && self.resuming.is_empty() && self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.entered > 0)
    }

    /// Whether there is a process for `ask`, and its endpoint may have it.
    fn has_room(&self, rules: &Rules, ask: Ask<'_>) -> bool {
        self.entered < rules.processes && self.endpoints.get(ask.endpoint).map_or(0, |endpoint| endpoint.entered) < ask.concurrency.max(1)
    }

    fn has_share(&self, rules: &Rules, owner: &str, rivals: &Rivals) -> bool {
        self.running_of(owner) < rules.owner_running || !rivals.includes_other_than(owner)
    }

    /// The owners below their share that wait for nothing but a slot.
    fn rivals(&self, rules: &Rules) -> Rivals {
        let mut rivals = Rivals::default();
        let entering = self.queued.iter().filter(|waiter| self.has_room(rules, waiter.ask()));
        for waiter in self.resuming.iter().chain(entering) {
            if self.running_of(&waiter.owner) < rules.owner_running && !rivals.note(&waiter.owner) {
                break;
            }
        }
        rivals
    }

    fn running_of(&self, owner: &str) -> usize {
        self.owners.get(owner).copied().unwrap_or(0)
    }

    fn admit(&mut self, ask: Ask<'_>) {
        self.entered += 1;
        self.endpoint(ask.endpoint).entered += 1;
        self.run(ask.owner);
    }

    fn run(&mut self, owner: &str) {
        self.running += 1;
        match self.owners.get_mut(owner) {
            Some(running) => *running += 1,
            None => drop(self.owners.insert(owner.into(), 1)),
        }
    }

    fn pause(&mut self, owner: &str) {
        self.running -= 1;
        if let Some(running) = self.owners.get_mut(owner) {
            *running -= 1;
        }
    }

    fn leave(&mut self, endpoint: &str) {
        self.entered -= 1;
        if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
            endpoint.entered -= 1;
        }
    }

    fn endpoint(&mut self, name: &str) -> &mut Endpoint {
        if !self.endpoints.contains_key(name) {
            self.endpoints.insert(name.into(), Endpoint::default());
        }
        self.endpoints.get_mut(name).expect("it was there or was just put there")
    }

    fn enqueue(&mut self, ask: Ask<'_>, may_go_ahead: bool) -> (u64, oneshot::Receiver<Granted>) {
        let (waiter, ticket, turn) = self.waiter(ask, may_go_ahead);
        self.queued.push_back(waiter);
        (ticket, turn)
    }

    fn waiter(&mut self, ask: Ask<'_>, may_go_ahead: bool) -> (Waiter, u64, oneshot::Receiver<Granted>) {
        let (wake, turn) = oneshot::channel();
        self.tickets += 1;
        let waiter = Waiter {
            ticket: self.tickets,
            owner: ask.owner.into(),
            endpoint: ask.endpoint.into(),
            concurrency: ask.concurrency,
            may_go_ahead,
            wake: Some(wake),
        };
        (waiter, self.tickets, turn)
    }
}

impl Waiter {
    fn ask(&self) -> Ask<'_> {
        Ask { owner: &self.owner, endpoint: &self.endpoint, concurrency: self.concurrency }
    }

    /// Tells the waiter of its turn. One that has gone away meanwhile gives the turn back when it
    /// is dropped.
    fn wake(self, granted: Granted) {
        if let Some(wake) = self.wake {
            let _ = wake.send(granted);
        }
    }
}

/// Owners that wait: all that has to be known is one of them, and whether there is a second.
#[derive(Debug, Default)]
struct Rivals {
    one: Option<Box<str>>,
    several: bool,
}

impl Rivals {
    /// Notes an owner; false when there is nothing more to learn.
    fn note(&mut self, owner: &str) -> bool {
        match &self.one {
            None => self.one = Some(owner.into()),
            Some(one) => self.several |= **one != *owner,
        }
        !self.several
    }

    fn includes_other_than(&self, owner: &str) -> bool {
        self.several || self.one.as_ref().is_some_and(|one| **one != *owner)
    }
}

/// A place in the queue. Dropping it leaves the queue, or gives back what was granted meanwhile.
struct Waiting<'a> {
    gate: &'a Gate,
    ask: Ask<'a>,
    ticket: u64,
    turn: oneshot::Receiver<Granted>,
}

impl<'a> Waiting<'a> {
    /// What was granted: it is out of the queue, and `turn` has nothing more to say.
    fn into_leave(self, granted: Granted) -> Leave<'a> {
        match granted {
            Granted::Entry => Leave::Enter(Entry { gate: self.gate, ask: self.ask, pace: Pace::Running }),
            Granted::GoAhead => Leave::GoAhead,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        take(&mut state.queued, self.ticket);
        if self.turn.try_recv() == Ok(Granted::Entry) {
            state.pause(self.ask.owner);
            state.leave(self.ask.endpoint);
        }
        state.dispatch(&self.gate.rules);
        if state.entered == 0 {
            self.gate.drained.notify_waiters();
        }
    }
}

/// Leave to use a process, and to compute unless parked. Dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    gate: &'a Gate,
    ask: Ask<'a>,
    pace: Pace,
}

#[derive(Debug)]
enum Pace {
    Running,
    Parked,
    Resuming { ticket: u64, turn: oneshot::Receiver<Granted> },
}

impl Entry<'_> {
    /// Gives the running slot back.
    pub(crate) fn park(&mut self) {
        if matches!(self.pace, Pace::Running) {
            self.pace = Pace::Parked;
            let mut state = self.gate.lock();
            state.pause(self.ask.owner);
            state.dispatch(&self.gate.rules);
        }
    }

    /// Gets in line for a running slot, ahead of those who enter.
    pub(crate) fn ask_to_resume(&mut self) {
        if matches!(self.pace, Pace::Parked) {
            let mut state = self.gate.lock();
            let (waiter, ticket, turn) = state.waiter(self.ask, false);
            state.resuming.push_back(waiter);
            state.dispatch(&self.gate.rules);
            self.pace = Pace::Resuming { ticket, turn };
        }
    }

    /// Waits for the running slot that was asked for. Losing the future loses no place in line.
    pub(crate) async fn resumed(&mut self) {
        if let Pace::Resuming { turn, .. } = &mut self.pace {
            let granted = turn.await;
            debug_assert!(granted.is_ok(), "only `Entry::drop` takes a resuming waiter away");
            self.pace = Pace::Running;
        }
    }

    /// Sends at most `room` of those ahead who wait for this endpoint, if nobody is before them.
    pub(crate) fn send_ahead(&self, room: usize) {
        if room > 0 {
            self.gate.lock().send_ahead(self.ask.endpoint, room);
        }
    }

    /// Leaves all that it counts for to the next call on the same worker, which is to [`Gate::inherit`] it.
    pub(crate) fn hand_on(self) {
        debug_assert!(self.is_running(), "a call that waits has no slot to hand on");
        std::mem::forget(self);
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.pace, Pace::Running)
    }

    pub(crate) fn is_resuming(&self) -> bool {
        matches!(self.pace, Pace::Resuming { .. })
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        let computes = match &self.pace {
            Pace::Running => true,
            Pace::Parked => false,
            Pace::Resuming { ticket, .. } => !take(&mut state.resuming, *ticket),
        };
        if computes {
            state.pause(self.ask.owner);
        }
        state.leave(self.ask.endpoint);
        state.dispatch(&self.gate.rules);
        if state.entered == 0 {
            self.gate.drained.notify_waiters();
        }
    }
}

/// Removes the waiter with `ticket`; false when it is not there.
fn take(waiters: &mut VecDeque<Waiter>, ticket: u64) -> bool {
    let place = waiters.iter().position(|waiter| waiter.ticket == ticket);
    place.and_then(|place| waiters.remove(place)).is_some()
}
