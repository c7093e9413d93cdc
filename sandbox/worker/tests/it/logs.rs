//! Contents of log lines.

use serde_json::{Value, json};
use tollhouse_protocol::{LogLevel, LogLine};

use crate::harness::Worker;

/// Returns the log lines of a call.
fn lines(body: &str) -> Vec<LogLine> {
    let mut worker = Worker::handler(body);
    worker.call(&Value::Null);
    std::mem::take(&mut worker.logs)
}

fn messages(body: &str) -> Vec<String> {
    lines(body).into_iter().map(|line| line.message).collect()
}

#[test]
fn error_is_shown_wherever_it_occurs_in_a_value() {
    let lines = lines(
        "try { null.x } catch (e) {
           e.code = 'E1';
           ctx.log.error('failed', { error: e, n: 1 }); ctx.log.error('failed', e); console.log({ err: e }, [e], new Map([['k', e]]));
         }",
    );
    let fields: Value = serde_json::from_str(&lines[0].fields).unwrap();
    assert_eq!((&fields["n"], &fields["error"]["name"], &fields["error"]["code"]), (&json!(1), &json!("TypeError"), &json!("E1")));
    let reason = fields["error"]["message"].as_str().unwrap();
    assert!(reason.contains("null"), "{reason}");
    assert!(fields["error"]["stack"].as_str().unwrap().contains("tool:"), "{fields}");
    assert!(lines[1].fields.contains(reason), "{:?}", lines[1]);
    assert_eq!(lines[2].message.matches(&json!(reason).to_string()).count(), 3, "{}", lines[2].message);
}

#[test]
fn causes_and_aggregated_errors_follow_the_stack() {
    let body = "const inner = new Error('inner why'); const outer = new Error('outer', { cause: inner }); inner.cause = outer;
         console.error(outer); console.error(new AggregateError([new Error('first why'), 'second why'], 'all')); ctx.log.warn('w', { e: outer });
         console.error(new Error('x', { cause: { status: 500 } })); throw outer;";
    let mut worker = Worker::handler(body);
    let tollhouse_protocol::Outcome::Threw(thrown) = worker.call(&Value::Null).outcome else { panic!("it throws") };
    assert_eq!(thrown.message, "Error: outer", "the message for callers is unchanged");
    for text in [&worker.logs[0].message, &thrown.stack] {
        assert!(text.contains("[cause]: ") && text.contains("inner why") && text.ends_with("[cause]: [circular]"), "{text}");
    }
    let all = &worker.logs[1].message;
    assert!(all.contains("[errors 0]: ") && all.contains("first why") && all.contains("[errors 1]: second why"), "{all}");
    assert!(worker.logs[2].fields.contains(r#""message":"inner why""#), "{}", worker.logs[2].fields);
    assert!(worker.logs[3].message.contains(r#"[cause]: {"status":500}"#), "{}", worker.logs[3].message);
}

#[test]
fn failed_op_has_the_place_of_its_request() {
    let mut worker = Worker::handler("await null;\nawait ctx.httpGetJson('https://10.0.0.1/');");
    let tollhouse_protocol::Outcome::Threw(thrown) = worker.call(&Value::Null).outcome else { panic!("it throws") };
    assert_eq!(thrown.message, "ToolError: `10.0.0.1` is not a public address");
    assert!(thrown.stack.contains("tool:/example/000000000000:3:") && !thrown.stack.contains("ext:"), "{}", thrown.stack);
}

#[test]
fn values_outside_json_are_logged_as_text() {
    assert_eq!(
        messages(
            "console.log({ m: new Map([[1, 2]]), s: new Set([3]), re: /a/g, u: new URLSearchParams('a=1&b=2'), h: new Headers({ a: 'b' }), r: new Response('x', { status: 201 }) });
             console.log({ n: NaN, i: -Infinity, b: 3n, f() {}, y: Symbol('y'), d: new Date(0), e: new Date(NaN), p: Promise.resolve(), t: new Uint8Array([1, 2]), a: new ArrayBuffer(3), u: undefined });
             console.log(new Map([['k', { a: 1 }]]), new Set([1]), /x/i, new URLSearchParams('q=1'), new URL('https://e.com/'), [undefined, null], NaN);
             const c = { a: [] }; c.a.push(c); console.log(c);"
        ),
        [
            r#"{"m":{"Map":[[1,2]]},"s":{"Set":[3]},"re":"/a/g","u":{"URLSearchParams":"a=1&b=2"},"h":{"Headers":[["a","b"]]},"r":{"Response":{"status":201,"headers":{"Headers":[["content-type","text/plain;charset=UTF-8"]]}}}}"#,
            r#"{"n":"NaN","i":"-Infinity","b":"3n","f":"[function]","y":"Symbol(y)","d":"1970-01-01T00:00:00.000Z","e":"Invalid Date","p":"[promise]","t":{"Uint8Array":[1,2]},"a":{"ArrayBuffer":"3 bytes"}}"#,
            r#"Map [["k",{"a":1}]] Set [1] /x/i URLSearchParams q=1 "https://e.com/" [null,null] NaN"#,
            r#"{"a":["[circular]"]}"#,
        ]
    );
}

#[test]
fn large_value_is_cut_to_the_length_of_a_line() {
    let lines = lines(
        "console.log(new Array(1 << 20).fill(1)); console.log({ a: 'x'.repeat(1 << 20) }); ctx.log('long', { a: '\"'.repeat(1 << 20) });
         let deep = 1; for (let i = 0; i < 10_000; i++) deep = [deep]; console.log(deep); return 1;",
    );
    assert_eq!((lines.len(), lines[0].message.len(), lines[1].message.len()), (4, 4096, 4096));
    let cut: Value = serde_json::from_str(&lines[2].fields).unwrap();
    assert!(cut["cut"].as_str().unwrap().starts_with(r#"{"a":"\"\""#) && lines[2].fields.len() <= 4092, "{}", lines[2].fields.len());
    assert!(lines[3].message.contains('\u{2026}'), "{}", lines[3].message);
}

#[test]
fn formats_are_those_of_the_console_standard() {
    assert_eq!(
        messages(
            "console.log('%s is %d, %i %f %o%%', 'a', 5.5, '7px', '1.5', { b: 1 }, 'rest'); console.error('%c styled', 'color:red'); console.log('100%', 1);
             console.log('%s %x %'); console.log('%s %x %', 1, 2); console.log(1, '%s', 2); console.log('%d', Symbol('a')); console.log('%O', 'text'); console.log('%s %s', 'one');"
        ),
        ["a is 5, 7 1.5 {\"b\":1}% rest", " styled", "100% 1", "%s %x %", "1 %x % 2", "1 %s 2", "NaN", "\"text\"", "one %s"]
    );
}

#[test]
fn every_member_of_the_console_can_be_called() {
    let lines = lines(
        "console.dir({ a: { b: 1 } }, { depth: null }); console.dirxml('x', 1); console.table([{ a: 1 }], ['a']); console.time('t'); console.timeLog('t', 'half', 2);
         console.timeLog('none'); console.timeEnd('t'); console.timeLog('t'); console.timeStamp('s'); console.profile('p'); console.profileEnd('p');
         const missing = ['assert', 'clear', 'count', 'countReset', 'debug', 'dir', 'dirxml', 'error', 'group', 'groupCollapsed', 'groupEnd', 'info', 'log', 'table',
           'time', 'timeEnd', 'timeLog', 'trace', 'warn'].filter((name) => typeof console[name] !== 'function');
         console.log(missing.length);",
    );
    let shown: Vec<_> = lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(shown, [r#"{"a":{"b":1}}"#, "x 1", r#"[{"a":1}]"#, "t: 0 ms half 2", "t: 0 ms", "0"]);
}

#[test]
fn owner_sees_which_values_json_omits() {
    let warned = |body: &str| {
        let lines = lines(body);
        assert!(lines.iter().all(|line| line.level == LogLevel::Warn), "{lines:?}");
        lines.into_iter().map(|line| line.message).collect::<Vec<_>>()
    };
    assert_eq!(
        warned("return { n: NaN, rows: [{ at: new Date(NaN) }], f() {}, m: new Map([[1, 2]]) };"),
        [
            "JSON cannot represent parts of the result: `n` is NaN, and becomes null; `rows[0].at` is an invalid Date, and becomes null; `f` is a function, and is omitted; `m` is a Map, and becomes {}"
        ]
    );
    assert_eq!(
        warned("return { p: Promise.resolve(1) };"),
        ["JSON cannot represent parts of the result: `p` is a Promise without an await, and becomes {}"]
    );
    assert_eq!(warned("return NaN;"), ["JSON cannot represent parts of the result: the result is NaN, and becomes null"]);
    assert_eq!(warned("return [new Error('x')];")[0].matches("is an error").count(), 1);
    assert_eq!(warned("return Array(9).fill(NaN);")[0].matches("; ").count(), 5, "five are named, and the others are counted");
    let proper = "return { a: undefined, d: new Date(0), u: new URL('https://e.com/'), s: { toJSON: () => 1, f() {} }, get g() { return 1; }, e: {}, l: [] };";
    assert!(warned(proper).is_empty(), "{:?}", warned(proper));
}
