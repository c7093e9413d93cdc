// Time stands still while a handler computes: `Date.now()` says when the call began, and moves on
// only when an op answers. A handler can so not measure what its own instructions take.
"use strict";

((parts) => {
  const { Date, DatePrototype, DatePrototypeToString, ObjectDefineProperty, ReflectApply, ReflectConstruct,
    ReflectGetOwnPropertyDescriptor, DateParse, DateUTC } = parts.primordials;

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

  // A format without a date means now.
  const formats = globalThis.Intl?.DateTimeFormat?.prototype;
  if (formats !== undefined) {
    const { get } = ReflectGetOwnPropertyDescriptor(formats, "format");
    const { formatToParts } = formats;
    const orNow = (date) => (date === undefined ? nowMs : date);
    ObjectDefineProperty(formats, "format", {
      __proto__: null, enumerable: false, configurable: true,
      get() {
        const format = ReflectApply(get, this, []);
        return (date) => format(orNow(date));
      },
    });
    hidden(formats, "formatToParts", function (date) {
      return ReflectApply(formatToParts, this, [orNow(date)]);
    });
  }

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
