// Text of values for `console`, in the notation of Node.js, on one line: `{ a: 1, m: Map(1) { 'k' => [ 2 ] } }`.
//
// Runs no getter of the handler, only traps of proxies. Like 01_inspect.js, it never builds a text
// that is longer than any line.
"use strict";

((parts) => {
  const { define, isError } = parts;
  const P = parts.primordials;
  const { ArrayIsArray, FunctionPrototypeToString, JSONStringify, ObjectGetPrototypeOf, ObjectPrototype,
    ObjectPrototypeIsPrototypeOf, ReflectApply, ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys, SafeMap, String, StringPrototypeCharCodeAt, StringPrototypeIncludes, StringPrototypeSlice, StringPrototypeStartsWith,
    SymbolPrototypeToString, SymbolToStringTag, TypedArrayPrototypeGetSymbolToStringTag } = P;

  /** Maximum characters and values of a text, nesting depth, and items of a list, map or set. */
  const MAX_CHARACTERS = 64 << 10;
  const MAX_VALUES = 5_000;
  const MAX_DEPTH = 32;
  const MAX_ITEMS = 100;

  /** Maximum prototypes that are searched for a name, because a proxy can have infinitely many. */
  const MAX_PROTOTYPES = 16;

  const MORE = "\u2026";

  /** Returns one argument of the console as text: a string as it is, anything else by [inspect]. */
  function consoleText(value) {
    if (typeof value !== "string") return inspect(value);
    return value.length > MAX_CHARACTERS ? StringPrototypeSlice(value, 0, MAX_CHARACTERS) : value;
  }

  /** Returns any value as text. Objects below `depth` are named only. */
  function inspect(value, depth = MAX_DEPTH) {
    try {
      return write(value, { __proto__: null, room: MAX_CHARACTERS, nodes: MAX_VALUES, depth, open: [], circular: [] });
    } catch {
      return "[unprintable]";
    }
  }

  function write(value, state) {
    if (--state.nodes < 0 || state.room <= 0) return MORE;
    switch (typeof value) {
      case "string":
        return quoted(value, state);
      case "bigint":
        return spent(`${String(value)}n`, state);
      case "number":
        return value === 0 && 1 / value < 0 ? "-0" : String(value);
      case "symbol":
        return spent(SymbolPrototypeToString(value), state);
      case "undefined":
      case "boolean":
        return String(value);
    }
    if (value === null) return "null";
    const { open, circular } = state;
    for (let i = 0; i < open.length; i++) if (open[i] === value) return `[Circular *${numberOf(value, circular)}]`;
    if (open.length > state.depth) return isError(value) ? parts.errorTitle(value) : `[${nameOf(value) ?? "Object: null prototype"}]`;
    const depth = open.length;
    define(open, depth, value);
    let text;
    try {
      text = object(value, state);
    } catch {
      // A trap of the handler threw.
      text = "[unprintable]";
    }
    open.length = depth;
    for (let i = 0; i < circular.length; i++) if (circular[i] === value) return `<ref *${i + 1}> ${text}`;
    return text;
  }

  /** Returns the number of an object that contains itself, from 1. */
  function numberOf(value, circular) {
    for (let i = 0; i < circular.length; i++) if (circular[i] === value) return i + 1;
    define(circular, circular.length, value);
    return circular.length;
  }

  function spent(text, state) {
    state.room -= text.length;
    return text;
  }

  /**
   * Returns a string in quotes. Those that need escapes are JSON, and not as in Node.js, because the
   * host looks for secrets in their JSON form.
   */
  function quoted(text, state) {
    const shown = spent(text.length > state.room ? StringPrototypeSlice(text, 0, state.room) : text, state);
    const json = JSONStringify(shown);
    const isPlain = json.length === shown.length + 2 + count(shown, 0x22) && !StringPrototypeIncludes(shown, "'");
    return isPlain ? `'${shown}'` : json;
  }

  function count(text, code) {
    let found = 0;
    for (let i = 0; i < text.length; i++) if (StringPrototypeCharCodeAt(text, i) === code) found++;
    return found;
  }

  /** Returns a property name: a symbol in brackets, and anything but an identifier in quotes. */
  function key(name, state) {
    if (typeof name === "symbol") return spent(`[${SymbolPrototypeToString(name)}]`, state);
    return isIdentifier(name) ? spent(name, state) : quoted(name, state);
  }

  function isIdentifier(name) {
    for (let i = 0; i < name.length; i++) {
      const code = StringPrototypeCharCodeAt(name, i);
      const isLetter = (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a) || code === 0x5f || code === 0x24;
      if (!isLetter && (i === 0 || code < 0x30 || code > 0x39)) return false;
    }
    return name !== "";
  }

  /** Joins the parts of an object: `Name { a, b }`, `{}`. */
  function braces(prefix, items, opening = "{", closing = "}") {
    let text = prefix === "" ? opening : `${prefix} ${opening}`;
    for (let i = 0; i < items.length; i++) text += `${i === 0 ? " " : ", "}${items[i]}`;
    return items.length === 0 ? text + closing : `${text} ${closing}`;
  }

  const add = (items, text) => define(items, items.length, text);

  const isFull = (state) => state.nodes <= 0 || state.room <= 0;

  function object(value, state) {
    if (typeof value === "function") return named(functionName(value), value, state);
    if (ArrayIsArray(value)) return array(value, state);
    if (isError(value)) return errorText(value, state);
    const prototype = ObjectGetPrototypeOf(value);
    if (prototype !== ObjectPrototype && prototype !== null) {
      const text = special(value, state);
      if (text !== undefined) return text;
    }
    const items = [];
    properties(value, items, state);
    return braces(prefixOf(value), items);
  }

  /** Appends the enumerable properties of an object. */
  function properties(value, items, state, omits = undefined) {
    const keys = ReflectOwnKeys(value);
    for (let i = 0; i < keys.length; i++) {
      if (omits?.(keys[i])) continue;
      const held = ReflectGetOwnPropertyDescriptor(value, keys[i]);
      if (held === undefined || !held.enumerable) continue;
      if (isFull(state)) return add(items, MORE);
      add(items, `${key(keys[i], state)}: ${property(held, state)}`);
    }
  }

  function property(held, state) {
    if (held.get !== undefined) return held.set === undefined ? "[Getter]" : "[Getter/Setter]";
    return held.set === undefined ? write(held.value, state) : "[Setter]";
  }

  /** Returns a text that has properties only sometimes, for example that of a function. */
  function named(text, value, state) {
    const items = [];
    properties(value, items, state);
    return items.length === 0 ? text : braces(text, items);
  }

  function functionName(value) {
    const source = FunctionPrototypeToString(value);
    const name = dataOf(value, "name");
    const shown = typeof name === "string" && name !== "" ? StringPrototypeSlice(name, 0, MAX_ITEMS) : undefined;
    if (StringPrototypeStartsWith(source, "class")) {
      const parent = ObjectGetPrototypeOf(value);
      const base = typeof parent === "function" ? dataOf(parent, "name") : undefined;
      const extended = typeof base === "string" && base !== "" ? ` extends ${StringPrototypeSlice(base, 0, MAX_ITEMS)}` : "";
      return `[class ${shown ?? "(anonymous)"}${extended}]`;
    }
    const kind = dataOf(ObjectGetPrototypeOf(value) ?? value, SymbolToStringTag) ?? "Function";
    return shown === undefined ? `[${String(kind)} (anonymous)]` : `[${String(kind)}: ${shown}]`;
  }

  function array(value, state) {
    const items = [];
    const { length } = value;
    let holes = 0;
    const endHoles = () => {
      if (holes > 0) add(items, `<${holes} empty ${holes === 1 ? "item" : "items"}>`);
      holes = 0;
    };
    let i = 0;
    for (; i < length && i < MAX_ITEMS && !isFull(state); i++) {
      const held = ReflectGetOwnPropertyDescriptor(value, i);
      if (held === undefined) {
        holes++;
        continue;
      }
      endHoles();
      add(items, property(held, state));
    }
    endHoles();
    rest(items, length - i);
    const name = nameOf(value);
    return braces(name === "Array" ? "" : `${name ?? "[Array: null prototype]"}(${length})`, items, "[", "]");
  }

  function rest(items, count) {
    if (count > 0) add(items, `... ${count} more ${count === 1 ? "item" : "items"}`);
  }

  /** Returns name, message and stack, then the properties, then causes and errors on lines of their own. */
  function errorText(error, state) {
    const items = [];
    const keys = ReflectOwnKeys(error);
    for (let i = 0; i < keys.length; i++) {
      const name = keys[i];
      if (name === "name" || name === "message" || name === "stack" || name === "cause" || name === "errors") continue;
      const held = ReflectGetOwnPropertyDescriptor(error, name);
      if (held !== undefined && held.enumerable && !isFull(state)) add(items, `${key(name, state)}: ${property(held, state)}`);
    }
    const text = parts.fullStack(error);
    return spent(`${items.length === 0 ? text : braces(text, items)}${parts.reasonsOf(error, [error])}`, state);
  }

  /** Returns the text of an object with internal state, or undefined for other objects. */
  function special(value, state) {
    for (let i = 0; i < KINDS.length; i++) {
      const { prototype, prove, format } = KINDS[i];
      if (!ObjectPrototypeIsPrototypeOf(prototype, value)) continue;
      const held = proof(prove, value);
      if (held !== undefined) return format(value, state, held);
    }
    if (parts.isSearchParams(value)) return pairs("URLSearchParams", parts.searchRows(value), " => ", state);
    const rows = parts.headerList(value);
    if (rows !== undefined) return pairs("Headers", rows, ": ", state);
    const head = parts.responseHead(value);
    if (head !== undefined) return braces("Response", [`status: ${head.status}`, `headers: ${write(head.headers, state)}`]);
    const request = parts.requestHead(value);
    if (request !== undefined) return braces("Request", [`method: ${quoted(request.method, state)}`, `url: ${quoted(request.url, state)}`]);
    const getters = shapeOf(value);
    return getters === undefined ? undefined : interfaceText(getters, value, state);
  }

  /** Returns what `prove` reads of an object, or undefined if the object only has the prototype of the kind. */
  function proof(prove, value) {
    try {
      return prove(value);
    } catch {
      return undefined;
    }
  }

  const kind = (prototype, prove, format) => ({ __proto__: null, prototype, prove, format });

  const boxed = (name, prototype, valueOf) => kind(prototype, valueOf, (value, state, held) => `[${name}: ${write(held, state)}]`);

  const unknown = (name, prototype, has) => kind(prototype, (value) => has(value, {}), () => `${name} { <items unknown> }`);

  /**
   * Objects with internal state: their prototype, a function that reads the state and throws for other
   * objects, and one that returns their text.
   */
  const KINDS = [
    kind(P.MapPrototype, P.MapPrototypeGetSize, (value, state, size) => {
      const items = [];
      P.MapPrototypeForEach(value, (held, name) => {
        if (items.length < MAX_ITEMS && !isFull(state)) add(items, `${write(name, state)} => ${write(held, state)}`);
      });
      rest(items, size - items.length);
      return braces(`${nameOf(value)}(${size})`, items);
    }),
    kind(P.SetPrototype, P.SetPrototypeGetSize, (value, state, size) => {
      const items = [];
      P.SetPrototypeForEach(value, (held) => {
        if (items.length < MAX_ITEMS && !isFull(state)) add(items, write(held, state));
      });
      rest(items, size - items.length);
      return braces(`${nameOf(value)}(${size})`, items);
    }),
    kind(P.TypedArrayPrototype, TypedArrayPrototypeGetSymbolToStringTag, (value, state) => {
      const length = P.TypedArrayPrototypeGetLength(value);
      const items = [];
      for (let i = 0; i < length && i < MAX_ITEMS && !isFull(state); i++) add(items, write(value[i], state));
      rest(items, length - items.length);
      return braces(`${nameOf(value)}(${length})`, items, "[", "]");
    }),
    kind(P.ArrayBufferPrototype, P.ArrayBufferPrototypeGetByteLength, (value, _state, length) => {
      const bytes = new P.Uint8Array(value);
      let text = "";
      for (let i = 0; i < length && i < MAX_BYTES; i++) {
        text += `${i === 0 ? "" : " "}${bytes[i] < 16 ? "0" : ""}${P.NumberPrototypeToString(bytes[i], 16)}`;
      }
      if (length > MAX_BYTES) text += ` ... ${length - MAX_BYTES} more bytes`;
      return `ArrayBuffer { [Uint8Contents]: <${text}>, byteLength: ${length} }`;
    }),
    kind(P.DataViewPrototype, P.DataViewPrototypeGetByteLength, (value, state, length) => {
      const at = `byteLength: ${length}, byteOffset: ${P.DataViewPrototypeGetByteOffset(value)}`;
      return `DataView { ${at}, buffer: ${write(P.DataViewPrototypeGetBuffer(value), state)} }`;
    }),
    kind(P.DatePrototype, P.DatePrototypeGetTime, (value, state, time) =>
      named(P.NumberIsNaN(time) ? "Invalid Date" : P.DatePrototypeToISOString(value), value, state)),
    kind(P.RegExpPrototype, P.RegExpPrototypeGetSource, (value, state, source) =>
      named(spent(`/${source}/${P.RegExpPrototypeGetFlags(value)}`, state), value, state)),
    kind(P.PromisePrototype, () => true, (value) => `${nameOf(value)} {}`),
    unknown("WeakMap", P.WeakMapPrototype, P.WeakMapPrototypeHas),
    unknown("WeakSet", P.WeakSetPrototype, P.WeakSetPrototypeHas),
    boxed("Number", P.NumberPrototype, P.NumberPrototypeValueOf),
    boxed("String", P.StringPrototype, P.StringPrototypeValueOf),
    boxed("Boolean", P.BooleanPrototype, P.BooleanPrototypeValueOf),
    boxed("BigInt", P.BigIntPrototype, P.BigIntPrototypeValueOf),
    boxed("Symbol", P.SymbolPrototype, P.SymbolPrototypeValueOf),
  ];

  /** Maximum bytes of an ArrayBuffer that are shown. */
  const MAX_BYTES = 50;

  function pairs(name, rows, between, state) {
    const items = [];
    for (let i = 0; i < rows.length && i < MAX_ITEMS && !isFull(state); i++) {
      const shown = between === ": " ? key(rows[i][0], state) : quoted(rows[i][0], state);
      add(items, `${shown}${between}${quoted(rows[i][1], state)}`);
    }
    rest(items, rows.length - items.length);
    return braces(name, items);
  }

  /** Interfaces of the web by prototype: their names, and the getters of the attributes to show. */
  const shapes = new SafeMap();

  /** Sets the attributes that the console shows of the objects of an interface. */
  function showInterface(Class, names) {
    const getters = [];
    for (let i = 0; i < names.length; i++) {
      define(getters, i, { __proto__: null, name: names[i], get: getterOf(Class.prototype, names[i]) });
    }
    shapes.set(Class.prototype, getters);
  }

  /** Returns the getter of an attribute, which can be inherited. */
  function getterOf(prototype, name) {
    return ReflectGetOwnPropertyDescriptor(prototype, name)?.get ?? getterOf(ObjectGetPrototypeOf(prototype), name);
  }

  function shapeOf(value) {
    for (let holder = ObjectGetPrototypeOf(value), i = 0; holder !== null && i < MAX_PROTOTYPES; i++, holder = ObjectGetPrototypeOf(holder)) {
      const shape = shapes.get(holder);
      if (shape !== undefined) return shape;
    }
    return undefined;
  }

  function interfaceText(getters, value, state) {
    const items = [];
    for (let i = 0; i < getters.length; i++) {
      const held = proof((object) => [ReflectApply(getters[i].get, object, [])], value);
      if (held !== undefined) add(items, `${getters[i].name}: ${write(held[0], state)}`);
    }
    // The symbols are of `deno_web`.
    properties(value, items, state, (name) => name === "isTrusted" || typeof name === "symbol");
    return braces(prefixOf(value), items);
  }

  /** Returns the value of an own property that is not a getter. */
  const dataOf = (holder, name) => ReflectGetOwnPropertyDescriptor(holder, name)?.value;

  /** Returns the name of the class of an object, or undefined if it has none. */
  function nameOf(value) {
    for (let holder = value, i = 0; holder !== null && i < MAX_PROTOTYPES; i++, holder = ObjectGetPrototypeOf(holder)) {
      const maker = dataOf(holder, "constructor");
      const name = typeof maker === "function" ? dataOf(maker, "name") : undefined;
      if (typeof name === "string" && name !== "") return StringPrototypeSlice(name, 0, MAX_ITEMS);
    }
    return undefined;
  }

  /** Returns the name of a class, with the string tag if that differs. Empty for a plain object. */
  function prefixOf(value) {
    const name = nameOf(value);
    let tag = undefined;
    for (let holder = value, i = 0; tag === undefined && holder !== null && i < MAX_PROTOTYPES; i++, holder = ObjectGetPrototypeOf(holder)) {
      tag = dataOf(holder, SymbolToStringTag);
    }
    const shown = typeof tag === "string" && tag !== "" && tag !== name ? ` [${StringPrototypeSlice(tag, 0, MAX_ITEMS)}]` : "";
    if (name === "Object" && shown === "") return "";
    return `${name ?? "[Object: null prototype]"}${shown}`;
  }

  parts.inspect = inspect;
  parts.consoleText = consoleText;
  parts.showInterface = showInterface;
  parts.MAX_INSPECT_DEPTH = MAX_DEPTH;
})(globalThis.__tollhouse);
