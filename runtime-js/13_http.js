// `ctx.httpGetJson`: one GET for JSON, made by the host through its guard.
"use strict";

((parts) => {
  const { ops, promised, request, check, define } = parts;
  const { JSONStringify, ObjectFreeze, ObjectKeys, String, SymbolIterator, TypeError } = parts.primordials;

  const OPTIONS = ["headers", "timeoutMs", "auth"];
  const AUTH_OPTIONS = ["header", "env"];
  const GET = "it sends a GET without a body";
  const INSTEAD = {
    __proto__: null, method: GET, body: GET, data: GET, json: GET, query: "put it into the URL", params: "put them into the URL",
    timeout: "`timeoutMs` limits its duration, in milliseconds", signal: "`timeoutMs` limits its duration, in milliseconds",
    redirect: "it follows up to 3 redirects to hosts in `allowedHosts`",
  };

  /**
   * Converts `headers` to rows of name and value. Accepts a plain object, rows of two, or a Headers
   * object.
   */
  function headerRows(headers) {
    const rows = [];
    if (headers === undefined || headers === null) return rows;
    if (typeof headers !== "object") throw new TypeError("headers must be an object, rows of a name and a value, or Headers");
    const own = parts.headerList(headers);
    if (own !== undefined) return parts.sendableRows(own);
    if (typeof headers[SymbolIterator] === "function") {
      for (const given of headers) {
        const pair = given !== null && typeof given === "object" ? [...given] : [];
        if (pair.length !== 2) throw new TypeError("a row of headers must be a name and a value");
        define(rows, rows.length, [String(pair[0]), String(pair[1])]);
      }
    } else {
      const names = ObjectKeys(headers);
      for (let i = 0; i < names.length; i++) define(rows, i, [names[i], String(headers[names[i]])]);
    }
    return rows;
  }

  function authOf(given) {
    if (given === undefined || given === null) return "";
    const { header, env } = check.options(given, "auth of ctx.httpGetJson", AUTH_OPTIONS);
    return JSONStringify({ __proto__: null, header: check.name(header, "auth.header"), env: check.name(env, "auth.env") });
  }

  function get(url, options, others) {
    check.noArgumentsAfterOptions(others, "ctx.httpGetJson", 2);
    const href = typeof url === "string" ? url : String(url);
    const { headers, timeoutMs, auth } = check.options(options, "ctx.httpGetJson", OPTIONS, INSTEAD);
    const timeout = check.whole(timeoutMs, "timeoutMs", 1);
    return promised(ops.op_http_get_json(href, parts.headerRowsJson(headerRows(headers)), timeout, authOf(auth)));
  }

  parts.defineMember("httpGetJson", (call) =>
    ObjectFreeze(function httpGetJson(url, options, ...others) {
      return request(call, () => get(url, options, others));
    }),
  );
})(globalThis.__tollhouse);
