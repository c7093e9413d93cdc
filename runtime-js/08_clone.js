// structuredClone: plain data, Map, Set, Date, RegExp, errors, buffers and views, with cycles.
"use strict";

((parts) => {
  const { DOMException, define, offer, isError } = parts;
  const P = parts.primordials;
  const { ArrayIsArray, ArrayBufferIsView, BigIntPrototypeValueOf, BooleanPrototypeValueOf, NumberPrototypeValueOf, Object, ObjectDefineProperty,
    ObjectKeys, ObjectPrototypeToString, ReflectGetOwnPropertyDescriptor, SafeMap, String, StringPrototypeValueOf } = P;

  const ERRORS = { __proto__: null, EvalError: P.EvalError, RangeError: P.RangeError, ReferenceError: P.ReferenceError,
    SyntaxError: P.SyntaxError, TypeError: P.TypeError, URIError: P.URIError };

  const VIEWS = { __proto__: null };
  for (const name of ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"]) VIEWS[name] = P[name] ?? globalThis[name];

  function refuse(what) {
    throw new DOMException(`${what} cannot be cloned`, "DataCloneError");
  }

  function structuredClone(value, options = undefined) {
    const seen = new SafeMap();
    const given = options?.transfer;
    if (given !== undefined && given !== null) {
      for (const buffer of given) {
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
    if (ArrayIsArray(value)) return copyArray(value, seen);
    if (ArrayBufferIsView(value)) return copyView(value, seen);
    if (isError(value)) return copyError(value, seen);
    const keep = (made) => {
      seen.set(value, made);
      return made;
    };
    switch (ObjectPrototypeToString(value)) {
      case "[object Boolean]":
        return keep(Object(BooleanPrototypeValueOf(value)));
      case "[object Number]":
        return keep(Object(NumberPrototypeValueOf(value)));
      case "[object String]":
        return keep(Object(StringPrototypeValueOf(value)));
      case "[object BigInt]":
        return keep(Object(BigIntPrototypeValueOf(value)));
      case "[object Date]":
        return keep(new parts.globals.Date(P.DatePrototypeGetTime(value)));
      case "[object RegExp]":
        return keep(new P.RegExp(P.RegExpPrototypeGetSource(value), P.RegExpPrototypeGetFlags(value)));
      case "[object ArrayBuffer]":
        return keep(P.ArrayBufferPrototypeSlice(value, 0));
      case "[object Map]":
        return copyMap(value, seen);
      case "[object Set]":
        return copySet(value, seen);
      case "[object WeakMap]":
      case "[object WeakSet]":
      case "[object WeakRef]":
      case "[object Promise]":
      case "[object Generator]":
        return refuse("a value of this kind");
      default:
        return copyObject(value, seen);
    }
  }

  function copyArray(value, seen) {
    const made = [];
    seen.set(value, made);
    made.length = value.length;
    const keys = ObjectKeys(value);
    for (let i = 0; i < keys.length; i++) define(made, keys[i], copy(value[keys[i]], seen));
    return made;
  }

  function copyObject(value, seen) {
    const made = {};
    seen.set(value, made);
    const keys = ObjectKeys(value);
    for (let i = 0; i < keys.length; i++) define(made, keys[i], copy(value[keys[i]], seen));
    return made;
  }

  function copyMap(value, seen) {
    const made = new P.Map();
    seen.set(value, made);
    const rows = [];
    P.MapPrototypeForEach(value, (held, key) => define(rows, rows.length, { __proto__: null, key, held }));
    for (let i = 0; i < rows.length; i++) P.MapPrototypeSet(made, copy(rows[i].key, seen), copy(rows[i].held, seen));
    return made;
  }

  function copySet(value, seen) {
    const made = new P.Set();
    seen.set(value, made);
    const rows = [];
    P.SetPrototypeForEach(value, (held) => define(rows, rows.length, held));
    for (let i = 0; i < rows.length; i++) P.SetPrototypeAdd(made, copy(rows[i], seen));
    return made;
  }

  function copyView(value, seen) {
    const name = P.TypedArrayPrototypeGetSymbolToStringTag(value);
    if (name === undefined) {
      const buffer = copy(P.DataViewPrototypeGetBuffer(value), seen);
      const made = new P.DataView(buffer, P.DataViewPrototypeGetByteOffset(value), P.DataViewPrototypeGetByteLength(value));
      seen.set(value, made);
      return made;
    }
    const buffer = copy(P.TypedArrayPrototypeGetBuffer(value), seen);
    const made = new VIEWS[name](buffer, P.TypedArrayPrototypeGetByteOffset(value), P.TypedArrayPrototypeGetLength(value));
    seen.set(value, made);
    return made;
  }

  function copyError(value, seen) {
    const name = value.name;
    const Kind = typeof name === "string" && ERRORS[name] !== undefined ? ERRORS[name] : P.Error;
    const message = ReflectGetOwnPropertyDescriptor(value, "message")?.value;
    const made = new Kind();
    seen.set(value, made);
    const hidden = (key, held) =>
      ObjectDefineProperty(made, key, { __proto__: null, value: held, writable: true, enumerable: false, configurable: true });
    if (message !== undefined) hidden("message", String(message));
    const stack = value.stack;
    if (typeof stack === "string") hidden("stack", stack);
    const cause = ReflectGetOwnPropertyDescriptor(value, "cause");
    if (cause !== undefined) hidden("cause", copy(cause.value, seen));
    return made;
  }

  offer("structuredClone", structuredClone);
})(globalThis.__tollhouse);
