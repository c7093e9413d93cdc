// Headers and Response, for answers that are more than a JSON value.
"use strict";

((parts) => {
  const { define, defineGlobal } = parts;
  const { JSONParse, Number, ObjectKeys, RangeError, SafeMap, SafeRegExp,
    RegExpPrototypeExec, String, StringPrototypeToLowerCase, StringPrototypeSlice, StringPrototypeToWellFormed, SymbolIterator, TypeError, Uint8Array,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeSlice, StringPrototypeCharCodeAt, ArrayPrototypeSort } = parts.primordials;

  const TOKEN = new SafeRegExp(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/);
  const VALUE = new SafeRegExp(/^[\t\x20-\x7e\x80-\xff]*$/);

  function headerName(name) {
    const text = StringPrototypeToLowerCase(String(name));
    if (RegExpPrototypeExec(TOKEN, text) === null) throw new TypeError(`\`${text}\` is not a header name`);
    return text;
  }

  function headerValue(value) {
    const text = trimmed(String(value));
    if (RegExpPrototypeExec(VALUE, text) === null) throw new TypeError("a header value has characters that cannot be sent");
    return text;
  }

  /** Removes HTTP white space from both ends: only tab, line feed, carriage return and space. */
  function trimmed(text) {
    let from = 0;
    let to = text.length;
    while (from < to && isSpace(StringPrototypeCharCodeAt(text, from))) from++;
    while (to > from && isSpace(StringPrototypeCharCodeAt(text, to - 1))) to--;
    return StringPrototypeSlice(text, from, to);
  }

  const isSpace = (code) => code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;

  class Headers {
    #rows = [];

    constructor(init) {
      if (init === undefined) return;
      if (init === null || typeof init !== "object") throw new TypeError("headers must be an object, rows or Headers");
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
    /** Returns one row per name, joined and sorted, in iteration order. */
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
    /**
     * Returns the rows of `headers` as they were set, or undefined if it is not a Headers object.
     */
    static rowsOf(headers) {
      return #rows in headers ? headers.#rows : undefined;
    }
  }
  const { rowsOf } = Headers;
  delete Headers.rowsOf;

  const TEXT = "text/plain;charset=UTF-8";
  const JSON_TYPE = "application/json";

  /** Converts to an `unsigned short` as Web IDL does: truncates fractions. */
  function unsignedShort(value) {
    const number = Number(value);
    if (number - number !== 0) return 0;
    const whole = (number - (number % 1)) % 0x10000;
    return whole < 0 ? whole + 0x10000 : whole;
  }

  /** Removes a leading byte order mark from a text, as decoding its bytes would. */
  function withoutMark(text) {
    return StringPrototypeCharCodeAt(text, 0) === 0xfeff ? StringPrototypeSlice(text, 1) : text;
  }

  class Response {
    #status;
    #statusText;
    #headers;
    /** A string, our own Uint8Array, or null. */
    #body;
    #used = false;

    constructor(body = null, init = undefined) {
      const status = init?.status;
      this.#status = status === undefined ? 200 : unsignedShort(status);
      if (this.#status < 200 || this.#status > 599) {
        throw new RangeError("a status must be a whole number from 200 to 599");
      }
      this.#statusText = init?.statusText === undefined ? "" : headerValue(init.statusText);
      this.#headers = new Headers(init?.headers ?? undefined);
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
      // A lone surrogate cannot be encoded.
      this.#body = StringPrototypeToWellFormed(String(body));
      if (!this.#headers.has("content-type")) {
        this.#headers.set("content-type", params ? "application/x-www-form-urlencoded;charset=UTF-8" : TEXT);
      }
    }

    static json(value, init = undefined) {
      const text = parts.check.json(value, "the response");
      // Read only once, because rows can come from an iterator.
      const headers = new Headers(init?.headers ?? undefined);
      if (!headers.has("content-type")) headers.set("content-type", JSON_TYPE);
      return new Response(text, { __proto__: null, status: init?.status, statusText: init?.statusText, headers });
    }
    static error() {
      throw new TypeError("a tool must answer with a status, not with a network error");
    }
    static redirect(url, status = 302) {
      const code = Number(status);
      if (code !== 301 && code !== 302 && code !== 303 && code !== 307 && code !== 308) throw new RangeError("not a redirect status");
      const target = parts.ops.op_url_parse(String(url));
      if (target === "") {
        throw new TypeError(`\`${String(url)}\` is not a complete URL; for a path, use \`new Response(null, { status, headers: { location } })\``);
      }
      return new Response(null, { __proto__: null, status: code, headers: { __proto__: null, location: JSONParse(target)[0] } });
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
      if (typeof this.#body !== "string") return parts.ops.op_text_decode(this.#body, false);
      return withoutMark(this.#body);
    }
    /** Returns `{ status, headers }` if `value` is a Response, else undefined. */
    static head(value) {
      return #status in value ? { __proto__: null, status: value.#status, headers: value.#headers } : undefined;
    }

    /** Returns `{ status, headers, body }` if `value` is a Response, else undefined. */
    static read(value) {
      if (!(#status in value)) return undefined;
      if (value.#used) throw new TypeError("the body of the answer has been read already");
      return { __proto__: null, status: value.#status, headers: rowsOf(value.#headers), body: value.#body };
    }
  }
  const { head, read } = Response;
  delete Response.head;
  delete Response.read;
  parts.tag(Headers.prototype, "Headers");
  parts.tag(Response.prototype, "Response");

  parts.headerList = rowsOf;
  parts.readResponse = read;
  parts.responseHead = head;
  parts.withoutMark = withoutMark;
  defineGlobal("Headers", Headers);
  defineGlobal("Response", Response);
})(globalThis.__tollhouse);
