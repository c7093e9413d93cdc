// `ctx.env`: the secrets granted to the running call, by name.
"use strict";

((parts) => {
  const { JSONParse, ObjectFreeze } = parts.primordials;

  const none = ObjectFreeze({ __proto__: null });

  /** `text` is JSON rows of name and value, or empty. */
  function env(text) {
    if (text === "") return none;
    const rows = JSONParse(text);
    const env = { __proto__: null };
    for (let i = 0; i < rows.length; i++) parts.define(env, rows[i][0], rows[i][1]);
    return ObjectFreeze(env);
  }

  parts.env = env;
})(globalThis.__tollhouse);
