// `ctx.charge`: what the call is to cost, where the handler decides that.
"use strict";

((parts) => {
  const { ops, promised, request } = parts;
  const { ObjectFreeze, String, TypeError } = parts.primordials;

  /** `usd`: dollars, as a number or as decimal text. The host reads it. */
  const charge = (usd) =>
    request(() => {
      if (typeof usd !== "number" && typeof usd !== "string") throw new TypeError("usd must be a number or a string");
      return promised(ops.op_charge(String(usd)));
    });

  parts.give("charge", ObjectFreeze(charge));
})(globalThis.__tollhouse);
