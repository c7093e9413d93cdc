// The body of a call that is not JSON. The host keeps it, and a handler reads it piece by piece.
"use strict";

((parts) => {
  const { defineBody, ops, promised, request } = parts;
  const { ObjectFreeze, ObjectKeys, ObjectSetPrototypeOf, ReflectApply, ReflectGetOwnPropertyDescriptor, SafeWeakMap, TypeError,
    TypedArrayPrototypeGetLength, TypedArrayPrototypeSet, Uint8Array } = parts.primordials;

  const streams = parts.denoScript("ext:deno_web/06_streams.js");
  const { get: byobRequestOf } = ReflectGetOwnPropertyDescriptor(streams.ReadableByteStreamController.prototype, "byobRequest");
  const { respond } = streams.ReadableStreamBYOBRequest.prototype;

  /** Only our own code has objects of this class, so a handler cannot change its methods. */
  class CallBody {
    #call;
    #length;
    #headers;
    #used = false;
    /** The stream that the handler has asked for. */
    #stream = undefined;

    constructor(call, length, headers) {
      this.#call = call;
      this.#length = length;
      this.#headers = headers;
    }
    get used() {
      return this.#used || (this.#stream !== undefined && parts.isStreamUsed(this.#stream));
    }
    /** The rows of headers, of which the type of the body is needed. */
    get headers() {
      return this.#headers;
    }
    /** Throws if the body has been read, or somebody is reading it. */
    requireUsable() {
      if (this.used) throw new TypeError("the body has been read already");
      if (this.#stream !== undefined && parts.isStreamLocked(this.#stream)) throw new TypeError("the stream of the body is locked by a reader");
    }
    get stream() {
      this.#stream ??= this.#used ? parts.usedStream() : this.#open();
      return this.#stream;
    }
    /** Returns a stream that gets a piece from the host whenever its reader wants one. */
    #open() {
      let at = 0;
      const pull = async (controller) => {
        if (at < this.#length) {
          const piece = await this.#piece(at);
          if (piece === undefined) throw new TypeError("the body ended early");
          at += TypedArrayPrototypeGetLength(piece);
          streams.readableByteStreamControllerEnqueue(controller, piece);
          if (at < this.#length) return;
        }
        streams.readableByteStreamControllerClose(controller);
        const request = ReflectApply(byobRequestOf, controller, []);
        if (request !== null) ReflectApply(respond, request, [0]);
      };
      return new streams.ReadableStream({ __proto__: null, type: "bytes", pull }, { __proto__: null, highWaterMark: 0 });
    }
    /** Returns a promise of the bytes from `offset` on, or of undefined at the end. */
    #piece(offset) {
      return request(this.#call, () => promised(ops.op_body_read(offset)));
    }
    async bytes() {
      this.requireUsable();
      if (this.#stream !== undefined) return await parts.collectStream(this.#stream);
      this.#used = true;
      const all = new Uint8Array(this.#length);
      let at = 0;
      while (at < this.#length) {
        const piece = await this.#piece(at);
        if (piece === undefined) throw new TypeError("the body ended early");
        TypedArrayPrototypeSet(all, piece, at);
        at += TypedArrayPrototypeGetLength(piece);
      }
      return all;
    }
    async text() {
      return ops.op_text_decode(await this.bytes(), false);
    }
  }

  /** The bodies of calls, by their `req`. */
  const bodies = new SafeWeakMap();

  function bodyOf(req) {
    const body = bodies.get(req);
    if (body === undefined) throw new TypeError("Illegal invocation: call it as a method of `req`");
    return body;
  }

  /** Prototype of every `req` whose body is not JSON: it reads its body like a Request. */
  const prototype = {};
  defineBody({ __proto__: null, prototype }, bodyOf, (req) => bodyOf(req).headers);
  const names = ObjectKeys(prototype);
  for (let i = 0; i < names.length; i++) {
    const { get, value } = ReflectGetOwnPropertyDescriptor(prototype, names[i]);
    ObjectFreeze(get ?? value);
  }
  ObjectFreeze(prototype);

  /** Gives `req` a body of `length` bytes, which the host has for `call`. */
  function giveBody(req, call, length) {
    const type = req.headers["content-type"];
    bodies.set(req, new CallBody(call, length, type === undefined ? [] : [["content-type", type]]));
    ObjectSetPrototypeOf(req, prototype);
  }

  parts.giveBody = giveBody;
})(globalThis.__tollhouse);
