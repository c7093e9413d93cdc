// Node's `AsyncLocalStorage`: https://nodejs.org/api/async_context.html
//
// The engine does not carry a context across `await`. The store of `run` is current until its function has returned, and
// if that returns a promise, until the promise has settled. It is the wrong one only if two runs of one storage overlap.
class AsyncLocalStorage {
  #stack = [];
  getStore() {
    return this.#stack.at(-1)?.store;
  }
  run(store, call, ...args) {
    const entry = { store };
    const end = () => {
      const at = this.#stack.indexOf(entry);
      if (at >= 0) this.#stack.splice(at, 1);
    };
    this.#stack.push(entry);
    let result;
    try {
      result = call(...args);
    } catch (error) {
      end();
      throw error;
    }
    if (typeof result?.then !== "function") {
      end();
      return result;
    }
    return result.then((value) => (end(), value), (error) => {
      end();
      throw error;
    });
  }
  exit(call, ...args) {
    return this.run(undefined, call, ...args);
  }
  enterWith(store) {
    this.#stack = [{ store }];
  }
  disable() {
    this.#stack = [];
  }
  static bind(call) {
    return call;
  }
  static snapshot() {
    return (call, ...args) => call(...args);
  }
}

class AsyncResource {
  constructor(type) {
    this.type = type;
  }
  static bind(call, _type, self) {
    return self === undefined ? call : call.bind(self);
  }
  bind(call, self) {
    return AsyncResource.bind(call, this.type, self);
  }
  runInAsyncScope(call, self, ...args) {
    return call.apply(self, args);
  }
  emitDestroy() {
    return this;
  }
  asyncId() {
    return 1;
  }
  triggerAsyncId() {
    return 0;
  }
}

const hook = { enable: () => hook, disable: () => hook };
module.exports = { AsyncLocalStorage, AsyncResource, createHook: () => hook, executionAsyncId: () => 1, triggerAsyncId: () => 0, executionAsyncResource: () => ({}) };
