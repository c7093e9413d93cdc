// Event, EventTarget, AbortController and AbortSignal.
"use strict";

((parts) => {
  const { DOMException, define, defineGlobal } = parts;
  const { Boolean, ObjectDefineProperty, ObjectPrototypeIsPrototypeOf, ReflectApply, SafeWeakMap, String, TypeError } = parts.primordials;

  let trusted;

  class Event {
    #type;
    #bubbles;
    #cancelable;
    #composed;
    #prevented = false;
    #stopped = false;
    #halted = false;
    #target = null;
    #running = false;
    #at = parts.clock.now();
    #trusted = false;

    constructor(type, init = undefined) {
      if (arguments.length === 0) throw new TypeError("an Event needs a type");
      this.#type = String(type);
      this.#bubbles = Boolean(init?.bubbles);
      this.#cancelable = Boolean(init?.cancelable);
      this.#composed = Boolean(init?.composed);
    }
    get type() {
      return this.#type;
    }
    get bubbles() {
      return this.#bubbles;
    }
    get cancelable() {
      return this.#cancelable;
    }
    get composed() {
      return this.#composed;
    }
    get defaultPrevented() {
      return this.#prevented;
    }
    get target() {
      return this.#target;
    }
    get srcElement() {
      return this.#target;
    }
    get currentTarget() {
      return this.#running ? this.#target : null;
    }
    get eventPhase() {
      return this.#running ? 2 : 0;
    }
    get timeStamp() {
      return this.#at;
    }
    get isTrusted() {
      return this.#trusted;
    }
    composedPath() {
      return this.#running ? [this.#target] : [];
    }
    preventDefault() {
      if (this.#cancelable) this.#prevented = true;
    }
    stopPropagation() {
      this.#stopped = true;
    }
    stopImmediatePropagation() {
      this.#stopped = true;
      this.#halted = true;
    }

    static {
      trusted = {
        __proto__: null,
        is: (value) => value !== null && typeof value === "object" && #type in value,
        begin: (event, target) => {
          if (event.#running) throw new DOMException("the event is being dispatched already", "InvalidStateError");
          event.#target = target;
          event.#running = true;
        },
        /** Returns whether propagation was stopped before the dispatch. */
        stopped: (event) => event.#stopped,
        halted: (event) => event.#halted,
        end: (event) => {
          event.#running = false;
          event.#stopped = false;
          event.#halted = false;
        },
        trust: (event) => {
          event.#trusted = true;
          return event;
        },
      };
    }
  }

  class CustomEvent extends Event {
    #detail;
    constructor(type, init = undefined) {
      if (arguments.length === 0) throw new TypeError("a CustomEvent needs a type");
      super(type, init);
      this.#detail = init?.detail ?? null;
    }
    get detail() {
      return this.#detail;
    }
  }

  const PHASES = ["NONE", "CAPTURING_PHASE", "AT_TARGET", "BUBBLING_PHASE"];
  for (let i = 0; i < PHASES.length; i++) {
    for (const holder of [Event, Event.prototype]) {
      ObjectDefineProperty(holder, PHASES[i], { __proto__: null, value: i, writable: false, enumerable: true, configurable: false });
    }
  }

  /** Listeners of each target: rows of { type, listener, capture, once, gone }. */
  const listeners = new SafeWeakMap();

  function rowsOf(target) {
    let rows = listeners.get(target);
    if (rows === undefined) {
      rows = [];
      listeners.set(target, rows);
    }
    return rows;
  }

  function remove(target, type, listener, capture) {
    const rows = rowsOf(target);
    const remaining = [];
    for (let i = 0; i < rows.length; i++) {
      if (rows[i].type === type && rows[i].listener === listener && rows[i].capture === capture) rows[i].removed = true;
      else define(remaining, remaining.length, rows[i]);
    }
    listeners.set(target, remaining);
  }

  const captures = (options) => (typeof options === "object" && options !== null ? Boolean(options.capture) : Boolean(options));

  class EventTarget {
    addEventListener(type, listener, options = undefined) {
      if (listener === null || listener === undefined) return;
      if (typeof listener !== "function" && typeof listener !== "object") throw new TypeError("a listener must be a function or an object");
      const [name, capture] = [String(type), captures(options)];
      const signal = typeof options === "object" && options !== null ? options.signal : undefined;
      if (signal?.aborted) return;
      const rows = rowsOf(this);
      for (let i = 0; i < rows.length; i++) {
        if (rows[i].type === name && rows[i].listener === listener && rows[i].capture === capture) return;
      }
      const once = typeof options === "object" && options !== null && Boolean(options.once);
      define(rows, rows.length, { __proto__: null, type: name, listener, capture, once, removed: false });
      if (signal !== undefined && signal !== null) signal.addEventListener("abort", () => remove(this, name, listener, capture), { once: true });
    }
    removeEventListener(type, listener, options = undefined) {
      remove(this, String(type), listener, captures(options));
    }
    dispatchEvent(event) {
      if (!trusted.is(event)) throw new TypeError("the argument of dispatchEvent must be an Event");
      dispatch(this, event);
      return !event.defaultPrevented;
    }
  }

  function dispatch(target, event) {
    trusted.begin(event, target);
    const rows = rowsOf(target);
    const count = rows.length;
    const stopped = trusted.stopped(event);
    for (let i = 0; i < count && !stopped && !trusted.halted(event); i++) {
      const row = rows[i];
      if (row.removed || row.type !== event.type) continue;
      if (row.once) remove(target, row.type, row.listener, row.capture);
      try {
        if (typeof row.listener === "function") ReflectApply(row.listener, target, [event]);
        else row.listener.handleEvent(event);
      } catch (error) {
        parts.uncaught(error);
      }
    }
    trusted.end(event);
  }

  let abort;
  let create = false;

  class AbortSignal extends EventTarget {
    #aborted = false;
    #reason = undefined;
    #handler = null;
    /** Algorithms to run on abort before any listener is called. */
    #first = [];

    constructor() {
      super();
      if (!create) throw new TypeError("create an AbortSignal with an AbortController");
      create = false;
    }
    get aborted() {
      return this.#aborted;
    }
    get reason() {
      return this.#reason;
    }
    get onabort() {
      return this.#handler;
    }
    set onabort(handler) {
      if (this.#handler !== null) this.removeEventListener("abort", this.#handler);
      this.#handler = typeof handler === "function" ? handler : null;
      if (this.#handler !== null) this.addEventListener("abort", this.#handler);
    }
    throwIfAborted() {
      if (this.#aborted) throw this.#reason;
    }
    static abort(reason = undefined) {
      const signal = fresh();
      abort(signal, reason);
      return signal;
    }
    static timeout(ms) {
      const signal = fresh();
      parts.globals.setTimeout(() => abort(signal, new DOMException("the time is up", "TimeoutError")), ms);
      return signal;
    }
    static any(signals) {
      const all = [...signals];
      const signal = fresh();
      for (let i = 0; i < all.length; i++) {
        if (all[i].aborted) {
          abort(signal, all[i].reason);
          return signal;
        }
      }
      for (let i = 0; i < all.length; i++) define(all[i].#first, all[i].#first.length, () => abort(signal, all[i].reason));
      return signal;
    }

    static {
      abort = (signal, reason) => {
        if (signal.#aborted) return;
        signal.#aborted = true;
        signal.#reason = reason === undefined ? new DOMException("the operation was aborted", "AbortError") : reason;
        const first = signal.#first;
        signal.#first = [];
        for (let i = 0; i < first.length; i++) first[i]();
        dispatch(signal, trusted.trust(new Event("abort")));
      };
      parts.isAbortSignal = (value) => value !== null && typeof value === "object" && #first in value;
      parts.isAborted = (signal) => signal.#aborted;
      parts.abortReason = (signal) => signal.#reason;
      /** Calls `run` when the signal aborts. Returns a function that cancels this. */
      parts.onAbort = (signal, run) => {
        define(signal.#first, signal.#first.length, run);
        return () => {
          const others = [];
          for (let i = 0; i < signal.#first.length; i++) if (signal.#first[i] !== run) define(others, others.length, signal.#first[i]);
          signal.#first = others;
        };
      };
      /** Returns a signal that aborts with `source`, or never if that is null. */
      parts.followSignal = (source) => {
        const signal = fresh();
        if (source === null) return signal;
        if (source.#aborted) abort(signal, source.#reason);
        else define(source.#first, source.#first.length, () => abort(signal, source.#reason));
        return signal;
      };
    }
  }

  function fresh() {
    create = true;
    return new AbortSignal();
  }

  class AbortController {
    #signal = fresh();
    get signal() {
      return this.#signal;
    }
    abort(reason = undefined) {
      abort(this.#signal, reason);
    }
  }

  parts.tag(Event.prototype, "Event");
  parts.tag(CustomEvent.prototype, "CustomEvent");
  parts.tag(EventTarget.prototype, "EventTarget");
  parts.tag(AbortSignal.prototype, "AbortSignal");
  parts.tag(AbortController.prototype, "AbortController");
  parts.isEvent = trusted.is;
  parts.isEventTarget = (value) => ObjectPrototypeIsPrototypeOf(EventTarget.prototype, value);
  defineGlobal("Event", Event);
  defineGlobal("CustomEvent", CustomEvent);
  defineGlobal("EventTarget", EventTarget);
  defineGlobal("AbortSignal", AbortSignal);
  defineGlobal("AbortController", AbortController);
})(globalThis.__tollhouse);
