//! `crypto.subtle`, compared with the Web Cryptography API, and as libraries and webhooks use it.
//! Known answers of the algorithms are tests of `tollhouse-webcrypto`.

use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tollhouse_protocol::{Limits, Outcome, StopReason};

use crate::harness::Worker;

/// Functions of the handlers below.
const TOOLS: &str = "const { subtle } = crypto, utf8 = (text) => new TextEncoder().encode(text);
     const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/[+]/g, '-').replace(/[/]/g, '_').replace(/=/g, '');
     const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
     const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
     const caught = async (f) => { try { await f(); return 'none'; } catch (e) { return e.name; } };";

fn worker(body: &str) -> Worker {
    Worker::handler_limited(&format!("{TOOLS}\n{body}"), Limits { cpu_ms: 10_000, wall_ms: 20_000, ..Limits::default() })
}

fn value(body: &str) -> Value {
    worker(body).json(&Value::Null)
}

#[test]
fn pairs_sign_agree_and_survive_their_formats() {
    assert_eq!(
        value(
            "const rows = [];
             for (const [algorithm, usages] of [[{ name: 'RSA-PSS', modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' }, ['sign', 'verify']],
               [{ name: 'RSASSA-PKCS1-v1_5', modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-512' }, ['sign', 'verify']],
               [{ name: 'ECDSA', namedCurve: 'P-256' }, ['sign', 'verify']], [{ name: 'ecdsa', namedCurve: 'P-384' }, ['sign', 'verify']], [{ name: 'ECDSA', namedCurve: 'P-521' }, ['sign', 'verify']],
               ['ed25519', ['sign', 'verify']], [{ name: 'ECDH', namedCurve: 'P-256' }, ['deriveBits']], ['X25519', ['deriveBits', 'deriveKey']]]) {
               const { privateKey, publicKey } = await subtle.generateKey(algorithm, true, usages), same = [], text = async (key) => JSON.stringify(await subtle.exportKey('jwk', key));
               for (const format of ['jwk', 'pkcs8']) same.push(await text(await subtle.importKey(format, await subtle.exportKey(format, privateKey), algorithm, true, privateKey.usages)) === await text(privateKey));
               for (const format of ['jwk', 'spki', ...(algorithm.hash ? [] : ['raw'])]) same.push(await text(await subtle.importKey(format, await subtle.exportKey(format, publicKey), algorithm, true, publicKey.usages)) === await text(publicKey));
               const { name } = privateKey.algorithm, parameters = { name, hash: 'SHA-256', saltLength: 16 };
               if (usages[0] === 'sign') {
                 const signature = await subtle.sign(parameters, privateKey, utf8('m'));
                 same.push(await subtle.verify(parameters, publicKey, signature, utf8('m')), !await subtle.verify(parameters, publicKey, signature, utf8('n')));
               } else {
                 const other = await subtle.generateKey(algorithm, false, usages), bits = async (mine, theirs) => hex(await subtle.deriveBits({ name, public: theirs }, mine, 250));
                 same.push(await bits(privateKey, other.publicKey) === await bits(other.privateKey, publicKey), parseInt((await bits(privateKey, other.publicKey)).slice(-1), 16) % 4 === 0);
               }
               rows.push([name, privateKey.type, publicKey.usages.join(), publicKey.extractable, same.every(Boolean)]);
             }
             return rows;"
        ),
        json!([
            ["RSA-PSS", "private", "verify", true, true],
            ["RSASSA-PKCS1-v1_5", "private", "verify", true, true],
            ["ECDSA", "private", "verify", true, true],
            ["ECDSA", "private", "verify", true, true],
            ["ECDSA", "private", "verify", true, true],
            ["Ed25519", "private", "verify", true, true],
            ["ECDH", "private", "", true, true],
            ["X25519", "private", "", true, true]
        ])
    );
}

#[test]
fn texts_are_encrypted_and_keys_are_wrapped_and_derived() {
    assert_eq!(
        value(
            "const iv = new Uint8Array(16), rows = [], inner = await subtle.generateKey({ name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
             for (const name of ['AES-CBC', 'AES-CTR', 'AES-GCM']) for (const length of [128, 192, 256]) {
               const key = await subtle.generateKey({ name, length }, true, ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey']), parameters = { name, iv, counter: iv, length: 64 }, sizes = [];
               for (const size of [0, 1, 16, 1000]) { const sealed = await subtle.encrypt(parameters, key, new Uint8Array(size).fill(7)); sizes.push(sealed.byteLength, hex(await subtle.decrypt(parameters, key, sealed)) === '07'.repeat(size)); }
               const wrapped = await subtle.wrapKey('jwk', inner, key, parameters), outer = await subtle.unwrapKey('jwk', wrapped, key, parameters, { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']);
               sizes.push((await subtle.exportKey('jwk', outer)).k === (await subtle.exportKey('jwk', inner)).k); if (length === 192) rows.push([name, ...sizes]);
             }
             const kw = await subtle.generateKey({ name: 'AES-KW', length: 256 }, false, ['wrapKey', 'unwrapKey']), wrapped = await subtle.wrapKey('raw', inner, kw, 'AES-KW');
             const oaep = await subtle.generateKey({ name: 'RSA-OAEP', modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-1' }, true, ['encrypt', 'decrypt']), label = utf8('l');
             const sealed = await subtle.encrypt({ name: 'RSA-OAEP', label }, oaep.publicKey, utf8('text')), opened = new TextDecoder().decode(await subtle.decrypt({ name: 'RSA-OAEP', label }, oaep.privateKey, sealed));
             const secret = await subtle.importKey('raw', utf8('password'), 'PBKDF2', false, ['deriveBits', 'deriveKey']), pbkdf2 = { name: 'PBKDF2', hash: 'SHA-1', salt: utf8('salt'), iterations: 4096 };
             const ikm = await subtle.importKey('raw', new Uint8Array(22).fill(11), 'HKDF', false, ['deriveKey']), hkdf = { name: 'HKDF', hash: 'SHA-256', salt: Uint8Array.from({ length: 13 }, (_, i) => i), info: Uint8Array.from({ length: 10 }, (_, i) => 240 + i) };
             const derived = await subtle.deriveKey(hkdf, ikm, { name: 'AES-GCM', length: 256 }, true, ['encrypt']);
             return [rows, wrapped.byteLength, (await subtle.unwrapKey('raw', wrapped, kw, 'AES-KW', { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])).algorithm, opened,
               hex(await subtle.deriveBits(pbkdf2, secret, 160)), derived.algorithm, hex(await subtle.exportKey('raw', derived))];"
        ),
        json!([
            [
                ["AES-CBC", 16, true, 16, true, 32, true, 1008, true, true],
                ["AES-CTR", 0, true, 1, true, 16, true, 1000, true, true],
                ["AES-GCM", 16, true, 17, true, 32, true, 1016, true, true]
            ],
            72,
            {"name": "HMAC", "hash": {"name": "SHA-256"}, "length": 512},
            "text",
            "4b007901b765489abead49d926f721d065a429c1",
            {"name": "AES-GCM", "length": 256},
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
        ])
    );
}

/// The tokens of RFC 7515 and RFC 8037, and tokens that are signed and verified as the package `jose`
/// does it.
#[test]
fn tokens_of_hs256_rs256_es256_and_eddsa_are_signed_and_verified() {
    let pem = STANDARD.encode(include_bytes!("../../../../tests/fuzz/seeds/webcrypto-key/rsa.pkcs8"));
    assert_eq!(
        value(&format!(
            "const claims = 'eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ', out = [];
             const verify = async (jwk, algorithm, token) => {{
               const [head, payload, signature] = token.split('.'), key = await subtle.importKey('jwk', jwk, algorithm, false, ['verify']);
               return [await subtle.verify(algorithm, key, decode(signature), utf8(`${{head}}.${{payload}}`)), await subtle.verify(algorithm, key, decode(signature), utf8(`${{head}}.x`))];
             }};
             const hs256 = {{ name: 'HMAC', hash: 'SHA-256' }}, es256 = {{ name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }}, rs256 = {{ name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }};
             out.push(await verify({{ kty: 'oct', k: 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow' }}, hs256, `eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.${{claims}}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk`));
             out.push(await verify({{ kty: 'EC', crv: 'P-256', x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU', y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0' }}, es256,
               `eyJhbGciOiJFUzI1NiJ9.${{claims}}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q`));
             const okp = {{ kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', alg: 'EdDSA' }}, signing = 'eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc';
             const eddsa = await subtle.importKey('jwk', {{ ...okp, d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A' }}, 'Ed25519', false, ['sign']), signature = encode(await subtle.sign('Ed25519', eddsa, utf8(signing)));
             out.push(signature, await verify(okp, {{ name: 'Ed25519' }}, `${{signing}}.${{signature}}`));
             const rsa = await subtle.importKey('pkcs8', decode('{pem}'), rs256, true, ['sign']), {{ kty, n, e }} = await subtle.exportKey('jwk', rsa);
             out.push(await verify({{ kty, n, e, alg: 'RS256', use: 'sig' }}, rs256, `${{claims}}.${{claims}}.${{encode(await subtle.sign('RSASSA-PKCS1-v1_5', rsa, utf8(`${{claims}}.${{claims}}`)))}}`));
             const pair = await subtle.generateKey(es256, false, ['sign', 'verify']), made = await subtle.sign(es256, pair.privateKey, utf8('h.p'));
             return [...out, await verify(await subtle.exportKey('jwk', pair.publicKey), es256, `h.p.${{encode(made)}}`), rsa.algorithm.modulusLength, rsa.algorithm.publicExponent.join(), rsa instanceof CryptoKey];"
        )),
        json!([
            [true, false],
            [true, false],
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
            [true, false],
            [true, false],
            [true, false],
            1024,
            "1,0,1",
            true
        ])
    );
}

#[test]
fn signatures_of_webhooks_are_verified() {
    assert_eq!(
        value(
            "const verify = async (secret, signature, text) => {
               const key = await subtle.importKey('raw', utf8(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
               return subtle.verify('HMAC', key, Uint8Array.from(signature.match(/../g), (byte) => parseInt(byte, 16)), utf8(text));
             };
             const github = (body) => verify(\"It's a Secret to Everybody\", 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'.slice(7), body);
             const stripe = (header, body) => { const { t, v1 } = Object.fromEntries(header.split(',').map((part) => part.split('='))); return verify('whsec_test', v1, `${t}.${body}`); };
             const header = 't=1760000000,v1=66e880d7175fffb43ce10c4e14db1cfb230c8804b5aafb116affbc9a836c7690';
             return [await github('Hello, World!'), await github('Hello, World?'), await stripe(header, '{\"id\":\"evt_1\"}'), await stripe(header.replace('t=1', 't=2'), '{\"id\":\"evt_1\"}')];"
        ),
        json!([true, false, true, false])
    );
}

/// Each row: the expression that fails, and the name of its error.
const ERRORS: &[(&str, &str)] = &[
    ("subtle.sign('HMAC', {}, data)", "TypeError"),
    ("subtle.sign('HMAC', hmac, 'text')", "TypeError"),
    ("subtle.sign('MD5', hmac, data)", "NotSupportedError"),
    ("subtle.sign('HMA\\u0421', hmac, data)", "NotSupportedError"),
    ("subtle.sign({}, hmac, data)", "TypeError"),
    ("subtle.sign('Ed25519', hmac, data)", "InvalidAccessError"),
    ("subtle.verify('HMAC', hmac, data, data)", "InvalidAccessError"),
    ("subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.publicKey, data)", "InvalidAccessError"),
    ("subtle.sign('ECDSA', pair.privateKey, data)", "TypeError"),
    ("subtle.encrypt({ name: 'AES-GCM' }, aes, data)", "TypeError"),
    ("subtle.encrypt({ name: 'AES-GCM', iv: data, tagLength: 16 }, aes, data)", "OperationError"),
    ("subtle.encrypt({ name: 'AES-GCM', iv: data, tagLength: 256 }, aes, data)", "TypeError"),
    ("subtle.encrypt({ name: 'AES-GCM', iv: new Uint8Array(0) }, aes, data)", "OperationError"),
    ("subtle.decrypt({ name: 'AES-GCM', iv: data }, aes, new Uint8Array(40))", "OperationError"),
    ("subtle.decrypt({ name: 'AES-GCM', iv: data }, aes, new Uint8Array(4))", "OperationError"),
    ("subtle.importKey('raw', data, 'AES-GCM', true, ['encrypt'])", "DataError"),
    ("subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', true, [])", "SyntaxError"),
    ("subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', true, ['sign'])", "SyntaxError"),
    ("subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', true, ['fly'])", "TypeError"),
    ("subtle.importKey('raw', new Uint8Array(16), 'AES-GCM', true, 'encrypt')", "TypeError"),
    ("subtle.importKey('der', new Uint8Array(16), 'AES-GCM', true, ['encrypt'])", "TypeError"),
    ("subtle.importKey('spki', new Uint8Array(16), 'AES-GCM', true, ['encrypt'])", "NotSupportedError"),
    ("subtle.importKey('raw', data, 'HKDF', true, ['deriveBits'])", "SyntaxError"),
    ("subtle.importKey('jwk', data, 'AES-GCM', true, ['encrypt'])", "TypeError"),
    ("subtle.importKey('jwk', { kty: 'oct', k: 'AA=' }, { name: 'HMAC', hash: 'SHA-1' }, true, ['sign'])", "DataError"),
    ("subtle.importKey('jwk', { kty: 'RSA', k: 'AA' }, { name: 'HMAC', hash: 'SHA-1' }, true, ['sign'])", "DataError"),
    ("subtle.importKey('jwk', { kty: 'oct', k: 'AA', ext: false }, { name: 'HMAC', hash: 'SHA-1' }, true, ['sign'])", "DataError"),
    ("subtle.importKey('jwk', { kty: 'oct', k: 'AA', key_ops: ['verify'] }, { name: 'HMAC', hash: 'SHA-1' }, true, ['sign'])", "DataError"),
    ("subtle.importKey('raw', new Uint8Array(65), { name: 'ECDSA', namedCurve: 'P-256' }, true, ['verify'])", "DataError"),
    ("subtle.importKey('raw', data, { name: 'ECDSA', namedCurve: 'K-256' }, true, ['verify'])", "NotSupportedError"),
    ("subtle.importKey('pkcs8', data, { name: 'RSA-PSS', hash: 'SHA-256' }, true, ['sign'])", "DataError"),
    ("subtle.generateKey({ name: 'AES-GCM', length: 129 }, true, ['encrypt'])", "OperationError"),
    (
        "subtle.generateKey({ name: 'RSA-PSS', modulusLength: 16384, publicExponent: new Uint8Array([3]), hash: 'SHA-1' }, true, ['sign'])",
        "OperationError",
    ),
    (
        "subtle.generateKey({ name: 'RSA-PSS', modulusLength: 1024, publicExponent: new Uint8Array([4]), hash: 'SHA-1' }, true, ['sign'])",
        "OperationError",
    ),
    ("subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['verify'])", "SyntaxError"),
    ("subtle.exportKey('raw', pair.privateKey)", "InvalidAccessError"),
    ("subtle.exportKey('jwk', secret)", "NotSupportedError"),
    ("subtle.exportKey('raw', aes)", "InvalidAccessError"),
    ("subtle.wrapKey('raw', aes, aes, { name: 'AES-GCM', iv: data })", "InvalidAccessError"),
    ("subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt: data, info: data }, secret, 7)", "OperationError"),
    ("subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt: data, info: data }, secret)", "OperationError"),
    ("subtle.deriveBits({ name: 'HKDF', hash: 'SHA-256', salt: data, info: data }, secret, 255 * 256 + 8)", "OperationError"),
    ("new CryptoKey()", "TypeError"),
];

#[test]
fn failures_have_the_errors_of_the_standard() {
    let rows: String = ERRORS.iter().map(|(expression, _)| format!("await caught(() => {expression}),\n")).collect();
    let names: Vec<&str> = ERRORS.iter().map(|(_, name)| *name).collect();
    let found = value(&format!(
        "const data = new Uint8Array(12), hmac = await subtle.importKey('raw', data, {{ name: 'HMAC', hash: 'SHA-256' }}, true, ['sign']), aes = await subtle.generateKey({{ name: 'AES-GCM', length: 128 }}, false, ['encrypt', 'decrypt']);
         const pair = await subtle.generateKey({{ name: 'ECDSA', namedCurve: 'P-256' }}, true, ['sign', 'verify']), secret = await subtle.importKey('raw', data, 'HKDF', false, ['deriveBits']);
         return [{rows}];"
    ));
    for ((expression, name), found) in ERRORS.iter().zip(found.as_array().unwrap()) {
        assert_eq!(found, name, "{expression}");
    }
    assert_eq!(found, json!(names));
}

#[test]
fn keys_are_objects_of_a_class_and_can_be_cloned_and_shown() {
    let mut worker = worker(
        "const key = await subtle.importKey('raw', utf8('never shown'), { name: 'HMAC', hash: 'SHA-256' }, true, ['verify', 'sign', 'sign']);
         key.algorithm.name = 'changed'; key.usages.push('encrypt'); console.log(key);
         const copy = structuredClone({ key }).key, signature = await subtle.sign('HMAC', copy, utf8('m'));
         return [Object.prototype.toString.call(key), key.algorithm === key.algorithm, key.usages.length, copy !== key, copy instanceof CryptoKey, copy.usages, await subtle.verify('HMAC', key, signature, utf8('m')), JSON.stringify(key)];",
    );
    assert_eq!(worker.json(&Value::Null), json!(["[object CryptoKey]", true, 3, true, true, ["sign", "verify"], true, "{}"]));
    assert!(worker.logs.iter().any(|line| line.message.contains("CryptoKey") && !line.message.contains("never")), "{:?}", worker.logs);
}

/// No method, getter or constructor that a handler can replace gets the bytes of a key that it
/// unwraps and must not extract. The next call is not affected.
#[test]
fn replaced_prototypes_see_no_key() {
    let mut worker = worker(
        "const iv = new Uint8Array(12), gcm = { __proto__: null, name: 'AES-GCM', iv }, hmac = { __proto__: null, name: 'HMAC', hash: 'SHA-256' }, seen = [], undo = [];
         const kek = await subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['wrapKey', 'unwrapKey']), key = await subtle.importKey('raw', Uint8Array.of(222, 173, 190, 239, 1), hmac, true, ['sign']);
         const jwk = await subtle.wrapKey('jwk', key, kek, gcm), raw = await subtle.wrapKey('raw', key, kek, gcm), Bytes = Uint8Array, { apply, ownKeys, getOwnPropertyDescriptor, defineProperty } = Reflect;
         const { buffer } = iv, lengthOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), 'length').get, includes = String.prototype.includes; let busy = false;
         const look = (name, value, depth) => {
           if (typeof value === 'string' && apply(includes, value, ['3q2-7w'])) seen[seen.length] = name;
           if (value === null || typeof value !== 'object' || depth > 2) return;
           let length = -1; try { length = apply(lengthOf, value, []); } catch {}
           for (let i = 0; i + 3 < length; i++) if (value[i] === 222 && value[i + 1] === 173 && value[i + 2] === 190) seen[seen.length] = name;
           if (length >= 0) return;
           const names = ownKeys(value); for (let i = 0; i < names.length && i < 20; i++) { let held; try { held = value[names[i]]; } catch {} look(name, held, depth + 1); }
         };
         const spy = (name, self, args) => { if (busy) return; busy = true; try { look(name, self, 0); for (let i = 0; i < args.length; i++) look(name, args[i], 0); } catch {} busy = false; };
         const bend = (holder, label) => { const names = ownKeys(holder); for (let i = 0; i < names.length; i++) {
           const name = names[i], own = getOwnPropertyDescriptor(holder, name); if (!own.configurable || name === 'constructor') continue;
           undo[undo.length] = () => defineProperty(holder, name, own); const shown = `${label}.${String(name)}`;
           if (typeof own.value === 'function') defineProperty(holder, name, { ...own, value: function (...args) { spy(shown, this, args); return apply(own.value, this, args); } });
           else if (own.get) defineProperty(holder, name, { ...own, get() { spy(shown, this, []); return apply(own.get, this, []); } });
         } };
         bend(Object.getPrototypeOf(Bytes.prototype), 'TypedArray'); bend(Bytes.prototype, 'Uint8Array'); bend(ArrayBuffer.prototype, 'ArrayBuffer'); bend(Array.prototype, 'Array'); bend(String.prototype, 'String'); bend(JSON, 'JSON');
         for (const name of ['then', 'alg', 'kty', 'k', 'd', 'ext', 'key_ops', 'use', 'oth', 'x', 'y', 'n', 'e', 'toJSON']) {
           defineProperty(Object.prototype, name, { configurable: true, get() { spy(name, this, []); }, set(value) { spy(name, value, [value]); } }); undo[undo.length] = () => delete Object.prototype[name]; }
         defineProperty(Bytes, Symbol.species, { configurable: true, get() { seen[seen.length] = 'species'; return Bytes; } });
         const first = await subtle.unwrapKey('jwk', jwk, kek, gcm, hmac, false, ['sign']), second = await subtle.unwrapKey('raw', raw, kek, gcm, hmac, false, ['sign']);
         await subtle.sign('HMAC', first, iv); await subtle.sign('HMAC', second, iv); await subtle.wrapKey('jwk', key, kek, gcm);
         delete Bytes[Symbol.species]; for (let i = undo.length - 1; i >= 0; i--) undo[i]();
         return [seen, await caught(() => subtle.exportKey('raw', first))];",
    );
    for _ in 0..2 {
        assert_eq!(worker.json(&Value::Null), json!([[], "InvalidAccessError"]));
    }
}

/// Each runs in one native function, which the watchdog ends with the process.
#[test]
fn endless_cryptography_uses_up_the_processor_time() {
    let limits = Limits { cpu_ms: 200, wall_ms: 10_000, ..Limits::default() };
    for body in [
        "const key = await subtle.importKey('raw', utf8('p'), 'PBKDF2', false, ['deriveBits']);
         return (await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: utf8('s'), iterations: 2 ** 32 - 1 }, key, 256)).byteLength;",
        "for (;;) await subtle.generateKey({ name: 'RSA-PSS', modulusLength: 8192, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-1' }, true, ['sign']);",
        "const pair = await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-521' }, true, ['sign']); for (;;) await subtle.sign({ name: 'ECDSA', hash: 'SHA-1' }, pair.privateKey, utf8('m'));",
        "const key = await subtle.generateKey({ name: 'HMAC', hash: 'SHA-512' }, true, ['sign']), data = new Uint8Array(4 << 20); for (;;) await subtle.sign('HMAC', key, data);",
    ] {
        let mut worker = Worker::handler_limited(&format!("{TOOLS}\n{body}"), limits);
        let started = Instant::now();
        assert_eq!(worker.stopped(&Value::Null), StopReason::CpuTime { limit_ms: 200 }, "{body}");
        assert!(started.elapsed() < Duration::from_secs(12), "took {:?}: {body}", started.elapsed());
    }
}

#[test]
fn derived_bits_and_generated_keys_count_as_buffers() {
    for body in [
        "const key = await subtle.importKey('raw', utf8('p'), 'PBKDF2', false, ['deriveBits']);
         return (await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: utf8('s'), iterations: 1 }, key, 2 ** 32 - 8)).byteLength;",
        "return (await subtle.generateKey({ name: 'HMAC', hash: 'SHA-1', length: 2 ** 32 - 8 }, true, ['sign'])).algorithm.length;",
    ] {
        match worker(body).call(&Value::Null).outcome {
            Outcome::Stopped(StopReason::Memory { .. }) => {}
            Outcome::Threw(thrown) if cfg!(feature = "quickjs") => assert!(thrown.message.contains("memory"), "{}", thrown.message),
            other => panic!("{other:?}: {body}"),
        }
    }
}
