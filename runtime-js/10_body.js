// The body of a Request or a Response: a text or bytes, read at most once.
"use strict";

((parts) => {
  const { ops } = parts;
  const { JSONParse, ObjectDefineProperty, ObjectKeys, ObjectSetPrototypeOf, ReflectGetOwnPropertyDescriptor, String,
    StringPrototypeCharCodeAt, StringPrototypeSlice, StringPrototypeToWellFormed, SymbolAsyncIterator, SymbolToStringTag, TypeError,
    TypedArrayPrototypeGetBuffer, TypedArrayPrototypeSlice, Uint8Array } = parts.primordials;

  /** Removes a leading byte order mark from a text, as decoding its bytes would. */
  function withoutMark(text) {
    return StringPrototypeCharCodeAt(text, 0) === 0xfeff ? StringPrototypeSlice(text, 1) : text;
  }

  /** Only our own code has objects of this class, so a handler cannot change its methods. */
  class Body {
    /** A string, our own Uint8Array, or null. */
    #content;
    #used = false;

    constructor(content) {
      this.#content = content;
    }
    get used() {
      return this.#used;
    }
    get isNull() {
      return this.#content === null;
    }
    /** Returns the content without reading it. Throws if it has been read. */
    get content() {
      if (this.#used) throw new TypeError("the body has been read already");
      return this.#content;
    }
    /** Reads the content. */
    take() {
      const content = this.content;
      if (content !== null) this.#used = true;
      return content;
    }
    text() {
      const content = this.take();
      if (content === null) return "";
      return typeof content === "string" ? withoutMark(content) : ops.op_text_decode(content, false);
    }
    json() {
      return JSONParse(this.text());
    }
    bytes() {
      const content = this.take();
      if (content === null) return new Uint8Array(0);
      return typeof content === "string" ? ops.op_text_encode(content) : TypedArrayPrototypeSlice(content);
    }
    arrayBuffer() {
      return TypedArrayPrototypeGetBuffer(this.bytes());
    }
    /** Returns a second body with the same content. Nobody changes it, so both can have it. */
    copy() {
      return new Body(this.content);
    }
  }

  /**
   * Converts a value to the content of a body, and to the content type that goes with it, which is
   * null for bytes.
   */
  function contentOf(value) {
    const bytes = typeof value === "object" ? parts.bytesOf(value) : undefined;
    if (bytes !== undefined) return { __proto__: null, content: TypedArrayPrototypeSlice(bytes), type: null };
    const type = parts.isSearchParams(value) ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8";
    // A lone surrogate cannot be encoded.
    return { __proto__: null, content: StringPrototypeToWellFormed(String(value)), type };
  }

  /** Bodies of the standard that need streams. */
  const UNSUPPORTED = { __proto__: null, ReadableStream: 1, Blob: 1, File: 1, FormData: 1 };

  /** Throws for a body that would be sent as the text `[object Object]`. */
  function refuseUnsupported(value) {
    if (value === null || typeof value !== "object" || parts.bytesOf(value) !== undefined || parts.isSearchParams(value)) return;
    const tag = value[SymbolToStringTag];
    if (typeof tag === "string" && UNSUPPORTED[tag] === 1) {
      throw new TypeError(`a ${tag} is not supported as a body yet: send a string, bytes or URLSearchParams`);
    }
    if (value[SymbolAsyncIterator] !== undefined) {
      throw new TypeError("a stream is not supported as a body yet: send a string, bytes or URLSearchParams");
    }
  }

  /**
   * Adds the members of the mixin Body to a class (Fetch standard). `bodyOf` returns the body of an
   * object, and throws for other objects.
   */
  function defineBody(Class, bodyOf) {
    const members = {
      get bodyUsed() {
        return bodyOf(this).used;
      },
      async text() {
        return bodyOf(this).text();
      },
      async json() {
        return bodyOf(this).json();
      },
      async bytes() {
        return bodyOf(this).bytes();
      },
      async arrayBuffer() {
        return bodyOf(this).arrayBuffer();
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
  parts.contentOf = contentOf;
  parts.refuseUnsupported = refuseUnsupported;
  parts.withoutMark = withoutMark;
})(globalThis.__tollhouse);
