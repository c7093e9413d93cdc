// Errors: the class that failed ops reject with, and safe text of whatever a handler throws.
"use strict";

((parts) => {
  const { Error, ErrorPrototype, JSONStringify, ObjectDefineProperty, ObjectFreeze, ObjectPrototypeIsPrototypeOf, String } =
    parts.primordials;

  /** Why an op did not do what was asked; `code` is for programs. */
  class ToolError extends Error {
    constructor(code, message) {
      super(message);
      ObjectDefineProperty(this, "name", { __proto__: null, value: "ToolError", writable: true, configurable: true });
      ObjectDefineProperty(this, "code", { __proto__: null, value: code, writable: true, enumerable: true, configurable: true });
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

  /** `{ message, stack }` of anything thrown. Runs the handler's getters and traps, and survives them. */
  function describe(thrown) {
    try {
      if (thrown === null || (typeof thrown !== "object" && typeof thrown !== "function")) {
        return { __proto__: null, message: String(thrown), stack: "" };
      }
      const message = textOf(thrown, "message");
      let name = textOf(thrown, "name");
      if (name === "" && message === "") {
        let text;
        try {
          text = JSONStringify(thrown);
        } catch {
          text = undefined;
        }
        return { __proto__: null, message: typeof text === "string" ? text : "a value that has no text", stack: textOf(thrown, "stack") };
      }
      if (name === "" && !isError(thrown)) name = "Error";
      const said = parts.advised(message);
      const head = name === "" ? said : said === "" ? name : `${name}: ${said}`;
      return { __proto__: null, message: head, stack: textOf(thrown, "stack") };
    } catch {
      return { __proto__: null, message: "a value that has no text", stack: "" };
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
  parts.isError = isError;
})(globalThis.__tollhouse);
