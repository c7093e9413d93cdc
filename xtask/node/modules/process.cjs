// Node's `process`, with fixed values. It is not a global: esbuild puts it in place of the free name `process`.
//
// `versions` is empty, so that packages which look for Node take their portable path.
const { absent } = require("./absent.cjs");

const none = () => process;
const stream = (log) => ({ isTTY: false, columns: 80, fd: -1, write: (text) => (log(String(text).replace(/\n$/, "")), true), on: none, once: none, end: none });
const process = {
  title: "tool",
  browser: true,
  // Secrets are in `ctx.env`.
  env: { NODE_ENV: "production" },
  argv: [],
  argv0: "",
  execArgv: [],
  execPath: "",
  version: "v22.0.0",
  versions: {},
  release: {},
  config: {},
  features: {},
  platform: "linux",
  arch: "x64",
  pid: 1,
  ppid: 0,
  exitCode: undefined,
  stdin: { isTTY: false, fd: -1, on: none, once: none },
  stdout: stream((text) => console.log(text)),
  stderr: stream((text) => console.error(text)),
  nextTick: (call, ...args) => queueMicrotask(() => call(...args)),
  cwd: () => "/",
  umask: () => 0o22,
  uptime: () => performance.now() / 1000,
  hrtime: Object.assign((before) => {
    const now = performance.timeOrigin + performance.now();
    let [seconds, nanoseconds] = [Math.floor(now / 1000), Math.round((now % 1000) * 1e6)];
    if (before !== undefined) {
      seconds -= before[0];
      nanoseconds -= before[1];
      if (nanoseconds < 0) [seconds, nanoseconds] = [seconds - 1, nanoseconds + 1e9];
    }
    return [seconds, nanoseconds];
  }, { bigint: () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6)) }),
  memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  emitWarning: (warning) => console.warn(String(warning)),
  getuid: () => -1,
  getgid: () => -1,
  listeners: () => [],
  listenerCount: () => 0,
  emit: () => false,
  exit: absent("process.exit", "return or throw"),
  abort: absent("process.abort", "throw an error"),
  kill: absent("process.kill", "tools have no processes"),
  chdir: absent("process.chdir", "tools have no file system"),
  binding: absent("process.binding", "use the public modules"),
  dlopen: absent("process.dlopen", "use a package in plain JavaScript"),
};
for (const name of ["on", "once", "off", "addListener", "removeListener", "removeAllListeners", "prependListener", "setMaxListeners"]) process[name] = none;
module.exports = process;
