// FileReader, and the events that it dispatches.
"use strict";

((parts) => {
  const { DOMException, defineHandlers, defineInterface, denoScript, dictionary, dispatchTrusted, domString, finite, needArguments, ops,
    queueTask } = parts;
  const { Event, EventTarget } = parts.globals;
  const { Boolean, MapPrototypeGet, TypeError, TypedArrayPrototypeGetBuffer } = parts.primordials;

  class ProgressEvent extends Event {
    #lengthComputable;
    #loaded;
    #total;
    constructor(type, init = undefined) {
      needArguments("ProgressEvent", 1, arguments.length);
      super(type, init);
      const { lengthComputable, loaded = 0, total = 0 } = dictionary(init, "ProgressEvent");
      this.#lengthComputable = Boolean(lengthComputable);
      this.#loaded = finite(loaded, "the loaded amount");
      this.#total = finite(total, "the total amount");
    }
    get lengthComputable() {
      return this.#lengthComputable;
    }
    get loaded() {
      return this.#loaded;
    }
    get total() {
      return this.#total;
    }
  }

  const EMPTY = 0;
  const LOADING = 1;
  const DONE = 2;

  /** Returns the encoding that the bytes begin with, if they have a byte order mark. */
  function markedEncoding(bytes) {
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
    if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
    return bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : undefined;
  }

  /** Returns the name of an encoding, or undefined for a label that is not known. */
  function encodingOf(label) {
    const name = label === undefined ? undefined : ops.op_encoding_name(label);
    return typeof name === "string" ? name : undefined;
  }

  function charsetOf(blob) {
    const type = denoScript("ext:deno_web/01_mimesniff.js").parseMimeType(parts.blobType(blob));
    return type === null ? undefined : MapPrototypeGet(type.parameters, "charset");
  }

  function textOf(bytes, blob, label) {
    const encoding = markedEncoding(bytes) ?? encodingOf(label) ?? encodingOf(charsetOf(blob)) ?? "utf-8";
    return ops.op_text_decode_as(bytes, encoding, false, false);
  }

  function dataUrlOf(bytes, blob) {
    const type = parts.blobType(blob);
    return "data:" + (type === "" ? "application/octet-stream" : type) + ";base64," + ops.op_base64_encode(bytes);
  }

  class FileReader extends EventTarget {
    #state = EMPTY;
    #result = null;
    #error = null;
    /** The reading in progress. Events of an earlier one are dropped. */
    #reading = undefined;

    readAsArrayBuffer(blob) {
      this.#read(blob, (bytes) => TypedArrayPrototypeGetBuffer(bytes));
    }
    readAsBinaryString(blob) {
      this.#read(blob, (bytes) => ops.op_base64_decode(ops.op_base64_encode(bytes)));
    }
    readAsText(blob, encoding = undefined) {
      const label = encoding === undefined ? undefined : domString(encoding);
      this.#read(blob, (bytes) => textOf(bytes, blob, label));
    }
    readAsDataURL(blob) {
      this.#read(blob, (bytes) => dataUrlOf(bytes, blob));
    }
    abort() {
      const isLoading = this.#state === LOADING;
      this.#result = null;
      if (!isLoading) return;
      this.#state = DONE;
      this.#reading = undefined;
      this.#fire("abort", 0, 0);
      if (this.#state !== LOADING) this.#fire("loadend", 0, 0);
    }
    get readyState() {
      return this.#state;
    }
    get result() {
      return this.#result;
    }
    get error() {
      return this.#error;
    }

    /** Reads a Blob, whose bytes never change, in tasks: each event has one, as in a browser. */
    #read(blob, convert) {
      const isLoading = this.#state === LOADING;
      if (!parts.isBlob(blob)) throw new TypeError("a FileReader reads a Blob");
      if (isLoading) throw new DOMException("the reader is reading already", "InvalidStateError");
      this.#state = LOADING;
      this.#result = this.#error = null;
      const reading = { __proto__: null };
      this.#reading = reading;
      const later = (task) => queueTask(() => {
        if (this.#reading === reading) task();
      });
      const total = parts.blobSize(blob);
      const end = () => {
        this.#reading = undefined;
        this.#fire("loadend", total, total);
      };
      const finish = () => {
        this.#state = DONE;
        try {
          this.#result = convert(parts.blobBytes(blob));
        } catch {
          this.#error = new DOMException("the content cannot be read", "NotReadableError");
        }
        later(end);
        this.#fire(this.#error === null ? "load" : "error", this.#error === null ? total : 0, total);
      };
      const progress = () => {
        later(finish);
        this.#fire("progress", total, total);
      };
      later(() => {
        later(total === 0 ? finish : progress);
        this.#fire("loadstart", 0, total);
      });
    }
    #fire(type, loaded, total) {
      dispatchTrusted(this, new ProgressEvent(type, { __proto__: null, lengthComputable: total !== 0, loaded, total }));
    }
  }

  defineHandlers(FileReader.prototype, ["loadstart", "progress", "load", "abort", "error", "loadend"]);
  const EVENT = ["type", "defaultPrevented", "cancelable", "timeStamp"];
  defineInterface(ProgressEvent, { shown: [...EVENT, "lengthComputable", "loaded", "total"] });
  defineInterface(FileReader, { shown: ["readyState", "result", "error"], constants: ["EMPTY", "LOADING", "DONE"] });
})(globalThis.__tollhouse);
