//! Workers that wait: idle ones with a handler, blank spares. Lending and taking back.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use tokio::time::Instant;
use tollhouse_protocol::{Bundle, Isolation, Limits, Load, LoadError, LoadFault, Loaded, Side, Spent, Start, StopReason, ToWorker, Work};

use crate::{
    OpHost, PoolError,
    call::{self, Begin, Clean, Ended},
    core::Core,
    gate::{Ahead, Ask, Entry, Leave},
    pipeline::{HandedOn, Next, SentAhead},
    process::{Holding, Process},
    status::count,
    watch::Budget,
    wire::{self, Buffers},
};

/// See the module's documentation. Short enough, at most [`PoolConfig::max_idle`](crate::PoolConfig::max_idle)
/// and a few spares, to be searched from the end.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// The last used is last.
    pub(crate) idle: VecDeque<Idle>,
    pub(crate) spares: Vec<Arc<Process>>,
    /// Lent ones that may take calls ahead.
    pub(crate) pipelined: Vec<Arc<Process>>,
    /// Spares on their way.
    pub(crate) booting: usize,
    /// Processes ordered, and not counted yet among those that are there.
    pub(crate) starting: usize,
    /// Nothing is put here any more.
    pub(crate) closed: bool,
}

impl Shelf {
    /// Lets nothing more be sent ahead to a worker.
    pub(crate) fn forget_pipelined(&mut self, process: &Arc<Process>) {
        if let Some(place) = self.pipelined.iter().position(|pipelined| Arc::ptr_eq(pipelined, process)) {
            self.pipelined.swap_remove(place);
        }
    }
}

/// A worker that waits for its handler's next call.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) process: Arc<Process>,
    buffers: Buffers,
    pub(crate) since: Instant,
}

/// When a worker was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// With nothing but what its owner wrote.
    Load,
    Call,
}

/// A handler that wants a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) bundle: &'a Arc<Bundle>,
    pub(crate) endpoint: &'a str,
    pub(crate) limits: &'a Limits,
    pub(crate) isolation: Isolation,
}

impl Wanted<'_> {
    fn is_held_by(&self, process: &Process) -> bool {
        process.loaded.get().is_some_and(|holding| holding.serves(self.endpoint, self.bundle, self.limits))
    }
}

/// A worker in use. Dropping it ends the process; only [`Lent::recycle`] and [`Lent::hand_on`] save it, and only with
/// the proof that what it did last ended as it should.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    core: &'a Arc<Core>,
    process: Option<Arc<Process>>,
    buffers: Buffers,
}

/// Where and how a call begins.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The worker, where another call handed it on.
    pub(crate) lent: Option<Lent<'a>>,
    pub(crate) entry: Entry<'a>,
    pub(crate) begin: Begin,
}

impl Core {
    /// Waits until a call may run: it has a running slot of its own, or was sent ahead and the worker is handed on to it.
    ///
    /// # Errors
    ///
    /// As [`Gate::enter`](crate::gate::Gate::enter).
    pub(crate) async fn place<'a>(self: &'a Arc<Self>, wanted: Wanted<'_>, ask: Ask<'a>, start: Start) -> Result<Place<'a>, PoolError> {
        let (warm, deadline) = (wanted.isolation == Isolation::Warm && self.config.pipeline > 0, self.gate.deadline());
        let mut ahead = if warm { Ahead::Now } else { Ahead::Never };
        let call = ToWorker::Call(start);
        loop {
            if let Leave::Enter(entry) = self.gate.wait(ask, ahead, deadline).await? {
                return Ok(Place { lent: None, entry, begin: Begin::Now(call) });
            }
            ahead = Ahead::Queued;
            if let Some(sent) = self.send_ahead(wanted, ask, &call) {
                let begin = Begin::SentAhead(sent.since());
                let soon = sent.since() + self.config.pipeline_patience;
                if let Some((lent, entry)) = sent.turn(soon.min(deadline)).await {
                    return Ok(Place { lent: Some(lent), entry, begin });
                }
                ahead = Ahead::Never;
            }
        }
    }

    /// Lends a worker that holds `wanted`: a warm one if there is one, else one that loads it now.
    ///
    /// # Errors
    ///
    /// [`PoolError::Load`] when the handler does not load, [`PoolError::Spawn`] when there is no
    /// process to load it.
    pub(crate) async fn lend(self: &Arc<Self>, wanted: Wanted<'_>) -> Result<Lent<'_>, PoolError> {
        if wanted.isolation == Isolation::Warm
            && let Some(lent) = self.lend_idle(wanted)
        {
            return Ok(lent);
        }
        count(&self.counters.cold_calls);
        let loaded = self.lend_loaded(wanted).await;
        // Only now, so that the replacement does not compete with the load.
        self.refill();
        loaded.map(|(lent, _)| lent)
    }

    /// Lends a worker that has loaded `wanted` and served nobody, and the proof that loading it
    /// ended as it should.
    pub(crate) async fn lend_loaded(self: &Arc<Self>, wanted: Wanted<'_>) -> Result<(Lent<'_>, Clean), PoolError> {
        let mut lent = self.lend_blank().await?;
        let mut loaded = lent.load(wanted.bundle, wanted.limits).await;
        if matches!(loaded, Err(LoadFault::Stopped(StopReason::Crashed))) {
            // It may have been dying when it was lent. What has not run may be tried again.
            lent = self.boot().await?;
            loaded = lent.load(wanted.bundle, wanted.limits).await;
        }
        let (_, clean) = loaded.map_err(|fault| self.load_error(wanted.endpoint, fault))?;
        let holding = Holding {
            bundle: Arc::clone(wanted.bundle),
            endpoint: wanted.endpoint.into(),
            limits: *wanted.limits,
            isolation: wanted.isolation,
        };
        lent.process().loaded.set(holding).map_err(|_| PoolError::Spawn("a blank worker held a handler".into()))?;
        Ok((lent, clean))
    }

    /// Lends a spare, or starts a process when there is none.
    pub(crate) async fn lend_blank(self: &Arc<Self>) -> Result<Lent<'_>, PoolError> {
        while let Some(process) = self.take_spare() {
            let lent = Lent { core: self, process: Some(process), buffers: Buffers::default() };
            if lent.is_fit() {
                return Ok(lent);
            }
            count(&self.counters.idle_faults);
        }
        self.boot().await
    }

    /// Starts a process and waits until it is ready.
    pub(crate) async fn boot(self: &Arc<Self>) -> Result<Lent<'_>, PoolError> {
        let place = self.make_room();
        let started = self.nursery.start(&self.config, &self.alarm).await.inspect_err(|_| count(&self.counters.failed_starts))?;
        drop(place);
        count(&self.counters.started);
        let process = self.register(started);
        let lent = Lent { core: self, process: Some(Arc::clone(&process)), buffers: Buffers::default() };
        process.wait_until_ready(&self.config).await.inspect_err(|_| count(&self.counters.failed_starts))?;
        self.note_jail(process.jail().unwrap_or_default());
        Ok(lent)
    }

    fn lend_idle(self: &Arc<Self>, wanted: Wanted<'_>) -> Option<Lent<'_>> {
        loop {
            let Idle { process, buffers, .. } = self.take_idle(wanted)?;
            let lent = Lent { core: self, process: Some(process), buffers };
            if lent.is_fit() {
                return Some(lent);
            }
            count(&self.counters.idle_faults);
        }
    }

    fn take_idle(&self, wanted: Wanted<'_>) -> Option<Idle> {
        let mut shelf = self.shelf();
        let place = shelf.idle.iter().rposition(|idle| wanted.is_held_by(&idle.process))?;
        let idle = shelf.idle.remove(place)?;
        if idle.process.link.pipeline.is_brief() {
            shelf.pipelined.push(Arc::clone(&idle.process));
        }
        Some(idle)
    }

    /// Sends a call ahead to a worker that holds `wanted` and is still at another call.
    fn send_ahead<'a>(self: &'a Arc<Self>, wanted: Wanted<'_>, ask: Ask<'a>, call: &ToWorker) -> Option<SentAhead<'a>> {
        let process = self.pipelined(wanted)?;
        let ahead = SentAhead::send(self, ask, &process, call, Budget::of_call(wanted.limits))?;
        count(&self.counters.pipelined);
        Some(ahead)
    }

    fn pipelined(&self, wanted: Wanted<'_>) -> Option<Arc<Process>> {
        self.shelf()
            .pipelined
            .iter()
            .find(|process| wanted.is_held_by(process) && !process.is_doomed() && process.link.pipeline.room() > 0)
            .cloned()
    }

    fn take_spare(&self) -> Option<Arc<Process>> {
        self.shelf().spares.pop()
    }

    /// Takes a place for one more process. Where there are as many as may be, the oldest idle
    /// worker goes, or else a spare; the gate lets no more calls in than there may be processes.
    fn make_room(&self) -> Starting<'_> {
        let mut victims = Vec::new();
        {
            let mut shelf = self.shelf();
            let allowed = self.config.max_processes.saturating_sub(shelf.starting);
            while self.nursery.live().saturating_sub(victims.len()) >= allowed {
                let Some(process) = shelf.idle.pop_front().map(|idle| idle.process).or_else(|| shelf.spares.pop()) else { break };
                victims.push(process);
            }
            shelf.starting += 1;
        }
        victims.iter().for_each(|process| self.discard(process));
        Starting(self)
    }

    pub(crate) fn load_error(&self, endpoint: &str, fault: LoadFault) -> PoolError {
        match fault {
            LoadFault::Handler(error) => PoolError::Load(error),
            LoadFault::Schema(fault) => PoolError::Schema(fault),
            LoadFault::Stopped(reason) => {
                self.note_stop(endpoint, &reason, At::Load);
                match reason {
                    StopReason::SchemaTime { .. } | StopReason::SchemaMemory { .. } => PoolError::Stopped(reason),
                    reason => PoolError::Load(LoadError { message: format!("while loading, {reason}"), line: None, column: None }),
                }
            }
        }
    }

    /// Counts a stopped call, and holds its endpoint if there were too many. Only stops that a
    /// process does not survive in good order count for that, and none that a caller's input brought about.
    pub(crate) fn note_stop(&self, endpoint: &str, reason: &StopReason, at: At) {
        let counts = match reason {
            StopReason::Crashed => {
                count(&self.counters.crashes);
                true
            }
            StopReason::SchemaTime { side, .. } | StopReason::SchemaMemory { side, .. } | StopReason::Unlisted { side } => {
                count(&self.counters.stops);
                at == At::Load || *side == Side::Output
            }
            StopReason::CpuTime { .. } | StopReason::WallTime { .. } | StopReason::Memory { .. } => {
                count(&self.counters.stops);
                true
            }
            StopReason::OutputSize { .. } | StopReason::OutputDepth { .. } | StopReason::Ops { .. } | StopReason::Deadlock => {
                count(&self.counters.stops);
                false
            }
        };
        if counts && self.gate.note_kill(endpoint) {
            tracing::warn!(endpoint, "endpoint is held after repeated faults");
        }
    }
}

/// A place for a process that is not there yet.
struct Starting<'a>(&'a Core);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.shelf().starting -= 1;
    }
}

impl<'a> Lent<'a> {
    /// A worker that another call handed on.
    pub(crate) fn handed_on(core: &'a Arc<Core>, process: Arc<Process>, buffers: Buffers) -> Self {
        Self { core, process: Some(process), buffers }
    }

    pub(crate) async fn load(&mut self, bundle: &Bundle, limits: &Limits) -> Result<(Loaded, Clean), LoadFault> {
        let load = Load { bundle: bundle.clone(), limits: *limits };
        let process = self.process.as_ref().expect("a lent worker has its process until it is given back");
        call::load(&process.link, &mut self.buffers, load).await
    }

    pub(crate) async fn drive(&mut self, asked: (&Limits, Work), begin: Begin, host: &dyn OpHost, entry: &mut Entry<'_>) -> Ended {
        let process = self.process.as_ref().expect("a lent worker has its process until it is given back");
        process.calls.fetch_add(1, Ordering::Relaxed);
        call::drive(&process.link, &mut self.buffers, asked, begin, host, entry).await
    }

    /// Hands the worker on to the first of the calls that were sent ahead, and the running slot with it. Without one the
    /// worker goes on the shelf, and then the slot is free.
    pub(crate) fn hand_on(mut self, proof: Clean, spent: &Spent, entry: Entry<'_>) {
        let Some(Next { budget, turn }) = self.process().link.pipeline.next(spent) else { return self.recycle(proof) };
        let may_go_on = !self.process().is_doomed() && self.process().link.is_free() && entry.is_running();
        if let Some(process) = self.process.take_if(|_| may_go_on) {
            // In force from here on: the worker may have begun.
            process.link.begin(budget);
            match turn.send(HandedOn { process, buffers: std::mem::take(&mut self.buffers) }) {
                Ok(()) => return entry.hand_on(),
                // Given up: what the worker may be at is nobody's.
                Err(HandedOn { process, .. }) => self.process = Some(process),
            }
        }
        // The process first: whoever gets the slot may need its place.
        drop(self);
        drop(entry);
    }

    /// Puts the worker on the shelf for its handler's next call.
    pub(crate) fn recycle(mut self, _proof: Clean) {
        let fit = self.buffers.are_empty() && !self.process().is_doomed() && self.process().link.is_free();
        if !fit {
            return;
        }
        self.buffers.trim();
        let buffers = std::mem::take(&mut self.buffers);
        if let Some(process) = self.process.take() {
            self.core.shelve(Idle { process, buffers, since: Instant::now() });
        }
    }

    /// Puts a blank worker among the spares.
    pub(crate) fn keep_as_spare(mut self) {
        let mut shelf = self.core.shelf();
        if !shelf.closed
            && let Some(process) = self.process.take()
        {
            shelf.spares.push(process);
        }
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().expect("a lent worker has its process until it is given back")
    }

    /// The other half of the invariant of [`Clean`]: asserted again before a worker is used.
    fn is_fit(&self) -> bool {
        let process = self.process();
        !process.is_doomed()
            && process.is_live()
            && process.link.is_free()
            && self.buffers.are_empty()
            && wire::is_silent(&process.link.stream)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.link.pipeline.end();
            self.core.shelf().forget_pipelined(&process);
            self.core.discard(&process);
        }
    }
}
