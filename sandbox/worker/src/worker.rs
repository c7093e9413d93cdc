//! A worker's life: it gets ready, loads once, then runs one call at a time until the host or a
//! limit ends it.

use std::{
    cell::RefCell,
    os::fd::{BorrowedFd, OwnedFd, RawFd},
    rc::Rc,
    str,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use deno_core::{JsRuntime, OpState, scope};
use tollhouse_protocol::{
    Checked, JailLayer, Language, Limits, Load, LoadError, LoadFault, Loaded, LogLevel, Outcome, ReplyBody, Side, Source, Spent, Start,
    StopReason, Tier, ToHost, ToWorker, ToolReply, Work, exit::UNREPORTED, limits::COMPILED_SOURCE_BYTES,
};

use crate::{
    budget::{Budget, Phase},
    call_state::CallState,
    clock::{cpu_ns, monotonic_ns},
    crash_handler,
    driver::Driver,
    engine,
    footprint::Footprint,
    heap,
    host::{self, Host, HostGone, exit_now},
    jail::Jail,
    load,
    memory::Memory,
    pump::{End, Started, begin_call, pump, send, with_call},
    schema::Schemas,
    warm_up::warm_up,
};

/// Time that a worker waits for a bundle before it warms up. A spare waits far longer than this, any
/// other worker less.
const WARM_UP_DELAY: Duration = Duration::from_millis(10);

/// Idle time after which a worker collects its garbage.
const IDLE_GC_DELAY: Duration = Duration::from_secs(1);

/// The log line about a promise of `ctx.waitUntil` that nothing can resolve.
const NEVER_SETTLES: &str = "`ctx.waitUntil` waits for a promise that nothing can resolve, so the call ends";

/// How a worker is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerOptions {
    /// The descriptor of the socket to the host.
    pub(crate) socket: RawFd,
    /// The user to switch to, if any.
    pub(crate) user: Option<u32>,
    /// How the worker executes code.
    pub(crate) tier: Tier,
}

/// Serves the host until it goes away or a limit is exceeded.
///
/// # Errors
///
/// If there is no host to communicate with. Otherwise this does not return: the process exits, with
/// status 0 if the host closed the socket or has received the reason for a stop.
pub(crate) fn run(options: WorkerOptions) -> Result<(), HostGone> {
    BlankWorker::boot(options).serve(options.user)
}

/// A worker with a booted engine that is only in the [outer layers](Jail::enter) of its jail.
///
/// It has one thread, and has read no clock and no random numbers, so that any number of processes
/// can be forked from it.
pub(crate) struct BlankWorker {
    host: Host,
    jail: Jail,
    /// Whether the engine makes new memory executable.
    adds_code: bool,
    runtime: JsRuntime,
    driver: Driver,
    budget: Arc<Budget>,
    memory: Arc<Memory>,
}

impl BlankWorker {
    /// Boots an engine for the host at the descriptor of `options`.
    pub(crate) fn boot(options: WorkerOptions) -> Self {
        let limits = Limits::default();
        let host = Host::inherit(options.socket);
        let mut jail = Jail::of(&layers(options.tier));
        jail.enter(options.socket);
        let memory = Memory::new(limits.heap_bytes, limits.buffer_bytes);
        let budget = Budget::new(host.lifeline());
        let (runtime, driver) = engine::boot(options.tier, &memory, CallState::new(Arc::clone(&budget)));
        memory.report_to(Arc::clone(&budget));
        heap::report_to(Arc::clone(&budget));
        crash_handler::watch(options.socket);
        Self { host, jail, adds_code: engine::has_wasm(options.tier), runtime, driver, budget, memory }
    }

    /// Returns the socket to the host.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.host.socket()
    }

    /// Replaces the socket.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub(crate) fn switch_socket(&mut self, socket: &OwnedFd) -> Result<(), HostGone> {
        self.host.switch_socket(socket)
    }

    /// Does the one-time work of a first load and call in advance (see [`warm_up()`]).
    pub(crate) fn warm_up(&mut self) {
        warm_up(&mut self.runtime, &self.driver, &self.budget);
    }

    /// Serves the host as `user`, see [`run`].
    ///
    /// # Errors
    ///
    /// The same as [`run`].
    pub(crate) fn serve(self, user: Option<u32>) -> Result<(), HostGone> {
        let gone = Worker::start(self, user)?.serve();
        // Destroying an isolate takes time and frees nothing that the exit does not.
        exit_now(if matches!(gone, HostGone::Closed) { 0 } else { UNREPORTED })
    }
}

struct Worker {
    host: Host,
    runtime: JsRuntime,
    driver: Driver,
    state: Rc<RefCell<OpState>>,
    budget: Arc<Budget>,
    memory: Arc<Memory>,
    /// The memory of the process before its bundle, if the system reports it.
    footprint: Option<Footprint>,
    schemas: Schemas,
    has_handler: bool,
    /// Compiled code of the bundle, until it is loaded.
    code: Option<Bytes>,
}

impl Worker {
    /// Enters the rest of the jail and reports to the host.
    fn start(blank: BlankWorker, user: Option<u32>) -> Result<Self, HostGone> {
        let BlankWorker { host, mut jail, adds_code, mut runtime, driver, budget, memory } = blank;
        // Read from `/proc`, which the jail hides.
        let footprint = Footprint::now();
        jail.leave(user);
        budget.watch(runtime.v8_isolate().thread_safe_handle()).map_err(|_| HostGone::Io)?;
        set_batch_scheduling();
        // Read once before the jail is sealed: the first read of a clock makes additional system calls.
        monotonic_ns();
        let jail = jail.seal(adds_code);
        let state = runtime.op_state();
        let (schemas, has_handler, code) = (Schemas::default(), false, None);
        let mut worker = Self { host, runtime, driver, state, budget, memory, footprint, schemas, has_handler, code };
        worker.send(&ToHost::Ready { jail })?;
        Ok(worker)
    }

    fn serve(&mut self) -> HostGone {
        if matches!(self.host.readable(Some(WARM_UP_DELAY)), Err(HostGone::TimedOut)) {
            warm_up(&mut self.runtime, &self.driver, &self.budget);
        }
        let mut loaded = false;
        let mut is_collected = true;
        loop {
            let next = self.host.next((!is_collected).then_some(IDLE_GC_DELAY));
            is_collected = matches!(next, Err(HostGone::TimedOut));
            let handled = match next {
                Err(HostGone::TimedOut) => {
                    engine::collect_garbage(self.runtime.v8_isolate());
                    Ok(())
                }
                Ok(ToWorker::Code(code)) if !loaded => {
                    self.code = Some(code);
                    Ok(())
                }
                Ok(ToWorker::Load(load)) if !loaded => {
                    loaded = true;
                    self.load(load)
                }
                Ok(ToWorker::Call(start)) if loaded && (self.has_handler || matches!(start.work, Work::Check(_))) => self.call(&start),
                // A late answer to an op of an ended call.
                Ok(ToWorker::Reply { .. }) => Ok(()),
                Ok(ToWorker::Load(_) | ToWorker::Call(_) | ToWorker::Code(_)) => Err(HostGone::Frame),
                Err(gone) => Err(gone),
            };
            if let Err(gone) = handled {
                return gone;
            }
        }
    }

    fn load(&mut self, load: Load) -> Result<(), HostGone> {
        let limits = load.limits;
        self.memory.limit(limits.heap_bytes, limits.buffer_bytes);
        engine::limit_heap(self.runtime.v8_isolate(), &self.memory);
        let started = Started::now(0);
        if let Some(footprint) = self.footprint {
            footprint.bound(limits.rss_bytes);
        }
        self.begin(limits, started, Phase::Load);
        let loaded = self.accept_bundle(&load, started);
        self.disarm();
        let result = match (loaded, self.budget.reason()) {
            (_, Some(reason)) => Err(LoadFault::Stopped(reason)),
            (Ok(checked), None) => Ok(Loaded { checked, spent: self.spent(started) }),
            (Err(fault), None) => Err(fault),
        };
        let failed = result.is_err();
        self.send(&ToHost::Loaded(result))?;
        if failed { Err(HostGone::Closed) } else { Ok(()) }
    }

    fn accept_bundle(&mut self, load: &Load, started: Started) -> Result<Checked, LoadFault> {
        self.schemas = Schemas::compile(&load.bundle.schemas, &self.budget, &load.limits)?;
        match &load.bundle.source {
            Some(source) => {
                self.has_handler = true;
                Ok(self.evaluate(source, &load.bundle.specifier, started)?)
            }
            None => Ok(Checked { source: Bytes::new(), scheduled: false }),
        }
    }

    fn evaluate(&mut self, source: &Source, specifier: &str, started: Started) -> Result<Checked, LoadError> {
        let load_error = |message: &str| LoadError { message: message.into(), line: None, column: None };
        let language = source.language;
        let source = str::from_utf8(&source.text).map_err(|_| load_error("the source is not UTF-8"))?;
        let stripped = match language {
            Language::Js => None,
            Language::Ts => Some(load::to_javascript(source)?),
        };
        let code = self.code.take();
        let Self { runtime, driver, state, budget, host, .. } = self;
        scope!(scope, runtime);
        let text = stripped.as_deref().unwrap_or(source);
        let module = load::compile_handler(scope, driver, specifier, text, code.as_deref());
        let module = module.map_err(|error| if language == Language::Js { load::suggest_typescript(error, source) } else { error })?;
        if cfg!(feature = "v8") && code.is_none() && source.len() >= COMPILED_SOURCE_BYTES {
            // Before the handler's code runs, so that it cannot change what other workers get. If the host is gone, the next
            // message fails too.
            let _ = send(state, host, &ToHost::Compiled(load::code_of(scope, &module).into()));
        }
        load::evaluate(scope, driver, &module, started.wall_ms());
        let ended = pump(scope, driver, state, budget, host, started);
        let result = with_call(state, CallState::take_loaded);
        match (ended, result) {
            (_, Some(result)) => {
                result.map(|exports| Checked { source: stripped.map(Bytes::from).unwrap_or_default(), scheduled: exports.scheduled })
            }
            (Err(End::Deadlock), None) => Err(load_error("the top level of the module waits for a promise that nothing can resolve")),
            _ => Err(load_error("the top level of the module did not end")),
        }
    }

    fn call(&mut self, start: &Start) -> Result<(), HostGone> {
        let started = Started::now(start.now_ms);
        self.begin(start.limits, started, Phase::Call);
        let (ended, outcome) = match start.work {
            Work::Handle => self.handle(start, started),
            Work::Scheduled => self.run_scheduled(start, started),
            Work::Check(side) => (Ok(()), Some(self.check(side, start))),
        };
        let (ended, outcome) = match (ended, outcome) {
            (Ok(()), Some(outcome)) if self.has_work_left() => self.run_background_work(outcome, start.work, started),
            ended => ended,
        };
        self.disarm();
        let outcome = match (self.budget.reason(), ended, outcome) {
            (Some(reason), _, _) => Outcome::Stopped(reason),
            (None, Err(End::Gone(gone)), _) => return Err(gone),
            (None, _, Some(outcome)) => outcome,
            (None, _, None) => Outcome::Stopped(StopReason::Deadlock),
        };
        let stopped = matches!(outcome, Outcome::Stopped(_));
        let spent = self.spent(started);
        self.send(&ToHost::Done { outcome, spent })?;
        // If the watchdog detected an overrun at the very end, this was the last call too, even if
        // the outcome does not report it.
        if stopped || self.budget.stopped() { Err(HostGone::Closed) } else { Ok(()) }
    }

    /// Checks the input, runs the handler, and checks its result.
    fn handle(&mut self, start: &Start, started: Started) -> (Result<(), End>, Option<Outcome>) {
        // A schema describes JSON.
        let filled = match start.body_bytes {
            Some(_) => None,
            None => match self.schemas.accept(&start.body, &self.budget, &start.limits) {
                Ok(filled) => filled,
                Err(problems) => return (Ok(()), Some(Outcome::Invalid(Side::Input, problems))),
            },
        };
        if start.announced
            && let Err(gone) = self.send(&ToHost::Begun)
        {
            return (Err(End::Gone(gone)), None);
        }
        with_call(&self.state, |call| call.set_streams(start.streams));
        let ended = {
            let Self { runtime, driver, state, budget, host, .. } = self;
            scope!(scope, runtime);
            begin_call(scope, driver, start, filled.as_deref());
            pump(scope, driver, state, budget, host, started)
        };
        let outcome = with_call(&self.state, CallState::take_outcome);
        match outcome {
            Some(Outcome::Returned(reply)) if !self.budget.stopped() => (ended, Some(self.check_reply(reply, &start.limits))),
            outcome => (ended, outcome),
        }
    }

    /// Runs the module's `scheduled`.
    fn run_scheduled(&mut self, start: &Start, started: Started) -> (Result<(), End>, Option<Outcome>) {
        let ended = {
            let Self { runtime, driver, state, budget, host, .. } = self;
            scope!(scope, runtime);
            begin_call(scope, driver, start, None);
            pump(scope, driver, state, budget, host, started)
        };
        (ended, with_call(&self.state, CallState::take_outcome))
    }

    /// Returns whether the call has work to do after its outcome.
    fn has_work_left(&self) -> bool {
        !self.budget.stopped() && with_call(&self.state, |call| call.has_background_work())
    }

    /// Sends the outcome, then does the work that the handler passed to `ctx.waitUntil`, within the
    /// rest of the call's limits. Nobody waits for a run of `scheduled`, so its outcome is sent at the
    /// end.
    fn run_background_work(&mut self, outcome: Outcome, work: Work, started: Started) -> (Result<(), End>, Option<Outcome>) {
        let is_awaited = work != Work::Scheduled;
        let last = if is_awaited {
            let spent = self.spent(started);
            if let Err(gone) = self.send(&ToHost::Answered { outcome, spent }) {
                return (Err(End::Gone(gone)), None);
            }
            null_reply()
        } else {
            outcome
        };
        let ended = {
            let Self { runtime, driver, state, budget, host, .. } = self;
            scope!(scope, runtime);
            pump(scope, driver, state, budget, host, started)
        };
        let ended = match ended {
            Err(End::Deadlock) => {
                with_call(&self.state, |call| call.log(LogLevel::Warn, NEVER_SETTLES.to_owned(), String::new()));
                Ok(())
            }
            ended => ended,
        };
        with_call(&self.state, CallState::finish_log);
        (ended, Some(last))
    }

    fn check_reply(&self, reply: ToolReply, limits: &Limits) -> Outcome {
        match self.schemas.check_reply(&reply, &self.budget, limits) {
            Ok(()) => Outcome::Returned(reply),
            Err(problems) => Outcome::Invalid(Side::Output, problems),
        }
    }

    /// Checks a value without running a handler.
    fn check(&self, side: Side, start: &Start) -> Outcome {
        let checked = match side {
            Side::Input => self.schemas.accept(&start.body, &self.budget, &start.limits).map(drop),
            Side::Output => self.schemas.check(side, &start.body, &self.budget, &start.limits),
        };
        match checked {
            Ok(()) => null_reply(),
            Err(problems) => Outcome::Invalid(side, problems),
        }
    }

    fn begin(&mut self, limits: Limits, started: Started, phase: Phase) {
        with_call(&self.state, |call| call.begin(limits));
        self.budget.arm(phase, limits, started.cpu_ns, started.at_ns);
    }

    /// Ends the limits. After a stop, the next message is the last of this process, so that the
    /// watchdog sends none.
    fn disarm(&self) {
        self.budget.disarm();
        if self.budget.stopped() {
            host::claim_final_message();
        }
    }

    fn spent(&mut self, started: Started) -> Spent {
        let heap = self.runtime.v8_isolate().get_heap_statistics().used_heap_size() as u64;
        Spent {
            cpu_us: cpu_ns().saturating_sub(started.cpu_ns) / 1_000,
            wall_us: monotonic_ns().saturating_sub(started.at_ns) / 1_000,
            heap_bytes: heap + self.memory.buffer_bytes(),
            ops: with_call(&self.state, |call| call.ops().count()),
        }
    }

    /// Sends `message` after all waiting frames.
    fn send(&mut self, message: &ToHost) -> Result<(), HostGone> {
        send(&self.state, &mut self.host, message)
    }
}

/// Returns the answer `null`.
fn null_reply() -> Outcome {
    Outcome::Returned(ToolReply { status: 200, headers: Vec::new(), body: ReplyBody::Json(Bytes::from_static(b"null")) })
}

/// Returns the layers of the jail that the worker enters itself. An engine that compiles needs
/// executable memory.
fn layers(tier: Tier) -> Vec<JailLayer> {
    let compiles = engine::compiles(tier);
    let own = JailLayer::ALL.into_iter().filter(|layer| !JailLayer::OF_GROUPS.contains(layer));
    own.filter(|layer| *layer != JailLayer::NoExec || !compiles).collect()
}

/// Gives this thread a scheduling policy that does not preempt others when a call arrives
/// (sched(7), `SCHED_BATCH`). On a busy machine, calls then collect in the socket and run one after
/// the other. With a free core nothing changes. Failure affects only the speed.
#[expect(unsafe_code, reason = "no safe binding sets a scheduling policy")]
fn set_batch_scheduling() {
    let unused = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call, and the policy applies only to this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const unused) };
}
