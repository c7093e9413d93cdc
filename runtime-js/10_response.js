// Response, for answers that are more than a JSON value, and for what other servers answer.
"use strict";

((parts) => {
  const { Body, addMissingHeader, bodyOfValue, defineBody, defineInterface, headerList, headersOf } = parts;
  const { Headers } = parts.globals;
  const { JSONParse, Number, RangeError, String, TypeError } = parts.primordials;

  const JSON_TYPE = "application/json";

  /** Converts to an `unsigned short` as Web IDL does: truncates fractions. */
  function unsignedShort(value) {
    const number = Number(value);
    if (number - number !== 0) return 0;
    const whole = (number - (number % 1)) % 0x10000;
    return whole < 0 ? whole + 0x10000 : whole;
  }

  function reasonPhrase(value) {
    const text = parts.byteString(value);
    if (!parts.isSendable(text)) throw new TypeError("a status text has characters that cannot be sent");
    return text;
  }

  const hasNullBody = (status) => status === 204 || status === 205 || status === 304;

  class Response {
    #status;
    #statusText;
    #headers;
    #body;
    /** Only the answer of another server has a URL. */
    #url = "";
    #redirected = false;
    #type = "default";

    constructor(body = null, init = undefined) {
      const status = init?.status;
      this.#status = status === undefined ? 200 : unsignedShort(status);
      if (this.#status < 200 || this.#status > 599) {
        throw new RangeError("a status must be a whole number from 200 to 599");
      }
      this.#statusText = init?.statusText === undefined ? "" : reasonPhrase(init.statusText);
      this.#headers = new Headers(init?.headers ?? undefined);
      this.#body = new Body(null);
      if (body === null) return;
      const { body: given, type } = bodyOfValue(body);
      if (hasNullBody(this.#status)) throw new TypeError(`a response with status ${this.#status} has no body`);
      this.#body = given;
      if (type !== null) addMissingHeader(this.#headers, "content-type", type);
    }

    static json(value, init = undefined) {
      const text = parts.check.json(value, "the response");
      // Read only once, because rows can come from an iterator.
      const headers = new Headers(init?.headers ?? undefined);
      addMissingHeader(headers, "content-type", JSON_TYPE);
      return new Response(text, { __proto__: null, status: init?.status, statusText: init?.statusText, headers });
    }
    static error() {
      const response = new Response();
      response.#status = 0;
      response.#type = "error";
      response.#headers = headersOf([], true);
      return response;
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
      return this.#status >= 200 && this.#status <= 299;
    }
    get headers() {
      return this.#headers;
    }
    get type() {
      return this.#type;
    }
    get url() {
      return this.#url;
    }
    get redirected() {
      return this.#redirected;
    }
    clone() {
      const copy = new Response();
      copy.#body = this.#body.copy();
      copy.#status = this.#status;
      copy.#statusText = this.#statusText;
      copy.#headers = headersOf(headerList(this.#headers), this.#type !== "default");
      copy.#url = this.#url;
      copy.#redirected = this.#redirected;
      copy.#type = this.#type;
      return copy;
    }
    static bodyOf(object) {
      return object.#body;
    }
    static headersOf(object) {
      return headerList(object.#headers);
    }

    /** Returns `{ status, headers }` if `value` is a Response, else undefined. */
    static head(value) {
      return #status in value ? { __proto__: null, status: value.#status, headers: value.#headers } : undefined;
    }

    /** Returns `{ status, headers, body }` if `value` is a Response, else undefined. */
    static read(value) {
      if (!(#status in value)) return undefined;
      if (value.#type === "error") throw new TypeError("a tool must answer with a status, not with a network error");
      value.#body.requireUsable();
      return { __proto__: null, status: value.#status, headers: parts.sendableRows(headerList(value.#headers)), body: value.#body };
    }

    /**
     * Returns the answer of another server. `head` has `status`, `statusText`, `url`, `redirected` and
     * the rows `headers`. `content` is the body: bytes, which belong to it from now on, a stream or null.
     */
    static received(head, content) {
      const response = new Response();
      const isNull = content === null || hasNullBody(head.status);
      response.#body = !isNull && parts.isStream(content) ? new Body(undefined, content) : new Body(isNull ? null : content);
      response.#status = head.status;
      response.#statusText = head.statusText;
      response.#headers = headersOf(head.headers, true);
      response.#url = head.url;
      response.#redirected = head.redirected;
      response.#type = "basic";
      return response;
    }
  }
  const { bodyOf, head, headersOf: rowsOf, read, received } = Response;
  delete Response.bodyOf;
  delete Response.headersOf;
  delete Response.head;
  delete Response.read;
  delete Response.received;

  parts.readResponse = read;
  parts.responseHead = head;
  parts.receivedResponse = received;
  defineBody(Response, bodyOf, rowsOf);
  defineInterface(Response);
})(globalThis.__tollhouse);
