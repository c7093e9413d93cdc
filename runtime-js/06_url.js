// URL and URLSearchParams, based on the parser that the host uses too.
"use strict";

((parts) => {
  const { define, defineInterface, definePairs, needArguments, ops, pairsOf, usvString } = parts;
  const { ArrayPrototypeSort, JSONParse, JSONStringify, SafeMap, StringPrototypeIndexOf, StringPrototypeSlice,
    StringPrototypeStartsWith, TypeError } = parts.primordials;

  /** Parts of a URL, numbered as in src/ops/url.rs. */
  const HREF = 0, PROTOCOL = 1, USERNAME = 2, PASSWORD = 3, HOST = 4, HOSTNAME = 5, PORT = 6, PATHNAME = 7, SEARCH = 8, HASH = 9, ORIGIN = 10;

  let paramsOf;

  class URLSearchParams {
    #rows = [];
    /** Called on every change, by the URL that this belongs to. */
    #changed = undefined;

    constructor(init = "") {
      if (init === null || (typeof init !== "object" && typeof init !== "function")) {
        const query = usvString(init);
        this.#rows = parse(StringPrototypeStartsWith(query, "?") ? StringPrototypeSlice(query, 1) : query);
        return;
      }
      this.#rows = pairsOf(init, usvString);
    }
    get size() {
      return this.#rows.length;
    }
    append(name, value) {
      this.#push(usvString(name), usvString(value));
      this.#changed?.();
    }
    delete(name, value = undefined) {
      const key = usvString(name);
      const held = value === undefined ? undefined : usvString(value);
      this.#keep((row) => row[0] !== key || (held !== undefined && row[1] !== held));
      this.#changed?.();
    }
    get(name) {
      const key = usvString(name);
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === key) return this.#rows[i][1];
      return null;
    }
    getAll(name) {
      const key = usvString(name);
      const found = [];
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === key) define(found, found.length, this.#rows[i][1]);
      return found;
    }
    has(name, value = undefined) {
      const key = usvString(name);
      const held = value === undefined ? undefined : usvString(value);
      for (let i = 0; i < this.#rows.length; i++) {
        if (this.#rows[i][0] === key && (held === undefined || this.#rows[i][1] === held)) return true;
      }
      return false;
    }
    set(name, value) {
      const key = usvString(name);
      const held = usvString(value);
      let replaced = false;
      this.#keep((row) => {
        if (row[0] !== key) return true;
        if (replaced) return false;
        replaced = true;
        row[1] = held;
        return true;
      });
      if (!replaced) this.#push(key, held);
      this.#changed?.();
    }
    sort() {
      ArrayPrototypeSort(this.#rows, (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
      this.#changed?.();
    }
    toString() {
      return this.#text();
    }
    #text() {
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) {
        const pair = [this.#rows[i][0], this.#rows[i][1]];
        define(pair, "toJSON", undefined);
        define(rows, i, pair);
      }
      define(rows, "toJSON", undefined);
      return ops.op_params_serialize(JSONStringify(rows));
    }
    #push(name, value) {
      define(this.#rows, this.#rows.length, [name, value]);
    }
    #keep(wanted) {
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) if (wanted(this.#rows[i])) define(rows, rows.length, this.#rows[i]);
      this.#rows = rows;
    }

    static {
      parts.isSearchParams = (value) => value !== null && typeof value === "object" && #rows in value;
      parts.searchRows = (params) => params.#rows;
      parts.searchText = (params) => params.#text();
      paramsOf = {
        __proto__: null,
        rows: (params) => params.#rows,
        bind: (params, changed) => {
          params.#changed = changed;
        },
        replace: (params, search) => {
          params.#rows = parse(search === "" ? "" : StringPrototypeSlice(search, 1));
        },
      };
    }
  }

  function parse(query) {
    return JSONParse(ops.op_params_parse(query));
  }

  /** The Blobs that have a URL in this call (File API, section 8.3). */
  let blobs = new SafeMap();

  parts.forgetBlobUrls = () => {
    if (blobs.size !== 0) blobs = new SafeMap();
  };
  /** Returns the Blob of a URL, whatever fragment that has, or undefined. */
  parts.blobOfUrl = (url) => {
    const end = StringPrototypeIndexOf(url, "#");
    return blobs.get(end < 0 ? url : StringPrototypeSlice(url, 0, end));
  };

  class URL {
    #held;
    static {
      parts.isURL = (value) => #held in value;
    }
    #params = undefined;

    constructor(url, base = undefined) {
      needArguments("URL", 1, arguments.length);
      this.#held = readOrThrow(url, base);
    }
    static createObjectURL(object) {
      if (!parts.isBlob(object)) throw new TypeError("only a Blob can have a URL");
      const url = `blob:null/${ops.op_uuid()}`;
      blobs.set(url, object);
      return url;
    }
    static revokeObjectURL(url) {
      blobs.delete(usvString(url));
    }
    static canParse(url, base = undefined) {
      return read(usvString(url), baseOf(base)) !== undefined;
    }
    static parse(url, base = undefined) {
      const text = usvString(url);
      const baseText = baseOf(base);
      return read(text, baseText) === undefined ? null : new URL(text, baseText);
    }
    get href() {
      return this.#held[HREF];
    }
    set href(value) {
      this.#held = readOrThrow(value, undefined);
      this.#refresh();
    }
    get origin() {
      return this.#held[ORIGIN];
    }
    get protocol() {
      return this.#held[PROTOCOL];
    }
    set protocol(value) {
      this.#set(PROTOCOL, value);
    }
    get username() {
      return this.#held[USERNAME];
    }
    set username(value) {
      this.#set(USERNAME, value);
    }
    get password() {
      return this.#held[PASSWORD];
    }
    set password(value) {
      this.#set(PASSWORD, value);
    }
    get host() {
      return this.#held[HOST];
    }
    set host(value) {
      this.#set(HOST, value);
    }
    get hostname() {
      return this.#held[HOSTNAME];
    }
    set hostname(value) {
      this.#set(HOSTNAME, value);
    }
    get port() {
      return this.#held[PORT];
    }
    set port(value) {
      this.#set(PORT, value);
    }
    get pathname() {
      return this.#held[PATHNAME];
    }
    set pathname(value) {
      this.#set(PATHNAME, value);
    }
    get search() {
      return this.#held[SEARCH];
    }
    set search(value) {
      this.#set(SEARCH, value);
      this.#refresh();
    }
    get hash() {
      return this.#held[HASH];
    }
    set hash(value) {
      this.#set(HASH, value);
    }
    get searchParams() {
      if (this.#params === undefined) {
        const params = new URLSearchParams();
        paramsOf.replace(params, this.#held[SEARCH]);
        paramsOf.bind(params, () => this.#set(SEARCH, parts.searchText(params)));
        this.#params = params;
      }
      return this.#params;
    }
    toString() {
      return this.#held[HREF];
    }
    toJSON() {
      return this.#held[HREF];
    }
    #set(part, value) {
      const held = ops.op_url_set(this.#held[HREF], part, usvString(value));
      if (held !== "") this.#held = JSONParse(held);
    }
    #refresh() {
      if (this.#params !== undefined) paramsOf.replace(this.#params, this.#held[SEARCH]);
    }
  }

  const baseOf = (base) => (base === undefined ? undefined : usvString(base));

  function read(url, base) {
    const held = base === undefined ? ops.op_url_parse(url) : ops.op_url_join(url, base);
    return held === "" ? undefined : JSONParse(held);
  }

  function readOrThrow(url, base) {
    const text = usvString(url);
    const held = read(text, baseOf(base));
    if (held === undefined) throw new TypeError(`\`${text}\` is not a URL`);
    return held;
  }

  definePairs(URLSearchParams, paramsOf.rows);
  defineInterface(URLSearchParams);
  defineInterface(URL, {
    shown: ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "searchParams", "hash"],
  });
})(globalThis.__tollhouse);
