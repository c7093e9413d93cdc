//! The export `scheduled`.

use serde_json::{Value, json};
use tollhouse_protocol::{Language, Outcome, ReplyBody, ToolReply, Work};

use crate::harness::Worker;

fn loaded(source: &str) -> (Worker, bool) {
    let mut worker = Worker::start();
    let scheduled = worker.load(source, Language::Js).unwrap().checked.scheduled;
    worker.work = Work::Scheduled;
    (worker, scheduled)
}

#[test]
fn function_named_scheduled_is_found() {
    for (source, is_found) in [
        ("export default () => 1; export function scheduled() {}", true),
        ("export default () => 1; export const scheduled = async () => {};", true),
        ("export default () => 1; export const scheduled = 1;", false),
        ("export default () => 1; function scheduled() {}", false),
    ] {
        assert_eq!(loaded(source).1, is_found, "{source}");
    }
}

#[test]
fn event_and_ctx_are_passed_and_the_result_is_ignored() {
    let (mut worker, _) = loaded(
        "export default () => { throw new Error('not called'); };
         export async function scheduled(event, ctx) {
           await ctx.kv.set('ran', [event.cron, new Date(event.scheduledTime).toISOString(), Object.keys(event)]);
           return () => 'no JSON';
         }",
    );
    let event = json!({ "cron": "*/5 * * * *", "scheduledTime": 1_760_000_100_000_u64 });
    assert_eq!(worker.json(&event), Value::Null);
    let ran: Value = serde_json::from_slice(&worker.kv["ran"]).unwrap();
    assert_eq!(ran, json!(["*/5 * * * *", "2025-10-09T08:55:00.000Z", ["cron", "scheduledTime"]]));
}

#[test]
fn error_is_reported_and_later_work_belongs_to_the_run() {
    let event = json!({ "cron": "* * * * *", "scheduledTime": 0 });
    let (mut worker, _) = loaded("export default () => 1; export function scheduled() { throw new Error('boom'); }");
    assert_eq!(worker.thrown(&event), "Error: boom");
    let (mut worker, _) = loaded(
        "export default () => 1;
         export function scheduled(event, ctx) { ctx.waitUntil(Promise.resolve().then(() => ctx.kv.set('later', 1))); }",
    );
    assert_eq!(worker.json(&event), Value::Null);
    assert!(worker.answers.is_empty() && worker.kv.contains_key("later"), "nobody waits for an answer");
    worker.work = Work::Handle;
    let Outcome::Returned(ToolReply { body: ReplyBody::Json(json), .. }) = worker.call(&Value::Null).outcome else { panic!() };
    assert_eq!(json, "1");
}
