//! `FileReader` compared with the File API standard.

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, StopReason};

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

const READ: &str = "const read = (blob, method, ...more) => new Promise((resolve) => { const reader = new FileReader(); reader.onloadend = () => resolve(reader.result); reader[method](blob, ...more); });";

#[test]
fn content_is_read_in_each_form() {
    assert_eq!(
        value(&format!(
            "{READ} const blob = new Blob(['h\\u{{e9}}', new Uint8Array([255])], {{ type: 'text/plain' }});
             const latin = new Blob([new Uint8Array([233])], {{ type: 'text/plain;charset=iso-8859-1' }}), marked = new Blob([new Uint8Array([255, 254, 97, 0])]);
             return [[...new Uint8Array(await read(blob, 'readAsArrayBuffer'))], await read(blob, 'readAsBinaryString'), await read(blob, 'readAsText'), await read(blob, 'readAsDataURL'),
               await read(latin, 'readAsText'), await read(latin, 'readAsText', 'no such label'), await read(latin, 'readAsText', 'utf-8'), await read(marked, 'readAsText', 'utf-8'),
               await read(new Blob(), 'readAsDataURL'), await read(new Blob(), 'readAsText')];"
        )),
        json!([
            [104, 195, 169, 255], "h\u{c3}\u{a9}\u{ff}", "h\u{e9}\u{fffd}", "data:text/plain;base64,aMOp/w==",
            "\u{e9}", "\u{e9}", "\u{fffd}", "a", "data:application/octet-stream;base64,", ""
        ])
    );
}

#[test]
fn events_come_in_order_each_in_a_task() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const reader = new FileReader(), seen = [], note = (text) => seen.push(text);
             const ended = new Promise((resolve) => {
               for (const type of ['loadstart', 'progress', 'load', 'abort', 'error', 'loadend']) {
                 reader.addEventListener(type, (event) => {
                   note([type, reader.readyState, event.loaded, event.total, event.isTrusted, event instanceof ProgressEvent]);
                   Promise.resolve().then(() => note('microtask'));
                   if (type === 'loadend') resolve();
                 });
               }
             });
             const before = reader.readyState; reader.readAsText(new Blob(['abc']));
             const busy = t(() => reader.readAsText(new Blob(['d']))); note(reader.readyState); await ended;
             const again = new FileReader(), aborted = []; again.onabort = () => aborted.push(['abort', again.readyState]); again.onloadend = () => aborted.push('loadend'); again.onload = () => aborted.push('load');
             again.readAsText(new Blob(['e'])); again.abort(); again.abort(); await new Promise((resolve) => setTimeout(resolve, 1));
             const next = new FileReader(); let loads = 0;
             const twice = new Promise((resolve) => { next.onloadend = () => resolve([loads, next.result]); });
             next.onload = () => { if (loads++ === 0) next.readAsText(new Blob(['second'])); }; next.readAsText(new Blob(['first']));
             return [before, busy, seen, aborted, again.result, await twice, reader.error, t(() => reader.readAsText({})), t(() => reader.readAsText('a')), FileReader.DONE, reader.LOADING];"
        ),
        json!([
            0, "InvalidStateError",
            [
                1, ["loadstart", 1, 0, 3, true, true], "microtask", ["progress", 1, 3, 3, true, true], "microtask",
                ["load", 2, 3, 3, true, true], "microtask", ["loadend", 2, 3, 3, true, true], "microtask"
            ],
            [["abort", 2], "loadend"], null, [2, "second"], null, "TypeError", "TypeError", 2, 1
        ])
    );
}

#[test]
fn readers_without_end_are_stopped_and_those_of_an_ended_call_do_nothing() {
    let limits = Limits { cpu_ms: 200, ..Limits::default() };
    let body = "const reader = new FileReader(); reader.onload = () => reader.readAsText(new Blob(['a'])); reader.readAsText(new Blob(['a'])); await new Promise(() => {});";
    assert!(matches!(Worker::handler_limited(body, limits).stopped(&Value::Null), StopReason::CpuTime { .. }));
    let mut worker = Worker::with(
        "let loads = 0; export default (req) => { if (req.input === 2) return loads; const reader = new FileReader(); reader.onload = () => loads++; reader.readAsText(new Blob(['a'])); return 'left'; };",
    );
    assert_eq!(worker.json(&Value::Null), json!("left"));
    assert_eq!(worker.json(&json!(2)), 0);
}

#[test]
fn bent_prototypes_do_not_affect_readers() {
    assert_eq!(
        value(&format!(
            "{READ} const fail = () => {{ throw 1; }};
             const ended = read(new Blob(['abc'], {{ type: 'text/plain' }}), 'readAsText');
             TextDecoder.prototype.decode = Blob.prototype.arrayBuffer = Blob.prototype.stream = Map.prototype.get = String.prototype.concat = Array.prototype[Symbol.iterator] = fail;
             EventTarget.prototype.dispatchEvent = FileReader.prototype.readAsText = fail; Object.defineProperty(Object.prototype, 'task', {{ value: fail, configurable: true }});
             return await ended;"
        )),
        json!("abc")
    );
}
