// crypto: random values and digests, without keys and ciphers. Also Math.random from the same
// source, because the engine's own generator would continue from a seed that all forked workers
// share.
"use strict";

((parts) => {
  const { DOMException, defineGlobal, ops } = parts;
  const { ObjectDefineProperty, String, StringPrototypeToUpperCase, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetSymbolToStringTag, Uint32Array, Uint8Array } = parts.primordials;

  const INTEGERS = { __proto__: null, Int8Array: 1, Uint8Array: 1, Uint8ClampedArray: 1, Int16Array: 1, Uint16Array: 1, Int32Array: 1,
    Uint32Array: 1, BigInt64Array: 1, BigUint64Array: 1 };
  const DIGESTS = { __proto__: null, "SHA-1": 1, "SHA-256": 256, "SHA-384": 384, "SHA-512": 512 };

  /** Maximum length of one request, as the standard says. */
  const RANDOM_BYTES = 65536;

  const subtle = {
    async digest(algorithm, data) {
      const given = typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm;
      const digest = DIGESTS[StringPrototypeToUpperCase(String(given))];
      if (digest === undefined) throw new DOMException(`the digest \`${String(given)}\` is not available`, "NotSupportedError");
      const bytes = parts.bytesOf(data);
      if (bytes === undefined) throw new TypeError("the data to digest must be an ArrayBuffer or a view of one");
      return TypedArrayPrototypeGetBuffer(ops.op_digest(digest, bytes));
    },
  };

  parts.tag(subtle, "SubtleCrypto");

  const crypto = {
    getRandomValues(array) {
      const name = array === null || typeof array !== "object" ? undefined : TypedArrayPrototypeGetSymbolToStringTag(array);
      if (INTEGERS[name] === undefined) throw new DOMException("the array must be one of integers", "TypeMismatchError");
      const bytes = parts.bytesOf(array);
      if (bytes.length > RANDOM_BYTES) throw new DOMException(`at most ${RANDOM_BYTES} bytes at once`, "QuotaExceededError");
      ops.op_random(bytes);
      return array;
    },
    randomUUID() {
      return ops.op_uuid();
    },
    subtle: parts.freeze(subtle),
  };

  parts.tag(crypto, "Crypto");

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

  defineGlobal("crypto", crypto);
})(globalThis.__tollhouse);
