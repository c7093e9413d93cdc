//! Answers that are streamed to the caller.

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, OpRequest, Outcome, ReplyBody, StopReason, ToHost, ToolReply, limits::STREAM_CHUNK_BYTES};

use crate::harness::Worker;

/// Makes a stream of the letters of a text.
const LETTERS: &str = "const letters = (text) => new ReadableStream({ start(c) { for (const letter of text) c.enqueue(new TextEncoder().encode(letter)); c.close(); } });";

/// Waits for some milliseconds.
const SLEEP: &str = "const sleep = (ms) => new Promise((done) => setTimeout(done, ms));";

fn streaming(body: &str) -> Worker {
    let mut worker = Worker::handler(body);
    worker.streams = true;
    worker
}

fn text(worker: &Worker) -> Vec<String> {
    worker.chunks().iter().map(|chunk| String::from_utf8(chunk.to_vec()).unwrap()).collect()
}

/// Returns status and content type of the streamed answer of the last call.
fn head(worker: &Worker) -> (u16, String) {
    let head = worker.ops.iter().find_map(|op| match op {
        OpRequest::StreamOpen { status, headers, .. } => Some((*status, headers)),
        _ => None,
    });
    let (status, headers) = head.unwrap_or_else(|| panic!("no stream: {:?}", worker.ops));
    let value = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    (status, value("content-type").unwrap_or_default())
}

/// Returns content type and chunks of an answer, which has to be streamed to its end.
fn streamed(body: &str) -> (String, Vec<String>) {
    let mut worker = streaming(body);
    ends_as_streamed(&mut worker);
    (head(&worker).1, text(&worker))
}

fn ends_as_streamed(worker: &mut Worker) {
    match worker.call(&Value::Null).outcome {
        Outcome::Returned(ToolReply { body: ReplyBody::Streamed, headers, .. }) => assert!(headers.is_empty()),
        other => panic!("{other:?}; logs {:?}", worker.logs),
    }
    assert_eq!(worker.max_in_flight, 1, "one chunk at a time");
}

/// Returns an answer that is not streamed, although the caller takes streams.
fn whole(body: &str) -> ToolReply {
    let mut worker = streaming(body);
    match worker.call(&Value::Null).outcome {
        Outcome::Returned(reply) if reply.body != ReplyBody::Streamed && worker.chunks().is_empty() => reply,
        other => panic!("{other:?} {:?}", worker.ops),
    }
}

#[test]
fn a_response_with_a_stream_is_streamed() {
    let mut worker = streaming(&format!(
        "{LETTERS} return new Response(letters('abc'), {{ status: 201, headers: {{ 'content-type': 'text/event-stream', 'x-own': '1' }} }});"
    ));
    ends_as_streamed(&mut worker);
    assert_eq!((head(&worker), text(&worker).concat()), ((201, "text/event-stream".into()), "abc".into()));
    ends_as_streamed(&mut worker);
    worker.streams = false;
    let Outcome::Returned(reply) = worker.call(&Value::Null).outcome else { panic!("no answer") };
    assert_eq!((reply.status, reply.body), (201, ReplyBody::Raw("abc".into())), "the next caller takes no stream");
}

#[test]
fn an_iterable_is_streamed_by_its_first_value() {
    let generator = |body: &str| streamed(&format!("return (async function* () {{ {body} }})();"));
    let plain = "text/plain; charset=utf-8".to_owned();
    assert_eq!(
        generator("yield 'a'; yield ''; yield 'b\u{e4}'; yield new Uint8Array([99]);"),
        (plain.clone(), vec!["a".into(), "b\u{e4}".into(), "c".into()])
    );
    assert_eq!(generator("yield new Uint8Array([97]); yield 'b';"), ("application/octet-stream".into(), vec!["a".into(), "b".into()]));
    let lines = vec!["{\"n\":1}\n".to_owned(), "\"two\"\n".into(), "null\n".into()];
    assert_eq!(generator("yield { n: 1 }; yield 'two'; yield null;"), ("application/x-ndjson".into(), lines));
    assert_eq!(streamed("return ReadableStream.from(['a', 'b']);"), (plain.clone(), vec!["a".into(), "b".into()]));
    let own = "let n = 0; return { [Symbol.asyncIterator]() { return { next: () => ({ done: n === 2, value: `${n++}` }) }; } };";
    assert_eq!(streamed(own), (plain, vec!["0".into(), "1".into()]));
}

#[test]
fn the_handler_can_be_a_generator() {
    let mut worker = Worker::with(
        "export default async function* (req, ctx) { ctx.progress('half'); yield `${req.input}`; await ctx.kv.set('a', 1); yield '!'; }",
    );
    worker.streams = true;
    let outcome = worker.call(&json!("hello")).outcome;
    assert!(matches!(&outcome, Outcome::Returned(reply) if reply.body == ReplyBody::Streamed), "{outcome:?}");
    assert_eq!((text(&worker), worker.messages.len(), worker.kv.len()), (vec!["hello".into(), "!".into()], 1, 1));
}

#[test]
fn a_generator_can_be_a_stream_of_events() {
    let body = "const events = async function* () { yield 'data: one\\n\\n'; yield 'data: two\\n\\n'; };
         return new Response(ReadableStream.from(events()).pipeThrough(new TextEncoderStream()), { headers: { 'content-type': 'text/event-stream' } });";
    assert_eq!(streamed(body), ("text/event-stream".into(), vec!["data: one\n\n".into(), "data: two\n\n".into()]));
}

#[test]
fn large_chunks_are_cut_and_arrive_whole() {
    let mut worker =
        streaming("const big = new Uint8Array(200_000).map((_, i) => i % 251); return (async function* () { yield big; yield big; })();");
    ends_as_streamed(&mut worker);
    let sizes: Vec<_> = worker.chunks().iter().map(bytes::Bytes::len).collect();
    let rest = 200_000 % STREAM_CHUNK_BYTES;
    assert_eq!(sizes, [[STREAM_CHUNK_BYTES; 3].as_slice(), [rest].as_slice()].concat().repeat(2));
    let expected: Vec<u8> = (0..200_000).map(|at| (at % 251) as u8).collect();
    assert_eq!(worker.chunks().concat(), expected.repeat(2));
}

#[test]
fn the_next_chunk_is_pulled_when_the_last_one_was_accepted() {
    let mut worker =
        streaming("return (async function* () { for (let n = 0; n < 3; n++) { await ctx.kv.set(`${n}`, n); yield `${n}`; } })();");
    ends_as_streamed(&mut worker);
    let kinds: Vec<_> = worker.ops.iter().map(|op| if op.chunk().is_some() { "chunk" } else { "pull" }).collect();
    assert_eq!(kinds, ["pull", "chunk"].repeat(3));
    let mut worker = streaming(
        "let pulls = 0; return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array([48 + pulls])); if (++pulls === 9) { ctx.log.info('end'); c.close(); } } }, { highWaterMark: 0 }));",
    );
    worker.takes_chunks = 4;
    assert!(worker.thrown(&Value::Null).contains("the caller is gone"));
    assert!(worker.logs.is_empty() && worker.chunks().len() == 5);
}

#[test]
fn a_caller_that_leaves_cancels_the_stream() {
    let generator =
        "return (async function* () { try { for (;;) yield 'x'; } finally { await ctx.kv.set('closed', 1); ctx.log.info('closed'); } })();";
    let stream = "return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(1)); }, async cancel(reason) { await ctx.kv.set('closed', 1); ctx.log.info(`${reason.name} ${reason.code}`); } }));";
    for (body, logged) in [(generator, "closed"), (stream, "ToolError canceled")] {
        for takes in [0, 2] {
            let mut worker = streaming(body);
            worker.takes_chunks = takes;
            let message = worker.thrown(&Value::Null);
            assert!(message.contains("the caller is gone"), "{message}");
            assert_eq!(worker.logs.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), [logged]);
            assert!(worker.kv.contains_key("closed"));
        }
    }
}

#[test]
fn an_error_ends_the_stream_where_it_happens() {
    let fails = |body: &str| {
        let mut worker = streaming(body);
        (worker.thrown(&Value::Null), worker.chunks().len())
    };
    assert_eq!(fails("return (async function* () { throw new Error('mine'); })();"), ("Error: mine".into(), 0));
    assert_eq!(fails("return (async function* () { yield 'a'; throw new Error('mine'); })();"), ("Error: mine".into(), 1));
    assert_eq!(fails("return new Response(new ReadableStream({ pull() { throw new Error('mine'); } }));"), ("Error: mine".into(), 0));
    for (body, sent) in [
        ("return (async function* () { yield 'a'; yield {}; })();", 1),
        ("return (async function* () { yield {}; yield new Uint8Array(1); })();", 1),
        ("return (async function* () { yield; })();", 0),
        ("return (async function* () { yield 1n; })();", 0),
        ("return new Response(ReadableStream.from(['text']));", 0),
        ("return { [Symbol.asyncIterator]: () => ({ next: () => 1 }) };", 0),
        ("return { [Symbol.asyncIterator]: () => ({}) };", 0),
        ("return { [Symbol.asyncIterator]: () => undefined };", 0),
    ] {
        let (message, chunks) = fails(body);
        assert!(message.starts_with("TypeError: ") && chunks == sent, "{body}: {message} after {chunks}");
    }
}

#[test]
fn hostile_iterators_become_text() {
    for (body, part) in [
        ("return { get [Symbol.asyncIterator]() { throw new Error('trap'); } };", "trap"),
        ("return { [Symbol.asyncIterator]: () => ({ get next() { throw new Error('trap'); } }) };", "trap"),
        ("return { [Symbol.asyncIterator]: () => ({ next: () => ({ get done() { throw new Error('trap'); } }) }) };", "trap"),
        ("return { [Symbol.asyncIterator]: () => ({ next: () => ({ get value() { throw new Error('trap'); } }) }) };", "trap"),
        ("return { [Symbol.asyncIterator]: () => ({ next: () => ({ then(_, reject) { reject(new Error('trap')); } }) }) };", "trap"),
        ("return new Proxy({}, { get() { throw new Error('trap'); } });", "trap"),
        ("return { [Symbol.asyncIterator]: () => ({ next: () => ({ value: {} }), get return() { throw new Error('other'); } }) };", "gone"),
    ] {
        let mut worker = streaming(body);
        worker.takes_chunks = 0;
        let message = worker.thrown(&Value::Null);
        assert!(message.contains(part), "{body}: {message}");
    }
}

#[test]
fn streams_without_end_are_stopped() {
    let stopped = |body: &str, limits: Limits| {
        let mut worker = Worker::handler_limited(&format!("{SLEEP} return (async function* () {{ {body} }})();"), limits);
        worker.streams = true;
        worker.stopped(&Value::Null)
    };
    let short = Limits { wall_ms: 300, ..Limits::default() };
    assert_eq!(stopped("for (;;) { await sleep(10); yield 'x'; }", short), StopReason::WallTime { limit_ms: 300 });
    assert_eq!(stopped("yield 'x'; await new Promise(() => {});", Limits::default()), StopReason::Deadlock);
    assert!(matches!(stopped("yield 'x'; for (;;);", Limits::default()), StopReason::CpuTime { .. }));
    assert!(matches!(stopped("for (;;) yield '';", Limits::default()), StopReason::CpuTime { .. }));
    assert!(matches!(stopped("yield 'x'; yield new Uint8Array(40 << 20);", Limits::default()), StopReason::Memory { .. }));
}

#[test]
fn a_caller_that_reads_nothing_costs_wall_time_only() {
    let limits = Limits { wall_ms: 300, ..Limits::default() };
    let mut worker = Worker::handler_limited("return (async function* () { for (;;) yield 'x'; })();", limits);
    worker.streams = true;
    worker.begin(&Value::Null);
    assert!(matches!(worker.receive(), Some(ToHost::Op { request: OpRequest::StreamOpen { .. }, .. })));
    assert!(matches!(worker.receive(), Some(ToHost::Waiting)));
    match worker.receive() {
        Some(ToHost::Done { outcome: Outcome::Stopped(StopReason::WallTime { limit_ms: 300 }), spent }) => {
            assert!(spent.cpu_us < 150_000 && spent.wall_us >= 300_000, "{spent:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_of_a_stream_are_limited() {
    let body = "return (async function* () { try { for (;;) yield 'x'.repeat(600); } finally { ctx.log.info('closed'); } })();";
    let mut worker = Worker::handler_limited(body, Limits { stream_bytes: 1_000, ..Limits::default() });
    worker.streams = true;
    let message = worker.thrown(&Value::Null);
    assert!(message.contains("a streamed answer can have 1000 bytes"), "{message}");
    assert_eq!((worker.chunks().len(), worker.logs.len()), (1, 1));
}

#[test]
fn chunks_count_neither_as_ops_nor_toward_ops_at_once() {
    let limits = Limits { ops: 10, ops_in_flight: 1, ..Limits::default() };
    let body = "return (async function* () { for (let n = 0; n < 50; n++) { if (n % 10 === 0) void ctx.kv.get('a'); yield 'x'; } })();";
    let mut worker = Worker::handler_limited(body, limits);
    worker.streams = true;
    let ended = worker.call(&Value::Null);
    assert!(matches!(&ended.outcome, Outcome::Returned(reply) if reply.body == ReplyBody::Streamed), "{:?}", ended.outcome);
    assert_eq!((worker.chunks().len(), ended.spent.ops), (50, 5));
}

#[test]
fn json_is_read_whole_because_its_schema_applies() {
    for kind in ["application/json", "application/json; charset=utf-8", "application/problem+json", "text/json"] {
        let reply = whole(&format!(
            "return new Response(ReadableStream.from([new TextEncoder().encode('[1'), new TextEncoder().encode(']')]), {{ headers: {{ 'content-type': '{kind}' }} }});"
        ));
        assert_eq!(reply.body, ReplyBody::Json("[1]".into()), "{kind}");
    }
    assert_eq!(whole("return await fetch('https://a.example/');").body, ReplyBody::Json(r#"{"method":"GET","body":""}"#.into()));
}

#[test]
fn answers_with_known_content_are_whole() {
    for (body, content) in [
        ("return new Response('text');", "text"),
        ("return new Response(new Blob(['blob']));", "blob"),
        ("const response = new Response('text'); response.body; return response;", "text"),
        ("return new Response(ReadableStream.from([]));", ""),
        ("return (async function* () {})();", ""),
        ("return (async function* () { yield ''; yield new Uint8Array(0); })();", ""),
    ] {
        assert_eq!(whole(body).body, ReplyBody::Raw(content.into()), "{body}");
    }
    assert_eq!(whole("return { then: undefined, [Symbol.iterator]: function* () {} };").body, ReplyBody::Json("{}".into()));
}

#[test]
fn the_body_of_another_server_is_streamed_on() {
    let body = "const response = await fetch('https://a.example/'); return new Response(response.body, { headers: { 'content-type': 'text/plain' } });";
    let (kind, chunks) = streamed(body);
    assert_eq!((kind.as_str(), chunks.concat().as_str()), ("text/plain", r#"{"method":"GET","body":""}"#));
}

#[test]
fn a_caller_that_takes_no_stream_gets_the_whole() {
    let reply = |body: &str| match Worker::handler(body).call(&Value::Null).outcome {
        Outcome::Returned(ToolReply { headers, body, .. }) => (headers.into_iter().map(|(_, value)| value).collect::<String>(), body),
        other => panic!("{other:?}"),
    };
    let generator = |body: &str| reply(&format!("return (async function* () {{ {body} }})();"));
    assert_eq!(generator("yield 'a'; yield 'b';"), ("text/plain; charset=utf-8".into(), ReplyBody::Raw("ab".into())));
    assert_eq!(generator("yield { n: 1 }; yield 2;"), ("application/x-ndjson".into(), ReplyBody::Raw("{\"n\":1}\n2\n".into())));
    assert_eq!(generator(""), (String::new(), ReplyBody::Raw("".into())));
    assert_eq!(reply(&format!("{LETTERS} return new Response(letters('abc'));")).1, ReplyBody::Raw("abc".into()));
    let endless = "return (async function* () { try { for (;;) yield 'x'.repeat(10_000); } finally { ctx.log.info('closed'); } })();";
    let mut worker = Worker::handler(endless);
    assert!(matches!(worker.stopped(&Value::Null), StopReason::OutputSize { .. }));
}

#[test]
fn collected_answer_reports_its_size_each_time_that_it_doubles() {
    let body = "return (async function* () { for (let i = 0; i < 20; i++) yield 'x'.repeat(10_000); })();";
    let mut worker = Worker::handler(body);
    assert!(matches!(worker.call(&Value::Null).outcome, Outcome::Returned(_)));
    let reported: Vec<_> = worker.messages.iter().map(|message| (&*message.message, message.fraction)).collect();
    assert_eq!(reported, [("70000 bytes of the answer are ready", None), ("140000 bytes of the answer are ready", None)]);
    let mut worker = streaming(body);
    ends_as_streamed(&mut worker);
    assert!(worker.messages.is_empty(), "the caller sees the bytes");
}

#[test]
fn work_and_charges_go_on_beside_a_stream() {
    let mut worker = streaming(
        "ctx.waitUntil((async () => { await ctx.kv.get('a'); await ctx.kv.get('b'); await ctx.kv.get('c'); await ctx.kv.get('d'); await ctx.kv.set('later', 1); })());
         return (async function* () { yield 'a'; await ctx.charge('0.01'); yield 'b'; })();",
    );
    let outcome = worker.call(&Value::Null).outcome;
    let is_streamed = |outcome: &Outcome| matches!(outcome, Outcome::Returned(reply) if reply.body == ReplyBody::Streamed);
    assert!(worker.answers.first().is_none_or(is_streamed) && (worker.answers.len() == 1 || is_streamed(&outcome)), "{outcome:?}");
    assert!(worker.kv.contains_key("later"));
    let at = |wanted: fn(&OpRequest) -> bool| worker.ops.iter().position(wanted).unwrap();
    assert!(at(|op| matches!(op, OpRequest::StreamOpen { .. })) < at(|op| matches!(op, OpRequest::Charge { .. })));
    assert!(at(|op| matches!(op, OpRequest::Charge { .. })) < at(|op| matches!(op, OpRequest::StreamWrite { .. })));
}

#[test]
fn bent_prototypes_change_no_streamed_answer() {
    let mut worker = streaming(
        "const bytes = new Uint8Array(2);
         bytes[0] = 111, bytes[1] = 107;
         const generator = async function* () { yield 'ok'; yield bytes; };
         if (req.input === 'bend') {
           const bent = () => { throw new Error('bent'); };
           for (const Class of [ReadableStreamDefaultReader, Response, ReadableStream]) {
             for (const name of Object.getOwnPropertyNames(Class.prototype)) {
               if (name !== 'constructor') Object.defineProperty(Class.prototype, name, { get: () => bent, configurable: true });
             }
           }
           Array.prototype[Symbol.iterator] = Array.prototype.push = String.prototype.concat = Uint8Array.prototype.set = Uint8Array.prototype.subarray = bent;
           JSON.stringify = TextEncoder.prototype.encode = bent;
           Object.prototype.toJSON = () => 'bent';
         }
         return generator();",
    );
    for (input, expected) in [("bend", "okok"), ("next", "okok")] {
        let outcome = worker.call(&json!(input)).outcome;
        assert!(matches!(&outcome, Outcome::Returned(reply) if reply.body == ReplyBody::Streamed), "{input}: {outcome:?}");
        assert_eq!(text(&worker).concat(), expected, "{input}");
    }
}
