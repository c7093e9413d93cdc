// Node's `timers`: https://nodejs.org/api/timers.html
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

class Immediate {
  #timer;
  constructor(call, args) {
    this.#timer = setTimeout(call, 0, ...args);
  }
  clear() {
    clearTimeout(this.#timer);
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  hasRef() {
    return true;
  }
}
module.exports = {
  setTimeout, clearTimeout, setInterval, clearInterval,
  setImmediate: (call, ...args) => new Immediate(call, args),
  clearImmediate: (immediate) => immediate?.clear?.(),
  get promises() { return require("timers/promises"); },
};
