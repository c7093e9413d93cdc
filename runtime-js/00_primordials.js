// Foundation of the other files: the original intrinsics (`primordials`), and `parts`, the object
// that these files share. Both are removed from the global object before a handler is loaded (see
// `harden` in 90_entry.js).
//
// Rule for every file here: call methods through primordials only. A handler can replace
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
  const memberFactories = { __proto__: null };

  /** Defines a global for handlers. Like the globals of the web platform, it is writable. */
  function defineGlobal(name, value) {
    globals[name] = value;
  }

  /** Freezes `value`, its functions, and their prototypes. */
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

  /** Defines a plain data property, even if `Object.prototype` has a setter of that name. */
  function define(object, name, value) {
    ObjectDefineProperty(object, name, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }

  /** Adds a member to every `ctx`. `make` gets the call that the `ctx` belongs to. */
  function defineMember(name, make) {
    memberFactories[name] = make;
  }

  /**
   * Sets the name that `Object.prototype.toString` shows for a class or an object, as Web IDL
   * requires.
   */
  function tag(object, name) {
    ObjectDefineProperty(object, SymbolToStringTag, { __proto__: null, value: name, writable: false, enumerable: false, configurable: true });
  }

  return { __proto__: null, primordials, ops, limits, globals, memberFactories, defineGlobal, defineMember, freeze, define, tag };
})(globalThis.__bootstrap.primordials);
