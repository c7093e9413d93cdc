// Deep equality as Node's `assert` and `util` define it, and `inspect` for their messages.
const { inspect } = require("util");

const tag = (value) => Object.prototype.toString.call(value);
const same = (a, b, strict) => (strict ? Object.is(a, b) : a == b || (a !== a && b !== b));

function equal(a, b, strict, seen) {
  if (same(a, b, strict)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (tag(a) !== tag(b) || (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b))) return false;
  if (seen.get(a) === b) return true;
  seen.set(a, b);
  if (a instanceof Date) { if (!Object.is(a.getTime(), b.getTime())) return false; }
  else if (a instanceof RegExp) { if (String(a) !== String(b) || a.lastIndex !== b.lastIndex) return false; }
  else if (a instanceof Error) { if (a.message !== b.message || a.name !== b.name) return false; }
  else if (a instanceof Number || a instanceof String || a instanceof Boolean) { if (!Object.is(a.valueOf(), b.valueOf())) return false; }
  else if (a instanceof ArrayBuffer) return equal(new Uint8Array(a), new Uint8Array(b), strict, seen);
  else if (ArrayBuffer.isView(a)) {
    if (a.byteLength !== b.byteLength) return false;
    if (!(a instanceof DataView)) return a.length === b.length && a.every((value, at) => same(value, b[at], strict));
    const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    return bytes(a).every((byte, at) => byte === bytes(b)[at]);
  } else if (a instanceof Set || a instanceof Map) {
    if (a.size !== b.size) return false;
    const left = new Set(b instanceof Map ? b.entries() : b);
    for (const one of a instanceof Map ? a.entries() : a) {
      const other = left.has(one) ? one : [...left].find((other) => equal(one, other, strict, seen));
      if (other === undefined && !left.has(undefined)) return false;
      left.delete(other);
    }
  }
  const keys = (object) => {
    const symbols = Object.getOwnPropertySymbols(object).filter((key) => Object.prototype.propertyIsEnumerable.call(object, key));
    return strict ? [...Object.keys(object), ...symbols] : Object.keys(object);
  };
  const own = keys(a);
  if (Array.isArray(a) && a.length !== b.length) return false;
  return own.length === keys(b).length && own.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key], strict, seen));
}

exports.inspect = (value) => inspect(value, { depth: 2 });
exports.isDeepEqual = (a, b) => equal(a, b, false, new Map());
exports.isDeepStrictEqual = (a, b) => equal(a, b, true, new Map());
