// The body of a Request or a Response: a text, bytes or a stream, read at most once.
"use strict";

((parts) => {
  const { ops } = parts;
  const { JSONParse, ObjectDefineProperty, ObjectKeys, ObjectSetPrototypeOf, ReflectGetOwnPropertyDescriptor, String,
    StringPrototypeCharCodeAt, StringPrototypeSlice, StringPrototypeToWellFormed, SymbolAsyncIterator, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeSlice, Uint8Array } = parts.primordials;
  const { Blob } = parts.globals;
  const { essence, parseMimeType, serializeMimeType } = parts.denoScript("ext:deno_web/01_mimesniff.js");

  /** Removes a leading byte order mark from a text, as decoding its bytes would. */
  function withoutMark(text) {
    return StringPrototypeCharCodeAt(text, 0) === 0xfeff ? StringPrototypeSlice(text, 1) : text;
  }

  /** Only our own code has objects of this class, so a handler cannot change its methods. */
  class Body {
    /** A string, our own Uint8Array, or null. Unused once there is a stream. */
    #content;
    /** The stream that a handler has given or asked for. */
    #stream;
    #used = false;

    constructor(content, stream = undefined) {
      this.#content = content;
      this.#stream = stream;
    }
    get used() {
      return this.#used || (this.#stream !== undefined && parts.isStreamUsed(this.#stream));
    }
    get isNull() {
      return this.#content === null && this.#stream === undefined;
    }
    /** Returns the stream, or null without a body. */
    get stream() {
      if (this.isNull) return null;
      this.#stream ??= this.#used ? parts.usedStream() : parts.streamOf(toBytes(this.#content));
      return this.#stream;
    }
    /** Throws if the body has been read, or somebody is reading it. */
    requireUsable() {
      if (this.used) throw new TypeError("the body has been read already");
      if (this.#stream !== undefined && parts.isStreamLocked(this.#stream)) throw new TypeError("the stream of the body is locked by a reader");
    }
    /** Moves the content to a new body. */
    move() {
      this.requireUsable();
      if (this.isNull) return this;
      const moved = new Body(this.#content, this.#stream === undefined ? undefined : parts.proxyStream(this.#stream));
      this.#used = true;
      return moved;
    }
    /** Returns a second body with the same content. Nobody changes it, so both can have it. */
    copy() {
      this.requireUsable();
      if (this.#stream === undefined) return new Body(this.#content);
      const branches = parts.teeStream(this.#stream);
      this.#stream = branches[0];
      return new Body(undefined, branches[1]);
    }
    /** Returns the content without reading it, or undefined if that is in a stream. */
    get content() {
      this.requireUsable();
      return this.#stream === undefined ? this.#content : undefined;
    }
    /** Returns the stream that was given as the content, or undefined. */
    get ownStream() {
      return this.#content === undefined ? this.#stream : undefined;
    }
    /**
     * Reads a string, bytes or null. A stream is read whole, up to its first chunk beyond `limit`
     * bytes.
     */
    async whole(limit) {
      this.requireUsable();
      if (this.#stream !== undefined) return await parts.readStream(this.#stream, limit);
      if (this.#content !== null) this.#used = true;
      return this.#content;
    }
    /** Reads everything for the handler, as a string, bytes or null. */
    async #read() {
      this.requireUsable();
      if (this.#stream !== undefined) return await parts.collectStream(this.#stream);
      if (this.#content !== null) this.#used = true;
      return this.#content;
    }
    async text() {
      const content = await this.#read();
      if (content === null) return "";
      return typeof content === "string" ? withoutMark(content) : ops.op_text_decode(content, false);
    }
    async bytes() {
      const content = await this.#read();
      if (content === null) return new Uint8Array(0);
      return typeof content === "string" ? ops.op_text_encode(content) : TypedArrayPrototypeSlice(content);
    }
  }

  function toBytes(content) {
    return typeof content === "string" ? ops.op_text_encode(content) : content;
  }

  const bytesBody = (content, type = null) => ({ __proto__: null, body: new Body(content), type });

  /**
   * Converts a value to a body, and to the content type that goes with it, which is null if there is
   * none.
   */
  function bodyOfValue(value) {
    if (typeof value === "object") {
      const bytes = parts.bytesOf(value);
      if (bytes !== undefined) return bytesBody(TypedArrayPrototypeSlice(bytes));
      if (parts.isBlob(value)) return bytesBody(parts.blobBytes(value), parts.blobType(value) || null);
      if (parts.isFormData(value)) return bytesBody(...parts.encodeForm(value));
      if (parts.isStream(value)) {
        const body = new Body(undefined, value);
        body.requireUsable();
        return { __proto__: null, body, type: null };
      }
      if (!parts.isSearchParams(value) && value[SymbolAsyncIterator] !== undefined) {
        throw new TypeError("an asynchronous iterable is not a body: make a stream of it with `ReadableStream.from`");
      }
    }
    const type = parts.isSearchParams(value) ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8";
    // A lone surrogate cannot be encoded.
    return bytesBody(StringPrototypeToWellFormed(String(value)), type);
  }

  /** Returns the parsed content type of these rows of headers, or null. */
  function typeOf(rows) {
    for (let i = rows.length - 1; i >= 0; i--) if (rows[i][0] === "content-type") return parseMimeType(rows[i][1]);
    return null;
  }

  /**
   * Adds the members of the mixin Body to a class (Fetch standard). `bodyOf` and `headersOf` return
   * the body and the rows of headers of an object, and throw for other objects.
   */
  function defineBody(Class, bodyOf, headersOf) {
    const members = {
      get body() {
        return bodyOf(this).stream;
      },
      get bodyUsed() {
        return bodyOf(this).used;
      },
      async text() {
        return await bodyOf(this).text();
      },
      async json() {
        return JSONParse(await bodyOf(this).text());
      },
      async bytes() {
        return await bodyOf(this).bytes();
      },
      async arrayBuffer() {
        return TypedArrayPrototypeGetBuffer(await bodyOf(this).bytes());
      },
      async blob() {
        const type = typeOf(headersOf(this));
        const bytes = await bodyOf(this).bytes();
        return new Blob([bytes], { __proto__: null, type: type === null ? "" : serializeMimeType(type) });
      },
      async formData() {
        const body = bodyOf(this);
        const type = typeOf(headersOf(this));
        const bytes = await body.bytes();
        const kind = type === null ? "" : essence(type);
        if (kind === "application/x-www-form-urlencoded") return parts.formOfText(ops.op_text_decode(bytes, false));
        if (kind !== "multipart/form-data") throw new TypeError("the content type of the body is not that of a form");
        const boundary = type.parameters.get("boundary");
        if (boundary === undefined) throw new TypeError("the content type of the body has no boundary");
        return parts.decodeForm(bytes, boundary);
      },
    };
    const names = ObjectKeys(members);
    for (let i = 0; i < names.length; i++) {
      const descriptor = ReflectGetOwnPropertyDescriptor(members, names[i]);
      ObjectSetPrototypeOf(descriptor, null);
      ObjectDefineProperty(Class.prototype, names[i], descriptor);
    }
  }

  parts.Body = Body;
  parts.defineBody = defineBody;
  parts.bodyOfValue = bodyOfValue;
  parts.withoutMark = withoutMark;
})(globalThis.__tollhouse);
