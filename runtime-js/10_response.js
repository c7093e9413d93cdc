// Headers and Response: what a handler answers when a JSON value alone does not do.
"use strict";

((parts) => {
  const { define, offer } = parts;
  const { ArrayIsArray, Error, JSONParse, JSONStringify, Number, ObjectKeys, ObjectPrototypeIsPrototypeOf, Promise, RangeError, SafeMap, SafeRegExp,
    RegExpPrototypeExec, String, StringPrototypeToLowerCase, StringPrototypeToWellFormed, StringPrototypeTrim, SymbolIterator, TypeError, Uint8Array,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetBuffer, TypedArrayPrototypeSlice, StringPrototypeCharCodeAt, ArrayPrototypeSort } =
    parts.primordials;

  const TOKEN = new SafeRegExp(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/);
  const VALUE = new SafeRegExp(/^[\t\x20-\x7e\x80-\xff]*$/);

  function headerName(name) {
    const text = StringPrototypeToLowerCase(String(name));
    if (RegExpPrototypeExec(TOKEN, text) === null) throw new TypeError(`\`${text}\` is not a header name`);
    return text;
  }

  function headerValue(value) {
    const text = StringPrototypeTrim(String(value));
    if (RegExpPrototypeExec(VALUE, text) === null) throw new TypeError("a header value has characters that may not be sent");
    return text;
  }

  class Headers {
    #rows = [];

    constructor(init) {
      if (init === undefined || init === null) return;
      if (typeof init !== "object") throw new TypeError("headers must be an object, rows or Headers");
      if (#rows in init) {
        for (let i = 0; i < init.#rows.length; i++) this.append(init.#rows[i][0], init.#rows[i][1]);
      } else if (typeof init[SymbolIterator] === "function") {
        for (const row of init) {
          const pair = [...row];
          if (pair.length !== 2) throw new TypeError("a header row must be a name and a value");
          this.append(pair[0], pair[1]);
        }
      } else {
        const names = ObjectKeys(init);
        for (let i = 0; i < names.length; i++) this.append(names[i], init[names[i]]);
      }
    }
    append(name, value) {
      const row = [headerName(name), headerValue(value)];
      define(this.#rows, this.#rows.length, row);
    }
    delete(name) {
      this.#keep(headerName(name));
    }
    get(name) {
      const wanted = headerName(name);
      let found = null;
      for (let i = 0; i < this.#rows.length; i++) {
        if (this.#rows[i][0] === wanted) found = found === null ? this.#rows[i][1] : `${found}, ${this.#rows[i][1]}`;
      }
      return found;
    }
    getSetCookie() {
      const found = [];
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === "set-cookie") define(found, found.length, this.#rows[i][1]);
      return found;
    }
    has(name) {
      const wanted = headerName(name);
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === wanted) return true;
      return false;
    }
    set(name, value) {
      const wanted = headerName(name);
      const text = headerValue(value);
      this.#keep(wanted);
      define(this.#rows, this.#rows.length, [wanted, text]);
    }
    forEach(callback, self) {
      const rows = this.#sorted();
      for (let i = 0; i < rows.length; i++) callback.call(self, rows[i][1], rows[i][0], this);
    }
    *entries() {
      const rows = this.#sorted();
      for (let i = 0; i < rows.length; i++) yield [rows[i][0], rows[i][1]];
    }
    *keys() {
      const rows = this.#sorted();
      for (let i = 0; i < rows.length; i++) yield rows[i][0];
    }
    *values() {
      const rows = this.#sorted();
      for (let i = 0; i < rows.length; i++) yield rows[i][1];
    }
    [SymbolIterator]() {
      return this.entries();
    }
    #keep(unwanted) {
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] !== unwanted) define(rows, rows.length, this.#rows[i]);
      this.#rows = rows;
    }
    /** One row a name, joined and in order, as iteration shows them. */
    #sorted() {
      const joined = new SafeMap();
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) {
        const name = this.#rows[i][0];
        if (name === "set-cookie") {
          define(rows, rows.length, this.#rows[i]);
        } else if (joined.has(name)) {
          joined.get(name)[1] = `${joined.get(name)[1]}, ${this.#rows[i][1]}`;
        } else {
          const row = [name, this.#rows[i][1]];
          joined.set(name, row);
          define(rows, rows.length, row);
        }
      }
      return ArrayPrototypeSort(rows, (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    }
    /** The rows of `headers` as they were given; undefined when it is no Headers. */
    static rowsOf(headers) {
      return #rows in headers ? headers.#rows : undefined;
    }
  }
  const { rowsOf } = Headers;
  delete Headers.rowsOf;

  const TEXT = "text/plain;charset=UTF-8";
  const JSON_TYPE = "application/json";

  class Response {
    #status;
    #statusText;
    #headers;
    /** A string, a Uint8Array of our own, or null. */
    #body;
    #used = false;

    constructor(body = null, init = undefined) {
      const status = init?.status;
      this.#status = status === undefined ? 200 : Number(status);
      if (!(this.#status >= 200 && this.#status <= 599) || this.#status % 1 !== 0) {
        throw new RangeError("a status must be a whole number from 200 to 599");
      }
      this.#statusText = init?.statusText === undefined ? "" : headerValue(init.statusText);
      this.#headers = new Headers(init?.headers);
      if (body === null || body === undefined) {
        this.#body = null;
        return;
      }
      if (this.#status === 204 || this.#status === 205 || this.#status === 304) {
        throw new TypeError(`a response with status ${this.#status} has no body`);
      }
      const bytes = typeof body === "object" ? parts.bytesOf(body) : undefined;
      if (bytes !== undefined) {
        this.#body = TypedArrayPrototypeSlice(bytes);
        return;
      }
      const params = parts.isSearchParams?.(body) === true;
      // Half of a surrogate pair has no bytes.
      this.#body = StringPrototypeToWellFormed(String(body));
      if (!this.#headers.has("content-type")) {
        this.#headers.set("content-type", params ? "application/x-www-form-urlencoded;charset=UTF-8" : TEXT);
      }
    }

    static json(value, init) {
      const text = parts.check.json(value, "the response");
      const response = new Response(text, init);
      if (new Headers(init?.headers).get("content-type") === null) response.#headers.set("content-type", JSON_TYPE);
      return response;
    }
    static error() {
      throw new TypeError("a tool answers with a status, not with a network error");
    }
    static redirect(url, status = 302) {
      const code = Number(status);
      if (code !== 301 && code !== 302 && code !== 303 && code !== 307 && code !== 308) throw new RangeError("not a redirect status");
      return new Response(null, { __proto__: null, status: code, headers: { __proto__: null, location: String(url) } });
    }

    get status() {
      return this.#status;
    }
    get statusText() {
      return this.#statusText;
    }
    get ok() {
      return this.#status <= 299;
    }
    get headers() {
      return this.#headers;
    }
    get type() {
      return "default";
    }
    get url() {
      return "";
    }
    get redirected() {
      return false;
    }
    get bodyUsed() {
      return this.#used;
    }
    async text() {
      return this.#text();
    }
    async json() {
      return JSONParse(this.#text());
    }
    async bytes() {
      this.#use();
      if (this.#body === null) return new Uint8Array(0);
      return typeof this.#body === "string" ? parts.ops.op_text_encode(this.#body) : TypedArrayPrototypeSlice(this.#body);
    }
    async arrayBuffer() {
      return TypedArrayPrototypeGetBuffer(await this.bytes());
    }
    clone() {
      if (this.#used) throw new TypeError("the body has been read already");
      const init = { __proto__: null, status: this.#status, statusText: this.#statusText, headers: this.#headers };
      return new Response(this.#body, init);
    }
    #use() {
      if (this.#used) throw new TypeError("the body has been read already");
      if (this.#body !== null) this.#used = true;
    }
    #text() {
      this.#use();
      if (this.#body === null) return "";
      return typeof this.#body === "string" ? this.#body : parts.ops.op_text_decode(this.#body, false);
    }

    /** `{ status, headers, body }` when `value` is a Response, else undefined. */
    static read(value) {
      if (!(#status in value)) return undefined;
      if (value.#used) throw new TypeError("the body of the answer has been read already");
      return { __proto__: null, status: value.#status, headers: rowsOf(value.#headers), body: value.#body };
    }
  }
  const { read } = Response;
  delete Response.read;

  parts.headerList = rowsOf;
  parts.readResponse = read;
  offer("Headers", Headers);
  offer("Response", Response);
})(globalThis.__tollhouse);
