// `ctx.env`: the secrets granted to the running call, by name.
"use strict";

((parts) => {
  const { requireRunning } = parts;
  const { JSONParse, ObjectDefineProperty, ObjectFreeze } = parts.primordials;

  const none = ObjectFreeze({ __proto__: null });

  /**
   * Returns the secrets for `call`. `text` contains JSON rows of name and value, or is empty.
   * Access throws once the call has ended.
   */
  function env(call, text) {
    if (text === "") return none;
    const rows = JSONParse(text);
    const env = { __proto__: null };
    for (let i = 0; i < rows.length; i++) {
      const value = rows[i][1];
      const get = () => {
        requireRunning(call);
        return value;
      };
      ObjectDefineProperty(env, rows[i][0], { __proto__: null, get, enumerable: true, configurable: true });
    }
    return ObjectFreeze(env);
  }

  parts.env = env;
})(globalThis.__tollhouse);
