// The driver: boots and hardens the isolate once, then runs each call. It passes only text, bytes and
// numbers to ops.
"use strict";

((parts) => {
  const { clock, describe, memberFactories, globals, ops, primordials } = parts;
  const { ArrayBufferPrototypeGetByteLength, EvalError, JSONParse, JSONStringify, ObjectDefineProperty, ObjectFreeze,
    ObjectGetPrototypeOf, ObjectKeys, ObjectSetPrototypeOf, ReflectApply, ReflectDeleteProperty, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, RegExpPrototypeExec, SafeRegExp, SafeSet, TypeError } = primordials;

  /**
   * The global names of the language that a handler keeps. Everything else is removed from the
   * global object.
   */
  const ALLOWED_GLOBALS = new SafeSet();
  for (const name of [
    "AggregateError", "Array", "ArrayBuffer", "BigInt", "BigInt64Array", "BigUint64Array", "Boolean", "DataView", "Error", "EvalError",
    "FinalizationRegistry", "Float16Array", "Float32Array", "Float64Array", "Function", "Infinity", "Int16Array", "Int32Array", "Int8Array",
    "Intl", "Iterator", "JSON", "Map", "Math", "NaN", "Number", "Object", "Promise", "Proxy", "RangeError", "ReferenceError", "Reflect",
    "RegExp", "Set", "String", "SuppressedError", "DisposableStack", "AsyncDisposableStack", "Symbol", "SyntaxError", "TypeError",
    "URIError", "Uint16Array", "Uint32Array", "Uint8Array", "Uint8ClampedArray", "WeakMap", "WeakRef", "WeakSet", "decodeURI",
    "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape", "globalThis", "isFinite", "isNaN", "parseFloat", "parseInt",
    "undefined", "unescape",
  ]) ALLOWED_GLOBALS.add(name);

  const NO_CODE_FROM_STRINGS = parts.noCodeFromStrings;

  /** The global `eval`. Packages refer to it while they load, and work without it. */
  const refusedEval = {
    eval: (_source) => {
      throw new EvalError(NO_CODE_FROM_STRINGS);
    },
  }.eval;

  /** Replaces a constructor that would compile code from strings with one that throws. */
  function denyCode(prototype, name) {
    const denied = {
      [name]: function () {
        throw new EvalError(NO_CODE_FROM_STRINGS);
      },
    }[name];
    ObjectDefineProperty(denied, "prototype", { __proto__: null, value: prototype, writable: false });
    ObjectDefineProperty(prototype, "constructor", { __proto__: null, value: denied, writable: true, enumerable: false, configurable: true });
    return denied;
  }

  /** Removes from `WebAssembly` what needs a thread, a network or a second stack. */
  function hardenWasm({ Memory }) {
    const absent = ["compileStreaming", "instantiateStreaming", "promising", "Suspending", "SuspendError"];
    for (let i = 0; i < absent.length; i++) ReflectDeleteProperty(globalThis.WebAssembly, absent[i]);
    const { prototype } = Memory;
    ReflectDeleteProperty(prototype, "toFixedLengthBuffer");
    ReflectDeleteProperty(prototype, "toResizableBuffer");
    const { get: read, enumerable } = ReflectGetOwnPropertyDescriptor(prototype, "buffer");
    const { get } = ReflectGetOwnPropertyDescriptor({
      get buffer() {
        const buffer = ReflectApply(read, this, []);
        // That of a shared memory leads to `SharedArrayBuffer`.
        if (!isArrayBuffer(buffer)) throw new TypeError("a shared memory is not available: a handler has one thread");
        return buffer;
      },
    }, "buffer");
    ObjectDefineProperty(prototype, "buffer", { __proto__: null, get, set: undefined, enumerable, configurable: true });
  }

  function isArrayBuffer(value) {
    try {
      ArrayBufferPrototypeGetByteLength(value);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Removes globals that are not on the lists, and adds the globals of these files. `wasm`: whether handlers keep
   * `WebAssembly`.
   */
  function harden(wasm) {
    if (wasm) hardenWasm(globalThis.WebAssembly);
    const keys = ReflectOwnKeys(globalThis);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (typeof key === "string" && (ALLOWED_GLOBALS.has(key) || (wasm && key === "WebAssembly"))) continue;
      if (ReflectDeleteProperty(globalThis, key)) continue;
      const descriptor = ReflectGetOwnPropertyDescriptor(globalThis, key);
      if (descriptor !== undefined && descriptor.writable) globalThis[key] = undefined;
    }
    const names = ObjectKeys(globals);
    for (let i = 0; i < names.length; i++) {
      ObjectDefineProperty(globalThis, names[i], {
        __proto__: null, value: globals[names[i]], writable: true, enumerable: names[i] in parts.operations, configurable: true,
      });
    }
    ObjectDefineProperty(globalThis, "eval", { __proto__: null, value: refusedEval, writable: true, enumerable: false, configurable: true });
    ObjectDefineProperty(globalThis, "self", { __proto__: null, value: globalThis, writable: true, enumerable: false, configurable: true });
    parts.bindGlobal(globalThis);
    globalThis.Function = denyCode(ObjectGetPrototypeOf(function () {}), "Function");
    denyCode(ObjectGetPrototypeOf(async function () {}), "AsyncFunction");
    denyCode(ObjectGetPrototypeOf(function* () {}), "GeneratorFunction");
    denyCode(ObjectGetPrototypeOf(async function* () {}), "AsyncGeneratorFunction");
    delete Error.prepareStackTrace;
  }

  /**
   * Receives the ops and limits, and hardens the isolate. `intl`: whether the engine has a usable
   * `Intl`. `wasm`: whether handlers have `WebAssembly`.
   */
  function boot(bindings, decoders, intl, compressors, requestBodyBytes, wasm) {
    parts.limits.decoders = decoders;
    parts.limits.compressors = compressors;
    parts.limits.requestBodyBytes = requestBodyBytes;
    const names = ObjectKeys(bindings);
    for (let i = 0; i < names.length; i++) {
      if (primordials.StringPrototypeStartsWith(names[i], "op_")) ops[names[i]] = bindings[names[i]];
    }
    parts.addView("Float16Array", globalThis.Float16Array);
    harden(wasm);
    if (!intl) ReflectDeleteProperty(globalThis, "Intl");
  }

  let handler;
  /** The export `scheduled`, if it is a function. */
  let scheduled;
  /** Whether the handler has parameters that no call sets, for example `(req, env, ctx)`. */
  let hasMoreParameters = false;

  /**
   * Returns the `ctx` of a call, whose members work until the next call begins. Each member is
   * created on first use, because most handlers use few and every call has its own.
   */
  function context(call, granted) {
    let env, log, kv, files, httpGetJson, progress, charge, waitUntil;
    return ObjectFreeze({
      get env() {
        parts.requireRunning(call);
        return (env ??= parts.env(call, granted));
      },
      get log() {
        return (log ??= memberFactories.log(call));
      },
      get kv() {
        return (kv ??= memberFactories.kv(call));
      },
      get files() {
        return (files ??= memberFactories.files(call));
      },
      get httpGetJson() {
        return (httpGetJson ??= memberFactories.httpGetJson(call));
      },
      get progress() {
        return (progress ??= memberFactories.progress(call));
      },
      get charge() {
        return (charge ??= memberFactories.charge(call));
      },
      get waitUntil() {
        return (waitUntil ??= memberFactories.waitUntil(call));
      },
    });
  }

  /** Reports the handler's result. */
  function answer(value) {
    if (value !== null && typeof value === "object") {
      const response = parts.readResponse(value);
      if (response !== undefined) return answerResponse(response);
      const streamed = parts.answerIterable(value);
      if (streamed !== undefined) return streamed;
    }
    if (value === undefined) return ops.op_returned("null");
    const text = JSONStringify(value);
    if (typeof text !== "string") throw new TypeError(`handler returned a ${typeof value}, which has no JSON form`);
    const lost = parts.lostParts(value);
    if (lost !== "") ops.op_log(2, `JSON cannot represent parts of the result: ${lost}`, "");
    ops.op_returned(text);
  }

  async function answerResponse({ status, headers, body: given }) {
    const rows = [];
    let json = false;
    for (let i = 0; i < headers.length; i++) {
      const row = [headers[i][0], headers[i][1]];
      parts.define(row, "toJSON", undefined);
      parts.define(rows, i, row);
      if (row[0] === "content-type") json = RegExpPrototypeExec(JSON_TYPE, row[1]) !== null;
    }
    parts.define(rows, "toJSON", undefined);
    const head = JSONStringify(rows);
    // The schema of the result applies to JSON, so that is read whole.
    const stream = json ? undefined : given.ownStream;
    if (stream !== undefined) return await parts.answerStream(status, head, stream);
    const call = parts.runningCall();
    // A body beyond the limit is stopped by its op.
    const body = await given.whole(ops.op_output_bytes());
    // Otherwise it would answer the next call.
    if (call !== parts.runningCall()) return;
    call.answered = true;
    if (body === null) return ops.op_responded(status, head, "", false);
    // Bytes can be JSON just like text. A leading byte order mark is not part of it.
    const text = !json ? null : typeof body === "string" ? parts.withoutMark(body) : ops.op_text_decode_as(body, "utf-8", true, false);
    if (typeof text === "string" && isJson(text)) return ops.op_responded(status, head, text, true);
    if (typeof body === "string") return ops.op_responded(status, head, body, false);
    ops.op_responded_bytes(status, head, body);
  }

  /** Matches a JSON media type, with or without parameters, as in `src/call/content.rs`. */
  const JSON_TYPE = new SafeRegExp(/^\s*(?:application\/json|text\/json|[^\s;]+\+json)\s*(?:;|$)/i);

  function isJson(text) {
    try {
      JSONParse(text);
      return true;
    } catch {
      return false;
    }
  }

  function threw(error) {
    const { message, stack } = describe(error);
    ops.op_threw(hasMoreParameters ? parts.withAdviceOnParameters(message) : message, stack);
  }

  async function drive(call, head, body, granted, filled, bodyBytes) {
    try {
      const req = JSONParse(head);
      // Without a prototype, records with external names contain only those names.
      ObjectSetPrototypeOf(req.query, null);
      ObjectSetPrototypeOf(req.headers, null);
      const input = body === "" ? null : JSONParse(filled ?? body);
      if (bodyBytes < 0) parts.define(req, "body", input);
      parts.define(req, "input", input);
      // Not enumerable, so that an answer made from `req` does not repeat its input.
      ObjectDefineProperty(req, "inputText", { __proto__: null, value: body === "" ? "null" : body, writable: true, enumerable: false, configurable: true });
      if (bodyBytes < 0) ObjectSetPrototypeOf(req, parts.requestPrototype);
      else parts.giveBody(req, call, bodyBytes);
      const pending = answer(await handler(req, context(call, granted)));
      // Set at once: a pause would let the handler set its charge after the answer.
      if (pending === undefined) call.answered = true;
      else await pending;
    } catch (error) {
      // Otherwise it would end the next call.
      if (call !== parts.runningCall()) return;
      call.answered = true;
      threw(error);
    }
  }

  /** Runs `scheduled` for the event of a schedule. Its result is ignored. */
  async function driveScheduled(call, body, granted) {
    try {
      if (scheduled === undefined) throw new TypeError("the module does not export the function `scheduled`");
      const { cron, scheduledTime } = JSONParse(body);
      await scheduled({ cron, scheduledTime }, context(call, granted));
      ops.op_returned("null");
    } catch (error) {
      threw(error);
    }
  }

  /**
   * Starts the call `id` of the handler, or of `scheduled`. `filled`: the body with the defaults of its schema, if they
   * change it. `bodyBytes`: the size of a body that is not JSON, or -1. `op_returned`, `op_responded` or `op_threw`
   * reports its end.
   */
  function call(nowMs, head, body, granted, id, filled, isScheduled, bodyBytes) {
    clock.start(nowMs);
    // A late answer to an earlier call must not wake anything in this one.
    const running = parts.beginCall(id);
    parts.forgetTimers();
    parts.forgetEntries();
    parts.forgetBlobUrls();
    parts.closeGroups();
    if (isScheduled) driveScheduled(running, body, granted);
    else drive(running, head, body, granted, filled, bodyBytes);
  }

  /** Waits for the top level of a module, then takes its handler. */
  async function load(nowMs, evaluated, namespace) {
    clock.start(nowMs);
    try {
      await evaluated;
      const found = namespace.default;
      if (typeof found !== "function") {
        const hasFetch = found !== null && typeof found === "object" && typeof found.fetch === "function";
        const instead = hasFetch ? "in place of the object with `fetch`, " : "";
        ops.op_unloadable(`the module has no default export that is a function: ${instead}write \`export default async (req, ctx) => ({})\``, "");
        return;
      }
      handler = found;
      if (typeof namespace.scheduled === "function") scheduled = namespace.scheduled;
      try {
        hasMoreParameters = found.length > 2;
      } catch {
        // A proxy can refuse to be read. It can still be called.
      }
      ops.op_loaded(scheduled !== undefined);
    } catch (error) {
      const { message, stack } = describe(error);
      ops.op_unloadable(message, stack);
    }
  }

  /**
   * Returns the text of an error that the worker caught while compiling: a line with the message,
   * then the stack.
   */
  function explain(error) {
    const { message, stack } = describe(error);
    return `${message}\n${stack}`;
  }

  parts.logUncaught = (error) => {
    const { message, stack } = describe(error);
    ops.op_log(3, `uncaught: ${stack === "" ? message : stack}`, "");
  };
  parts.driver = { __proto__: null, boot, load, call, explain, deliver: parts.deliver, rejectUnanswered: parts.rejectUnanswered,
    rejectionsNoted: parts.rejectionsNoted };
})(globalThis.__tollhouse);
