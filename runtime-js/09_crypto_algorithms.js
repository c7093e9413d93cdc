// Names and parameters of the algorithms of crypto.subtle, read as the Web Cryptography API says
// ("normalizing an algorithm").
//
// Rule for all files of crypto.subtle, beyond that of 00_primordials.js: no method or getter of a
// prototype sees the bytes of a key. A handler could replace it, and read a key that it must not
// extract.
"use strict";

((parts) => {
  const { DOMException, define, domString } = parts;
  const { MathTrunc, NumberIsFinite, ObjectKeys, RegExpPrototypeExec, SafeRegExp, StringPrototypeToUpperCase, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetLength,
    TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, Uint8Array } = parts.primordials;

  const fail = (name, message) => {
    throw new DOMException(message, name);
  };

  /** Returns a copy of bytes. Unlike `slice`, it asks no constructor of a handler. */
  function copyBytes(bytes) {
    const copy = new Uint8Array(TypedArrayPrototypeGetLength(bytes));
    TypedArrayPrototypeSet(copy, bytes);
    return copy;
  }

  /** Returns a part of bytes, as a copy. */
  function partOf(bytes, start, end) {
    return copyBytes(new Uint8Array(TypedArrayPrototypeGetBuffer(bytes), TypedArrayPrototypeGetByteOffset(bytes) + start, end - start));
  }

  /** Hash functions by name. `number` is their number in the worker, `block` the bytes of a block. */
  const HASHES = {
    __proto__: null,
    "SHA-1": { __proto__: null, name: "SHA-1", number: 1, block: 64, suffix: "1", oaep: "" },
    "SHA-256": { __proto__: null, name: "SHA-256", number: 256, block: 64, suffix: "256", oaep: "-256" },
    "SHA-384": { __proto__: null, name: "SHA-384", number: 384, block: 128, suffix: "384", oaep: "-384" },
    "SHA-512": { __proto__: null, name: "SHA-512", number: 512, block: 128, suffix: "512", oaep: "-512" },
  };

  /** Converts a value to a whole number from 0 to `max` (Web IDL, `EnforceRange`). */
  function integer(value, what, max) {
    const number = +value;
    const whole = NumberIsFinite(number) ? MathTrunc(number) : -1;
    if (whole < 0 || whole > max) throw new TypeError(`${what} must be a whole number from 0 to ${max}`);
    return whole;
  }

  const octet = (value, what) => integer(value, what, 0xff);
  const short = (value, what) => integer(value, what, 0xffff);
  const long = (value, what) => integer(value, what, 0xffffffff);
  const text = (value) => domString(value);
  const hash = (value) => HASHES[normalize("digest", value).name];

  function bytes(value, what) {
    const view = parts.bytesOf(value);
    if (view === undefined) throw new TypeError(`${what} must be an ArrayBuffer or a view of one`);
    return view;
  }

  function bigInteger(value, what) {
    if (value === null || typeof value !== "object" || TypedArrayPrototypeGetSymbolToStringTag(value) !== "Uint8Array") {
      throw new TypeError(`${what} must be a Uint8Array`);
    }
    return copyBytes(value);
  }

  function key(value, what) {
    const slots = parts.keySlots(value);
    if (slots === undefined) throw new TypeError(`${what} must be a CryptoKey`);
    return slots;
  }

  /** A parameter: its name, its type, and whether it is required. */
  const needs = (name, read) => ({ __proto__: null, name, read, required: true });
  const takes = (name, read) => ({ __proto__: null, name, read, required: false });

  const NONE = [];
  const RSA_GENERATE = [needs("modulusLength", long), needs("publicExponent", bigInteger), needs("hash", hash)];
  const CURVE = [needs("namedCurve", text)];
  const HASH = [needs("hash", hash)];
  const HMAC = [needs("hash", hash), takes("length", long)];
  const AES_LENGTH = [needs("length", short)];
  const IV = [needs("iv", bytes)];
  const GCM = [takes("additionalData", bytes), needs("iv", bytes), takes("tagLength", octet)];
  const COUNTER = [needs("counter", bytes), needs("length", octet)];
  const OAEP = [takes("label", bytes)];
  const PUBLIC = [needs("public", key)];
  const HKDF = [needs("hash", hash), needs("info", bytes), needs("salt", bytes)];
  const PBKDF2 = [needs("hash", hash), needs("iterations", long), needs("salt", bytes)];

  const AES = { __proto__: null, "AES-CTR": AES_LENGTH, "AES-CBC": AES_LENGTH, "AES-GCM": AES_LENGTH, "AES-KW": AES_LENGTH };
  const RSA_NAMES = ["RSASSA-PKCS1-v1_5", "RSA-PSS", "RSA-OAEP"];

  /** Returns rows for the names in `names`, which have the same parameters. */
  function rows(names, parameters) {
    const all = { __proto__: null };
    for (let i = 0; i < names.length; i++) all[names[i]] = parameters;
    return all;
  }

  const SIGNING = {
    __proto__: null, "RSASSA-PKCS1-v1_5": NONE, "RSA-PSS": [needs("saltLength", long)], ECDSA: HASH, Ed25519: NONE, HMAC: NONE,
  };
  const ENCRYPTING = { __proto__: null, "RSA-OAEP": OAEP, "AES-CTR": COUNTER, "AES-CBC": IV, "AES-GCM": GCM };
  const WRAPPING = { __proto__: null, ...ENCRYPTING, "AES-KW": NONE };

  /** Parameters of each algorithm, by operation. */
  const TABLE = {
    __proto__: null,
    digest: rows(["SHA-1", "SHA-256", "SHA-384", "SHA-512"], NONE),
    sign: SIGNING,
    verify: SIGNING,
    encrypt: ENCRYPTING,
    decrypt: ENCRYPTING,
    wrapKey: WRAPPING,
    unwrapKey: WRAPPING,
    deriveBits: { __proto__: null, ECDH: PUBLIC, X25519: PUBLIC, HKDF, PBKDF2 },
    generateKey: {
      __proto__: null, ...rows(RSA_NAMES, RSA_GENERATE), ECDSA: CURVE, ECDH: CURVE, Ed25519: NONE, X25519: NONE, HMAC, ...AES,
    },
    importKey: {
      __proto__: null, ...rows(RSA_NAMES, HASH), ECDSA: CURVE, ECDH: CURVE, HMAC,
      ...rows(["Ed25519", "X25519", "HKDF", "PBKDF2", "AES-CTR", "AES-CBC", "AES-GCM", "AES-KW"], NONE),
    },
    getKeyLength: { __proto__: null, HMAC, HKDF: NONE, PBKDF2: NONE, ...AES },
  };

  /** The rows of the table by operation and by name in capitals, each with the name as it is spelled. */
  const REGISTERED = { __proto__: null };
  for (const operation of ObjectKeys(TABLE)) {
    REGISTERED[operation] = { __proto__: null };
    for (const name of ObjectKeys(TABLE[operation])) {
      REGISTERED[operation][StringPrototypeToUpperCase(name)] = { __proto__: null, name, parameters: TABLE[operation][name] };
    }
  }

  /** Capitals of other characters can be letters of ASCII: U+017F becomes `S`. */
  const ASCII = new SafeRegExp(/^[\x00-\x7f]*$/);

  /**
   * Reads an algorithm with the parameters that `operation` needs: an object without prototype, or a
   * DOMException if it is not supported for that.
   */
  function normalize(operation, algorithm) {
    const isObject = (typeof algorithm === "object" && algorithm !== null) || typeof algorithm === "function";
    const given = isObject ? algorithm.name : algorithm;
    if (isObject && given === undefined) throw new TypeError("the algorithm must have a name");
    const name = domString(given);
    const row = RegExpPrototypeExec(ASCII, name) === null ? undefined : REGISTERED[operation][StringPrototypeToUpperCase(name)];
    if (row === undefined) fail("NotSupportedError", `the algorithm \`${name}\` is not available for \`${operation}\``);
    const normalized = { __proto__: null, name: row.name };
    for (let i = 0; i < row.parameters.length; i++) {
      const parameter = row.parameters[i];
      const value = isObject ? algorithm[parameter.name] : undefined;
      const what = `\`${parameter.name}\` of \`${row.name}\``;
      if (value !== undefined) normalized[parameter.name] = parameter.read(value, what);
      else if (parameter.required) throw new TypeError(`${what} is required`);
    }
    return normalized;
  }

  /** Usages in the order in which keys list them. */
  const USAGES = ["encrypt", "decrypt", "sign", "verify", "deriveKey", "deriveBits", "wrapKey", "unwrapKey"];

  /** Each usage as a bit. */
  const USE = { __proto__: null };
  for (let i = 0; i < USAGES.length; i++) USE[USAGES[i]] = 1 << i;

  /** Converts a sequence of usages to bits. */
  function readUsages(value) {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) {
      throw new TypeError("the usages of a key must be a list of strings");
    }
    let usages = 0;
    for (const given of value) {
      const name = domString(given);
      if (USE[name] === undefined) throw new TypeError(`\`${name}\` is not a usage of a key`);
      usages |= USE[name];
    }
    return usages;
  }

  /** Returns bits as a list of usages. */
  function usageNames(usages) {
    const names = [];
    for (let i = 0; i < USAGES.length; i++) if ((usages & (1 << i)) !== 0) define(names, names.length, USAGES[i]);
    return names;
  }

  parts.algorithms = { __proto__: null, HASHES, USE, bytes, copyBytes, fail, key, normalize, partOf, readUsages, usageNames };
})(globalThis.__tollhouse);
