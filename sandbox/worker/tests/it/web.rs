//! The web platform's globals of a handler, each compared with its standard.

use serde_json::{Value, json};

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

#[test]
fn urls_are_parsed_and_changed() {
    assert_eq!(
        value(
            "const u = new URL('../b?x=1#h', 'https://user:pw@Example.com:8443/a/c/');
             const before = [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash];
             u.searchParams.append('y', 'a b&c'); u.hash = ''; u.port = '443'; u.hostname = 'example.org'; u.pathname = '/\u{e4}'; u.protocol = 'nonsense:';
             return [before, String(u), JSON.stringify({ u }), URL.canParse('nope'), URL.parse('nope'), URL.parse('http://0x7f.1/').hostname];"
        ),
        json!([
            ["https://user:pw@example.com:8443/a/b?x=1#h", "https://example.com:8443", "https:", "user", "pw", "example.com:8443", "example.com", "8443", "/a/b", "?x=1", "#h"],
            "https://user:pw@example.org/%C3%A4?x=1&y=a+b%26c",
            "{\"u\":\"https://user:pw@example.org/%C3%A4?x=1&y=a+b%26c\"}",
            false, null, "127.0.0.1"
        ])
    );
    assert_eq!(Worker::handler("new URL('nope')").thrown(&Value::Null), "TypeError: `nope` is not a URL");
}

#[test]
fn search_params_keep_order_and_repeats() {
    assert_eq!(
        value(
            "const p = new URLSearchParams('?b=2&a=1&b=3&c=%F0%9F%98%80+x');
             const all = p.getAll('b'); p.set('b', '9'); p.delete('a'); p.append('z', '\\ufffd'); p.sort();
             const u = new URL('https://e.com/?q=1'); u.searchParams.set('q', '2'); u.search = '?r=3';
             return [all, p.toString(), [...p], p.has('b', '9'), p.size, new URLSearchParams({ k: 'v' }).toString(), new URLSearchParams([['a', 'b']]).get('a'), u.searchParams.get('r')];"
        ),
        json!([["2", "3"], "b=9&c=%F0%9F%98%80+x&z=%EF%BF%BD", [["b", "9"], ["c", "\u{1f600} x"], ["z", "\u{fffd}"]], true, 3, "k=v", "b", "3"])
    );
}

#[test]
fn search_params_are_built_and_iterated_as_the_standard_says() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const make = (init) => [...new URLSearchParams(init)], own = new URLSearchParams('a=1'); own[Symbol.iterator] = function* () { yield ['b', '2']; };
             const live = new URLSearchParams('a=1&b=2&c=3'), seen = []; for (const [name] of live) { seen.push(name); live.delete(name); }
             const each = []; live.forEach(function (value, name, params) { each.push([this.self, name, params === live]); live.delete('d'); }, { self: 1 });
             const iterator = live.entries(), prototype = Object.getPrototypeOf(iterator), rows = new URLSearchParams('a=1&a=2&b=1'); rows.delete('a', '1'); rows.delete('b', undefined);
             return [make({ 'x\\ud800': 1, 'x\\udbff': 2, y: '\\udc00' }), make(own), make([['a', 1]]), make(new Map([['m', 1]])), make(Object.create({ inherited: 1 })), make(Object.assign(() => {}, { f: 1 })), make(null),
               t(() => make({ [Symbol('s')]: 1 })), t(() => make([['a']])), t(() => make([1])), t(() => make({ [Symbol.iterator]: 1 })), seen, each,
               [prototype[Symbol.toStringTag], Object.getPrototypeOf(prototype) === Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())), Object.keys(prototype), iterator[Symbol.iterator]() === iterator, t(() => prototype.next.call({})), t(() => prototype.next.call(rows.keys()).value)],
               URLSearchParams.prototype.entries === URLSearchParams.prototype[Symbol.iterator], String(rows), [rows.has('a', '2'), rows.has('a', 1), rows.has('a', undefined)], t(() => live.forEach(1)), t(() => live.get())];"
        ),
        json!([
            [["x\u{fffd}", "2"], ["y", "\u{fffd}"]], [["b", "2"]], [["a", "1"]], [["m", "1"]], [], [["f", "1"]], [["null", ""]],
            "TypeError", "TypeError", "TypeError", "TypeError", ["a", "c"], [[1, "b", true]],
            ["URLSearchParams Iterator", true, ["next"], true, "TypeError", "a"],
            true, "a=2", [true, false, true], "TypeError", "TypeError"
        ])
    );
}

#[test]
fn attributes_of_urls_convert_what_is_assigned() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const u = new URL('https://a.example/x?q=1#h'), { searchParams } = u; Reflect.set(u, 'searchParams', 1); Reflect.set(u, 'origin', 'x');
             u.hash = { toString: () => 'z' }; u.search = '?r=\\ud800'; const shown = [u.hash, searchParams.get('r'), u.searchParams === searchParams, u.origin];
             u.href = 'https://b.example/?s=2'; searchParams.delete('s'); URLSearchParams.prototype.toString = () => 'bent'; searchParams.append('v', '1');
             return [shown, u.href, t(() => { u.href = 'nope'; }), u.host, t(() => { u.port = Symbol(); }), URL.parse('x', 'nope'), t(() => URL.parse()), t(() => new URL('/x', 'nope')), URL.canParse('x', undefined), URL.canParse('/x', u)];"
        ),
        json!([["#z", "\u{fffd}", true, "https://a.example"], "https://b.example/?v=1", "TypeError", "b.example", "TypeError", null, "TypeError", "TypeError", false, true])
    );
}

#[test]
fn text_is_encoded_and_decoded() {
    assert_eq!(
        value(
            "const bytes = new TextEncoder().encode('h\u{e4}\u{2603}\u{1f600}');
             const d = new TextDecoder(); let streamed = '';
             for (const byte of bytes) streamed += d.decode(new Uint8Array([byte]), { stream: true });
             streamed += d.decode();
             let fatal; try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])); } catch (e) { fatal = e.name; }
             const into = new Uint8Array(4);
             return [[...bytes], streamed, new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 65, 255])),
               new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array([0xef, 0xbb, 0xbf, 65])).length, fatal,
               new TextDecoder('latin1').decode(new Uint8Array([0x80, 0xe4])), new TextDecoder('utf-16le').decode(new Uint8Array([0x3d, 0xd8, 0, 0xde])),
               new TextEncoder().encodeInto('a\u{2603}\u{e4}', into), new TextDecoder('UTF8 ').encoding];"
        ),
        json!([
            [104, 195, 164, 226, 152, 131, 240, 159, 152, 128], "h\u{e4}\u{2603}\u{1f600}", "A\u{fffd}", 2, "TypeError", "\u{20ac}\u{e4}", "\u{1f600}",
            {"read": 2, "written": 4}, "utf-8"
        ])
    );
}

#[test]
fn base64_is_as_lenient_as_the_standard() {
    assert_eq!(
        value(
            "const fails = (f) => { try { f(); return false; } catch (e) { return e.name; } };
             return [btoa('h\u{e4}'), atob('aOQ='), atob(' a O Q '), atob(''), fails(() => atob('a')), fails(() => atob('aOQ==')), fails(() => atob('a!')), fails(() => btoa('\u{2603}')), fails(() => atob('YQ='))];"
        ),
        json!(["aOQ=", "h\u{e4}", "h\u{e4}", "", "InvalidCharacterError", "InvalidCharacterError", "InvalidCharacterError", "InvalidCharacterError", "InvalidCharacterError"])
    );
}

#[test]
fn structured_clone_copies_data_with_cycles() {
    assert_eq!(
        value(
            "const a = { d: new Date(5), r: /x/gi, m: new Map([[{ k: 1 }, new Set([1, 'b'])]]), v: new Uint16Array([1, 2, 3]).subarray(1), e: new RangeError('bad'), u: undefined, n: [1, , 3], b: 2n ** 70n };
             a.self = a;
             const c = structuredClone(a);
             const fails = (v) => { try { structuredClone(v); return false; } catch (e) { return [e.name, e instanceof DOMException, e.code]; } };
             const buffer = new ArrayBuffer(8); const moved = structuredClone(buffer, { transfer: [buffer] });
             return [c !== a, c.self === c, c.d instanceof Date && c.d.getTime(), String(c.r), [...c.m.keys()][0], [...[...c.m.values()][0]], [...c.v], c.e instanceof RangeError && c.e.message,
               'u' in c, 1 in c.n, c.b === a.b, fails(() => 1), fails({ s: Symbol() }), fails(new WeakMap()), buffer.byteLength, moved.byteLength];"
        ),
        json!([
            true, true, 5, "/x/gi", {"k": 1}, [1, "b"], [2, 3], "bad", true, false, true, ["DataCloneError", true, 25], ["DataCloneError", true, 25],
            ["DataCloneError", true, 25], 0, 8
        ])
    );
}

#[test]
fn digests_and_random_values() {
    assert_eq!(
        value(
            "const hex = (b) => [...new Uint8Array(b)].map((x) => x.toString(16).padStart(2, '0')).join('');
             const text = new TextEncoder().encode('abc');
             const uuid = crypto.randomUUID();
             let refused; try { await crypto.subtle.digest('MD5', text); } catch (e) { refused = e.name; }
             let tooMany; try { crypto.getRandomValues(new Uint8Array(65537)); } catch (e) { tooMany = e.name; }
             const r = crypto.getRandomValues(new Uint32Array(8));
             return [hex(await crypto.subtle.digest('SHA-256', text)), hex(await crypto.subtle.digest({ name: 'sha-1' }, text.buffer)), (await crypto.subtle.digest('SHA-512', text)).byteLength,
               (await crypto.subtle.digest('SHA-384', text)).byteLength, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid), uuid !== crypto.randomUUID(), refused, tooMany, r.some((x) => x > 0)];"
        ),
        json!([
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "a9993e364706816aba3e25717850c26c9cd0d89d", 64, 48, true, true, "NotSupportedError",
            "QuotaExceededError", true
        ])
    );
}

#[test]
fn math_random_differs_between_workers() {
    assert_ne!(value("return [Math.random(), Math.random()];"), value("return [Math.random(), Math.random()];"));
}

#[test]
fn events_and_abort_signals() {
    assert_eq!(
        value(
            "const seen = []; const target = new EventTarget();
             const once = (e) => seen.push('once ' + e.type); target.addEventListener('x', once, { once: true });
             target.addEventListener('x', { handleEvent(e) { e.preventDefault(); seen.push(e.target === target); } });
             const first = target.dispatchEvent(new Event('x', { cancelable: true })); const second = target.dispatchEvent(new CustomEvent('x', { detail: 1 }));
             const c = new AbortController(); let aborts = 0; c.signal.onabort = () => aborts++; const any = AbortSignal.any([c.signal]);
             c.abort(); c.abort('again');
             const late = AbortSignal.timeout(5); await new Promise((r) => late.addEventListener('abort', r));
             let thrown; try { c.signal.throwIfAborted(); } catch (e) { thrown = e.name; }
             return [seen, first, second, aborts, c.signal.aborted, any.aborted, thrown, late.reason.name, AbortSignal.abort('why').reason];"
        ),
        json!([["once x", true, true], false, true, 1, true, true, "AbortError", "TimeoutError", "why"])
    );
}

#[test]
fn headers_join_and_sort() {
    assert_eq!(
        value(
            "const h = new Headers({ B: '1', a: '2' }); h.append('b', '3'); h.append('set-cookie', 'x=1'); h.append('set-cookie', 'y=2');
             let refused; try { h.set('bad name', 'x'); } catch (e) { refused = e.name; } let split; try { h.set('x', 'a\\r\\nb'); } catch (e) { split = e.name; }
             return [[...h], h.get('B'), h.getSetCookie(), h.has('c'), refused, split];"
        ),
        json!([[["a", "2"], ["b", "1, 3"], ["set-cookie", "x=1"], ["set-cookie", "y=2"]], "1, 3", ["x=1", "y=2"], false, "TypeError", "TypeError"])
    );
}

#[test]
fn iterators_of_headers_follow_changes() {
    assert_eq!(
        value(
            "const h = new Headers({ b: '1', c: '2' }); const rows = h.entries(); rows.next(); h.set('d', '3'); h.append('c', '4');
             const later = [...rows]; const each = []; h.forEach((text, name, of) => each.push(name, text, of === h));
             return [later, each, [...h.keys()], [...h.values()], Object.prototype.toString.call(rows), Headers.prototype[Symbol.iterator] === Headers.prototype.entries];"
        ),
        json!([
            [["c", "2, 4"], ["d", "3"]],
            ["b", "1", true, "c", "2, 4", true, "d", "3", true],
            ["b", "c", "d"], ["1", "2, 4", "3"], "[object Headers Iterator]", true
        ])
    );
}

#[test]
fn iterators_of_headers_skip_and_repeat_as_rows_move() {
    assert_eq!(
        value(
            "const seen = (change) => { const h = new Headers({ bar: '0', baz: '1', foo: '2', quux: '3' }); const names = [];
                 for (const [name] of h) { names.push(name); if (name === 'baz') change(h); } return names.join(); };
             return [seen((h) => h.delete('foo')), seen((h) => h.delete('bar')), seen((h) => h.append('x', '4')), seen((h) => h.set('a', '4'))];"
        ),
        json!(["bar,baz,quux", "bar,baz,quux", "bar,baz,foo,quux,x", "bar,baz,baz,foo,quux"])
    );
}

#[test]
fn headers_are_made_of_records_and_rows_as_web_idl_says() {
    assert_eq!(
        value(
            "const log = []; const record = (target) => new Proxy(target, { get: (t, k) => { log.push('get ' + String(k)); return t[k]; },
                 ownKeys: (t) => { log.push('keys'); return Reflect.ownKeys(t); },
                 getOwnPropertyDescriptor: (t, k) => { log.push('own ' + String(k)); return Reflect.getOwnPropertyDescriptor(t, k); } });
             const kind = (make) => { try { make(); return 'none'; } catch (e) { return e.name; } };
             const order = [...new Headers(record({ a: '1', b: '2' }))].join(' '); const first = log.join(); log.length = 0;
             const bad = [kind(() => new Headers(record({ a: '\\uffff', b: '2' }))), log.join()];
             const own = new Headers({ a: '1' }); own[Symbol.iterator] = function* () { yield ['c', '3']; };
             return [order, first, bad, [...new Headers(own).keys()], kind(() => new Headers({ [Symbol()]: '1' })), kind(() => new Headers(['ab'])),
                 kind(() => new Headers([['a', 'b\\nc']])), new Headers({ a: '\\r\\n\\t\\fx\\n' }).get('a')];"
        ),
        json!([
            "a,1 b,2", "get Symbol(Symbol.iterator),keys,own a,get a,own b,get b",
            ["TypeError", "get Symbol(Symbol.iterator),keys,own a,get a"], ["c"], "TypeError", "TypeError", "TypeError", "\u{c}x"
        ])
    );
}

/// QuickJS has no buffers that grow.
#[test]
#[cfg(not(feature = "quickjs"))]
fn copies_of_views_follow_the_length_of_their_buffer() {
    assert_eq!(
        value(
            "const made = (View) => { const buffer = new ArrayBuffer(16, { maxByteLength: 64 }); return new View(buffer); };
             const grown = (view) => { view.buffer.resize(32); return view.byteLength; };
             const moved = made(Float64Array); const fixed = new Uint8Array(new ArrayBuffer(16, { maxByteLength: 64 }), 0, 16);
             const outside = new Uint8Array(new ArrayBuffer(16, { maxByteLength: 64 }), 8); outside.buffer.resize(4);
             const refused = (value) => { try { structuredClone(value); return 'none'; } catch (e) { return e.name; } };
             const source = made(Uint8Array); const kept = structuredClone(source);
             return [grown(kept), source.byteLength, grown(structuredClone(moved, { transfer: [moved.buffer] })), grown(structuredClone(made(DataView))),
                 grown(structuredClone(fixed)), refused(outside)];"
        ),
        json!([32, 16, 32, 32, 16, "DataCloneError"])
    );
}

#[test]
fn response_of_a_network_error_cannot_be_an_answer() {
    assert_eq!(
        value(
            "const r = Response.error(); let fixed; try { r.headers.set('a', '1'); } catch (e) { fixed = e.name; }
             const refused = (text) => { try { new Response('', { statusText: text }); return 'none'; } catch (e) { return e.name; } };
             return [r.type, r.status, r.ok, r.body, fixed, refused('\\n'), refused('\u{100}'), refused('Fine')];"
        ),
        json!(["error", 0, false, null, "TypeError", "TypeError", "TypeError", "none"])
    );
    let message = Worker::handler("return Response.error();").thrown(&Value::Null);
    assert!(message.contains("not with a network error"), "{message}");
    let message = Worker::handler("return new Response('', { headers: { a: '\\x01' } });").thrown(&Value::Null);
    assert!(message.contains("the header `a` has characters that cannot be sent"), "{message}");
}

#[test]
fn responses_can_be_read_back() {
    assert_eq!(
        value(
            "const r = Response.json({ a: 1 }); const c = r.clone(); const one = await r.json(); let twice; try { await r.text(); } catch (e) { twice = e.name; }
             return [one, twice, r.bodyUsed, await c.text(), c.headers.get('content-type'), r.ok, [...new Uint8Array(await new Response('\u{e4}').arrayBuffer())]];"
        ),
        json!([{"a": 1}, "TypeError", true, "{\"a\":1}", "application/json", true, [195, 164]])
    );
}

#[test]
fn dates_are_dates() {
    assert_eq!(
        value(
            "const d = new Date('2026-01-02T03:04:05.678Z'); return [d.toISOString(), new Date(2026, 0).getTimezoneOffset(), Date.UTC(2026, 0), Date.name, Date.length, class extends Date {}.prototype instanceof Date, 'b'.localeCompare('a'), (1234.5).toLocaleString('en-US')];"
        ),
        json!([
            "2026-01-02T03:04:05.678Z",
            0,
            1_767_225_600_000u64,
            "Date",
            7,
            true,
            1,
            if cfg!(feature = "quickjs") { "1234.5" } else { "1,234.5" }
        ])
    );
}

#[test]
fn math_random_uses_the_system_and_follows_the_language() {
    let mut worker = Worker::handler(
        "const drawn = []; for (let i = 0; i < 1000; i++) drawn.push(Math.random());
         const { value, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(Math, 'random');
         return { drawn, shape: [typeof value, value.name, value.length, 'prototype' in value, writable, enumerable, configurable] };",
    );
    let mut all = Vec::new();
    for _ in 0..2 {
        let answer = worker.json(&Value::Null);
        assert_eq!(answer["shape"], json!(["function", "random", 0, false, true, false, true]));
        all.extend(answer["drawn"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()));
    }
    assert!(all.iter().all(|number| (0.0..1.0).contains(number)));
    for tenth in 0..10 {
        let there = all.iter().filter(|number| (**number * 10.0) as usize == tenth).count();
        assert!((100..300).contains(&there), "{there} of 2000 in tenth {tenth}");
    }
    all.sort_by(f64::total_cmp);
    all.dedup();
    assert_eq!(all.len(), 2_000);
}

#[test]
fn search_params_are_well_formed_in_values_and_lookups() {
    assert_eq!(
        value(
            "const p = new URLSearchParams(), k = 'a\\uD800b'; p.append(k, '1'); p.set('v', '\\uDC00');
             const q = new URLSearchParams('?a\\uD800b=2'), r = new URLSearchParams([[k, '\\uD800']]);
             const kept = [[...p][0][0] === 'a\\uFFFDb', p.get('a\\uFFFDb'), p.get('v'), q.get(k), q.has(k), q.getAll(k), r.has(k, '\\uD800'), q.has(k, '3')];
             q.delete(k); return [...kept, q.size];"
        ),
        json!([true, "1", "\u{fffd}", "2", true, ["2"], true, false, 0])
    );
}

#[test]
fn byte_order_mark_is_removed_from_a_response() {
    assert_eq!(
        value(
            "return [await new Response('\\uFEFF{\"a\":1}').json(), (await new Response('\\uFEFFx').text()).length, await new Response(new TextEncoder().encode('\\uFEFF1')).json(),
               (await new Response('\\uFEFFx').bytes()).length, (await new Response('\\uFEFF\\uFEFFx').text()).length];"
        ),
        json!([{"a": 1}, 1, 1, 4, 2])
    );
    assert_eq!(value("return new Response('\\uFEFF{\"a\":1}', { headers: { 'content-type': 'application/json' } });"), json!({"a": 1}));
}

#[test]
fn every_web_class_has_its_string_tag() {
    assert_eq!(
        value(
            "return [new URL('http://a'), new URLSearchParams(), new Headers(), new Response(), new AbortController(), new AbortController().signal, new Event('x'), new CustomEvent('x'),
               new EventTarget(), new TextEncoder(), new TextDecoder(), new DOMException(), crypto, crypto.subtle, performance, console]
               .map((x) => Object.prototype.toString.call(x).slice(8, -1));"
        ),
        json!([
            "URL", "URLSearchParams", "Headers", "Response", "AbortController", "AbortSignal", "Event", "CustomEvent", "EventTarget", "TextEncoder", "TextDecoder",
            "DOMException", "Crypto", "SubtleCrypto", "Performance", "console"
        ])
    );
}

#[test]
fn clones_of_exceptions_tags_and_proxies_follow_the_standard() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const tagged = new Date(5); tagged[Symbol.toStringTag] = 'Map';
             return [t(() => { const c = structuredClone(new DOMException('m', 'AbortError')); return [c.name, c.code, c.message, c instanceof DOMException] }),
               t(() => structuredClone(Object(Symbol()))), t(() => structuredClone({ [Symbol.toStringTag]: 'Date', a: 1 })), t(() => structuredClone()),
               t(() => structuredClone(new Proxy({}, {}))), t(() => structuredClone({ a: [new Proxy([], {})] })), t(() => structuredClone(new Headers())),
               t(() => structuredClone(new URL('http://a'))), t(() => structuredClone(tagged).getTime()), t(() => structuredClone({ [Symbol.toStringTag]: 'Promise', b: 1 })),
               t(() => structuredClone(undefined) === undefined), t(() => [...structuredClone(new Map([[1, new Set([2])]])).get(1)]), t(() => structuredClone(Object(5)).valueOf())];"
        ),
        json!([
            ["AbortError", 20, "m", true], "DataCloneError", {"a": 1}, "TypeError", "DataCloneError", "DataCloneError", "DataCloneError", "DataCloneError", 5, {"b": 1},
            true, [2], 5
        ])
    );
}

#[test]
fn transferred_buffers_move_wherever_they_occur_or_not_at_all() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const make = () => new ArrayBuffer(4), one = make(), view = new Uint8Array(one, 1, 2); view[0] = 7;
             const m = structuredClone({ view, one, map: new Map([[one, view], ['k', 1]]), set: new Set([view, 2]), e: new Error('x', { cause: one }), list: [one] }, { transfer: [one] });
             const kept = make(), failed = t(() => structuredClone({ kept, f() {} }, { transfer: [kept] })), unused = make(); structuredClone(1, { transfer: [unused] });
             return [[[...m.view], m.view.buffer === m.one, m.map.get(m.one) === m.view, m.set.has(m.view), m.e.cause === m.one, m.list[0] === m.one, one.byteLength, Object.keys(m).join()],
               failed, kept.byteLength, unused.byteLength, t(() => structuredClone(one)), t(() => structuredClone(one, { transfer: [one] })), t(() => structuredClone(view)), t(() => structuredClone(1, { transfer: [{}] })),
               t(() => structuredClone(1, { transfer: [kept, kept] })), t(() => structuredClone(1, 5)), t(() => structuredClone(1, { transfer: 5 })), kept.byteLength];"
        ),
        json!([
            [[7, 0], true, true, true, true, true, 0, "view,one,map,set,e,list"], "DataCloneError", 4, 0, "DataCloneError", "DataCloneError", "DataCloneError", "DataCloneError",
            "DataCloneError", "TypeError", "TypeError", 4
        ])
    );
}

#[test]
fn objects_of_the_web_are_not_cloned_and_errors_are() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const named = structuredClone(Object.assign(new RangeError('r'), { name: 'TypeError', code: 1 })), all = structuredClone(new AggregateError([1], 'm', { cause: { a: 1 } }));
             return [[new TextDecoder(), new TextEncoder(), crypto, performance, navigator, new AbortController(), new Event('x'), new EventTarget(), globalThis].map((value) => t(() => structuredClone(value))),
               t(() => structuredClone(Object.create(URL.prototype))), [named.constructor.name, named.message, 'code' in named], [all.name, all.message, all.cause.a, 'errors' in all],
               (() => { const error = structuredClone(new Error('e', { cause: new DOMException('d', 'DataError') })); return [error.cause.name, error.cause instanceof DOMException]; })()];"
        ),
        json!([vec!["DataCloneError"; 9], {}, ["TypeError", "r", false], ["Error", "m", 1, false], ["DataError", true]])
    );
}

#[test]
fn small_details_follow_their_standards() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const reached = (stop) => { const e = new Event('x', { cancelable: true }); let n = 0; const g = new EventTarget(); g.addEventListener('x', () => n++); stop(e); g.dispatchEvent(e); g.dispatchEvent(e); return n; };
             return [t(() => new Headers(null)), t(() => new Headers({ a: '\\u00a0x \\t' }).get('a').length), t(() => new Response('x', { status: 200.9 }).status), t(() => new Response('x', { status: NaN })),
               t(() => new Response('x', { status: 199 })), t(() => new Response('x', { status: 65736 }).status), t(() => Response.redirect('/x')), t(() => Response.redirect('http://a').headers.get('location')),
               reached((e) => e.stopImmediatePropagation()), reached((e) => e.stopPropagation()), reached(() => {}), t(() => new Event()), t(() => new CustomEvent()),
               DOMException.ABORT_ERR, new DOMException().DATA_CLONE_ERR, Event.AT_TARGET, new Event('a').BUBBLING_PHASE, t(() => new DOMException('m', { name: 'X', cause: 1 }).cause)];"
        ),
        json!(["TypeError", 2, 200, "RangeError", "RangeError", 200, "TypeError", "http://a/", 1, 1, 2, "TypeError", "TypeError", 20, 25, 2, 3, 1])
    );
}

#[test]
fn response_json_reads_its_headers_once() {
    assert_eq!(
        value(
            "function* rows() { yield ['x-a', 'b']; }
             const r = Response.json({ a: 1 }, { headers: rows(), status: 201 }); const own = Response.json(1, { headers: { 'Content-Type': 'application/problem+json' } });
             const fails = []; for (const make of [() => Response.json(undefined), () => Response.json(1n), () => Response.json(1, { status: 204 })]) { try { make(); } catch (e) { fails.push(e.name); } }
             return [r.status, [...r.headers], own.headers.get('content-type'), fails, await r.json()];"
        ),
        json!([201, [["content-type", "application/json"], ["x-a", "b"]], "application/problem+json", ["TypeError", "TypeError", "TypeError"], {"a": 1}])
    );
}

#[test]
fn marks_and_measures_belong_to_the_call_and_are_bounded() {
    let mut worker = Worker::handler(
        "const before = performance.getEntries().length;
         performance.mark('a', { detail: { n: 1 } }); await new Promise((done) => setTimeout(done, 20)); performance.mark('b');
         const measured = performance.measure('ab', 'a', 'b'); const none = (() => { try { performance.measure('x', 'none'); } catch (e) { return e.name; } })();
         const names = performance.getEntriesByType('mark').map((entry) => entry.name); performance.clearMarks('a');
         const left = performance.getEntries().map((entry) => entry.name);
         for (let i = 0; i < 5_000; i++) performance.mark('many');
         return [before, measured.duration >= 15, none, names, left, performance.getEntries().length <= 1_000, Object.isFrozen(measured), typeof JSON.parse(JSON.stringify(performance)).timeOrigin];",
    );
    for _ in 0..2 {
        assert_eq!(worker.json(&Value::Null), json!([0, true, "SyntaxError", ["a", "b"], ["b", "ab"], true, true, "number"]));
    }
}

#[test]
fn missing_key_functions_get_advice() {
    for body in ["return crypto.subtle.timingSafeEqual(1, 2);", "const { subtle } = crypto; return subtle.encapsulateBits('ML-KEM-768');"] {
        let thrown = Worker::handler(body).thrown(&Value::Null);
        assert!(thrown.contains("`crypto.subtle.verify`") || cfg!(not(feature = "v8")), "{thrown}");
    }
    let own = Worker::handler("const verify = undefined; return verify();").thrown(&Value::Null);
    assert!(!own.contains("noble"), "{own}");
}
