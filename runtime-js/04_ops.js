// Ops that wait: each is a number and a promise. The worker sends the request when its turn comes, and calls `deliver`
// when the host has answered, or at once where it refused to ask.
"use strict";

((parts) => {
  const { ToolError, clock } = parts;
  const { JSONParse, JSONStringify, NumberMAX_SAFE_INTEGER, Promise, PromiseReject, SafeMap, StringPrototypeIsWellFormed, TypeError } =
    parts.primordials;

  /** Number of an op under way -> what its answer does. */
  const waiting = new SafeMap();

  /** Kinds of answer, as the worker's `pump.rs` numbers them. */
  const NONE = 0;
  const JSON_TEXT = 1;
  const BYTES = 2;
  const FAILURE = 3;

  /** The promise of the op that was just numbered. `convert` makes the answer what the handler sees. */
  function promised(number, convert) {
    return new Promise((resolve, reject) => {
      waiting.set(number, { __proto__: null, resolve, reject, convert });
    });
  }

  /**
   * Called by the worker, with primitives and byte arrays only. Never throws, so that no value of
   * a handler reaches the worker's native side.
   */
  function deliver(number, nowMs, kind, value, code) {
    clock.advance(nowMs);
    const op = waiting.get(number);
    if (op === undefined) return;
    waiting.delete(number);
    try {
      if (kind === FAILURE) {
        op.reject(new ToolError(code, value));
        return;
      }
      let answer;
      if (kind === JSON_TEXT) answer = JSONParse(value);
      else if (kind === BYTES) answer = value;
      else if (kind === NONE) answer = undefined;
      op.resolve(op.convert === undefined ? answer : op.convert(answer));
    } catch (error) {
      op.reject(error);
    }
  }

  /** Runs `start` and gives its promise; what it throws rejects, as from an async function. */
  function request(start) {
    try {
      return start();
    } catch (error) {
      return PromiseReject(error);
    }
  }

  /** A call has ended: its ops under way have nobody to answer. */
  function forget() {
    if (waiting.size !== 0) waiting.clear();
  }

  /** Nobody listens any more for the answer of this op. */
  function forgetOp(number) {
    waiting.delete(number);
  }

  /** A string argument, or a TypeError that names it. */
  function string(value, what) {
    if (typeof value !== "string") throw new TypeError(`${what} must be a string`);
    return value;
  }

  /** A string that names something. Half of a surrogate pair is refused: on its way to the host all of them become one and the same. */
  function name(value, what) {
    if (!StringPrototypeIsWellFormed(string(value, what))) {
      throw new ToolError("invalid_argument", `${what} has half of a surrogate pair in it; toWellFormed() of a text mends it`);
    }
    return value;
  }

  /** A value as JSON text, or a TypeError that names it. */
  function json(value, what) {
    const text = JSONStringify(value);
    if (typeof text !== "string") throw new TypeError(`${what} has no JSON form`);
    return text;
  }

  /** An optional whole number of at least `least`; -1 stands for absent. */
  function whole(value, what, least) {
    if (value === undefined || value === null) return -1;
    if (typeof value !== "number" || value !== value || value < least || value > NumberMAX_SAFE_INTEGER || value % 1 !== 0) {
      throw new TypeError(`${what} must be a whole number of at least ${least}`);
    }
    return value;
  }

  parts.deliver = deliver;
  parts.promised = promised;
  parts.request = request;
  parts.forgetOp = forgetOp;
  parts.forgetOps = forget;
  parts.check = { __proto__: null, string, name, json, whole };
})(globalThis.__tollhouse);
