// Node's `perf_hooks`, of which tools have the part that the web has.
module.exports = { performance: globalThis.performance, constants: {} };
