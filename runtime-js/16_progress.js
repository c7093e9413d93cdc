// `ctx.progress`: messages to the caller while the call runs.
"use strict";

((parts) => {
  const { ops, check, requireRunning } = parts;
  const { ObjectFreeze, TypeError } = parts.primordials;

  parts.defineMember("progress", (call) =>
    /** `fraction`: the completed fraction, from 0 to 1. */
    ObjectFreeze((message, fraction, ...others) => {
      requireRunning(call);
      check.string(message, "message");
      const absent = fraction === undefined || fraction === null;
      if (!absent && !(typeof fraction === "number" && fraction >= 0 && fraction <= 1)) {
        throw new TypeError("fraction must be a number from 0 to 1");
      }
      check.noExtraArguments(others, "ctx.progress", 2);
      ops.op_progress(message, absent ? -1 : fraction);
    }),
  );
})(globalThis.__tollhouse);
