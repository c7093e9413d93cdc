// Errors: the class that failed ops reject with, and safe text for anything that a handler throws.
"use strict";

((parts) => {
  const { ArrayIsArray, Error, ErrorPrototype, JSONStringify, ObjectDefineProperty, ObjectFreeze, ObjectPrototypeIsPrototypeOf, String,
    StringPrototypeIncludes } = parts.primordials;

  /**
   * Why an op failed. `code` is for programs. `status` is the status of an HTTP answer, if there
   * was one. Without a code, it is an error for [setReason], which has the stack of this place.
   */
  class ToolError extends Error {
    constructor(code, message, status = undefined) {
      super(message);
      if (code !== undefined) setReason(this, code, message, status);
    }
  }

  /** Sets the fields of a ToolError that was made before its op failed, and returns it. */
  function setReason(error, code, message, status) {
    ObjectDefineProperty(error, "name", { __proto__: null, value: "ToolError", writable: true, configurable: true });
    ObjectDefineProperty(error, "message", { __proto__: null, value: message, writable: true, configurable: true });
    ObjectDefineProperty(error, "code", { __proto__: null, value: code, writable: true, enumerable: true, configurable: true });
    if (status !== undefined) {
      ObjectDefineProperty(error, "status", { __proto__: null, value: status, writable: true, enumerable: true, configurable: true });
    }
    return error;
  }

  /** Sets the message and the cause of an error that was made before its reason was known, and returns it. */
  function setCause(error, message, cause) {
    ObjectDefineProperty(error, "message", { __proto__: null, value: message, writable: true, configurable: true });
    ObjectDefineProperty(error, "cause", { __proto__: null, value: cause, writable: true, configurable: true });
    return error;
  }
  ObjectFreeze(ToolError.prototype);
  ObjectFreeze(ToolError);

  /**
   * Reads a property that can be a getter or a proxy trap. Returns a string, empty if the value is
   * not one.
   */
  function textOf(object, name) {
    try {
      const value = object[name];
      return typeof value === "string" ? value : "";
    } catch {
      return "";
    }
  }

  /**
   * Returns `{ message, stack }` for any thrown value. The causes follow the stack. Survives the
   * handler's getters and traps, which it can run.
   */
  function describe(thrown) {
    try {
      if (thrown === null || (typeof thrown !== "object" && typeof thrown !== "function")) {
        return { __proto__: null, message: String(thrown), stack: "" };
      }
      const message = titleOf(thrown);
      return { __proto__: null, message, stack: `${textOf(thrown, "stack")}${reasonsOf(thrown, [thrown])}` };
    } catch {
      return { __proto__: null, message: "a value that has no text", stack: "" };
    }
  }

  /** Returns name and message of a thrown object, with advice if available. */
  function titleOf(thrown) {
    const message = textOf(thrown, "message");
    let name = textOf(thrown, "name");
    if (name === "" && message === "") {
      let text;
      try {
        text = JSONStringify(thrown);
      } catch {
        text = undefined;
      }
      return typeof text === "string" ? text : "a value that has no text";
    }
    if (name === "" && !isError(thrown)) name = "Error";
    const advice = parts.withAdvice(message);
    return name === "" ? advice : advice === "" ? name : `${name}: ${advice}`;
  }

  /** Maximum causes and errors of an AggregateError in one text. */
  const MAX_REASONS = 8;

  /**
   * Returns the causes of an error and the errors of an AggregateError, as lines to follow its
   * stack. `seen` lists the errors that were already shown.
   */
  function reasonsOf(error, seen) {
    let text = "";
    const cause = propertyOf(error, "cause");
    if (cause !== undefined) text += reason("[cause]", cause, seen);
    const errors = propertyOf(error, "errors");
    if (ArrayIsArray(errors)) {
      for (let i = 0; i < errors.length && i < MAX_REASONS && seen.length <= MAX_REASONS; i++) text += reason(`[errors ${i}]`, errors[i], seen);
    }
    return text;
  }

  function reason(label, value, seen) {
    for (let i = 0; i < seen.length; i++) if (seen[i] === value) return `\n${label}: [circular]`;
    if (seen.length > MAX_REASONS) return "";
    parts.define(seen, seen.length, value);
    if (value === null || typeof value !== "object") return `\n${label}: ${String(value)}`;
    return `\n${label}: ${fullStack(value)}${reasonsOf(value, seen)}`;
  }

  /**
   * Returns name, message and stack, each once. V8's stacks begin with name and message, those of
   * QuickJS do not.
   */
  function fullStack(error) {
    const head = titleOf(error);
    const stack = textOf(error, "stack");
    if (stack === "") return head;
    const message = textOf(error, "message");
    const hasHead = stack[0] !== " " && (message === "" || StringPrototypeIncludes(stack, message));
    return hasHead ? stack : `${head}\n${stack}`;
  }

  /** Reads a property that can be a getter or a proxy trap. */
  function propertyOf(object, name) {
    try {
      return object[name];
    } catch {
      return undefined;
    }
  }

  function isError(value) {
    try {
      return ObjectPrototypeIsPrototypeOf(ErrorPrototype, value);
    } catch {
      return false;
    }
  }

  parts.ToolError = ToolError;
  parts.setReason = setReason;
  parts.setCause = setCause;
  parts.describe = describe;
  /** Returns the full text of an error for a log. Only for errors. */
  parts.errorTitle = titleOf;
  parts.fullStack = fullStack;
  parts.reasonsOf = reasonsOf;
  parts.explainError = (error) => `${fullStack(error)}${reasonsOf(error, [error])}`;
  parts.isError = isError;
})(globalThis.__tollhouse);
