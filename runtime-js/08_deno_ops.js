// The ops of the scripts of `deno_web`: text, the parts of a Blob, compression, and patterns of URLs.
// All of it is counted: bytes as array buffers, and the rest by limits of the worker.
"use strict";

((parts) => {
  const { denoOps, ops } = parts;
  const { JSONParse, JSONStringify, MathMin, RangeError, StringPrototypeSlice, StringPrototypeToWellFormed, TypeError,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, TypedArrayPrototypeSlice, TypedArrayPrototypeSubarray } = parts.primordials;

  // Text

  /** Any array buffer or view as bytes. */
  const bytes = (data) => parts.bytesOf(data);

  function invalid(encoding) {
    throw new TypeError(`the bytes are not ${encoding}`);
  }

  denoOps.op_encoding_normalize_label = (label) => {
    const name = ops.op_encoding_name(label);
    if (typeof name !== "string") throw new RangeError(`the encoding \`${label}\` is not available`);
    return name;
  };
  denoOps.op_encoding_decode_utf8 = (data, keepMark) => ops.op_text_decode(bytes(data), keepMark);
  denoOps.op_encoding_decode_utf8_ascii_only = () => null;
  denoOps.op_encoding_decode_single = (data, encoding, fatal, keepMark) => ops.op_text_decode_as(bytes(data), encoding, fatal, keepMark) ?? invalid(encoding);
  /** `number` is that of the worker's decoder, or 0. A decoder is lost when its call ends. */
  denoOps.op_encoding_new_decoder = (encoding, fatal, keepMark) => ({ __proto__: null, number: 0, encoding, fatal, keepMark });
  denoOps.op_encoding_decode = (data, decoder, more) => {
    const { encoding, fatal, keepMark } = decoder;
    if (!more && decoder.number === 0) return denoOps.op_encoding_decode_single(data, encoding, fatal, keepMark);
    decoder.number = ops.op_text_decoder(decoder.number, encoding, keepMark);
    if (decoder.number === 0) throw new RangeError(`a call can decode at most ${parts.limits.decoders} texts in pieces at the same time`);
    return ops.op_text_decode_piece(decoder.number, bytes(data), fatal, !more) ?? invalid(encoding);
  };

  /** Returns the code units that were read and the bytes that were written, as one number. */
  denoOps.op_encoding_encode_into = (text, target) => {
    const room = TypedArrayPrototypeGetLength(target);
    // Each code unit has at least one byte.
    const source = StringPrototypeToWellFormed(StringPrototypeSlice(text, 0, room));
    let encoded = ops.op_text_encode(source);
    let read = source.length;
    if (TypedArrayPrototypeGetLength(encoded) > room) {
      // Cut at a character boundary, then count the code units before it.
      let end = room;
      while (end > 0 && (encoded[end] & 0xc0) === 0x80) end--;
      encoded = TypedArrayPrototypeSubarray(encoded, 0, end);
      read = ops.op_text_decode(encoded, true).length;
    }
    TypedArrayPrototypeSet(target, encoded);
    return read * 0x100000000 + TypedArrayPrototypeGetLength(encoded);
  };

  // Parts of a Blob: bytes that nobody changes. Slices share the memory of the whole.

  denoOps.op_blob_create_part = (data) => TypedArrayPrototypeSlice(data);
  denoOps.op_blob_slice_part = (part, { start, len }) => TypedArrayPrototypeSubarray(part, start, start + len);
  denoOps.op_blob_read_part = (part) => TypedArrayPrototypeSlice(part);

  /** Returns the content of a Blob. Only its parts are read, no method that a handler can replace. */
  parts.blobBytes = (blob) => {
    const held = parts.denoScript("ext:deno_web/09_file.js").getParts(blob);
    let length = 0;
    for (let i = 0; i < held.length; i++) length += TypedArrayPrototypeGetLength(held[i]);
    return parts.joinBytes(held, length);
  };

  // Compression

  /** Throws for the answer of an op that has an error text in place of bytes. */
  function output(answer) {
    if (typeof answer === "string") throw new TypeError(answer);
    return answer;
  }

  denoOps.op_compression_new = (format, isDecoder) => {
    const number = ops.op_compression_new(format, isDecoder);
    if (number === 0) {
      if (format === "brotli") throw new TypeError("the format `brotli` is not available");
      throw new RangeError(`a call can compress or decompress at most ${parts.limits.compressors} streams at the same time`);
    }
    return number;
  };
  denoOps.op_compression_write = (number, data) => output(ops.op_compression_write(number, bytes(data)));
  denoOps.op_compression_finish = (number, wanted) => output(ops.op_compression_finish(number, wanted));

  // URLPattern

  /** Calls an op with an input of a URLPattern, which is a string or its components. */
  function urlPattern(op, input, base, ignoreCase) {
    const isText = typeof input === "string";
    const answer = op(isText ? input : "", isText ? "" : JSONStringify({ ...input, __proto__: null, toJSON: undefined }), base ?? "", (base ?? null) !== null, ignoreCase);
    const { error, value } = JSONParse(answer);
    if (error !== undefined) throw new TypeError(error);
    return value;
  }

  denoOps.op_urlpattern_parse = (input, base, { ignoreCase }) => urlPattern(ops.op_urlpattern_parse, input, base, ignoreCase);
  denoOps.op_urlpattern_process_match_input = (input, base, offsets) => {
    const values = urlPattern(ops.op_urlpattern_input, input, base, false);
    if (values === null) return null;
    let text = "";
    for (let i = 0; i < values.length; i++) {
      offsets[i] = text.length;
      text += values[i];
    }
    offsets[MathMin(values.length, 8)] = text.length;
    return text;
  };
})(globalThis.__tollhouse);
