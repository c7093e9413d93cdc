//! Bodies of responses that arrive in pieces.

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, OpFailure, OpRequest, OpValue, Outcome, StopReason, limits::READS_PER_OP};

use crate::harness::Worker;

fn piece(text: &str) -> Result<OpValue, OpFailure> {
    Ok(OpValue::Bytes(text.to_owned().into()))
}

fn with_pieces(body: &str, pieces: impl IntoIterator<Item = Result<OpValue, OpFailure>>) -> Worker {
    let mut worker = Worker::handler(body);
    worker.pieces = pieces.into_iter().collect();
    worker
}

/// Returns how often the worker asked for a piece, and whether it ended a request.
fn reads(worker: &Worker) -> (usize, bool) {
    let reads = worker.ops.iter().filter(|op| matches!(op, OpRequest::FetchRead { id: 1 })).count();
    (reads, worker.ops.iter().any(|op| matches!(op, OpRequest::FetchCancel { id: 1 })))
}

#[test]
fn a_body_is_read_in_pieces_as_its_reader_wants_them() {
    let mut worker = with_pieces(
        "const response = await fetch('https://pieces.example/');
         const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(), seen = [];
         for (let read; !(read = await reader.read()).done;) seen.push(read.value);
         return [seen, response.bodyUsed];",
        [piece("second;"), piece("third;")],
    );
    assert_eq!(worker.json(&Value::Null), json!([["first;", "second;", "third;"], true]));
    assert_eq!(reads(&worker), (3, false));
    let mut worker = with_pieces("const { body } = await fetch('https://pieces.example/'); return body.locked;", [piece("second;")]);
    assert_eq!(worker.json(&Value::Null), json!(false));
    assert_eq!(reads(&worker), (0, false), "nothing is read that nobody wants");
}

#[test]
fn a_body_in_pieces_is_read_whole_copied_and_passed_on() {
    for body in [
        "return (await fetch('https://pieces.example/')).text();",
        "return (await fetch('https://pieces.example/')).clone().text();",
        "const response = await fetch('https://pieces.example/'); return new Response(response.body).text();",
        "return new TextDecoder().decode(await (await fetch('https://pieces.example/')).bytes());",
        "const { body } = await fetch('https://pieces.example/'); let all = '';
         for await (const piece of body) all += new TextDecoder().decode(piece);
         return all;",
    ] {
        let mut worker = with_pieces(body, [piece("second;")]);
        assert_eq!(worker.json(&Value::Null), json!("first;second;"), "{body}");
    }
    let mut worker = with_pieces("return fetch('https://pieces.example/');", [piece("second;")]);
    let Outcome::Returned(reply) = worker.call(&Value::Null).outcome else { panic!("no answer") };
    assert_eq!(reply.status, 200);
}

#[test]
fn a_body_that_breaks_off_is_an_error_however_it_is_read() {
    for read in [
        "response.text()",
        "response.bytes()",
        "response.body.getReader().read().then(() => response.text())",
        "(async () => { for await (const _ of response.body); })()",
        "new Response(response.body).text()",
    ] {
        let body = format!(
            "const response = await fetch('https://pieces.example/');
             return {read}.then(() => 'whole', (error) => [error.name, error.cause?.code]);"
        );
        let mut worker = with_pieces(&body, [piece("second;"), Err(OpFailure::new("unreachable", "the connection was lost"))]);
        let seen = worker.json(&Value::Null);
        let is_locked = read.contains("getReader");
        assert_eq!(seen[0], "TypeError", "{read}");
        assert!(is_locked || seen[1] == "unreachable", "{read}: {seen}");
    }
}

#[test]
fn an_abort_or_a_cancel_ends_the_response_at_the_host() {
    let mut worker = with_pieces(
        "const controller = new AbortController();
         const { body } = await fetch('https://pieces.example/', { signal: controller.signal });
         const reader = body.getReader();
         await reader.read();
         controller.abort('enough');
         const seen = await reader.read().catch((error) => error);
         await new Promise((resolve) => setTimeout(resolve, 1));
         return seen;",
        [],
    );
    assert_eq!(worker.json(&Value::Null), json!("enough"));
    assert_eq!(reads(&worker), (0, true));
    let mut worker = with_pieces(
        "const response = await fetch('https://pieces.example/');
         await response.body.cancel();
         await new Promise((resolve) => setTimeout(resolve, 1));
         return response.text().catch((error) => error.name);",
        [],
    );
    assert_eq!(worker.json(&Value::Null), json!("TypeError"));
    assert_eq!(reads(&worker), (0, true));
}

#[test]
fn a_body_of_an_ended_call_is_no_body_of_the_next() {
    let mut worker = Worker::with(
        "let kept;
         export default async () => {
           if (kept === undefined) {
             kept = (await fetch('https://pieces.example/')).body.getReader();
             return 'kept';
           }
           await kept.read();
           return kept.read().then(() => 'read', (error) => error.cause.code);
         };",
    );
    worker.pieces.extend([piece("second;")]);
    assert_eq!(worker.json(&Value::Null), json!("kept"));
    assert_eq!(worker.json(&Value::Null), json!("call_ended"));
    assert_eq!(reads(&worker), (0, false));
}

#[test]
fn reads_are_no_ops_and_have_a_limit_of_their_own() {
    let body = "return (await fetch('https://pieces.example/')).text().then((text) => text.length);";
    let mut worker = with_pieces(body, (0..50).map(|_| piece("1")));
    worker.limits = Limits { ops: 1, ..Limits::default() };
    assert_eq!(worker.json(&Value::Null), json!(56));
    let mut worker = with_pieces(body, (0..150).map(|_| piece("1")));
    worker.limits = Limits { ops: 1, ..Limits::default() };
    assert_eq!(worker.stopped(&Value::Null), StopReason::Ops { what: "reads of responses".into(), limit: READS_PER_OP });
}

#[test]
fn modified_prototypes_do_not_reach_a_body_in_pieces() {
    let mut worker = with_pieces(
        "const { fetch: send } = globalThis, { text } = Response.prototype;
         for (const name of ['enqueue', 'close', 'error']) ReadableByteStreamController.prototype[name] = () => { throw new Error('bent'); };
         ReadableStreamDefaultReader.prototype.read = () => { throw new Error('bent'); };
         Promise.prototype.then = function () { throw new Error('bent'); };
         Uint8Array.prototype.set = () => { throw new Error('bent'); };
         const response = await send('https://pieces.example/');
         return await Reflect.apply(text, response, []);",
        [piece("second;")],
    );
    assert_eq!(worker.json(&Value::Null), json!("first;second;"));
}
