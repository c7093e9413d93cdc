// The interfaces of the web that come from `deno_web`: streams, text coding, Blob, compression and
// URLPattern.
"use strict";

((parts) => {
  const { adoptInterface, denoScript } = parts;
  const { MathMin, ObjectPrototypeIsPrototypeOf, Promise, PromisePrototypeThen, ReflectApply, ReflectGetOwnPropertyDescriptor, TypeError,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeGetSymbolToStringTag, TypedArrayPrototypeSet, TypedArrayPrototypeSubarray,
    Uint8Array } = parts.primordials;

  const streams = denoScript("ext:deno_web/06_streams.js");
  const { ReadableStream } = streams;
  adoptInterface(ReadableStream, ["locked"]);
  adoptInterface(streams.ReadableStreamDefaultReader, ["closed"]);
  adoptInterface(streams.ReadableStreamBYOBReader, ["closed"]);
  adoptInterface(streams.ReadableStreamBYOBRequest, ["view"]);
  adoptInterface(streams.ReadableByteStreamController, ["byobRequest", "desiredSize"]);
  adoptInterface(streams.ReadableStreamDefaultController, ["desiredSize"]);
  adoptInterface(streams.WritableStream, ["locked"]);
  adoptInterface(streams.WritableStreamDefaultWriter, ["closed", "desiredSize", "ready"]);
  adoptInterface(streams.WritableStreamDefaultController, ["signal"]);
  adoptInterface(streams.TransformStream, ["readable", "writable"]);
  adoptInterface(streams.TransformStreamDefaultController, ["desiredSize"]);
  adoptInterface(streams.ByteLengthQueuingStrategy, ["highWaterMark"]);
  adoptInterface(streams.CountQueuingStrategy, ["highWaterMark"]);

  const encoding = denoScript("ext:deno_web/08_text_encoding.js");
  adoptInterface(encoding.TextEncoder, ["encoding"]);
  adoptInterface(encoding.TextDecoder, ["encoding", "fatal", "ignoreBOM"]);
  adoptInterface(encoding.TextEncoderStream, ["encoding", "readable", "writable"]);
  adoptInterface(encoding.TextDecoderStream, ["encoding", "fatal", "ignoreBOM", "readable", "writable"]);

  const { Blob, File } = denoScript("ext:deno_web/09_file.js");
  adoptInterface(Blob, ["size", "type"]);
  adoptInterface(File, ["name", "size", "type", "lastModified"]);

  const compression = denoScript("ext:deno_web/14_compression.js");
  adoptInterface(compression.CompressionStream, ["readable", "writable"]);
  adoptInterface(compression.DecompressionStream, ["readable", "writable"]);

  const { URLPattern } = denoScript("ext:deno_web/01_urlpattern.js");
  adoptInterface(URLPattern, ["protocol", "username", "password", "hostname", "port", "pathname", "search", "hash", "hasRegExpGroups"]);

  const getter = (Class, name) => ReflectGetOwnPropertyDescriptor(Class.prototype, name).get;
  const typeOf = getter(Blob, "type");
  const sizeOf = getter(Blob, "size");
  const nameOf = getter(File, "name");
  const modifiedOf = getter(File, "lastModified");

  const { brand } = denoScript("ext:deno_webidl/00_webidl.js");

  /**
   * Returns whether `value` is an object of an interface of `deno_web`, as its getters check it. They throw for
   * any other object, which is slow for values of many objects.
   */
  function isOf(Class, value) {
    if (typeof value !== "object" || value === null) return false;
    try {
      return ObjectPrototypeIsPrototypeOf(Class.prototype, value) && value[brand] === brand;
    } catch {
      // A trap of a proxy.
      return false;
    }
  }

  parts.isBlob = (value) => isOf(Blob, value);
  parts.isFile = (value) => isOf(File, value);
  parts.blobType = (blob) => ReflectApply(typeOf, blob, []);
  parts.blobSize = (blob) => ReflectApply(sizeOf, blob, []);
  parts.fileName = (file) => ReflectApply(nameOf, file, []);

  /** Returns a copy of a Blob or File, for `structuredClone`. */
  parts.copyBlob = (blob) => {
    const type = parts.blobType(blob);
    if (!parts.isFile(blob)) return new Blob([blob], { __proto__: null, type });
    return new File([blob], parts.fileName(blob), { __proto__: null, type, lastModified: ReflectApply(modifiedOf, blob, []) });
  };

  const lockedOf = getter(ReadableStream, "locked");
  const { pipeThrough } = ReadableStream.prototype;
  const { read, cancel: cancelReader } = streams.ReadableStreamDefaultReader.prototype;

  parts.isStream = (value) => isOf(ReadableStream, value);
  /** Returns whether a stream has been read or canceled, or is being read. */
  parts.isStreamUsed = (stream) => streams.isReadableStreamDisturbed(stream);
  parts.isStreamLocked = (stream) => ReflectApply(lockedOf, stream, []);
  parts.teeStream = (stream) => streams.readableStreamTee(stream, true);
  /** Returns a stream with the content of another one, which it locks. */
  parts.proxyStream = (stream) => ReflectApply(pipeThrough, stream, [new streams.TransformStream()]);
  const writableLockedOf = getter(streams.WritableStream, "locked");

  /** Returns a writable stream that passes everything on to another one, which it locks. */
  function writableProxy(stream) {
    const { readable, writable } = new streams.TransformStream();
    PromisePrototypeThen(streams.readableStreamPipeTo(readable, stream, false, false, false), undefined, () => {});
    return writable;
  }

  /**
   * Returns a function that transfers a stream for `structuredClone`: null if the stream is locked, and
   * undefined if the value is not a stream.
   */
  parts.streamMover = (value) => {
    if (parts.isStream(value)) return parts.isStreamLocked(value) ? null : () => parts.proxyStream(value);
    if (isOf(streams.WritableStream, value)) return ReflectApply(writableLockedOf, value, []) ? null : () => writableProxy(value);
    return undefined;
  };

  /** Returns all bytes of a stream. */
  parts.collectStream = (stream) => streams.readableStreamCollectIntoUint8Array(stream);

  const byobRequestOf = getter(streams.ReadableByteStreamController, "byobRequest");
  const { respond } = streams.ReadableStreamBYOBRequest.prototype;

  /** Bytes that a stream of a body brings at once. */
  const CHUNK_BYTES = 64 << 10;

  /** Returns a stream of bytes, which nobody changes. */
  parts.streamOf = (bytes) => {
    let at = 0;
    const length = TypedArrayPrototypeGetLength(bytes);
    const pull = (controller) => {
      if (at < length) {
        const end = MathMin(at + CHUNK_BYTES, length);
        streams.readableByteStreamControllerEnqueue(controller, copyOf(TypedArrayPrototypeSubarray(bytes, at, end)));
        at = end;
      }
      if (at < length) return;
      streams.readableByteStreamControllerClose(controller);
      const request = ReflectApply(byobRequestOf, controller, []);
      if (request !== null) ReflectApply(respond, request, [0]);
    };
    return new ReadableStream({ __proto__: null, type: "bytes", pull });
  };

  /**
   * Returns a stream of bytes that come from elsewhere. `next` returns a promise of the next bytes, or of
   * undefined at the end; its rejection is the error of the stream. `cancel` is called if nobody wants the
   * rest. Also returns a function that ends the stream with an error.
   */
  parts.pulledStream = (next, cancel) => {
    let controller;
    const start = (given) => {
      controller = given;
    };
    const pull = async () => {
      const piece = await next();
      if (piece !== undefined) return streams.readableByteStreamControllerEnqueue(controller, piece);
      streams.readableByteStreamControllerClose(controller);
      const request = ReflectApply(byobRequestOf, controller, []);
      if (request !== null) ReflectApply(respond, request, [0]);
    };
    const source = { __proto__: null, type: "bytes", start, pull, cancel };
    const stream = new ReadableStream(source, { __proto__: null, highWaterMark: 0 });
    return { __proto__: null, stream, fail: (error) => streams.readableByteStreamControllerError(controller, error) };
  };

  /** Returns the stream of a body that was read before anybody asked for its stream. */
  parts.usedStream = () => {
    const stream = new ReadableStream();
    streams.acquireReadableStreamDefaultReader(stream);
    streams.readableStreamDisturb(stream);
    streams.readableStreamClose(stream);
    return stream;
  };

  function copyOf(bytes) {
    const copy = new Uint8Array(TypedArrayPrototypeGetLength(bytes));
    TypedArrayPrototypeSet(copy, bytes);
    return copy;
  }

  /** Joins arrays of bytes, which have `length` bytes together. */
  function join(chunks, length) {
    const joined = new Uint8Array(length);
    for (let i = 0, at = 0; i < chunks.length; at += TypedArrayPrototypeGetLength(chunks[i]), i++) TypedArrayPrototypeSet(joined, chunks[i], at);
    return joined;
  }

  /**
   * Reads a stream whole, into at most one chunk more than `limit` bytes: then it is canceled. Nobody
   * but this function has the bytes, so that a handler cannot change them afterwards.
   */
  parts.readStream = (stream, limit) => new Promise((resolve, reject) => {
    const reader = streams.acquireReadableStreamDefaultReader(stream);
    const chunks = [];
    let length = 0;
    const next = () => PromisePrototypeThen(ReflectApply(read, reader, []), step, reject);
    const step = (result) => {
      try {
        if (result.done) return resolve(join(chunks, length));
        const chunk = result.value;
        if (TypedArrayPrototypeGetSymbolToStringTag(chunk) !== "Uint8Array") throw new TypeError("a stream as a body must have chunks of Uint8Array");
        parts.define(chunks, chunks.length, copyOf(chunk));
        length += TypedArrayPrototypeGetLength(chunks[chunks.length - 1]);
        if (length <= limit) return next();
        PromisePrototypeThen(ReflectApply(cancelReader, reader, []), undefined, () => {});
        resolve(join(chunks, length));
      } catch (error) {
        PromisePrototypeThen(ReflectApply(cancelReader, reader, [error]), undefined, () => {});
        reject(error);
      }
    };
    next();
  });

  parts.joinBytes = join;
})(globalThis.__tollhouse);
