//! Who may run: running slots, processes, owners' shares, endpoints' concurrency, the queue.
//!
//! A call *enters* and holds an [`Entry`] until it ends. An entry counts for one process and for
//! its endpoint all the while, but for a running slot only while it computes: [`Entry::park`]
//! gives the slot back, [`Entry::ask_to_resume`] and [`Entry::resumed`] take one again. Calls that
//! resume go before calls that enter; otherwise first come, first served among those who may.
//!
//! Invariant: after every change no waiter that may run is left waiting. [`State::dispatch`]
//! keeps it, and [`Gate::enter`] relies on it to let a newcomer pass waiters that may not.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, timeout},
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
    /// Gone when the gate was closed.
    wake: Option<oneshot::Sender<()>>,
}

impl Gate {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, state: Mutex::default(), drained: Notify::new() }
    }

    /// Waits for a running slot and a process.
    ///
    /// # Errors
    ///
    /// [`PoolError::Busy`] when the queue is full, patience is over or the gate is closed;
    /// [`PoolError::Held`] while the endpoint's breaker is open.
    pub(crate) async fn enter<'a>(&'a self, ask: Ask<'a>) -> Result<Entry<'a>, PoolError> {
        let (ticket, turn) = {
            let mut state = self.lock();
            state.check_open(&ask, &self.rules)?;
            if state.may_enter(&self.rules, ask) {
                state.admit(ask);
                return Ok(Entry { gate: self, ask, pace: Pace::Running });
            }
            if state.queued.len() >= self.rules.queue {
                return Err(self.busy());
            }
            state.enqueue(ask)
        };
        let waiting = Waiting { gate: self, ask, ticket };
        match timeout(self.rules.patience, turn).await {
            Ok(Ok(())) => {
                let entry = waiting.into_entry();
                let held = self.lock().check_held(ask.endpoint);
                held.map(|()| entry)
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
                waiter.wake();
                continue;
            }
            let may_enter = |waiter: &Waiter| self.has_room(rules, waiter.ask()) && self.has_share(rules, &waiter.owner, &rivals);
            let Some(place) = self.queued.iter().position(may_enter).filter(|_| !self.closed) else { return };
            let Some(waiter) = self.queued.remove(place) else { return };
            self.admit(waiter.ask());
            waiter.wake();
        }
    }

    fn may_enter(&self, rules: &Rules, ask: Ask<'_>) -> bool {
        self.running < rules.running && self.has_room(rules, ask) && {
            self.running_of(ask.owner) < rules.owner_running || self.has_share(rules, ask.owner, &self.rivals(rules))
        }
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

    fn enqueue(&mut self, ask: Ask<'_>) -> (u64, oneshot::Receiver<()>) {
        let (waiter, ticket, turn) = self.waiter(ask);
        self.queued.push_back(waiter);
        (ticket, turn)
    }

    fn waiter(&mut self, ask: Ask<'_>) -> (Waiter, u64, oneshot::Receiver<()>) {
        let (wake, turn) = oneshot::channel();
        self.tickets += 1;
        let waiter = Waiter {
            ticket: self.tickets,
            owner: ask.owner.into(),
            endpoint: ask.endpoint.into(),
            concurrency: ask.concurrency,
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
    fn wake(self) {
        if let Some(wake) = self.wake {
            let _ = wake.send(());
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
}

impl<'a> Waiting<'a> {
    fn into_entry(self) -> Entry<'a> {
        let entry = Entry { gate: self.gate, ask: self.ask, pace: Pace::Running };
        std::mem::forget(self);
        entry
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        let queued = take(&mut state.queued, self.ticket);
        if !queued {
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
    Resuming { ticket: u64, turn: oneshot::Receiver<()> },
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
            let (waiter, ticket, turn) = state.waiter(self.ask);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::{FutureExt, future::join_all};

    use super::*;

    const BREAKER: BreakerRules = BreakerRules { kills: 5, window: Duration::from_secs(60), hold: Duration::from_secs(60) };

    fn gate(running: usize) -> Gate {
        let rules = Rules {
            running,
            processes: 100,
            owner_running: (running / 2).max(1),
            queue: 256,
            patience: Duration::from_secs(1),
            breaker: BREAKER,
        };
        Gate::new(rules)
    }

    fn ask<'a>(owner: &'a str, endpoint: &'a str) -> Ask<'a> {
        Ask { owner, endpoint, concurrency: 100 }
    }

    #[tokio::test(start_paused = true)]
    async fn call_over_the_slots_waits_and_is_refused_after_a_second() {
        let gate = gate(1);
        let first = gate.enter(ask("a", "x")).await.unwrap();
        let asked = Instant::now();
        let refused = gate.enter(ask("a", "x")).await;
        assert!(matches!(refused, Err(PoolError::Busy { .. })));
        assert_eq!(asked.elapsed(), Duration::from_secs(1));
        drop(first);
        gate.enter(ask("a", "x")).await.unwrap();
        assert_eq!(gate.load(), Load { entered: 0, running: 0, queued: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn owner_alone_has_every_slot_and_with_company_half() {
        let gate = gate(4);
        let mut flood: Vec<_> = Vec::new();
        for _ in 0..4 {
            flood.push(gate.enter(ask("a", "x")).await.unwrap());
        }
        let mut more: Vec<_> = (0..4).map(|_| Box::pin(gate.enter(ask("a", "x")))).collect();
        for waiting in &mut more {
            assert!(waiting.now_or_never().is_none());
        }
        let mut late = Box::pin(gate.enter(ask("b", "y")));
        assert!((&mut late).now_or_never().is_none());
        // The first slot that comes free goes to the newcomer, not to those before it.
        drop(flood.pop());
        let b = (&mut late).now_or_never().expect("b is below its share").unwrap();
        assert!(more.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        // With nobody else waiting the next goes to the flood again.
        drop(flood.pop());
        assert!((&mut more[0]).now_or_never().is_some());
        drop(b);
    }

    #[tokio::test(start_paused = true)]
    async fn endpoint_over_its_concurrency_waits_and_others_pass_it() {
        let gate = gate(4);
        let narrow = Ask { owner: "a", endpoint: "x", concurrency: 1 };
        let first = gate.enter(narrow).await.unwrap();
        let mut second = Box::pin(gate.enter(narrow));
        assert!((&mut second).now_or_never().is_none());
        let other = gate.enter(ask("a", "y")).now_or_never().expect("there is room").unwrap();
        drop(first);
        assert!((&mut second).now_or_never().is_some());
        drop(other);
    }

    #[tokio::test(start_paused = true)]
    async fn parked_calls_hold_no_slot_and_resume_before_newcomers() {
        let gate = gate(1);
        let mut parked = gate.enter(ask("a", "x")).await.unwrap();
        parked.park();
        assert_eq!(gate.load(), Load { entered: 1, running: 0, queued: 0 });
        let computing = gate.enter(ask("b", "y")).await.unwrap();
        let mut newcomer = Box::pin(gate.enter(ask("c", "z")));
        assert!((&mut newcomer).now_or_never().is_none());
        parked.ask_to_resume();
        assert!(parked.resumed().now_or_never().is_none());
        drop(computing);
        assert!(parked.resumed().now_or_never().is_some());
        assert!(parked.is_running());
        assert!((&mut newcomer).now_or_never().is_none());
        drop(parked);
        assert!((&mut newcomer).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn parked_calls_still_count_as_processes() {
        let gate = Gate::new(Rules { processes: 2, ..gate(4).rules });
        let mut entries = [gate.enter(ask("a", "x")).await.unwrap(), gate.enter(ask("a", "x")).await.unwrap()];
        entries.iter_mut().for_each(Entry::park);
        assert!(matches!(gate.enter(ask("b", "y")).await, Err(PoolError::Busy { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_refuses_at_once() {
        let gate = Gate::new(Rules { queue: 1, ..gate(1).rules });
        let _running = gate.enter(ask("a", "x")).await.unwrap();
        let mut queued = Box::pin(gate.enter(ask("a", "x")));
        assert!((&mut queued).now_or_never().is_none());
        assert!(matches!(gate.enter(ask("a", "x")).now_or_never(), Some(Err(PoolError::Busy { .. }))));
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_that_goes_away_with_its_turn_passes_it_on() {
        let gate = gate(1);
        let running = gate.enter(ask("a", "x")).await.unwrap();
        let (mut first, mut second) = (Box::pin(gate.enter(ask("a", "x"))), Box::pin(gate.enter(ask("a", "x"))));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        drop(running);
        drop(first);
        assert!((&mut second).now_or_never().is_some());
        assert_eq!(gate.load().entered, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn endpoint_of_many_kills_is_held_and_its_queue_with_it() {
        let gate = gate(1);
        let running = gate.enter(ask("a", "x")).await.unwrap();
        let mut queued = Box::pin(gate.enter(ask("a", "x")));
        assert!((&mut queued).now_or_never().is_none());
        assert_eq!((0..5).filter(|_| gate.note_kill("x")).count(), 1);
        drop(running);
        assert!(matches!((&mut queued).now_or_never(), Some(Err(PoolError::Held { .. }))));
        assert!(matches!(gate.enter(ask("a", "x")).await, Err(PoolError::Held { .. })));
        gate.enter(ask("a", "y")).await.unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;
        gate.enter(ask("a", "x")).await.unwrap();
        gate.forget_absent();
        assert!(gate.lock().endpoints.is_empty() && gate.lock().owners.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn closed_gate_lets_nobody_in_and_drains() {
        let gate = Arc::new(gate(1));
        let mut running = gate.enter(ask("a", "x")).await.unwrap();
        let mut queued = Box::pin(gate.enter(ask("a", "x")));
        assert!((&mut queued).now_or_never().is_none());
        gate.close();
        assert!(matches!((&mut queued).now_or_never(), Some(Err(PoolError::Busy { .. }))));
        assert!(matches!(gate.enter(ask("b", "y")).await, Err(PoolError::Busy { .. })));
        // A call under way may still park and resume.
        running.park();
        running.ask_to_resume();
        running.resumed().await;
        assert!(gate.drained().now_or_never().is_none());
        drop(running);
        gate.drained().await;
    }

    /// Random histories: no slot is ever lost or lent twice.
    #[tokio::test(start_paused = true)]
    async fn slots_are_neither_lost_nor_lent_twice() {
        let gate = gate(3);
        let visit = |number: u64| {
            let gate = &gate;
            async move {
                let (owner, endpoint) = (["a", "b", "c"][number as usize % 3], ["x", "y"][number as usize % 2]);
                let step = Duration::from_millis(number * 7919 % 23);
                let visit = async {
                    let Ok(mut entry) = gate.enter(Ask { owner, endpoint, concurrency: 4 }).await else { return };
                    assert!(gate.load().running <= 3);
                    tokio::time::sleep(step).await;
                    entry.park();
                    tokio::time::sleep(step).await;
                    entry.ask_to_resume();
                    entry.resumed().await;
                    assert!(gate.load().running <= 3);
                };
                // Every seventh goes away in the middle.
                let patience = if number.is_multiple_of(7) { step * 2 } else { Duration::from_secs(60) };
                let _ = timeout(patience, visit).await;
            }
        };
        join_all((0..400).map(visit)).await;
        assert_eq!(gate.load(), Load { entered: 0, running: 0, queued: 0 });
        assert!(gate.lock().owners.values().all(|running| *running == 0));
    }
}
