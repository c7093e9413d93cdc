// Text of values for logs: JSON, with descriptions for values that JSON cannot represent. Also
// finds the parts of a result that JSON loses.
//
// A log line has limits, so the text ends once it is longer than any line. The full text is never
// built.
"use strict";

((parts) => {
  const { define, describe, explainError, isError } = parts;
  const P = parts.primordials;
  const { ArrayBufferPrototype, ArrayIsArray, DatePrototype, JSONStringify, MapPrototype, MapPrototypeForEach, ObjectGetPrototypeOf,
    ObjectKeys, ObjectPrototype,
    ObjectPrototypeIsPrototypeOf, PromisePrototype, ReflectGetOwnPropertyDescriptor, RegExpPrototype, SetPrototype, SetPrototypeForEach, String,
    StringPrototypeSlice, TypedArrayPrototypeGetSymbolToStringTag } = P;

  /** Maximum characters and values of a text, and maximum nesting depth. */
  const MAX_CHARACTERS = 64 << 10;
  const MAX_VALUES = 5_000;
  const MAX_DEPTH = 32;

  /** Maximum items of a typed array that are shown. */
  const MAX_ITEMS = 100;

  const MORE = '"\u2026"';

  /**
   * Returns one argument as text, similar to a console: strings as they are, anything else as JSON.
   */
  function show(value) {
    try {
      if (typeof value === "string") return value.length > MAX_CHARACTERS ? StringPrototypeSlice(value, 0, MAX_CHARACTERS) : value;
      if (typeof value === "bigint") return `${String(value)}n`;
      if (typeof value === "function") return "[function]";
      if (value === null || typeof value !== "object") return String(value);
      if (isError(value)) return explainError(value);
      const state = newState();
      define(state.open, 0, value);
      const kind = kindOf(value);
      if (kind === undefined) return object(value, state);
      return kind.name === undefined ? kind.text : `${kind.name} ${kind.text ?? write(kind.value, state)}`;
    } catch {
      return "[unprintable]";
    }
  }

  /** Returns any value as JSON text. */
  function jsonOf(value) {
    try {
      return write(value, newState()) ?? "null";
    } catch {
      return '"[unprintable]"';
    }
  }

  const newState = () => ({ __proto__: null, room: MAX_CHARACTERS, nodes: MAX_VALUES, open: [] });

  /** Returns `value` as JSON, or undefined if JSON has no representation. */
  function write(value, state) {
    if (typeof value === "undefined") return undefined;
    if (--state.nodes < 0 || state.room <= 0) return MORE;
    switch (typeof value) {
      case "string":
        return string(value, state);
      case "number":
        return value - value === 0 ? String(value) : `"${String(value)}"`;
      case "boolean":
        return value ? "true" : "false";
      case "bigint":
        return `"${String(value)}n"`;
      case "symbol":
        return string(String(value), state);
      case "function":
        return '"[function]"';
    }
    if (value === null) return "null";
    const { open } = state;
    for (let i = 0; i < open.length; i++) if (open[i] === value) return '"[circular]"';
    if (open.length >= MAX_DEPTH) return MORE;
    define(open, open.length, value);
    let text;
    if (isError(value)) text = error(value, state);
    else {
      const kind = kindOf(value);
      if (kind === undefined) text = object(value, state);
      else if (kind.name === undefined) text = string(kind.text, state);
      else text = `{"${kind.name}":${kind.text === undefined ? write(kind.value, state) : string(kind.text, state)}}`;
    }
    open.length--;
    return text;
  }

  function string(text, state) {
    const shown = text.length > state.room ? StringPrototypeSlice(text, 0, state.room) : text;
    state.room -= shown.length;
    return JSONStringify(shown);
  }

  function object(value, state) {
    if (typeof value.toJSON === "function") return write(value.toJSON(), state) ?? "null";
    if (ArrayIsArray(value)) return list(value, value.length, state);
    return `{${members(value, ObjectKeys(value), state)}}`;
  }

  function list(values, length, state) {
    let text = "";
    for (let i = 0; i < length; i++) {
      if (state.nodes <= 0 || state.room <= 0) return `[${text}${i === 0 ? "" : ","}${MORE}]`;
      text += `${i === 0 ? "" : ","}${write(values[i], state) ?? "null"}`;
      if (values[i] === undefined) state.nodes--;
    }
    return `[${text}]`;
  }

  function members(value, names, state) {
    let text = "";
    for (let i = 0; i < names.length && state.nodes > 0 && state.room > 0; i++) {
      const name = string(names[i], state);
      const held = write(value[names[i]], state);
      if (held !== undefined) text += `${text === "" ? "" : ","}${name}:${held}`;
      else state.nodes--;
    }
    return text;
  }

  /** Returns an error as JSON: name, message, stack and additional properties. */
  function error(value, state) {
    const about = { __proto__: null, name: value.name, message: value.message, stack: describe(value).stack };
    let text = members(about, ObjectKeys(about), state);
    const own = members(value, ObjectKeys(value), state);
    if (own !== "") text += `,${own}`;
    return `{${text}${hiddenMember(value, "cause", state)}${hiddenMember(value, "errors", state)}}`;
  }

  /**
   * Returns a non-enumerable property as a member of JSON text. The language makes the cause of an
   * error non-enumerable.
   */
  function hiddenMember(value, name, state) {
    const held = ReflectGetOwnPropertyDescriptor(value, name);
    const shown = held === undefined || held.enumerable ? undefined : write(held.value, state);
    return shown === undefined ? "" : `,"${name}":${shown}`;
  }

  const isInstance = (prototype, value) => ObjectPrototypeIsPrototypeOf(prototype, value);

  /**
   * Describes an object that JSON does not represent: its kind, with a text or value that shows the
   * content. Without a kind name, the content alone is enough.
   */
  function kindOf(value) {
    try {
      if (isInstance(MapPrototype, value)) {
        const rows = [];
        MapPrototypeForEach(value, (held, key) => rows.length < MAX_VALUES && define(rows, rows.length, [key, held]));
        return { __proto__: null, name: "Map", value: rows };
      }
      if (isInstance(SetPrototype, value)) {
        const rows = [];
        SetPrototypeForEach(value, (held) => rows.length < MAX_VALUES && define(rows, rows.length, held));
        return { __proto__: null, name: "Set", value: rows };
      }
      if (isInstance(RegExpPrototype, value)) return { __proto__: null, text: `/${P.RegExpPrototypeGetSource(value)}/${P.RegExpPrototypeGetFlags(value)}` };
      if (isInstance(DatePrototype, value) && P.NumberIsNaN(P.DatePrototypeGetTime(value))) return { __proto__: null, text: "Invalid Date" };
      if (isInstance(PromisePrototype, value)) return { __proto__: null, text: "[promise]" };
      if (parts.isSearchParams(value)) return { __proto__: null, name: "URLSearchParams", text: parts.searchText(value) };
      const rows = parts.headerList(value);
      if (rows !== undefined) return { __proto__: null, name: "Headers", value: rows };
      const response = parts.responseHead(value);
      if (response !== undefined) return { __proto__: null, name: "Response", value: response };
      const request = parts.requestHead(value);
      if (request !== undefined) return { __proto__: null, name: "Request", value: request };
      const name = TypedArrayPrototypeGetSymbolToStringTag(value);
      if (name !== undefined) {
        const items = [];
        const length = P.TypedArrayPrototypeGetLength(value);
        for (let i = 0; i < length && i < MAX_ITEMS; i++) define(items, i, value[i]);
        if (length > MAX_ITEMS) define(items, MAX_ITEMS, `${length - MAX_ITEMS} more`);
        return { __proto__: null, name, value: items };
      }
      if (isInstance(ArrayBufferPrototype, value)) return { __proto__: null, name: "ArrayBuffer", text: `${P.ArrayBufferPrototypeGetByteLength(value)} bytes` };
    } catch {
      // The object only has the prototype of this kind.
    }
    return undefined;
  }

  /** Maximum values of a result that are checked, and maximum lost parts that are named. */
  const MAX_CHECKED = 2_000;
  const MAX_NAMED = 5;

  /**
   * Describes the parts of a result that its JSON loses. Empty if there are none. Does not run
   * getters: the result was already read once, and a second reading could differ.
   */
  function lostParts(value) {
    const found = [];
    const state = { __proto__: null, left: MAX_CHECKED };
    try {
      findLost(value, "", 0, found, state);
    } catch {
      // A trap of the handler threw. Report what was found before.
    }
    let text = "";
    for (let i = 0; i < found.length && i < MAX_NAMED; i++) text += `${i === 0 ? "" : "; "}${found[i]}`;
    return found.length > MAX_NAMED ? `${text}; and ${found.length - MAX_NAMED} more` : text;
  }

  function findLost(value, path, depth, found, state) {
    if (depth > MAX_DEPTH) return;
    const note = (what) => define(found, found.length, `${path === "" ? "the result" : `\`${path}\``} ${what}`);
    if (typeof value === "number") {
      if (value - value !== 0) note(`is ${String(value)}, and becomes null`);
      return;
    }
    if (typeof value === "function" || typeof value === "symbol") return note(`is a ${typeof value}, and is omitted`);
    if (value === null || typeof value !== "object") return;
    const isList = ArrayIsArray(value);
    if (!isList && ObjectGetPrototypeOf(value) !== ObjectPrototype) {
      const what = special(value);
      if (what === "itself") return;
      if (what !== undefined) return note(what);
    }
    // The indexes of a long list are not converted to names.
    const names = isList ? undefined : ObjectKeys(value);
    const count = isList ? value.length : names.length;
    for (let i = 0; i < count && state.left-- > 0; i++) {
      const name = isList ? i : names[i];
      const held = dataOf(value, name);
      // Deliberate: code uses `undefined` for absent values.
      if (held === undefined) continue;
      if (name === "toJSON" && typeof held === "function") return;
      if (typeof held === "string" || typeof held === "boolean") continue;
      findLost(held, isList ? `${path}[${name}]` : path === "" ? name : `${path}.${name}`, depth + 1, found, state);
    }
  }

  /**
   * Describes an object that is not a plain one. Returns `itself` if it defines its own JSON,
   * undefined if it can be treated as plain.
   */
  function special(value) {
    if (isInstance(DatePrototype, value)) {
      return P.NumberIsNaN(P.DatePrototypeGetTime(value)) ? "is an invalid Date, and becomes null" : "itself";
    }
    if (hasOwnJson(value)) return "itself";
    if (isError(value)) return "is an error, whose name and message JSON leaves out";
    const kind = kindOf(value);
    if (kind === undefined) return undefined;
    if (TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined) return `is a ${kind.name}, and becomes an object`;
    return `is a ${kind.name ?? (isInstance(PromisePrototype, value) ? "Promise without an await" : "RegExp")}, and becomes {}`;
  }

  /** Returns the value of an own property that is not a getter. */
  const dataOf = (object, name) => ReflectGetOwnPropertyDescriptor(object, name)?.value;

  /** Returns whether an object defines its own JSON. */
  function hasOwnJson(object) {
    for (let holder = object; holder !== null; holder = ObjectGetPrototypeOf(holder)) {
      const held = ReflectGetOwnPropertyDescriptor(holder, "toJSON");
      if (held !== undefined) return typeof held.value === "function" || held.get !== undefined;
    }
    return false;
  }

  parts.show = show;
  parts.jsonOf = jsonOf;
  parts.lostParts = lostParts;
})(globalThis.__tollhouse);
