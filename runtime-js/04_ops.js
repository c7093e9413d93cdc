// Asynchronous ops: each is a number and a promise. The worker sends the request when the limits of
// the call permit it. It calls `deliver` when the host has answered, or at once if the worker refused
// the request.
"use strict";

((parts) => {
  const { ToolError, setReason, clock, define, ops } = parts;
  const { ArrayIsArray, JSONParse, JSONStringify, NumberMAX_SAFE_INTEGER, ObjectKeys, Promise, PromiseReject, SafeMap,
    StringPrototypeIsWellFormed, TypeError } = parts.primordials;

  /** The running call. A `ctx` works as long as its own call is this one. */
  let running = undefined;

  /** Unanswered ops of ended calls. */
  let unanswered = [];

  /** Maximum stored ops of ended calls. The promises of further ones never settle. */
  const MAX_UNANSWERED = 100;

  /** Pending ops by number, with the handlers of their answers. */
  const waiting = new SafeMap();

  /** Kinds of answer, numbered as in the worker's `pump.rs`. */
  const NONE = 0;
  const JSON_TEXT = 1;
  const BYTES = 2;
  const FAILURE = 3;
  const RESPONSE = 4;

  /**
   * Returns the promise for the op with this number. `convert` turns the answer into the handler's
   * value. A failure is an error with the stack of the request: when it arrives, no code of the
   * handler is running.
   */
  function promised(number, convert) {
    const failure = new ToolError();
    return new Promise((resolve, reject) => {
      waiting.set(number, { __proto__: null, resolve, reject, convert, failure });
    });
  }

  /** Calls `resolve` or `reject` with the answer to the op with this number, as a promise would get it. */
  function awaited(number, convert, resolve, reject) {
    waiting.set(number, { __proto__: null, resolve, reject, convert, failure: new ToolError() });
  }

  /** Calls `fire` when the timer with this number has expired. */
  function timed(number, fire) {
    waiting.set(number, { __proto__: null, resolve: fire, reject: undefined, convert: undefined, failure: undefined });
  }

  /** Calls `task`, which must not throw, once all microtasks have run. Dropped if the call has ended by then. */
  function queueTask(task) {
    const number = ops.op_task();
    waiting.set(number, { __proto__: null, resolve: undefined, reject: undefined, convert: undefined, failure: undefined, task });
  }

  /**
   * Called by the worker, only with primitives and byte arrays. Never throws, so that no value of a
   * handler reaches the worker's native side. A response has its head in `value`, the beginning
   * of its body in `code`, and in `status` whether the body goes on.
   */
  function deliver(number, nowMs, kind, value, code, status) {
    clock.advance(nowMs);
    const op = waiting.get(number);
    if (op === undefined) return;
    waiting.delete(number);
    try {
      if (op.task !== undefined) {
        op.task();
        return;
      }
      if (kind === FAILURE) {
        op.reject?.(setReason(op.failure, code, value, status));
        return;
      }
      let answer;
      if (kind === JSON_TEXT) answer = JSONParse(value);
      else if (kind === BYTES) answer = value;
      else if (kind === RESPONSE) answer = { __proto__: null, head: JSONParse(value), bytes: code, more: status };
      else if (kind === NONE) answer = undefined;
      op.resolve(op.convert === undefined ? answer : op.convert(answer));
    } catch (error) {
      op.reject?.(error);
    }
  }

  function callEnded(error = new ToolError()) {
    return setReason(
      error,
      "call_ended",
      "the call that this `ctx` belongs to has ended: use the `ctx` of the running call, and await what a call begins before it returns, or pass it to `ctx.waitUntil`",
    );
  }

  /** Throws unless `call` is the running call, so that its `ctx` cannot act for another call. */
  function requireRunning(call) {
    if (call !== running) throw callEnded();
  }

  /** Returns whether `call` is the running call. */
  function isRunning(call) {
    return call === running;
  }

  /**
   * Throws unless a call is running. The warm-up has no id, and a module's top level can run after
   * it.
   */
  function requireCall(what) {
    if (running === undefined || running.id === "") throw new TypeError(`${what} only works in a call, not while the module loads`);
  }

  /**
   * Runs `start`, which sends an op of `call`, and returns its promise. An exception becomes a
   * rejection, as in an async function.
   */
  function request(call, start) {
    try {
      requireRunning(call);
      return start();
    } catch (error) {
      return PromiseReject(error);
    }
  }

  /**
   * Begins the call `id` and drops the ops of the previous call. Returns the identity that its
   * `ctx` uses.
   */
  function begin(id) {
    if (waiting.size !== 0) {
      waiting.forEach((op) => {
        if (op.reject !== undefined && unanswered.length < MAX_UNANSWERED) define(unanswered, unanswered.length, op);
      });
      waiting.clear();
    }
    running = { __proto__: null, id, answered: false, background: 0 };
    return running;
  }

  /**
   * Called by the worker if nothing else can wake the running call, which can wait for an op of an
   * ended call. Rejects these ops, and returns whether there were any.
   */
  function rejectUnanswered() {
    const ended = unanswered;
    unanswered = [];
    for (let i = 0; i < ended.length; i++) ended[i].reject(callEnded(ended[i].failure));
    return ended.length !== 0;
  }

  /** Ignores the answer of this op. */
  function forgetOp(number) {
    waiting.delete(number);
  }

  /** Returns a string argument, or throws a TypeError that names it. */
  function string(value, what) {
    if (typeof value !== "string") throw new TypeError(`${what} must be a string`);
    return value;
  }

  /**
   * Returns a string argument that names something. Throws for a lone surrogate, because the
   * encoding for the host converts all lone surrogates to the same character.
   */
  function name(value, what) {
    if (!StringPrototypeIsWellFormed(string(value, what))) {
      throw new ToolError("invalid_argument", `${what} has half of a surrogate pair in it; \`toWellFormed()\` fixes a string`);
    }
    return value;
  }

  /** Returns a value as JSON text, or throws a TypeError that names it. */
  function json(value, what) {
    const text = JSONStringify(value);
    if (typeof text !== "string") throw new TypeError(`${what} has no JSON form`);
    return text;
  }

  /** Returns an optional whole number of at least `min`, or -1 if it is absent. */
  function whole(value, what, min) {
    if (value === undefined || value === null) return -1;
    if (typeof value !== "number" || value !== value || value < min || value > NumberMAX_SAFE_INTEGER || value % 1 !== 0) {
      throw new TypeError(`${what} must be a whole number of at least ${min}`);
    }
    return value;
  }

  const NO_OPTIONS = { __proto__: null };

  /**
   * Checks the options of `what`: each must be in `known`. An undefined option counts as absent.
   * `instead` has advice for some unknown names.
   */
  function options(given, what, known, instead = NO_OPTIONS) {
    if (given === undefined || given === null) return NO_OPTIONS;
    if (typeof given !== "object" || ArrayIsArray(given)) throw new TypeError(`the options of ${what} must be an object`);
    const names = ObjectKeys(given);
    for (let i = 0; i < names.length; i++) {
      let isKnown = given[names[i]] === undefined;
      for (let k = 0; k < known.length && !isKnown; k++) isKnown = names[i] === known[k];
      if (isKnown) continue;
      const advice = instead[names[i]];
      throw new TypeError(`${what} has no option \`${names[i]}\`, only ${enumerate(known)}${advice === undefined ? "" : `: ${advice}`}`);
    }
    return given;
  }

  /**
   * Throws if there are arguments in `others`, which follow the first `max` of `what`. `undefined` and `null` count as
   * absent, and the index and the array that `keys.map(kv.get)` passes are allowed.
   */
  function noExtraArguments(others, what, max) {
    if (others.length === 2 && typeof others[0] === "number" && ArrayIsArray(others[1])) return;
    for (let i = 0; i < others.length; i++) {
      const given = others[i];
      if (given === undefined || given === null) continue;
      if (i === 0 && typeof given === "object" && !ArrayIsArray(given)) throw new TypeError(`${what} has no options`);
      throw new TypeError(`${what} takes at most ${max} ${max === 1 ? "argument" : "arguments"}`);
    }
  }

  /** Throws if there are arguments in `others`, which follow the options of `what`, its last of `max` arguments. */
  function noArgumentsAfterOptions(others, what, max) {
    for (let i = 0; i < others.length; i++) {
      if (others[i] === undefined || others[i] === null) continue;
      throw new TypeError(`${what} takes at most ${max} ${max === 1 ? "argument" : "arguments"}: put all options into one object`);
    }
  }

  const LIST_OPTIONS = ["prefix", "limit", "cursor"];

  /** Returns the options of a list as its op takes them. The arguments are those of the method `what`. */
  function listOptions(given, others, what) {
    noArgumentsAfterOptions(others, what, 1);
    const { prefix, limit, cursor } = options(given, what, LIST_OPTIONS);
    const text = (value, option) => (value === undefined || value === null ? "" : name(value, option));
    return { __proto__: null, prefix: text(prefix, "prefix"), limit: whole(limit, "limit", 1), cursor: text(cursor, "cursor") };
  }

  function enumerate(names) {
    let text = "";
    for (let i = 0; i < names.length; i++) text += `${i === 0 ? "" : i === names.length - 1 ? " and " : ", "}\`${names[i]}\``;
    return text;
  }

  parts.deliver = deliver;
  parts.promised = promised;
  parts.awaited = awaited;
  parts.timed = timed;
  parts.queueTask = queueTask;
  parts.request = request;
  parts.isRunning = isRunning;
  parts.requireRunning = requireRunning;
  parts.runningCall = () => running;
  parts.requireCall = requireCall;
  parts.beginCall = begin;
  parts.rejectUnanswered = rejectUnanswered;
  parts.forgetOp = forgetOp;
  parts.check = { __proto__: null, string, name, json, whole, options, listOptions, enumerate, noExtraArguments, noArgumentsAfterOptions };
})(globalThis.__tollhouse);
