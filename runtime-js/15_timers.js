// setTimeout and related functions. A timer is an op: the host keeps the time, and a handler that
// only waits uses no processor time.
"use strict";

((parts) => {
  const { defineOperation, ops, timed } = parts;
  const { Number, NumberIsNaN, PromisePrototypeThen, PromiseResolve, ReflectApply, SafeMap, TypeError } = parts.primordials;

  const LONGEST_MS = 2147483647;

  /** Active timers: number -> pending op. */
  const set = new SafeMap();
  let last = 0;

  function delay(ms) {
    const number = Number(ms);
    if (NumberIsNaN(number) || number < 1) return 1;
    return number > LONGEST_MS ? 1 : number - (number % 1);
  }

  function arm(timer, callback, ms, args, again) {
    const op = ops.op_sleep(ms, set.size + (set.has(timer) ? 0 : 1));
    set.set(timer, op);
    const fire = () => {
      if (set.get(timer) !== op) return;
      if (again) arm(timer, callback, ms, args, true);
      else set.delete(timer);
      try {
        ReflectApply(callback, undefined, args);
      } catch (error) {
        parts.uncaught(error);
      }
    };
    timed(op, fire);
  }

  function start(callback, ms, args, again) {
    if (typeof callback !== "function") throw new TypeError("the callback of a timer must be a function");
    const timer = ++last;
    arm(timer, callback, delay(ms), args, again);
    return timer;
  }

  function clear(timer) {
    const op = set.get(timer);
    if (op === undefined) return;
    set.delete(timer);
    ops.op_forget(op);
    parts.forgetOp(op);
  }

  function queueMicrotask(callback) {
    if (typeof callback !== "function") throw new TypeError("a microtask must be a function");
    PromisePrototypeThen(PromiseResolve(undefined), () => {
      try {
        callback();
      } catch (error) {
        parts.uncaught(error);
      }
    });
  }

  parts.forgetTimers = () => {
    if (set.size !== 0) set.clear();
  };
  const operations = {
    setTimeout(callback, ms = undefined, ...args) {
      return start(callback, ms, args, false);
    },
    setInterval(callback, ms = undefined, ...args) {
      return start(callback, ms, args, true);
    },
    clearTimeout(timer = undefined) {
      clear(timer);
    },
    clearInterval(timer = undefined) {
      clear(timer);
    },
  };
  defineOperation(operations.setTimeout);
  defineOperation(operations.setInterval);
  defineOperation(operations.clearTimeout);
  defineOperation(operations.clearInterval);
  defineOperation(queueMicrotask);
})(globalThis.__tollhouse);
