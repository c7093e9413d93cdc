//! The course of one call: which stage it is at, and since when.
//!
//! It is kept with the call's task, and reached from wherever the call has come to without being handed down. Stages follow each other
//! without a gap: what they took adds up to what the call took. Outside a call nothing is kept.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use tollhouse_base::clock::Clock;

use super::{
    context::{self, Context, span_id},
    counted,
    span::{Passed, Traced},
    stage::Stage,
    tracer,
};

tokio::task_local! {
    static COURSE: Course;
    /// The span of the call that was begun for the request being answered.
    static ANSWERED: Cell<Option<Context>>;
}

/// A call that is to be followed.
#[derive(Debug)]
pub struct Followed(Course);

#[derive(Debug)]
struct Course {
    begun: Instant,
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
    /// Of the call itself where that is recorded, else of its caller.
    context: Context,
    recorded: Option<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    parent: Option<[u8; 8]>,
    state: Option<String>,
    begun: u64,
    /// Of the stage that it is at.
    span: [u8; 8],
    passed: Vec<Passed>,
    told: Vec<(&'static str, String)>,
}

/// Follows a call from now on, whose caller sent these headers of W3C's Trace Context: in its caller's trace, or in one that begins here.
#[must_use]
pub fn follow(parent: Option<&str>, state: Option<&str>) -> Followed {
    let now = Instant::now();
    let trace = traced(parent, state);
    if let Some(Trace { context, recorded: Some(_) }) = trace.as_deref() {
        _ = ANSWERED.try_with(|answered| answered.set(Some(*context)));
    }
    let state = RefCell::new(State { stage: Stage::Admit, since: now, spent: [None; Stage::ALL.len()], trace });
    Followed(Course { begun: now, state })
}

fn traced(parent: Option<&str>, state: Option<&str>) -> Option<Box<Trace>> {
    let given = parent.and_then(Context::read);
    let Some(context) = tracer::decide(given) else {
        return given.map(|context| Box::new(Trace { context, recorded: None }));
    };
    let recorded = Recorded {
        parent: given.map(|given| given.span),
        state: state.filter(|_| given.is_some()).and_then(context::state).map(str::to_owned),
        begun: Clock::default().now().0.saturating_mul(1_000_000),
        span: span_id(),
        passed: vec![],
        told: vec![],
    };
    Some(Box::new(Trace { context, recorded: Some(recorded) }))
}

impl Followed {
    /// Performs the call. `outcome` says how it ended: `ok`, or a code.
    pub async fn during<T>(self, work: impl Future<Output = T>, outcome: impl FnOnce(&T) -> &'static str) -> T {
        let followed = async {
            let ended = work.await;
            COURSE.with(|course| course.end(outcome(&ended)));
            ended
        };
        COURSE.scope(self.0, followed).await
    }
}

/// The call is at `stage` from now on.
pub fn enter(stage: Stage) {
    _ = COURSE.try_with(|course| course.state.borrow_mut().enter(stage, course.begun, Instant::now()));
}

/// Says something of the call in its span, where it has one: an id of the host's own, or the name of what is in its catalogue.
pub fn note(name: &'static str, value: impl FnOnce() -> String) {
    _ = COURSE.try_with(|course| {
        if let Some(Recorded { told, .. }) = course.state.borrow_mut().recorded() {
            told.push((name, value()));
        }
    });
}

/// What is sent with a request to others that is made for the call: `traceparent`, then `tracestate`. `None` where nothing is traced.
#[must_use]
pub fn onward() -> Option<(String, Option<String>)> {
    if !tracer::is_on() {
        return None;
    }
    let header = |course: &Course| {
        let state = course.state.borrow();
        let trace = state.trace.as_deref()?;
        Some(match &trace.recorded {
            Some(recorded) => (Context { span: recorded.span, ..trace.context }.header(), recorded.state.clone()),
            None => (trace.context.header(), None),
        })
    };
    COURSE.try_with(header).ok().flatten()
}

/// The ids of the trace and of the span that what is done now belongs to.
pub(super) fn current() -> Option<(String, String)> {
    let ids = |course: &Course| {
        let state = course.state.try_borrow().ok()?;
        let trace = state.trace.as_deref()?;
        let span = trace.recorded.as_ref().map_or(trace.context.span, |recorded| recorded.span);
        Some((hex::encode(trace.context.trace), hex::encode(span)))
    };
    COURSE.try_with(ids).ok().flatten()
}

/// Answers a request. Beside the answer: what a header `traceresponse` says of the call that was traced for it.
pub async fn answering<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let answered = async {
        let answer = work.await;
        (answer, ANSWERED.with(Cell::take).map(Context::header))
    };
    ANSWERED.scope(Cell::new(None), answered).await
}

impl Course {
    fn end(&self, outcome: &'static str) {
        let now = Instant::now();
        let took = now - self.begun;
        let mut state = self.state.borrow_mut();
        let stage = state.stage;
        state.enter(stage, self.begun, now);
        counted::CALLS.count(outcome);
        counted::ended(took, &state.spent);
        let Some(Trace { context, recorded: Some(recorded) }) = state.trace.take().map(|trace| *trace) else { return };
        let Recorded { parent, state, begun, passed, told, .. } = recorded;
        tracer::hand_over(Traced { context, parent, state, begun, took, stages: passed, outcome, told });
    }
}

impl State {
    fn enter(&mut self, stage: Stage, begun: Instant, now: Instant) {
        let (before, since) = (std::mem::replace(&mut self.stage, stage), std::mem::replace(&mut self.since, now));
        *self.spent[before as usize].get_or_insert_default() += now - since;
        if let Some(recorded) = self.recorded() {
            let passed = Passed { stage: before, span: recorded.span, from: since - begun, to: now - begun };
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
    async fn stages_add_up_to_what_a_call_took() {
        let work = async {
            for stage in [Stage::Queue, Stage::Run, Stage::Commit, Stage::Settle, Stage::Commit] {
                tokio::task::yield_now().await;
                enter(stage);
            }
            COURSE.with(|course| {
                let mut state = course.state.borrow_mut();
                let now = Instant::now();
                state.enter(Stage::Commit, course.begun, now);
                let spent: Duration = state.spent.iter().flatten().sum();
                assert_eq!(spent, now - course.begun);
                let never = [Stage::Check, Stage::Join].map(|stage| state.spent[stage as usize]);
                assert_eq!(never, [None, None]);
            });
        };
        follow(None, None).during(work, |()| "ok").await;
    }

    #[tokio::test]
    async fn outside_a_call_nothing_is_kept() {
        enter(Stage::Run);
        note("a", || unreachable!("nobody is told"));
        assert_eq!((onward(), current()), (None, None));
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let ids = follow(Some(given), None).during(async { current() }, |_| "ok").await;
        let (trace, span) = ids.unwrap();
        assert_eq!((&*trace, &*span), (&given[3..35], &given[36..52]), "a log tells it though nothing is recorded");
    }
}
