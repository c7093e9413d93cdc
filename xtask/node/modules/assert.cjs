// Node's `assert`: https://nodejs.org/api/assert.html
const { inspect, isDeepEqual, isDeepStrictEqual } = require("./equal.cjs");

const EXPECTED = {
  "==": "loosely equal",
  strictEqual: "strictly equal",
  deepEqual: "loosely deep-equal",
  deepStrictEqual: "strictly deep-equal",
  "!=": "loosely unequal",
  notStrictEqual: "strictly unequal",
  notDeepEqual: "loosely deep-unequal",
  notDeepStrictEqual: "strictly deep-unequal",
};

class AssertionError extends Error {
  constructor({ message, actual, expected, operator, stackStartFn }) {
    super(message ?? `Expected values to be ${EXPECTED[operator] ?? operator}:\n\n${inspect(actual)}\n\nand\n\n${inspect(expected)}`);
    this.name = "AssertionError";
    this.code = "ERR_ASSERTION";
    Object.assign(this, { actual, expected, operator, generatedMessage: message === undefined });
    Error.captureStackTrace?.(this, stackStartFn);
  }
}

function check(holds, options) {
  if (holds) return;
  if (options.message instanceof Error) throw options.message;
  throw new AssertionError(options);
}

function assert(value, message) {
  check(value, { message: message ?? "The expression evaluated to a falsy value", actual: value, expected: true, operator: "==", stackStartFn: assert });
}
const comparison = (operator, holds) => function compare(actual, expected, message) {
  check(holds(actual, expected), { message, actual, expected, operator, stackStartFn: compare });
};
assert.ok = (value, message) => assert(value, message);
assert.equal = comparison("==", (a, b) => a == b || (a !== a && b !== b));
assert.notEqual = comparison("!=", (a, b) => !(a == b || (a !== a && b !== b)));
assert.strictEqual = comparison("strictEqual", Object.is);
assert.notStrictEqual = comparison("notStrictEqual", (a, b) => !Object.is(a, b));
assert.deepEqual = comparison("deepEqual", isDeepEqual);
assert.notDeepEqual = comparison("notDeepEqual", (a, b) => !isDeepEqual(a, b));
assert.deepStrictEqual = comparison("deepStrictEqual", isDeepStrictEqual);
assert.notDeepStrictEqual = comparison("notDeepStrictEqual", (a, b) => !isDeepStrictEqual(a, b));
assert.match = comparison("match", (text, pattern) => typeof text === "string" && pattern.test(text));
assert.doesNotMatch = comparison("doesNotMatch", (text, pattern) => typeof text !== "string" || !pattern.test(text));
assert.fail = (message = "Failed") => {
  if (message instanceof Error) throw message;
  throw new AssertionError({ message, operator: "fail", stackStartFn: assert.fail });
};
assert.ifError = (value) => {
  if (value === null || value === undefined) return;
  throw value instanceof Error ? value : new AssertionError({ message: `ifError got unwanted exception: ${inspect(value)}`, actual: value, operator: "ifError" });
};

// Whether an error is the one that is expected: a class, a pattern, an object with fields, or a function that decides.
function fits(error, expected) {
  if (expected === undefined) return true;
  if (expected instanceof RegExp) return expected.test(String(error));
  if (typeof expected === "function") {
    if (expected.prototype !== undefined && error instanceof expected) return true;
    return !Error.isPrototypeOf(expected) && expected.call({}, error) === true;
  }
  const keys = expected instanceof Error ? [...Object.keys(expected), "name", "message"] : Object.keys(expected);
  return keys.every((key) =>
    expected[key] instanceof RegExp && typeof error?.[key] === "string" ? expected[key].test(error[key]) : isDeepStrictEqual(error?.[key], expected[key]));
}
function thrown(error, expected, message, operator) {
  if (typeof expected === "string") [expected, message] = [undefined, expected];
  if (fits(error, expected)) return;
  if (expected instanceof RegExp || typeof expected === "object") {
    check(false, { message, actual: error, expected, operator });
  }
  throw error;
}
const missing = (operator, message) => new AssertionError({ message: typeof message === "string" ? message : `Missing expected ${operator === "rejects" ? "rejection" : "exception"}`, operator });
assert.throws = (call, expected, message) => {
  try {
    call();
  } catch (error) {
    return thrown(error, expected, message, "throws");
  }
  throw missing("throws", message ?? expected);
};
assert.doesNotThrow = (call) => void call();
assert.rejects = async (promise, expected, message) => {
  try {
    await (typeof promise === "function" ? promise() : promise);
  } catch (error) {
    return thrown(error, expected, message, "rejects");
  }
  throw missing("rejects", message ?? expected);
};
assert.doesNotReject = async (promise) => void (await (typeof promise === "function" ? promise() : promise));
assert.AssertionError = AssertionError;
assert.strict = Object.assign((value, message) => assert(value, message), assert, {
  equal: assert.strictEqual,
  notEqual: assert.notStrictEqual,
  deepEqual: assert.deepStrictEqual,
  notDeepEqual: assert.notDeepStrictEqual,
});
assert.strict.strict = assert.strict;
module.exports = assert;
