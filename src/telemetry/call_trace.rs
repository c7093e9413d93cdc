//! The progress of one call: its current stage, and since when.
//!
//! It is task-local, so that any code that the call reaches can use it without a parameter. Stages follow each other
//! without gaps: their durations add up to that of the call. Outside a call nothing is recorded.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use tollhouse_base::clock::Clock;

use super::{
    context::{self, Context, span_id},
    counters,
    span::{PassedStage, TracedCall},
    stage::Stage,
    tracer,
};

tokio::task_local! {
    static COURSE: CallProgress;
    /// The span of the current request's call.
    static ANSWERED: Cell<Option<Context>>;
}

/// A call to be followed.
#[derive(Debug)]
pub struct FollowedCall(CallProgress);

#[derive(Debug)]
struct CallProgress {
    started: Instant,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    since: Instant,
    spent: [Option<Duration>; Stage::ALL.len()],
    trace: Option<Box<Trace>>,
}

/// The trace that a call belongs to.
#[derive(Debug)]
struct Trace {
    /// The span of the call itself if it is recorded, otherwise that of its caller.
    context: Context,
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    parent: Option<[u8; 8]>,
    state: Option<String>,
    started: u64,
    /// The span of the current stage.
    span: [u8; 8],
    passed: Vec<PassedStage>,
    attributes: Vec<(&'static str, String)>,
}

/// Starts to follow a call whose caller sent these W3C Trace Context headers. It continues the caller's trace or begins
/// a new one.
#[must_use]
pub fn follow(parent: Option<&str>, state: Option<&str>) -> FollowedCall {
    let now = Instant::now();
    let trace = traced(parent, state);
    if let Some(Trace { context, recorded: Some(_) }) = trace.as_deref() {
        _ = ANSWERED.try_with(|answered| answered.set(Some(*context)));
    }
    let state = RefCell::new(State { stage: Stage::Admit, since: now, spent: [None; Stage::ALL.len()], trace });
    FollowedCall(CallProgress { started: now, state })
}

fn traced(parent: Option<&str>, state: Option<&str>) -> Option<Box<Trace>> {
    let given = parent.and_then(Context::read);
    let Some(context) = tracer::decide(given) else {
        return given.map(|context| Box::new(Trace { context, recorded: None }));
    };
    let recorded = Recorded {
        parent: given.map(|given| given.span),
        state: state.filter(|_| given.is_some()).and_then(context::state).map(str::to_owned),
        started: Clock::default().now().0.saturating_mul(1_000_000),
        span: span_id(),
        passed: vec![],
        attributes: vec![],
    };
    Some(Box::new(Trace { context, recorded: Some(recorded) }))
}

impl FollowedCall {
    /// Runs the call. `outcome` returns how it ended: `ok`, or an error code.
    pub async fn during<T>(self, work: impl Future<Output = T>, outcome: impl FnOnce(&T) -> &'static str) -> T {
        let followed = async {
            let ended = work.await;
            COURSE.with(|course| course.end(outcome(&ended)));
            ended
        };
        COURSE.scope(self.0, followed).await
    }
}

/// Moves the current call to `stage`.
pub fn enter(stage: Stage) {
    _ = COURSE.try_with(|course| course.state.borrow_mut().enter(stage, course.started, Instant::now()));
}

/// Adds an attribute to the call's span, if it has one: one of the host's own ids, or a name from its catalog.
pub fn note(name: &'static str, value: impl FnOnce() -> String) {
    _ = COURSE.try_with(|course| {
        if let Some(Recorded { attributes: reported, .. }) = course.state.borrow_mut().recorded() {
            reported.push((name, value()));
        }
    });
}

/// Returns the headers for outgoing requests made for the call: `traceparent` and `tracestate`. `None` if it is not
/// traced.
#[must_use]
pub fn onward() -> Option<(String, Option<String>)> {
    if !tracer::is_on() {
        return None;
    }
    let header = |course: &CallProgress| {
        let state = course.state.borrow();
        let trace = state.trace.as_deref()?;
        Some(match &trace.recorded {
            Some(recorded) => (Context { span: recorded.span, ..trace.context }.header(), recorded.state.clone()),
            None => (trace.context.header(), None),
        })
    };
    COURSE.try_with(header).ok().flatten()
}

/// Returns the ids of the current trace and span.
pub(super) fn current() -> Option<(String, String)> {
    let ids = |course: &CallProgress| {
        let state = course.state.try_borrow().ok()?;
        let trace = state.trace.as_deref()?;
        let span = trace.recorded.as_ref().map_or(trace.context.span, |recorded| recorded.span);
        Some((hex::encode(trace.context.trace), hex::encode(span)))
    };
    COURSE.try_with(ids).ok().flatten()
}

/// Handles a request. Returns the result, and the `traceresponse` header if a call was traced for it.
pub async fn answering<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let answered = async {
        let answer = work.await;
        (answer, ANSWERED.with(Cell::take).map(Context::header))
    };
    ANSWERED.scope(Cell::new(None), answered).await
}

impl CallProgress {
    fn end(&self, outcome: &'static str) {
        let now = Instant::now();
        let elapsed = now - self.started;
        let mut state = self.state.borrow_mut();
        let stage = state.stage;
        state.enter(stage, self.started, now);
        counters::CALLS.count(outcome);
        counters::ended(elapsed, &state.spent);
        let Some(Trace { context, recorded: Some(recorded) }) = state.trace.take().map(|trace| *trace) else { return };
        let Recorded { parent, state, started, passed, attributes: reported, .. } = recorded;
        tracer::hand_over(TracedCall { context, parent, state, started, elapsed, stages: passed, outcome, attributes: reported });
    }
}

impl State {
    fn enter(&mut self, stage: Stage, started: Instant, now: Instant) {
        let (before, since) = (std::mem::replace(&mut self.stage, stage), std::mem::replace(&mut self.since, now));
        *self.spent[before as usize].get_or_insert_default() += now - since;
        if let Some(recorded) = self.recorded() {
            let passed = PassedStage { stage: before, span: recorded.span, from: since - started, to: now - started };
            recorded.passed.push(passed);
            recorded.span = span_id();
        }
    }

    fn recorded(&mut self) -> Option<&mut Recorded> {
        self.trace.as_mut()?.recorded.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stages_add_up_to_the_call() {
        let work = async {
            for stage in [Stage::Queue, Stage::Run, Stage::Commit, Stage::Settle, Stage::Commit] {
                tokio::task::yield_now().await;
                enter(stage);
            }
            COURSE.with(|course| {
                let mut state = course.state.borrow_mut();
                let now = Instant::now();
                state.enter(Stage::Commit, course.started, now);
                let spent: Duration = state.spent.iter().flatten().sum();
                assert_eq!(spent, now - course.started);
                let never = [Stage::Check, Stage::Join].map(|stage| state.spent[stage as usize]);
                assert_eq!(never, [None, None]);
            });
        };
        follow(None, None).during(work, |()| "ok").await;
    }

    #[tokio::test]
    async fn nothing_is_recorded_outside_a_call() {
        enter(Stage::Run);
        note("a", || unreachable!("nothing is recorded"));
        assert_eq!((onward(), current()), (None, None));
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let ids = follow(Some(given), None).during(async { current() }, |_| "ok").await;
        let (trace, span) = ids.unwrap();
        assert_eq!((&*trace, &*span), (&given[3..35], &given[36..52]), "a log has it although nothing is recorded");
    }
}
