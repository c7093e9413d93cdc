// `ctx.progress`: what the caller may hear while the call runs.
"use strict";

((parts) => {
  const { ops, check } = parts;
  const { ObjectFreeze, TypeError } = parts.primordials;

  /** `fraction`: how much is done, from 0 to 1. */
  const progress = (message, fraction) => {
    check.string(message, "message");
    const absent = fraction === undefined || fraction === null;
    if (!absent && !(typeof fraction === "number" && fraction >= 0 && fraction <= 1)) {
      throw new TypeError("fraction must be a number from 0 to 1");
    }
    ops.op_progress(message, absent ? -1 : fraction);
  };

  parts.give("progress", ObjectFreeze(progress));
})(globalThis.__tollhouse);
