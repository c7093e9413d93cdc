//! `fetch`, and the `Request` and `Response` that belong to it.

use serde_json::{Value, json};
use tollhouse_protocol::{Limits, OpRequest, Outcome, RedirectMode, StopReason, limits::REQUEST_BODY_BYTES};

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

#[test]
fn a_request_reaches_the_host_with_its_method_headers_and_body() {
    let mut worker = Worker::handler(
        "const response = await fetch('https://a.example/x?y=1#z', {
           method: 'post', body: JSON.stringify({ n: 1 }), headers: { 'Content-Type': 'application/json', 'x-a': 'b' }, redirect: 'manual',
         });
         return [response.status, response.statusText, response.ok, response.url, response.redirected, response.type,
           response.headers.get('x-word'), response.headers.getSetCookie(), await response.json(), response.bodyUsed];",
    );
    assert_eq!(
        worker.json(&Value::Null),
        json!([
            201,
            "Created",
            true,
            "https://a.example/x?y=1#z",
            true,
            "basic",
            "caf\u{e9}",
            ["a=b", "c=d"],
            { "method": "POST", "body": "{\"n\":1}" },
            true
        ])
    );
    let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sent = OpRequest::Fetch {
        method: "POST".into(),
        url: "https://a.example/x?y=1#z".into(),
        headers: vec![row("content-type", "application/json"), row("x-a", "b")],
        body: "{\"n\":1}".into(),
        redirect: RedirectMode::Manual,
        id: 1,
    };
    assert_eq!(worker.ops, [sent]);
}

#[test]
fn bodies_have_the_content_type_of_the_standard() {
    for (body, sent, kind) in [
        ("'h\u{e4}'", "h\u{e4}", Some("text/plain;charset=UTF-8")),
        ("new URLSearchParams({ a: 'b c' })", "a=b+c", Some("application/x-www-form-urlencoded;charset=UTF-8")),
        ("new Uint8Array([65, 66])", "AB", None),
        ("new Uint8Array([65, 66, 67]).buffer", "ABC", None),
        ("new DataView(new Uint8Array([65, 66, 67]).buffer, 1)", "BC", None),
        ("null", "", None),
        ("''", "", Some("text/plain;charset=UTF-8")),
    ] {
        let mut worker = Worker::handler(&format!("await fetch('https://a.example/', {{ method: 'PUT', body: {body} }});"));
        worker.json(&Value::Null);
        let OpRequest::Fetch { headers, body: bytes, .. } = &worker.ops[0] else { panic!("{:?}", worker.ops) };
        let expected: Vec<_> = kind.map(|kind| ("content-type".to_owned(), kind.to_owned())).into_iter().collect();
        assert_eq!((&bytes[..], headers), (sent.as_bytes(), &expected), "{body}");
    }
}

#[test]
fn invalid_requests_are_type_errors_and_are_not_sent() {
    for (arguments, message) in [
        ("'/relative'", "`/relative` is not a complete URL"),
        ("'https://user:pw@a.example/'", "the URL of a request cannot have a user name or a password"),
        ("'https://a.example/', { method: 'TRACE' }", "a request cannot have the method TRACE"),
        ("'https://a.example/', { method: 'connect' }", "a request cannot have the method CONNECT"),
        ("'https://a.example/', { method: 'a b' }", "`a b` is not a method"),
        ("'https://a.example/', { body: 'a' }", "a request with GET has no body"),
        ("'https://a.example/', { headers: { a: 'b\\r\\nhost: c' } }", "a header value has a line break or a null character"),
        ("'https://a.example/', { headers: { a: 'b\\x07' } }", "the value of the header `a` has characters that cannot be sent"),
        ("'blob:null/1'", "no Blob of this call has this URL"),
        ("URL.createObjectURL(new Blob([])), { method: 'POST' }", "can only be read with GET, and not with POST"),
        ("'https://a.example/', { headers: { 'a\\r\\nb': 'c' } }", "is not a header name"),
        ("'https://a.example/', { headers: { '\\u212Aeep-alive': 'b' } }", "a header has characters that are not Latin-1"),
        ("'https://a.example/', { redirect: 'never' }", "`never` is not a value of the option `redirect` of a request"),
        ("'https://a.example/', { signal: { aborted: false } }", "the option `signal` must be an AbortSignal"),
        ("'https://a.example/', { cache: 'only-if-cached' }", "the option `cache` cannot be `only-if-cached`: the host has no cache"),
        ("'https://a.example/', { integrity: 'sha256-a' }", "fetch does not support the option `integrity`"),
        ("'https://a.example/', { referrer: 'https://b.example/' }", "the option `referrer` is not supported: set the header `referer`"),
        (
            "'https://a.example/', { timeoutMs: 5 }",
            "fetch has no option `timeoutMs`: `signal: AbortSignal.timeout(ms)` limits its duration",
        ),
        ("'https://a.example/', { auth: { env: 'A' } }", "fetch has no option `auth`: `ctx.httpGetJson` sends secrets with it"),
        ("'https://a.example/', 'POST'", "the options of a request must be an object"),
        (
            "'https://a.example/', { method: 'POST', body: (async function* () {})() }",
            "an asynchronous iterable is not a body: make a stream of it with `ReadableStream.from`",
        ),
    ] {
        let mut worker = Worker::handler(&format!("return fetch({arguments}).then(() => 'sent', (error) => [error.name, error.message]);"));
        let thrown = worker.json(&Value::Null);
        assert_eq!(thrown[0], "TypeError", "{arguments}");
        assert!(thrown[1].as_str().unwrap().contains(message), "{arguments}: {thrown}");
        assert_eq!(worker.ops.len(), 0, "{arguments}");
    }
}

#[test]
fn options_without_effect_on_a_server_are_accepted() {
    let mut worker = Worker::handler(
        "await fetch('https://a.example/', { cache: 'no-store', credentials: 'include', mode: 'cors', keepalive: true, integrity: '',
           referrer: '', referrerPolicy: 'no-referrer', priority: 'high', duplex: 'half', window: null, signal: null, timeout: undefined });",
    );
    worker.json(&Value::Null);
    assert_eq!(worker.ops.len(), 1);
}

#[test]
fn a_failed_request_is_a_type_error_whose_cause_has_the_code() {
    let seen = value(
        "return fetch('http://10.0.0.1/').catch((error) => [error instanceof TypeError, error.message, error.cause.name, error.cause.code, Object.keys(error)]);",
    );
    let message = "fetch failed: `10.0.0.1` is not a public address";
    assert_eq!(seen, json!([true, message, "ToolError", "forbidden_address", []]));
    assert_eq!(Worker::handler("await fetch('http://10.0.0.1/');").thrown(&Value::Null), format!("TypeError: {message}"));
}

#[test]
fn an_aborted_request_rejects_with_the_reason_of_its_signal() {
    let mut worker = Worker::handler(
        "const seen = [];
         const note = (error) => seen.push(error.name ?? error);
         await fetch('https://a.example/', { signal: AbortSignal.abort() }).catch(note);
         const during = new AbortController();
         const pending = fetch('https://a.example/', { signal: during.signal });
         during.abort('mine');
         await pending.catch(note);
         const request = new Request('https://a.example/', { signal: during.signal });
         await fetch(request).catch(note);
         const late = new AbortController();
         await fetch('https://a.example/', { signal: late.signal });
         late.abort();
         return [seen, request.signal.aborted, request.signal.reason, request.signal === request.signal];",
    );
    assert_eq!(worker.json(&Value::Null), json!([["AbortError", "mine", "mine"], true, "mine", true]));
    assert_eq!(worker.ops.len(), 1, "a request that was aborted before its turn is not sent");
}

#[test]
fn a_body_is_read_once_and_moves_with_its_request() {
    let seen = value(
        "const request = new Request('https://a.example/', { method: 'POST', body: '\u{feff}[1]' });
         const copy = request.clone();
         const moved = new Request(request, { headers: { a: 'b' } });
         const again = await moved.text();
         const errors = [];
         for (const use of [() => request.text(), () => new Request(request), () => fetch(request), () => request.clone(), () => moved.json()]) {
           try { await use(); } catch (error) { errors.push(error.name); }
         }
         const response = await fetch(copy);
         const twice = response.clone();
         return [again, request.bodyUsed, copy.bodyUsed, errors, new TextDecoder().decode(await response.bytes()) === (await twice.text()), twice.url === response.url];",
    );
    let errors = vec!["TypeError"; 5];
    assert_eq!(seen, json!(["[1]", true, true, errors, true, true]));
}

#[test]
fn a_request_can_be_the_options_of_another() {
    let mut worker = Worker::handler(
        "const request = new Request('https://a.example/', { method: 'PUT', body: 'text', headers: { a: 'b' } });
         await fetch('https://b.example/', request);
         const merged = new Request(new Request('https://c.example/', { method: 'PUT', body: 'old' }), new Request('https://d.example/', { method: 'POST', body: 'new' }));
         return [request.bodyUsed, merged.url, merged.method, await merged.text()];",
    );
    assert_eq!(worker.json(&Value::Null), json!([true, "https://c.example/", "POST", "new"]));
    let OpRequest::Fetch { method, url, headers, body, .. } = &worker.ops[0] else { panic!("{:?}", worker.ops) };
    let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!((method.as_str(), url.as_str(), &body[..]), ("PUT", "https://b.example/", &b"text"[..]));
    assert_eq!(headers, &[row("a", "b"), row("content-type", "text/plain;charset=UTF-8")]);
}

#[test]
fn a_response_is_made_of_the_body_of_another() {
    assert_eq!(
        value(
            "const thrown = (make) => { try { return make().status; } catch (error) { return error.message; } };
             const response = await fetch('https://a.example/');
             const passed = await new Response(response.body, response).json();
             return [passed, response.bodyUsed, thrown(() => new Response(async function* () {}())), thrown(() => new Response(undefined, { status: 204 })),
               thrown(() => new Response(undefined, new Response()))];"
        ),
        json!([
            { "method": "GET", "body": "" },
            true,
            "an asynchronous iterable is not a body: make a stream of it with `ReadableStream.from`",
            204, 200
        ])
    );
}

#[test]
fn the_headers_of_an_answer_cannot_be_changed() {
    let seen = value(
        "const { headers } = await fetch('https://a.example/');
         const errors = [() => headers.set('a', 'b'), () => headers.append('a', 'b'), () => headers.delete('x-word')].map((change) => {
           try { change(); return 'done'; } catch (error) { return error.name; }
         });
         const own = new Headers(headers); own.set('a', 'b');
         return [errors, headers.has('a'), own.get('a'), own.get('x-word')];",
    );
    assert_eq!(seen, json!([["TypeError", "TypeError", "TypeError"], false, "b", "caf\u{e9}"]));
}

#[test]
fn an_answer_can_be_returned_as_it_is() {
    let mut worker = Worker::handler("return fetch('https://a.example/', { method: 'HEAD' });");
    let Outcome::Returned(reply) = worker.call(&Value::Null).outcome else { panic!("no answer") };
    assert_eq!(reply.status, 201);
    let mut worker = Worker::handler("return fetch('https://a.example/');");
    assert_eq!(worker.json(&Value::Null), json!({ "method": "GET", "body": "" }));
}

#[test]
fn modified_prototypes_do_not_reach_a_request() {
    let mut worker = Worker::handler(
        "for (const target of [Object.prototype, Array.prototype, String.prototype]) target.toJSON = () => 'bent';
         Promise.prototype.then = function () { throw new Error('bent'); };
         Array.prototype[Symbol.iterator] = function () { throw new Error('bent'); };
         Object.defineProperty(Request.prototype, 'url', { get: () => 'https://bent.example/' });
         Object.defineProperty(Response.prototype, 'status', { get: () => 999 });
         let reads = 0;
         const init = { get method() { return reads++ === 0 ? 'POST' : 'TRACE'; }, get body() { return `body ${reads}`; } };
         const response = await fetch(new Request('https://a.example/', init));
         return reads;",
    );
    assert_eq!(worker.json(&Value::Null), json!(1));
    let OpRequest::Fetch { method, url, body, .. } = &worker.ops[0] else { panic!("{:?}", worker.ops) };
    assert_eq!((method.as_str(), url.as_str(), &body[..]), ("POST", "https://a.example/", &b"body 0"[..]));
}

#[test]
fn modified_methods_of_headers_do_not_reach_a_request_or_an_answer() {
    let mut worker = Worker::handler(
        "for (const name of ['append', 'delete', 'get', 'has', 'set']) Headers.prototype[name] = () => 'bent';
         for (const headers of [{ 'x-a': 'b' }, [['x-a', 'b']], new Headers({ 'x-a': 'b' })]) {
           await fetch('https://a.example/', { method: 'PUT', body: 'text', headers });
         }
         const rows = (response) => [...response.headers].map((row) => row.join(': '));
         return [new Response('text'), Response.json(1), new Response('text', { headers: { 'content-type': 'a/b' } })].map(rows);",
    );
    let kinds = json!([["content-type: text/plain;charset=UTF-8"], ["content-type: application/json"], ["content-type: a/b"]]);
    assert_eq!(worker.json(&Value::Null), kinds);
    let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sent = [row("x-a", "b"), row("content-type", "text/plain;charset=UTF-8")];
    assert_eq!(worker.ops.len(), 3);
    for op in &worker.ops {
        let OpRequest::Fetch { headers, .. } = op else { panic!("{op:?}") };
        assert_eq!(headers, &sent);
    }
}

#[test]
fn too_many_requests_stop_the_call() {
    let flood = "await Promise.all(Array.from({ length: 10_000 }, (_, at) => fetch(`https://a.example/${at}`)));";
    let mut worker = Worker::handler_limited(flood, Limits { http_requests: 10, ..Limits::default() });
    assert_eq!(worker.stopped(&Value::Null), StopReason::Ops { what: "requests to other servers".into(), limit: 10 });
}

#[test]
fn a_body_over_the_limit_is_refused_in_the_worker() {
    let body = |bytes: usize| {
        format!(
            "return fetch('https://a.example/', {{ method: 'POST', body: 'a'.repeat({bytes}) }}).then(() => 'sent', (e) => e.cause.code);"
        )
    };
    let mut worker = Worker::handler(&body(REQUEST_BODY_BYTES + 1));
    assert_eq!((worker.json(&Value::Null), worker.ops.len()), (json!("invalid_argument"), 0));
    assert_eq!(value(&body(REQUEST_BODY_BYTES)), json!("sent"));
}

#[test]
fn nothing_is_fetched_while_a_module_loads() {
    let mut worker = Worker::with(
        "let seen;
         fetch('https://a.example/').catch((error) => { seen = error.message; });
         export default async () => seen;",
    );
    assert_eq!(worker.json(&Value::Null), json!("fetch only works in a call, not while the module loads"));
}
