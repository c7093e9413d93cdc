//! Requests that wait in the worker: their order, and the limit on their size.

use serde_json::{Value, json};
use tollhouse_protocol::StopReason;

use crate::harness::Worker;

#[test]
fn requests_beyond_the_bytes_of_a_call_wait() {
    let mut worker = Worker::handler(
        "const value = 'v'.repeat(1 << 20);
         return (await Promise.all([...Array(20).keys()].map((i) => ctx.kv.set('k' + i, value)))).length;",
    );
    worker.limits.ops_in_flight = 32;
    assert_eq!(worker.json(&Value::Null), json!(20));
    assert_eq!((worker.max_in_flight, worker.kv.len()), (7, 20));
}

#[test]
fn waiting_requests_are_limited_to_the_bytes_of_buffers() {
    let mut worker = Worker::handler(
        "const value = 'v'.repeat(1 << 20);
         await Promise.all([...Array(req.input).keys()].map((i) => ctx.kv.set('k' + i, value)));
         return 1;",
    );
    let limit = worker.limits.buffer_bytes;
    assert_eq!(worker.json(&json!(31)), json!(1));
    assert_eq!(worker.stopped(&json!(40)), StopReason::Ops { what: "bytes of waiting requests".into(), limit });
}
