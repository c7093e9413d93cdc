// SubtleCrypto (Web Cryptography API): checks the arguments, and settles its promises at once.
"use strict";

((parts) => {
  const { construct, cryptoOperations, defineInterface, domString, keyFormats, ops, refuseConstruction } = parts;
  const { HASHES, bytes, fail, key, normalize, readUsages } = parts.algorithms;
  const { requireKey } = parts.keys;
  const { Boolean, TypeError, TypedArrayPrototypeGetBuffer } = parts.primordials;

  const FORMATS = { __proto__: null, raw: 1, spki: 1, pkcs8: 1, jwk: 1 };

  function readFormat(value) {
    const format = domString(value);
    if (FORMATS[format] === undefined) throw new TypeError(`\`${format}\` is not a format of keys: use raw, spki, pkcs8 or jwk`);
    return format;
  }

  /** Reads the data of a key for `importKey`. */
  function readKeyData(format, data) {
    if (format !== "jwk") return bytes(data, "the data of the key");
    if (data === null || typeof data !== "object" || parts.bytesOf(data) !== undefined) throw new TypeError("the key must be a JWK object");
    return keyFormats.readJwk(data);
  }

  function requireExtractable(slots) {
    if (!slots.extractable) fail("InvalidAccessError", "the key is not extractable");
  }

  /** Throws for keys that no format can have. */
  function requireExportable({ algorithm: { name } }) {
    if (name === "HKDF" || name === "PBKDF2") fail("NotSupportedError", `keys for \`${name}\` cannot be exported`);
  }

  /** The bytes of these methods belong to their results alone. */
  const bufferOf = TypedArrayPrototypeGetBuffer;

  class SubtleCrypto {
    #own;
    constructor() {
      refuseConstruction(arguments[0], "use `crypto.subtle`");
    }
    async digest(algorithm, data) {
      this.#own;
      const { name } = normalize("digest", algorithm);
      return bufferOf(ops.op_digest(HASHES[name].number, bytes(data, "the data to digest")));
    }
    async sign(algorithm, cryptoKey, data) {
      this.#own;
      const slots = key(cryptoKey, "the key");
      const message = bytes(data, "the data to sign");
      const normalized = normalize("sign", algorithm);
      requireKey(slots, normalized.name, "sign");
      return bufferOf(cryptoOperations.sign(normalized, slots, message));
    }
    async verify(algorithm, cryptoKey, signature, data) {
      this.#own;
      const slots = key(cryptoKey, "the key");
      const given = bytes(signature, "the signature");
      const message = bytes(data, "the signed data");
      const normalized = normalize("verify", algorithm);
      requireKey(slots, normalized.name, "verify");
      return cryptoOperations.verify(normalized, slots, given, message);
    }
    async encrypt(algorithm, cryptoKey, data) {
      this.#own;
      const slots = key(cryptoKey, "the key");
      const text = bytes(data, "the data to encrypt");
      const normalized = normalize("encrypt", algorithm);
      requireKey(slots, normalized.name, "encrypt");
      return bufferOf(cryptoOperations.encrypt(normalized, slots, text));
    }
    async decrypt(algorithm, cryptoKey, data) {
      this.#own;
      const slots = key(cryptoKey, "the key");
      const text = bytes(data, "the data to decrypt");
      const normalized = normalize("decrypt", algorithm);
      requireKey(slots, normalized.name, "decrypt");
      return bufferOf(cryptoOperations.decrypt(normalized, slots, text));
    }
    async deriveBits(algorithm, baseKey, length = null) {
      this.#own;
      const slots = key(baseKey, "the key");
      const bits = length === null ? null : length >>> 0;
      const normalized = normalize("deriveBits", algorithm);
      requireKey(slots, normalized.name, "deriveBits");
      return bufferOf(cryptoOperations.deriveBits(normalized, slots, bits));
    }
    async deriveKey(algorithm, baseKey, derivedKeyType, extractable, keyUsages) {
      this.#own;
      const slots = key(baseKey, "the key");
      const isExtractable = Boolean(extractable);
      const usages = readUsages(keyUsages);
      const normalized = normalize("deriveBits", algorithm);
      const imported = normalize("importKey", derivedKeyType);
      const sized = normalize("getKeyLength", derivedKeyType);
      requireKey(slots, normalized.name, "deriveKey");
      const secret = cryptoOperations.deriveBits(normalized, slots, keyFormats.keyLength(sized));
      return keyFormats.importKey("raw", secret, imported, isExtractable, usages);
    }
    async generateKey(algorithm, extractable, keyUsages) {
      this.#own;
      const isExtractable = Boolean(extractable);
      const usages = readUsages(keyUsages);
      return keyFormats.generateKey(normalize("generateKey", algorithm), isExtractable, usages);
    }
    async importKey(format, keyData, algorithm, extractable, keyUsages) {
      this.#own;
      const name = readFormat(format);
      const data = readKeyData(name, keyData);
      const isExtractable = Boolean(extractable);
      const usages = readUsages(keyUsages);
      return keyFormats.importKey(name, data, normalize("importKey", algorithm), isExtractable, usages);
    }
    async exportKey(format, cryptoKey) {
      this.#own;
      const name = readFormat(format);
      const slots = key(cryptoKey, "the key");
      requireExportable(slots);
      requireExtractable(slots);
      if (name === "jwk") return keyFormats.plainJwk(keyFormats.exportJwk(slots));
      return bufferOf(keyFormats.exportBytes(name, slots));
    }
    async wrapKey(format, cryptoKey, wrappingKey, wrapAlgorithm) {
      this.#own;
      const name = readFormat(format);
      const slots = key(cryptoKey, "the key");
      const wrapping = key(wrappingKey, "the wrapping key");
      const normalized = normalize("wrapKey", wrapAlgorithm);
      requireKey(wrapping, normalized.name, "wrapKey");
      requireExportable(slots);
      requireExtractable(slots);
      const isJwk = name === "jwk";
      const exported = isJwk ? ops.op_text_encode(keyFormats.jwkText(keyFormats.exportJwk(slots))) : keyFormats.exportBytes(name, slots);
      return bufferOf(cryptoOperations.encrypt(normalized, wrapping, exported));
    }
    async unwrapKey(format, wrappedKey, unwrappingKey, unwrapAlgorithm, unwrappedKeyAlgorithm, extractable, keyUsages) {
      this.#own;
      const name = readFormat(format);
      const wrapped = bytes(wrappedKey, "the wrapped key");
      const unwrapping = key(unwrappingKey, "the unwrapping key");
      const isExtractable = Boolean(extractable);
      const usages = readUsages(keyUsages);
      const normalized = normalize("unwrapKey", unwrapAlgorithm);
      const algorithm = normalize("importKey", unwrappedKeyAlgorithm);
      requireKey(unwrapping, normalized.name, "unwrapKey");
      const exported = cryptoOperations.decrypt(normalized, unwrapping, wrapped);
      const data = name === "jwk" ? keyFormats.parseJwk(ops.op_text_decode(exported, false)) : exported;
      return keyFormats.importKey(name, data, algorithm, isExtractable, usages);
    }
  }

  defineInterface(SubtleCrypto);
  parts.subtle = construct(SubtleCrypto);
})(globalThis.__tollhouse);
