// Errors: the class that failed ops reject with, and safe text of whatever a handler throws.
"use strict";

((parts) => {
  const { ArrayIsArray, Error, ErrorPrototype, JSONStringify, ObjectDefineProperty, ObjectFreeze, ObjectPrototypeIsPrototypeOf, String,
    StringPrototypeIncludes } = parts.primordials;

  /** Why an op did not do what was asked; `code` is for programs, `status` that of an answer over HTTP, where one came. */
  class ToolError extends Error {
    constructor(code, message, status = undefined) {
      super(message);
      ObjectDefineProperty(this, "name", { __proto__: null, value: "ToolError", writable: true, configurable: true });
      ObjectDefineProperty(this, "code", { __proto__: null, value: code, writable: true, enumerable: true, configurable: true });
      if (status === undefined) return;
      ObjectDefineProperty(this, "status", { __proto__: null, value: status, writable: true, enumerable: true, configurable: true });
    }
  }
  ObjectFreeze(ToolError.prototype);
  ObjectFreeze(ToolError);

  /** Reads a property that may be a getter, a trap, or worse; only a string comes back. */
  function textOf(object, name) {
    try {
      const value = object[name];
      return typeof value === "string" ? value : "";
    } catch {
      return "";
    }
  }

  /** `{ message, stack }` of anything thrown; behind the stack stand the causes. Runs the handler's getters and traps, and survives them. */
  function describe(thrown) {
    try {
      if (thrown === null || (typeof thrown !== "object" && typeof thrown !== "function")) {
        return { __proto__: null, message: String(thrown), stack: "" };
      }
      const message = headOf(thrown);
      return { __proto__: null, message, stack: `${textOf(thrown, "stack")}${reasonsOf(thrown, [thrown])}` };
    } catch {
      return { __proto__: null, message: "a value that has no text", stack: "" };
    }
  }

  /** Name and message of an object that was thrown, with advice where there is some. */
  function headOf(thrown) {
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
    const said = parts.advised(message);
    return name === "" ? said : said === "" ? name : `${name}: ${said}`;
  }

  /** Errors that stand behind one another, and beside one another in an AggregateError, of which a text tells. */
  const REASONS = 8;

  /** The causes of an error and the errors of an AggregateError, as lines behind its stack. `told` are those that have been. */
  function reasonsOf(error, told) {
    let text = "";
    const cause = heldBy(error, "cause");
    if (cause !== undefined) text += reason("[cause]", cause, told);
    const errors = heldBy(error, "errors");
    if (ArrayIsArray(errors)) {
      for (let i = 0; i < errors.length && i < REASONS && told.length <= REASONS; i++) text += reason(`[errors ${i}]`, errors[i], told);
    }
    return text;
  }

  function reason(label, value, told) {
    for (let i = 0; i < told.length; i++) if (told[i] === value) return `\n${label}: [circular]`;
    if (told.length > REASONS) return "";
    parts.define(told, told.length, value);
    if (value === null || typeof value !== "object") return `\n${label}: ${String(value)}`;
    return `\n${label}: ${wholeStack(value)}${reasonsOf(value, told)}`;
  }

  /** Name, message and stack, each once: V8's stacks begin with the others, those of QuickJS do not. */
  function wholeStack(error) {
    const head = headOf(error);
    const stack = textOf(error, "stack");
    if (stack === "") return head;
    const message = textOf(error, "message");
    return message !== "" && !StringPrototypeIncludes(stack, message) ? `${head}\n${stack}` : stack;
  }

  /** A property that may be a getter, a trap, or worse. */
  function heldBy(object, name) {
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
  parts.describe = describe;
  /** What a log shows of an error: all that there is. Of an error alone. */
  parts.explainError = (error) => `${wholeStack(error)}${reasonsOf(error, [error])}`;
  parts.isError = isError;
})(globalThis.__tollhouse);
