// Event, EventTarget, AbortController and AbortSignal. The global object is a target, too.
"use strict";

((parts) => {
  const { DOMException, clock, define, defineInterface, defineOperation, dictionary, domString, needArguments, refuseConstruction } = parts;
  const { Boolean, MathMin, MathTrunc, Number, NumberMAX_SAFE_INTEGER, ObjectCreate, ObjectDefineProperty, ObjectSetPrototypeOf,
    ReflectApply, ReflectGetOwnPropertyDescriptor, TypeError } = parts.primordials;

  /** Functions that read and change the private fields of events. */
  let events;

  /** The getter of `isTrusted`, which each event has as a property of its own. */
  const { get: isTrusted } = ReflectGetOwnPropertyDescriptor({
    get isTrusted() {
      return events.isTrusted(this);
    },
  }, "isTrusted");
  const IS_TRUSTED = { __proto__: null, get: isTrusted, enumerable: true, configurable: false };

  class Event {
    #type;
    #bubbles;
    #cancelable;
    #composed;
    #prevented = false;
    #stopped = false;
    #halted = false;
    #passive = false;
    #target = null;
    #running = false;
    #at = clock.now();
    #trusted = false;

    constructor(type, init = undefined) {
      needArguments("Event", 1, arguments.length);
      this.#type = domString(type);
      const { bubbles, cancelable, composed } = dictionary(init, "Event");
      this.#bubbles = Boolean(bubbles);
      this.#cancelable = Boolean(cancelable);
      this.#composed = Boolean(composed);
      ObjectDefineProperty(this, "isTrusted", IS_TRUSTED);
    }
    get type() {
      return this.#type;
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
    composedPath() {
      return this.#running ? [this.#target] : [];
    }
    get eventPhase() {
      return this.#running ? 2 : 0;
    }
    stopPropagation() {
      this.#stopped = true;
    }
    get cancelBubble() {
      return this.#stopped;
    }
    set cancelBubble(stops) {
      this.#stopped ||= Boolean(stops);
    }
    stopImmediatePropagation() {
      this.#stopped = true;
      this.#halted = true;
    }
    get bubbles() {
      return this.#bubbles;
    }
    get cancelable() {
      return this.#cancelable;
    }
    get returnValue() {
      return !this.#prevented;
    }
    set returnValue(keeps) {
      this.#prevented;
      if (!keeps) this.#prevent();
    }
    preventDefault() {
      this.#prevent();
    }
    get defaultPrevented() {
      return this.#prevented;
    }
    get composed() {
      return this.#composed;
    }
    get timeStamp() {
      return this.#at;
    }
    initEvent(type, bubbles = false, cancelable = false) {
      this.#init(domString(type), Boolean(bubbles), Boolean(cancelable));
    }
    #prevent() {
      if (this.#cancelable && !this.#passive) this.#prevented = true;
    }
    /** Returns false if the event is being dispatched, and so cannot change. */
    #init(type, bubbles, cancelable) {
      if (this.#running) return false;
      this.#type = type;
      this.#bubbles = bubbles;
      this.#cancelable = cancelable;
      this.#prevented = this.#stopped = this.#halted = this.#trusted = false;
      this.#target = null;
      return true;
    }

    static {
      events = {
        __proto__: null,
        is: (value) => value !== null && typeof value === "object" && #type in value,
        isTrusted: (event) => event.#trusted,
        isPrevented: (event) => event.#prevented,
        isStopped: (event) => event.#stopped,
        isHalted: (event) => event.#halted,
        type: (event) => event.#type,
        init: (event, type, bubbles, cancelable) => event.#init(type, bubbles, cancelable),
        begin: (event, target, trusted) => {
          if (event.#running) throw new DOMException("the event is being dispatched already", "InvalidStateError");
          event.#target = target;
          event.#running = true;
          event.#trusted = trusted;
        },
        /** Whether the listener that runs promised not to cancel the event. */
        setPassive: (event, passive) => {
          event.#passive = passive;
        },
        prevent: (event) => event.#prevent(),
        end: (event) => {
          event.#running = event.#stopped = event.#halted = false;
        },
      };
    }
  }

  class CustomEvent extends Event {
    #detail;
    constructor(type, init = undefined) {
      needArguments("CustomEvent", 1, arguments.length);
      super(type, init);
      this.#detail = dictionary(init, "CustomEvent").detail ?? null;
    }
    get detail() {
      return this.#detail;
    }
    initCustomEvent(type, bubbles = false, cancelable = false, detail = null) {
      this.#detail;
      if (events.init(this, domString(type), Boolean(bubbles), Boolean(cancelable))) this.#detail = detail;
    }
  }

  /** Converts a number of an event to an unsigned 32-bit integer. */
  const unsigned = (value) => (value === undefined ? 0 : Number(value) >>> 0);

  let errorArguments;

  class ErrorEvent extends Event {
    #message;
    #filename;
    #line;
    #column;
    #error;
    constructor(type, init = undefined) {
      needArguments("ErrorEvent", 1, arguments.length);
      super(type, init);
      const { colno, error, filename = "", lineno, message = "" } = dictionary(init, "ErrorEvent");
      this.#column = unsigned(colno);
      this.#error = error;
      this.#filename = domString(filename);
      this.#line = unsigned(lineno);
      this.#message = domString(message);
    }
    get message() {
      return this.#message;
    }
    get filename() {
      return this.#filename;
    }
    get lineno() {
      return this.#line;
    }
    get colno() {
      return this.#column;
    }
    get error() {
      return this.#error;
    }

    static {
      /** Returns the arguments of `onerror` of the global object, or undefined for another event. */
      errorArguments = (event) =>
        (#error in event ? [event.#message, event.#filename, event.#line, event.#column, event.#error] : undefined);
    }
  }

  /** The global object, from `boot` on. Its listeners are in `globalState`. */
  let globalTarget;
  const globalState = { __proto__: null, rows: [], handlers: undefined };

  /** Returns the listeners and handlers of a target. Throws a TypeError for another value. */
  let stateOf;
  let isTarget;

  const captures = (options) => (isObject(options) ? Boolean(options.capture) : Boolean(options));
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";

  /** Converts a listener: null and undefined are none. */
  function listenerOf(value) {
    if (value === null || value === undefined) return null;
    if (!isObject(value)) throw new TypeError("a listener must be a function or an object");
    return value;
  }

  function find(state, type, listener, capture) {
    const { rows } = state;
    for (let i = 0; i < rows.length; i++) {
      if (rows[i].type === type && rows[i].listener === listener && rows[i].capture === capture) return rows[i];
    }
    return undefined;
  }

  function addRow(state, row) {
    define(state.rows, state.rows.length, row);
    if (state === globalState) parts.globalListenersChanged(hasListeners);
  }

  /** Removes a row from a copy of the list, because a dispatch can be reading the list. */
  function removeRow(state, row) {
    if (row === undefined || row.removed) return;
    row.removed = true;
    const remaining = [];
    for (let i = 0; i < state.rows.length; i++) if (!state.rows[i].removed) define(remaining, remaining.length, state.rows[i]);
    state.rows = remaining;
    if (state === globalState) parts.globalListenersChanged(hasListeners);
  }

  class EventTarget {
    /** Rows of { type, listener, capture, once, passive, removed }, and the handlers of attributes. */
    #state = { rows: [], handlers: undefined };

    addEventListener(type, listener, options = undefined) {
      const state = stateOf(this ?? globalTarget);
      const name = domString(type);
      const callback = listenerOf(listener);
      const capture = captures(options);
      let once = false;
      let passive = false;
      let signal = undefined;
      if (isObject(options)) {
        once = Boolean(options.once);
        passive = Boolean(options.passive);
        signal = options.signal;
        if (signal !== undefined && !isSignal(signal)) throw new TypeError("the signal of a listener must be an AbortSignal");
      }
      if (callback === null || (signal !== undefined && isAborted(signal))) return;
      if (find(state, name, callback, capture) !== undefined) return;
      const row = { __proto__: null, type: name, listener: callback, capture, once, passive, removed: false };
      addRow(state, row);
      if (signal !== undefined) addAbortAlgorithm(signal, () => removeRow(state, row));
    }
    removeEventListener(type, listener, options = undefined) {
      const state = stateOf(this ?? globalTarget);
      const name = domString(type);
      removeRow(state, find(state, name, listenerOf(listener), captures(options)));
    }
    dispatchEvent(event) {
      const target = this ?? globalTarget;
      stateOf(target);
      if (!events.is(event)) throw new TypeError("the argument of `dispatchEvent` must be an Event");
      return dispatch(target, event, false);
    }

    static {
      isTarget = (value) => value === globalTarget || #state in value;
      stateOf = (target) => (target === globalTarget ? globalState : target.#state);
    }
  }

  /** Calls the listeners. Returns whether none of them canceled the event. */
  function dispatch(target, event, trusted) {
    const state = stateOf(target);
    events.begin(event, target, trusted);
    const { rows } = state;
    const count = rows.length;
    const type = events.type(event);
    // Capturing listeners come first, at the target as well.
    for (let capture = true, pass = 0; pass < 2 && !events.isStopped(event); pass++, capture = false) {
      for (let i = 0; i < count && !events.isHalted(event); i++) {
        const row = rows[i];
        if (row.removed || row.type !== type || row.capture !== capture) continue;
        if (row.once) removeRow(state, row);
        events.setPassive(event, row.passive);
        try {
          if (typeof row.listener === "function") ReflectApply(row.listener, target, [event]);
          else ReflectApply(handleEventOf(row.listener), row.listener, [event]);
        } catch (error) {
          report(error);
        }
        events.setPassive(event, false);
      }
    }
    events.end(event);
    return !events.isPrevented(event);
  }

  function handleEventOf(listener) {
    const { handleEvent } = listener;
    if (typeof handleEvent !== "function") throw new TypeError("a listener must be a function or have `handleEvent`");
    return handleEvent;
  }

  /** Returns the value of the attribute `on...` of a target. */
  function handlerOf(target, type) {
    return stateOf(target).handlers?.[type]?.value ?? null;
  }

  /** Sets the attribute `on...` of a target. Anything but an object or function removes its listener. */
  function setHandler(target, type, given) {
    const state = stateOf(target);
    const value = isObject(given) ? given : null;
    state.handlers ??= { __proto__: null };
    const handler = (state.handlers[type] ??= { __proto__: null, value: null, row: undefined });
    handler.value = value;
    if (value === null) {
      removeRow(state, handler.row);
      handler.row = undefined;
    } else if (handler.row === undefined) {
      const listener = (event) => {
        if (typeof handler.value !== "function") return;
        // The exception of the HTML standard: `onerror` of the global object has five parameters, and true cancels.
        const parameters = target === globalTarget && type === "error" ? errorArguments(event) : undefined;
        if (ReflectApply(handler.value, target, parameters ?? [event]) === (parameters !== undefined)) events.prevent(event);
      };
      handler.row = { __proto__: null, type, listener, capture: false, once: false, passive: false, removed: false };
      addRow(state, handler.row);
    }
  }

  /** Adds an attribute `on...` for each of these types to the prototype of targets, or to `target` alone. */
  function defineHandlers(holder, types, target = undefined) {
    for (let i = 0; i < types.length; i++) {
      const type = types[i];
      const name = "on" + type;
      const accessor = {
        get [name]() {
          return handlerOf(target ?? this, type);
        },
        set [name](handler) {
          setHandler(target ?? this, type, handler);
        },
      };
      const { get, set } = ReflectGetOwnPropertyDescriptor(accessor, name);
      ObjectDefineProperty(holder, name, { __proto__: null, get, set, enumerable: true, configurable: true });
    }
  }

  let abort;
  let isSignal;
  let isAborted;
  /** Returns a signal that aborts with the first of these. */
  let combine;
  let addAbortAlgorithm;

  class AbortSignal extends EventTarget {
    #aborted = false;
    #reason = undefined;
    /** Functions to call on abort before any listener. */
    #algorithms = [];
    /** The signals that `any` combined into this one, none of which is a combination itself. */
    #sources = undefined;
    /** Combinations of this signal. */
    #dependents = [];

    constructor() {
      refuseConstruction(arguments[0], "use an AbortController");
      super();
    }
    get aborted() {
      return this.#aborted;
    }
    get reason() {
      return this.#reason;
    }
    throwIfAborted() {
      if (this.#aborted) throw this.#reason;
    }
    get onabort() {
      this.#aborted;
      return handlerOf(this, "abort");
    }
    set onabort(handler) {
      this.#aborted;
      setHandler(this, "abort", handler);
    }
    static abort(reason = undefined) {
      const signal = newSignal();
      abort(signal, reason);
      return signal;
    }
    static timeout(ms) {
      const whole = MathTrunc(Number(ms));
      if (!(whole >= 0 && whole <= NumberMAX_SAFE_INTEGER)) throw new TypeError("the time must be a whole number of milliseconds");
      const signal = newSignal();
      parts.globals.setTimeout(() => abort(signal, new DOMException("the time is up", "TimeoutError")), MathMin(whole, LONGEST_MS));
      return signal;
    }
    static any(signals) {
      if (!isObject(signals)) throw new TypeError("the signals must be iterable");
      const all = [...signals];
      for (let i = 0; i < all.length; i++) if (!isSignal(all[i])) throw new TypeError("each of the signals must be an AbortSignal");
      return combine(all);
    }
    #follow(source) {
      for (let i = 0; i < this.#sources.length; i++) if (this.#sources[i] === source) return;
      define(this.#sources, this.#sources.length, source);
      define(source.#dependents, source.#dependents.length, this);
    }
    #run() {
      const algorithms = this.#algorithms;
      this.#algorithms = [];
      for (let i = 0; i < algorithms.length; i++) algorithms[i]();
      dispatch(this, new Event("abort"), true);
    }

    static {
      isSignal = (value) => value !== null && typeof value === "object" && #aborted in value;
      isAborted = (signal) => signal.#aborted;
      addAbortAlgorithm = (signal, algorithm) => {
        if (!signal.#aborted) define(signal.#algorithms, signal.#algorithms.length, algorithm);
      };
      combine = (all) => {
        const signal = newSignal();
        for (let i = 0; i < all.length; i++) {
          if (!all[i].#aborted) continue;
          signal.#aborted = true;
          signal.#reason = all[i].#reason;
          return signal;
        }
        signal.#sources = [];
        for (let i = 0; i < all.length; i++) {
          const sources = all[i].#sources ?? [all[i]];
          for (let k = 0; k < sources.length; k++) signal.#follow(sources[k]);
        }
        return signal;
      };
      abort = (signal, given) => {
        if (signal.#aborted) return;
        const reason = given === undefined ? new DOMException("the operation was aborted", "AbortError") : given;
        signal.#aborted = true;
        signal.#reason = reason;
        // Combinations have the reason before any listener is called.
        const aborted = [];
        for (let i = 0; i < signal.#dependents.length; i++) {
          const dependent = signal.#dependents[i];
          if (dependent.#aborted) continue;
          dependent.#aborted = true;
          dependent.#reason = reason;
          define(aborted, aborted.length, dependent);
        }
        signal.#dependents = [];
        signal.#run();
        for (let i = 0; i < aborted.length; i++) aborted[i].#run();
      };
      /** Calls `run` when the signal aborts. Returns a function that cancels this. */
      parts.onAbort = (signal, run) => {
        addAbortAlgorithm(signal, run);
        return () => parts.offAbort(signal, run);
      };
      parts.offAbort = (signal, run) => {
        const others = [];
        const algorithms = signal.#algorithms;
        for (let i = 0; i < algorithms.length; i++) if (algorithms[i] !== run) define(others, others.length, algorithms[i]);
        signal.#algorithms = others;
      };
      parts.abortSignal = abort;
      parts.abortReason = (signal) => signal.#reason;
    }
  }

  /** Maximum delay of a timer. */
  const LONGEST_MS = 2147483647;

  const newSignal = () => parts.construct(AbortSignal);

  class AbortController {
    #signal = newSignal();
    get signal() {
      return this.#signal;
    }
    abort(reason = undefined) {
      abort(this.#signal, reason);
    }
  }

  let isReporting = false;

  /**
   * Reports an exception that no caller can catch: to the listeners of `error` of the global object,
   * then to the log, unless one of them canceled the event. Never throws.
   */
  function report(error) {
    if (isReporting || !hasListeners("error")) {
      parts.logUncaught(error);
      return;
    }
    isReporting = true;
    try {
      const init = { __proto__: null, cancelable: true, message: parts.describe(error).message, error };
      if (dispatch(globalTarget, new ErrorEvent("error", init), true)) parts.logUncaught(error);
    } finally {
      isReporting = false;
    }
  }

  /** Returns whether the global object has listeners of a type. */
  function hasListeners(type) {
    const { rows } = globalState;
    for (let i = 0; i < rows.length; i++) if (rows[i].type === type) return true;
    return false;
  }

  function reportError(error) {
    report(error);
  }

  /** Makes the global object a target. Called by `boot`. */
  parts.bindGlobal = (global) => {
    globalTarget = global;
    const prototype = ObjectCreate(EventTarget.prototype);
    // As without this prototype: some packages ask the tag which runtime they are in.
    parts.tag(prototype, "Object");
    ObjectSetPrototypeOf(global, prototype);
    defineHandlers(global, ["error", "unhandledrejection", "rejectionhandled"], global);
  };
  /** Called with a function that returns whether the global object has listeners of a type. */
  parts.globalListenersChanged = () => {};
  parts.defineHandlers = defineHandlers;
  parts.globalTarget = () => globalTarget;
  parts.uncaught = report;
  parts.dispatchTrusted = (target, event) => dispatch(target, event, true);
  parts.handlerOf = handlerOf;
  parts.setHandler = setHandler;
  /** Attributes that the console shows. */
  const EVENT = ["type", "defaultPrevented", "cancelable", "timeStamp"];

  parts.isEvent = events.is;
  parts.isEventTarget = isTarget;
  parts.isAbortSignal = isSignal;
  parts.isAborted = isAborted;
  /** Returns a signal that aborts with `source`, or never if that is null. */
  parts.followSignal = (source) => (source === null ? newSignal() : combine([source]));
  defineInterface(Event, { shown: EVENT, constants: ["NONE", "CAPTURING_PHASE", "AT_TARGET", "BUBBLING_PHASE"] });
  defineInterface(CustomEvent, { shown: [...EVENT, "detail"] });
  defineInterface(ErrorEvent, { shown: [...EVENT, "message", "error"] });
  defineInterface(EventTarget);
  defineInterface(AbortSignal, { shown: ["aborted"] });
  defineInterface(AbortController, { shown: ["signal"] });
  defineOperation(reportError);
})(globalThis.__tollhouse);
