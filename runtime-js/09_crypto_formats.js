// Import, export and generation of the keys of crypto.subtle.
"use strict";

((parts) => {
  const { define, domString, ops } = parts;
  const { USE, copyBytes, fail, partOf, usageNames } = parts.algorithms;
  const { Boolean, JSONParse, JSONStringify, ObjectKeys, ObjectSetPrototypeOf, SafeSet, TypeError, TypedArrayPrototypeGetLength,
    TypedArrayPrototypeSet, Uint8Array } = parts.primordials;

  const WRAP = USE.wrapKey | USE.unwrapKey;
  const DERIVE = USE.deriveKey | USE.deriveBits;

  /** Types of keys. */
  const SECRET = "secret";
  const PUBLIC = "public";
  const PRIVATE = "private";

  const AES_SUFFIX = { __proto__: null, "AES-CTR": "CTR", "AES-CBC": "CBC", "AES-GCM": "GCM", "AES-KW": "KW" };

  /** Bytes of a coordinate, and the algorithm of ECDSA in a JWK, by curve. */
  const CURVES = {
    __proto__: null,
    "P-256": { __proto__: null, size: 32, alg: "ES256" },
    "P-384": { __proto__: null, size: 48, alg: "ES384" },
    "P-521": { __proto__: null, size: 66, alg: "ES512" },
  };

  /** The first byte of a point with both coordinates. */
  const UNCOMPRESSED = new Uint8Array([4]);

  const sizeOf = TypedArrayPrototypeGetLength;
  const isEmpty = (bytes) => sizeOf(bytes) === 0;

  const allow = (usages, allowed) => {
    if ((usages & ~allowed) !== 0) fail("SyntaxError", "the key cannot have one of these usages");
  };
  const unsupported = (format, name) => fail("NotSupportedError", `keys for \`${name}\` have no format \`${format}\``);
  const invalid = (why) => fail("DataError", why);

  function makeKey(type, extractable, algorithm, usages, data) {
    return parts.makeKey({ __proto__: null, type, extractable, algorithm, usages, data });
  }

  const JWK_TEXTS = ["alg", "crv", "d", "dp", "dq", "e", "k", "kty", "n", "p", "q", "qi", "use", "x", "y"];

  /** Reads the fields of a JWK that keys here can have (RFC 7517, 7518, 8037), into an object without prototype. */
  function readJwk(given) {
    const jwk = { __proto__: null };
    for (let i = 0; i < JWK_TEXTS.length; i++) {
      const value = given[JWK_TEXTS[i]];
      if (value !== undefined) jwk[JWK_TEXTS[i]] = domString(value);
    }
    const { ext, key_ops: operations, oth } = given;
    if (ext !== undefined) jwk.ext = Boolean(ext);
    if (oth !== undefined) jwk.oth = true;
    if (operations !== undefined) {
      if (operations === null || typeof operations !== "object") throw new TypeError("`key_ops` of a JWK must be a list of strings");
      jwk.operations = new SafeSet();
      for (const operation of operations) {
        const name = domString(operation);
        if (jwk.operations.has(name)) invalid("`key_ops` of a JWK names an operation twice");
        jwk.operations.add(name);
      }
    }
    return jwk;
  }

  /** Reads a JWK from JSON text. No getter of `Object.prototype` sees its fields. */
  function parseJwk(text) {
    let value;
    try {
      value = JSONParse(text);
    } catch {
      value = undefined;
    }
    if (value === null || typeof value !== "object") invalid("the text is not a JWK");
    return readJwk(ObjectSetPrototypeOf(value, null));
  }

  /** Checks the fields that every JWK can have. `use` is that of the algorithm. */
  function checkJwk(jwk, kty, use, extractable, usages) {
    if (jwk.kty !== kty) invalid(`\`kty\` of the JWK must be \`${kty}\``);
    if (usages !== 0 && jwk.use !== undefined && jwk.use !== use) invalid(`\`use\` of the JWK must be \`${use}\``);
    if (jwk.operations !== undefined) {
      const names = usageNames(usages);
      for (let i = 0; i < names.length; i++) if (!jwk.operations.has(names[i])) invalid(`\`key_ops\` of the JWK lacks \`${names[i]}\``);
    }
    if (extractable && jwk.ext === false) invalid("the JWK must not be extractable");
  }

  /** Throws if a JWK is for another algorithm than one of `allowed`. */
  function checkAlg(jwk, allowed) {
    if (jwk.alg === undefined) return;
    for (let i = 0; i < allowed.length; i++) if (jwk.alg === allowed[i]) return;
    invalid(`\`alg\` of the JWK must be \`${allowed[0]}\``);
  }

  /** Decodes a field of a JWK. */
  function field(jwk, name) {
    const text = jwk[name];
    const bytes = text === undefined ? undefined : ops.op_base64url_decode(text);
    if (bytes === undefined || (isEmpty(bytes) && text !== "")) invalid(`\`${name}\` of the JWK must be base64url`);
    return bytes;
  }

  /** Decodes a field of a JWK that has this many bytes. */
  function sizedField(jwk, name, size) {
    const bytes = field(jwk, name);
    if (sizeOf(bytes) !== size) invalid(`\`${name}\` of the JWK must have ${size} bytes`);
    return bytes;
  }

  function joined(first, second, third) {
    const size = sizeOf(first) + sizeOf(second) + (third === undefined ? 0 : sizeOf(third));
    const bytes = new Uint8Array(size);
    TypedArrayPrototypeSet(bytes, first);
    TypedArrayPrototypeSet(bytes, second, sizeOf(first));
    if (third !== undefined) TypedArrayPrototypeSet(bytes, third, sizeOf(first) + sizeOf(second));
    return bytes;
  }

  /** Parses and checks a key in the worker. `kind` is RSA or a curve. */
  function parsed(kind, format, bytes) {
    const data = ops.op_crypto_import(kind, format, bytes);
    if (isEmpty(data)) invalid("the key is not valid");
    return data;
  }

  function importAes(format, data, { name }, extractable, usages) {
    allow(usages, name === "AES-KW" ? WRAP : USE.encrypt | USE.decrypt | WRAP);
    let bytes;
    if (format === "raw") bytes = copyBytes(data);
    else if (format === "jwk") {
      checkJwk(data, "oct", "enc", extractable, usages);
      bytes = field(data, "k");
    } else unsupported(format, name);
    const length = sizeOf(bytes) * 8;
    if (length !== 128 && length !== 192 && length !== 256) invalid("a key for AES has 128, 192 or 256 bits");
    if (format === "jwk") checkAlg(data, [`A${length}${AES_SUFFIX[name]}`]);
    return makeKey(SECRET, extractable, { __proto__: null, name, length }, usages, bytes);
  }

  function importHmac(format, data, { name, hash, length }, extractable, usages) {
    allow(usages, USE.sign | USE.verify);
    let bytes;
    if (format === "raw") bytes = copyBytes(data);
    else if (format === "jwk") {
      checkJwk(data, "oct", "sig", extractable, usages);
      bytes = field(data, "k");
      checkAlg(data, [`HS${hash.suffix}`]);
    } else unsupported(format, name);
    const bits = sizeOf(bytes) * 8;
    if (bits === 0) invalid("a key for HMAC must not be empty");
    if (length !== undefined && (length > bits || length <= bits - 8)) invalid("`length` is not that of the key");
    if (length !== undefined && length < bits) clearBits(bytes, length);
    return makeKey(SECRET, extractable, { __proto__: null, name, hash, length: length ?? bits }, usages, bytes);
  }

  /** Clears the bits of the last byte that are beyond `length`. */
  function clearBits(bytes, length) {
    if (length % 8 !== 0) bytes[sizeOf(bytes) - 1] &= 0xff << (8 - (length % 8));
  }

  function importSecret(format, data, { name }, extractable, usages) {
    if (format !== "raw") unsupported(format, name);
    allow(usages, DERIVE);
    if (extractable) fail("SyntaxError", `a key for \`${name}\` cannot be extractable`);
    return makeKey(SECRET, false, { __proto__: null, name }, usages, copyBytes(data));
  }

  /** The usages that a public and a private key of a pair can have. */
  function pairUsages(name) {
    if (name === "RSA-OAEP") return { __proto__: null, public: USE.encrypt | USE.wrapKey, private: USE.decrypt | USE.unwrapKey };
    if (name === "ECDH" || name === "X25519") return { __proto__: null, public: 0, private: DERIVE };
    return { __proto__: null, public: USE.verify, private: USE.sign };
  }

  function rsaAlg({ name, hash }) {
    if (name === "RSA-OAEP") return `RSA-OAEP${hash.oaep}`;
    return `${name === "RSA-PSS" ? "PS" : "RS"}${hash.suffix}`;
  }

  /** Fields of RSA keys in a JWK, in the order of the worker. */
  const RSA_FIELDS = ["n", "e", "d", "p", "q", "dp", "dq", "qi"];

  /** Joins the first `count` fields of a JWK: each is a length of two bytes with the number that follows. */
  function rsaFields(jwk, count) {
    let list = new Uint8Array(0);
    for (let i = 0; i < count; i++) {
      const number = field(jwk, RSA_FIELDS[i]);
      const size = sizeOf(number);
      if (size > 0xffff) invalid("a number of the JWK is too long");
      const head = new Uint8Array(2);
      head[0] = size >> 8;
      head[1] = size & 0xff;
      list = joined(list, head, number);
    }
    return list;
  }

  /** Calls `each` with the index and the bytes of each number in a list of RSA numbers. */
  function eachNumber(list, each) {
    for (let at = 0, i = 0; at < sizeOf(list); i++) {
      const end = at + 2 + ((list[at] << 8) | list[at + 1]);
      each(i, partOf(list, at + 2, end));
      at = end;
    }
  }

  /** Returns the algorithm of an RSA key with the attributes that its bytes have. */
  function rsaAlgorithm({ name, hash }, type, data) {
    const algorithm = { __proto__: null, name, hash };
    const bytes = type === PRIVATE ? ops.op_crypto_public("RSA", data) : data;
    eachNumber(ops.op_crypto_export("RSA", PUBLIC, bytes), (i, number) => {
      if (i === 0) algorithm.modulusLength = sizeOf(number) * 8 - leadingZeros(number[0]);
      else algorithm.publicExponent = number;
    });
    return algorithm;
  }

  function leadingZeros(byte) {
    let zeros = 0;
    for (let bit = 0x80; bit > 0 && (byte & bit) === 0; bit >>= 1) zeros++;
    return zeros;
  }

  /**
   * Imports a key of a pair. `kind` names it for the worker, `kty`, `use` and `algs` are those of its
   * JWK, and `fields` decodes the rest of a JWK of this type.
   */
  function importPair(format, data, algorithm, extractable, usages, { kind, kty, use, algs, raw, fields, complete }) {
    const allowed = pairUsages(algorithm.name);
    let type;
    if (format === "spki" || (format === "raw" && raw)) type = PUBLIC;
    else if (format === "pkcs8") type = PRIVATE;
    else if (format === "jwk") type = data.d === undefined ? PUBLIC : PRIVATE;
    else unsupported(format, algorithm.name);
    allow(usages, allowed[type]);
    let bytes;
    if (format === "jwk") {
      checkJwk(data, kty, use, extractable, usages);
      if (algs !== undefined) checkAlg(data, algs);
      bytes = fields(data, type);
    } else bytes = parsed(kind, format === "raw" ? PUBLIC : format, data);
    return makeKey(type, extractable, complete(type, bytes), usages, bytes);
  }

  function importRsa(format, data, algorithm, extractable, usages) {
    return importPair(format, data, algorithm, extractable, usages, {
      __proto__: null, kind: "RSA", kty: "RSA", use: algorithm.name === "RSA-OAEP" ? "enc" : "sig", algs: [rsaAlg(algorithm)], raw: false,
      fields: (jwk, type) => {
        if (jwk.oth !== undefined) fail("NotSupportedError", "a key with more than two primes is not available");
        return parsed("RSA", type, rsaFields(jwk, type === PRIVATE ? RSA_FIELDS.length : 2));
      },
      complete: (type, bytes) => rsaAlgorithm(algorithm, type, bytes),
    });
  }

  function curveOf(name) {
    if (CURVES[name] === undefined) fail("NotSupportedError", `the curve \`${name}\` is not available`);
    return CURVES[name];
  }

  function importEc(format, data, algorithm, extractable, usages) {
    const { name, namedCurve } = algorithm;
    const curve = curveOf(namedCurve);
    const isEcdsa = name === "ECDSA";
    return importPair(format, data, algorithm, extractable, usages, {
      __proto__: null, kind: namedCurve, kty: "EC", use: isEcdsa ? "sig" : "enc", algs: isEcdsa ? [curve.alg] : undefined, raw: true,
      fields: (jwk, type) => {
        if (jwk.crv !== namedCurve) invalid(`\`crv\` of the JWK must be \`${namedCurve}\``);
        const point = joined(UNCOMPRESSED, sizedField(jwk, "x", curve.size), sizedField(jwk, "y", curve.size));
        if (type === PUBLIC) return parsed(namedCurve, PUBLIC, point);
        return matching(parsed(namedCurve, PRIVATE, sizedField(jwk, "d", curve.size)), namedCurve, point);
      },
      complete: () => ({ __proto__: null, name, namedCurve }),
    });
  }

  /** Returns a private key if this is its public key. */
  function matching(data, kind, point) {
    const known = ops.op_crypto_public(kind, data);
    for (let i = 0; i < sizeOf(point); i++) {
      if (known[i] !== point[i]) invalid("the private key of the JWK does not belong to its public key");
    }
    return data;
  }

  function importOkp(format, data, algorithm, extractable, usages) {
    const { name } = algorithm;
    const isSigning = name === "Ed25519";
    return importPair(format, data, algorithm, extractable, usages, {
      __proto__: null, kind: name, kty: "OKP", use: isSigning ? "sig" : "enc", algs: isSigning ? ["Ed25519", "EdDSA"] : undefined, raw: true,
      fields: (jwk, type) => {
        if (jwk.crv !== name) invalid(`\`crv\` of the JWK must be \`${name}\``);
        const point = sizedField(jwk, "x", 32);
        if (type === PUBLIC) return point;
        return matching(parsed(name, PRIVATE, sizedField(jwk, "d", 32)), name, point);
      },
      complete: () => ({ __proto__: null, name }),
    });
  }

  const IMPORTS = {
    __proto__: null, "RSASSA-PKCS1-v1_5": importRsa, "RSA-PSS": importRsa, "RSA-OAEP": importRsa, ECDSA: importEc, ECDH: importEc,
    Ed25519: importOkp, X25519: importOkp, HMAC: importHmac, HKDF: importSecret, PBKDF2: importSecret, "AES-CTR": importAes,
    "AES-CBC": importAes, "AES-GCM": importAes, "AES-KW": importAes,
  };

  /** Imports a key. `data` is bytes, or for `jwk` an object of [readJwk]. */
  function importKey(format, data, algorithm, extractable, usages) {
    const key = IMPORTS[algorithm.name](format, data, algorithm, extractable, usages);
    if (usages === 0 && key.type !== PUBLIC) fail("SyntaxError", `a ${key.type} key must have a usage`);
    return key;
  }

  /** The kind of a pair for the worker, or undefined for secret keys. */
  function kindOf({ name, modulusLength, namedCurve }) {
    if (modulusLength !== undefined) return "RSA";
    return namedCurve ?? (name === "Ed25519" || name === "X25519" ? name : undefined);
  }

  /** Returns the bytes of a key in any format except `jwk`. */
  function exportBytes(format, { type, algorithm, data }) {
    const kind = kindOf(algorithm);
    if (kind === undefined) {
      if (format !== "raw") unsupported(format, algorithm.name);
      return copyBytes(data);
    }
    if (format === "raw" && kind === "RSA") unsupported(format, algorithm.name);
    const needed = format === "pkcs8" ? PRIVATE : PUBLIC;
    if (type !== needed) fail("InvalidAccessError", `the format \`${format}\` is for ${needed} keys`);
    const bytes = ops.op_crypto_export(kind, format === "raw" ? PUBLIC : format, data);
    if (isEmpty(bytes)) fail("OperationError", "the key cannot be exported");
    return bytes;
  }

  const encode = (bytes) => ops.op_base64url_encode(bytes);

  /** Returns a key as the fields of a JWK, in an object without prototype. */
  function exportJwk({ type, extractable, algorithm, usages, data }) {
    const { name, hash, length, namedCurve } = algorithm;
    const jwk = { __proto__: null };
    const kind = kindOf(algorithm);
    if (kind === undefined) {
      jwk.kty = "oct";
      jwk.k = encode(data);
      jwk.alg = name === "HMAC" ? `HS${hash.suffix}` : `A${length}${AES_SUFFIX[name]}`;
    } else if (kind === "RSA") {
      jwk.kty = "RSA";
      jwk.alg = rsaAlg(algorithm);
      eachNumber(ops.op_crypto_export(kind, type, data), (i, number) => {
        jwk[RSA_FIELDS[i]] = encode(number);
      });
    } else {
      const point = type === PRIVATE ? ops.op_crypto_public(kind, data) : data;
      jwk.kty = namedCurve === undefined ? "OKP" : "EC";
      jwk.crv = kind;
      if (name === "Ed25519") jwk.alg = "Ed25519";
      if (namedCurve === undefined) jwk.x = encode(point);
      else {
        const { size } = CURVES[namedCurve];
        jwk.x = encode(partOf(point, 1, 1 + size));
        jwk.y = encode(partOf(point, 1 + size, 1 + 2 * size));
      }
      if (type === PRIVATE) jwk.d = encode(ops.op_crypto_export(kind, PRIVATE, data));
    }
    jwk.key_ops = usageNames(usages);
    jwk.ext = extractable;
    return jwk;
  }

  /** Returns the fields of a JWK as an object for a handler. */
  function plainJwk(jwk) {
    const plain = {};
    const names = ObjectKeys(jwk);
    for (let i = 0; i < names.length; i++) define(plain, names[i], jwk[names[i]]);
    return plain;
  }

  /**
   * Returns the fields of a JWK as JSON. Only texts are serialized, so that no `toJSON` is called. Without templates:
   * QuickJS makes them with `String.prototype.concat`, which a handler can replace.
   */
  function jwkText(jwk) {
    let text = "";
    const names = ObjectKeys(jwk);
    for (let i = 0; i < names.length; i++) {
      const value = jwk[names[i]];
      text += (i === 0 ? "{" : ",") + JSONStringify(names[i]) + ":";
      if (typeof value !== "object") text += JSONStringify(value);
      else {
        text += "[";
        for (let k = 0; k < value.length; k++) text += (k === 0 ? "" : ",") + JSONStringify(value[k]);
        text += "]";
      }
    }
    return text + "}";
  }

  /** Returns the bits of a key that is derived or generated for an algorithm, or null for any number. */
  function keyLength({ name, hash, length }) {
    if (name === "HKDF" || name === "PBKDF2") return null;
    if (name === "HMAC") {
      if (length === 0) throw new TypeError("`length` of a key for HMAC must not be 0");
      return length ?? hash.block * 8;
    }
    if (length !== 128 && length !== 192 && length !== 256) fail("OperationError", "a key for AES has 128, 192 or 256 bits");
    return length;
  }

  function generateSecret(algorithm, extractable, usages) {
    const { name, hash, length } = algorithm;
    if (name === "HMAC") allow(usages, USE.sign | USE.verify);
    else allow(usages, name === "AES-KW" ? WRAP : USE.encrypt | USE.decrypt | WRAP);
    if (length === 0) fail("OperationError", "`length` of a key must not be 0");
    const bits = keyLength(algorithm);
    const data = new Uint8Array((bits + 7 - ((bits + 7) % 8)) / 8);
    ops.op_random(data);
    clearBits(data, bits);
    if (usages === 0) fail("SyntaxError", "a secret key must have a usage");
    return makeKey(SECRET, extractable, { __proto__: null, name, hash, length: bits }, usages, data);
  }

  /** Bits of the shortest and of the longest modulus of RSA. */
  const MIN_MODULUS = 1024;
  const MAX_MODULUS = 8192;
  const MAX_EXPONENT = 2 ** 33 - 1;

  /** Returns a public exponent as a number. Throws unless the worker can make such a key. */
  function exponentOf({ modulusLength, publicExponent }) {
    if (modulusLength < MIN_MODULUS || modulusLength > MAX_MODULUS) {
      fail("OperationError", `a key for RSA has ${MIN_MODULUS} to ${MAX_MODULUS} bits`);
    }
    let exponent = 0;
    for (let i = 0; i < sizeOf(publicExponent) && exponent <= MAX_EXPONENT; i++) exponent = exponent * 256 + publicExponent[i];
    if (exponent < 3 || exponent % 2 === 0 || exponent > MAX_EXPONENT) {
      fail("OperationError", "`publicExponent` must be odd, and from 3 to 8,589,934,591");
    }
    return exponent;
  }

  function generatePair(algorithm, extractable, usages) {
    const { name, modulusLength = 0, namedCurve } = algorithm;
    const allowed = pairUsages(name);
    allow(usages, allowed.public | allowed.private);
    if (namedCurve !== undefined) curveOf(namedCurve);
    const kind = kindOf(algorithm);
    const exponent = kind === "RSA" ? exponentOf(algorithm) : 0;
    if ((usages & allowed.private) === 0) fail("SyntaxError", "a private key must have a usage");
    const data = ops.op_crypto_generate(kind, modulusLength, exponent);
    if (isEmpty(data)) fail("OperationError", "the key cannot be generated");
    const shared = kind === "RSA" ? rsaAlgorithm(algorithm, PRIVATE, data) : { __proto__: null, name, namedCurve };
    return {
      privateKey: makeKey(PRIVATE, extractable, shared, usages & allowed.private, data),
      publicKey: makeKey(PUBLIC, true, shared, usages & allowed.public, ops.op_crypto_public(kind, data)),
    };
  }

  function generateKey(algorithm, extractable, usages) {
    const { name } = algorithm;
    if (name === "HMAC" || AES_SUFFIX[name] !== undefined) return generateSecret(algorithm, extractable, usages);
    return generatePair(algorithm, extractable, usages);
  }

  parts.keyFormats = {
    __proto__: null, clearBits, exportBytes, exportJwk, generateKey, importKey, jwkText, keyLength, kindOf, parseJwk, plainJwk, readJwk,
  };
})(globalThis.__tollhouse);
