// TextEncoder, TextDecoder, atob, btoa, and DOMException, which they and others throw.
"use strict";

((parts) => {
  const { defineGlobal, ops } = parts;
  const { Boolean, Error, ErrorPrototype, ObjectDefineProperty, RangeError, RegExpPrototypeExec, SafeRegExp, String,
    StringPrototypeCharCodeAt, TypeError, TypedArrayPrototypeSet,
    TypedArrayPrototypeSubarray, Uint8Array } = parts.primordials;

  const CODES = {
    __proto__: null, IndexSizeError: 1, HierarchyRequestError: 3, InvalidCharacterError: 5, NotFoundError: 8, NotSupportedError: 9,
    InvalidStateError: 11, SyntaxError: 12, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19,
    AbortError: 20, QuotaExceededError: 22, TimeoutError: 23, DataCloneError: 25,
  };

  /** Names of the error codes, as constants of the class and of its objects. */
  const CONSTANTS = [
    "INDEX_SIZE_ERR", "DOMSTRING_SIZE_ERR", "HIERARCHY_REQUEST_ERR", "WRONG_DOCUMENT_ERR", "INVALID_CHARACTER_ERR", "NO_DATA_ALLOWED_ERR",
    "NO_MODIFICATION_ALLOWED_ERR", "NOT_FOUND_ERR", "NOT_SUPPORTED_ERR", "INUSE_ATTRIBUTE_ERR", "INVALID_STATE_ERR", "SYNTAX_ERR",
    "INVALID_MODIFICATION_ERR", "NAMESPACE_ERR", "INVALID_ACCESS_ERR", "VALIDATION_ERR", "TYPE_MISMATCH_ERR", "SECURITY_ERR", "NETWORK_ERR",
    "ABORT_ERR", "URL_MISMATCH_ERR", "QUOTA_EXCEEDED_ERR", "TIMEOUT_ERR", "INVALID_NODE_TYPE_ERR", "DATA_CLONE_ERR",
  ];

  class DOMException extends Error {
    #name;
    constructor(message = "", name = "Error") {
      super(String(message));
      const cause = typeof name === "object" && name !== null ? name : undefined;
      this.#name = cause === undefined ? String(name) : cause.name === undefined ? "Error" : String(cause.name);
      if (cause?.cause !== undefined) {
        ObjectDefineProperty(this, "cause", { __proto__: null, value: cause.cause, writable: true, configurable: true });
      }
    }
    static {
      parts.isDOMException = (value) => #name in value;
    }
    get name() {
      return this.#name;
    }
    get code() {
      return CODES[this.#name] ?? 0;
    }
  }
  for (let i = 0; i < CONSTANTS.length; i++) {
    for (const holder of [DOMException, DOMException.prototype]) {
      ObjectDefineProperty(holder, CONSTANTS[i], { __proto__: null, value: i + 1, writable: false, enumerable: true, configurable: false });
    }
  }
  parts.tag(DOMException.prototype, "DOMException");
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
        // Cut at a character boundary, then count the code units before it.
        let end = room;
        while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
        bytes = TypedArrayPrototypeSubarray(bytes, 0, end);
        read = ops.op_text_decode(bytes, true).length;
      }
      TypedArrayPrototypeSet(target, bytes);
      return { read, written: bytes.length };
    }
  }

  const EMPTY = new Uint8Array(0);

  /** Supports every encoding of the Encoding standard, by any of its labels. The worker decodes. */
  class TextDecoder {
    #encoding;
    #fatal;
    #ignoreBOM;
    /** Number of the worker's streaming decoder, or 0. */
    #decoder = 0;

    constructor(label = "utf-8", options = undefined) {
      const encoding = ops.op_encoding_name(String(label));
      if (typeof encoding !== "string") throw new RangeError(`the encoding \`${String(label)}\` is not available`);
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
      const bytes = input === undefined ? EMPTY : parts.bytesOf(input);
      if (bytes === undefined) throw new TypeError("the data to decode must be an ArrayBuffer or a view of one");
      const text = this.#text(bytes, !options?.stream);
      if (typeof text !== "string") throw new TypeError(`the bytes are not ${this.#encoding}`);
      return text;
    }
    #text(bytes, last) {
      if (last && this.#decoder === 0) return ops.op_text_decode_as(bytes, this.#encoding, this.#fatal, this.#ignoreBOM);
      const decoder = ops.op_text_decoder(this.#decoder, this.#encoding, this.#ignoreBOM);
      if (decoder === 0) throw new RangeError(`a call can decode at most ${parts.limits.decoders} texts in pieces at the same time`);
      this.#decoder = last ? 0 : decoder;
      return ops.op_text_decode_piece(decoder, bytes, this.#fatal, last);
    }
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

  parts.tag(TextEncoder.prototype, "TextEncoder");
  parts.tag(TextDecoder.prototype, "TextDecoder");
  parts.DOMException = DOMException;
  defineGlobal("DOMException", DOMException);
  defineGlobal("TextEncoder", TextEncoder);
  defineGlobal("TextDecoder", TextDecoder);
  defineGlobal("atob", atob);
  defineGlobal("btoa", btoa);
})(globalThis.__tollhouse);
