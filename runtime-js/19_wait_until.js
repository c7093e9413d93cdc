// `ctx.waitUntil`: work that goes on after the answer, within the limits of the call.
"use strict";

((parts) => {
  const { check, describe, isRunning, ops, requireRunning } = parts;
  const { ObjectFreeze, PromisePrototypeThen, PromiseResolve } = parts.primordials;

  /** Counts a settled promise. The last one ends the call if it was answered. */
  function settled(call) {
    call.background -= 1;
    if (call.background === 0) ops.op_background_work(false);
  }

  parts.defineMember("waitUntil", (call) =>
    ObjectFreeze((promise, ...others) => {
      requireRunning(call);
      check.noExtraArguments(others, "ctx.waitUntil", 1);
      const work = PromiseResolve(promise);
      call.background += 1;
      if (call.background === 1) ops.op_background_work(true);
      PromisePrototypeThen(
        work,
        () => {
          if (isRunning(call)) settled(call);
        },
        (error) => {
          if (!isRunning(call)) return;
          const { message, stack } = describe(error);
          ops.op_log(3, `the promise of ctx.waitUntil was rejected: ${stack === "" ? message : stack}`, "");
          settled(call);
        },
      );
    }),
  );
})(globalThis.__tollhouse);
