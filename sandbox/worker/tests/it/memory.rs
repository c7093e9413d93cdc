//! Memory limits of a handler, for each way to allocate memory.

use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, Outcome, StopReason};

use crate::harness::Worker;

const MIB: u64 = 1 << 20;

/// Returns why a handler with this body was stopped.
fn stopped(body: &str, limits: Limits) -> StopReason {
    Worker::handler_limited(body, limits).stopped(&Value::Null)
}

fn ample() -> Limits {
    Limits { cpu_ms: 20_000, wall_ms: 60_000, ..Limits::default() }
}

#[test]
fn lowered_heap_limit_is_enforced() {
    let limits = Limits { heap_bytes: 8 * MIB, ..ample() };
    let holds = |mib: u64| {
        format!("const all = []; for (let i = 0; i < {}; i++) all.push(new Array(1000).fill(1.5)); return all.length;", mib * 128)
    };
    assert_eq!(stopped(&holds(32), limits), StopReason::Memory { limit_bytes: 8 * MIB });
    assert_eq!(
        stopped("const all = []; for (;;) all.push(new Array(1000).fill(1.5));", limits),
        StopReason::Memory { limit_bytes: 8 * MIB }
    );
    assert_eq!(Worker::handler_limited(&holds(2), limits).json(&Value::Null), json!(256));
    // Numbers take twice as much memory on QuickJS.
    if cfg!(feature = "v8") {
        assert_eq!(Worker::handler_limited(&holds(40), ample()).json(&Value::Null), json!(5_120));
        let limits = Limits { heap_bytes: 128 * MIB, ..ample() };
        assert_eq!(Worker::handler_limited(&holds(80), limits).json(&Value::Null), json!(10_240));
    }
}

#[test]
fn encoded_texts_and_files_count_as_buffers() {
    let reads = "for (let i = 0;; i++) all.push(await ctx.files.read('f'));";
    for body in [
        "const text = 'x'.repeat(1 << 20); for (;;) all.push(new TextEncoder().encode(text));",
        "for (;;) all.push(await new Response('x'.repeat(1 << 20)).bytes());",
        "const jwk = { kty: 'oct', k: 'A'.repeat(1 << 20) }; for (;;) all.push(await crypto.subtle.importKey('jwk', jwk, { name: 'HMAC', hash: 'SHA-1' }, true, ['sign']));",
        reads,
    ] {
        let mut worker = Worker::handler_limited(&format!("const all = []; {body}"), ample());
        worker.files.insert("f".into(), vec![1; 1 << 20]);
        match worker.call(&Value::Null).outcome {
            Outcome::Stopped(StopReason::Memory { limit_bytes }) => {
                assert!(cfg!(feature = "quickjs") || limit_bytes == 32 * MIB, "{limit_bytes}: {body}")
            }
            other => panic!("{other:?}: {body}"),
        }
    }
}

#[test]
fn encoded_texts_are_released() {
    let mut worker = Worker::handler_limited(
        "const text = 'x'.repeat(1 << 20); let n = 0; for (let i = 0; i < 200; i++) n += new TextEncoder().encode(text).length;
         return [n, new TextEncoder().encode('').length, await new Response('').text()];",
        ample(),
    );
    assert_eq!(worker.json(&Value::Null), json!([200 * MIB, 0, ""]));
}

#[test]
fn windows_of_brotli_decoders_count_as_buffers() {
    // The beginning of a stream with a window of 16 MiB, and a block of as many bytes, of which one is there.
    let opens = |count: usize| {
        format!(
            "const all = [];
             for (let i = 0; i < {count}; i++) {{
               const stream = new DecompressionStream('brotli'), writer = stream.writable.getWriter(), reader = stream.readable.getReader();
               all.push(stream, writer, reader); reader.read().catch(() => {{}});
               await writer.write(new Uint8Array([0xcf, 0xff, 0xff, 0xff, 0x61]));
             }}
             return all.length;"
        )
    };
    let limits = Limits { buffer_bytes: 40 * MIB, ..ample() };
    assert_eq!(stopped(&opens(32), limits), StopReason::Memory { limit_bytes: 40 * MIB });
    let mut worker = Worker::handler_limited(&opens(2), limits);
    for _ in 0..3 {
        assert_eq!(worker.json(&Value::Null), json!(6), "those of an ended call are released");
    }
}

/// Returns why a handler with this body was stopped, and the peak memory of its process in bytes.
fn stopped_at(body: &str, limits: Limits) -> (Option<StopReason>, u64) {
    let mut worker = Worker::handler_limited(body, limits);
    worker.files.insert("f".into(), vec![1; 1 << 20]);
    let reason = match worker.call(&Value::Null).outcome {
        Outcome::Stopped(reason) => Some(reason),
        // A failed allocation can be an error that a handler can catch.
        Outcome::Threw(_) => None,
        other => panic!("{other:?}: {body}"),
    };
    (reason, worker.peak_bytes())
}

#[test]
fn no_way_to_allocate_exceeds_the_memory_of_the_process() {
    for body in [
        "const all = []; for (;;) { const b = new ArrayBuffer(1 << 20, { maxByteLength: 2 << 20 }); new Uint8Array(b).fill(7); all.push(b); }",
        "const all = []; for (;;) { const b = new ArrayBuffer(0, { maxByteLength: 1 << 28 }); for (let n = 1 << 20; n <= 1 << 28; n += 1 << 20) { b.resize(n); new Uint8Array(b).fill(7); } all.push(b); }",
        "const all = []; for (let i = 0;; i++) { const f = new Intl.NumberFormat('de', { style: 'currency', currency: 'EUR', minimumFractionDigits: i % 4 }); f.format(i); all.push(f); }",
        "const all = []; for (let i = 0;; i++) { const f = new Intl.DateTimeFormat(['ar', 'ja', 'hi'][i % 3], { dateStyle: 'full' }); f.format(0); all.push(f); }",
        "const all = []; for (let i = 0;; i++) { const r = new RegExp('(' + '(a|b|c|' + i + ')?'.repeat(150) + ')+$'); try { r.exec('abc' + i); } catch {} all.push(r); }",
        "const text = 'x'.repeat(1 << 20); for (;;) ctx.files.write('f', text).catch(() => {});",
        "const all = []; for (;;) all.push(structuredClone(new Uint8Array(1 << 20)));",
        "const all = []; for (;;) all.push(await ctx.files.read('f'));",
        "const all = []; for (;;) all.push(new TextDecoder('utf-16le').decode(new Uint8Array(1 << 20)));",
        "const all = []; for (let i = 0;; i++) all.push(new URL('https://a.example/' + 'x'.repeat(1 << 16) + i));",
        "const all = []; for (let i = 0;; i++) all.push(Symbol.for('y'.repeat(1 << 16) + i));",
        "return 'x'.repeat((1 << 29) - 24).split('').length;",
    ] {
        // Small, so that it fills up soon.
        let limits = Limits { ops: 10_000, rss_bytes: 96 * MIB, ..ample() };
        let (reason, peak) = stopped_at(body, limits);
        // Waiting requests have a limit of their own.
        assert!(matches!(reason, Some(StopReason::Memory { .. } | StopReason::Ops { .. }) | None), "{reason:?}: {body}");
        assert!(peak <= limits.rss_bytes + 16 * MIB, "{} MiB: {body}", peak >> 20);
    }
}

#[test]
fn idle_worker_collects_its_garbage() {
    let mut worker = Worker::with(
        "let held; export default () => { const before = held?.deref(); held = new WeakRef({}); return before === undefined; };",
    );
    worker.json(&Value::Null);
    let is_collected = |_| {
        std::thread::sleep(Duration::from_millis(1_500));
        worker.json(&Value::Null) == json!(true)
    };
    assert!((0..20).any(is_collected));
}

/// Regression: QuickJS freed memory of the worker's allocator with its own one.
#[test]
fn bytes_of_an_op_can_be_transferred_and_resized() {
    let mut worker = Worker::handler(
        "const text = 'x'.repeat(100_000), kept = [];
         for (let i = 0; i < 50; i++) {
           const { buffer } = new TextEncoder().encode(text), moved = buffer.transfer(), longer = moved.transfer(200_000);
           kept.push(new TextDecoder().decode(new Uint8Array(longer, 0, 100_000)) === text && buffer.detached && moved.detached);
         }
         return kept.every(Boolean);",
    );
    assert_eq!(worker.json(&Value::Null), json!(true));
}
