// `ctx.httpGetJson`: one GET for JSON, made by the host through its guard.
"use strict";

((parts) => {
  const { ops, promised, request, check, define } = parts;
  const { JSONStringify, ObjectFreeze, ObjectKeys, String, TypeError } = parts.primordials;

  /** `headers` as rows of name and value: from a plain object, or a Headers. */
  function headerRows(headers) {
    const rows = [];
    if (headers === undefined || headers === null) return rows;
    if (typeof headers !== "object") throw new TypeError("headers must be an object");
    const own = parts.headerList?.(headers);
    if (own !== undefined) {
      for (let i = 0; i < own.length; i++) define(rows, i, row(own[i][0], own[i][1]));
      return rows;
    }
    const names = ObjectKeys(headers);
    for (let i = 0; i < names.length; i++) define(rows, i, row(names[i], String(headers[names[i]])));
    return rows;
  }

  function row(name, value) {
    const pair = [name, value];
    define(pair, "toJSON", undefined);
    return pair;
  }

  function httpGetJson(url, options) {
    return request(() => {
      const href = typeof url === "string" ? url : String(url);
      const timeout = check.whole(options?.timeoutMs, "timeoutMs", 1);
      const rows = headerRows(options?.headers);
      define(rows, "toJSON", undefined);
      let auth = null;
      if (options?.auth !== undefined && options.auth !== null) {
        auth = { __proto__: null, header: check.name(options.auth.header, "auth.header"), env: check.name(options.auth.env, "auth.env") };
      }
      return promised(ops.op_http_get_json(href, JSONStringify(rows), timeout, auth === null ? "" : JSONStringify(auth)));
    });
  }

  parts.give("httpGetJson", ObjectFreeze(httpGetJson));
})(globalThis.__tollhouse);
