// Node's `util.types`: https://nodejs.org/api/util.html#utiltypes
const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
const isTagged = (...names) => (value) => typeof value === "object" && value !== null && names.includes(tag(value));
const isFunction = (...names) => (value) => typeof value === "function" && names.includes(tag(value));
// The prototype's getter returns the real type, even if an object has a tag of its own.
const nameOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
const types = {
  isAnyArrayBuffer: isTagged("ArrayBuffer", "SharedArrayBuffer"),
  isArgumentsObject: isTagged("Arguments"),
  isArrayBuffer: isTagged("ArrayBuffer"),
  isArrayBufferView: ArrayBuffer.isView,
  isAsyncFunction: isFunction("AsyncFunction", "AsyncGeneratorFunction"),
  isBigIntObject: isTagged("BigInt"),
  isBooleanObject: isTagged("Boolean"),
  isBoxedPrimitive: isTagged("BigInt", "Boolean", "Number", "String", "Symbol"),
  isCryptoKey: isTagged("CryptoKey"),
  isDataView: isTagged("DataView"),
  isDate: isTagged("Date"),
  isExternal: () => false,
  isGeneratorFunction: isFunction("GeneratorFunction", "AsyncGeneratorFunction"),
  isGeneratorObject: isTagged("Generator", "AsyncGenerator"),
  isKeyObject: (value) => value instanceof require("crypto").KeyObject,
  isMap: isTagged("Map"),
  isMapIterator: isTagged("Map Iterator"),
  isModuleNamespaceObject: isTagged("Module"),
  isNativeError: isTagged("Error"),
  isNumberObject: isTagged("Number"),
  isPromise: isTagged("Promise"),
  isProxy: () => false,
  isRegExp: isTagged("RegExp"),
  isSet: isTagged("Set"),
  isSetIterator: isTagged("Set Iterator"),
  isSharedArrayBuffer: isTagged("SharedArrayBuffer"),
  isStringObject: isTagged("String"),
  isSymbolObject: isTagged("Symbol"),
  isTypedArray: (value) => ArrayBuffer.isView(value) && nameOf.call(value) !== undefined,
  isWeakMap: isTagged("WeakMap"),
  isWeakSet: isTagged("WeakSet"),
};
for (const name of [
  "BigInt64Array", "BigUint64Array", "Float16Array", "Float32Array", "Float64Array", "Int8Array", "Int16Array", "Int32Array",
  "Uint8Array", "Uint8ClampedArray", "Uint16Array", "Uint32Array",
]) types[`is${name}`] = (value) => ArrayBuffer.isView(value) && nameOf.call(value) === name;
// `crypto` is large, and few ask for its keys.
types.isKeyObject = (value) => value?.constructor?.name === "KeyObject" && typeof value.export === "function";
module.exports = types;
