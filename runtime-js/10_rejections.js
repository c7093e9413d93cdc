// The events `unhandledrejection` and `rejectionhandled` of the global object. Without a listener, the worker
// notes no rejections, and nothing happens.
"use strict";

((parts) => {
  const { define, ops } = parts;
  const { SafeMap, SafeWeakMap } = parts.primordials;

  let isWatching = false;

  parts.globalListenersChanged = (hasListeners) => {
    const watches = hasListeners("unhandledrejection") || hasListeners("rejectionhandled");
    if (watches === isWatching) return;
    isWatching = watches;
    ops.op_watch_rejections(watches);
  };

  /** The reasons of promises that had no handler when their event was dispatched. */
  const reported = new SafeWeakMap();

  const fire = (type, promise, reason, cancelable) =>
    parts.dispatchTrusted(parts.globalTarget(), parts.rejectionEvent(type, promise, reason, cancelable));

  /**
   * Called by the worker once all microtasks have run, with what happened since: for each row, whether a handler was
   * added, the promise, and the reason of its rejection.
   */
  parts.rejectionsNoted = (rows) => {
    const unhandled = new SafeMap();
    const handled = [];
    for (let i = 0; i < rows.length; i += 3) {
      const promise = rows[i + 1];
      if (!rows[i]) unhandled.set(promise, rows[i + 2]);
      else if (!unhandled.delete(promise) && reported.has(promise)) define(handled, handled.length, promise);
    }
    for (let i = 0; i < handled.length; i++) {
      const reason = reported.get(handled[i]);
      if (reported.delete(handled[i])) fire("rejectionhandled", handled[i], reason, false);
    }
    unhandled.forEach((reason, promise) => {
      reported.set(promise, reason);
      fire("unhandledrejection", promise, reason, true);
    });
  };
})(globalThis.__tollhouse);
