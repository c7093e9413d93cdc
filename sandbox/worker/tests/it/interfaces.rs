//! Classes of the web compared with Web IDL.

use serde_json::{Value, json};

use crate::harness::Worker;

fn value(body: &str) -> Value {
    Worker::handler(body).json(&Value::Null)
}

#[test]
fn exceptions_are_errors_with_members_of_their_prototype() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             class Mine extends DOMException { #own = 1; get own() { return this.#own; } }
             const d = new DOMException('m', 'AbortError'), mine = new Mine('hi', 'InUseAttributeError');
             const shape = (object, key) => { const d = Object.getOwnPropertyDescriptor(object, key); return [typeof (d.value ?? d.get), d.enumerable, d.configurable]; };
             return [[d.message, d.name, d.code, String(d), Object.keys(d), d instanceof Error, typeof d.stack], [mine.own, mine.code, mine.message, mine instanceof Mine],
               Object.hasOwn(d, 'message'), Object.getPrototypeOf(DOMException) === Function.prototype, Object.getPrototypeOf(DOMException.prototype) === Error.prototype,
               ['name', 'message', 'code', 'ABORT_ERR'].map((key) => shape(DOMException.prototype, key)), shape(DOMException, 'DATA_CLONE_ERR'),
               t(() => DOMException.prototype.name), t(() => DOMException.prototype.message), t(() => DOMException()), t(() => new DOMException(Symbol())), DOMException.length];"
        ),
        json!([
            ["m", "AbortError", 20, "AbortError: m", [], true, "string"],
            [1, 10, "hi", true],
            false, true, true,
            [["function", true, true], ["function", true, true], ["function", true, true], ["number", true, false]],
            ["number", true, false],
            "TypeError", "TypeError", "TypeError", "TypeError", 0
        ])
    );
}

#[test]
fn legacy_names_of_exceptions_have_their_codes() {
    assert_eq!(
        value(
            "const names = ['IndexSizeError', 'HierarchyRequestError', 'WrongDocumentError', 'InvalidCharacterError', 'NoModificationAllowedError', 'NotFoundError',
               'NotSupportedError', 'InUseAttributeError', 'InvalidStateError', 'SyntaxError', 'InvalidModificationError', 'NamespaceError', 'InvalidAccessError',
               'TypeMismatchError', 'SecurityError', 'NetworkError', 'AbortError', 'URLMismatchError', 'QuotaExceededError', 'TimeoutError', 'InvalidNodeTypeError',
               'DataCloneError', 'EncodingError', 'constructor'];
             const constants = Object.keys(DOMException).filter((name) => name.endsWith('_ERR'));
             return [names.map((name) => new DOMException('', name).code), constants.length, constants.every((name, at) => DOMException[name] === at + 1 && DOMException.prototype[name] === at + 1)];"
        ),
        json!([[1, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 0, 0], 25, true])
    );
}

#[test]
fn quota_errors_have_their_amounts() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const q = new QuotaExceededError('m', { quota: 1, requested: 2 }), copy = structuredClone(q), none = new QuotaExceededError();
             return [[q.name, q.code, q.message, q.quota, q.requested, q instanceof DOMException], [copy.quota, copy.requested, copy instanceof QuotaExceededError], [none.quota, none.requested, none.message],
               t(() => new QuotaExceededError('', { quota: -1 })), t(() => new QuotaExceededError('', { quota: 2, requested: 1 })), t(() => new QuotaExceededError('', { quota: NaN })),
               t(() => new QuotaExceededError('', 1)), t(() => Reflect.get(QuotaExceededError.prototype, 'quota'))];"
        ),
        json!([
            ["QuotaExceededError", 22, "m", 1, 2, true], [1, 2, true], [null, null, ""], "RangeError", "RangeError", "TypeError", "TypeError", "TypeError"
        ])
    );
}

/// Names the interfaces of the tests below, and returns a sample of each by name.
const SAMPLES: &str = "const samples = { URL: new URL('http://a'), URLSearchParams: new URLSearchParams('a=1'), TextEncoder: new TextEncoder(), TextDecoder: new TextDecoder(), Event: new Event('x'),
       ProgressEvent: new ProgressEvent('x'), FileReader: new FileReader(), CustomEvent: new CustomEvent('x'), EventTarget: new EventTarget(), AbortSignal: new AbortController().signal, AbortController: new AbortController(),
       DOMException: new DOMException(), QuotaExceededError: new QuotaExceededError(), Crypto: crypto, SubtleCrypto: crypto.subtle,
       CryptoKey: await crypto.subtle.importKey('raw', new Uint8Array(1), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']), Performance: performance, Navigator: navigator,
       Headers: new Headers({ a: 'b' }), Request: new Request('http://a'), Response: new Response('a') };
     const ofFunctions = ['length', 'name', 'prototype'];
     const members = (holder) => Reflect.ownKeys(holder).filter((key) => typeof key === 'string' && key !== 'constructor' && !(typeof holder === 'function' && ofFunctions.includes(key)))
       .map((key) => ({ key, ...Object.getOwnPropertyDescriptor(holder, key) }));
     const t = (f) => { try { f(); return 'none'; } catch (e) { return e.name; } };";

#[test]
fn members_of_interfaces_are_enumerable_and_named() {
    assert_eq!(
        value(&format!(
            "{SAMPLES} const wrong = [];
             for (const name of Object.keys(samples)) for (const holder of [globalThis[name], globalThis[name].prototype]) for (const member of members(holder)) {{
               if (!member.enumerable) wrong.push(`${{name}}.${{member.key}}`);
               if (typeof member.value === 'function' && (member.value.name !== member.key || 'prototype' in member.value)) wrong.push(`${{name}}.${{member.key}} is named ${{member.value.name}}`);
             }}
             const global = (name) => {{ const {{ enumerable, writable, configurable }} = Object.getOwnPropertyDescriptor(globalThis, name); return [enumerable, writable, configurable]; }};
             const lengths = [[URL, 1], [URL.canParse, 1], [URLSearchParams, 0], [URLSearchParams.prototype.append, 2], [URLSearchParams.prototype.has, 1], [TextEncoder.prototype.encodeInto, 2],
               [TextDecoder.prototype.decode, 0], [Event, 1], [EventTarget.prototype.addEventListener, 2], [AbortSignal.timeout, 1], [crypto.subtle.digest, 2], [crypto.subtle.deriveBits, 2], [crypto.subtle.importKey, 5],
               [crypto.subtle.unwrapKey, 7], [Crypto, 0], [atob, 1], [setTimeout, 1],
               [clearTimeout, 0], [structuredClone, 1], [Headers, 0], [Headers.prototype.append, 2], [Request, 1], [Response, 0], [Response.json, 1], [fetch, 1]].filter(([f, length]) => f.length !== length).map(([f]) => f.name);
             return [wrong, global('URL'), global('atob'), global('fetch'), lengths, [setInterval, clearInterval, queueMicrotask, btoa].map((f) => f.name)];"
        )),
        json!([[], [false, true, true], [true, true, true], [true, true, true], [], ["setInterval", "clearInterval", "queueMicrotask", "btoa"]])
    );
}

#[test]
fn members_of_interfaces_reject_other_objects_and_missing_arguments() {
    assert_eq!(
        value(&format!(
            "{SAMPLES} const wrong = [];
             for (const [name, sample] of Object.entries(samples)) {{
               for (const {{ key, value, get, set }} of members(globalThis[name].prototype)) {{
                 for (const other of [{{}}, Object.create(globalThis[name].prototype), 1]) {{
                   if (get && t(() => get.call(other)) !== 'TypeError') wrong.push(`get ${{name}}.${{key}}`);
                   if (set && t(() => set.call(other, 'a')) !== 'TypeError') wrong.push(`set ${{name}}.${{key}}`);
                   if (typeof value !== 'function') continue;
                   const settled = () => {{ const p = value.call(other, 'a', 'b'); if (p instanceof Promise) p.then(() => wrong.push(`${{name}}.${{key}} resolved`), () => {{}}); else throw p; }};
                   if (!['TypeError', 'none'].includes(t(settled))) wrong.push(`${{name}}.${{key}}`);
                 }}
                 if (typeof value === 'function' && value.length > 0) {{
                   let rejected = false;
                   const thrown = t(() => {{ const p = value.call(sample); if (p instanceof Promise) {{ rejected = true; p.catch(() => {{}}); }} }});
                   if (thrown !== 'TypeError' && !rejected) wrong.push(`${{name}}.${{key}}() throws ${{thrown}}`);
                 }}
               }}
             }}
             await null;
             return [wrong, [() => new Crypto(), () => new SubtleCrypto(), () => new CryptoKey(), () => new Performance(), () => new Navigator(), () => new AbortSignal(), () => new (class extends Crypto {{}})(), () => URL('http://a'),
               () => new URL(), () => Event('x'), () => new Event(), () => new TextDecoder('utf-8', 1), () => atob(), () => structuredClone(), () => setTimeout(), () => URL.canParse(),
               () => new URL(Symbol()), () => new TextEncoder().encode(Symbol())].map(t)];"
        )),
        json!([[], vec!["TypeError"; 18]])
    );
}

#[test]
fn crypto_and_text_interfaces_follow_their_standards() {
    assert_eq!(
        value(
            "const t = (f) => { try { return f() } catch (e) { return e.name } };
             const caught = async (f) => { try { await f(); return 'none'; } catch (e) { return e.name; } };
             const quota = (() => { try { crypto.getRandomValues(new Uint16Array(40_000)) } catch (e) { return [e.constructor === QuotaExceededError, e.quota, e.requested] } })();
             const into = new Uint8Array(5);
             return [quota, t(() => crypto.getRandomValues({})), t(() => crypto.getRandomValues(new DataView(new ArrayBuffer(1)))), t(() => crypto.getRandomValues(new Float32Array(1))),
               await caught(() => crypto.subtle.digest('SHA-256')), await caught(() => crypto.subtle.digest({}, into)), await caught(() => SubtleCrypto.prototype.digest.call({}, 'SHA-256', into)),
               t(() => new TextEncoder().encodeInto('a', new Int8Array(1))), t(() => new TextEncoder().encodeInto('a', new Uint16Array(1))), t(() => new TextEncoder().encodeInto('a', null)),
               new TextEncoder().encodeInto('a\\ud800b\\u{1f600}', into), [...into], [...new TextEncoder().encode('\\ud800x')], new TextEncoder().encodeInto('', into),
               navigator.userAgent, performance instanceof EventTarget, performance instanceof Performance, crypto instanceof Crypto, crypto.subtle === crypto.subtle, Object.keys(performance.toJSON())];"
        ),
        json!([
            [true, 65536, 80000], "TypeError", "TypeMismatchError", "TypeMismatchError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError",
            {"read": 3, "written": 5}, [97, 239, 191, 189, 98], [239, 191, 189, 120], {"read": 0, "written": 0}, "Tollhouse", true, true, true, true, ["timeOrigin"]
        ])
    );
}

#[test]
fn plain_objects_are_cloned_without_exceptions() {
    // The scripts of `deno_web` set the code of each exception for an object of another kind.
    assert_eq!(
        value(
            "let exceptions = 0; Object.defineProperty(TypeError.prototype, 'code', { set() { exceptions++; }, configurable: true });
             const copy = structuredClone({ a: [{ b: 1 }], c: new Map([[1, { d: 2 }]]) }), count = exceptions;
             const file = structuredClone(new File(['a'], 'name', { type: 'text/plain' })), fake = Object.create(Blob.prototype);
             return [count, copy.a[0].b, copy.c.get(1).d, [file instanceof File, file.name, file.type, await file.text()], structuredClone(fake) instanceof Blob,
               (() => { try { structuredClone(new ReadableStream()); } catch (e) { return e.name; } })()];"
        ),
        json!([0, 1, 2, [true, "name", "text/plain", "a"], false, "DataCloneError"])
    );
}
