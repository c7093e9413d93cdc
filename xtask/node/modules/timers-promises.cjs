// Node's `timers/promises`: https://nodejs.org/api/timers.html#timers-promises-api
const aborted = (signal) => Object.assign(new Error("The operation was aborted", { cause: signal.reason }), { name: "AbortError", code: "ABORT_ERR" });

const wait = (milliseconds, value, { signal } = {}) => new Promise((resolve, reject) => {
  if (signal?.aborted) return reject(aborted(signal));
  const abort = () => (clearTimeout(timer), reject(aborted(signal)));
  const timer = setTimeout(() => (signal?.removeEventListener("abort", abort), resolve(value)), milliseconds);
  signal?.addEventListener("abort", abort, { once: true });
});
async function* setInterval(milliseconds, value, options) {
  for (;;) yield await wait(milliseconds, value, options);
}
module.exports = {
  setTimeout: wait,
  setImmediate: (value, options) => wait(0, value, options),
  setInterval,
  scheduler: { wait: (milliseconds, options) => wait(milliseconds, undefined, options), yield: () => wait(0) },
};
