// Node's `util`: https://nodejs.org/api/util.html
const { inspect, format, formatWithOptions, stripVTControlCharacters } = require("node-inspect-extracted");
const { MIMEParams, MIMEType } = require("unenv/node/util");
const types = require("util/types");

const custom = Symbol.for("nodejs.util.promisify.custom");
function promisify(original) {
  if (typeof original !== "function") throw new TypeError("The original argument must be of type function");
  if (typeof original[custom] === "function") return original[custom];
  function promisified(...args) {
    return new Promise((resolve, reject) => original.call(this, ...args, (error, value) => (error ? reject(error) : resolve(value))));
  }
  return Object.defineProperties(Object.setPrototypeOf(promisified, Object.getPrototypeOf(original)), Object.getOwnPropertyDescriptors(original));
}
promisify.custom = custom;

function callbackify(original) {
  return function callbackified(...args) {
    const callback = args.pop();
    original.apply(this, args).then(
      (value) => queueMicrotask(() => callback(null, value)),
      (reason) => queueMicrotask(() => callback(reason || Object.assign(new Error("Promise was rejected with a falsy value"), { reason }))),
    );
  };
}
function inherits(constructor, base) {
  Object.defineProperty(constructor, "super_", { value: base, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, base.prototype);
}
function deprecate(call, message, code) {
  let isWarned = false;
  function deprecated(...args) {
    if (!isWarned) {
      isWarned = true;
      console.warn(`DeprecationWarning: ${code ? `[${code}] ` : ""}${message}`);
    }
    return new.target ? Reflect.construct(call, args, new.target) : call.apply(this, args);
  }
  if (call.prototype) deprecated.prototype = call.prototype;
  return Object.setPrototypeOf(deprecated, call);
}
const debuglog = () => Object.assign(() => {}, { enabled: false });
const styleText = (style, text) => {
  const codes = [style].flat().map((name) => inspect.colors[name] ?? [0, 0]);
  return codes.reduceRight((inner, [open, close]) => `\x1b[${open}m${inner}\x1b[${close}m`, text);
};
const aborted = (signal) => new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })));

const util = {
  inspect, format, formatWithOptions, stripVTControlCharacters, promisify, callbackify, inherits, deprecate, debuglog, debug: debuglog, styleText, aborted,
  types, MIMEParams, MIMEType,
  TextDecoder: globalThis.TextDecoder,
  TextEncoder: globalThis.TextEncoder,
  toUSVString: (text) => String(text).toWellFormed(),
  isDeepStrictEqual: (a, b) => require("./equal.cjs").isDeepStrictEqual(a, b),
  log: (...args) => console.log(format(...args)),
  _extend: (target, source) => Object.assign(target, source),
  isArray: Array.isArray,
  isBoolean: (value) => typeof value === "boolean",
  isBuffer: (value) => require("buffer").Buffer.isBuffer(value),
  isDate: types.isDate,
  isError: (value) => value instanceof Error,
  isFunction: (value) => typeof value === "function",
  isNull: (value) => value === null,
  isNullOrUndefined: (value) => value === null || value === undefined,
  isNumber: (value) => typeof value === "number",
  isObject: (value) => typeof value === "object" && value !== null,
  isPrimitive: (value) => Object(value) !== value,
  isRegExp: types.isRegExp,
  isString: (value) => typeof value === "string",
  isSymbol: (value) => typeof value === "symbol",
  isUndefined: (value) => value === undefined,
};
module.exports = util;
