// The environment of the scripts of `deno_web`. The build adds them after this file, unchanged: see
// `DENO_SCRIPTS` in sandbox/worker/build.rs. They get our primordials, our clock and our ops, and each
// script of theirs that is not taken is replaced by an adapter to our own interface here.
"use strict";

((parts) => {
  const { ops } = parts;
  const P = parts.primordials;
  const { ArrayBufferIsView, ArrayBufferPrototypeGetByteLength, Error, ObjectDefineProperty, PromisePrototypeThen, PromiseResolve,
    StringPrototypeToWellFormed, Symbol, TypeError, TypedArrayPrototypeGetSymbolToStringTag } = P;

  /** Results of the scripts, by specifier. */
  const loaded = { __proto__: null };

  function isArrayBuffer(value) {
    if (typeof value !== "object" || value === null || ArrayBufferIsView(value)) return false;
    try {
      ArrayBufferPrototypeGetByteLength(value);
      return true;
    } catch {
      return false;
    }
  }

  const isTypedArray = (value) => TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined;

  function loadExtScript(specifier) {
    const adapter = adapters[specifier];
    if (loaded[specifier] === undefined && adapter !== undefined) loaded[specifier] = adapter();
    if (loaded[specifier] === undefined) throw new Error(`no script ${specifier}`);
    return loaded[specifier];
  }

  const ignore = () => {};

  /** The members of `Deno.core` that the scripts use. */
  const core = {
    __proto__: null,
    loadExtScript,
    isArrayBuffer,
    isTypedArray,
    isAnyArrayBuffer: isArrayBuffer,
    isDataView: (value) => ArrayBufferIsView(value) && !isTypedArray(value),
    // A handler has no such buffers.
    isSharedArrayBuffer: () => false,
    isProxy: (value) => ops.op_is_proxy(value),
    // Replaces lone surrogates, which the engines encode differently.
    encode: (text) => ops.op_text_encode(StringPrototypeToWellFormed(text)),
    decode: (bytes) => ops.op_text_decode(bytes, false),
    print: ignore,
    hostObjectBrand: Symbol("hostObject"),
    registerCloneableResource: ignore,
    registerTransferableResource: ignore,
    // Only for handles of the system, which do not exist here.
    BadResourcePrototype: { __proto__: null },
    ops: { __proto__: null },
  };

  /** The clock of the call, no callbacks of the garbage collector, and no microtasks of the engine. */
  const primordials = {
    __proto__: P,
    Date: parts.globals.Date,
    // URLPattern fills its caches at random. This keeps them empty.
    MathRandom: () => 1,
    SafeFinalizationRegistry: class {
      register() {}
      unregister() {}
    },
    queueMicrotask: (run) => {
      PromisePrototypeThen(PromiseResolve(undefined), run);
    },
  };

  /** Adds a method to a class under a symbol. */
  function addHidden(Class, name, method) {
    const symbol = Symbol(name);
    ObjectDefineProperty(Class.prototype, symbol, { __proto__: null, value: method, writable: true, enumerable: false, configurable: true });
    return symbol;
  }

  /** Gives the scripts our AbortSignal. */
  function abortSignal() {
    const { AbortSignal } = parts.globals;
    loadExtScript("ext:deno_webidl/00_webidl.js").converters.AbortSignal = (value, prefix, context) => {
      if (!parts.isAbortSignal(value)) throw new TypeError(`${prefix}: ${context} is not of type AbortSignal`);
      return value;
    };
    return {
      __proto__: null,
      AbortSignalPrototype: AbortSignal.prototype,
      newSignal: () => parts.followSignal(null),
      add: addHidden(AbortSignal, "add", function (run) {
        parts.onAbort(this, run);
      }),
      remove: addHidden(AbortSignal, "remove", function (run) {
        parts.offAbort(this, run);
      }),
      signalAbort: addHidden(AbortSignal, "signalAbort", function (reason) {
        parts.abortSignal(this, reason);
      }),
    };
  }

  const adapters = {
    __proto__: null,
    "ext:deno_web/00_url.js": () => ({ __proto__: null, URL: { __proto__: null }, URLPrototype: parts.globals.URL.prototype }),
    "ext:deno_web/01_console.js": () => ({ __proto__: null, createFilteredInspectProxy: ignore }),
    "ext:deno_web/02_structured_clone.js": () => ({ __proto__: null, structuredClone: parts.globals.structuredClone }),
    "ext:deno_web/03_abort_signal.js": abortSignal,
    "ext:deno_web/13_message_port.js": () => ({ __proto__: null, markNotSerializable: ignore }),
  };

  const bootstrap = { __proto__: null, core, primordials, internals: { __proto__: null } };

  /** Called by the build's frame around each script. */
  parts.addDenoScript = (specifier, run) => {
    loaded[specifier] = run(bootstrap);
  };
  parts.denoScript = loadExtScript;
  parts.denoOps = core.ops;
})(globalThis.__tollhouse);
