// structuredClone: plain data, Map, Set, Date, RegExp, errors, buffers and views, with cycles.
"use strict";

((parts) => {
  const { DOMException, define, defineGlobal, isError } = parts;
  const P = parts.primordials;
  const { ArrayIsArray, ArrayBufferIsView, BigIntPrototypeValueOf, BooleanPrototypeValueOf, NumberPrototypeValueOf, Object, ObjectDefineProperty, ObjectGetPrototypeOf,
    ObjectKeys, ObjectPrototypeToString, ReflectGetOwnPropertyDescriptor, SafeMap, String, StringPrototypeSlice, StringPrototypeValueOf,
    SymbolToStringTag, TypeError } = P;

  const ERRORS = { __proto__: null, EvalError: P.EvalError, RangeError: P.RangeError, ReferenceError: P.ReferenceError,
    SyntaxError: P.SyntaxError, TypeError: P.TypeError, URIError: P.URIError };

  const VIEWS = { __proto__: null };
  for (const name of ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"]) VIEWS[name] = P[name] ?? globalThis[name];

  function refuse(what) {
    throw new DOMException(`${what} cannot be cloned`, "DataCloneError");
  }

  function structuredClone(value, options = undefined) {
    if (arguments.length === 0) throw new TypeError("structuredClone needs a value");
    const seen = new SafeMap();
    const transfer = options?.transfer;
    if (transfer !== undefined && transfer !== null) {
      for (const buffer of transfer) {
        if (P.ObjectPrototypeIsPrototypeOf(P.ArrayBufferPrototype, buffer) !== true) refuse("what is not an ArrayBuffer");
        if (seen.has(buffer)) refuse("a buffer transferred twice");
        seen.set(buffer, undefined);
      }
      seen.forEach((_none, buffer) => seen.set(buffer, P.ArrayBufferPrototypeTransfer(buffer)));
    }
    return copy(value, seen);
  }

  function copy(value, seen) {
    if (typeof value === "symbol") refuse("a symbol");
    if (typeof value === "function") refuse("a function");
    if (value === null || typeof value !== "object") return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    // The engine's own structured clone does not see through a proxy either.
    if (parts.ops.op_is_proxy(value)) refuse("a proxy");
    if (ArrayIsArray(value)) return copyArray(value, seen);
    if (ArrayBufferIsView(value)) return copyView(value, seen);
    if (isError(value)) return parts.isDOMException(value) ? copyException(value, seen) : copyError(value, seen);
    if (isPlatformObject(value)) refuse("a value of this kind");
    const name = kindOf(value);
    const copied = name === undefined ? undefined : KINDS[name];
    if (copied === undefined) return copyObject(value, seen);
    const result = copied(value, seen);
    seen.set(value, result);
    return result;
  }

  const refuseKind = () => refuse("a value of this kind");

  /**
   * Copy functions for objects with internal state, by the name that `Object.prototype.toString`
   * shows.
   */
  const KINDS = {
    __proto__: null,
    Boolean: (value) => Object(BooleanPrototypeValueOf(value)),
    Number: (value) => Object(NumberPrototypeValueOf(value)),
    String: (value) => Object(StringPrototypeValueOf(value)),
    BigInt: (value) => Object(BigIntPrototypeValueOf(value)),
    Symbol: refuseKind,
    Date: (value) => new parts.globals.Date(P.DatePrototypeGetTime(value)),
    RegExp: (value) => new P.RegExp(P.RegExpPrototypeGetSource(value), P.RegExpPrototypeGetFlags(value)),
    ArrayBuffer: (value) => P.ArrayBufferPrototypeSlice(value, 0),
    Map: copyMap,
    Set: copySet,
    WeakMap: refuseKind,
    WeakSet: refuseKind,
    WeakRef: refuseKind,
    Promise: refuseKind,
    Generator: refuseKind,
    AsyncGenerator: refuseKind,
  };

  /** Brand checks: each throws for an object of another kind, even if its string tag differs. */
  const PROOFS = {
    __proto__: null,
    Boolean: BooleanPrototypeValueOf,
    Number: NumberPrototypeValueOf,
    String: StringPrototypeValueOf,
    BigInt: BigIntPrototypeValueOf,
    Symbol: P.SymbolPrototypeValueOf,
    Date: P.DatePrototypeGetTime,
    RegExp: (value) => {
      // The prototype's getter does not throw for the prototype itself.
      if (value === P.RegExpPrototype) throw value;
      return P.RegExpPrototypeGetSource(value);
    },
    ArrayBuffer: P.ArrayBufferPrototypeGetByteLength,
    Map: P.MapPrototypeGetSize,
    Set: P.SetPrototypeGetSize,
    WeakMap: (value) => P.WeakMapPrototypeHas(value, PROOFS),
    WeakSet: (value) => P.WeakSetPrototypeHas(value, PROOFS),
    WeakRef: P.WeakRefPrototypeDeref,
    Promise: inheritsFrom(P.PromisePrototype),
    Generator: inheritsFrom(ObjectGetPrototypeOf(ObjectGetPrototypeOf((function* () {})()))),
    AsyncGenerator: inheritsFrom(ObjectGetPrototypeOf(ObjectGetPrototypeOf((async function* () {})()))),
  };

  function inheritsFrom(prototype) {
    return (value) => {
      if (!P.ObjectPrototypeIsPrototypeOf(prototype, value)) throw value;
    };
  }

  /** Returns the kind of an object by its internal state, not by its string tag. */
  function kindOf(value) {
    const text = ObjectPrototypeToString(value);
    const claimed = StringPrototypeSlice(text, 8, -1);
    if (SymbolToStringTag in value) {
      const proof = PROOFS[claimed];
      return proof !== undefined && proves(proof, value) ? claimed : provenKind(value);
    }
    return claimed;
  }

  function provenKind(value) {
    const names = ObjectKeys(PROOFS);
    for (let i = 0; i < names.length; i++) if (proves(PROOFS[names[i]], value)) return names[i];
    return undefined;
  }

  function proves(proof, value) {
    try {
      proof(value);
      return true;
    } catch {
      return false;
    }
  }

  /** Returns whether `value` is an object of the web platform that cannot be cloned. */
  function isPlatformObject(value) {
    return (
      parts.isSearchParams(value) || parts.isURL(value) || parts.isEvent(value) || parts.isEventTarget(value) ||
      parts.headerList(value) !== undefined || parts.responseHead(value) !== undefined || parts.requestHead(value) !== undefined
    );
  }

  function copyArray(value, seen) {
    const result = [];
    seen.set(value, result);
    result.length = value.length;
    const keys = ObjectKeys(value);
    for (let i = 0; i < keys.length; i++) define(result, keys[i], copy(value[keys[i]], seen));
    return result;
  }

  function copyObject(value, seen) {
    const result = {};
    seen.set(value, result);
    const keys = ObjectKeys(value);
    for (let i = 0; i < keys.length; i++) define(result, keys[i], copy(value[keys[i]], seen));
    return result;
  }

  function copyMap(value, seen) {
    const result = new P.Map();
    seen.set(value, result);
    const rows = [];
    P.MapPrototypeForEach(value, (held, key) => define(rows, rows.length, { __proto__: null, key, held }));
    for (let i = 0; i < rows.length; i++) P.MapPrototypeSet(result, copy(rows[i].key, seen), copy(rows[i].held, seen));
    return result;
  }

  function copySet(value, seen) {
    const result = new P.Set();
    seen.set(value, result);
    const rows = [];
    P.SetPrototypeForEach(value, (held) => define(rows, rows.length, held));
    for (let i = 0; i < rows.length; i++) P.SetPrototypeAdd(result, copy(rows[i], seen));
    return result;
  }

  function copyView(value, seen) {
    const name = P.TypedArrayPrototypeGetSymbolToStringTag(value);
    if (name === undefined) {
      const buffer = copy(P.DataViewPrototypeGetBuffer(value), seen);
      const result = new P.DataView(buffer, P.DataViewPrototypeGetByteOffset(value), P.DataViewPrototypeGetByteLength(value));
      seen.set(value, result);
      return result;
    }
    const buffer = copy(P.TypedArrayPrototypeGetBuffer(value), seen);
    const result = new VIEWS[name](buffer, P.TypedArrayPrototypeGetByteOffset(value), P.TypedArrayPrototypeGetLength(value));
    seen.set(value, result);
    return result;
  }

  function copyException(value, seen) {
    const result = new DOMException(value.message, value.name);
    seen.set(value, result);
    if (typeof value.stack === "string") {
      ObjectDefineProperty(result, "stack", { __proto__: null, value: value.stack, writable: true, enumerable: false, configurable: true });
    }
    return result;
  }

  function copyError(value, seen) {
    const name = value.name;
    const Kind = typeof name === "string" && ERRORS[name] !== undefined ? ERRORS[name] : P.Error;
    const message = ReflectGetOwnPropertyDescriptor(value, "message")?.value;
    const result = new Kind();
    seen.set(value, result);
    const hidden = (key, held) =>
      ObjectDefineProperty(result, key, { __proto__: null, value: held, writable: true, enumerable: false, configurable: true });
    if (message !== undefined) hidden("message", String(message));
    const stack = value.stack;
    if (typeof stack === "string") hidden("stack", stack);
    const cause = ReflectGetOwnPropertyDescriptor(value, "cause");
    if (cause !== undefined) hidden("cause", copy(cause.value, seen));
    return result;
  }

  defineGlobal("structuredClone", structuredClone);
})(globalThis.__tollhouse);
