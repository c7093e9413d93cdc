//! Measures how fast a warm worker answers. Run manually: `cargo test --release -p tollhouse-worker
//! -- --ignored --nocapture speed`.

use std::time::Instant;

use serde_json::json;

use crate::harness::Worker;

#[test]
#[ignore = "measures, and claims little"]
fn warm_calls_are_quick() {
    let mut worker = Worker::handler("return req.body;");
    let input = json!({"text": "hello", "numbers": [1, 2, 3], "nested": {"a": true}});
    for _ in 0..20_000 {
        worker.json(&input);
    }
    let (rounds, started) = (50_000u32, Instant::now());
    let mut cpu_us = 0;
    for _ in 0..rounds {
        cpu_us += worker.call(&input).spent.cpu_us;
    }
    let each = started.elapsed() / rounds;
    eprintln!("round trip {each:?}, of it {:.1} us of the worker's processor time", cpu_us as f64 / f64::from(rounds));
    assert!(each.as_micros() < 1_000, "{each:?}");
}

#[test]
#[ignore = "measures, and claims little"]
fn workers_are_ready_soon() {
    let started = Instant::now();
    for _ in 0..20 {
        drop(Worker::start());
    }
    let each = started.elapsed() / 20;
    eprintln!("ready after {each:?}");
    assert!(each.as_millis() < 500, "{each:?}");
}
