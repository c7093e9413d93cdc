// The clock stands still while a handler computes: `Date.now()` returns the start of the call, and
// advances only when an op is answered. So a handler cannot measure the duration of its own
// instructions.
"use strict";

((parts) => {
  const { Date, DatePrototype, DatePrototypeToString, ObjectDefineProperty, ReflectApply, ReflectConstruct,
    ReflectGetOwnPropertyDescriptor, DateParse, DateUTC } = parts.primordials;

  let nowMs = 0;
  let startMs = 0;

  const clock = {
    __proto__: null,
    now: () => nowMs,
    /** Returns the start of the call. */
    origin: () => startMs,
    /** Begins a call. */
    start: (ms) => {
      nowMs = ms;
      startMs = ms;
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

  parts.clock = clock;
  parts.defineGlobal("Date", FrozenDate);
})(globalThis.__tollhouse);
