// `ctx.log` and `console`: one line each to the call's log.
"use strict";

((parts) => {
  const { ops, describe, isError } = parts;
  const { ArrayIsArray, JSONStringify, MapPrototype, ObjectPrototypeIsPrototypeOf, SetPrototype, String, SafeMap } =
    parts.primordials;
  const { Error, MapPrototypeForEach, SetPrototypeForEach } = parts.primordials;

  const LEVELS = { __proto__: null, debug: 0, info: 1, warn: 2, error: 3 };

  /** One argument as text, much as a console shows it: strings bare, the rest as JSON. */
  function show(value) {
    try {
      if (typeof value === "string") return value;
      if (typeof value === "bigint") return `${String(value)}n`;
      if (typeof value === "function") return "[function]";
      if (value === null || typeof value !== "object") return String(value);
      if (isError(value)) {
        const { message, stack } = describe(value);
        return stack === "" ? message : stack;
      }
      if (ObjectPrototypeIsPrototypeOf(MapPrototype, value)) {
        const rows = [];
        MapPrototypeForEach(value, (held, key) => parts.define(rows, rows.length, [key, held]));
        return `Map ${text(rows)}`;
      }
      if (ObjectPrototypeIsPrototypeOf(SetPrototype, value)) {
        const rows = [];
        SetPrototypeForEach(value, (held) => parts.define(rows, rows.length, held));
        return `Set ${text(rows)}`;
      }
      return text(value);
    } catch {
      return "[unprintable]";
    }
  }

  /** JSON text with what JSON cannot say shown in words. */
  function text(value) {
    const open = [];
    const json = JSONStringify(value, function (_key, held) {
      if (typeof held === "bigint") return `${String(held)}n`;
      if (typeof held === "function") return "[function]";
      if (typeof held === "symbol") return String(held);
      if (held !== null && typeof held === "object") {
        while (open.length > 0 && open[open.length - 1] !== this) open.length--;
        for (let i = 0; i < open.length; i++) if (open[i] === held) return "[circular]";
        parts.define(open, open.length, held);
      }
      return held;
    });
    return typeof json === "string" ? json : String(json);
  }

  function join(values) {
    let line = "";
    for (let i = 0; i < values.length; i++) line = i === 0 ? show(values[i]) : `${line} ${show(values[i])}`;
    return line;
  }

  function consoleLine(level) {
    return (...values) => {
      ops.op_log(level, join(values), "");
    };
  }

  /** `ctx.log.<level>(message, fields?)`. */
  function logLine(level) {
    return (message, fields) => {
      let rest = "";
      if (fields !== null && typeof fields === "object" && !ArrayIsArray(fields) && !isError(fields)) rest = show(fields);
      else if (fields !== undefined) rest = JSONStringify({ __proto__: null, value: show(fields) });
      ops.op_log(level, show(message), rest);
    };
  }

  const log = (message, fields) => log.info(message, fields);
  log.debug = logLine(LEVELS.debug);
  log.info = logLine(LEVELS.info);
  log.warn = logLine(LEVELS.warn);
  log.error = logLine(LEVELS.error);

  /** Labels of `console.count` that are kept, and as many of `console.time`. */
  const LABELS = 100;
  const counts = new SafeMap();
  const timers = new SafeMap();
  const silent = () => {};
  const console = {
    debug: consoleLine(LEVELS.debug),
    log: consoleLine(LEVELS.info),
    info: consoleLine(LEVELS.info),
    dir: consoleLine(LEVELS.info),
    table: consoleLine(LEVELS.info),
    group: consoleLine(LEVELS.info),
    groupCollapsed: consoleLine(LEVELS.info),
    groupEnd: silent,
    clear: silent,
    warn: consoleLine(LEVELS.warn),
    error: consoleLine(LEVELS.error),
    trace: (...values) => {
      ops.op_log(LEVELS.debug, `${join(values)}\n${describe(new Error()).stack}`, "");
    },
    assert: (holds, ...values) => {
      if (!holds) ops.op_log(LEVELS.error, values.length === 0 ? "assertion failed" : `assertion failed: ${join(values)}`, "");
    },
    count: (label = "default") => {
      const name = String(label);
      const count = (counts.get(name) ?? 0) + 1;
      if (counts.size < LABELS || counts.has(name)) counts.set(name, count);
      ops.op_log(LEVELS.info, `${name}: ${count}`, "");
    },
    countReset: (label = "default") => {
      counts.delete(String(label));
    },
    time: (label = "default") => {
      if (timers.size < LABELS) timers.set(String(label), parts.clock.now());
    },
    timeEnd: (label = "default") => {
      const name = String(label);
      if (!timers.has(name)) return;
      ops.op_log(LEVELS.info, `${name}: ${parts.clock.now() - timers.get(name)} ms`, "");
      timers.delete(name);
    },
  };

  parts.give("log", parts.freeze(log));
  parts.offer("console", console);
})(globalThis.__tollhouse);
