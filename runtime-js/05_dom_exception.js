// DOMException and QuotaExceededError, which the globals of the web throw.
"use strict";

((parts) => {
  const { defineInterface, dictionary, domString, finite } = parts;
  const { Error, ErrorPrototype, ObjectDefineProperty, ObjectSetPrototypeOf, RangeError, ReflectConstruct } = parts.primordials;

  /** Codes by name. Names without a code have 0. */
  const CODES = {
    __proto__: null, IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5,
    NoModificationAllowedError: 7, NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12,
    InvalidModificationError: 13, NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19,
    AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24, DataCloneError: 25,
  };

  /** Names of the error codes from 1, as constants of the class and of its objects. */
  const CONSTANTS = [
    "INDEX_SIZE_ERR", "DOMSTRING_SIZE_ERR", "HIERARCHY_REQUEST_ERR", "WRONG_DOCUMENT_ERR", "INVALID_CHARACTER_ERR", "NO_DATA_ALLOWED_ERR",
    "NO_MODIFICATION_ALLOWED_ERR", "NOT_FOUND_ERR", "NOT_SUPPORTED_ERR", "INUSE_ATTRIBUTE_ERR", "INVALID_STATE_ERR", "SYNTAX_ERR",
    "INVALID_MODIFICATION_ERR", "NAMESPACE_ERR", "INVALID_ACCESS_ERR", "VALIDATION_ERR", "TYPE_MISMATCH_ERR", "SECURITY_ERR", "NETWORK_ERR",
    "ABORT_ERR", "URL_MISMATCH_ERR", "QUOTA_EXCEEDED_ERR", "TIMEOUT_ERR", "INVALID_NODE_TYPE_ERR", "DATA_CLONE_ERR",
  ];

  /** Returns its argument, so that a class that extends it adds its private fields to that object. */
  function Given(object) {
    return object;
  }

  /** Message and name, as private fields of an error of the engine. */
  class State extends Given {
    #message;
    #name;
    constructor(error, message, name) {
      super(error);
      this.#message = message;
      this.#name = name;
    }
    static has(value) {
      return #name in value;
    }
    static message(error) {
      return error.#message;
    }
    static name(error) {
      return error.#name;
    }
  }
  const { has: isDOMException, message: messageOf, name: nameOf } = State;

  const hidden = (object, key, value) =>
    ObjectDefineProperty(object, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

  /**
   * An error of the engine, so that it has a stack. It does not extend Error, because the standard
   * wants no own `message` and another prototype of the class.
   */
  class DOMException {
    constructor(message = "", name = "Error") {
      const text = domString(message);
      // Node.js takes an object, too.
      const options = typeof name === "object" && name !== null ? name : undefined;
      const given = options === undefined ? name : (options.name ?? "Error");
      const error = ReflectConstruct(Error, [], new.target);
      new State(error, text, domString(given));
      if (options?.cause !== undefined) hidden(error, "cause", options.cause);
      return error;
    }
    get name() {
      return nameOf(this);
    }
    get message() {
      return messageOf(this);
    }
    get code() {
      return CODES[nameOf(this)] ?? 0;
    }
  }
  ObjectSetPrototypeOf(DOMException.prototype, ErrorPrototype);

  /** Returns a number of a quota, or null if it is absent. */
  function amount(value, what) {
    if (value === undefined) return null;
    const number = finite(value, what);
    if (number < 0) throw new RangeError(`${what} must not be negative`);
    return number;
  }

  class QuotaExceededError extends DOMException {
    #quota;
    #requested;
    constructor(message = "", options = undefined) {
      const { quota, requested } = dictionary(options, "QuotaExceededError");
      super(message, "QuotaExceededError");
      this.#quota = amount(quota, "the quota");
      this.#requested = amount(requested, "the requested amount");
      if (this.#quota !== null && this.#requested !== null && this.#requested < this.#quota) {
        throw new RangeError("the requested amount must not be below the quota");
      }
    }
    get quota() {
      return this.#quota;
    }
    get requested() {
      return this.#requested;
    }
    static {
      /** Returns a copy of an exception, for `structuredClone`. */
      parts.copyException = (error) => {
        if (!(#quota in error)) return new DOMException(messageOf(error), nameOf(error));
        const copy = new QuotaExceededError(messageOf(error));
        copy.#quota = error.#quota;
        copy.#requested = error.#requested;
        return copy;
      };
    }
  }

  parts.isDOMException = isDOMException;
  parts.DOMException = DOMException;
  parts.QuotaExceededError = QuotaExceededError;
  defineInterface(DOMException, { constants: CONSTANTS, first: 1 });
  defineInterface(QuotaExceededError);
})(globalThis.__tollhouse);
