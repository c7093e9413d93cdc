// Node's `crypto`: hashes, HMAC, key derivation and random values by `@noble/hashes`; `webcrypto` is the runtime's.
const { Buffer } = require("buffer");
const { sha224, sha256, sha384, sha512, sha512_256 } = require("@noble/hashes/sha2.js");
const { sha3_224, sha3_256, sha3_384, sha3_512 } = require("@noble/hashes/sha3.js");
const { blake2b, blake2s } = require("@noble/hashes/blake2.js");
const { md5, ripemd160, sha1 } = require("@noble/hashes/legacy.js");
const { hmac } = require("@noble/hashes/hmac.js");
const { hkdf } = require("@noble/hashes/hkdf.js");
const { pbkdf2 } = require("@noble/hashes/pbkdf2.js");
const { scrypt } = require("@noble/hashes/scrypt.js");
const { absent } = require("./absent.cjs");

const HASHES = {
  md5, ripemd160, rmd160: ripemd160, sha1, sha224, sha256, sha384, sha512, "sha512-256": sha512_256,
  "sha3-224": sha3_224, "sha3-256": sha3_256, "sha3-384": sha3_384, "sha3-512": sha3_512, blake2b512: blake2b, blake2s256: blake2s,
};

function coded(Type, code, message) {
  return Object.assign(new Type(message), { code });
}
function hashOf(name) {
  const known = HASHES[String(name).toLowerCase().replace(/^rsa-/, "").replace(/^sha-(?=[0-9])/, "sha")];
  if (known === undefined) throw coded(Error, "ERR_CRYPTO_INVALID_DIGEST", `Invalid digest: ${name}`);
  return known;
}
function bytes(value, encoding) {
  if (value instanceof KeyObject) value = value.export();
  if (typeof value === "string") return Buffer.from(value, encoding === "buffer" ? "utf8" : encoding);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw coded(TypeError, "ERR_INVALID_ARG_TYPE", "The data must be a string, an ArrayBuffer, a Buffer, a TypedArray, a DataView or a KeyObject");
}
const encoded = (value, encoding) => {
  const result = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return encoding === undefined || encoding === "buffer" ? result : result.toString(encoding);
};

class Digest {
  #state;
  #isDone = false;
  constructor(state) {
    this.#state = state;
  }
  update(data, encoding) {
    if (this.#isDone) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    this.#state.update(bytes(data, encoding));
    return this;
  }
  digest(encoding) {
    if (this.#isDone) throw coded(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    this.#isDone = true;
    return encoded(this.#state.digest(), encoding);
  }
  copy() {
    return new this.constructor(this.#state.clone());
  }
}
class Hash extends Digest {}
class Hmac extends Digest {}

class KeyObject {
  #bytes;
  constructor(type, value) {
    this.type = type;
    this.#bytes = value;
  }
  get symmetricKeySize() {
    return this.#bytes.length;
  }
  export(options) {
    return options?.format === "jwk" ? { kty: "oct", k: Buffer.from(this.#bytes).toString("base64url") } : Buffer.from(this.#bytes);
  }
  equals(other) {
    return other instanceof KeyObject && Buffer.compare(this.export(), other.export()) === 0;
  }
  static from() {
    return absent("crypto.KeyObject.from", "use crypto.subtle.exportKey")();
  }
}

// The web's function fills at most 65,536 bytes at a time.
function randomFillSync(target, offset = 0, size = target.byteLength - offset) {
  const view = target instanceof ArrayBuffer ? new Uint8Array(target) : new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
  for (let at = offset; at < offset + size; at += 65_536) globalThis.crypto.getRandomValues(view.subarray(at, Math.min(at + 65_536, offset + size)));
  return target;
}
const withCallback = (call) => (...args) => {
  const callback = args.pop();
  Promise.resolve().then(() => call(...args)).then((value) => callback(null, value), callback);
};
function randomBytes(size, callback) {
  if (typeof callback === "function") return withCallback(randomBytes)(size, callback);
  return randomFillSync(Buffer.alloc(size));
}
function randomInt(min, max, callback) {
  if (max === undefined || typeof max === "function") [min, max, callback] = [0, min, max];
  const range = max - min;
  if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || range <= 0 || range >= 2 ** 48) {
    throw coded(RangeError, "ERR_OUT_OF_RANGE", "The range of integers must be positive and below 2^48");
  }
  const limit = 2 ** 48 - (2 ** 48 % range);
  let value;
  do value = randomBytes(6).readUIntBE(0, 6); while (value >= limit);
  if (typeof callback === "function") return queueMicrotask(() => callback(null, min + (value % range)));
  return min + (value % range);
}
function timingSafeEqual(a, b) {
  const [left, right] = [bytes(a), bytes(b)];
  if (left.length !== right.length) throw coded(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
  let different = 0;
  for (let at = 0; at < left.length; at++) different |= left[at] ^ right[at];
  return different === 0;
}
const pbkdf2Sync = (password, salt, iterations, length, digest) => encoded(pbkdf2(hashOf(digest), bytes(password), bytes(salt), { c: iterations, dkLen: length }));
const scryptSync = (password, salt, length, options = {}) =>
  encoded(scrypt(bytes(password), bytes(salt), {
    N: options.N ?? options.cost ?? 16_384,
    r: options.r ?? options.blockSize ?? 8,
    p: options.p ?? options.parallelization ?? 1,
    dkLen: length,
    maxmem: (options.maxmem ?? 32 << 20) + (1 << 20),
  }));
const hkdfSync = (digest, key, salt, info, length) => hkdf(hashOf(digest), bytes(key), bytes(salt), bytes(info), length).slice().buffer;
const subtle = (name) => absent(`crypto.${name}`, "use crypto.subtle, or a package in plain JavaScript");

module.exports = {
  Hash, Hmac, KeyObject,
  createHash: (name) => new Hash(hashOf(name).create()),
  createHmac: (name, key) => new Hmac(hmac.create(hashOf(name), bytes(key))),
  hash: (name, data, encoding = "hex") => encoded(hashOf(name)(bytes(data)), encoding),
  createSecretKey: (key, encoding) => new KeyObject("secret", bytes(key, encoding)),
  getHashes: () => Object.keys(HASHES),
  getCiphers: () => [],
  getCurves: () => [],
  randomBytes, pseudoRandomBytes: randomBytes, randomInt, randomFillSync, timingSafeEqual, pbkdf2Sync, scryptSync, hkdfSync,
  randomFill: (target, ...rest) => withCallback(randomFillSync)(target, ...rest),
  randomUUID: () => globalThis.crypto.randomUUID(),
  getRandomValues: (view) => globalThis.crypto.getRandomValues(view),
  pbkdf2: withCallback(pbkdf2Sync),
  scrypt: withCallback(scryptSync),
  hkdf: withCallback(hkdfSync),
  get webcrypto() { return globalThis.crypto; },
  get subtle() { return globalThis.crypto.subtle; },
  constants: {},
};
for (const name of [
  "createCipheriv", "createDecipheriv", "createSign", "createVerify", "createPrivateKey", "createPublicKey", "createDiffieHellman", "createECDH",
  "diffieHellman", "generateKey", "generateKeySync", "generateKeyPair", "generateKeyPairSync", "privateDecrypt", "privateEncrypt", "publicDecrypt",
  "publicEncrypt", "sign", "verify", "checkPrime", "generatePrime", "X509Certificate",
]) module.exports[name] = subtle(name);
