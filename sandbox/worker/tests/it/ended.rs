//! The `ctx` of an ended call does not affect other calls.

use serde_json::{Value, json};
use tollhouse_protocol::{OpRequest, OpValue, Outcome, ReplyBody, StopReason, ToHost, ToWorker, ToolReply};

use crate::harness::Worker;

/// Keeps the `ctx` of its first call, and tries each of its members in the second.
const KEEPS: &str = "
let kept;
export default async (req, ctx) => {
  if (kept === undefined) {
    kept = { ...ctx.kv, ctx, env: ctx.env, atomic: ctx.kv.atomic(), log: ctx.log.info };
    return 'kept';
  }
  const results = {};
  const { ctx: old, env, atomic, get } = kept;
  for (const [name, use] of Object.entries({
    'kv.get': () => old.kv.get('a'), 'kv.set': () => old.kv.set('a', 1), 'kv.delete': () => old.kv.delete('a'), 'kv.list': () => old.kv.list(),
    'kv.atomic': () => old.kv.atomic(), 'an atomic of before': () => atomic.set('a', 1), 'its commit': () => atomic.commit(),
    'its check': () => atomic.check('a', 1), 'its delete': () => atomic.delete('a'), 'its add': () => atomic.add('a', 1), 'its sum': () => atomic.sum('a', 1),
    'a function of before': () => get('a'), 'files.read': () => old.files.read('a'), 'files.readText': () => old.files.readText('a'),
    'files.readJson': () => old.files.readJson('a'), 'files.write': () => old.files.write('a', 'b'), 'files.delete': () => old.files.delete('a'),
    'files.list': () => old.files.list(), 'httpGetJson': () => old.httpGetJson('https://example.com/'), 'charge': () => old.charge('0.09'),
    'progress': () => old.progress('half', 0.5), 'waitUntil': () => old.waitUntil(null), 'log': () => old.log('a'), 'log.error': () => old.log.error('a'), 'its log': () => kept.log('a'),
    'log.debug': () => old.log.debug('a'), 'log.info': () => old.log.info('a'), 'log.warn': () => old.log.warn('a'),
    'env': () => old.env, 'env before': () => env.KEY,
  })) {
    try { await use(); results[name] = 'done'; } catch (error) { results[name] = `${error.name} ${error.code}: ${/has ended/.test(error.message)}`; }
  }
  ctx.log.info('of this call');
  return results;
};";

#[test]
fn every_member_of_the_ctx_of_an_ended_call_rejects() {
    let mut worker = Worker::with(KEEPS);
    worker.env = vec![("KEY".into(), "s3cret".into())];
    assert_eq!(worker.json(&Value::Null), json!("kept"));
    let body = worker.json(&Value::Null);
    let body = body.as_object().unwrap();
    assert_eq!(body.len(), 30);
    assert!(body.values().all(|message| message == "ToolError call_ended: true"), "{body:?}");
    assert_eq!((worker.ops.len(), worker.messages.len()), (0, 0));
    assert_eq!(worker.logs.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["of this call"]);
}

/// Regression: work that one caller left behind was charged to the next.
const LEAVES: &str = "
const waiting = [];
export default async (req, ctx) => {
  if (req.body === 'leave') {
    (async () => {
      await new Promise((resolve) => waiting.push(resolve));
      for (const say of [() => ctx.charge('0.09'), () => ctx.log('left behind'), () => ctx.progress('left behind')]) {
        try { await say(); } catch (error) { waiting.push(error.code); }
      }
    })();
    await ctx.charge('0.01');
    return 1;
  }
  waiting.shift()();
  for (let i = 0; i < 20; i++) await null;
  return waiting.splice(0);
};";

#[test]
fn leftover_work_is_not_charged_to_another_call() {
    let mut worker = Worker::with(LEAVES);
    worker.json(&json!("leave"));
    assert_eq!(worker.ops, [OpRequest::Charge { call: "call_1".into(), usd: "0.01".into() }]);
    assert_eq!(worker.json(&json!("take")), json!(["call_ended", "call_ended", "call_ended"]));
    assert_eq!((worker.ops.len(), worker.messages.len(), worker.logs.len()), (0, 0, 0));
}

#[test]
fn leftover_work_is_not_charged_to_a_call_sent_ahead() {
    let mut worker = Worker::with(&LEAVES.replace("await ctx.charge('0.01');", ""));
    worker.begin(&json!("leave"));
    worker.begin(&json!("take"));
    let mut answers = vec![];
    while answers.len() < 2 {
        match worker.receive() {
            Some(ToHost::Done { outcome: Outcome::Returned(ToolReply { body: ReplyBody::Json(json), .. }), .. }) => {
                answers.push(serde_json::from_slice::<Value>(&json).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answers, [json!(1), json!(["call_ended", "call_ended", "call_ended"])]);
}

/// Callers that share a promise: the first abandons it before its op is answered.
const SHARES: &str = "
let inflight;
const load = async (ctx) => { const rate = await ctx.kv.get('rate'); await ctx.charge('0.09'); return rate; };
export default async (req, ctx) => {
  inflight ??= load(ctx).finally(() => { inflight = undefined; });
  if (req.body === 'give up') {
    inflight.catch(() => {});
    return 'gave up';
  }
  try { return await inflight; } catch (error) { return error.code ?? String(error); }
};";

#[test]
fn promise_shared_with_an_ended_call_rejects_and_the_next_call_creates_its_own() {
    let mut worker = Worker::with(SHARES);
    worker.kv.insert("rate".into(), b"7".to_vec());
    assert_eq!(worker.json(&json!("give up")), json!("gave up"));
    assert_eq!(worker.json(&Value::Null), json!("call_ended"), "it would wait forever");
    assert_eq!(worker.ops.len(), 0);
    assert_eq!(worker.json(&Value::Null), json!(7));
    assert_eq!(worker.ops.last(), Some(&OpRequest::Charge { call: "call_1".into(), usd: "0.09".into() }), "its own call pays");
}

#[test]
fn an_op_of_an_ended_call_wakes_nobody_while_another_can_continue() {
    let mut worker = Worker::with(
        "const woken = [];
         export default async (req, ctx) => {
           if (req.body === 'leave') { ctx.kv.get('a').then(() => woken.push('answered'), () => woken.push('rejected')); return 1; }
           await ctx.kv.get('b'); await new Promise((done) => setTimeout(done, 1));
           return woken;
         };",
    );
    worker.json(&json!("leave"));
    assert_eq!(worker.json(&Value::Null), json!([]));
}

#[test]
fn call_that_nothing_can_wake_is_a_deadlock() {
    let mut worker = Worker::with(
        "export default async (req, ctx) => {
           if (req.body === 'leave') { for (let i = 0; i < 500; i++) ctx.kv.get('a'); setTimeout(() => {}, 1e6); return 1; }
           await new Promise(() => {});
         };",
    );
    worker.json(&json!("leave"));
    assert_eq!(worker.stopped(&Value::Null), StopReason::Deadlock);
}

#[test]
fn late_answer_reaches_no_other_call() {
    let mut worker = Worker::with(
        "let left;
         export default async (req, ctx) => {
           if (req.body === 'leave') { left = ctx.kv.get('a').then((value) => ['answered', value], (error) => [error.code]); await ctx.kv.get('b'); return 1; }
           return left;
         };",
    );
    worker.begin(&json!("leave"));
    let (Some(ToHost::Op { op: first, .. }), Some(ToHost::Op { op: second, .. })) = (worker.receive(), worker.receive()) else { panic!() };
    assert!(matches!(worker.receive(), Some(ToHost::Waiting)));
    worker.send(&ToWorker::Reply { op: second, result: Ok(OpValue::None) });
    assert!(matches!(worker.receive(), Some(ToHost::Done { .. })));
    worker.begin(&Value::Null);
    worker.send(&ToWorker::Reply { op: first, result: Ok(OpValue::Json("1".into())) });
    let Some(ToHost::Done { outcome: Outcome::Returned(reply), .. }) = worker.receive() else { panic!("an answer") };
    assert_eq!(reply.body, ReplyBody::Json(r#"["call_ended"]"#.into()));
}
