//! Bodies of calls that are not JSON.

use serde_json::json;
use tollhouse_protocol::{Limits, OpRequest, Schemas, StopReason, limits::BODY_CHUNK_BYTES};

use crate::harness::Worker;

fn offsets(worker: &Worker) -> Vec<u64> {
    let offset = |op: &OpRequest| if let OpRequest::BodyRead { offset } = op { Some(*offset) } else { None };
    worker.ops.iter().filter_map(offset).collect()
}

#[test]
fn a_body_is_read_in_pieces() {
    let mut worker = Worker::handler(
        "const bytes = await req.bytes(); let sum = 0; for (const byte of bytes) sum += byte; return [bytes.length, sum, bytes.at(-1)];",
    );
    let body: Vec<u8> = (0..2 * BODY_CHUNK_BYTES + 10).map(|at| (at % 251) as u8).collect();
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    let last = *body.last().unwrap();
    worker.body = Some(body.clone());
    assert_eq!(worker.json(&json!(null)), json!([body.len(), sum, last]));
    let chunk = BODY_CHUNK_BYTES as u64;
    assert_eq!(offsets(&worker), [0, chunk, 2 * chunk]);
}

#[test]
fn a_body_is_text_json_and_bytes() {
    let mut worker = Worker::handler(
        "const how = req.query.q; const value = await req[how]();
         return how === 'arrayBuffer' ? new Uint8Array(value).length : how === 'bytes' ? value.length : value;",
    );
    for (how, body, expected) in [
        ("text", "caf\u{e9}, a,b\n", json!("caf\u{e9}, a,b\n")),
        ("text", "\u{feff}marked", json!("marked")),
        ("text", "", json!("")),
        ("json", "[1, {\"a\": 2}]", json!([1, { "a": 2 }])),
        ("bytes", "abc", json!(3)),
        ("arrayBuffer", "abcd", json!(4)),
    ] {
        worker.query = json!({ "q": how }).to_string();
        worker.body = Some(body.as_bytes().to_vec());
        assert_eq!(worker.json(&json!(null)), expected, "{how} {body:?}");
    }
    worker.query = json!({ "q": "json" }).to_string();
    worker.body = Some(b"{".to_vec());
    assert!(worker.thrown(&json!(null)).starts_with("SyntaxError"));
}

#[test]
fn a_body_is_a_stream_of_pieces_whatever_its_size() {
    let limits = Limits { buffer_bytes: 4 << 20, ..Limits::default() };
    let source =
        "let size = 0; for await (const piece of req.body) size += piece.length; return [size, req.bodyUsed, req.body === req.body];";
    let mut worker = Worker::handler_limited(source, limits);
    worker.body = Some(vec![7; 24 << 20]);
    assert_eq!(worker.json(&json!(null)), json!([24 << 20, true, true]));
    assert_eq!(offsets(&worker).len(), (24 << 20) / BODY_CHUNK_BYTES);
    let mut reader = Worker::handler(
        "const reader = req.body.getReader({ mode: 'byob' }); const { value } = await reader.read(new Uint8Array(3)); return [...value];",
    );
    reader.body = Some(b"abcdef".to_vec());
    assert_eq!(reader.json(&json!(null)), json!([97, 98, 99]));
    let mut later = Worker::handler("const stream = req.body; return [stream.locked, await req.text(), req.bodyUsed];");
    later.body = Some(b"abc".to_vec());
    assert_eq!(later.json(&json!(null)), json!([false, "abc", true]));
}

#[test]
fn a_body_is_a_form_or_a_blob() {
    let mut worker = Worker::handler(
        "const form = await req.formData(); const file = form.get('f'); return [form.get('a'), file.name, file.type, await file.text()];",
    );
    worker.content_type = "multipart/form-data; boundary=b".into();
    let part = |head: &str, content: &str| format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n");
    let form = part("name=\"a\"", "x") + &part("name=\"f\"; filename=\"f.txt\"\r\nContent-Type: text/plain", "hi") + "--b--\r\n";
    worker.body = Some(form.into_bytes());
    assert_eq!(worker.json(&json!(null)), json!(["x", "f.txt", "text/plain", "hi"]));
    let mut blob = Worker::handler("const blob = await req.blob(); return [blob.type, blob.size];");
    blob.content_type = "image/png".into();
    blob.body = Some(b"abc".to_vec());
    assert_eq!(blob.json(&json!(null)), json!(["image/png", 3]));
}

#[test]
fn a_body_is_read_once_and_has_no_input() {
    let mut worker = Worker::handler(
        "const before = req.bodyUsed; await req.text(); let again; try { await req.bytes(); } catch (error) { again = error.message; }
         return [before, req.bodyUsed, again, req.input, req.inputText, Object.keys(req).includes('body')];",
    );
    worker.body = Some(b"text".to_vec());
    assert_eq!(worker.json(&json!(null)), json!([false, true, "the body has been read already", null, "null", false]));
    worker.body = None;
    assert!(worker.thrown(&json!({})).contains("`req.text()` does not exist"), "a JSON body is in `req.input`");
}

#[test]
fn a_schema_does_not_apply_to_a_body_that_is_not_json() {
    let mut worker = Worker::start();
    worker.schemas = Schemas { input: Some(r#"{"type":"object","required":["a"]}"#.into()), output: None };
    worker.load("export default async (req) => (await req.text()).length", tollhouse_protocol::Language::Js).unwrap();
    worker.body = Some(b"abc".to_vec());
    assert_eq!(worker.json(&json!(null)), json!(3));
}

#[test]
fn the_body_of_an_ended_call_cannot_be_read() {
    let mut worker = Worker::handler(
        "if (globalThis.held === undefined) { globalThis.held = req; return 'held'; }
         try { return await globalThis.held.text(); } catch (error) { return error.code; }",
    );
    worker.body = Some(b"of the first".to_vec());
    assert_eq!(worker.json(&json!(null)), json!("held"));
    worker.body = Some(b"of the second".to_vec());
    assert_eq!(worker.json(&json!(null)), json!("call_ended"));
}

#[test]
fn methods_of_a_body_need_their_request() {
    let mut worker = Worker::handler(
        "const seen = []; const proto = Object.getPrototypeOf(req);
         for (const name of ['text', 'bytes', 'json', 'arrayBuffer']) { try { await proto[name].call({}); } catch (error) { seen.push(error.name); } }
         try { proto.text = () => 'bent'; } catch (error) { seen.push(error.name); }
         return [seen, Object.isFrozen(proto), Object.isFrozen(proto.text), await req.text()];",
    );
    worker.body = Some(b"true".to_vec());
    let five = vec!["TypeError"; 5];
    assert_eq!(worker.json(&json!(null)), json!([five, true, true, "true"]));
}

#[test]
fn a_body_above_the_memory_for_buffers_stops_the_call() {
    if cfg!(feature = "quickjs") {
        // Its buffers are a part of its heap.
        return;
    }
    let limits = Limits { buffer_bytes: 1 << 20, ..Limits::default() };
    let mut worker = Worker::handler_limited("return (await req.bytes()).length", limits);
    worker.body = Some(vec![0; 2 << 20]);
    assert_eq!(worker.stopped(&json!(null)), StopReason::Memory { limit_bytes: 1 << 20 });
}
