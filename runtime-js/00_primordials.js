// What the other files build on: the intrinsics as they were before any handler ran, and `parts`,
// the object through which these files find each other. Both are gone from the global object
// before a handler is loaded (see `harden` in 90_entry.js).
//
// Rule for every file here: call methods through primordials only. A handler may have replaced
// `Array.prototype.push` or `Promise.prototype.then`; it must change nothing of ours.
"use strict";

globalThis.__tollhouse = ((primordials) => {
  const { ObjectDefineProperty, ObjectFreeze, ReflectOwnKeys, ReflectGetOwnPropertyDescriptor, ReflectHas, SymbolToStringTag } = primordials;

  /** The ops of the worker, by name; filled by `boot`. */
  const ops = { __proto__: null };

  /** Limits that are kept here and said once, in the worker; filled by `boot`. */
  const limits = { __proto__: null };

  /** What may stand on the global object, by name; each file adds its own. */
  const globals = { __proto__: null };

  /** What makes each member of a call's `ctx`, by the member's name. */
  const given = { __proto__: null };

  /** Offers `value` to handlers as a global, writable as the platform's own are. */
  function offer(name, value) {
    globals[name] = value;
  }

  /** Makes `value` and what it directly holds unchangeable. */
  function freeze(value) {
    const keys = ReflectOwnKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const held = ReflectGetOwnPropertyDescriptor(value, keys[i]).value;
      if (typeof held === "function") {
        if (ReflectHas(held, "prototype") && held.prototype) ObjectFreeze(held.prototype);
        ObjectFreeze(held);
      }
    }
    return ObjectFreeze(value);
  }

  /** A plain data property, whatever setters `Object.prototype` has grown. */
  function define(object, name, value) {
    ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }

  /** Puts a member into every `ctx`: `make` is given the call that the `ctx` belongs to. */
  function give(name, make) {
    given[name] = make;
  }

  /** Names the objects of a class, or one object, to `Object.prototype.toString`, as Web IDL has it. */
  function tag(object, name) {
    ObjectDefineProperty(object, SymbolToStringTag, { __proto__: null, value: name, writable: false, enumerable: false, configurable: true });
  }

  return { __proto__: null, primordials, ops, limits, globals, given, offer, give, freeze, define, tag };
})(globalThis.__bootstrap.primordials);
