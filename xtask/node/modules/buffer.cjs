// Node's `buffer`: the package `buffer`, and the members that it lacks.
const { Buffer, SlowBuffer, kMaxLength, INSPECT_MAX_BYTES } = require("buffer/");

const bytesOf = (view) => (view instanceof ArrayBuffer ? new Uint8Array(view) : new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
// The package has neither `base64url` nor the methods that follow it.
const { isEncoding, from, byteLength } = Buffer;
const isUrl = (encoding) => typeof encoding === "string" && encoding.toLowerCase() === "base64url";
Buffer.isEncoding = (encoding) => isUrl(encoding) || isEncoding(encoding);
Buffer.from = (value, encoding, length) => from(value, isUrl(encoding) ? "base64" : encoding, length);
Buffer.byteLength = (value, encoding) => byteLength(value, isUrl(encoding) ? "base64" : encoding);
const { toString, write, fill, indexOf, includes, lastIndexOf } = Buffer.prototype;
Buffer.prototype.toString = Buffer.prototype.toLocaleString = function (encoding, start, end) {
  if (!isUrl(encoding)) return arguments.length === 0 ? toString.call(this) : toString.call(this, encoding, start, end);
  return toString.call(this, "base64", start, end).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};
const plain = (args) => args.map((arg) => (isUrl(arg) ? "base64" : arg));
for (const [name, method] of Object.entries({ write, fill, indexOf, includes, lastIndexOf })) {
  Buffer.prototype[name] = function (value, ...args) {
    return method.call(this, value, ...plain(args));
  };
}
Buffer.copyBytesFrom = (view, offset = 0, length = view.length - offset) => Buffer.from(bytesOf(view.slice(offset, offset + length)));
const methods = Object.getOwnPropertyNames(Buffer.prototype);
for (const name of methods) {
  // `readUint8` is another name of `readUInt8`.
  if (name.includes("UInt")) Buffer.prototype[name.replace("UInt", "Uint")] ??= Buffer.prototype[name];
}

const decodes = (value, fatal) => {
  try {
    new TextDecoder("utf-8", { fatal }).decode(value);
    return true;
  } catch {
    return false;
  }
};
module.exports = {
  Buffer,
  SlowBuffer,
  kMaxLength,
  kStringMaxLength: 0x1fffffe8,
  INSPECT_MAX_BYTES,
  constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 0x1fffffe8 },
  isAscii: (value) => bytesOf(value).every((byte) => byte < 128),
  isUtf8: (value) => decodes(value, true),
  transcode: (value, from, to) => Buffer.from(Buffer.from(value).toString(from), to),
  atob: globalThis.atob,
  btoa: globalThis.btoa,
  Blob: globalThis.Blob,
  File: globalThis.File,
};
