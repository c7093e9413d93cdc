// Common features that handlers lack: error messages that name the alternative.
//
// The names stay undefined, so that feature detection (`typeof process`) finds nothing and
// continues. A ReferenceError that leaves the handler gets the advice on its way to the caller and
// the log.
"use strict";

((parts) => {
  const { ObjectDefineProperty, ObjectFreeze, RegExpPrototypeExec, SafeMap, SafeRegExp, TypeError } = parts.primordials;

  const HTTP = "use `await ctx.httpGetJson(url)`, with the capability `httpGetJson` and the host in `allowedHosts`";
  const MODULE = "a handler is one module without imports: bundle what it needs into it, and `export default` the function";
  const PAGE = "there is no page here; `ctx.kv` and `ctx.files` keep things";
  const BYTES = "use Uint8Array and strings; an answer is a JSON value or `new Response(body)`";
  const KEYS =
    "`crypto.subtle` has `digest` alone: bundle a package for the rest, for example `@noble/hashes` for HMAC and `@noble/curves` for signatures";
  const STRINGS =
    "code from strings is not available: use a package that makes none, or have it write its code before you publish (ajv's standalone code, precompiled templates)";

  const ADVICE = new SafeMap();
  for (const [names, advice] of [
    [["fetch", "XMLHttpRequest", "Request", "axios", "WebSocket", "EventSource"], HTTP],
    [["Buffer"], "use Uint8Array, with TextEncoder, TextDecoder, atob and btoa"],
    [["require", "module", "exports", "__dirname", "__filename"], MODULE],
    [["process"], "settings and secrets are in `ctx.env`, and a handler ends by returning or throwing"],
    [["Deno", "Bun"], "a handler has `req`, `ctx` and the globals of the web that `tool.d.ts` names"],
    [["window", "document", "navigator", "location", "alert", "confirm", "prompt", "localStorage", "sessionStorage", "indexedDB", "caches"], PAGE],
    [["global"], "use globalThis"],
    [["setImmediate"], "use queueMicrotask or setTimeout"],
    [["WebAssembly"], STRINGS],
    [["Worker", "SharedArrayBuffer", "Atomics"], "a handler has one thread"],
    [["Blob", "File", "FormData", "ReadableStream"], BYTES],
    [["ctx"], "it is the handler's second parameter: `export default async (req, ctx) => ({})`"],
  ]) {
    for (let i = 0; i < names.length; i++) ADVICE.set(names[i], advice);
  }

  /**
   * Maximum length of a message that is examined: a name, and the text that engines put around it.
   */
  const LONGEST = 80;
  const MISSING = new SafeRegExp(/^(?:(?:globalThis|self|ctx|context|req)\.)?'?([A-Za-z_]+)'? is not (?:defined|a function|a constructor)$/);

  const RECORD = new SafeRegExp(/^[\w.]*\b(headers|query|env)\.(?:get|has|entries) is not a function$/);

  /** Members that `crypto.subtle` and Response have elsewhere, but not here. */
  const MEMBER = new SafeRegExp(/\b(?:(subtle)\.[A-Za-z]+|[A-Za-z_]+\.(?:blob|formData)) is not a function$/);

  /** Returns an error's message with the alternative for the missing name. */
  function advised(message) {
    if (message.length > LONGEST) return message;
    const missing = RegExpPrototypeExec(MISSING, message);
    if (missing !== null && ADVICE.has(missing[1])) return `${message}: ${ADVICE.get(missing[1])}`;
    const member = RegExpPrototypeExec(MEMBER, message);
    if (member !== null) return `${message}: ${member[1] === undefined ? BYTES : KEYS}`;
    const record = RegExpPrototypeExec(RECORD, message);
    if (record === null) return message;
    return `${message}: it is a record, such as \`${record[1] === "env" ? 'ctx.env["NAME"]' : `req.${record[1]}["name"]`}\``;
  }

  /** Prototype of every `req`, with the methods of a web `Request` that it lacks. */
  const habits = {};
  for (const [name, instead] of [
    ["json", "the input is read and checked already, in `req.input`"],
    ["text", "the body is read already, and its text is `req.inputText`"],
    ["arrayBuffer", "the body is read already, in `req.input`"],
    ["bytes", "the body is read already, in `req.input`"],
    ["blob", "the body is read already, in `req.input`"],
    ["formData", "calls take JSON: its members are in `req.input`"],
  ]) {
    const refuse = {
      [name]: () => {
        throw new TypeError(`\`req.${name}()\` is not there: ${instead}`);
      },
    }[name];
    ObjectDefineProperty(habits, name, { __proto__: null, value: ObjectFreeze(refuse), writable: false, enumerable: false, configurable: false });
  }

  parts.advised = advised;
  parts.noStrings = STRINGS;
  parts.habits = ObjectFreeze(habits);
})(globalThis.__tollhouse);
