// Response, for answers that are more than a JSON value.
"use strict";

((parts) => {
  const { defineGlobal, headerList, headerValue } = parts;
  const { Headers } = parts.globals;
  const { JSONParse, Number, RangeError, String, StringPrototypeSlice, StringPrototypeToWellFormed, TypeError, Uint8Array,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeSlice, StringPrototypeCharCodeAt } = parts.primordials;

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
      return { __proto__: null, status: value.#status, headers: headerList(value.#headers), body: value.#body };
    }
  }
  const { head, read } = Response;
  delete Response.head;
  delete Response.read;
  parts.tag(Response.prototype, "Response");

  parts.readResponse = read;
  parts.responseHead = head;
  parts.withoutMark = withoutMark;
  defineGlobal("Response", Response);
})(globalThis.__tollhouse);
