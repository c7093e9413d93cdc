// FormData, and its two encodings: `multipart/form-data` and `application/x-www-form-urlencoded`.
"use strict";

((parts) => {
  const { define, defineInterface, definePairs, ops, usvString } = parts;
  const { File } = parts.globals;
  const { JSONParse, RegExpPrototypeSymbolReplace, SafeRegExp, TypeError, TypedArrayPrototypeGetLength,
    TypedArrayPrototypeSubarray } = parts.primordials;

  /** Converts a Blob to a File, as the entry of a form has it. */
  function fileOf(blob, name) {
    const isFile = parts.isFile(blob);
    if (isFile && name === undefined) return blob;
    return new File([blob], name ?? "blob", { __proto__: null, type: parts.blobType(blob), lastModified: isFile ? blob.lastModified : undefined });
  }

  class FormData {
    /** Rows of name and value, which is a string or a File. */
    #rows = [];

    constructor(form = undefined) {
      if (form !== undefined) throw new TypeError("a handler has no page, so `new FormData` takes no element of one");
    }
    append(name, value) {
      this.#rows;
      const row = FormData.#row("append", name, value, arguments);
      define(this.#rows, this.#rows.length, row);
    }
    delete(name) {
      this.#rows;
      this.#keep(usvString(name));
    }
    get(name) {
      this.#rows;
      const wanted = usvString(name);
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === wanted) return this.#rows[i][1];
      return null;
    }
    getAll(name) {
      this.#rows;
      const wanted = usvString(name);
      const found = [];
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === wanted) define(found, found.length, this.#rows[i][1]);
      return found;
    }
    has(name) {
      this.#rows;
      const wanted = usvString(name);
      for (let i = 0; i < this.#rows.length; i++) if (this.#rows[i][0] === wanted) return true;
      return false;
    }
    set(name, value) {
      this.#rows;
      const row = FormData.#row("set", name, value, arguments);
      for (let i = 0; i < this.#rows.length; i++) {
        if (this.#rows[i][0] !== row[0]) continue;
        this.#rows[i] = row;
        this.#keep(row[0], i + 1);
        return;
      }
      define(this.#rows, this.#rows.length, row);
    }
    /** Removes the rows of a name, from an index on. */
    #keep(unwanted, from = 0) {
      const rows = [];
      for (let i = 0; i < this.#rows.length; i++) if (i < from || this.#rows[i][0] !== unwanted) define(rows, rows.length, this.#rows[i]);
      this.#rows = rows;
    }
    /** Converts the arguments of `append` and `set`. */
    static #row(method, name, value, given) {
      if (given.length > 2 && !parts.isBlob(value)) throw new TypeError(`\`FormData.${method}\` has a file name only for a Blob`);
      const key = usvString(name);
      if (!parts.isBlob(value)) return [key, usvString(value)];
      return [key, fileOf(value, given.length > 2 && given[2] !== undefined ? usvString(given[2]) : undefined)];
    }
    static rowsOf(form) {
      return form.#rows;
    }
    static is(value) {
      return #rows in value;
    }
    static ofRows(rows) {
      const form = new FormData();
      form.#rows = rows;
      return form;
    }
  }
  const { is, ofRows, rowsOf } = FormData;
  delete FormData.is;
  delete FormData.ofRows;
  delete FormData.rowsOf;

  const LINE_BREAKS = new SafeRegExp(/\r\n|\r|\n/g);
  const SPECIAL = new SafeRegExp(/["\r\n]/g);
  const ESCAPES = { __proto__: null, '"': "%22", "\r": "%0D", "\n": "%0A" };

  const withBreaks = (text) => RegExpPrototypeSymbolReplace(LINE_BREAKS, text, "\r\n");
  const escaped = (text) => RegExpPrototypeSymbolReplace(SPECIAL, text, (found) => ESCAPES[found]);

  /** Returns the content of a form as bytes, and its content type. */
  function encodeForm(form) {
    const rows = rowsOf(form);
    const boundary = `----tollhouse-${ops.op_uuid()}`;
    const pieces = [];
    let length = 0;
    const add = (piece) => {
      const bytes = typeof piece === "string" ? ops.op_text_encode(piece) : piece;
      define(pieces, pieces.length, bytes);
      length += TypedArrayPrototypeGetLength(bytes);
    };
    for (let i = 0; i < rows.length; i++) {
      const { 0: name, 1: value } = rows[i];
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(withBreaks(name))}"`;
      if (typeof value === "string") {
        add(`${head}\r\n\r\n${withBreaks(value)}\r\n`);
        continue;
      }
      const type = parts.blobType(value);
      add(`${head}; filename="${escaped(parts.fileName(value))}"\r\nContent-Type: ${type === "" ? "application/octet-stream" : type}\r\n\r\n`);
      add(parts.blobBytes(value));
      add("\r\n");
    }
    add(`--${boundary}--\r\n`);
    return [parts.joinBytes(pieces, length), `multipart/form-data; boundary=${boundary}`];
  }

  /** Returns the form in a multipart body. The worker finds its parts. */
  function decodeForm(bytes, boundary) {
    const answer = JSONParse(ops.op_multipart(bytes, boundary));
    if (typeof answer === "string") throw new TypeError(answer);
    const rows = [];
    for (let i = 0; i < answer.length; i++) {
      const { 0: name, 1: filename, 2: type, 3: from, 4: to } = answer[i];
      const content = TypedArrayPrototypeSubarray(bytes, from, to);
      const value = filename === null ? ops.op_text_decode(content, true) : new File([content], filename, { __proto__: null, type });
      define(rows, i, [name, value]);
    }
    return ofRows(rows);
  }

  /** Returns the form in the text of a URL-encoded body. */
  function formOfText(text) {
    const rows = JSONParse(ops.op_params_parse(text));
    const copies = [];
    for (let i = 0; i < rows.length; i++) define(copies, i, [rows[i][0], rows[i][1]]);
    return ofRows(copies);
  }

  parts.isFormData = (value) => typeof value === "object" && value !== null && is(value);
  parts.encodeForm = encodeForm;
  parts.decodeForm = decodeForm;
  parts.formOfText = formOfText;
  definePairs(FormData, rowsOf);
  defineInterface(FormData);
})(globalThis.__tollhouse);
