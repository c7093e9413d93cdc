// Node's `events`: the package `events`, and the members that it lacks.
const EventEmitter = require("events/");

const errorMonitor = Symbol("events.errorMonitor");
const { emit } = EventEmitter.prototype;
EventEmitter.prototype.emit = function (type, ...args) {
  if (type === "error" && this._events?.[errorMonitor] !== undefined) emit.call(this, errorMonitor, ...args);
  return emit.call(this, type, ...args);
};

async function* iterate(emitter, name, signal) {
  const waiting = [];
  let wake;
  let failure;
  const notify = () => wake?.();
  const event = (...args) => (waiting.push(args), notify());
  const fail = (error) => ((failure = { error }), notify());
  const abort = () => fail(Object.assign(new Error("The operation was aborted", { cause: signal.reason }), { name: "AbortError", code: "ABORT_ERR" }));
  emitter.on(name, event);
  if (name !== "error") emitter.on("error", fail);
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  try {
    for (;;) {
      while (waiting.length > 0) yield waiting.shift();
      if (failure !== undefined) throw failure.error;
      await new Promise((resolve) => (wake = resolve));
    }
  } finally {
    emitter.off(name, event);
    emitter.off("error", fail);
    signal?.removeEventListener("abort", abort);
  }
}

const once = EventEmitter.once;
module.exports = Object.assign(EventEmitter, {
  EventEmitter,
  errorMonitor,
  captureRejectionSymbol: Symbol.for("nodejs.rejection"),
  captureRejections: false,
  once(emitter, name, { signal } = {}) {
    if (typeof emitter.addEventListener === "function" && typeof emitter.on !== "function") {
      return new Promise((resolve) => emitter.addEventListener(name, (event) => resolve([event]), { once: true, signal }));
    }
    const aborted = () => Object.assign(new Error("The operation was aborted", { cause: signal.reason }), { name: "AbortError", code: "ABORT_ERR" });
    if (signal?.aborted) return Promise.reject(aborted());
    if (signal === undefined) return once(emitter, name);
    return Promise.race([once(emitter, name), new Promise((_, reject) => signal.addEventListener("abort", () => reject(aborted()), { once: true }))]);
  },
  on: (emitter, name, options) => iterate(emitter, name, options?.signal),
  getEventListeners: (emitter, name) => emitter.listeners?.(name) ?? [],
  getMaxListeners: (emitter) => emitter.getMaxListeners?.() ?? EventEmitter.defaultMaxListeners,
  setMaxListeners: (count, ...emitters) => {
    if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
    for (const emitter of emitters) emitter.setMaxListeners?.(count);
  },
  addAbortListener(signal, listener) {
    if (signal.aborted) queueMicrotask(() => listener());
    else signal.addEventListener("abort", listener, { once: true });
    return { [Symbol.dispose ?? "dispose"]: () => signal.removeEventListener("abort", listener) };
  },
});
