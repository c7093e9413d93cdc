// `ctx.charge`: sets the price of the call if the handler decides it.
"use strict";

((parts) => {
  const { ToolError, ops, promised, request } = parts;
  const { ObjectFreeze, String, TypeError } = parts.primordials;

  parts.defineMember("charge", (call) =>
    /**
     * `usd`: dollars, as a number or a decimal string. The host parses it, and compares the call's
     * id with the running call.
     */
    ObjectFreeze((usd, ...others) =>
      request(call, () => {
        if (typeof usd !== "number" && typeof usd !== "string") throw new TypeError("usd must be a number or a string");
        if (call.answered) throw new ToolError("call_ended", "the call has its answer, so its charge is final: charge before the handler returns");
        if (others.length !== 0) throw new TypeError("ctx.charge takes only an amount in dollars, and no options");
        return promised(ops.op_charge(call.id, String(usd)));
      }),
    ),
  );
})(globalThis.__tollhouse);
