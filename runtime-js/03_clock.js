// The clock stands still while a handler computes: `Date.now()` returns the start of the call, and
// advances only when an op is answered. So a handler cannot measure the duration of its own
// instructions.
"use strict";

((parts) => {
  const { define } = parts;
  const { Date, DatePrototype, DatePrototypeToString, ObjectDefineProperty, ObjectFreeze, ReflectApply, ReflectConstruct,
    ReflectGetOwnPropertyDescriptor, String, DateParse, DateUTC } = parts.primordials;

  let nowMs = 0;
  let startMs = 0;

  const clock = {
    __proto__: null,
    now: () => nowMs,
    /** Begins a call. */
    start: (ms) => {
      nowMs = ms;
      startMs = ms;
      entries = [];
    },
    /** Advances the clock after an answer to an op. */
    advance: (ms) => {
      if (ms > nowMs) nowMs = ms;
    },
  };

  function FrozenDate(...args) {
    if (new.target === undefined) return DatePrototypeToString(new Date(nowMs));
    if (args.length === 0) return ReflectConstruct(Date, [nowMs], new.target);
    return ReflectConstruct(Date, args, new.target);
  }

  const defineHidden = (object, name, value) =>
    ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  ObjectDefineProperty(FrozenDate, "name", { __proto__: null, value: "Date", configurable: true });
  ObjectDefineProperty(FrozenDate, "length", { __proto__: null, value: 7, configurable: true });
  ObjectDefineProperty(FrozenDate, "prototype", { __proto__: null, value: DatePrototype, writable: false });
  defineHidden(FrozenDate, "now", () => nowMs);
  defineHidden(FrozenDate, "parse", (text) => DateParse(text));
  defineHidden(FrozenDate, "UTC", (...parts) => DateUTC(...parts));
  defineHidden(DatePrototype, "constructor", FrozenDate);
  delete DatePrototype.toTemporalInstant;

  // Without a date, format the current time.
  const dateTimeFormat = globalThis.Intl?.DateTimeFormat?.prototype;
  if (dateTimeFormat !== undefined) {
    const { get } = ReflectGetOwnPropertyDescriptor(dateTimeFormat, "format");
    const { formatToParts } = dateTimeFormat;
    const orNow = (date) => (date === undefined ? nowMs : date);
    ObjectDefineProperty(dateTimeFormat, "format", {
      __proto__: null, enumerable: false, configurable: true,
      get() {
        const format = ReflectApply(get, this, []);
        return (date) => format(orNow(date));
      },
    });
    defineHidden(dateTimeFormat, "formatToParts", function (date) {
      return ReflectApply(formatToParts, this, [orNow(date)]);
    });
  }

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

  /** Returns a time for `measure`: the last mark with a name, or a number. */
  function timeOf(given, otherwise) {
    if (given === undefined) return otherwise;
    if (typeof given === "number") return given;
    for (let i = entries.length - 1; i >= 0; i--) {
      if (entries[i].entryType === "mark" && entries[i].name === String(given)) return entries[i].startTime;
    }
    throw new parts.DOMException(`there is no mark \`${String(given)}\``, "SyntaxError");
  }

  const performance = {
    now: () => nowMs - startMs,
    get timeOrigin() {
      return startMs;
    },
    mark: (name, options = undefined) => record(String(name), "mark", options?.startTime ?? nowMs - startMs, 0, options?.detail ?? null),
    measure: (name, from = undefined, to = undefined) => {
      const options = from !== null && typeof from === "object" ? from : { __proto__: null, start: from, end: to };
      const start = timeOf(options.start, 0);
      return record(String(name), "measure", start, timeOf(options.end, nowMs - startMs) - start, options.detail ?? null);
    },
    clearMarks: (name = undefined) => {
      entries = filterEntries((entry) => entry.entryType !== "mark" || (name !== undefined && entry.name !== String(name)));
    },
    clearMeasures: (name = undefined) => {
      entries = filterEntries((entry) => entry.entryType !== "measure" || (name !== undefined && entry.name !== String(name)));
    },
    getEntries: () => filterEntries(() => true),
    getEntriesByName: (name, type = undefined) => filterEntries((entry) => entry.name === String(name) && (type === undefined || entry.entryType === type)),
    getEntriesByType: (type) => filterEntries((entry) => entry.entryType === String(type)),
    toJSON: () => ({ timeOrigin: startMs }),
  };
  parts.tag(performance, "Performance");

  parts.clock = clock;
  parts.defineGlobal("Date", FrozenDate);
  parts.defineGlobal("performance", performance);
})(globalThis.__tollhouse);
