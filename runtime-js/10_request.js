// Request, for `fetch`: method, URL, headers and body of a request to another server.
"use strict";

((parts) => {
  const { Body, addMissingHeader, bodyOfValue, defineBody, defineInterface, headerList, headersOf, ops } = parts;
  const { Headers } = parts.globals;
  const { Boolean, JSONParse, RegExpPrototypeExec, SafeRegExp, String, StringPrototypeToUpperCase, TypeError } = parts.primordials;

  /** Options in the order in which Web IDL reads them. */
  const OPTIONS = ["body", "cache", "credentials", "duplex", "headers", "integrity", "keepalive", "method", "mode", "priority", "redirect",
    "referrer", "referrerPolicy", "signal", "window"];
  const CACHES = ["default", "no-store", "reload", "no-cache", "force-cache", "only-if-cached"];
  const CREDENTIALS = ["omit", "same-origin", "include"];
  const MODES = ["same-origin", "no-cors", "cors"];
  const PRIORITIES = ["high", "low", "auto"];
  const REDIRECTS = ["follow", "error", "manual"];
  const REFERRER_POLICIES = ["", "no-referrer", "no-referrer-when-downgrade", "same-origin", "origin", "strict-origin",
    "origin-when-cross-origin", "strict-origin-when-cross-origin", "unsafe-url"];

  const METHOD = new SafeRegExp(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/);
  const NORMALIZED = { __proto__: null, DELETE: 1, GET: 1, HEAD: 1, OPTIONS: 1, POST: 1, PUT: 1 };
  const FORBIDDEN = { __proto__: null, CONNECT: 1, TRACE: 1, TRACK: 1 };

  /** Parts of a URL, numbered as in src/ops/url.rs. */
  const HREF = 0, USERNAME = 2, PASSWORD = 3;

  /** Reads each option once. */
  function optionsOf(given) {
    const options = { __proto__: null };
    if (given === undefined || given === null) return options;
    if (typeof given !== "object" && typeof given !== "function") throw new TypeError("the options of a request must be an object");
    for (let i = 0; i < OPTIONS.length; i++) options[OPTIONS[i]] = given[OPTIONS[i]];
    return options;
  }

  function oneOf(values, given, name) {
    const text = String(given);
    for (let i = 0; i < values.length; i++) if (values[i] === text) return text;
    throw new TypeError(`\`${text}\` is not a value of the option \`${name}\` of a request`);
  }

  function methodOf(given) {
    const method = String(given);
    if (RegExpPrototypeExec(METHOD, method) === null) throw new TypeError(`\`${method}\` is not a method`);
    const upper = StringPrototypeToUpperCase(method);
    if (FORBIDDEN[upper] === 1) throw new TypeError(`a request cannot have the method ${upper}`);
    return NORMALIZED[upper] === 1 ? upper : method;
  }

  function urlOf(given) {
    const text = String(given);
    const held = ops.op_url_parse(text);
    if (held === "") throw new TypeError(`\`${text}\` is not a complete URL`);
    const url = JSONParse(held);
    if (url[USERNAME] !== "" || url[PASSWORD] !== "") throw new TypeError("the URL of a request cannot have a user name or a password");
    return url[HREF];
  }

  function referrerOf(given) {
    const referrer = String(given);
    if (referrer === "" || referrer === "about:client") return referrer;
    throw new TypeError("the option `referrer` is not supported: set the header `referer`");
  }

  /** Throws for options that the host cannot fulfill. The others change nothing on a server. */
  function refuseOptions({ duplex, priority, window }) {
    if (duplex !== undefined) oneOf(["half"], duplex, "duplex");
    if (priority !== undefined) oneOf(PRIORITIES, priority, "priority");
    if (window !== undefined && window !== null) throw new TypeError("the option `window` of a request must be null");
  }

  const INITIAL = { __proto__: null, method: "GET", url: "", cache: "default", credentials: "same-origin", integrity: "", keepalive: false,
    mode: "cors", redirect: "follow", referrer: "about:client", referrerPolicy: "" };

  /** Returns the settings of a new request. A URL of a Blob keeps its Blob, even if it is revoked. */
  const initial = (url) => ({ ...INITIAL, __proto__: null, url, blob: parts.blobOfUrl(url) });

  /** Returns the settings of a request that `options` change. */
  function settingsOf(old, options) {
    const settings = { ...old, __proto__: null };
    if (options.cache !== undefined) settings.cache = oneOf(CACHES, options.cache, "cache");
    if (options.credentials !== undefined) settings.credentials = oneOf(CREDENTIALS, options.credentials, "credentials");
    if (options.integrity !== undefined) settings.integrity = String(options.integrity);
    if (options.keepalive !== undefined) settings.keepalive = Boolean(options.keepalive);
    if (options.method !== undefined) settings.method = methodOf(options.method);
    if (options.mode !== undefined) settings.mode = oneOf(MODES, options.mode, "mode");
    if (options.redirect !== undefined) settings.redirect = oneOf(REDIRECTS, options.redirect, "redirect");
    if (options.referrer !== undefined) settings.referrer = referrerOf(options.referrer);
    if (options.referrerPolicy !== undefined) settings.referrerPolicy = oneOf(REFERRER_POLICIES, options.referrerPolicy, "referrerPolicy");
    if (settings.cache === "only-if-cached") throw new TypeError("the option `cache` cannot be `only-if-cached`: the host has no cache");
    return settings;
  }

  class Request {
    #settings;
    #headers;
    #body;
    /** The signal that the request was made with, or null. */
    #source = null;
    /** The request's own signal, which follows it. Created on first use. */
    #signal = undefined;

    constructor(input, init = undefined) {
      if (arguments.length === 0) throw new TypeError("a Request needs a URL");
      const old = input !== null && typeof input === "object" && #settings in input ? input : undefined;
      const options = optionsOf(init);
      refuseOptions(options);
      this.#settings = settingsOf(old === undefined ? initial(urlOf(input)) : old.#settings, options);
      if (options.headers !== undefined) this.#headers = new Headers(options.headers);
      else this.#headers = headersOf(old === undefined ? [] : headerList(old.#headers), false);
      this.#source = options.signal === undefined ? (old === undefined ? null : old.#source) : options.signal;
      if (this.#source !== null && !parts.isAbortSignal(this.#source)) throw new TypeError("the option `signal` must be an AbortSignal");
      this.#body = this.#bodyOf(options.body ?? null, old);
    }
    #bodyOf(given, old) {
      const inherited = given === null && old !== undefined && !old.#body.isNull;
      if (given === null && !inherited) return new Body(null);
      const { method } = this.#settings;
      if (method === "GET" || method === "HEAD") throw new TypeError(`a request with ${method} has no body`);
      // The body moves from one request to the other.
      if (inherited) return old.#body.move();
      const { body, type } = bodyOfValue(given);
      if (type !== null) addMissingHeader(this.#headers, "content-type", type);
      return body;
    }

    get method() {
      return this.#settings.method;
    }
    get url() {
      return this.#settings.url;
    }
    get headers() {
      return this.#headers;
    }
    get destination() {
      return this.#settings && "";
    }
    get referrer() {
      return this.#settings.referrer;
    }
    get referrerPolicy() {
      return this.#settings.referrerPolicy;
    }
    get mode() {
      return this.#settings.mode;
    }
    get credentials() {
      return this.#settings.credentials;
    }
    get cache() {
      return this.#settings.cache;
    }
    get redirect() {
      return this.#settings.redirect;
    }
    get integrity() {
      return this.#settings.integrity;
    }
    get keepalive() {
      return this.#settings.keepalive;
    }
    get duplex() {
      return this.#settings && "half";
    }
    get signal() {
      if (this.#signal === undefined) this.#signal = parts.followSignal(this.#source);
      return this.#signal;
    }
    clone() {
      const body = this.#body.copy();
      const copy = new Request(this.#settings.url);
      copy.#settings = this.#settings;
      copy.#headers = headersOf(headerList(this.#headers), false);
      copy.#body = body;
      copy.#source = this.#source;
      return copy;
    }

    static bodyOf(object) {
      return object.#body;
    }
    static headersOf(object) {
      return headerList(object.#headers);
    }

    /** Returns the method and URL if `value` is a Request, else undefined. */
    static head(value) {
      return #settings in value ? { __proto__: null, method: value.#settings.method, url: value.#settings.url } : undefined;
    }

    /** Reads a request that is about to be sent. */
    static read(request) {
      const headers = parts.sendableRows(headerList(request.#headers));
      return { __proto__: null, settings: request.#settings, headers, body: request.#body, signal: request.#source };
    }
  }
  const { bodyOf, head, headersOf: rowsOf, read } = Request;
  delete Request.bodyOf;
  delete Request.headersOf;
  delete Request.head;
  delete Request.read;

  parts.requestHead = head;
  parts.readRequest = read;
  defineBody(Request, bodyOf, rowsOf);
  defineInterface(Request);
})(globalThis.__tollhouse);
