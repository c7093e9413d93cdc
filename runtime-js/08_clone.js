// structuredClone: plain data, Map, Set, Date, RegExp, errors, keys, buffers and views, with cycles.
"use strict";

((parts) => {
  const { DOMException, define, defineOperation, dictionary, isError } = parts;
  const P = parts.primordials;
  const { ArrayIsArray, ArrayBufferIsView, BigIntPrototypeValueOf, BooleanPrototypeValueOf, NumberPrototypeValueOf, Object, ObjectDefineProperty, ObjectGetPrototypeOf,
    ObjectKeys, ObjectPrototypeToString, ReflectGetOwnPropertyDescriptor, SafeMap, String, StringPrototypeSlice, StringPrototypeValueOf,
    SymbolToStringTag, TypeError } = P;

  const ERRORS = { __proto__: null, EvalError: P.EvalError, RangeError: P.RangeError, ReferenceError: P.ReferenceError,
    SyntaxError: P.SyntaxError, TypeError: P.TypeError, URIError: P.URIError };

  const VIEWS = { __proto__: null };
  for (const name of ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"]) VIEWS[name] = P[name] ?? globalThis[name];

  /** Adds what the engine of the build did not have. */
  parts.addView = (name, View) => {
    VIEWS[name] ??= View;
  };

  /** Returns whether a value is an error of the engine, and not only an object with such a prototype. */
  const isRealError = P.ErrorIsError ?? isError;

  function refuse(what) {
    throw new DOMException(`${what} cannot be cloned`, "DataCloneError");
  }

  parts.refuseClone = refuse;

  function structuredClone(value, options = undefined) {
    const { transfer } = dictionary(options, "structuredClone");
    if (transfer === undefined) return copy(value, { __proto__: null, seen: new SafeMap(), later: undefined });
    return moveAndCopy(value, transfer);
  }

  /** Stands for a value that exists once the buffers are transferred: one of them, or a view of one. */
  class Moved {
    #make;
    #value = undefined;
    constructor(make) {
      this.#make = make;
    }
    static resolve(value) {
      if (value === null || typeof value !== "object" || !(#make in value)) return value;
      return (value.#value ??= value.#make());
    }
    static is(value) {
      return value !== null && typeof value === "object" && #make in value;
    }
  }
  const { is: isMoved, resolve } = Moved;

  /** Copies a value with the buffers in `transfer` moved. If the copy fails, no buffer is moved. */
  function moveAndCopy(value, transfer) {
    const state = { __proto__: null, seen: new SafeMap(), later: [], streams: [] };
    const buffers = [];
    for (const buffer of transfer) {
      if (moveStream(buffer, state)) continue;
      if (!proves(P.ArrayBufferPrototypeGetByteLength, buffer)) refuse("in a transfer, a value that is not an ArrayBuffer");
      if (state.seen.has(buffer)) refuse("a buffer that is transferred twice");
      state.seen.set(buffer, new Moved(() => P.ArrayBufferPrototypeTransfer(buffer)));
      define(buffers, buffers.length, buffer);
    }
    const copied = copy(value, state);
    for (let i = 0; i < buffers.length; i++) if (isDetached(buffers[i])) refuse("a detached buffer");
    for (let i = 0; i < buffers.length; i++) resolve(state.seen.get(buffers[i]));
    for (let i = 0; i < state.streams.length; i++) resolve(state.streams[i]);
    for (let i = 0; i < state.later.length; i++) state.later[i]();
    return resolve(copied);
  }

  /**
   * Transfers a stream or a port: it is locked, and its content continues in the copy. Returns false for
   * other values.
   */
  function moveStream(value, state) {
    const move = parts.streamMover(value);
    if (move === undefined) return false;
    if (state.seen.has(value)) refuse("a value that is transferred twice");
    if (move === null) refuse("a locked stream or a moved port");
    const moved = new Moved(move);
    state.seen.set(value, moved);
    define(state.streams, state.streams.length, moved);
    return true;
  }

  /** Calls `write` with a copied value, and again if the value is to be moved first. */
  function put(value, state, write) {
    write(value);
    if (isMoved(value)) define(state.later, state.later.length, () => write(resolve(value)));
  }

  /** Fills a copy: at once, or when the values to move exist. */
  function fill(state, write) {
    if (state.later === undefined) write();
    else define(state.later, state.later.length, write);
  }

  /** Returns whether a buffer was transferred elsewhere: such buffers can have no view. */
  const isDetached = (buffer) => !proves((value) => new P.Uint8Array(value, 0, 0), buffer);

  function copy(value, state) {
    if (typeof value === "symbol") refuse("a symbol");
    if (typeof value === "function") refuse("a function");
    if (value === null || typeof value !== "object") return value;
    const known = state.seen.get(value);
    if (known !== undefined) return known;
    // The engine's own structured clone does not see through a proxy either.
    if (parts.ops.op_is_proxy(value)) refuse("a proxy");
    if (ArrayIsArray(value)) return copyArray(value, state);
    if (ArrayBufferIsView(value)) return copyView(value, state);
    if (isRealError(value)) return isError(value) && parts.isDOMException(value) ? copyException(value, state) : copyError(value, state);
    const key = parts.keySlots(value);
    if (key !== undefined) return copyKey(value, key, state);
    if (parts.isBlob(value)) return remember(value, parts.copyBlob(value), state);
    if (isPlatformObject(value)) refuse("a value of this kind");
    const name = kindOf(value);
    const copied = name === undefined ? undefined : KINDS[name];
    if (copied === undefined) return copyObject(value, state);
    const result = copied(value, state);
    state.seen.set(value, result);
    return result;
  }

  function remember(value, result, state) {
    state.seen.set(value, result);
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
    ArrayBuffer: copyBuffer,
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
      parts.isInterfaceObject(value) || parts.isEventTarget(value) || parts.headerList(value) !== undefined ||
      parts.responseHead(value) !== undefined || parts.requestHead(value) !== undefined
    );
  }

  function copyMembers(value, result, state) {
    state.seen.set(value, result);
    const keys = ObjectKeys(value);
    for (let i = 0; i < keys.length; i++) put(copy(value[keys[i]], state), state, (held) => define(result, keys[i], held));
    return result;
  }

  function copyArray(value, state) {
    const result = [];
    result.length = value.length;
    return copyMembers(value, result, state);
  }

  function copyObject(value, state) {
    return copyMembers(value, {}, state);
  }

  function copyBuffer(value) {
    if (isDetached(value)) refuse("a detached buffer");
    if (!P.ArrayBufferPrototypeGetResizable?.(value)) return P.ArrayBufferPrototypeSlice(value, 0);
    const length = P.ArrayBufferPrototypeGetByteLength(value);
    const result = new P.ArrayBuffer(length, { __proto__: null, maxByteLength: P.ArrayBufferPrototypeGetMaxByteLength(value) });
    P.TypedArrayPrototypeSet(new P.Uint8Array(result), new P.Uint8Array(value));
    return result;
  }

  function copyMap(value, state) {
    const result = new P.Map();
    state.seen.set(value, result);
    const rows = [];
    P.MapPrototypeForEach(value, (held, key) => define(rows, rows.length, { __proto__: null, key, held }));
    for (let i = 0; i < rows.length; i++) {
      rows[i].key = copy(rows[i].key, state);
      rows[i].held = copy(rows[i].held, state);
    }
    fill(state, () => {
      for (let i = 0; i < rows.length; i++) P.MapPrototypeSet(result, resolve(rows[i].key), resolve(rows[i].held));
    });
    return result;
  }

  function copySet(value, state) {
    const result = new P.Set();
    state.seen.set(value, result);
    const rows = [];
    P.SetPrototypeForEach(value, (held) => define(rows, rows.length, held));
    for (let i = 0; i < rows.length; i++) define(rows, i, copy(rows[i], state));
    fill(state, () => {
      for (let i = 0; i < rows.length; i++) P.SetPrototypeAdd(result, resolve(rows[i]));
    });
    return result;
  }

  const lengthOf = (view, isData) => isData ? P.DataViewPrototypeGetByteLength(view) : P.TypedArrayPrototypeGetLength(view);

  /** The size of the largest element of a view, in bytes. */
  const MAX_ELEMENT = 8;

  /** Returns whether the length of a view follows that of its buffer, which shows if the buffer can grow. */
  function followsLength(view, isData) {
    const buffer = isData ? P.DataViewPrototypeGetBuffer(view) : P.TypedArrayPrototypeGetBuffer(view);
    if (!P.ArrayBufferPrototypeGetResizable?.(buffer)) return false;
    const bytes = P.ArrayBufferPrototypeGetByteLength(buffer);
    if (bytes + MAX_ELEMENT > P.ArrayBufferPrototypeGetMaxByteLength(buffer)) return false;
    const length = lengthOf(view, isData);
    P.ArrayBufferPrototypeResize(buffer, bytes + MAX_ELEMENT);
    const follows = lengthOf(view, isData) > length;
    P.ArrayBufferPrototypeResize(buffer, bytes);
    return follows;
  }

  function copyView(value, state) {
    const name = P.TypedArrayPrototypeGetSymbolToStringTag(value);
    const isData = name === undefined;
    const buffer = copy(isData ? P.DataViewPrototypeGetBuffer(value) : P.TypedArrayPrototypeGetBuffer(value), state);
    // Both throw for a view that is outside of its buffer.
    if (!proves(isData ? P.DataViewPrototypeGetByteLength : P.TypedArrayPrototypeKeys, value)) refuse("a view outside of its buffer");
    const offset = isData ? P.DataViewPrototypeGetByteOffset(value) : P.TypedArrayPrototypeGetByteOffset(value);
    const length = followsLength(value, isData) ? undefined : lengthOf(value, isData);
    const View = isData ? P.DataView : VIEWS[name];
    const make = () => new View(resolve(buffer), offset, length);
    const result = isMoved(buffer) ? new Moved(make) : make();
    state.seen.set(value, result);
    return result;
  }

  /** The state of a key never changes, so its copies share it. */
  function copyKey(value, slots, state) {
    const result = parts.makeKey(slots);
    state.seen.set(value, result);
    return result;
  }

  function copyException(value, state) {
    const result = parts.copyException(value);
    state.seen.set(value, result);
    if (typeof value.stack === "string") {
      ObjectDefineProperty(result, "stack", { __proto__: null, value: value.stack, writable: true, enumerable: false, configurable: true });
    }
    return result;
  }

  function copyError(value, state) {
    const name = value.name;
    const Kind = typeof name === "string" && ERRORS[name] !== undefined ? ERRORS[name] : P.Error;
    const message = ReflectGetOwnPropertyDescriptor(value, "message")?.value;
    const result = new Kind();
    state.seen.set(value, result);
    const hidden = (key, held) =>
      ObjectDefineProperty(result, key, { __proto__: null, value: held, writable: true, enumerable: false, configurable: true });
    if (message !== undefined) hidden("message", String(message));
    const stack = value.stack;
    if (typeof stack === "string") hidden("stack", stack);
    const cause = ReflectGetOwnPropertyDescriptor(value, "cause");
    if (cause !== undefined) put(copy(cause.value, state), state, (held) => hidden("cause", held));
    return result;
  }

  defineOperation(structuredClone);
})(globalThis.__tollhouse);
