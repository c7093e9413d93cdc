// performance and navigator. The clock of `performance` is that of `Date`, which stands still while a
// handler computes.
"use strict";

((parts) => {
  const { DOMException, clock, construct, define, defineGlobal, defineInterface, dictionary, domString, finite, refuseConstruction } = parts;
  const { ObjectFreeze } = parts.primordials;

  /** Maximum stored marks and measures of a call. The next one replaces all of them. */
  const MAX_ENTRIES = 1_000;
  let entries = [];

  function record(name, entryType, startTime, duration, detail) {
    const entry = ObjectFreeze({ name, entryType, startTime, duration, detail });
    if (entries.length >= MAX_ENTRIES) entries = [];
    define(entries, entries.length, entry);
    return entry;
  }

  function filterEntries(matches) {
    const found = [];
    for (let i = 0; i < entries.length; i++) if (matches(entries[i])) define(found, found.length, entries[i]);
    return found;
  }

  const now = () => clock.now() - clock.origin();

  /** Returns a time for `measure`: the last mark with a name, or a number. */
  function timeOf(given, otherwise) {
    if (given === undefined) return otherwise;
    if (typeof given === "number") return finite(given, "a time");
    const name = domString(given);
    for (let i = entries.length - 1; i >= 0; i--) {
      if (entries[i].entryType === "mark" && entries[i].name === name) return entries[i].startTime;
    }
    throw new DOMException(`there is no mark \`${name}\``, "SyntaxError");
  }

  class Performance extends parts.globals.EventTarget {
    #own;
    constructor() {
      refuseConstruction(arguments[0], "use `performance`");
      super();
    }
    get timeOrigin() {
      this.#own;
      return clock.origin();
    }
    now() {
      this.#own;
      return now();
    }
    toJSON() {
      this.#own;
      return { timeOrigin: clock.origin() };
    }
    mark(name, options = undefined) {
      this.#own;
      const text = domString(name);
      const { detail, startTime } = dictionary(options, "performance.mark");
      return record(text, "mark", startTime === undefined ? now() : finite(startTime, "`startTime`"), 0, detail ?? null);
    }
    measure(name, from = undefined, to = undefined) {
      this.#own;
      const text = domString(name);
      const { start, end, detail } = from !== null && typeof from === "object" ? from : { __proto__: null, start: from, end: to };
      const startTime = timeOf(start, 0);
      return record(text, "measure", startTime, timeOf(end, now()) - startTime, detail ?? null);
    }
    clearMarks(name = undefined) {
      this.#own;
      clear("mark", name);
    }
    clearMeasures(name = undefined) {
      this.#own;
      clear("measure", name);
    }
    getEntries() {
      this.#own;
      return filterEntries(() => true);
    }
    getEntriesByName(name, type = undefined) {
      this.#own;
      const wanted = domString(name);
      const entryType = type === undefined ? undefined : domString(type);
      return filterEntries((entry) => entry.name === wanted && (entryType === undefined || entry.entryType === entryType));
    }
    getEntriesByType(type) {
      this.#own;
      const wanted = domString(type);
      return filterEntries((entry) => entry.entryType === wanted);
    }
  }

  function clear(entryType, name) {
    const removed = name === undefined ? undefined : domString(name);
    entries = filterEntries((entry) => entry.entryType !== entryType || (removed !== undefined && entry.name !== removed));
  }

  class Navigator {
    #own;
    constructor() {
      refuseConstruction(arguments[0], "use `navigator`");
    }
    get userAgent() {
      this.#own;
      return "Tollhouse";
    }
    get platform() {
      this.#own;
      return "Linux";
    }
  }

  /** Removes the marks and measures of the previous call. */
  parts.forgetEntries = () => {
    if (entries.length !== 0) entries = [];
  };
  defineInterface(Performance, { shown: ["timeOrigin"] });
  defineInterface(Navigator, { shown: ["platform", "userAgent"] });
  defineGlobal("performance", construct(Performance));
  defineGlobal("navigator", construct(Navigator));
})(globalThis.__tollhouse);
