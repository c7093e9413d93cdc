//! Events compared with the DOM standard.

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, StopReason};

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

#[test]
fn events_can_be_initialized_again_and_canceled_in_old_ways() {
    assert_eq!(
        value(
            "const e = new Event('a', { cancelable: true }), seen = [], target = new EventTarget();
             target.addEventListener('b', (event) => {
               event.initEvent('c', true, true); event.returnValue = true; seen.push(event.type, event.bubbles, event.returnValue, event.eventPhase, event.srcElement === target, event.composedPath().length);
               event.returnValue = false; seen.push(event.returnValue, event.defaultPrevented, event.cancelBubble); event.cancelBubble = false; event.cancelBubble = true; seen.push(event.cancelBubble);
             });
             e.initEvent('b', false, true); const kept = target.dispatchEvent(e);
             const custom = new CustomEvent('x', { detail: 1 }); custom.initCustomEvent('y', true, false, 2);
             const { get, configurable, enumerable } = Object.getOwnPropertyDescriptor(e, 'isTrusted');
             return [seen, kept, e.cancelBubble, e.eventPhase, e.composedPath(), [custom.type, custom.bubbles, custom.detail], [configurable, enumerable, get === Object.getOwnPropertyDescriptor(custom, 'isTrusted').get, e.isTrusted],
               'isTrusted' in Event.prototype, [Event.NONE, Event.prototype.BUBBLING_PHASE]];"
        ),
        json!([
            ["b", false, true, 2, true, 1, false, true, false, true], false, false, 0, [], ["y", true, 2], [false, true, true, false], false, [0, 3]
        ])
    );
}

#[test]
fn options_of_listeners_follow_the_standard() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const target = new EventTarget(), seen = [], note = (name) => () => seen.push(name), fire = () => target.dispatchEvent(new Event('x', { cancelable: true }));
             const controller = new AbortController();
             target.addEventListener('x', note('bubble')); target.addEventListener('x', note('capture'), true);
             target.addEventListener('x', (e) => { e.preventDefault(); seen.push(e.defaultPrevented); }, { passive: true });
             target.addEventListener('x', note('signal'), { signal: controller.signal }); target.addEventListener('x', note('once'), { once: true });
             target.addEventListener('x', { handleEvent() { seen.push('object'); target.addEventListener('x', note('late')); } });
             const first = fire(); controller.abort(); target.addEventListener('x', note('never'), { signal: controller.signal }); seen.push('|'); fire();
             const stopped = []; const other = new EventTarget(); other.addEventListener('y', (e) => { e.stopPropagation(); stopped.push(1); }, { capture: true });
             other.addEventListener('y', () => stopped.push(2), { capture: true }); other.addEventListener('y', () => stopped.push(3)); other.dispatchEvent(new Event('y'));
             return [first, seen, stopped, t(() => target.addEventListener('x', null, { signal: null })), t(() => target.addEventListener('x', () => {}, { signal: {} })), t(() => target.addEventListener('x', 1)),
               t(() => target.addEventListener('x', null)), t(() => target.addEventListener('x')), t(() => target.removeEventListener('x', null)), t(() => target.dispatchEvent({})),
               t(() => { const e = new Event('z'); let again; other.addEventListener('z', () => { again = t(() => other.dispatchEvent(e)); }); other.dispatchEvent(e); return again; })];"
        ),
        json!([
            true,
            ["capture", "bubble", false, "signal", "once", "object", "|", "capture", "bubble", false, "object", "late"],
            [1, 2],
            "TypeError", "TypeError", "TypeError", null, "TypeError", null, "TypeError", "InvalidStateError"
        ])
    );
}

#[test]
fn signals_abort_their_combinations_before_any_listener_runs() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const a = new AbortController(), b = new AbortController(), seen = [];
             const any = AbortSignal.any([a.signal, b.signal, a.signal]), nested = AbortSignal.any([any]);
             nested.addEventListener('abort', () => seen.push('nested')); any.onabort = () => seen.push('any'); any.onabort = (e) => seen.push(['any again', e.isTrusted]);
             a.signal.addEventListener('abort', () => seen.push(['a', any.aborted, nested.reason])); a.abort('why'); b.abort('late'); any.onabort = 1;
             return [seen, any.reason, b.signal.reason, any.onabort, AbortSignal.any([]).aborted, AbortSignal.any([AbortSignal.abort(1), AbortSignal.abort(2)]).reason,
               t(() => AbortSignal.any([{}])), t(() => AbortSignal.any()), t(() => AbortSignal.timeout(-1)), t(() => AbortSignal.timeout(NaN)), t(() => new AbortSignal()), t(() => AbortSignal.timeout(2 ** 40).aborted)];"
        ),
        json!([
            [["a", true, "why"], ["any again", true], "nested"], "why", "late", null, false, 1, "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", false
        ])
    );
}

#[test]
fn exceptions_without_a_catch_reach_listeners_of_the_global_object_then_the_log() {
    let mut worker = Worker::handler(
        "const seen = []; let cancels = true;
         const listener = (event) => { seen.push([event instanceof ErrorEvent, event.message, event.error?.message, event.isTrusted, event.target === globalThis]); if (cancels) event.preventDefault(); };
         addEventListener('error', listener);
         setTimeout(() => { throw new Error('in a timer'); }, 1); await new Promise((done) => setTimeout(done, 5));
         queueMicrotask(() => { throw new TypeError('in a microtask'); }); await null; await null;
         const target = new EventTarget(); target.addEventListener('x', () => { throw 'text'; }); target.dispatchEvent(new Event('x'));
         cancels = false; reportError(new Error('logged'));
         globalThis.removeEventListener('error', listener); self.addEventListener('error', () => { throw new Error('in the listener'); }, { once: true }); reportError(new Error('twice'));
         let bare = 0; addEventListener('y', () => bare++); dispatchEvent(new Event('y')); EventTarget.prototype.dispatchEvent.call(undefined, new Event('y'));
         return [seen, bare, globalThis instanceof EventTarget, (() => { try { structuredClone(globalThis); } catch (e) { return e.name; } })()];",
    );
    assert_eq!(
        worker.json(&Value::Null),
        json!([
            [
                [true, "Error: in a timer", "in a timer", true, true],
                [true, "TypeError: in a microtask", "in a microtask", true, true],
                [true, "text", null, true, true],
                [true, "Error: logged", "logged", true, true]
            ],
            2,
            true,
            "DataCloneError"
        ])
    );
    let lines: Vec<_> = worker.logs.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, part) in lines.iter().zip(["logged", "in the listener", "twice"]) {
        assert!(line.starts_with("uncaught: ") && line.contains(part), "{lines:?}");
    }
}

#[test]
fn modified_prototypes_do_not_affect_events() {
    assert_eq!(
        value(
            "const seen = []; const target = new EventTarget(), controller = new AbortController();
             const bent = [];
             for (const holder of [Array.prototype, Map.prototype, WeakMap.prototype, Event.prototype, EventTarget.prototype, AbortSignal.prototype, Function.prototype]) {
               for (const key of Reflect.ownKeys(holder)) {
                 if (typeof Object.getOwnPropertyDescriptor(holder, key).value === 'function' && !['addEventListener', 'dispatchEvent', 'constructor', Symbol.hasInstance].includes(key)) bent.push([holder, key]);
               }
             }
             const names = ['capture', 'once', 'passive', 'signal', 'cancelable', 'value', 'get', 'set', 'removed', 'type'], define = Object.defineProperty, count = bent.length;
             for (let i = 0; i < count; i++) { const holder = bent[i][0], key = bent[i][1]; define(holder, key, { __proto__: null, value: () => { throw 1; } }); }
             for (let i = 0; i < 10; i++) define(Object.prototype, names[i], { __proto__: null, get() { throw names[i]; }, set() { throw names[i]; }, configurable: true });
             target.addEventListener('x', () => { seen[seen.length] = 'x'; }); target.dispatchEvent(new Event('x')); controller.signal.addEventListener('abort', () => { seen[seen.length] = 'abort'; }); controller.abort();
             return seen;"
        ),
        json!(["x", "abort"])
    );
}

#[test]
fn messages_are_copied_and_ports_move() {
    assert_eq!(
        value(
            "const { port1, port2 } = new MessageChannel(), seen = [];
             const next = (port) => new Promise((resolve) => { port.onmessage = resolve; });
             const sent = { n: [1] };
             port1.postMessage(sent);
             sent.n[0] = 2;
             const first = await next(port2);
             const inner = new MessageChannel();
             inner.port1.postMessage('waits');
             port2.postMessage('with a port', [inner.port2]);
             const second = await next(port1);
             const moved = await next(second.ports[0]);
             const thrown = (run) => { try { run(); return 'none'; } catch (error) { return error.name; } };
             port1.close();
             port1.postMessage('nobody');
             return [first.data, first.isTrusted, first instanceof MessageEvent, second.data, moved.data, thrown(() => port2.postMessage(() => {})), thrown(() => port2.postMessage(1, [port2])),
               thrown(() => structuredClone(port1)), thrown(() => structuredClone(inner.port2, { transfer: [inner.port2] })), thrown(() => new MessagePort()),
               await new PromiseRejectionEvent('unhandledrejection', { promise: Promise.resolve(3), reason: 4 }).promise];"
        ),
        json!([{ "n": [1] }, true, true, "with a port", "waits", "DataCloneError", "DataCloneError", "DataCloneError", "DataCloneError", "TypeError", 3])
    );
}

#[test]
fn messages_without_end_use_up_their_processor_time() {
    let limits = Limits { cpu_ms: 200, ..Limits::default() };
    let body = "const { port1, port2 } = new MessageChannel(); port1.onmessage = () => port1.postMessage(1); port2.onmessage = () => port2.postMessage(1); port1.postMessage(1); await new Promise(() => {});";
    assert!(matches!(Worker::handler_limited(body, limits).stopped(&Value::Null), StopReason::CpuTime { .. }));
}

#[test]
fn rejections_without_a_handler_have_events() {
    let mut worker = Worker::with(
        "const seen = []; let late;
         class Mine extends Promise {}
         addEventListener('unhandledrejection', (event) => {
           seen.push([event.type, event.reason, event.promise instanceof Mine, event.isTrusted, event.cancelable, event instanceof PromiseRejectionEvent]);
           if (event.reason === 'late') late = event.promise;
         });
         globalThis.onrejectionhandled = (event) => seen.push([event.type, event.reason, event.promise === late, event.cancelable]);
         export default async (req, ctx) => {
           if (req.input === 'next') return seen.length;
           Promise.reject('first'); Mine.reject('mine');
           Promise.reject('caught').catch(() => {});
           try { await (async () => { throw 1; })(); } catch {}
           const rejected = Promise.reject('handled soon'); await null; rejected.catch(() => {});
           await ctx.kv.get('a');
           Promise.reject('late'); await ctx.kv.get('a'); late.catch(() => {}); await ctx.kv.get('a');
           Promise.resolve = Map.prototype.set = Map.prototype.delete = Map.prototype.forEach = WeakMap.prototype.has = WeakMap.prototype.set = () => { throw 1; };
           Promise.reject('bent'); await ctx.kv.get('a');
           globalThis.onrejectionhandled = null;
           Promise.reject('after the answer');
           return [...seen];
         };",
    );
    let unhandled = |reason: &str, is_mine: bool| json!(["unhandledrejection", reason, is_mine, true, true, true]);
    let seen = worker.json(&Value::Null);
    assert_eq!(
        seen,
        json!([
            unhandled("first", false),
            unhandled("mine", true),
            unhandled("late", false),
            ["rejectionhandled", "late", true, false],
            unhandled("bent", false)
        ])
    );
    assert_eq!(worker.json(&json!("next")), 6, "the rejection at the end has an event too");
    assert!(worker.logs.is_empty());
}

#[test]
fn rejections_and_listeners_without_end_are_bounded() {
    let limits = Limits { cpu_ms: 200, ..Limits::default() };
    let rejecting = "addEventListener('unhandledrejection', () => Promise.reject(1)); Promise.reject(1); await new Promise(() => {});";
    assert!(matches!(Worker::handler_limited(rejecting, limits).stopped(&Value::Null), StopReason::CpuTime { .. }));
    let many = "let count = 0; const listener = () => count++; addEventListener('unhandledrejection', listener);
         for (let i = 0; i < 5000; i++) Promise.reject(i);
         await ctx.kv.get('a'); const flood = count;
         for (let i = 0; i < 1500; i++) { try { await (async () => { throw i; })(); } catch {} }
         Promise.reject(1); await ctx.kv.get('a'); const one = count;
         removeEventListener('unhandledrejection', listener); Promise.reject(1); await ctx.kv.get('a');
         return [flood, one, count];";
    assert_eq!(value(many), json!([0, 1, 1]));
}

#[test]
fn handlers_of_the_global_object_have_the_parameters_of_their_standard() {
    let mut worker = Worker::handler(
        "const seen = [], shape = Object.getOwnPropertyDescriptor(globalThis, 'onerror');
         globalThis.onerror = (...given) => { seen.push(given.map((value) => value?.message ?? value)); return true; };
         reportError(new RangeError('a'));
         onerror = function (...given) { seen.push([given.length, given[0] instanceof Event, this === globalThis]); };
         dispatchEvent(new Event('error')); reportError('b');
         onerror = 1; const none = onerror; let prevented;
         onunhandledrejection = (event) => { prevented = event; return false; }; Promise.reject('c'); await ctx.kv.get('a');
         return [seen, none, prevented.defaultPrevented, prevented.reason, shape.enumerable, typeof shape.set, onrejectionhandled];",
    );
    assert_eq!(
        worker.json(&Value::Null),
        json!([[["RangeError: a", "", 0, 0, "a"], [1, true, true], [5, false, true]], null, true, "c", true, "function", null])
    );
    assert_eq!(worker.logs.len(), 1, "only `b` was not canceled");
}
