//! Actions that must be impossible for a handler.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollhouse_protocol::{JailLayer, Limits, Outcome, StopReason};

use crate::harness::Worker;

/// Limits with little processor time, to keep tests short.
fn short() -> Limits {
    Limits { cpu_ms: 200, wall_ms: 10_000, ..Limits::default() }
}

fn stopped_within(body: &str, limits: Limits, max: Duration) -> StopReason {
    let mut worker = Worker::handler_limited(body, limits);
    let started = Instant::now();
    let reason = worker.stopped(&Value::Null);
    assert!(started.elapsed() < max, "took {:?}: {body}", started.elapsed());
    reason
}

#[test]
fn endless_loops_use_up_their_processor_time() {
    let cpu = StopReason::CpuTime { limit_ms: 200 };
    for body in [
        "for (;;) {}",
        "for (;;) { try { for (;;) {} } catch {} finally { continue; } }",
        "await null; for (;;) {}",
        "const spin = () => void Promise.resolve().then(spin); spin(); await new Promise(() => {});",
        "Promise.resolve().then(() => { for (;;) {} }); return 1;",
        "const again = () => queueMicrotask(again); again(); await new Promise(() => {});",
        "return { toJSON() { for (;;) {} } };",
        "return { get a() { for (;;) {} } };",
        "throw { get message() { for (;;) {} } };",
        "throw new Proxy({}, { get() { for (;;) {} } });",
        "/(a+)+b/.exec('a'.repeat(40) + 'c'); for (;;) {}",
        "ctx.log.info('x', { toJSON() { for (;;) {} } });",
        "return Promise.resolve({ then() { for (;;) {} } });",
    ] {
        assert_eq!(stopped_within(body, short(), Duration::from_secs(12)), cpu, "{body}");
    }
}

#[test]
fn loops_inside_one_native_function_end_the_process() {
    for body in [
        "return Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);",
        "return Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1);",
    ] {
        assert_eq!(stopped_within(body, short(), Duration::from_secs(12)), StopReason::CpuTime { limit_ms: 200 }, "{body}");
    }
}

#[test]
fn a_handler_that_waits_uses_wall_time_only() {
    let limits = Limits { cpu_ms: 100, wall_ms: 400, ..Limits::default() };
    let body = "for (;;) await new Promise((resolve) => setTimeout(resolve, 50));";
    assert_eq!(stopped_within(body, limits, Duration::from_secs(2)), StopReason::WallTime { limit_ms: 400 });
}

#[test]
fn heap_bombs_are_stopped() {
    let limits = Limits { cpu_ms: 5_000, ..Limits::default() };
    let memory = StopReason::Memory { limit_bytes: limits.heap_bytes };
    for body in [
        "const all = []; for (;;) all.push({ a: 1, b: [1, 2, 3] });",
        "const all = []; for (;;) { try { all.push(new Array(1000).fill({})); } catch {} }",
        "const all = new Map(); for (let i = 0;; i++) all.set('key' + i, 'value' + i);",
        "const all = []; for (let i = 0;; i++) all.push(JSON.stringify('y'.repeat(1 << 18) + i));",
    ] {
        let reason = stopped_within(body, limits, Duration::from_secs(15));
        assert_eq!(reason, memory, "{body}");
    }
}

#[test]
fn buffer_bombs_are_stopped() {
    let limits = Limits { cpu_ms: 5_000, ..Limits::default() };
    let memory = StopReason::Memory { limit_bytes: limits.buffer_bytes };
    for body in [
        "const all = []; for (;;) all.push(new ArrayBuffer(1 << 20));",
        "const all = []; for (;;) { try { all.push(new Uint8Array(1 << 20).fill(1)); } catch {} }",
    ] {
        let reason = stopped_within(body, limits, Duration::from_secs(10));
        // QuickJS allocates some buffers on its heap, where they count too.
        let heap = StopReason::Memory { limit_bytes: limits.heap_bytes };
        assert!(reason == memory || cfg!(feature = "quickjs") && reason == heap, "{reason:?}: {body}");
    }
}

#[test]
fn buffer_above_the_limit_cannot_be_allocated() {
    match Worker::handler("return new Uint8Array(1 << 30).length;").call(&Value::Null).outcome {
        Outcome::Stopped(StopReason::Memory { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn buffers_within_the_limit_can_be_allocated_repeatedly() {
    let mut worker = Worker::handler("let n = 0; for (let i = 0; i < 300; i++) n += new Uint8Array(1 << 20).length; return n;");
    assert_eq!(worker.json(&Value::Null), json!(300 << 20));
}

#[test]
fn deep_recursion_is_an_error_not_a_crash() {
    let mut worker = Worker::handler("const f = (n) => f(n + 1) + 1; try { return f(0); } catch (error) { return error.name; }");
    let name = worker.json(&Value::Null);
    assert!(name == "RangeError" || name == "InternalError", "{name}");
    assert!(Worker::handler("const f = () => f(); f();").thrown(&Value::Null).contains("call stack"));
    let mut worker = Worker::handler("let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a;");
    let outcome = worker.call(&Value::Null).outcome;
    assert!(matches!(outcome, Outcome::Threw(_) | Outcome::Stopped(StopReason::OutputDepth { .. })), "{outcome:?}");
}

#[test]
fn hostile_errors_become_text() {
    for (body, requested) in [
        ("throw new Proxy(function () {}, { get() { throw 1; } });", "a value that has no text"),
        ("throw new Proxy({}, { get() { throw new Proxy({}, { get() { throw 1; } }); } });", "a value that has no text"),
        ("return Promise.reject(new Proxy({}, { get() { throw 1; } }));", "a value that has no text"),
        (
            "const p = new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; }, ownKeys() { throw 3; } }); throw p;",
            "a value that has no text",
        ),
        ("throw { get message() { throw 1; }, get name() { throw 2; }, toString() { throw 3; } };", "a value that has no text"),
        ("const e = new Error('m'); Object.defineProperty(e, 'stack', { get() { throw 1; } }); throw e;", "Error: m"),
        ("const e = new Error('m'); Object.defineProperty(e, 'name', { get() { throw 1; } }); throw e;", "m"),
        ("const e = new Error(); e.message = { toString() { throw 1; } }; throw e;", "Error"),
        ("Error.prepareStackTrace = () => { throw 1; }; throw new Error('m');", "Error: m"),
        ("Error.stackTraceLimit = { valueOf() { throw 1; } }; throw new Error('m');", "Error: m"),
        ("const e = new Error('m'); e.cause = e; throw e;", "Error: m"),
        ("throw Object.create(null);", "{}"),
        ("throw { toJSON() { throw 1; } };", "a value that has no text"),
        ("const a = {}; a.a = a; throw a;", "a value that has no text"),
        ("throw null;", "null"),
        ("throw 1n;", "1"),
    ] {
        let mut worker = Worker::handler(body);
        assert_eq!(worker.thrown(&Value::Null), requested, "{body}");
        assert_eq!(worker.thrown(&Value::Null), requested, "the worker lives on after {body}");
    }
}

#[test]
fn unhandled_rejections_are_ignored() {
    let mut worker = Worker::handler(
        "Promise.reject(new Proxy(function () {}, { get() { throw 1; } }));
         (async () => { throw new Error('nobody waits'); })();
         await ctx.kv.get('a');
         return 'ok';",
    );
    assert_eq!(worker.json(&Value::Null), json!("ok"));
    assert_eq!(worker.json(&Value::Null), json!("ok"));
}

#[test]
fn modified_prototypes_do_not_affect_the_runtime() {
    for bend in [
        "Array.prototype.push = Array.prototype.map = Array.prototype.join = () => { throw 1; };",
        "Array.prototype[Symbol.iterator] = () => { throw 1; };",
        "Object.defineProperty(Array.prototype, 0, { set() { throw 1; }, get() { throw 2; }, configurable: true });",
        "Object.prototype.toJSON = Array.prototype.toJSON = () => 'bent';",
        "JSON.stringify = () => 'bent'; JSON.parse = () => 'bent';",
        "Promise = class {}; Promise.prototype.then = () => { throw 1; };",
        "const P = Promise; P.prototype.then = () => { throw 1; }; P.resolve = P.reject = () => { throw 2; };",
        "Object.defineProperty(Promise.prototype, 'constructor', { get() { throw 1; } });",
        "Map.prototype.get = Map.prototype.set = Map.prototype.delete = () => { throw 1; }; Set.prototype.has = () => { throw 1; };",
        "Function.prototype.call = Function.prototype.apply = () => { throw 1; };",
        "String.prototype.startsWith = String.prototype.includes = () => { throw 1; };",
        "for (const key of ['value', 'get', 'set', 'then', 'resolve', 'ttlMs', 'limit']) Object.defineProperty(Object.prototype, key, { set() {}, get() { return undefined; }, configurable: true });",
        "Symbol.prototype[Symbol.toPrimitive] = () => { throw 1; };",
        "globalThis.Error = class {}; globalThis.TypeError = undefined; globalThis.Uint8Array = null;",
        "for (const key of Reflect.ownKeys(globalThis)) if (key !== 'Promise' && key !== 'globalThis') delete globalThis[key];",
    ] {
        let body =
            format!("{bend}\nctx.log.info('line', {{ a: 1 }}); await ctx.kv.set('k', 1); await ctx.files.write('f', 'x'); return 7;");
        let mut worker = Worker::handler(&body);
        let outcome = worker.call(&Value::Null).outcome;
        match outcome {
            Outcome::Returned(_) => {
                assert_eq!(worker.kv.get("k").map(Vec::as_slice), Some(b"1".as_slice()), "{bend}");
                assert_eq!(worker.logs.len(), 1, "{bend}");
            }
            // The handler's own `await` can use what it replaced. The worker must not.
            Outcome::Threw(_) => {}
            // QuickJS loses an `await` if the promise's constructor is missing.
            Outcome::Stopped(StopReason::Deadlock) if cfg!(feature = "quickjs") && bend.contains("constructor") => continue,
            other @ (Outcome::Stopped(_) | Outcome::Invalid(..)) => panic!("{other:?} after {bend}"),
        }
        let again = worker.call(&Value::Null).outcome;
        assert!(!matches!(again, Outcome::Stopped(_)), "{again:?} after {bend}");
    }
}

#[test]
fn to_json_does_not_affect_the_json_of_the_runtime() {
    let mut worker = Worker::handler(
        "Object.prototype.toJSON = Array.prototype.toJSON = String.prototype.toJSON = () => 'bent';
         await ctx.kv.atomic().check('a', null).add('n', 1).commit();
         return 1;",
    );
    worker.json(&Value::Null);
    let tollhouse_protocol::OpRequest::KvAtomic { checks, writes } = &worker.ops[0] else { panic!("{:?}", worker.ops) };
    assert_eq!((checks.len(), writes.len()), (1, 1));
}

#[test]
fn code_from_strings_is_refused() {
    for body in [
        "return eval('1');",
        "return (0, globalThis.eval)('1');",
        "return Function('return 1')();",
        "return new Function('return 1')();",
        "return (function () {}).constructor('return 1')();",
        "return (async function () {}).constructor('return 1')();",
        "return (function* () {}).constructor('return 1')();",
        "return (async function* () {}).constructor('return 1')();",
        "return Reflect.construct((() => {}).constructor, ['return 1'])();",
        "return ctx.kv.get.constructor('return 1')();",
        "return ctx.constructor.constructor('return 1')();",
        "return console.log.constructor('return 1')();",
        "return Object.getPrototypeOf(Object.getPrototypeOf(async function () {})).constructor('return 1')();",
        "return setTimeout('1', 1);",
        "return Reflect.getOwnPropertyDescriptor(Function.prototype, 'constructor').value('return 1')();",
    ] {
        let mut worker = Worker::handler(body);
        match worker.call(&Value::Null).outcome {
            // `setTimeout` accepts only functions.
            Outcome::Threw(thrown) => {
                let refused =
                    thrown.message.starts_with("EvalError: code from strings is not available: use a package that does not need it");
                assert!(refused || body.contains("setTimeout"), "{body} threw {}", thrown.message);
            }
            other => panic!("{body} gave {other:?}"),
        }
    }
}

/// The pattern of `get-intrinsic`, and so of `qs`, while they load.
#[test]
fn packages_that_refer_to_eval_load() {
    let mut worker = Worker::with(
        "const INTRINSICS = { '%eval%': eval, '%Function%': Function };
         const { name, length } = INTRINSICS['%eval%'];
         let refused; try { INTRINSICS['%Function%']('\"use strict\"; return this')(); } catch (error) { refused = error instanceof EvalError; }
         export default () => [typeof eval, name, length, refused, typeof globalThis.eval, (0, eval) === globalThis.eval, 'eval' in globalThis];",
    );
    assert_eq!(worker.json(&Value::Null), json!(["function", "eval", 1, true, "function", true, true]));
}

#[test]
fn modules_cannot_be_imported() {
    for body in ["return import('ext:core/ops');", "return import('node:fs');", "return import('data:text/javascript,export default 1');"] {
        let mut worker = Worker::handler(body);
        match worker.call(&Value::Null).outcome {
            Outcome::Threw(thrown) => assert!(thrown.message.contains("import"), "{}", thrown.message),
            other => panic!("{body} gave {other:?}"),
        }
        assert!(!matches!(worker.call(&Value::Null).outcome, Outcome::Stopped(_)));
    }
    let mut worker = Worker::handler("return Object.keys(import.meta);");
    assert_eq!(worker.json(&Value::Null), json!([]));
}

#[test]
fn globals_match_the_list() {
    let mut worker = Worker::handler("return Reflect.ownKeys(globalThis).map(String).sort();");
    let seen = worker.json(&Value::Null);
    let seen: Vec<&str> = seen.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for name in &seen {
        assert!(!name.starts_with("Symbol(") && !name.starts_with("__"), "{name} in {seen:?}");
    }
    for name in [
        "Deno",
        "__bootstrap",
        "__tollhouse",
        "gc",
        "ShadowRealm",
        "WebAssembly",
        "SharedArrayBuffer",
        "Atomics",
        "Temporal",
        "process",
        "require",
    ] {
        assert!(!seen.contains(&name), "{name} is in {seen:?}");
    }
    for name in
        ["console", "eval", "setTimeout", "fetch", "Request", "Response", "Headers", "Promise", "JSON", "Date", "globalThis", "undefined"]
    {
        assert!(seen.contains(&name), "{name} is not in {seen:?}");
    }
}

#[test]
fn no_path_leads_to_the_runtime() {
    let mut worker = Worker::handler(
        "const seen = new Set(); const found = [];
         const walk = (value, path) => {
           if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
           seen.add(value);
           for (const key of Reflect.ownKeys(value)) {
             const text = String(key);
             if (/^(op_|core$|ops$|Deno$|primordials$|__v8x)/.test(text)) found.push(path + '.' + text);
             let held; try { held = Reflect.getOwnPropertyDescriptor(value, key); } catch { continue; }
             if (!held) continue;
             walk(held.value, path + '.' + text); walk(held.get, path + '.' + text + '.get'); walk(held.set, path + '.' + text + '.set');
           }
           walk(Reflect.getPrototypeOf(value), path + '.__proto__');
         };
         walk(globalThis, 'globalThis'); walk(ctx, 'ctx'); walk(req, 'req');
         walk(await ctx.kv.list(), 'list'); try { await ctx.httpGetJson('http://10.0.0.1'); } catch (error) { walk(error, 'error'); }
         walk(await fetch('https://a.example/'), 'response'); walk(new Request('https://a.example/'), 'request');
         try { await fetch('http://10.0.0.1/'); } catch (error) { walk(error, 'failure'); }
         return { found, size: seen.size };",
    );
    let walked = worker.json(&Value::Null);
    assert_eq!(walked["found"], json!([]));
    assert!(walked["size"].as_u64().unwrap() > 300, "{walked}");
}

#[test]
fn call_sites_are_not_exposed() {
    let mut worker = Worker::handler(
        "let seen = null;
         Error.prepareStackTrace = (error, sites) => { seen = sites; return 'x'; };
         new Error('a').stack;
         const holder = {}; Error.captureStackTrace?.(holder); void holder.stack;
         return seen === null;",
    );
    assert_eq!(worker.json(&Value::Null), json!(true));
}

#[test]
fn call_sites_call_no_method_of_the_handler() {
    let mut worker = Worker::handler(
        "const met = [];
         const note = function () { met.push(typeof this?.getFunction); return 'x'; };
         for (const key of [Symbol.toPrimitive, 'toString', 'valueOf']) {
           Object.defineProperty(Object.prototype, key, { get() { note.call(this); return note; }, configurable: true });
         }
         const stack = (function deep() { return new Error('a').stack; })();
         return { leaked: met.includes('function'), named: stack.includes('deep') };",
    );
    assert_eq!(worker.json(&Value::Null), json!({"leaked": false, "named": true}));
}

#[test]
fn ctx_is_immutable() {
    let mut worker = Worker::handler(
        "const before = ctx.kv.get;
         for (const change of [() => { ctx.kv = {}; }, () => { ctx.kv.get = () => 'bent'; }, () => { delete ctx.kv.set; }, () => { ctx.log.info = null; }, () => { Object.getPrototypeOf(ctx.kv.atomic()).commit = null; }]) {
           try { change(); } catch {}
         }
         return ctx.kv.get === before && typeof ctx.kv.set === 'function' && typeof ctx.log.info === 'function' && typeof ctx.kv.atomic().commit === 'function';",
    );
    assert_eq!(worker.json(&Value::Null), json!(true));
    assert_eq!(worker.json(&Value::Null), json!(true));
}

#[test]
fn unsendable_stop_is_reported_by_the_exit_status() {
    let limits = Limits { wall_ms: 300, cpu_ms: 60_000, ..Limits::default() };
    let mut worker = Worker::handler_limited("const text = 'x'.repeat(1 << 20); for (;;) await ctx.files.write('f', text);", limits);
    worker.begin(&Value::Null);
    // Nobody reads: the socket fills up in the middle of a frame.
    let status = worker.wait_for_exit().code().unwrap();
    assert_eq!(StopReason::of_exit_status(status, &limits), Some(StopReason::WallTime { limit_ms: 300 }), "{status}");
}

#[test]
fn op_floods_are_stopped() {
    let limits = Limits::default();
    let reason = stopped_within("for (;;) ctx.kv.get('a').catch(() => {});", limits, Duration::from_secs(5));
    assert_eq!(reason, StopReason::Ops { what: "requests".into(), limit: 1_000 });
    let reason = stopped_within("for (let i = 0;; i++) { await ctx.kv.get('a'); }", limits, Duration::from_secs(5));
    assert_eq!(reason, StopReason::Ops { what: "requests".into(), limit: 1_000 });
    let reason = stopped_within("for (let i = 0; i < 20; i++) await ctx.httpGetJson('https://x.example');", limits, Duration::from_secs(5));
    assert_eq!(reason, StopReason::Ops { what: "requests to other servers".into(), limit: 10 });
    let reason = stopped_within("for (let i = 0; i < 101; i++) setTimeout(() => {}, 1000); await null;", limits, Duration::from_secs(5));
    assert_eq!(reason, StopReason::Ops { what: "timers at once".into(), limit: 100 });
}

#[test]
fn large_and_deep_results_are_refused() {
    let limits = Limits::default();
    let size = StopReason::OutputSize { limit_bytes: 256 << 10 };
    assert_eq!(stopped_within("return 'x'.repeat(300 * 1024);", limits, Duration::from_secs(3)), size);
    assert_eq!(stopped_within("return new Response(new Uint8Array(300 * 1024));", limits, Duration::from_secs(3)), size);
    let depth = StopReason::OutputDepth { limit: 64 };
    assert_eq!(stopped_within("let a = 1; for (let i = 0; i < 65; i++) a = [a]; return a;", limits, Duration::from_secs(3)), depth);
    assert_eq!(
        stopped_within("let a = 1; for (let i = 0; i < 65; i++) a = { a }; return Response.json(a);", limits, Duration::from_secs(3)),
        depth
    );
    let mut fits = Worker::handler("let a = '[[[[' ; for (let i = 0; i < 64; i++) a = [a]; return a;");
    fits.json(&Value::Null);
}

#[test]
fn only_the_first_answer_of_a_handler_counts() {
    let mut worker = Worker::handler(
        "let n = 0; return { then(resolve, reject) { resolve('first'); resolve('second'); reject(new Error('third')); } };",
    );
    assert_eq!(worker.json(&Value::Null), json!("first"));
    assert_eq!(worker.json(&Value::Null), json!("first"));
}

#[test]
fn a_stop_cannot_be_caught() {
    let body = "const spin = () => { try { for (;;) {} } catch { return 'caught'; } finally { return 'finally'; } }; return spin();";
    assert_eq!(stopped_within(body, short(), Duration::from_secs(12)), StopReason::CpuTime { limit_ms: 200 });
    let body = "return ctx.kv.get('a').then(() => { for (;;) {} }).catch(() => 'caught').finally(() => 'finally');";
    assert_eq!(stopped_within(body, short(), Duration::from_secs(12)), StopReason::CpuTime { limit_ms: 200 });
}

#[test]
fn the_worker_is_jailed_before_it_is_ready() {
    use tollhouse_protocol::JailLayer::{Capabilities, Descriptors, NoNewPrivs, NotDumpable, OomScore, ParentDeathSignal, Rlimits};
    let worker = Worker::start();
    for layer in [Descriptors, ParentDeathSignal, Rlimits, NoNewPrivs, NotDumpable, OomScore, Capabilities] {
        assert!(worker.jail.in_force.contains(&layer), "{layer:?} is not in {:?}", worker.jail);
    }
    let reported = worker.jail.in_force.iter().chain(worker.jail.refused.iter().map(|refused| &refused.layer));
    let reported = reported.filter(|layer| **layer != JailLayer::NoExec).count();
    let own = JailLayer::ALL.len() - JailLayer::OF_GROUPS.len();
    assert_eq!(reported, own - 1, "each is in force or refused, but for one of another tier: {:?}", worker.jail);
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
    assert!(status.lines().any(|line| line == "NoNewPrivs:\t1"), "{status}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(status.lines().any(|line| line == format!("{set}:\t0000000000000000")), "{set} of {status}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", worker.pid())).unwrap();
    for row in ["Max core file size", "Max file size"] {
        let line = limits.lines().find(|line| line.starts_with(row)).unwrap();
        assert_eq!(line[row.len()..].split_whitespace().next(), Some("0"), "{line}");
    }
    // The process is not dumpable, so only root can look.
    if let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", worker.pid())) {
        let open: Vec<_> = open.map(|entry| entry.unwrap().file_name()).collect();
        assert!(open.len() <= 4, "{open:?}");
    }
    let first = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", worker.pid())).unwrap();
    assert_eq!(first.trim(), "1000");
}

#[test]
fn a_broken_protocol_ends_the_worker() {
    let mut worker = Worker::start();
    worker.begin(&Value::Null);
    assert!(worker.receive().is_none());
    assert!(!worker.wait_for_exit().success());
}
