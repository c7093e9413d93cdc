// `ctx.log` and `console`: each call adds one line to the call's log.
"use strict";

((parts) => {
  const { ops, define, describe, domString, isError, show } = parts;
  const { ArrayIsArray, Error, JSONStringify, MapPrototype, MapPrototypeForEach, MathTrunc, NumberParseFloat, NumberParseInt, ObjectFreeze,
    ObjectPrototypeIsPrototypeOf, ObjectSetPrototypeOf, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, SafeMap, String,
    StringPrototypeIndexOf, StringPrototypePadEnd, StringPrototypeRepeat, StringPrototypeSlice } = parts.primordials;

  const LEVELS = { __proto__: null, debug: 0, info: 1, warn: 2, error: 3 };

  /**
   * Joins the values of a line. The first is a format if it is a string with specifiers and other
   * values follow.
   */
  function join(values) {
    let line = "";
    let next = 0;
    if (values.length > 1 && typeof values[0] === "string") {
      const rest = formatted(values);
      line = rest.text;
      next = rest.used;
      if (next === values.length) return line;
    } else if (values.length > 0) {
      line = parts.consoleText(values[0]);
      next = 1;
    }
    for (let i = next; i < values.length; i++) line = `${line} ${parts.consoleText(values[i])}`;
    return line;
  }

  /**
   * Formats values as the Console standard says: `%s`, `%d`, `%i`, `%f`, `%o`, `%O`, and `%c`,
   * which has no effect.
   */
  function formatted(values) {
    const format = values[0];
    let text = "";
    let from = 0;
    let used = 1;
    for (let i = 0; i + 1 < format.length; i++) {
      if (format[i] !== "%") continue;
      const kind = format[i + 1];
      let shown;
      if (kind === "%") shown = "%";
      else if (used >= values.length) continue;
      else if (kind === "s") shown = parts.consoleText(values[used++]);
      else if (kind === "d" || kind === "i") shown = number(NumberParseInt, values[used++]);
      else if (kind === "f") shown = number(NumberParseFloat, values[used++]);
      else if (kind === "o" || kind === "O") shown = parts.inspect(values[used++]);
      else if (kind === "c") {
        shown = "";
        used++;
      } else continue;
      text += `${StringPrototypeSlice(format, from, i)}${shown}`;
      i++;
      from = i + 1;
    }
    return { __proto__: null, text: `${text}${StringPrototypeSlice(format, from)}`, used };
  }

  function number(read, value) {
    try {
      return typeof value === "symbol" ? "NaN" : String(read(value, 10));
    } catch {
      return "NaN";
    }
  }

  /** The open groups of the running call. */
  let groups = 0;

  /** Maximum levels by which lines are indented. */
  const MAX_GROUPS = 10;

  /** Returns a text with another text in place of each line end. */
  function withLineEnds(text, instead) {
    let changed = "";
    let from = 0;
    for (;;) {
      const at = StringPrototypeIndexOf(text, "\n", from);
      if (at === -1) return changed + StringPrototypeSlice(text, from);
      changed += `${StringPrototypeSlice(text, from, at)}${instead}`;
      from = at + 1;
    }
  }

  /** Adds a line of the console, indented by two spaces for each open group. */
  function line(level, text) {
    let shown = text;
    if (groups > 0) {
      const indent = StringPrototypeRepeat("  ", groups < MAX_GROUPS ? groups : MAX_GROUPS);
      shown = `${indent}${withLineEnds(text, `\n${indent}`)}`;
    }
    ops.op_log(level, shown, "");
  }

  /** Returns the fields of a message as the text of a JSON object. */
  function fieldsText(fields) {
    if (fields === undefined) return "";
    if (isError(fields)) return parts.jsonOf({ __proto__: null, error: fields });
    if (fields !== null && typeof fields === "object" && !ArrayIsArray(fields)) {
      const text = parts.jsonOf(fields);
      if (text[0] === "{") return text;
    }
    return JSONStringify({ __proto__: null, value: show(fields) });
  }

  /**
   * Implements `ctx.log.<level>(message, fields?)`. Further arguments are appended to the message.
   */
  function logLine(call, level) {
    return (message, fields, ...others) => {
      parts.requireRunning(call);
      let text = show(message);
      for (let i = 0; i < others.length; i++) text = `${text} ${show(others[i])}`;
      ops.op_log(level, text, fieldsText(fields));
    };
  }

  function logOf(call) {
    const log = logLine(call, LEVELS.info);
    log.debug = logLine(call, LEVELS.debug);
    log.info = logLine(call, LEVELS.info);
    log.warn = logLine(call, LEVELS.warn);
    log.error = logLine(call, LEVELS.error);
    return ObjectFreeze(log);
  }

  /** Maximum labels of `console.count`, and of `console.time`. */
  const MAX_LABELS = 100;
  const counts = new SafeMap();
  const timers = new SafeMap();

  /** Logs the elapsed time of a `console.time` timer, with additional values. */
  function logTime(name, values) {
    if (!timers.has(name)) return;
    const elapsed = `${name}: ${parts.clock.now() - timers.get(name)} ms`;
    line(LEVELS.info, values.length === 0 ? elapsed : `${elapsed} ${join(values)}`);
  }

  function openGroup(values) {
    if (values.length > 0) line(LEVELS.info, join(values));
    groups++;
  }

  /** Returns the depth for `inspect` from the options of `console.dir`. */
  function depthOf(options) {
    const depth = options === null || typeof options !== "object" ? undefined : options.depth;
    return typeof depth === "number" && depth >= 0 && depth < parts.MAX_INSPECT_DEPTH ? MathTrunc(depth) : parts.MAX_INSPECT_DEPTH;
  }

  /** Maximum rows and columns of a table, and characters of a cell. */
  const MAX_ROWS = 50;
  const MAX_COLUMNS = 10;
  const MAX_CELL = 60;

  /** Returns a value as the text of one cell. */
  function cell(value) {
    const text = withLineEnds(parts.inspect(value, 0), " ");
    return text.length > MAX_CELL ? `${StringPrototypeSlice(text, 0, MAX_CELL - 1)}\u2026` : text;
  }

  /** Returns the rows of a table as { name, value }. */
  function tableRows(data) {
    const rows = [];
    const add = (name, value) => rows.length < MAX_ROWS && define(rows, rows.length, { __proto__: null, name, value });
    if (ObjectPrototypeIsPrototypeOf(MapPrototype, data)) {
      MapPrototypeForEach(data, (held, key) => add(cell(key), held));
    } else if (ArrayIsArray(data)) {
      for (let i = 0; i < data.length && i < MAX_ROWS; i++) add(String(i), ReflectGetOwnPropertyDescriptor(data, i)?.value);
    } else {
      enumerable(data, MAX_ROWS, add);
    }
    return rows;
  }

  /** Calls `visit` with name and value of the first enumerable properties of an object. Getters have no value. */
  function enumerable(object, limit, visit) {
    const keys = ReflectOwnKeys(object);
    for (let i = 0, count = 0; i < keys.length && count < limit; i++) {
      const held = ReflectGetOwnPropertyDescriptor(object, keys[i]);
      if (typeof keys[i] !== "string" || !held?.enumerable) continue;
      count++;
      visit(keys[i], held.value);
    }
  }

  const isObject = (value) => value !== null && typeof value === "object";

  /** Returns a table with a row for each property of an object, and a column for each property of its values. */
  function table(data, columns) {
    const rows = tableRows(data);
    const names = [];
    const indexes = new SafeMap();
    const column = (name) => {
      if (indexes.has(name) || names.length >= MAX_COLUMNS) return;
      indexes.set(name, names.length);
      define(names, names.length, name);
    };
    let hasValues = false;
    if (ArrayIsArray(columns)) for (let i = 0; i < columns.length && i < MAX_COLUMNS; i++) column(String(columns[i]));
    for (let i = 0; i < rows.length; i++) {
      if (!isObject(rows[i].value)) hasValues = true;
      else if (columns === undefined) enumerable(rows[i].value, MAX_COLUMNS, column);
    }
    const heads = ["(index)"];
    for (let i = 0; i < names.length; i++) define(heads, i + 1, StringPrototypeSlice(names[i], 0, MAX_CELL));
    if (hasValues) define(heads, heads.length, "Values");
    const lines = [heads];
    for (let i = 0; i < rows.length; i++) {
      const { name, value } = rows[i];
      const cells = [StringPrototypeSlice(name, 0, MAX_CELL)];
      for (let k = 0; k < names.length; k++) {
        const held = isObject(value) ? ReflectGetOwnPropertyDescriptor(value, names[k]) : undefined;
        define(cells, k + 1, held === undefined ? "" : cell(held.value));
      }
      if (hasValues) define(cells, cells.length, isObject(value) ? "" : cell(value));
      define(lines, lines.length, cells);
    }
    return drawn(lines);
  }

  /** Draws the lines of a table, the first of which is its head. */
  function drawn(lines) {
    const widths = [];
    for (let i = 0; i < lines.length; i++) {
      for (let k = 0; k < lines[i].length; k++) {
        if (widths[k] === undefined || lines[i][k].length > widths[k]) define(widths, k, lines[i][k].length);
      }
    }
    const row = (cells, left, between, right, fill) => {
      let text = left;
      for (let k = 0; k < widths.length; k++) {
        text += `${k === 0 ? "" : between}${fill}${StringPrototypePadEnd(cells?.[k] ?? "", widths[k], fill)}${fill}`;
      }
      return text + right;
    };
    let text = `${row(undefined, "\u250c", "\u252c", "\u2510", "\u2500")}\n${row(lines[0], "\u2502", "\u2502", "\u2502", " ")}`;
    text += `\n${row(undefined, "\u251c", "\u253c", "\u2524", "\u2500")}`;
    for (let i = 1; i < lines.length; i++) text += `\n${row(lines[i], "\u2502", "\u2502", "\u2502", " ")}`;
    return `${text}\n${row(undefined, "\u2514", "\u2534", "\u2518", "\u2500")}`;
  }

  /** Returns the text of `console.table`: a value that is not an object is shown as by `console.log`. */
  function tableText(data, columns) {
    try {
      return isObject(data) ? table(data, columns) : parts.consoleText(data);
    } catch {
      return parts.inspect(data);
    }
  }

  // In the order of the Console standard.
  const console = {
    assert(holds = false, ...values) {
      if (!holds) line(LEVELS.error, values.length === 0 ? "assertion failed" : `assertion failed: ${join(values)}`);
    },
    clear() {
      groups = 0;
    },
    debug(...values) {
      line(LEVELS.debug, join(values));
    },
    error(...values) {
      line(LEVELS.error, join(values));
    },
    info(...values) {
      line(LEVELS.info, join(values));
    },
    log(...values) {
      line(LEVELS.info, join(values));
    },
    table(data = undefined, columns = undefined) {
      line(LEVELS.info, tableText(data, columns));
    },
    trace(...values) {
      line(LEVELS.debug, `${join(values)}\n${describe(new Error()).stack}`);
    },
    warn(...values) {
      line(LEVELS.warn, join(values));
    },
    dir(value = undefined, options = undefined) {
      line(LEVELS.info, parts.inspect(value, depthOf(options)));
    },
    dirxml(...values) {
      line(LEVELS.info, join(values));
    },
    count(label = "default") {
      const name = domString(label);
      const count = (counts.get(name) ?? 0) + 1;
      if (counts.size < MAX_LABELS || counts.has(name)) counts.set(name, count);
      line(LEVELS.info, `${name}: ${count}`);
    },
    countReset(label = "default") {
      counts.delete(domString(label));
    },
    group(...values) {
      openGroup(values);
    },
    groupCollapsed(...values) {
      openGroup(values);
    },
    groupEnd() {
      if (groups > 0) groups--;
    },
    time(label = "default") {
      const name = domString(label);
      if (timers.size < MAX_LABELS || timers.has(name)) timers.set(name, parts.clock.now());
    },
    timeLog(label = "default", ...values) {
      logTime(domString(label), values);
    },
    timeEnd(label = "default") {
      const name = domString(label);
      logTime(name, []);
      timers.delete(name);
    },
    timeStamp() {},
    profile() {},
    profileEnd() {},
  };
  // A namespace has a prototype of its own.
  ObjectSetPrototypeOf(console, {});
  parts.tag(console, "console");

  /** Closes the groups of the previous call. */
  parts.closeGroups = () => {
    groups = 0;
  };
  parts.defineMember("log", logOf);
  parts.defineGlobal("console", console);
})(globalThis.__tollhouse);
