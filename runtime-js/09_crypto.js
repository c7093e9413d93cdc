// crypto: random values and digests. Keys and ciphers are not here.
"use strict";

((parts) => {
  const { DOMException, offer, ops } = parts;
  const { String, StringPrototypeToUpperCase, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetSymbolToStringTag } = parts.primordials;

  const INTEGERS = { __proto__: null, Int8Array: 1, Uint8Array: 1, Uint8ClampedArray: 1, Int16Array: 1, Uint16Array: 1, Int32Array: 1,
    Uint32Array: 1, BigInt64Array: 1, BigUint64Array: 1 };
  const DIGESTS = { __proto__: null, "SHA-1": 1, "SHA-256": 256, "SHA-384": 384, "SHA-512": 512 };

  /** As the standard has it. */
  const RANDOM_BYTES = 65536;

  const subtle = {
    async digest(algorithm, data) {
      const given = typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm;
      const digest = DIGESTS[StringPrototypeToUpperCase(String(given))];
      if (digest === undefined) throw new DOMException(`the digest \`${String(given)}\` is not available`, "NotSupportedError");
      const bytes = parts.bytesOf(data);
      if (bytes === undefined) throw new TypeError("what is digested must be an ArrayBuffer or a view of one");
      return TypedArrayPrototypeGetBuffer(ops.op_digest(digest, bytes));
    },
  };

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

  offer("crypto", crypto);
})(globalThis.__tollhouse);
