// Foundation of the other files: the intrinsics as they were before any handler ran, and `parts`,
// the object through which these files find each other. Both are removed from the global object
// before a handler is loaded (see `harden` in 90_entry.js).
//
// Rule for every file here: call methods through primordials only. A handler may have replaced
// `Array.prototype.push` or `Promise.prototype.then`, which must not affect our code.
"use strict";

globalThis.__tollhouse = ((primordials) => {
  const { ObjectDefineProperty, ObjectFreeze, ReflectOwnKeys, ReflectGetOwnPropertyDescriptor, ReflectHas, SymbolToStringTag } = primordials;

  /** The ops of the worker, by name. Filled by `boot`. */
  const ops = { __proto__: null };

  /** Limits that are enforced here and defined in the worker. Filled by `boot`. */
  const limits = { __proto__: null };

  /** The permitted global names with their values. Each file adds its own. */
  const globals = { __proto__: null };

  /** Factories for the members of a call's `ctx`, by member name. */
  const given = { __proto__: null };

  /** Offers `value` to handlers as a global that is writable like those of the platform. */
  function offer(name, value) {
    globals[name] = value;
  }

  /** Freezes `value` and the objects that it directly holds. */
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

  /** Defines a plain data property, whatever setters `Object.prototype` has gained. */
  function define(object, name, value) {
    ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }

  /** Adds a member to every `ctx`. `make` gets the call that the `ctx` belongs to. */
  function give(name, make) {
    given[name] = make;
  }

  /**
   * Sets the name that `Object.prototype.toString` shows for a class or an object, as Web IDL
   * requires.
   */
  function tag(object, name) {
    ObjectDefineProperty(object, SymbolToStringTag, { __proto__: null, value: name, writable: false, enumerable: false, configurable: true });
  }

  return { __proto__: null, primordials, ops, limits, globals, given, offer, give, freeze, define, tag };
})(globalThis.__bootstrap.primordials);
