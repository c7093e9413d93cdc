//! `WebAssembly` in the tier `wasm` on V8, and the limits of its memory, code and time.
//!
//! The modules are assembled by hand: sections in hex, after the magic number.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollhouse_protocol::{JailLayer, Language, Limits, Outcome, StopReason, Tier};

use crate::harness::Worker;

const MIB: u64 = 1 << 20;

/// The modules by name, and `bytes`, which turns hex into a module.
const MODULES: &str = r#"
const bytes = (hex) => Uint8Array.from(("0061736d01000000" + hex).match(/../g), (byte) => parseInt(byte, 16));
const ONE = "010401600000" + "03020100", EXPORT = "07050101660000";
const ADD = "0107016002" + "7f7f017f" + "03020100" + "0707010361646400" + "00" + "0a09010700200020016a0b";
const SPIN = ONE + EXPORT + "0a0901070003400c000b0b";
const TRAP = ONE + "080100" + "0a05010300000b";
const RECURSE = ONE + EXPORT + "0a0601040010000b";
const THROW = ONE + "0d03010000" + EXPORT + "0a0601040008000b";
const SHARED = "050401030101" + "070501016d0200";
const GROW = "01060160017f017f" + "03020100" + "0503010000" + "070902016d020001660000" + "0a08010600200040000b";
const run = (hex) => new WebAssembly.Instance(new WebAssembly.Module(bytes(hex))).exports;
"#;

/// Starts a worker with `WebAssembly` whose handler has this body.
fn handler(body: &str, limits: Limits) -> Worker {
    let mut worker = Worker::of_tier(Tier::Wasm);
    worker.limits = limits;
    let source = format!("{MODULES}\nexport default async function (req, ctx) {{\n{body}\n}}");
    worker.load(&source, Language::Js).unwrap();
    worker
}

fn json_of(body: &str) -> Value {
    handler(body, ample()).json(&Value::Null)
}

fn ample() -> Limits {
    Limits { cpu_ms: 20_000, wall_ms: 60_000, ..Limits::default() }
}

fn short() -> Limits {
    Limits { cpu_ms: 200, wall_ms: 10_000, ..Limits::default() }
}

#[test]
fn modules_are_compiled_and_run_at_load_and_in_calls() {
    let mut worker = Worker::of_tier(Tier::Wasm);
    let source = format!("{MODULES} const {{ add }} = run(ADD); export default (req) => add(req.input, 1);");
    worker.load(&source, Language::Js).unwrap();
    for number in [1, 41, -1] {
        assert_eq!(worker.json(&json!(number)), json!(number + 1));
    }
    let body = "
        const { module, instance } = await WebAssembly.instantiate(bytes(ADD), {});
        const again = await WebAssembly.instantiate(module);
        const compiled = await WebAssembly.compile(bytes(ADD));
        const names = WebAssembly.Module.exports(compiled).map(({ name, kind }) => name + ':' + kind);
        return [instance.exports.add(2, 3), again.exports.add(4, 5), names, WebAssembly.validate(bytes(ADD)), WebAssembly.validate(bytes('00'))];";
    assert_eq!(json_of(body), json!([5, 9, ["add:function"], true, false]));
}

/// The optimizing compiler adds code on the thread of the handler, too.
#[test]
fn frequently_used_functions_are_optimized() {
    let body = "const { add } = run(ADD); let sum = 0; for (let i = 0; i < 30_000_000; i++) sum = add(sum, i); return sum;";
    assert_eq!(json_of(body), json!(-918_471_104));
}

#[test]
fn what_needs_threads_or_a_network_is_absent() {
    let body = "
        const absent = ['compileStreaming', 'instantiateStreaming', 'promising', 'Suspending', 'SuspendError'];
        const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
        const refused = [memory, run(SHARED).m].map((shared) => { try { return shared.buffer; } catch (error) { return error.message; } });
        return [absent.filter((name) => name in WebAssembly), refused, typeof SharedArrayBuffer, typeof Atomics];";
    let refusal = "a shared memory is not available: a handler has one thread";
    assert_eq!(json_of(body), json!([[], [refusal, refusal], "undefined", "undefined"]));
    let own = "const m = new WebAssembly.Memory({ initial: 1 }); return [m.buffer.byteLength, m.grow(1), m.buffer.byteLength];";
    assert_eq!(json_of(own), json!([65_536, 1, 131_072]));
}

#[test]
fn traps_exceptions_and_deep_recursion_are_errors_of_the_handler() {
    let body = "
        const caught = [];
        for (const [hex, name] of [[TRAP], [RECURSE, 'f'], [THROW, 'f'], ['0a']]) {
          try { run(hex)[name](); } catch (error) { caught.push(error.constructor.name); }
        }
        return caught;";
    assert_eq!(json_of(body), json!(["RuntimeError", "RangeError", "Exception", "CompileError"]));
    let message = handler("return run(TRAP);", ample()).thrown(&Value::Null);
    assert!(message.contains("RuntimeError: unreachable"), "{message}");
}

#[test]
fn endless_webassembly_uses_up_its_processor_time() {
    for body in [
        "run(SPIN).f();",
        "for (;;) { try { run(SPIN).f(); } catch {} }",
        "for (;;) { try { run(RECURSE).f(); } catch {} }",
        "for (;;) WebAssembly.validate(bytes(ADD));",
        "const { f } = run(GROW); for (;;) f(0);",
        "for (let i = 0;; i++) await WebAssembly.compile(bytes(ADD + '000401' + '61' + (i % 65_536).toString(16).padStart(4, '0')));",
    ] {
        let started = Instant::now();
        let reason = handler(body, short()).stopped(&Value::Null);
        assert_eq!(reason, StopReason::CpuTime { limit_ms: 200 }, "{body}");
        assert!(started.elapsed() < Duration::from_secs(12), "took {:?}: {body}", started.elapsed());
    }
}

#[test]
fn a_top_level_with_endless_webassembly_is_stopped() {
    let mut worker = Worker::of_tier(Tier::Wasm);
    worker.limits.load_wall_ms = 10_000;
    let source = format!("{MODULES} run(SPIN).f(); export default () => 1;");
    let source = tollhouse_protocol::Source { text: source.into_bytes().into(), language: Language::Js };
    let fault = worker.load_bundle(Some(source)).unwrap_err();
    let limit_ms = Limits::default().load_cpu_ms;
    assert_eq!(fault, tollhouse_protocol::LoadFault::Stopped(StopReason::CpuTime { limit_ms }));
}

#[test]
fn memories_tables_and_modules_have_a_maximum() {
    let body = "
        const refused = (make) => { try { make(); return ''; } catch (error) { return error.constructor.name; } };
        const { f, m } = run(GROW);
        return [
          refused(() => new WebAssembly.Memory({ initial: 2_049 })),
          refused(() => new WebAssembly.Memory({ initial: 1, maximum: 30_000 }).grow(2_048)),
          refused(() => new WebAssembly.Table({ initial: 1_000_001, element: 'anyfunc' })),
          refused(() => new WebAssembly.Module(new Uint8Array((4 << 20) + 1))),
          f(1), f(100), f(2_000), m.buffer.byteLength,
        ];";
    assert_eq!(json_of(body), json!(["RangeError", "RangeError", "RangeError", "CompileError", 0, 1, -1, 101 * 65_536]));
}

#[test]
fn no_webassembly_exceeds_the_memory_of_the_process() {
    for body in [
        "const all = []; for (;;) { const m = new WebAssembly.Memory({ initial: 64 }); new Uint8Array(m.buffer).fill(7); all.push(m); }",
        "const all = []; for (;;) { const { f, m } = run(GROW); while (f(16) >= 0) new Uint8Array(m.buffer).fill(7); all.push(m); }",
        "const all = []; for (;;) all.push(new WebAssembly.Memory({ initial: 0, maximum: 2_048 }));",
        "const all = []; for (;;) all.push(new WebAssembly.Table({ initial: 1_000_000, element: 'anyfunc' }));",
        "const all = []; for (;;) all.push(new WebAssembly.Table({ initial: 100_000, element: 'externref' }));",
        "const all = []; for (;;) all.push(run(ADD));",
        "const all = []; for (let i = 0;; i++) all.push(run(ADD + '000601' + '61' + i.toString(16).padStart(8, '0')));",
    ] {
        // Small, so that it fills up soon.
        let limits = Limits { rss_bytes: 96 * MIB, ..ample() };
        let mut worker = handler(body, limits);
        match worker.call(&Value::Null).outcome {
            Outcome::Stopped(StopReason::Memory { .. } | StopReason::CpuTime { .. }) | Outcome::Threw(_) => {}
            other => panic!("{other:?}: {body}"),
        }
        let peak = worker.peak_bytes();
        assert!(peak <= limits.rss_bytes + 16 * MIB, "{} MiB: {body}", peak >> 20);
    }
}

#[test]
fn handlers_that_bend_prototypes_keep_shared_memory_refused() {
    let body = "
        const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
        Reflect.apply = () => 1; Reflect.getOwnPropertyDescriptor = () => undefined;
        Object.defineProperty(ArrayBuffer.prototype, 'byteLength', { get: () => 1 });
        try { return typeof memory.buffer; } catch (error) { return error.message; }";
    assert_eq!(json_of(body), json!("a shared memory is not available: a handler has one thread"));
}

#[test]
fn the_jail_of_the_tier_has_the_layers_of_jit() {
    let [jit, wasm] = [Tier::Jit, Tier::Wasm].map(|tier| Worker::of_tier(tier).jail.in_force.clone());
    assert_eq!(jit, wasm);
    assert!(!wasm.contains(&JailLayer::NoExec));
}
