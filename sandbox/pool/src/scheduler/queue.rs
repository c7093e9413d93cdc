//! The state of the scheduler: holders of slots and processes, and waiters.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use tollhouse_fair::{Share, lock::Lock};

use super::{
    caller::Caller,
    owners::{FEW, Owner, Owners},
    rules::{AdmissionRequest, Occupancy, Rules},
    wait_queue::{QueuePosition, WaitQueue},
    waiter::{Waiter, WaiterGrant, WaiterHandle},
};
use crate::{
    breaker::{Breaker, Cause, Closed},
    error::PoolError,
};

/// The queue under its single lock, with its rules.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rules: Rules,
    pub(super) queue: Lock<Queue>,
    /// Notified when no call is admitted anymore.
    pub(super) drained: Notify,
}

impl Shared {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, queue: Lock::default(), drained: Notify::new() }
    }

    /// Grants what is free in `queue`, and notifies those that wait for the last call to leave.
    pub(super) fn settle(&self, queue: &mut Queue) {
        queue.dispatch(&self.rules);
        if queue.admitted == 0 {
            self.drained.notify_waiters();
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    admitted: usize,
    running: usize,
    background: usize,
    closed: bool,
    tickets: u64,
    owners: Owners,
    endpoints: HashMap<Box<str>, Endpoint>,
    callers: HashMap<IpAddr, Caller>,
    /// Served before waiters of the same owner that need admission.
    resuming: WaitQueue,
    queued: WaitQueue,
}

/// The waiter that gets the next slot.
#[derive(Debug, Clone, Copy)]
enum NextSlot {
    Resuming(QueuePosition),
    Queued(QueuePosition),
}

#[derive(Debug, Default)]
struct Endpoint {
    admitted: usize,
    /// The number of admitted calls of each caller that has any.
    callers: HashMap<IpAddr, usize>,
    breaker: Breaker,
}

impl Endpoint {
    /// Returns whether a call can have a place, once `released` more places are free.
    fn has_place(&self, admission: AdmissionRequest<'_>, released: usize) -> bool {
        let all = admission.concurrency.max(1);
        let share = if admission.caller.is_none() || all < FEW { Share::All } else { Share::HalfOfFree };
        let has = admission.caller.and_then(|caller| self.callers.get(&caller)).copied().unwrap_or_default();
        share.allows(all, has, (all + released).saturating_sub(self.admitted))
    }

    /// Counts a place for a caller.
    fn count(&mut self, caller: Option<IpAddr>) {
        if let Some(caller) = caller {
            *self.callers.entry(caller).or_default() += 1;
        }
    }

    /// Stops counting a place for a caller.
    fn discount(&mut self, caller: Option<IpAddr>) {
        let Some(caller) = caller else { return };
        if let Entry::Occupied(mut has) = self.callers.entry(caller) {
            *has.get_mut() -= 1;
            if *has.get() == 0 {
                has.remove();
            }
        }
    }
}

impl Queue {
    pub(super) fn occupancy(&self) -> Occupancy {
        Occupancy { admitted: self.admitted, running: self.running, queued: self.queued.len() }
    }

    pub(super) fn check_open(&self, admission: &AdmissionRequest<'_>, rules: &Rules) -> Result<(), PoolError> {
        if self.closed {
            return Err(PoolError::Busy { retry_after: rules.timeout });
        }
        self.check_held(admission, rules)
    }

    pub(super) fn check_held(&self, admission: &AdmissionRequest<'_>, rules: &Rules) -> Result<(), PoolError> {
        let endpoint = self.endpoints.get(admission.endpoint);
        match endpoint.and_then(|endpoint| endpoint.breaker.closed_to(admission.caller, &rules.breaker, Instant::now())) {
            Some(Closed::Held(retry_after)) => Err(PoolError::Held { retry_after }),
            Some(Closed::Slowed(retry_after)) => Err(PoolError::Slowed { retry_after }),
            None => Ok(()),
        }
    }

    /// Returns how much longer an endpoint is held, if it is.
    pub(super) fn held(&self, endpoint: &str) -> Option<Duration> {
        self.endpoints.get(endpoint)?.breaker.held(Instant::now())
    }

    /// Records that a call was stopped. Returns true if that makes the endpoint held.
    pub(super) fn note_stop(&mut self, endpoint: &str, caller: Option<IpAddr>, cause: Cause, rules: &Rules) -> bool {
        self.endpoint(endpoint).breaker.note_stop(cause, caller, &rules.breaker, Instant::now())
    }

    /// Records that a call ended normally.
    pub(super) fn note_answer(&mut self, admission: AdmissionRequest<'_>) {
        if let Some(endpoint) = self.endpoints.get_mut(admission.endpoint) {
            endpoint.breaker.note_answer(Instant::now());
        }
    }

    /// Stops admitting calls, and dismisses those in the queue.
    pub(super) fn close(&mut self) {
        self.closed = true;
        // Each waiter leaves the queue itself when it finds that its sender is gone.
        self.queued.reject();
    }

    /// Forgets owners and endpoints without calls.
    pub(super) fn prune_idle(&mut self, rules: &Rules) {
        let now = Instant::now();
        self.owners.prune_idle();
        self.callers.retain(|_, caller| caller.has_calls() || caller.is_long());
        // Every breaker drops its past entries, even if its endpoint is never idle.
        self.endpoints.retain(|_, endpoint| !endpoint.breaker.is_expired(&rules.breaker, now) || endpoint.admitted > 0);
    }

    /// Grants free slots to waiters that can have them.
    ///
    /// Invariant: after every change no waiter that can run is left waiting.
    pub(super) fn dispatch(&mut self, rules: &Rules) {
        while self.running < rules.running {
            match self.next(rules) {
                Some(NextSlot::Resuming(slot)) => {
                    let Some(waiter) = self.resuming.remove(slot) else { return };
                    self.run(waiter.admission());
                    waiter.wake(WaiterGrant::Slot);
                }
                Some(NextSlot::Queued(slot)) => {
                    let Some(waiter) = self.dequeue_waiter(slot) else { return };
                    self.admit(waiter.admission());
                    waiter.wake(WaiterGrant::Slot);
                }
                None => return,
            }
        }
    }

    /// Returns the waiter that gets the next slot, among those that only need a slot. The owner
    /// with the fewest computing calls goes first, and among those the one that has waited longest
    /// since its last slot.
    fn next(&self, rules: &Rules) -> Option<NextSlot> {
        let rank = |owner: &str| self.owners.get(owner).rank();
        let resuming = self.resuming.first(|owner| Some(rank(owner)), |waiter| self.may_compute(rules, waiter.caller));
        let may_enter = |owner: &str| {
            let owner = self.owners.get(owner);
            (!self.closed && self.owner_may_enter(rules, owner)).then(|| owner.rank())
        };
        let queued = self.queued.first(may_enter, |waiter| self.has_room(rules, waiter.admission()));
        match (resuming, queued) {
            (Some((resuming, _)), Some((queued, slot))) if queued < resuming => Some(NextSlot::Queued(slot)),
            (Some((_, slot)), _) => Some(NextSlot::Resuming(slot)),
            (None, Some((_, slot))) => Some(NextSlot::Queued(slot)),
            (None, None) => None,
        }
    }

    /// Sends up to `room` waiters for `endpoint` ahead, as long as they are first in the queue and
    /// within their callers' shares. Nobody is overtaken.
    pub(super) fn send_ahead(&mut self, endpoint: &str, room: usize) {
        if self.closed || !self.resuming.is_empty() {
            return;
        }
        for _ in 0..room {
            let enters = |waiter: &Waiter| waiter.may_run_ahead && *waiter.endpoint == *endpoint && self.may_take_place(waiter.admission());
            let earliest = self.queued.earliest().filter(|slot| enters(self.queued.at(*slot)));
            let Some(waiter) = earliest.and_then(|slot| self.dequeue_waiter(slot)) else { return };
            waiter.wake(WaiterGrant::Ahead);
        }
    }

    /// Returns whether a new call can run at once. While a slot is free, no waiter needs only that
    /// (see [`dispatch`](Self::dispatch)), so no owner's share is at stake.
    pub(super) fn may_enter(&self, rules: &Rules, admission: AdmissionRequest<'_>) -> bool {
        self.running < rules.running && self.owner_may_enter(rules, self.owners.get(admission.owner)) && self.has_room(rules, admission)
    }

    pub(super) fn may_run_ahead(&self, admission: AdmissionRequest<'_>) -> bool {
        self.queued.is_empty() && self.resuming.is_empty() && self.may_take_place(admission)
    }

    /// Returns whether a call can have the place of one that runs at its endpoint now, after that
    /// one has ended.
    fn may_take_place(&self, admission: AdmissionRequest<'_>) -> bool {
        self.endpoints.get(admission.endpoint).is_some_and(|endpoint| endpoint.admitted > 0 && endpoint.has_place(admission, 1))
    }

    /// Makes a place in the queue for `admission`, if possible. If the queue is full, the owner with
    /// the most waiters loses its last place to an owner with fewer.
    pub(super) fn evict_for(&mut self, rules: &Rules, admission: AdmissionRequest<'_>) -> bool {
        if self.of(admission.caller).queued >= rules.caller_queue {
            return false;
        }
        if self.queued.len() < rules.queue {
            return true;
        }
        let last = self.queued.last_of_largest().filter(|(max, _)| *max > self.queued.of(admission.owner) + 1);
        // That waiter finds that its sender is gone.
        last.and_then(|(_, slot)| self.dequeue_waiter(slot)).is_some()
    }

    /// Takes a process and a running slot.
    pub(super) fn admit(&mut self, admission: AdmissionRequest<'_>) {
        self.admitted += 1;
        let endpoint = self.endpoint(admission.endpoint);
        endpoint.admitted += 1;
        endpoint.count(admission.caller);
        self.owners.change(admission.owner, |owner| owner.admitted += 1);
        self.caller(admission.caller, |caller| caller.admitted += 1);
        self.run(admission);
    }

    /// Releases a running slot.
    pub(super) fn release_slot(&mut self, admission: AdmissionRequest<'_>) {
        self.caller(admission.caller, |caller| caller.computing -= 1);
        self.release(admission.owner);
    }

    /// Releases a running slot and continues in the background. Returns false if too many calls are
    /// in the background. A call of an owner with more computing calls than the owner of the next
    /// waiter enters anyway, so that long calls do not keep others waiting.
    pub(super) fn enter_background(&mut self, rules: &Rules, owner: &str) -> bool {
        let enters = self.background < rules.background || self.owner_of_next(rules).is_some_and(|next| self.has_fewer(next, owner));
        if enters {
            self.background += 1;
            self.owners.change(owner, |owner| owner.background += 1);
            self.release(owner);
        }
        enters
    }

    /// Enters the background if the next waiter belongs to another owner. Returns false otherwise.
    pub(super) fn yield_slot(&mut self, rules: &Rules, owner: &str) -> bool {
        self.owner_of_next(rules).is_some_and(|next| next != owner) && self.enter_background(rules, owner)
    }

    /// Takes a running slot for a call in the background. Returns false if none is free.
    pub(super) fn regain_slot(&mut self, rules: &Rules, owner: &str) -> bool {
        let is_free = self.running < rules.running;
        if is_free {
            self.background -= 1;
            self.owners.change(owner, |owner| owner.background -= 1);
            self.take_slot(owner);
        }
        is_free
    }

    /// Ends a computation in the background.
    pub(super) fn leave_background(&mut self, admission: AdmissionRequest<'_>) {
        self.background -= 1;
        self.owners.change(admission.owner, |owner| owner.background -= 1);
        self.caller(admission.caller, |caller| caller.computing -= 1);
    }

    /// Releases a process.
    pub(super) fn leave(&mut self, admission: AdmissionRequest<'_>) {
        self.admitted -= 1;
        self.owners.change(admission.owner, |owner| owner.admitted -= 1);
        self.caller(admission.caller, |caller| caller.admitted -= 1);
        if let Some(endpoint) = self.endpoints.get_mut(admission.endpoint) {
            endpoint.admitted -= 1;
            endpoint.discount(admission.caller);
        }
    }

    /// Stops counting a call for its caller. The call counts for nobody until
    /// [`taken_over`](Self::taken_over).
    pub(super) fn handed_over(&mut self, admission: AdmissionRequest<'_>) {
        self.endpoint(admission.endpoint).discount(admission.caller);
        self.caller(admission.caller, |caller| {
            caller.admitted -= 1;
            caller.computing -= 1;
        });
    }

    /// Counts a call that was [handed over](Self::handed_over) for its new caller.
    pub(super) fn taken_over(&mut self, admission: AdmissionRequest<'_>) {
        self.endpoint(admission.endpoint).count(admission.caller);
        self.caller(admission.caller, |caller| {
            caller.admitted += 1;
            caller.computing += 1;
        });
    }

    /// Queues for a process and a running slot.
    pub(super) fn enqueue(&mut self, admission: AdmissionRequest<'_>, may_go_ahead: bool) -> WaiterHandle {
        let (waiter, turn) = Waiter::new(self.ticket(), admission, may_go_ahead);
        self.caller(admission.caller, |caller| caller.queued += 1);
        self.queued.push(waiter);
        turn
    }

    /// Queues for a running slot, ahead of calls without a process.
    pub(super) fn enqueue_resuming(&mut self, admission: AdmissionRequest<'_>) -> WaiterHandle {
        let (waiter, turn) = Waiter::new(self.ticket(), admission, false);
        self.resuming.push(waiter);
        turn
    }

    /// Removes a waiter from the queue. Returns false if it is not there anymore.
    pub(super) fn dequeue(&mut self, admission: AdmissionRequest<'_>, ticket: u64) -> bool {
        let was_queued = self.queued.take(admission.owner, ticket);
        if was_queued {
            self.caller(admission.caller, |caller| caller.queued -= 1);
        }
        was_queued
    }

    /// Removes a waiter that resumes. Returns false if it is not in the queue anymore.
    pub(super) fn dequeue_resuming(&mut self, admission: AdmissionRequest<'_>, ticket: u64) -> bool {
        self.resuming.take(admission.owner, ticket)
    }

    fn dequeue_waiter(&mut self, slot: QueuePosition) -> Option<Waiter> {
        let waiter = self.queued.remove(slot)?;
        self.caller(waiter.caller, |caller| caller.queued -= 1);
        Some(waiter)
    }

    /// Returns whether an owner can have one more process. An owner with more calls in the
    /// background than allowed waits until these have ended.
    fn owner_may_enter(&self, rules: &Rules, owner: Owner) -> bool {
        owner.background <= rules.background && owner.may_have_process(rules.processes, rules.processes - self.admitted)
    }

    /// Returns whether the limits of the caller and of the endpoint permit one more process.
    fn has_room(&self, rules: &Rules, admission: AdmissionRequest<'_>) -> bool {
        self.of(admission.caller).admitted < rules.caller_processes
            && self.may_compute(rules, admission.caller)
            && self.endpoints.get(admission.endpoint).is_none_or(|endpoint| endpoint.has_place(admission, 0))
    }

    /// Returns whether one more call of a caller can compute. The limit applies even if nobody
    /// waits, because a newcomer would have to wait until this call releases its slot.
    fn may_compute(&self, rules: &Rules, caller: Option<IpAddr>) -> bool {
        self.of(caller).computing < rules.caller_running
    }

    fn owner_of_next(&self, rules: &Rules) -> Option<&str> {
        let next = match self.next(rules)? {
            NextSlot::Resuming(slot) => self.resuming.at(slot),
            NextSlot::Queued(slot) => self.queued.at(slot),
        };
        Some(&next.owner)
    }

    /// Returns whether `one` has fewer computing calls than `other`.
    fn has_fewer(&self, one: &str, other: &str) -> bool {
        self.owners.get(one).computing() < self.owners.get(other).computing()
    }

    fn run(&mut self, admission: AdmissionRequest<'_>) {
        self.caller(admission.caller, |caller| caller.computing += 1);
        self.take_slot(admission.owner);
    }

    fn take_slot(&mut self, owner: &str) {
        self.running += 1;
        self.owners.serve(owner);
    }

    fn release(&mut self, owner: &str) {
        self.running -= 1;
        self.owners.change(owner, |owner| owner.running -= 1);
    }

    /// Returns whether a caller has several calls that compute, or had long ones lately, while calls of others compute too.
    /// Together, such calls could keep every core from the short calls of others.
    pub(super) fn makes_way(&self, caller: Option<IpAddr>) -> bool {
        let own = self.of(caller);
        (own.computing > 1 || own.is_long()) && self.others_compute(own)
    }

    /// Returns whether a caller had long calls lately, while calls of others compute.
    pub(super) fn is_expected_long(&self, caller: Option<IpAddr>) -> bool {
        let own = self.of(caller);
        own.is_long() && self.others_compute(own)
    }

    fn others_compute(&self, own: Caller) -> bool {
        self.running + self.background > own.computing
    }

    /// Records that a call was slowed.
    pub(super) fn note_slowed(&mut self, caller: Option<IpAddr>) {
        self.caller(caller, |caller| caller.slowed_at = Some(Instant::now()));
    }

    fn of(&self, caller: Option<IpAddr>) -> Caller {
        caller.and_then(|caller| self.callers.get(&caller)).copied().unwrap_or_default()
    }

    fn caller(&mut self, caller: Option<IpAddr>, change: impl FnOnce(&mut Caller)) {
        if let Some(caller) = caller {
            change(self.callers.entry(caller).or_default());
        }
    }

    fn endpoint(&mut self, name: &str) -> &mut Endpoint {
        if !self.endpoints.contains_key(name) {
            self.endpoints.insert(name.into(), Endpoint::default());
        }
        self.endpoints.get_mut(name).expect("the endpoint exists or was just inserted")
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    #[cfg(test)]
    pub(super) fn computing_of(&self, caller: Option<IpAddr>) -> usize {
        self.of(caller).computing
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.endpoints.is_empty() && self.owners.is_empty() && self.callers.is_empty()
    }

    #[cfg(test)]
    pub(super) fn admitted_of(&self, owner: &str) -> usize {
        self.owners.get(owner).admitted
    }

    #[cfg(test)]
    pub(super) fn is_work_conserving(&self, rules: &Rules) -> bool {
        self.running == rules.running || self.next(rules).is_none()
    }

    #[cfg(test)]
    pub(super) fn stopped_callers_of(&self, endpoint: &str) -> usize {
        self.endpoints.get(endpoint).map_or(0, |endpoint| endpoint.breaker.stopped_callers())
    }

    #[cfg(test)]
    pub(super) fn counts_no_owner(&self) -> bool {
        let is_idle = |endpoint: &Endpoint| endpoint.admitted == 0 && endpoint.callers.is_empty();
        self.background == 0
            && self.owners.is_idle()
            && self.endpoints.values().all(is_idle)
            && !self.callers.values().any(Caller::has_calls)
    }
}
