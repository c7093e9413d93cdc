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
