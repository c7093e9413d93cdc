// Headers, for answers of the handler and for requests to other servers.
"use strict";

((parts) => {
  const { define, defineInterface, definePairs, pairsOf } = parts;
  const { ArrayPrototypeSort, JSONStringify, RegExpPrototypeExec, SafeMap, SafeRegExp, StringPrototypeCharCodeAt, StringPrototypeSlice,
    StringPrototypeToLowerCase, SymbolIterator, TypeError } = parts.primordials;

  const TOKEN = new SafeRegExp(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/);
  /** Values of headers (Fetch standard, section 2.2.2), and those that can be sent (RFC 9110, section 5.5). */
  const VALUE = new SafeRegExp(/^[\x01-\x09\x0b\x0c\x0e-\xff]*$/);
  const SENDABLE = new SafeRegExp(/^[\t\x20-\x7e\x80-\xff]*$/);
  const BYTES = new SafeRegExp(/^[\0-\xff]*$/);

  /** Converts a value to a text whose characters are bytes (Web IDL, `ByteString`). */
  function byteString(value) {
    const text = `${value}`;
    if (RegExpPrototypeExec(BYTES, text) === null) throw new TypeError("a header has characters that are not Latin-1");
    return text;
  }

  function headerName(name) {
    const text = `${name}`;
    // Before the conversion, which makes a `k` of the Kelvin sign.
    if (RegExpPrototypeExec(TOKEN, text) === null) throw new TypeError(`\`${text}\` is not a header name`);
    return StringPrototypeToLowerCase(text);
  }

  function headerValue(value) {
    const text = trimmed(byteString(value));
    if (RegExpPrototypeExec(VALUE, text) === null) throw new TypeError("a header value has a line break or a null character");
    return text;
  }

  /** Returns rows, and throws if the value of one has characters that cannot be sent. */
  function sendable(rows) {
    for (let i = 0; i < rows.length; i++) {
      if (RegExpPrototypeExec(SENDABLE, rows[i][1]) === null) {
        throw new TypeError(`the value of the header \`${rows[i][0]}\` has characters that cannot be sent`);
      }
    }
    return rows;
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

  /** Returns rows of name and value as JSON text, whatever `toJSON` a handler has given to arrays. */
  function rowsJson(rows) {
    const copies = [];
    for (let i = 0; i < rows.length; i++) {
      const row = [rows[i][0], rows[i][1]];
      define(row, "toJSON", undefined);
      define(copies, i, row);
    }
    define(copies, "toJSON", undefined);
    return JSONStringify(copies);
  }

  class Headers {
    #rows = [];
    /** The rows in iteration order, until one changes. */
    #order = undefined;
    /** Whether these are the headers of a server's answer, which nobody can change. */
    #immutable = false;

    constructor(init = undefined) {
      if (init === undefined) return;
      if (init === null || (typeof init !== "object" && typeof init !== "function")) {
        throw new TypeError("headers must be an object, rows or Headers");
      }
      const isPlain = #rows in init && init[SymbolIterator] === iterate;
      const rows = isPlain ? init.#rows : pairsOf(init, byteString);
      for (let i = 0; i < rows.length; i++) this.#add(rows[i][0], rows[i][1]);
    }
    append(name, value) {
      this.#add(name, value);
    }
    /** The script calls this instead of `append`, which a handler can replace. */
    #add(name, value) {
      const row = [headerName(name), headerValue(value)];
      this.#requireMutable();
      this.#order = undefined;
      define(this.#rows, this.#rows.length, row);
    }
    delete(name) {
      const unwanted = headerName(name);
      this.#requireMutable();
      this.#keep(unwanted);
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
      this.#requireMutable();
      this.#keep(wanted);
      define(this.#rows, this.#rows.length, [wanted, text]);
    }
    #requireMutable() {
      if (this.#immutable) throw new TypeError("the headers of an answer cannot be changed: copy them with `new Headers(headers)`");
    }
    #keep(unwanted) {
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] !== unwanted) define(rows, rows.length, this.#rows[i]);
      this.#rows = rows;
      this.#order = undefined;
    }
    /** Returns one row per name, joined and sorted, in iteration order. */
    #sorted() {
      if (this.#order !== undefined) return this.#order;
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
      return this.#order = ArrayPrototypeSort(rows, (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    }
    /**
     * Returns the rows of `headers` as they were set, or undefined if it is not a Headers object.
     */
    static rowsOf(headers) {
      return #rows in headers ? headers.#rows : undefined;
    }
    /** Returns the rows of `headers` in iteration order. Throws for other objects. */
    static sorted(headers) {
      return headers.#sorted();
    }
    /** Adds a row, whose name is in lower case, unless there is one with this name. */
    static addMissing(headers, name, value) {
      for (let i = 0; i < headers.#rows.length; i++) if (headers.#rows[i][0] === name) return;
      headers.#order = undefined;
      define(headers.#rows, headers.#rows.length, [name, value]);
    }
    /** Returns new headers with copies of these rows, whose names are in lower case. */
    static ofRows(rows, immutable) {
      const headers = new Headers();
      for (let i = 0; i < rows.length; i++) define(headers.#rows, i, [rows[i][0], rows[i][1]]);
      headers.#immutable = immutable;
      return headers;
    }
  }
  const { addMissing, ofRows, rowsOf, sorted } = Headers;
  delete Headers.addMissing;
  delete Headers.ofRows;
  delete Headers.rowsOf;
  delete Headers.sorted;

  parts.byteString = byteString;
  parts.isSendable = (text) => RegExpPrototypeExec(SENDABLE, text) !== null;
  parts.sendableRows = sendable;
  parts.headerRowsJson = rowsJson;
  parts.addMissingHeader = addMissing;
  parts.headerList = rowsOf;
  parts.headersOf = ofRows;
  definePairs(Headers, sorted);
  defineInterface(Headers);
  const iterate = Headers.prototype[SymbolIterator];
})(globalThis.__tollhouse);
