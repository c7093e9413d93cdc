// The algorithms of crypto.subtle. Each runs in the worker, in one piece: if it exceeds the processor
// time of the call, the call ends as in a loop.
"use strict";

((parts) => {
  const { keyFormats, ops } = parts;
  const { copyBytes, fail, partOf } = parts.algorithms;
  const { requireType } = parts.keys;
  const { TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, Uint8Array } = parts.primordials;

  const sizeOf = TypedArrayPrototypeGetLength;
  const EMPTY = new Uint8Array(0);

  /** Returns a new buffer that begins with these bytes, with room for as many more. */
  function withRoom(bytes, room) {
    const copy = new Uint8Array(sizeOf(bytes) + room);
    TypedArrayPrototypeSet(copy, bytes);
    return copy;
  }

  /** Fails with an OperationError unless an op did its work. */
  const must = (done, why) => {
    if (!done) fail("OperationError", why);
  };

  /** Returns the name of a signature scheme for the worker, the number of its hash function, and the bytes of its salt. */
  function scheme(normalized, { algorithm }) {
    const { name, hash, namedCurve } = algorithm;
    const number = (normalized.hash ?? hash)?.number ?? 0;
    return { __proto__: null, name: namedCurve ?? name, hash: number, salt: normalized.saltLength ?? 0 };
  }

  /** The longest salt that is passed on. No key is as long. */
  const MAX_SALT = 0xffff;

  function sign(normalized, slots, data) {
    if (normalized.name !== "HMAC") requireType(slots, "private");
    const { name, hash, salt } = scheme(normalized, slots);
    const signature = salt > MAX_SALT ? EMPTY : ops.op_crypto_sign(name, hash, salt, slots.data, data);
    must(sizeOf(signature) !== 0, "the key is too short for this digest and this salt");
    return signature;
  }

  function verify(normalized, slots, signature, data) {
    if (normalized.name !== "HMAC") requireType(slots, "public");
    const { name, hash, salt } = scheme(normalized, slots);
    return salt <= MAX_SALT && ops.op_crypto_verify(name, hash, salt, slots.data, signature, data);
  }

  /** Bits that a tag of AES-GCM can have. */
  const TAGS = { __proto__: null, 32: 1, 64: 1, 96: 1, 104: 1, 112: 1, 120: 1, 128: 1 };
  const BLOCK = 16;

  function tagBytes({ tagLength = 128 }) {
    must(TAGS[tagLength] === 1, "`tagLength` of `AES-GCM` must be 32, 64, 96, 104, 112, 120 or 128");
    return tagLength / 8;
  }

  function requireBlock(bytes, what) {
    must(sizeOf(bytes) === BLOCK, `${what} must have ${BLOCK} bytes`);
  }

  function counter({ counter, length }, { data }, text) {
    requireBlock(counter, "`counter` of `AES-CTR`");
    must(length >= 1 && length <= 128, "`length` of `AES-CTR` must be 1 to 128");
    const buffer = copyBytes(text);
    must(ops.op_aes_ctr(data, counter, length, buffer), "the text is too long for the counter");
    return buffer;
  }

  const ENCRYPT = {
    __proto__: null,
    "AES-CTR": counter,
    "AES-CBC": ({ iv }, { data }, text) => {
      requireBlock(iv, "`iv` of `AES-CBC`");
      const length = sizeOf(text);
      const buffer = withRoom(text, BLOCK - (length % BLOCK));
      must(ops.op_aes_cbc(true, data, iv, buffer, length) >= 0, "the text cannot be encrypted");
      return buffer;
    },
    "AES-GCM": (normalized, { data }, text) => {
      const tag = tagBytes(normalized);
      const buffer = withRoom(text, tag);
      const additional = normalized.additionalData ?? EMPTY;
      must(ops.op_aes_gcm(true, data, normalized.iv, additional, tag, buffer), "`iv` of `AES-GCM` must not be empty");
      return buffer;
    },
    "AES-KW": (_, { data }, text) => {
      const output = new Uint8Array(sizeOf(text) + 8);
      must(ops.op_aes_kw(true, data, text, output), "the bytes to wrap must be a multiple of 8");
      return output;
    },
    "RSA-OAEP": ({ label }, slots, text) => {
      requireType(slots, "public");
      const encrypted = ops.op_crypto_oaep_encrypt(slots.algorithm.hash.number, slots.data, label ?? EMPTY, text);
      must(sizeOf(encrypted) !== 0, "the text is too long for the key");
      return encrypted;
    },
  };

  const DECRYPT = {
    __proto__: null,
    "AES-CTR": counter,
    "AES-CBC": ({ iv }, { data }, text) => {
      requireBlock(iv, "`iv` of `AES-CBC`");
      const buffer = copyBytes(text);
      const length = ops.op_aes_cbc(false, data, iv, buffer, 0);
      must(length >= 0, "the data cannot be decrypted");
      return partOf(buffer, 0, length);
    },
    "AES-GCM": (normalized, { data }, text) => {
      const tag = tagBytes(normalized);
      const buffer = copyBytes(text);
      must(sizeOf(text) >= tag, "the data are shorter than the tag");
      const additional = normalized.additionalData ?? EMPTY;
      must(ops.op_aes_gcm(false, data, normalized.iv, additional, tag, buffer), "the data cannot be decrypted");
      return partOf(buffer, 0, sizeOf(text) - tag);
    },
    "AES-KW": (_, { data }, text) => {
      const length = sizeOf(text) - 8;
      must(length > 0, "the wrapped key is too short");
      const output = new Uint8Array(length);
      must(ops.op_aes_kw(false, data, text, output), "the key cannot be unwrapped");
      return output;
    },
    "RSA-OAEP": ({ label }, slots, text) => {
      requireType(slots, "private");
      const output = new Uint8Array(sizeOf(text));
      const length = ops.op_crypto_oaep_decrypt(slots.algorithm.hash.number, slots.data, label ?? EMPTY, text, output);
      must(length >= 0, "the data cannot be decrypted");
      return partOf(output, 0, length);
    },
  };

  const encrypt = (normalized, slots, text) => ENCRYPT[normalized.name](normalized, slots, text);
  const decrypt = (normalized, slots, text) => DECRYPT[normalized.name](normalized, slots, text);

  function agree(normalized, slots, length) {
    const other = normalized.public;
    requireType(slots, "private");
    requireType(other, "public");
    const kind = keyFormats.kindOf(slots.algorithm);
    if (keyFormats.kindOf(other.algorithm) !== kind || other.algorithm.name !== slots.algorithm.name) {
      fail("InvalidAccessError", "the keys are for different algorithms or curves");
    }
    const secret = ops.op_crypto_agree(kind, slots.data, other.data);
    must(sizeOf(secret) !== 0, "the public key is not valid");
    if (length === null) return secret;
    const size = (length + 7 - ((length + 7) % 8)) / 8;
    must(size <= sizeOf(secret), `the keys have only ${sizeOf(secret) * 8} bits in common`);
    const bits = partOf(secret, 0, size);
    keyFormats.clearBits(bits, length);
    return bits;
  }

  function derive(normalized, { data }, length) {
    const { hash, info, iterations, name, salt } = normalized;
    must(length !== null && length % 8 === 0, `the number of bits of \`${name}\` must be a multiple of 8`);
    if (name === "PBKDF2") must(iterations !== 0, "`iterations` of `PBKDF2` must not be 0");
    const output = new Uint8Array(length / 8);
    if (name === "PBKDF2") ops.op_pbkdf2(hash.number, data, salt, iterations, output);
    else must(ops.op_hkdf(hash.number, data, salt, info, output), "`HKDF` gives at most 255 times the bits of its hash function");
    return output;
  }

  /** Derives `length` bits. For ECDH and X25519, null stands for all of them. */
  function deriveBits(normalized, slots, length) {
    return normalized.public === undefined ? derive(normalized, slots, length) : agree(normalized, slots, length);
  }

  parts.cryptoOperations = { __proto__: null, decrypt, deriveBits, encrypt, sign, verify };
})(globalThis.__tollhouse);
