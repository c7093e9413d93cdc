// TextEncoder, TextDecoder, atob and btoa.
"use strict";

((parts) => {
  const { DOMException, defineInterface, defineOperation, dictionary, domString, ops, usvString } = parts;
  const { Boolean, RangeError, RegExpPrototypeExec, SafeRegExp, StringPrototypeCharCodeAt, StringPrototypeSlice, TypeError,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, TypedArrayPrototypeSubarray,
    Uint8Array } = parts.primordials;

  class TextEncoder {
    /** Only marks the objects of this class. */
    #own;

    get encoding() {
      this.#own;
      return "utf-8";
    }
    encode(text = "") {
      this.#own;
      return ops.op_text_encode(usvString(text));
    }
    encodeInto(text, target) {
      this.#own;
      const given = usvString(text);
      if (TypedArrayPrototypeGetSymbolToStringTag(target) !== "Uint8Array") {
        throw new TypeError("the target of `TextEncoder.encodeInto` must be a Uint8Array");
      }
      const room = TypedArrayPrototypeGetLength(target);
      // Each code unit has at least one byte.
      const source = StringPrototypeSlice(given, 0, room);
      let bytes = ops.op_text_encode(source);
      let read = source.length;
      if (TypedArrayPrototypeGetLength(bytes) > room) {
        // Cut at a character boundary, then count the code units before it.
        let end = room;
        while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
        bytes = TypedArrayPrototypeSubarray(bytes, 0, end);
        read = ops.op_text_decode(bytes, true).length;
      }
      TypedArrayPrototypeSet(target, bytes);
      return { read, written: TypedArrayPrototypeGetLength(bytes) };
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
      const name = domString(label);
      const { fatal, ignoreBOM } = dictionary(options, "TextDecoder");
      const encoding = ops.op_encoding_name(name);
      if (typeof encoding !== "string") throw new RangeError(`the encoding \`${name}\` is not available`);
      this.#encoding = encoding;
      this.#fatal = Boolean(fatal);
      this.#ignoreBOM = Boolean(ignoreBOM);
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
      this.#decoder;
      const bytes = input === undefined ? EMPTY : parts.bytesOf(input);
      if (bytes === undefined) throw new TypeError("the data to decode must be an ArrayBuffer or a view of one");
      const text = this.#text(bytes, !dictionary(options, "TextDecoder.decode").stream);
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
    const text = domString(data);
    if (RegExpPrototypeExec(WIDE, text) !== null) {
      throw new DOMException("a character is outside of Latin1", "InvalidCharacterError");
    }
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = StringPrototypeCharCodeAt(text, i);
    return ops.op_base64_encode(bytes);
  }

  function atob(data) {
    const text = ops.op_base64_decode(domString(data));
    if (text === undefined || text === null) throw new DOMException("the text is not base64", "InvalidCharacterError");
    return text;
  }

  defineInterface(TextEncoder);
  defineInterface(TextDecoder, { shown: ["encoding", "fatal", "ignoreBOM"] });
  defineOperation(atob);
  defineOperation(btoa);
})(globalThis.__tollhouse);
