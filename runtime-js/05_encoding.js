// TextEncoder, TextDecoder, atob, btoa, and DOMException, which they and others throw.
"use strict";

((parts) => {
  const { offer, ops } = parts;
  const { Boolean, Error, ErrorPrototype, ObjectDefineProperty, RangeError, RegExpPrototypeExec, SafeMap, SafeRegExp, String,
    StringPrototypeCharCodeAt, StringPrototypeToLowerCase, StringPrototypeTrim, TypeError, TypedArrayPrototypeSet,
    TypedArrayPrototypeSubarray, Uint8Array } = parts.primordials;

  const CODES = {
    __proto__: null, IndexSizeError: 1, HierarchyRequestError: 3, InvalidCharacterError: 5, NotFoundError: 8, NotSupportedError: 9,
    InvalidStateError: 11, SyntaxError: 12, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19,
    AbortError: 20, QuotaExceededError: 22, TimeoutError: 23, DataCloneError: 25,
  };

  class DOMException extends Error {
    #name;
    constructor(message = "", name = "Error") {
      super(String(message));
      this.#name = typeof name === "object" && name !== null && name.name !== undefined ? String(name.name) : String(name);
    }
    get name() {
      return this.#name;
    }
    get code() {
      return CODES[this.#name] ?? 0;
    }
  }
  ObjectDefineProperty(DOMException.prototype, "toString", { __proto__: null, value: ErrorPrototype.toString, configurable: true, writable: true });

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return ops.op_text_encode(String(text));
    }
    encodeInto(text, target) {
      const source = String(text);
      let read = source.length;
      let bytes = ops.op_text_encode(source);
      const room = target.length;
      if (bytes.length > room) {
        // Cut at the edge of a character, then count the code units before it.
        let end = room;
        while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
        bytes = TypedArrayPrototypeSubarray(bytes, 0, end);
        read = ops.op_text_decode(bytes, true).length;
      }
      TypedArrayPrototypeSet(target, bytes);
      return { read, written: bytes.length };
    }
  }

  const LABELS = new SafeMap();
  for (const [name, labels] of [
    ["utf-8", ["utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"]],
    ["utf-16le", ["utf-16le", "utf-16", "ucs-2", "unicode", "csunicode", "iso-10646-ucs-2", "unicodefeff"]],
    ["windows-1252", ["windows-1252", "latin1", "iso-8859-1", "iso8859-1", "iso88591", "ascii", "us-ascii", "cp1252", "l1", "x-cp1252"]],
  ]) for (const label of labels) LABELS.set(label, name);

  const EMPTY = new Uint8Array(0);

  class TextDecoder {
    #encoding;
    #fatal;
    #ignoreBOM;
    #held = EMPTY;
    #begun = false;

    constructor(label = "utf-8", options = undefined) {
      const encoding = LABELS.get(StringPrototypeToLowerCase(StringPrototypeTrim(String(label))));
      if (encoding === undefined) throw new RangeError(`the encoding \`${String(label)}\` is not available`);
      this.#encoding = encoding;
      this.#fatal = Boolean(options?.fatal);
      this.#ignoreBOM = Boolean(options?.ignoreBOM);
    }
    get encoding() {
      return this.#encoding;
    }
    get fatal() {
      return this.#fatal;
    }
    get ignoreBOM() {
      return this.#ignoreBOM;
    }
    decode(input = undefined, options = undefined) {
      let bytes = input === undefined ? EMPTY : parts.bytesOf(input);
      if (bytes === undefined) throw new TypeError("what is decoded must be an ArrayBuffer or a view of one");
      const stream = Boolean(options?.stream);
      if (this.#held.length > 0) {
        const joined = new Uint8Array(this.#held.length + bytes.length);
        TypedArrayPrototypeSet(joined, this.#held);
        TypedArrayPrototypeSet(joined, bytes, this.#held.length);
        bytes = joined;
        this.#held = EMPTY;
      }
      if (stream) {
        const tail = unfinished(bytes, this.#encoding);
        if (tail > 0) {
          this.#held = new Uint8Array(TypedArrayPrototypeSubarray(bytes, bytes.length - tail));
          bytes = TypedArrayPrototypeSubarray(bytes, 0, bytes.length - tail);
        }
      }
      const text = ops.op_text_decode_as(bytes, this.#encoding, this.#fatal, this.#ignoreBOM || this.#begun);
      if (text === undefined || text === null) {
        this.#begun = false;
        throw new TypeError(`the bytes are not ${this.#encoding}`);
      }
      this.#begun = stream && (this.#begun || bytes.length > 0);
      return text;
    }
  }

  /** Bytes at the end that begin a character and do not finish it. */
  function unfinished(bytes, encoding) {
    const length = bytes.length;
    if (encoding === "utf-16le") {
      if (length % 2 === 1) return length >= 3 && (bytes[length - 2] & 0xfc) === 0xd8 ? 3 : 1;
      return length >= 2 && (bytes[length - 1] & 0xfc) === 0xd8 ? 2 : 0;
    }
    if (encoding !== "utf-8") return 0;
    for (let back = 1; back <= 3 && back <= length; back++) {
      const byte = bytes[length - back];
      if ((byte & 0xc0) === 0x80) continue;
      const needs = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
      return byte <= 0xf4 && needs > back ? back : 0;
    }
    return 0;
  }

  const WIDE = new SafeRegExp(/[^\x00-\xff]/);

  function btoa(data) {
    const text = String(data);
    if (RegExpPrototypeExec(WIDE, text) !== null) {
      throw new DOMException("a character is outside of Latin1", "InvalidCharacterError");
    }
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = StringPrototypeCharCodeAt(text, i);
    return ops.op_base64_encode(bytes);
  }

  function atob(data) {
    const text = ops.op_base64_decode(String(data));
    if (text === undefined || text === null) throw new DOMException("the text is not base64", "InvalidCharacterError");
    return text;
  }

  parts.DOMException = DOMException;
  offer("DOMException", DOMException);
  offer("TextEncoder", TextEncoder);
  offer("TextDecoder", TextDecoder);
  offer("atob", atob);
  offer("btoa", btoa);
})(globalThis.__tollhouse);
