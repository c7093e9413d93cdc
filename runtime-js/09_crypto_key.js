// CryptoKey: a key of crypto.subtle, whose bytes only the files of crypto.subtle see.
"use strict";

((parts) => {
  const { construct, define, defineInterface, refuseConstruction } = parts;
  const { USE, copyBytes, fail, usageNames } = parts.algorithms;

  /** Returns the `algorithm` of a key for a handler, which can change it without effect. */
  function shownAlgorithm({ name, hash, length, modulusLength, namedCurve, publicExponent }) {
    const shown = { name };
    if (modulusLength !== undefined) {
      define(shown, "modulusLength", modulusLength);
      define(shown, "publicExponent", copyBytes(publicExponent));
    }
    if (hash !== undefined) define(shown, "hash", { name: hash.name });
    if (namedCurve !== undefined) define(shown, "namedCurve", namedCurve);
    if (length !== undefined) define(shown, "length", length);
    return shown;
  }

  class CryptoKey {
    #slots;
    #algorithm;
    #usages;
    constructor() {
      refuseConstruction(arguments[0], "use `crypto.subtle.importKey` or `crypto.subtle.generateKey`");
    }
    get type() {
      return this.#slots.type;
    }
    get extractable() {
      return this.#slots.extractable;
    }
    get algorithm() {
      return (this.#algorithm ??= shownAlgorithm(this.#slots.algorithm));
    }
    get usages() {
      return (this.#usages ??= usageNames(this.#slots.usages));
    }
    static {
      /**
       * Returns a key: its `type`, `extractable`, its `algorithm`, its `usages` as bits, and its
       * `data`, in the form of `sandbox/webcrypto`.
       */
      parts.makeKey = (slots) => {
        const key = construct(CryptoKey);
        key.#slots = slots;
        return key;
      };
      /** Returns the state of a key, or undefined for any other value. */
      parts.keySlots = (value) => (value !== null && typeof value === "object" && #slots in value ? value.#slots : undefined);
    }
  }

  /** Throws unless a key is for this algorithm and has this usage. */
  function requireKey(slots, name, usage) {
    if (slots.algorithm.name !== name) fail("InvalidAccessError", `the key is for \`${slots.algorithm.name}\`, not for \`${name}\``);
    if ((slots.usages & USE[usage]) === 0) fail("InvalidAccessError", `the key does not have the usage \`${usage}\``);
  }

  /** Throws unless a key has this type. */
  function requireType(slots, type) {
    if (slots.type !== type) fail("InvalidAccessError", `the key is ${slots.type}, and must be ${type}`);
  }

  defineInterface(CryptoKey, { shown: ["type", "extractable", "algorithm", "usages"] });
  parts.keys = { __proto__: null, requireKey, requireType };
})(globalThis.__tollhouse);
