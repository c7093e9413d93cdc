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
    assert_eq!(lines[2].message.matches(reason).count(), 3, "{}", lines[2].message);
    assert_eq!(lines[2].message.matches("{ code: 'E1' }").count(), 3, "{}", lines[2].message);
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
            "ctx.log({ m: new Map([[1, 2]]), s: new Set([3]), re: /a/g, u: new URLSearchParams('a=1&b=2'), h: new Headers({ a: 'b' }), r: new Response('x', { status: 201 }) });
             ctx.log({ n: NaN, i: -Infinity, b: 3n, f() {}, y: Symbol('y'), d: new Date(0), e: new Date(NaN), p: Promise.resolve(), t: new Uint8Array([1, 2]), a: new ArrayBuffer(3), u: undefined });
             const c = { a: [] }; c.a.push(c); ctx.log(new URL('https://e.com/')); ctx.log(new Map([['k', { a: 1 }]])); ctx.log(c); ctx.log([undefined, null]);"
        ),
        [
            r#"{"m":{"Map":[[1,2]]},"s":{"Set":[3]},"re":"/a/g","u":{"URLSearchParams":"a=1&b=2"},"h":{"Headers":[["a","b"]]},"r":{"Response":{"status":201,"headers":{"Headers":[["content-type","text/plain;charset=UTF-8"]]}}}}"#,
            r#"{"n":"NaN","i":"-Infinity","b":"3n","f":"[function]","y":"Symbol(y)","d":"1970-01-01T00:00:00.000Z","e":"Invalid Date","p":"[promise]","t":{"Uint8Array":[1,2]},"a":{"ArrayBuffer":"3 bytes"}}"#,
            r#""https://e.com/""#,
            r#"Map [["k",{"a":1}]]"#,
            r#"{"a":["[circular]"]}"#,
            "[null,null]",
        ]
    );
}

#[test]
fn console_shows_values_as_nodejs_does() {
    assert_eq!(
        messages(
            "class Foo { a = 1; #own = 2; get g() { throw 1; } }
             console.log({ a: 1, b: 'x', 'c-d': [1, , -0], f() {}, g: class A extends Foo {}, s: Symbol('s'), n: 3n, u: undefined, [Symbol('k')]: null, get x() { throw 1; }, set y(_v) {} });
             console.log(new Foo(), Object.create(null), new Map([['k', { a: 1 }]]), new Set([1, 'two']), /x/i, new Date(0), new Date(NaN), [undefined, NaN], new (class Bar extends Map {})());
             console.log('top', ['it\\'s', 'say \"hi\"', 'a\\nb', '']);
             console.log(new Uint8Array([1, 2]), new ArrayBuffer(3), new DataView(new ArrayBuffer(2), 1), Object(3), Object('s'), new WeakMap(), Promise.resolve(), function () {}, async () => {}, function* g() {});
             console.log(new URLSearchParams('a=1'), new Headers({ a: 'b', 'x-y': 'z' }), new Response('', { status: 201 }), new AbortController(), new TextDecoder(), new EventTarget(), crypto);
             const u = new URL('https://e.com/p?q=1'); u.extra = 1; console.log(u); const c = { a: [] }; c.a.push(c, { c }); console.log(c); console.log(new Array(150).fill(7), new Array(200));
             console.log(new Proxy({}, { ownKeys() { throw 1; } }), Object.create(Map.prototype), Object.create(URL.prototype), { toJSON() { throw 1; } });"
        ),
        [
            "{ a: 1, b: 'x', 'c-d': [ 1, <1 empty item>, -0 ], f: [Function: f], g: [class A extends Foo], s: Symbol(s), n: 3n, u: undefined, x: [Getter], y: [Setter], [Symbol(k)]: null }".to_owned(),
            "Foo { a: 1 } [Object: null prototype] {} Map(1) { 'k' => { a: 1 } } Set(2) { 1, 'two' } /x/i 1970-01-01T00:00:00.000Z Invalid Date [ undefined, NaN ] Bar(0) {}".to_owned(),
            r#"top [ "it's", 'say "hi"', "a\nb", '' ]"#.to_owned(),
            "Uint8Array(2) [ 1, 2 ] ArrayBuffer { [Uint8Contents]: <00 00 00>, byteLength: 3 } DataView { byteLength: 1, byteOffset: 1, buffer: ArrayBuffer { [Uint8Contents]: <00 00>, byteLength: 2 } } [Number: 3] [String: 's'] WeakMap { <items unknown> } Promise {} [Function (anonymous)] [AsyncFunction (anonymous)] [GeneratorFunction: g]".to_owned(),
            "URLSearchParams { 'a' => '1' } Headers { a: 'b', 'x-y': 'z' } Response { status: 201, headers: Headers { 'content-type': 'text/plain;charset=UTF-8' } } AbortController { signal: AbortSignal { aborted: false } } TextDecoder { encoding: 'utf-8', fatal: false, ignoreBOM: false } EventTarget {} Crypto {}".to_owned(),
            "URL { href: 'https://e.com/p?q=1', origin: 'https://e.com', protocol: 'https:', username: '', password: '', host: 'e.com', hostname: 'e.com', port: '', pathname: '/p', search: '?q=1', searchParams: URLSearchParams { 'q' => '1' }, hash: '', extra: 1 }".to_owned(),
            "<ref *1> { a: [ [Circular *1], { c: [Circular *1] } ] }".to_owned(),
            format!("[ {}... 50 more items ] [ <100 empty items>, ... 100 more items ]", "7, ".repeat(100)),
            "[unprintable] Map {} URL {} { toJSON: [Function: toJSON] }".to_owned(),
        ]
    );
}

#[test]
fn strings_that_need_escapes_are_json_so_that_secrets_in_them_are_found() {
    let lines =
        messages("const secret = 'a\\'b\"c\\\\d\\n\\u0001'; console.log({ secret }, [secret]); console.log(JSON.stringify(secret));");
    assert_eq!(lines[0], format!("{{ secret: {0} }} [ {0} ]", lines[1]));
}

#[test]
fn groups_indent_lines_of_the_console_until_the_call_ends() {
    let mut worker = Worker::handler(
        "console.group('outer %d', 1); console.log('a\\nb'); console.group(); console.warn('deep'); ctx.log('plain'); console.groupEnd(); console.groupEnd(); console.groupEnd(); console.log('out');
         console.groupCollapsed('open'); for (let n = 0; n < 1_000; n++) console.group(); console.log('in'); console.clear(); console.log('clear'); console.group('left');",
    );
    for _ in 0..2 {
        worker.call(&Value::Null);
        let lines: Vec<_> = std::mem::take(&mut worker.logs).into_iter().map(|line| line.message).collect();
        let within = format!("{}in", "  ".repeat(10));
        assert_eq!(lines, ["outer 1", "  a\n  b", "    deep", "plain", "out", "open", within.as_str(), "clear", "left"]);
    }
}

#[test]
fn tables_and_depths_of_the_console() {
    assert_eq!(
        messages(
            "console.table([{ a: 1, b: 'x' }, { a: 2, c: [1] }]); console.table(new Map([['k', 1]])); console.table([{ a: 1, b: 2 }], ['b']); console.table('text');
             console.dir({ a: { b: [1] } }, { depth: 0 }); console.dir({ a: { b: [1] } }, { depth: 1 }); console.dir({ a: { b: [1] } }, { depth: null }); console.dir('s');"
        ),
        [
            "┌─────────┬───┬─────┬───────┐\n│ (index) │ a │ b   │ c     │\n├─────────┼───┼─────┼───────┤\n│ 0       │ 1 │ 'x' │       │\n│ 1       │ 2 │     │ [ 1 ] │\n└─────────┴───┴─────┴───────┘",
            "┌─────────┬────────┐\n│ (index) │ Values │\n├─────────┼────────┤\n│ 'k'     │ 1      │\n└─────────┴────────┘",
            "┌─────────┬───┐\n│ (index) │ b │\n├─────────┼───┤\n│ 0       │ 2 │\n└─────────┴───┘",
            "text",
            "{ a: [Object] }",
            "{ a: { b: [Array] } }",
            "{ a: { b: [ 1 ] } }",
            "'s'",
        ]
    );
}

#[test]
fn large_value_is_cut_to_the_length_of_a_line() {
    let lines = lines(
        "console.log(new Array(1 << 20).fill('y'.repeat(64))); console.log({ a: 'x'.repeat(1 << 20) }); ctx.log('long', { a: '\"'.repeat(1 << 20) });
         let deep = 1; for (let i = 0; i < 10_000; i++) deep = [deep]; console.log(deep); return 1;",
    );
    assert_eq!((lines.len(), lines[0].message.len(), lines[1].message.len()), (4, 4096, 4096));
    let cut: Value = serde_json::from_str(&lines[2].fields).unwrap();
    assert!(cut["cut"].as_str().unwrap().starts_with(r#"{"a":"\"\""#) && lines[2].fields.len() <= 4092, "{}", lines[2].fields.len());
    assert!(lines[3].message.contains("[Array]") && lines[3].message.len() < 256, "{}", lines[3].message);
}

#[test]
fn formats_are_those_of_the_console_standard() {
    assert_eq!(
        messages(
            "console.log('%s is %d, %i %f %o%%', 'a', 5.5, '7px', '1.5', { b: 1 }, 'rest'); console.error('%c styled', 'color:red'); console.log('100%', 1);
             console.log('%s %x %'); console.log('%s %x %', 1, 2); console.log(1, '%s', 2); console.log('%d', Symbol('a')); console.log('%O', 'text'); console.log('%s %s', 'one');"
        ),
        ["a is 5, 7 1.5 { b: 1 }% rest", " styled", "100% 1", "%s %x %", "1 %x % 2", "1 %s 2", "NaN", "'text'", "one %s"]
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
    assert_eq!((shown[0], shown[1], &shown[3..]), ("{ a: { b: 1 } }", "x 1", &["t: 0 ms half 2", "t: 0 ms", "0"][..]));
    assert!(shown[2].starts_with('\u{250c}') && shown[2].contains("│ 0       │ 1 │"), "{}", shown[2]);
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
