// Streamed answers: the chunks of a stream or of an asynchronous iterable, one at a time. The next one
// is pulled when the host has accepted the previous one.
"use strict";

((parts) => {
  const { isRunning, ops, promised, runningCall } = parts;
  const { JSONStringify, ReflectApply, SymbolAsyncIterator, TypeError,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, Uint8Array } = parts.primordials;

  const streams = parts.denoScript("ext:deno_web/06_streams.js");
  const { read, cancel: cancelReader } = streams.ReadableStreamDefaultReader.prototype;

  /** `STREAM_CHUNK_BYTES` of the worker, which sends that many bytes at once. */
  const CHUNK_BYTES = 64 << 10;

  /** Reads a stream. */
  function streamSource(stream) {
    const reader = streams.acquireReadableStreamDefaultReader(stream);
    return {
      __proto__: null,
      next: () => ReflectApply(read, reader, []),
      cancel: (reason) => ReflectApply(cancelReader, reader, [reason]),
    };
  }

  /** Reads an asynchronous iterable of a handler, whose method of that symbol is `method`. */
  function iterableSource(iterable, method) {
    const iterator = ReflectApply(method, iterable, []);
    const next = iterator.next;
    return {
      __proto__: null,
      next: () => ReflectApply(next, iterator, []),
      cancel: () => {
        const end = iterator.return;
        return typeof end === "function" ? ReflectApply(end, iterator, []) : undefined;
      },
    };
  }

  /** Nobody but this file has the copy, so that a handler cannot change it while it is sent. */
  function copyOf(bytes) {
    const copy = new Uint8Array(TypedArrayPrototypeGetLength(bytes));
    TypedArrayPrototypeSet(copy, bytes);
    return copy;
  }

  /** Converts a chunk of a body. */
  function bodyChunk(value) {
    if (TypedArrayPrototypeGetSymbolToStringTag(value) !== "Uint8Array") throw new TypeError("a stream as a body must have chunks of Uint8Array");
    return copyOf(value);
  }

  const bytesOf = (value) => (value !== null && typeof value === "object" ? parts.bytesOf(value) : undefined);

  /** The forms of an iterable's values: the content type, and the conversion of a value to bytes. */
  const TEXT = { __proto__: null, type: "text/plain; charset=utf-8", convert: textOrBytes };
  const BYTES = { __proto__: null, type: "application/octet-stream", convert: textOrBytes };
  const LINES = { __proto__: null, type: "application/x-ndjson", convert: jsonLine };

  /** Returns the form of an iterable with this first value. */
  function formOf(value) {
    if (typeof value === "string") return TEXT;
    return bytesOf(value) === undefined ? LINES : BYTES;
  }

  function textOrBytes(value) {
    // Without a result, the call has been stopped.
    if (typeof value === "string") return ops.op_text_encode(value) ?? new Uint8Array(0);
    const bytes = bytesOf(value);
    if (bytes === undefined) throw new TypeError("an answer that begins with text or bytes has no other chunks: convert them with `JSON.stringify`");
    return copyOf(bytes);
  }

  function jsonLine(value) {
    if (bytesOf(value) !== undefined) throw new TypeError("an answer that begins with a JSON value has no bytes as chunks");
    const text = JSONStringify(value);
    if (typeof text !== "string") throw new TypeError("a chunk of the answer is a " + typeof value + ", which has no JSON form");
    return ops.op_text_encode(text + "\n") ?? new Uint8Array(0);
  }

  /** Cancels a source, waits for the end of that, and throws `error`. */
  async function abandon(source, error) {
    try {
      await source.cancel(error);
    } catch {
      // The first error counts.
    }
    throw error;
  }

  /**
   * Passes each chunk of `source` to `send`, and waits for it. An error of `convert` or `send` cancels the
   * source. Returns false if the call ended meanwhile.
   */
  async function forEachChunk(call, source, convert, send) {
    for (;;) {
      const result = await source.next();
      if (!isRunning(call)) return false;
      if ((typeof result !== "object" && typeof result !== "function") || result === null) throw new TypeError("the result of `next()` is not an object");
      if (result.done) return true;
      try {
        const chunk = convert(result.value);
        if (TypedArrayPrototypeGetLength(chunk) !== 0) await send(chunk);
      } catch (error) {
        await abandon(source, error);
      }
      if (!isRunning(call)) return false;
    }
  }

  /** Sends the chunks as they come. `headOf` returns the headers, as JSON rows, when the first one is there. */
  async function sendChunks(status, headOf, source, convert) {
    const call = runningCall();
    let isOpen = false;
    const write = async (chunk) => {
      const length = TypedArrayPrototypeGetLength(chunk);
      for (let at = 0; at < length; at += CHUNK_BYTES) {
        if (isOpen) {
          await promised(ops.op_stream_write(chunk, at));
        } else {
          isOpen = true;
          await promised(ops.op_stream_open(status, headOf(), chunk, at));
        }
      }
    };
    if (!(await forEachChunk(call, source, convert, write))) return;
    call.answered = true;
    if (isOpen) ops.op_streamed(status);
    else ops.op_responded(status, headOf(), "", false);
  }

  /**
   * Reads all chunks, for a caller that takes no stream, and reports the bytes each time that there are twice as many.
   * One chunk beyond the limit is stopped by its op.
   */
  async function collect(status, headOf, source, convert) {
    const call = runningCall();
    const limit = ops.op_output_bytes();
    const chunks = [];
    let length = 0;
    let reported = CHUNK_BYTES;
    const add = (chunk) => {
      parts.define(chunks, chunks.length, chunk);
      length += TypedArrayPrototypeGetLength(chunk);
      if (length <= limit) {
        if (length < reported) return;
        ops.op_progress(length + " bytes of the answer are ready", -1);
        while (reported <= length) reported *= 2;
        return;
      }
      call.answered = true;
      ops.op_responded_bytes(status, headOf(), parts.joinBytes(chunks, length));
      throw new TypeError("the answer is too large");
    };
    if (!(await forEachChunk(call, source, convert, add))) return;
    call.answered = true;
    ops.op_responded_bytes(status, headOf(), parts.joinBytes(chunks, length));
  }

  /** Sends the chunks to a caller that takes a stream, and all of them at the end to another. */
  const send = (status, headOf, source, convert) =>
    ops.op_streams() ? sendChunks(status, headOf, source, convert) : collect(status, headOf, source, convert);

  /** Answers with the stream of a body. `head`: the headers as JSON rows. */
  parts.answerStream = (status, head, stream) => send(status, () => head, streamSource(stream), bodyChunk);

  /**
   * Answers with the values of `value` if it is an asynchronous iterable, for example a generator, and
   * returns the promise of the end. Returns undefined for other objects.
   */
  parts.answerIterable = (value) => {
    const method = value[SymbolAsyncIterator];
    if (typeof method !== "function") return undefined;
    const source = parts.isStream(value) ? streamSource(value) : iterableSource(value, method);
    let form;
    const convert = (chunk) => {
      form ??= formOf(chunk);
      return form.convert(chunk);
    };
    const headOf = () => (form === undefined ? "[]" : '[["content-type","' + form.type + '"]]');
    return send(200, headOf, source, convert);
  };
})(globalThis.__tollhouse);
