//! Guarantees for handlers.

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, LogLevel, OpRequest, OpValue, Outcome, ProgressMessage, ReplyBody, StopReason, ToHost, ToWorker};

use crate::harness::{NOW_MS, Worker};

#[test]
fn input_is_returned() {
    let mut worker = Worker::handler("return { got: req.body, same: req.body === req.input };");
    assert_eq!(
        worker.json(&json!({"text": "h\u{e4}\u{2603}\u{1f600}"})),
        json!({"got": {"text": "h\u{e4}\u{2603}\u{1f600}"}, "same": true})
    );
}

#[test]
fn request_names_the_caller_and_the_entry_point() {
    let mut worker = Worker::handler("return [req.method, req.path, req.query.q, req.headers['content-type'], req.caller.payer];");
    assert_eq!(worker.json(&Value::Null), json!(["POST", "/tools/example", "1", "application/json", "0xabc"]));
}

#[test]
fn request_records_contain_exactly_the_sent_data() {
    let mut worker = Worker::handler(
        "const { query, headers } = req;
         return [Object.getPrototypeOf(query), query.constructor ?? null, Object.entries(query), Object.keys(headers), ({}).polluted ?? null];",
    );
    worker.query = r#"{"__proto__":"{\"polluted\":1}","constructor2":"c","q":"1"}"#.into();
    assert_eq!(
        worker.json(&Value::Null),
        json!([null, null, [["__proto__", "{\"polluted\":1}"], ["constructor2", "c"], ["q", "1"]], ["content-type"], null])
    );
}

#[test]
fn progress_is_reported_in_order_cut_and_counted() {
    let mut worker = Worker::handler(
        "ctx.progress('begun'); ctx.progress('half', 0.5); ctx.progress('\u{e4}'.repeat(400), null);
         await new Promise((done) => setTimeout(done, 1));
         for (let i = 0; i < 1000; i++) ctx.progress('more', 1);
         return ctx.progress('');",
    );
    assert_eq!(worker.json(&Value::Null), Value::Null);
    let progress = |message: &str, fraction| ProgressMessage { message: message.into(), fraction };
    assert_eq!(worker.messages[..2], [progress("begun", None), progress("half", Some(0.5))]);
    assert_eq!((worker.messages[2].message.len(), worker.messages.len() as u64), (512, Limits::default().progress_messages));
    assert_eq!(worker.logs.len(), 0);

    let limits = Limits { progress_messages: 0, ..Limits::default() };
    let mut unheard = Worker::handler_limited("ctx.progress('one'); return 1;", limits);
    assert_eq!((unheard.json(&Value::Null), unheard.messages.len()), (json!(1), 0));
}

#[test]
fn messages_after_the_answer_are_ignored() {
    let mut worker = Worker::handler("(async () => { for (let i = 0; i < 50; i++) await null; ctx.progress('late'); })(); return 1;");
    worker.json(&Value::Null);
    worker.json(&Value::Null);
    assert_eq!(worker.messages, []);
}

#[test]
fn progress_rejects_invalid_messages_and_fractions() {
    for (call, requested) in [
        ("ctx.progress()", "TypeError: message must be a string"),
        ("ctx.progress({ message: 'x' })", "TypeError: message must be a string"),
        ("ctx.progress('x', 2)", "TypeError: fraction must be a number from 0 to 1"),
        ("ctx.progress('x', NaN)", "TypeError: fraction must be a number from 0 to 1"),
        ("ctx.progress('x', -0.1)", "TypeError: fraction must be a number from 0 to 1"),
        ("ctx.progress('x', '0.5')", "TypeError: fraction must be a number from 0 to 1"),
    ] {
        let mut worker = Worker::handler(call);
        assert_eq!(worker.thrown(&Value::Null), requested, "{call}");
        assert_eq!(worker.messages, []);
    }
}

#[test]
fn plain_and_async_handlers_both_answer() {
    for source in [
        "export default (req) => req.body + 1",
        "export default async (req) => req.body + 1",
        "export default function h(r) { return r.body + 1 }",
    ] {
        assert_eq!(Worker::with(source).json(&json!(1)), json!(2), "{source}");
    }
}

#[test]
fn missing_result_is_null() {
    assert_eq!(Worker::handler("").json(&json!(1)), Value::Null);
}

#[test]
fn result_without_json_form_is_an_error() {
    assert_eq!(Worker::handler("return () => 1;").thrown(&json!(1)), "TypeError: handler returned a function, which has no JSON form");
    let circular = Worker::handler("const a = {}; a.a = a; return a;").thrown(&json!(1));
    assert!(circular.starts_with("TypeError"), "{circular}");
}

#[test]
fn kv_stores_values() {
    let mut worker = Worker::handler(
        "const before = await ctx.kv.get('n');
         await ctx.kv.set('n', { deep: [1, 2] }, { ttlMs: 5000 });
         const after = await ctx.kv.get('n');
         await ctx.kv.set('m', null);
         const listed = await ctx.kv.list({ prefix: '', limit: 10 });
         await ctx.kv.delete('n');
         return { before, after, listed, gone: await ctx.kv.get('n') };",
    );
    assert_eq!(
        worker.json(&Value::Null),
        json!({"before": null, "after": {"deep": [1, 2]}, "gone": null,
               "listed": {"entries": [{"key": "m", "value": null}, {"key": "n", "value": {"deep": [1, 2]}}], "cursor": null}})
    );
    assert!(worker.ops.contains(&OpRequest::KvSet { key: "n".into(), value: r#"{"deep":[1,2]}"#.into(), ttl_ms: Some(5000) }));
}

/// Regression: the call waited for its wall limit, as if an answer could come.
#[test]
fn a_request_too_large_to_be_sent_fails_at_once() {
    let mut worker = Worker::handler("try { await ctx.kv.set('k', 'x'.repeat(9 << 20)); } catch (error) { return error.code; }");
    assert_eq!(worker.json(&Value::Null), json!("quota_exceeded"));
    assert!(worker.ops.is_empty());
}

#[test]
fn call_that_arrives_while_another_computes_runs_after_it() {
    let mut worker = Worker::with("let calls = 0; export default () => ++calls;");
    (0..3).for_each(|_| worker.begin(&Value::Null));
    for calls in 1..=3 {
        let Some(ToHost::Done { outcome: Outcome::Returned(reply), .. }) = worker.receive() else { panic!("an answer") };
        assert_eq!(reply.body, ReplyBody::Json(calls.to_string().into()));
    }
}

#[test]
fn call_that_arrives_while_another_waits_is_declined_and_not_run() {
    let mut worker = Worker::with("let calls = 0; export default async (req, ctx) => { calls++; await ctx.kv.get('k'); return calls; };");
    (0..3).for_each(|_| worker.begin(&Value::Null));
    let Some(ToHost::Op { op, .. }) = worker.receive() else { panic!("an op") };
    assert!(matches!(worker.receive(), Some(ToHost::Waiting)));
    (0..2).for_each(|_| assert!(matches!(worker.receive(), Some(ToHost::Declined))));
    worker.send(&ToWorker::Reply { op, result: Ok(OpValue::None) });
    let Some(ToHost::Done { outcome: Outcome::Returned(reply), .. }) = worker.receive() else { panic!("an answer") };
    assert_eq!(reply.body, ReplyBody::Json("1".into()));
    assert_eq!(worker.json(&Value::Null), json!(2), "the next call runs");
}

#[test]
fn atomic_writes_all_or_nothing() {
    let mut worker = Worker::handler(
        "const first = await ctx.kv.atomic().check('a', null).set('a', 1).add('n', 2).sum('n', 3).commit();
         const second = await ctx.kv.atomic().check('a').set('a', 2).delete('n').commit();
         return [first, second, await ctx.kv.get('a'), await ctx.kv.get('n')];",
    );
    assert_eq!(worker.json(&Value::Null), json!([{"ok": true}, {"ok": false}, 1, 5]));
}

#[test]
fn files_store_bytes_text_and_json() {
    let mut worker = Worker::handler(
        "await ctx.files.write('b', new Uint8Array([0, 255, 7]).subarray(1));
         await ctx.files.write('t', 'h\u{e4}');
         await ctx.files.write('j', { a: [1] });
         const bytes = await ctx.files.read('b');
         const missing = await ctx.files.readText('none');
         await ctx.files.delete('t');
         const names = (await ctx.files.list()).files.map((file) => file.path);
         return [bytes instanceof Uint8Array, [...bytes], await ctx.files.readJson('j'), missing, names];",
    );
    assert_eq!(worker.json(&Value::Null), json!([true, [255, 7], {"a": [1]}, null, ["b", "j"]]));
    assert_eq!(worker.ops[1], OpRequest::FileWrite { path: "t".into(), content: "h\u{e4}".into() });
}

#[test]
fn http_get_json_goes_through_the_host() {
    let mut worker = Worker::handler(
        "const answer = await ctx.httpGetJson('https://api.example/x', { headers: { accept: 'a' }, timeoutMs: 900, auth: { header: 'authorization', env: 'KEY' } });
         return answer;",
    );
    assert_eq!(worker.json(&Value::Null), json!({"status": 200, "headers": {"x-test": "1"}, "json": {"url": "https://api.example/x"}}));
    let OpRequest::HttpGetJson { headers, timeout_ms, auth, .. } = &worker.ops[0] else { panic!("{:?}", worker.ops) };
    assert_eq!((headers.as_slice(), *timeout_ms), ([("accept".to_owned(), "a".to_owned())].as_slice(), Some(900)));
    assert_eq!(auth.as_ref().map(|auth| (auth.header.as_str(), auth.env.as_str())), Some(("authorization", "KEY")));
}

#[test]
fn a_failed_op_rejects_with_its_code() {
    let mut worker = Worker::handler(
        "try { await ctx.httpGetJson('http://10.0.0.1/'); } catch (error) { return [error.name, error.code, error.message, error instanceof Error]; }",
    );
    assert_eq!(worker.json(&Value::Null), json!(["ToolError", "forbidden_address", "`10.0.0.1` is not a public address", true]));
}

#[test]
fn invalid_argument_rejects_without_a_request() {
    let mut worker = Worker::handler("return ctx.kv.get(7).catch((error) => error.message);");
    assert_eq!(worker.json(&Value::Null), json!("key must be a string"));
    assert!(worker.ops.is_empty());
}

#[test]
fn env_is_granted_per_call_and_frozen() {
    let mut worker = Worker::handler(
        "let refused = false;
         try { 'use strict'; ctx.env.KEY = 'x'; } catch { refused = true; }
         return [ctx.env.KEY, Object.getPrototypeOf(ctx.env), refused, Object.isFrozen(ctx), Object.keys(ctx.env)];",
    );
    worker.env = vec![("KEY".into(), "s3cret".into())];
    assert_eq!(worker.json(&Value::Null), json!(["s3cret", null, true, true, ["KEY"]]));
    worker.env.clear();
    assert_eq!(worker.json(&Value::Null)[4], json!([]), "the next call has no grant of the previous one");
}

#[test]
fn logs_and_console_are_lines() {
    let mut worker = Worker::handler(
        "ctx.log.info('one', { a: 1 }); ctx.log.error(new TypeError('bad')); console.log('two', { b: [2] }, 3n, undefined); console.debug('d'); return 1;",
    );
    worker.json(&Value::Null);
    let lines: Vec<_> =
        worker.logs.iter().map(|line| (line.level, line.message.lines().next().unwrap_or(""), line.fields.as_str())).collect();
    assert_eq!(
        lines,
        [
            (LogLevel::Info, "one", r#"{"a":1}"#),
            (LogLevel::Error, "TypeError: bad", ""),
            (LogLevel::Info, "two { b: [ 2 ] } 3n undefined", ""),
            (LogLevel::Debug, "d", ""),
        ]
    );
}

#[test]
fn log_flood_is_cut_and_counted() {
    let mut worker =
        Worker::handler("for (let i = 0; i < 1000; i++) ctx.log.info('line ' + i); ctx.log.info('x'.repeat(10000)); return 1;");
    worker.json(&Value::Null);
    assert_eq!(worker.logs.len(), 257);
    assert_eq!(worker.logs[256].message, "further log lines dropped: 745");
    let mut worker =
        Worker::handler("ctx.log.info('\u{e4}'.repeat(10000)); for (let i = 0; i < 40; i++) ctx.log.info('x'.repeat(4000)); return 1;");
    worker.json(&Value::Null);
    assert_eq!(worker.logs[0].message.len(), 4096);
    assert!(worker.logs.iter().map(|line| line.message.len()).sum::<usize>() < 65 * 1024);
}

#[test]
fn timers_fire_in_order_and_can_be_cleared() {
    let mut worker = Worker::handler(
        "const seen = [];
         const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
         setTimeout((a, b) => seen.push(a + b), 5, 'x', 'y');
         const gone = setTimeout(() => seen.push('never'), 2);
         clearTimeout(gone);
         let ticks = 0;
         const every = setInterval(() => { ticks++; if (ticks === 3) clearInterval(every); }, 1);
         setTimeout(() => { throw new Error('late'); }, 1);
         await sleep(20);
         queueMicrotask(() => seen.push('micro'));
         await null;
         return { seen, ticks };",
    );
    assert_eq!(worker.json(&Value::Null), json!({"seen": ["xy", "micro"], "ticks": 3}));
    assert!(worker.logs.iter().any(|line| line.message.starts_with("uncaught: Error: late")), "{:?}", worker.logs);
}

#[test]
fn time_stands_still_while_computing_and_moves_with_ops() {
    let mut worker = Worker::handler(
        "const start = Date.now();
         let x = 0; for (let i = 0; i < 3e6; i++) x += i;
         const same = Date.now() === start && new Date().getTime() === start && performance.now() === 0;
         await new Promise((resolve) => setTimeout(resolve, 30));
         const moved = Date.now() - start;
         return [start, same, moved >= 25 && moved < 5000, performance.now() === moved, new Date(2020, 0, 1).getFullYear(), typeof Date(), new Date() instanceof Date];",
    );
    assert_eq!(worker.json(&Value::Null), json!([NOW_MS, true, true, true, 2020, "string", true]));
}

#[test]
fn dates_are_formatted_as_text() {
    let mut worker = Worker::handler(
        "const d = new Date(0); return [d.toLocaleString(), d.toLocaleDateString('en-US'), d.toLocaleTimeString(), String(d)].map((text) => text.length > 5);",
    );
    assert_eq!(worker.json(&Value::Null), json!([true, true, true, true]));
}

#[test]
fn no_other_clock_is_available() {
    let mut worker = Worker::handler(
        "if (typeof Intl === 'undefined') return 'no Intl';
         const format = new Intl.DateTimeFormat('en-US', { timeZone: 'UTC' });
         return [format.format(), format.formatToParts().map((part) => part.value).join(''), format.format(0), typeof Temporal, new Date().toLocaleDateString('en-US')];",
    );
    let body = worker.json(&Value::Null);
    assert_eq!(body == json!("no Intl"), cfg!(feature = "quickjs"));
    assert!(body == json!("no Intl") || body == json!(["10/9/2025", "10/9/2025", "1/1/1970", "undefined", "10/9/2025"]), "{body}");
}

#[test]
fn responses_carry_status_headers_and_body() {
    let mut worker = Worker::handler(
        "switch (req.body) {
           case 'json': return Response.json({ a: 1 }, { status: 201, headers: { 'X-One': '1' } });
           case 'text': return new Response('h\u{e4}', { status: 404 });
           case 'bytes': return new Response(new Uint8Array([1, 2, 255]), { headers: [['content-type', 'image/png']] });
           case 'typed': return new Response('{\"b\":2}', { headers: new Headers({ 'content-type': 'application/json' }) });
           case 'lying': return new Response('{oops', { headers: { 'content-type': 'application/json' } });
           case 'json bytes': return new Response(new TextEncoder().encode('{\"c\":\"\u{e4}\"}'), { headers: { 'content-type': 'application/vnd.c+json; v=1' } });
           case 'no json': return new Response('{\"b\":2}', { headers: { 'content-type': 'application/jsonl' } });
           case 'no text': return new Response(new Uint8Array([34, 255, 34]), { headers: { 'content-type': 'application/json' } });
           case 'empty': return new Response(null, { status: 204 });
           default: return Response.redirect('https://example.com/', 303);
         }",
    );
    let mut reply = |what: &str| match worker.call(&json!(what)).outcome {
        Outcome::Returned(reply) => reply,
        other => panic!("{other:?}"),
    };
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let json = reply("json");
    assert_eq!((json.status, json.body), (201, ReplyBody::Json(r#"{"a":1}"#.into())));
    assert_eq!(json.headers, [header("x-one", "1"), header("content-type", "application/json")].concat());
    let text = reply("text");
    assert_eq!(
        (text.status, text.body, text.headers),
        (404, ReplyBody::Raw("h\u{e4}".into()), header("content-type", "text/plain;charset=UTF-8"))
    );
    assert_eq!(reply("bytes").body, ReplyBody::Raw(vec![1, 2, 255].into()));
    assert_eq!(reply("typed").body, ReplyBody::Json(r#"{"b":2}"#.into()));
    assert_eq!(reply("lying").body, ReplyBody::Raw("{oops".into()));
    assert_eq!(reply("json bytes").body, ReplyBody::Json("{\"c\":\"\u{e4}\"}".into()));
    assert_eq!(reply("no json").body, ReplyBody::Raw(r#"{"b":2}"#.into()));
    assert_eq!(reply("no text").body, ReplyBody::Raw(vec![34, 255, 34].into()));
    assert_eq!((reply("empty").status, reply("empty").body), (204, ReplyBody::Raw("".into())));
    let redirect = reply("redirect");
    assert_eq!((redirect.status, redirect.headers), (303, header("location", "https://example.com/")));
}

#[test]
fn thrown_errors_have_a_position() {
    let mut worker = Worker::handler("throw new RangeError('no good');");
    match worker.call(&Value::Null).outcome {
        Outcome::Threw(thrown) => {
            assert_eq!(thrown.message, "RangeError: no good");
            assert!(thrown.stack.contains("tool:/example/000000000000:2:"), "{}", thrown.stack);
            assert!(!thrown.stack.contains("ext:"), "{}", thrown.stack);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(Worker::handler("throw 'text'").thrown(&Value::Null), "text");
    assert_eq!(Worker::handler("throw { code: 7 }").thrown(&Value::Null), r#"{"code":7}"#);
    assert_eq!(Worker::handler("throw undefined").thrown(&Value::Null), "undefined");
    assert_eq!(Worker::handler("throw Symbol('s')").thrown(&Value::Null), "Symbol(s)");
    assert_eq!(Worker::handler("throw new Error('x'.repeat(5000))").thrown(&Value::Null).len(), 1024);
}

#[test]
fn a_worker_serves_many_calls_and_keeps_module_state() {
    let mut worker = Worker::with("let n = 0; export default () => ++n");
    for n in 1..=200 {
        assert_eq!(worker.json(&Value::Null), json!(n));
    }
    assert_eq!(Worker::handler("throw 1").thrown(&Value::Null), "1");
}

#[test]
fn call_after_a_throwing_call_is_served() {
    let mut worker = Worker::handler("if (req.body) throw new Error('once'); return 'ok';");
    assert_eq!(worker.thrown(&json!(true)), "Error: once");
    assert_eq!(worker.json(&json!(false)), json!("ok"));
}

#[test]
fn ops_of_an_ended_call_do_not_wake_the_next() {
    let mut worker = Worker::with(
        "let woken = 0;
         export default async (req, ctx) => {
           if (req.body === 'leave') { ctx.kv.get('a').then(() => woken++); setTimeout(() => woken++, 1); return 'left'; }
           await ctx.kv.get('b');
           await new Promise((resolve) => setTimeout(resolve, 5));
           return woken;
         };",
    );
    assert_eq!(worker.json(&json!("leave")), json!("left"));
    assert_eq!(worker.json(&json!("look")), json!(0));
}

#[test]
fn a_write_that_nobody_awaits_is_done_before_the_call_ends() {
    let mut worker = Worker::handler("for (let i = 0; i < 20; i++) ctx.kv.set('k' + i, i); ctx.files.write('f', 'x'); return 'soon';");
    assert_eq!(worker.json(&Value::Null), json!("soon"));
    assert_eq!((worker.kv.len(), worker.files.len()), (20, 1));
}

#[test]
fn op_numbers_rise_in_sending_order() {
    // A timer does not wait for the requests before it, although its number is higher.
    let mut worker = Worker::handler(
        "const all = [...Array(20).keys()].map((i) => ctx.kv.get('k' + i)); const sleep = new Promise((r) => setTimeout(r, 1));
         await Promise.all([...all, sleep]); return 1;",
    );
    worker.json(&Value::Null);
    assert_eq!(worker.ops.len(), 21);
    assert!(matches!(worker.ops[8], OpRequest::Sleep { .. }), "{:?}", worker.ops);
}

#[test]
fn requests_beyond_the_concurrent_ops_wait() {
    let mut worker = Worker::handler("return (await Promise.all([...Array(50).keys()].map((i) => ctx.kv.get('k' + i)))).length;");
    assert_eq!(worker.json(&Value::Null), json!(50));
    assert_eq!(worker.max_in_flight, 8);
}

#[test]
fn used_resources_are_reported() {
    let mut worker = Worker::handler("let x = 0; for (let i = 0; i < 5e6; i++) x += i; await ctx.kv.get('a'); return x;");
    let spent = worker.call(&Value::Null).spent;
    assert!(spent.cpu_us > 500 && spent.wall_us >= spent.cpu_us / 2 && spent.heap_bytes > 100_000 && spent.ops == 1, "{spent:?}");
}

#[test]
fn a_promise_that_nothing_resolves_is_a_deadlock() {
    assert_eq!(Worker::handler("await new Promise(() => {});").stopped(&Value::Null), StopReason::Deadlock);
    assert_eq!(
        Worker::handler("clearTimeout(setTimeout(() => {}, 1000)); await new Promise(() => {});").stopped(&Value::Null),
        StopReason::Deadlock
    );
}

#[test]
fn missing_node_globals_report_their_replacement() {
    for (body, instead) in [
        ("return new XMLHttpRequest();", "ctx.httpGetJson"),
        ("return Buffer.from('a');", "Uint8Array"),
        ("return require('node:fs');", "bundle"),
        ("module.exports = 1;", "export default"),
        ("return import('node:fs');", "bundle"),
        ("return process.env.KEY;", "ctx.env"),
        ("return Deno.readTextFile('a');", "ctx"),
        ("return localStorage.getItem('a');", "ctx.kv"),
        ("setImmediate(() => {});", "setTimeout"),
        ("return eval('1');", "code from strings"),
        ("return req.headers.get('accept');", "req.headers[\"name\"]"),
        ("return location.href;", "no page"),
        ("alert('a');", "no page"),
        ("return ctx.fetch('https://example.com');", "ctx.httpGetJson"),
        ("return ctx.env.get('A');", "ctx.env[\"NAME\"]"),
        ("waitUntil(Promise.resolve());", "ctx.waitUntil(promise)"),
        ("await ctx.kv.put('a', 1);", "the methods of `ctx.kv` are `get`, `set`, `delete`, `list` and `atomic`"),
        ("const { kv } = ctx; await kv.getWithMetadata('a');", "`get`, `set`"),
        ("await ctx.files.get('a');", "the methods of `ctx.files` are `read`, `readText`, `readJson`, `write`, `delete` and `list`"),
        ("return await req.json();", "req.input"),
        ("return await req.text();", "req.input"),
        ("return await req.formData();", "req.input"),
    ] {
        let mut worker = Worker::handler(body);
        let thrown = worker.thrown(&json!({ "a": 1 }));
        // QuickJS does not name the missing function.
        let nameless = thrown.contains("not a function") && !thrown.contains("fetch") && cfg!(not(feature = "v8"));
        assert!(thrown.contains(instead) || nameless, "{body}: {thrown}");
    }
}

#[test]
fn feature_detection_finds_nothing_and_continues() {
    let mut worker = Worker::handler(
        "const absent = [typeof XMLHttpRequest, typeof process, typeof require, typeof module, typeof Buffer, typeof Deno, typeof window];
         return [new Set(absent).size, absent[0], 'XMLHttpRequest' in globalThis, Object.keys(req).includes('json'), JSON.parse(JSON.stringify(req)).json ?? null];",
    );
    assert_eq!(worker.json(&Value::Null), json!([1, "undefined", false, false, null]));
}

#[test]
fn errors_of_the_handler_get_no_advice() {
    for (body, message) in [
        ("throw new Error('the fetch is not defined');", "Error: the fetch is not defined"),
        ("thing();", "ReferenceError: "),
        ("throw new Error('important: nothing');", "Error: important: nothing"),
        ("const kv = { get: 1 }; kv.get('a');", "TypeError: "),
        ("const my = { kv: {} }; my.kv.put('a');", "TypeError: "),
    ] {
        let thrown = Worker::handler(body).thrown(&Value::Null);
        assert!(thrown.starts_with(message) && !thrown.contains("ctx"), "{thrown}");
    }
}
