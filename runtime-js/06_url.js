// URL and URLSearchParams, based on the parser that the host uses too.
"use strict";

((parts) => {
  const { define, defineGlobal, ops } = parts;
  const { ArrayPrototypeSort, JSONParse, JSONStringify, ObjectKeys, String, StringPrototypeSlice, StringPrototypeStartsWith,
    StringPrototypeToWellFormed, SymbolIterator, TypeError } = parts.primordials;

  /** Parts of a URL, numbered as in src/ops/url.rs. */
  const HREF = 0, PROTOCOL = 1, USERNAME = 2, PASSWORD = 3, HOST = 4, HOSTNAME = 5, PORT = 6, PATHNAME = 7, SEARCH = 8, HASH = 9, ORIGIN = 10;

  let paramsOf;

  /**
   * Converts a name or value. A lone surrogate becomes U+FFFD, in stored text and in search text.
   */
  const text = (value) => StringPrototypeToWellFormed(String(value));

  class URLSearchParams {
    #rows = [];
    /** Called on every change, by the URL that this belongs to. */
    #changed = undefined;

    constructor(init = "") {
      if (init === null || typeof init !== "object") {
        const query = text(init);
        this.#rows = parse(StringPrototypeStartsWith(query, "?") ? StringPrototypeSlice(query, 1) : query);
      } else if (#rows in init) {
        for (let i = 0; i < init.#rows.length; i++) this.#push(init.#rows[i][0], init.#rows[i][1]);
      } else if (typeof init[SymbolIterator] === "function") {
        for (const row of init) {
          const pair = [...row];
          if (pair.length !== 2) throw new TypeError("a row must be a name and a value");
          this.#push(pair[0], pair[1]);
        }
      } else {
        const names = ObjectKeys(init);
        for (let i = 0; i < names.length; i++) this.#push(names[i], init[names[i]]);
      }
    }
    get size() {
      return this.#rows.length;
    }
    append(name, value) {
      this.#push(name, value);
      this.#changed?.();
    }
    delete(name, value = undefined) {
      const key = text(name);
      const held = value === undefined ? undefined : text(value);
      this.#keep((row) => row[0] !== key || (held !== undefined && row[1] !== held));
      this.#changed?.();
    }
    get(name) {
      const key = text(name);
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === key) return this.#rows[i][1];
      return null;
    }
    getAll(name) {
      const key = text(name);
      const found = [];
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === key) define(found, found.length, this.#rows[i][1]);
      return found;
    }
    has(name, value = undefined) {
      const key = text(name);
      const held = value === undefined ? undefined : text(value);
      for (let i = 0; i < this.#rows.length; i++) {
        if (this.#rows[i][0] === key && (held === undefined || this.#rows[i][1] === held)) return true;
      }
      return false;
    }
    set(name, value) {
      const key = text(name);
      const held = text(value);
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
    forEach(callback, self) {
      for (let i = 0; i < this.#rows.length; i++) callback.call(self, this.#rows[i][1], this.#rows[i][0], this);
    }
    *entries() {
      for (let i = 0; i < this.#rows.length; i++) yield [this.#rows[i][0], this.#rows[i][1]];
    }
    *keys() {
      for (let i = 0; i < this.#rows.length; i++) yield this.#rows[i][0];
    }
    *values() {
      for (let i = 0; i < this.#rows.length; i++) yield this.#rows[i][1];
    }
    [SymbolIterator]() {
      return this.entries();
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
      define(this.#rows, this.#rows.length, [text(name), text(value)]);
    }
    #keep(wanted) {
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) if (wanted(this.#rows[i])) define(rows, rows.length, this.#rows[i]);
      this.#rows = rows;
    }

    static {
      parts.isSearchParams = (value) => value !== null && typeof value === "object" && #rows in value;
      parts.searchText = (params) => params.#text();
      paramsOf = {
        __proto__: null,
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

  class URL {
    #held;
    static {
      parts.isURL = (value) => #held in value;
    }
    #params = undefined;

    constructor(url, base = undefined) {
      const held = read(url, base);
      if (held === undefined) throw new TypeError(`\`${String(url)}\` is not a URL`);
      this.#held = held;
    }
    static canParse(url, base = undefined) {
      return read(url, base) !== undefined;
    }
    static parse(url, base = undefined) {
      return URL.canParse(url, base) ? new URL(url, base) : null;
    }
    get href() {
      return this.#held[HREF];
    }
    set href(value) {
      const held = read(value, undefined);
      if (held === undefined) throw new TypeError(`\`${String(value)}\` is not a URL`);
      this.#held = held;
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
        paramsOf.bind(params, () => this.#set(SEARCH, params.toString()));
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
      const held = ops.op_url_set(this.#held[HREF], part, String(value));
      if (held !== "") this.#held = JSONParse(held);
    }
    #refresh() {
      if (this.#params !== undefined) paramsOf.replace(this.#params, this.#held[SEARCH]);
    }
  }

  function read(url, base) {
    const held = base === undefined ? ops.op_url_parse(String(url)) : ops.op_url_join(String(url), String(base));
    return held === "" ? undefined : JSONParse(held);
  }

  parts.tag(URLSearchParams.prototype, "URLSearchParams");
  parts.tag(URL.prototype, "URL");
  defineGlobal("URL", URL);
  defineGlobal("URLSearchParams", URLSearchParams);
})(globalThis.__tollhouse);
