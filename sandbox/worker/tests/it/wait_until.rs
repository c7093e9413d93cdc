//! `ctx.waitUntil`: work after the answer.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, OpRequest, OpValue, Outcome, ReplyBody, StopReason, ToHost, ToWorker, ToolReply};

use crate::harness::Worker;

/// Returns the result that a call sent before its end.
fn answer(worker: &Worker) -> Value {
    match worker.answers.as_slice() {
        [Outcome::Returned(ToolReply { body: ReplyBody::Json(json), .. })] => serde_json::from_slice(json).unwrap(),
        other => panic!("the answers are {other:?}; logs {:?}", worker.logs),
    }
}

fn logged(worker: &Worker) -> Vec<&str> {
    worker.logs.iter().map(|line| line.message.as_str()).collect()
}

#[test]
fn work_goes_on_after_the_answer_and_its_log_belongs_to_the_call() {
    let mut worker = Worker::handler(
        "ctx.waitUntil((async () => {
           await new Promise((done) => setTimeout(done, 10));
           await ctx.kv.set('counted', 1);
           ctx.log.info('later');
         })());
         return { now: true };",
    );
    assert_eq!(worker.json(&Value::Null), Value::Null);
    assert_eq!(answer(&worker), json!({ "now": true }));
    assert!(worker.kv.contains_key("counted"));
    assert_eq!(logged(&worker), ["later"]);
    worker.json(&Value::Null);
    assert_eq!(answer(&worker), json!({ "now": true }), "the worker serves another call");
}

#[test]
fn call_without_pending_work_is_answered_at_its_end() {
    for body in ["return 1;", "await ctx.waitUntil(1); await null; await null; return 1;", "ctx.waitUntil; return 1;"] {
        let mut worker = Worker::handler(body);
        assert_eq!(worker.json(&Value::Null), json!(1), "{body}");
        assert!(worker.answers.is_empty(), "{body}");
    }
}

#[test]
fn work_can_add_more_work_and_a_rejection_is_logged() {
    let mut worker = Worker::handler(
        "ctx.waitUntil((async () => {
           await ctx.kv.get('a');
           ctx.waitUntil(ctx.kv.set('more', 1));
           throw new Error('boom');
         })());
         return 1;",
    );
    worker.json(&Value::Null);
    assert!(worker.kv.contains_key("more"));
    let logs = logged(&worker);
    assert!(logs.len() == 1 && logs[0].starts_with("the promise of ctx.waitUntil was rejected: Error: boom"), "{logs:?}");
}

#[test]
fn handler_that_throws_keeps_its_work() {
    let mut worker = Worker::handler("ctx.waitUntil(ctx.kv.get('a').then(() => ctx.kv.set('reported', 1))); throw new Error('boom');");
    worker.json(&Value::Null);
    assert!(matches!(&worker.answers[..], [Outcome::Threw(thrown)] if thrown.message == "Error: boom"), "{:?}", worker.answers);
    assert!(worker.kv.contains_key("reported"));
}

#[test]
fn charge_after_the_answer_rejects_and_progress_is_dropped() {
    let mut worker = Worker::handler(
        "ctx.waitUntil((async () => {
           await ctx.kv.get('a');
           ctx.progress('too late');
           await ctx.charge('0.01').catch((error) => ctx.log.info(`${error.name} ${error.code}`));
         })());
         return 1;",
    );
    worker.json(&Value::Null);
    assert_eq!(logged(&worker), ["ToolError call_ended"]);
    assert!(worker.messages.is_empty());
    assert!(worker.ops.iter().all(|op| !matches!(op, OpRequest::Charge { .. })), "{:?}", worker.ops);
}

#[test]
fn charge_that_the_handler_does_not_wait_for_is_set_before_the_answer() {
    let mut worker =
        Worker::handler("ctx.charge('0.01'); ctx.waitUntil(ctx.kv.get('a').then(() => ctx.kv.set('b', 1))); return { now: true };");
    worker.begin(&Value::Null);
    let (mut pending, mut is_charged) = (VecDeque::new(), false);
    loop {
        match worker.receive().unwrap() {
            ToHost::Op { op, request } => pending.push_back((op, matches!(request, OpRequest::Charge { .. }))),
            ToHost::Waiting => {
                let (op, charges) = pending.pop_front().unwrap();
                is_charged |= charges;
                worker.send(&ToWorker::Reply { op, result: Ok(OpValue::None) });
            }
            ToHost::Answered { .. } => break,
            other => panic!("before the answer, the worker sent {other:?}"),
        }
    }
    assert!(is_charged, "the host makes the charge final with the answer");
}

#[test]
fn promise_that_nothing_resolves_ends_the_call_with_a_line() {
    let mut worker = Worker::handler("ctx.waitUntil(new Promise(() => {})); return 1;");
    worker.json(&Value::Null);
    assert_eq!(answer(&worker), json!(1));
    assert!(logged(&worker)[0].contains("nothing can resolve"), "{:?}", worker.logs);
    worker.json(&Value::Null);
    assert_eq!(answer(&worker), json!(1));
}

#[test]
fn limits_of_the_call_hold_for_its_work() {
    let limits = Limits { cpu_ms: 200, ops: 20, ..Limits::default() };
    let later = |work: &str| format!("ctx.waitUntil((async () => {{ await ctx.kv.get('a'); {work} }})()); return 1;");
    let forever = "for (;;) await new Promise((done) => setTimeout(done, 50));";
    for (work, limit) in [
        ("for (;;) {}", StopReason::CpuTime { limit_ms: 200 }),
        (forever, StopReason::WallTime { limit_ms: 400 }),
        ("for (;;) await ctx.kv.get('a');", StopReason::Ops { what: "requests".into(), limit: 20 }),
    ] {
        let limits = if work == forever { Limits { wall_ms: 400, ops: 1_000, ..limits } } else { limits };
        let mut worker = Worker::handler_limited(&later(work), limits);
        assert_eq!(worker.stopped(&Value::Null), limit, "{work}");
        assert_eq!(answer(&worker), json!(1), "{work}");
    }
}

#[test]
fn work_of_an_ended_call_cannot_hold_the_next_one() {
    let mut worker = Worker::with(
        "let kept, release;
         export default async (req, ctx) => {
           if (req.body === 'keep') {
             kept = ctx;
             ctx.waitUntil(new Promise((done) => { release = done; }));
             return 1;
           }
           const refused = [];
           try { kept.waitUntil(ctx.kv.get('a')); } catch (error) { refused.push(error.code); }
           release();
           ctx.waitUntil(ctx.kv.set('b', 1));
           return refused;
         };",
    );
    worker.json(&json!("keep"));
    assert_eq!(worker.json(&Value::Null), Value::Null);
    assert_eq!(answer(&worker), json!(["call_ended"]));
    assert!(worker.kv.contains_key("b"), "the work of this call is awaited");
}

/// Regression: the handler could set its charge in the step of the event loop after its answer.
#[test]
fn nothing_is_charged_after_the_answer() {
    let mut worker = Worker::handler(
        "let settle;
         ctx.waitUntil(new Promise((done) => { settle = done; }));
         const late = () => ctx.charge('0.09').then(() => ctx.log.info('charged'), (error) => ctx.log.info(error.code)).then(settle);
         return { toJSON() { Promise.resolve().then(late); return 1; } };",
    );
    assert_eq!(worker.json(&Value::Null), json!(1));
    assert_eq!(logged(&worker), ["call_ended"]);
    assert!(!worker.ops.iter().any(|op| matches!(op, OpRequest::Charge { .. })), "{:?}", worker.ops);
}
