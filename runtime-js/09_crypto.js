// crypto: random values; the algorithms are in 09_crypto_subtle.js. Also Math.random from the same
// source, because the engine's own generator would continue from a seed that all forked workers
// share.
"use strict";

((parts) => {
  const { DOMException, QuotaExceededError, construct, defineGlobal, defineInterface, ops, refuseConstruction } = parts;
  const { ArrayBufferIsView, ObjectDefineProperty, TypeError, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetSymbolToStringTag,
    Uint32Array, Uint8Array } = parts.primordials;

  const INTEGERS = { __proto__: null, Int8Array: 1, Uint8Array: 1, Uint8ClampedArray: 1, Int16Array: 1, Uint16Array: 1, Int32Array: 1,
    Uint32Array: 1, BigInt64Array: 1, BigUint64Array: 1 };

  /** Maximum length of one request, as the standard says. */
  const RANDOM_BYTES = 65536;

  class Crypto {
    #own;
    constructor() {
      refuseConstruction(arguments[0], "use `crypto`");
    }
    get subtle() {
      this.#own;
      return parts.subtle;
    }
    getRandomValues(array) {
      this.#own;
      if (!ArrayBufferIsView(array)) throw new TypeError("the array must be one of integers");
      const kind = TypedArrayPrototypeGetSymbolToStringTag(array);
      if (kind === undefined || INTEGERS[kind] === undefined) {
        throw new DOMException("the array must be one of integers", "TypeMismatchError");
      }
      const bytes = parts.bytesOf(array);
      if (bytes.length > RANDOM_BYTES) {
        const amounts = { __proto__: null, quota: RANDOM_BYTES, requested: bytes.length };
        throw new QuotaExceededError(`at most ${RANDOM_BYTES} bytes at once`, amounts);
      }
      ops.op_random(bytes);
      return array;
    }
    randomUUID() {
      this.#own;
      return ops.op_uuid();
    }
  }

  /** Number of random words that are drawn at once. Each number needs two. */
  const WORDS = 256;
  const words = new Uint32Array(WORDS);
  const bytes = new Uint8Array(TypedArrayPrototypeGetBuffer(words));
  let remaining = 0;

  const math = {
    random() {
      if (remaining === 0) {
        ops.op_random(bytes);
        remaining = WORDS;
      }
      remaining -= 2;
      // 53 bits, the precision of a number below 1.
      return ((words[remaining] >>> 5) * 2 ** 26 + (words[remaining + 1] >>> 6)) / 2 ** 53;
    },
  };
  ObjectDefineProperty(Math, "random", { __proto__: null, value: math.random, writable: true, enumerable: false, configurable: true });

  defineInterface(Crypto);
  defineGlobal("crypto", construct(Crypto));
})(globalThis.__tollhouse);
