// `ctx.log` and `console`: each call adds one line to the call's log.
"use strict";

((parts) => {
  const { ops, describe, isError, show } = parts;
  const { ArrayIsArray, Error, JSONStringify, NumberParseFloat, NumberParseInt, ObjectFreeze, SafeMap, String, StringPrototypeSlice } =
    parts.primordials;

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
      line = show(values[0]);
      next = 1;
    }
    for (let i = next; i < values.length; i++) line = `${line} ${show(values[i])}`;
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
      else if (kind === "s") shown = show(values[used++]);
      else if (kind === "d" || kind === "i") shown = number(NumberParseInt, values[used++]);
      else if (kind === "f") shown = number(NumberParseFloat, values[used++]);
      else if (kind === "o" || kind === "O") shown = quoted(values[used++]);
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

  const quoted = (value) => (typeof value === "string" ? JSONStringify(value) : show(value));

  function line(level, text) {
    ops.op_log(level, text, "");
  }

  function consoleLine(level) {
    return (...values) => line(level, join(values));
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
  const ignore = () => {};

  /** Logs the elapsed time of a `console.time` timer, with additional values. */
  function logTime(name, values) {
    if (!timers.has(name)) return;
    const elapsed = `${name}: ${parts.clock.now() - timers.get(name)} ms`;
    line(LEVELS.info, values.length === 0 ? elapsed : `${elapsed} ${join(values)}`);
  }

  const console = {
    debug: consoleLine(LEVELS.debug),
    log: consoleLine(LEVELS.info),
    info: consoleLine(LEVELS.info),
    /** The options only affect formatting, and are ignored. */
    dir: (value, _options) => line(LEVELS.info, show(value)),
    dirxml: consoleLine(LEVELS.info),
    table: (data, _columns) => line(LEVELS.info, show(data)),
    group: consoleLine(LEVELS.info),
    groupCollapsed: consoleLine(LEVELS.info),
    groupEnd: ignore,
    clear: ignore,
    warn: consoleLine(LEVELS.warn),
    error: consoleLine(LEVELS.error),
    trace: (...values) => line(LEVELS.debug, `${join(values)}\n${describe(new Error()).stack}`),
    assert: (holds, ...values) => {
      if (!holds) line(LEVELS.error, values.length === 0 ? "assertion failed" : `assertion failed: ${join(values)}`);
    },
    count: (label = "default") => {
      const name = String(label);
      const count = (counts.get(name) ?? 0) + 1;
      if (counts.size < MAX_LABELS || counts.has(name)) counts.set(name, count);
      line(LEVELS.info, `${name}: ${count}`);
    },
    countReset: (label = "default") => {
      counts.delete(String(label));
    },
    time: (label = "default") => {
      if (timers.size < MAX_LABELS) timers.set(String(label), parts.clock.now());
    },
    timeLog: (label = "default", ...values) => logTime(String(label), values),
    timeEnd: (label = "default") => {
      const name = String(label);
      logTime(name, []);
      timers.delete(name);
    },
    timeStamp: ignore,
    profile: ignore,
    profileEnd: ignore,
  };
  parts.tag(console, "console");

  parts.defineMember("log", logOf);
  parts.defineGlobal("console", console);
})(globalThis.__tollhouse);
