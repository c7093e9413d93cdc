// Common features that handlers lack: error messages that name the alternative.
//
// The names stay undefined, so that feature detection (`typeof process`) finds nothing and
// continues. Advice is added to a ReferenceError that leaves the handler, for the caller and the
// log.
"use strict";

((parts) => {
  const { ObjectDefineProperty, ObjectFreeze, RegExpPrototypeExec, SafeMap, SafeRegExp, TypeError } = parts.primordials;

  const HTTP = "use the global `fetch(url)` or `ctx.httpGetJson(url)`, with its capability and the host in `allowedHosts`";
  const MODULE = "a handler is a single module without imports: bundle its packages into it, and `export default` the function";
  const PAGE = "a handler has no page; use `ctx.kv` and `ctx.files` to store data";
  const KEYS =
    "`crypto.subtle.verify` compares signatures in constant time; for an algorithm that `crypto.subtle` lacks, bundle a package, for example `@noble/curves`";
  const STRINGS =
    "code from strings is not available: use a package that does not need it, or generate its code before you publish (for example, standalone code of ajv or precompiled templates)";

  const WASM = "a tool needs the capability `wasm` for it, on a host with V8 and outside the tier `jitless`";

  const ADVICE = new SafeMap();
  for (const [names, advice] of [
    [["fetch", "XMLHttpRequest", "axios", "WebSocket", "EventSource"], HTTP],
    [["Buffer"], "use Uint8Array, with TextEncoder, TextDecoder, atob and btoa"],
    [["require", "module", "exports", "__dirname", "__filename"], MODULE],
    [["process"], "settings and secrets are in `ctx.env`, and a handler ends by returning or throwing"],
    [["Deno", "Bun"], "a handler has `req`, `ctx` and the web globals that `tool.d.ts` lists"],
    [["window", "document", "location", "alert", "confirm", "prompt", "localStorage", "sessionStorage", "indexedDB", "caches"], PAGE],
    [["global"], "use globalThis"],
    [["setImmediate"], "use queueMicrotask or setTimeout"],
    [["WebAssembly"], WASM],
    [["Worker", "SharedArrayBuffer", "Atomics"], "a handler has one thread"],
    [["waitUntil"], "use `ctx.waitUntil(promise)`"],
    [["passThroughOnException"], "the caller gets every error of a handler, so catch it in the handler"],
    [["ctx"], "it is the handler's second parameter: `export default async (req, ctx) => ({})`"],
  ]) {
    for (let i = 0; i < names.length; i++) ADVICE.set(names[i], advice);
  }

  /**
   * Maximum length of a message that can get advice: a name with the text of the engine around it.
   */
  const MAX_MESSAGE_LENGTH = 80;
  const MISSING = new SafeRegExp(/^(?:(?:globalThis|self|ctx|context|req)\.)?'?([A-Za-z_]+)'? is not (?:defined|a function|a constructor)$/);

  const RECORD = new SafeRegExp(/^[\w.]*\b(headers|query|env)\.(?:get|has|entries) is not a function$/);

  /** Members of `crypto.subtle` that exist on other platforms, but not here. */
  const MEMBER = new SafeRegExp(/\bsubtle\.[A-Za-z]+ is not a function$/);

  /** A method that a member of `ctx` lacks. In QuickJS, the message does not name the method. */
  const METHOD = new SafeRegExp(/^(?:(?:ctx|context|env)\.)?(kv|files)\.([A-Za-z]+) is not a function$/);

  const KV = ["get", "set", "delete", "list", "atomic"];
  const FILES = ["read", "readText", "readJson", "write", "delete", "list"];

  /** Returns the methods of a member of `ctx`, if `name` is not one of them. */
  function methodsInstead(member, name) {
    const methods = member === "kv" ? KV : FILES;
    for (let i = 0; i < methods.length; i++) if (methods[i] === name) return undefined;
    return `the methods of \`ctx.${member}\` are ${parts.check.enumerate(methods)}`;
  }

  /** Returns an error message, with the alternative if it is about a missing name. */
  function withAdvice(message) {
    if (message.length > MAX_MESSAGE_LENGTH) return message;
    const missing = RegExpPrototypeExec(MISSING, message);
    if (missing !== null && ADVICE.has(missing[1])) return `${message}: ${ADVICE.get(missing[1])}`;
    const method = RegExpPrototypeExec(METHOD, message);
    const methods = method === null ? undefined : methodsInstead(method[1], method[2]);
    if (methods !== undefined) return `${message}: ${methods}`;
    if (RegExpPrototypeExec(MEMBER, message) !== null) return `${message}: ${KEYS}`;
    const record = RegExpPrototypeExec(RECORD, message);
    if (record === null) return message;
    return `${message}: it is a record: use \`${record[1] === "env" ? 'ctx.env["NAME"]' : `req.${record[1]}["name"]`}\``;
  }

  /** The start of an error about a member of undefined, in both engines. */
  const OF_UNDEFINED = new SafeRegExp(/^TypeError: [Cc]annot (?:read|destructure) propert(?:y|ies) [^\n]{0,200}undefined/);

  /** Returns an error message, with the alternative if it can be about a third parameter, which no call sets. */
  function withAdviceOnParameters(message) {
    if (RegExpPrototypeExec(OF_UNDEFINED, message) === null) return message;
    return `${message}: a handler has two parameters, \`(req, ctx)\`, and its secrets are in \`ctx.env\``;
  }

  /** Prototype of every `req`, with the methods of a web `Request` that it lacks. */
  const requestPrototype = {};
  for (const [name, instead] of [
    ["json", "the host has already parsed and checked the input, in `req.input`"],
    ["text", "the host has already read the body, and its text is in `req.inputText`"],
    ["arrayBuffer", "the host has already read the body, into `req.input`"],
    ["bytes", "the host has already read the body, into `req.input`"],
    ["blob", "the host has already read the body, into `req.input`"],
    ["formData", "this call came as JSON, and its fields are in `req.input`; `requestTypes` in `tool.json` lists other types"],
  ]) {
    const refuse = {
      [name]: () => {
        throw new TypeError(`\`req.${name}()\` does not exist: ${instead}`);
      },
    }[name];
    ObjectDefineProperty(requestPrototype, name, { __proto__: null, value: ObjectFreeze(refuse), writable: false, enumerable: false, configurable: false });
  }

  parts.withAdvice = withAdvice;
  parts.withAdviceOnParameters = withAdviceOnParameters;
  parts.noCodeFromStrings = STRINGS;
  parts.requestPrototype = ObjectFreeze(requestPrototype);
})(globalThis.__tollhouse);
