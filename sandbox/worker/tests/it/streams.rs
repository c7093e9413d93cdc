//! Streams, Blob and FormData, and the bodies that are made of them.

use serde_json::{Value, json};
use tollhouse_protocol::{
    Limits, OpRequest, Outcome, ReplyBody, StopReason,
    limits::{COMPRESSORS, FORM_PARTS},
};

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

fn reply(body: &str) -> Outcome {
    Worker::handler(body).call(&Value::Null).outcome
}

fn stopped(body: &str) -> StopReason {
    Worker::handler_limited(body, Limits { cpu_ms: 2_000, ..Limits::default() }).stopped(&Value::Null)
}

/// A stream that brings the letters of a text, one chunk of bytes each.
const LETTERS: &str = "const letters = (text) => { let at = 0; return new ReadableStream({ pull(c) { if (at < text.length) c.enqueue(new TextEncoder().encode(text[at++])); else c.close(); } }); };";

#[test]
fn streams_are_read_piped_teed_and_iterated() {
    assert_eq!(
        value(
            "const upper = () => new TransformStream({ transform(chunk, c) { c.enqueue(chunk.toUpperCase()); } });
             const read = async (stream) => { const all = []; for await (const chunk of stream) all.push(chunk); return all; };
             const source = () => ReadableStream.from(['a', 'b']);
             const written = [];
             await source().pipeTo(new WritableStream({ write(chunk) { written.push(chunk); } }));
             const [left, right] = source().tee();
             const bytes = new ReadableStream({ type: 'bytes', start(c) { c.enqueue(new Uint8Array([1, 2, 3])); c.close(); } });
             const byob = bytes.getReader({ mode: 'byob' });
             const first = await byob.read(new Uint8Array(2)), second = await byob.read(new Uint8Array(2)), last = await byob.read(new Uint8Array(2));
             const strategies = [new CountQueuingStrategy({ highWaterMark: 2 }).size('xyz'), new ByteLengthQueuingStrategy({ highWaterMark: 2 }).size(new Uint8Array(3))];
             return [await read(source().pipeThrough(upper())), written, await read(left), await read(right), [...first.value], [...second.value], last.done, strategies];"
        ),
        json!([["A", "B"], ["a", "b"], ["a", "b"], ["a", "b"], [1, 2], [3], true, [1, 3]])
    );
}

#[test]
fn text_streams_keep_characters_whole() {
    assert_eq!(
        value(
            "const bytes = new TextEncoder().encode('h\\u00e4\\u{1f600}');
             const split = ReadableStream.from(bytes).pipeThrough(new TransformStream({ transform: (byte, c) => c.enqueue(new Uint8Array([byte])) }));
             let text = ''; for await (const piece of split.pipeThrough(new TextDecoderStream())) text += piece;
             const encoded = []; for await (const piece of ReadableStream.from(['\\ud83d', '\\ude00', '\\ud800']).pipeThrough(new TextEncoderStream())) encoded.push(...piece);
             const invalid = await Array.fromAsync(ReadableStream.from([new Uint8Array([255])]).pipeThrough(new TextDecoderStream('utf-8', { fatal: true }))).catch((e) => e.name);
             return [text, encoded, invalid, new TextDecoderStream('latin1').encoding];"
        ),
        json!(["h\u{e4}\u{1f600}", [240, 159, 152, 128, 239, 191, 189], "TypeError", "windows-1252"])
    );
}

#[test]
fn compressed_streams_come_back_and_invalid_ones_reject() {
    assert_eq!(
        value(
            "const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream)).bytes();
             const text = 'one two three '.repeat(10_000), seen = [];
             for (const format of ['gzip', 'deflate', 'deflate-raw']) {
               const packed = await through(text, new CompressionStream(format));
               seen.push(packed.length < 2_000, new TextDecoder().decode(await through(packed, new DecompressionStream(format))) === text);
               seen.push(await through(packed.subarray(0, 9), new DecompressionStream(format)).catch((e) => e.name));
               seen.push(await through(new Uint8Array(99).fill(255), new DecompressionStream(format)).catch((e) => e.name));
             }
             for (const make of [() => new CompressionStream('zip'), () => new CompressionStream()]) { try { make(); } catch (e) { seen.push(e.name); } }
             return seen;"
        ),
        json!([true, true, "TypeError", "TypeError", true, true, "TypeError", "TypeError", true, true, "TypeError", "TypeError", "TypeError", "TypeError"])
    );
}

#[test]
fn compressed_streams_of_a_call_are_bounded_and_end_with_it() {
    let mut worker = Worker::handler(
        "const open = []; try { for (;;) open.push(new DecompressionStream('gzip')); } catch (error) { return [open.length, error.name]; }",
    );
    for _ in 0..2 {
        assert_eq!(worker.json(&Value::Null), json!([COMPRESSORS, "RangeError"]));
    }
}

#[test]
fn short_input_does_not_become_a_large_process() {
    let bomb = "const zeros = new Blob([new Uint8Array(1 << 20)]);
         const packed = await new Response(zeros.stream().pipeThrough(new CompressionStream('gzip'))).bytes();
         const twice = (bytes) => new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'))).bytes();
         await twice(packed);";
    let all = format!(
        "{bomb} const kept = []; for (;;) kept.push(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).bytes());"
    );
    assert!(matches!(stopped(&all), StopReason::Memory { .. } | StopReason::CpuTime { .. }));
}

#[test]
fn url_of_a_blob_can_be_fetched_until_it_is_revoked_or_the_call_ends() {
    let mut worker = Worker::handler(
        "if (globalThis.url !== undefined) return await fetch(url).then(() => 'there', (error) => error.name);
         globalThis.url = URL.createObjectURL(new Blob(['hello'], { type: 'text/plain' }));
         const response = await fetch(url + '#part');
         const before = new Request(url);
         const seen = [/^blob:null\\/[-0-9a-f]{36}$/.test(url), response.status, response.headers.get('content-type'), response.headers.get('content-length'),
             response.url === url + '#part', await response.text()];
         URL.revokeObjectURL(url);
         const late = await fetch(url).then(() => 'there', (error) => error.name);
         globalThis.url = URL.createObjectURL(new Blob(['kept']));
         return [...seen, late, await (await fetch(before)).text(), await (await fetch(url)).text()];",
    );
    let all = json!([true, 200, "text/plain", "5", true, "hello", "TypeError", "hello", "kept"]);
    assert_eq!((worker.json(&Value::Null), worker.json(&Value::Null)), (all, json!("TypeError")));
    assert_eq!(worker.ops.len(), 0);
}

#[test]
fn blobs_and_files_have_parts_slices_and_types() {
    assert_eq!(
        value(
            "const blob = new Blob(['ab', new Uint8Array([99]), new Blob(['def'])], { type: 'Text/Plain' });
             const file = new File([blob.slice(1, 5, 'a/b')], 'n\\u00e4me.txt', { type: 'text/css', lastModified: 7 });
             const copy = structuredClone({ file, blob });
             const bytes = await file.bytes();
             bytes[0] = 0;
             return [blob.size, blob.type, await blob.text(), await file.text(), file.name, file.lastModified, file.type, await copy.file.text(), copy.file.name, copy.blob.size,
               copy.file instanceof File, new File([], 'x').lastModified === Date.now(), (await blob.arrayBuffer()).byteLength, await new Response(blob.stream()).text()];"
        ),
        json!([6, "text/plain", "abcdef", "bcde", "n\u{e4}me.txt", 7, "text/css", "bcde", "n\u{e4}me.txt", 6, true, true, 6, "abcdef"])
    );
}

#[test]
fn forms_are_written_and_read_in_both_encodings() {
    assert_eq!(
        value(
            "const form = new FormData();
             form.append('a', 'x\\ny'); form.append('f', new Blob(['1\\n2'], { type: 'text/csv' }), 'a\"b.csv'); form.append('a', 'z'); form.set('n\\r\"', 5); form.append('g', new File(['q'], 'g.txt'));
             const request = new Request('http://a/', { method: 'POST', body: form });
             const type = request.headers.get('content-type');
             const read = await request.formData();
             const f = read.get('f'), g = read.get('g');
             const params = await new Response(new URLSearchParams('a=1&b=%C3%A4+c')).formData();
             const wrong = await new Response('a', { headers: { 'content-type': 'text/plain' } }).formData().catch((e) => e.name);
             const broken = await new Response('--x', { headers: { 'content-type': 'multipart/form-data; boundary=x' } }).formData().catch((e) => e.name);
             return [type.startsWith('multipart/form-data; boundary='), [...read.keys()], read.getAll('a'), read.get('n\\r\\n\"'), [f.name, f.type, await f.text()], [g.name, g.type],
               [...params], wrong, broken, form.has('f'), (form.delete('f'), form.has('f')), String(form)];"
        ),
        json!([
            true, ["a", "f", "a", "n\r\n\"", "g"], ["x\r\ny", "z"], "5", ["a\"b.csv", "text/csv", "1\n2"], ["g.txt", "application/octet-stream"],
            [["a", "1"], ["b", "\u{e4} c"]], "TypeError", "TypeError", true, false, "[object FormData]"
        ])
    );
}

#[test]
fn forms_with_too_many_parts_are_refused() {
    let body = format!(
        "const part = '--b\\r\\nContent-Disposition: form-data; name=a\\r\\n\\r\\n\\r\\n';
         const read = (count) => new Response(part.repeat(count) + '--b--', {{ headers: {{ 'content-type': 'multipart/form-data; boundary=b' }} }}).formData();
         return [[...await read({FORM_PARTS})].length, await read({FORM_PARTS} + 1).catch((e) => [e.name, e.message])];"
    );
    assert_eq!(value(&body), json!([FORM_PARTS, ["TypeError", format!("a form has at most {FORM_PARTS} parts")]]));
}

#[test]
fn a_body_is_a_stream_that_is_read_once() {
    assert_eq!(
        value(&format!(
            "{LETTERS} const caught = (promise) => promise.then(() => 'none', (e) => e.name);
             const made = new Response(letters('abc'), {{ headers: {{ 'content-type': 'text/css' }} }});
             const copy = made.clone();
             const before = [made.bodyUsed, made.body instanceof ReadableStream, new Response().body, new Request('http://a').body];
             const text = await made.text(), blob = await copy.blob();
             const text2 = new Response('static'), same = text2.body === text2.body;
             const chunks = []; for await (const chunk of text2.body) chunks.push(chunk.constructor.name, chunk.length);
             const locked = new Response('a'); locked.body.getReader();
             const byob = await new Response('xyz').body.getReader({{ mode: 'byob' }}).read(new Uint8Array(9));
             const old = new Request('http://a/', {{ method: 'POST', body: letters('moved') }}), next = new Request(old);
             const used = new Response('x'); await used.text();
             return [before, text, await blob.text(), blob.type, made.bodyUsed, await caught(made.text()), same, chunks, text2.bodyUsed, await caught(locked.text()), locked.bodyUsed,
               byob.value.length, await next.text(), old.bodyUsed, used.body.locked, await caught(Promise.try(() => new Response(made.body))), await new Response(new Response('pass').body, {{ status: 201 }}).text(),
               await caught(new Response(ReadableStream.from(['no bytes'])).text())];"
        )),
        json!([
            [false, true, null, null], "abc", "abc", "text/css", true, "TypeError", true, ["Uint8Array", 6], true, "TypeError", false, 3, "moved", true, true, "TypeError", "pass",
            "TypeError"
        ])
    );
}

#[test]
fn an_answer_can_be_a_stream() {
    let body = |outcome| match outcome {
        Outcome::Returned(reply) => reply.body,
        other => panic!("{other:?}"),
    };
    assert_eq!(body(reply(&format!("{LETTERS} return new Response(letters('abc'));"))), ReplyBody::Raw("abc".into()));
    let json =
        "return new Response(ReadableStream.from([new TextEncoder().encode('[1]')]), { headers: { 'content-type': 'application/json' } });";
    assert_eq!(body(reply(json)), ReplyBody::Json("[1]".into()));
    let slow = "return new Response(new ReadableStream({ async pull(c) { await new Promise((r) => setTimeout(r, 1)); c.enqueue(new Uint8Array([65])); c.close(); } }));";
    assert_eq!(body(reply(slow)), ReplyBody::Raw("A".into()));
    let upstream = "const response = await fetch('https://a.example/'); return new Response(response.body, response);";
    assert_eq!(body(reply(upstream)), ReplyBody::Json(r#"{"method":"GET","body":""}"#.into()));
}

#[test]
fn streams_as_answers_end_within_the_limits() {
    let thrown = |body: &str| Worker::handler(body).thrown(&Value::Null);
    assert!(thrown("return new Response(new ReadableStream({ pull() { throw new Error('mine'); } }));").contains("mine"));
    assert!(thrown("return new Response(ReadableStream.from(['text']));").contains("Uint8Array"));
    assert!(thrown("const r = new Response(ReadableStream.from([])); r.body.getReader(); return r;").contains("locked"));
    let endless = "return new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(4096)); } }));";
    assert!(matches!(stopped(endless), StopReason::OutputSize { .. }));
    assert!(matches!(stopped("return new Response(new ReadableStream({}));"), StopReason::Deadlock));
    let greedy = "new ReadableStream({ start(c) { for (;;) c.enqueue('x'.repeat(10)); } });";
    assert!(matches!(stopped(greedy), StopReason::Memory { .. } | StopReason::CpuTime { .. }));
}

#[test]
fn fetch_sends_streams_blobs_and_forms() {
    let sent = |body: &str| {
        let mut worker =
            Worker::handler(&format!("{LETTERS} await fetch('https://a.example/', {{ method: 'POST', duplex: 'half', body: {body} }});"));
        worker.json(&Value::Null);
        let OpRequest::Fetch { headers, body, .. } = worker.ops.remove(0) else { panic!("{:?}", worker.ops) };
        (String::from_utf8(body.to_vec()).unwrap(), headers.into_iter().map(|(_, value)| value).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(sent("letters('abc')"), ("abc".into(), String::new()));
    assert_eq!(sent("new Blob(['b'], { type: 'image/png' })"), ("b".into(), "image/png".into()));
    let (form, kind) = sent("(() => { const form = new FormData(); form.append('a', '1'); return form; })()");
    assert!(kind.starts_with("multipart/form-data; boundary=") && form.contains("name=\"a\"\r\n\r\n1\r\n--"), "{kind} {form}");
}

#[test]
fn aborted_fetch_stops_reading_its_stream() {
    let mut worker = Worker::handler(
        "const abort = new AbortController();
         const sent = fetch('https://a.example/', { method: 'POST', body: new ReadableStream({ pull() { abort.abort(new Error('mine')); return new Promise(() => {}); } }), signal: abort.signal });
         return sent.catch((error) => error.message);",
    );
    assert_eq!(worker.json(&Value::Null), json!("mine"));
    assert_eq!(worker.ops.len(), 0);
}

#[test]
fn url_patterns_match_and_reject() {
    assert_eq!(
        value(
            "const pattern = new URLPattern({ pathname: '/books/:id(\\\\d+)' });
             const found = pattern.exec('https://a.example/books/12');
             const thrown = (make) => { try { make(); return 'none'; } catch (error) { return error.name; } };
             return [found.pathname.groups.id, pattern.test('https://a.example/books/x'), pattern.pathname, pattern.hasRegExpGroups, new URLPattern('/a/*', 'https://b.example').test('https://b.example/a/c'),
               thrown(() => new URLPattern('(')), thrown(() => new URLPattern('x'.repeat(20_000))), pattern.test('no url')];"
        ),
        json!(["12", false, "/books/:id(\\d+)", true, true, "TypeError", "TypeError", false])
    );
    let exponential = "return new URLPattern({ pathname: '/:a((?:a+)+b)' }).test('https://a.example/' + 'a'.repeat(60));";
    assert!(matches!(stopped(exponential), StopReason::CpuTime { .. }));
}

#[test]
fn streams_are_transferred_by_structured_clone() {
    assert_eq!(
        value(
            "const stream = ReadableStream.from(['a']);
             const { moved } = structuredClone({ moved: stream }, { transfer: [stream] });
             const all = []; for await (const chunk of moved) all.push(chunk);
             const thrown = (f) => { try { f(); return 'none'; } catch (error) { return error.name; } };
             return [stream.locked, all, thrown(() => structuredClone(stream, { transfer: [stream] })), thrown(() => structuredClone(ReadableStream.from([])))];"
        ),
        json!([true, ["a"], "DataCloneError", "DataCloneError"])
    );
}

#[test]
fn bent_prototypes_change_neither_an_answer_nor_the_next_call() {
    let mut worker = Worker::handler(
        "const chunk = new TextEncoder().encode('ok');
         if (req.input === 'bend') {
           for (const Class of [ReadableStream, ReadableStreamDefaultReader, ReadableByteStreamController, TransformStream, Blob, File, FormData, Response]) {
             for (const name of Object.getOwnPropertyNames(Class.prototype)) {
               if (name !== 'constructor') Object.defineProperty(Class.prototype, name, { get: () => () => { throw new Error('bent'); }, configurable: true });
             }
           }
           for (const prototype of [ReadableStream.prototype, Object.getPrototypeOf(Object.getPrototypeOf((async function* () {})()))]) {
             Object.defineProperty(prototype, Symbol.asyncIterator, { value: () => { throw new Error('bent'); }, configurable: true });
           }
           Array.prototype[Symbol.iterator] = Array.prototype.push = () => { throw new Error('bent'); };
           Object.prototype.toJSON = () => 'bent';
         }
         return new Response(new ReadableStream({ start(c) { c.enqueue(chunk); c.close(); } }));",
    );
    for input in ["bend", "next"] {
        let outcome = worker.call(&json!(input)).outcome;
        let Outcome::Returned(reply) = outcome else { panic!("{input}: {outcome:?}") };
        assert_eq!(reply.body, ReplyBody::Raw("ok".into()), "{input}");
    }
}

#[test]
fn thenable_results_change_only_their_own_call() {
    let mut worker = Worker::handler(
        "if (req.input === 'bend') Object.defineProperty(Object.prototype, 'then', { configurable: true, get() { if (this && 'done' in this) return (resolve) => resolve('bent'); } });
         else delete Object.prototype.then;
         return new Response(new ReadableStream({ start(c) { c.enqueue(new Uint8Array([111, 107])); c.close(); } }));",
    );
    let bent = worker.call(&json!("bend")).outcome;
    assert!(matches!(bent, Outcome::Threw(_) | Outcome::Stopped(_) | Outcome::Returned(_)), "{bent:?}");
    let Outcome::Returned(reply) = worker.call(&json!("next")).outcome else { panic!("no answer") };
    assert_eq!(reply.body, ReplyBody::Raw("ok".into()));
}

/// Regression: an encoder writes its last output when it is dropped. Beyond the buffer limit, that
/// stopped the worker before its next call.
#[test]
fn unfinished_compression_does_not_end_the_next_call() {
    let mut worker = Worker::with(
        "const held = [];
         export default () => {
           if (held.length > 0) return 'next';
           held.push(new CompressionStream('gzip'), new ArrayBuffer((32 << 20) - (256 << 10)));
           // Buffers of 64 bytes are always granted.
           for (let i = 0; i < 6000; i++) held.push(new ArrayBuffer(64));
           return 'first';
         };",
    );
    assert_eq!(Limits::default().buffer_bytes, 32 << 20);
    assert_eq!(worker.json(&Value::Null), json!("first"));
    assert_eq!(worker.json(&Value::Null), json!("next"));
}
