// MessageChannel within the isolate, and the events that only a handler itself dispatches.
"use strict";

((parts) => {
  const { define, defineInterface, dictionary, domString, needArguments, refuseConstruction } = parts;
  const { Event, EventTarget, structuredClone } = parts.globals;
  const { ObjectFreeze, PromisePrototypeThen, PromiseResolve, SymbolIterator, TypeError } = parts.primordials;

  class MessageEvent extends Event {
    #data;
    #origin;
    #lastEventId;
    #source;
    #ports;
    constructor(type, init = undefined) {
      needArguments("MessageEvent", 1, arguments.length);
      super(type, init);
      const { data = null, lastEventId = "", origin = "", ports = [], source = null } = dictionary(init, "MessageEvent");
      this.#data = data;
      this.#lastEventId = domString(lastEventId);
      this.#origin = domString(origin);
      this.#ports = ObjectFreeze([...ports]);
      if (source !== null && !isPort(source)) throw new TypeError("the source of a MessageEvent must be a MessagePort");
      this.#source = source;
      for (let i = 0; i < this.#ports.length; i++) if (!isPort(this.#ports[i])) throw new TypeError("each of the ports must be a MessagePort");
    }
    get data() {
      return this.#data;
    }
    get origin() {
      return this.#origin;
    }
    get lastEventId() {
      return this.#lastEventId;
    }
    get source() {
      return this.#source;
    }
    get ports() {
      return this.#ports;
    }
  }

  let isPort;
  /** Connects two ports. */
  let connect;
  /** Returns a function that moves a port, or null if it was moved already. */
  let moverOf;

  class MessagePort extends EventTarget {
    #other = null;
    /** Messages that nobody has received. */
    #queue = [];
    /** Number of messages at the start of the queue that were delivered. */
    #delivered = 0;
    #isStarted = false;
    #isScheduled = false;
    #isMoved = false;

    constructor() {
      refuseConstruction(arguments[0], "use a MessageChannel");
      super();
    }
    postMessage(message, options = undefined) {
      this.#other;
      const isList = options !== null && typeof options === "object" && options[SymbolIterator] !== undefined;
      const transfer = [...((isList ? options : dictionary(options, "MessagePort.postMessage").transfer) ?? [])];
      const ports = [];
      for (let i = 0; i < transfer.length; i++) {
        if (transfer[i] === this) parts.refuseClone("a port that is sent through itself");
        if (isPort(transfer[i])) define(ports, ports.length, transfer[i]);
      }
      const copy = structuredClone([message, ports], { __proto__: null, transfer });
      const other = this.#other;
      if (other === null) return;
      define(other.#queue, other.#queue.length, { __proto__: null, data: copy[0], ports: copy[1] });
      other.#schedule();
    }
    start() {
      this.#isStarted = true;
      this.#schedule();
    }
    close() {
      const other = this.#other;
      this.#other = null;
      if (other !== null) other.#other = null;
    }
    get onmessage() {
      this.#other;
      return parts.handlerOf(this, "message");
    }
    set onmessage(handler) {
      this.#other;
      parts.setHandler(this, "message", handler);
      this.#isStarted = true;
      this.#schedule();
    }
    get onmessageerror() {
      this.#other;
      return parts.handlerOf(this, "messageerror");
    }
    set onmessageerror(handler) {
      this.#other;
      parts.setHandler(this, "messageerror", handler);
    }
    /** Delivers one message in a microtask, because a handler has no other tasks without an op. */
    #schedule() {
      if (!this.#isStarted || this.#isScheduled || this.#delivered === this.#queue.length) return;
      this.#isScheduled = true;
      PromisePrototypeThen(PromiseResolve(undefined), () => {
        this.#isScheduled = false;
        // The port was moved.
        if (this.#delivered === this.#queue.length) return;
        const { data, ports } = this.#queue[this.#delivered];
        this.#queue[this.#delivered++] = undefined;
        if (this.#delivered === this.#queue.length) {
          this.#queue = [];
          this.#delivered = 0;
        }
        this.#schedule();
        parts.dispatchTrusted(this, new MessageEvent("message", { __proto__: null, data, ports }));
      });
    }

    static {
      isPort = (value) => value !== null && typeof value === "object" && #isMoved in value;
      connect = (port1, port2) => {
        port1.#other = port2;
        port2.#other = port1;
      };
      moverOf = (port) => {
        if (port.#isMoved) return null;
        return () => {
          const moved = parts.construct(MessagePort);
          port.#isMoved = true;
          if (port.#other !== null) connect(moved, port.#other);
          moved.#queue = port.#queue;
          moved.#delivered = port.#delivered;
          port.#other = null;
          port.#queue = [];
          port.#delivered = 0;
          return moved;
        };
      };
    }
  }

  class MessageChannel {
    #port1 = parts.construct(MessagePort);
    #port2 = parts.construct(MessagePort);
    constructor() {
      connect(this.#port1, this.#port2);
    }
    get port1() {
      return this.#port1;
    }
    get port2() {
      return this.#port2;
    }
  }

  class PromiseRejectionEvent extends Event {
    #promise;
    #reason;
    constructor(type, init) {
      needArguments("PromiseRejectionEvent", 2, arguments.length);
      super(type, init);
      const { promise, reason } = dictionary(init, "PromiseRejectionEvent");
      if (promise === undefined) throw new TypeError("a PromiseRejectionEvent needs a promise");
      this.#promise = PromiseResolve(promise);
      this.#reason = reason;
    }
    get promise() {
      return this.#promise;
    }
    get reason() {
      return this.#reason;
    }

    static {
      /** Returns an event about this promise itself. The constructor converts a promise of another class. */
      parts.rejectionEvent = (type, promise, reason, cancelable) => {
        const event = new PromiseRejectionEvent(type, { __proto__: null, cancelable, promise: null, reason });
        event.#promise = promise;
        return event;
      };
    }
  }

  const { streamMover } = parts;
  parts.streamMover = (value) => (isPort(value) ? moverOf(value) : streamMover(value));
  const EVENT = ["type", "defaultPrevented", "cancelable", "timeStamp"];
  defineInterface(MessageEvent, { shown: [...EVENT, "data"] });
  defineInterface(MessagePort);
  defineInterface(MessageChannel, { shown: ["port1", "port2"] });
  defineInterface(PromiseRejectionEvent, { shown: [...EVENT, "reason"] });
})(globalThis.__tollhouse);
