// Time stands still while a handler computes: `Date.now()` says when the call began, and moves on
// only when an op answers. A handler can so not measure what its own instructions take.
"use strict";

((parts) => {
  const { Date, DatePrototype, DatePrototypeToString, ObjectDefineProperty, ReflectConstruct, DateParse, DateUTC } = parts.primordials;

  let nowMs = 0;
  let startMs = 0;

  const clock = {
    __proto__: null,
    now: () => nowMs,
    /** A call begins. */
    start: (ms) => {
      nowMs = ms;
      startMs = ms;
    },
    /** An op has answered. */
    advance: (ms) => {
      if (ms > nowMs) nowMs = ms;
    },
  };

  function FrozenDate(...args) {
    if (new.target === undefined) return DatePrototypeToString(new Date(nowMs));
    if (args.length === 0) return ReflectConstruct(Date, [nowMs], new.target);
    return ReflectConstruct(Date, args, new.target);
  }

  const hidden = (object, name, value) =>
    ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  ObjectDefineProperty(FrozenDate, "name", { __proto__: null, value: "Date", configurable: true });
  ObjectDefineProperty(FrozenDate, "length", { __proto__: null, value: 7, configurable: true });
  ObjectDefineProperty(FrozenDate, "prototype", { __proto__: null, value: DatePrototype, writable: false });
  hidden(FrozenDate, "now", () => nowMs);
  hidden(FrozenDate, "parse", (text) => DateParse(text));
  hidden(FrozenDate, "UTC", (...parts) => DateUTC(...parts));
  hidden(DatePrototype, "constructor", FrozenDate);
  delete DatePrototype.toTemporalInstant;

  const performance = {
    now: () => nowMs - startMs,
    get timeOrigin() {
      return startMs;
    },
  };

  parts.clock = clock;
  parts.offer("Date", FrozenDate);
  parts.offer("performance", performance);
})(globalThis.__tollhouse);
