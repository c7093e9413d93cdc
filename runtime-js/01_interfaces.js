// Web IDL: turns classes of the language into interfaces as the standards of the web define them.
"use strict";

((parts) => {
  const { define: defineMember, defineGlobal, tag } = parts;
  const { NumberIsFinite, Number, ObjectDefineProperty, ObjectGetPrototypeOf, ObjectSetPrototypeOf, PromiseReject, ReflectApply,
    ReflectDeleteProperty, ReflectGetOwnPropertyDescriptor, ReflectOwnKeys, SafeMap, StringPrototypeToWellFormed, SymbolIterator,
    SymbolKeyFor, TypeError } = parts.primordials;

  const AsyncFunctionPrototype = ObjectGetPrototypeOf(async function () {});
  const IteratorPrototype = ObjectGetPrototypeOf(ObjectGetPrototypeOf([][SymbolIterator]()));

  /** The names of globals that are enumerable. */
  parts.operations = { __proto__: null };

  /**
   * Returns `method` with a check of its arguments: fewer than its `length` are a TypeError. `label`
   * is its name in that error.
   */
  function operation(method, label) {
    const needed = method.length;
    if (needed === 0) return method;
    const isAsync = ObjectGetPrototypeOf(method) === AsyncFunctionPrototype;
    const { name } = method;
    const checked = {
      [name](...args) {
        if (args.length >= needed) return ReflectApply(method, this, args);
        const error = missing(label, needed, args.length);
        if (isAsync) return PromiseReject(error);
        throw error;
      },
    }[name];
    ObjectDefineProperty(checked, "length", { __proto__: null, value: needed, writable: false, enumerable: false, configurable: true });
    return checked;
  }

  function missing(label, needed, given) {
    return new TypeError(`\`${label}\` needs ${needed} ${needed === 1 ? "argument" : "arguments"}, and got ${given}`);
  }

  /** Throws a TypeError if a constructor got fewer arguments than it needs. */
  function needArguments(label, needed, given) {
    if (given < needed) throw missing(label, needed, given);
  }

  /** Makes the members of a class or its prototype enumerable, and its methods check their arguments. */
  function exposeMembers(holder, label) {
    const keys = ReflectOwnKeys(holder);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (typeof key !== "string" || key === "constructor") continue;
      // Properties of every function.
      if (typeof holder === "function" && (key === "prototype" || key === "length" || key === "name")) continue;
      const descriptor = ReflectGetOwnPropertyDescriptor(holder, key);
      ObjectSetPrototypeOf(descriptor, null);
      if (!descriptor.configurable) continue;
      descriptor.enumerable = true;
      if (typeof descriptor.value === "function") descriptor.value = operation(descriptor.value, `${label}.${key}`);
      ObjectDefineProperty(holder, key, descriptor);
    }
  }

  /** Interfaces by prototype, with a getter that throws for objects of others. Some have none. */
  const brands = new SafeMap();

  function firstGetter(prototype) {
    const keys = ReflectOwnKeys(prototype);
    for (let i = 0; i < keys.length; i++) {
      const { get } = ReflectGetOwnPropertyDescriptor(prototype, keys[i]);
      if (get !== undefined) return get;
    }
    return undefined;
  }

  /** Maximum prototypes that are searched for an interface. */
  const MAX_PROTOTYPES = 16;

  /** Returns whether an object is one of an interface that has a getter. */
  function isInterfaceObject(value) {
    for (let holder = ObjectGetPrototypeOf(value), i = 0; holder !== null && i < MAX_PROTOTYPES; i++) {
      const getter = brands.get(holder);
      if (getter !== undefined) {
        try {
          ReflectApply(getter, value, []);
          return true;
        } catch {
          return false;
        }
      }
      holder = ObjectGetPrototypeOf(holder);
    }
    return false;
  }

  /**
   * Makes a class an interface of Web IDL and a global: its members are enumerable, its methods check
   * their arguments, and its objects have a string tag. Private fields make its members throw a
   * TypeError for other objects. `shown` names the attributes that the console shows. `constants` are
   * names, numbered from `first`.
   */
  function defineInterface(Class, { shown = [], constants = [], first = 0 } = { __proto__: null }) {
    exposeMembers(Class, Class.name);
    exposeMembers(Class.prototype, Class.name);
    for (let i = 0; i < constants.length; i++) {
      const constant = { __proto__: null, value: first + i, writable: false, enumerable: true, configurable: false };
      ObjectDefineProperty(Class, constants[i], constant);
      ObjectDefineProperty(Class.prototype, constants[i], constant);
    }
    tag(Class.prototype, Class.name);
    brands.set(Class.prototype, firstGetter(Class.prototype));
    parts.showInterface(Class, shown);
    defineGlobal(Class.name, Class);
  }

  /** Makes an interface of `deno_web` a global like ours, without the members that only Deno uses. */
  function adoptInterface(Class, shown = []) {
    const { prototype } = Class;
    const keys = ReflectOwnKeys(prototype);
    for (let i = 0; i < keys.length; i++) {
      // Symbols that Deno and Node.js have registered.
      if (typeof keys[i] === "symbol" && SymbolKeyFor(keys[i]) !== undefined) ReflectDeleteProperty(prototype, keys[i]);
    }
    brands.set(prototype, firstGetter(prototype));
    parts.showInterface(Class, shown);
    defineGlobal(Class.name, Class);
  }

  /** Defines a global function of the web. Unlike interfaces, these are enumerable. */
  function defineOperation(method) {
    parts.operations[method.name] = true;
    defineGlobal(method.name, operation(method, method.name));
  }

  /** The only argument with which the classes of [construct] can be constructed. No handler gets it. */
  const KEY = { __proto__: null };

  /** Throws unless [construct] calls the constructor. `instead` says how a handler gets an object. */
  function refuseConstruction(key, instead) {
    if (key !== KEY) throw new TypeError(`illegal constructor: ${instead}`);
  }

  /** Returns a new object of a class that handlers cannot construct. */
  const construct = (Class) => new Class(KEY);

  /**
   * Adds `entries`, `keys`, `values`, `forEach` and the iterator to a class whose objects are rows of
   * name and value. `rowsOf` returns the current rows of an object, and throws for other objects.
   * Live iterators see changes of the rows, and others have the rows from when they were made.
   */
  function definePairs(Class, rowsOf) {
    class PairIterator {
      #object;
      #kind;
      #next = 0;
      constructor(object, kind) {
        // Throws for other objects.
        rowsOf(object);
        this.#object = object;
        this.#kind = kind;
      }
      next() {
        const rows = rowsOf(this.#object);
        if (this.#next >= rows.length) return { value: undefined, done: true };
        const row = rows[this.#next++];
        return { value: this.#kind === 2 ? [row[0], row[1]] : row[this.#kind], done: false };
      }
    }
    const { prototype } = PairIterator;
    exposeMembers(prototype, `${Class.name} Iterator`);
    ReflectDeleteProperty(prototype, "constructor");
    ObjectSetPrototypeOf(prototype, IteratorPrototype);
    tag(prototype, `${Class.name} Iterator`);
    const methods = {
      entries() {
        return new PairIterator(this, 2);
      },
      keys() {
        return new PairIterator(this, 0);
      },
      values() {
        return new PairIterator(this, 1);
      },
      forEach(callback, self = undefined) {
        let rows = rowsOf(this);
        if (typeof callback !== "function") throw new TypeError(`the callback of \`${Class.name}.forEach\` must be a function`);
        for (let i = 0; i < rows.length; i++) {
          ReflectApply(callback, self, [rows[i][1], rows[i][0], this]);
          rows = rowsOf(this);
        }
      },
    };
    const define = (key, value, enumerable) =>
      ObjectDefineProperty(Class.prototype, key, { __proto__: null, value, writable: true, enumerable, configurable: true });
    define("entries", methods.entries, true);
    define("keys", methods.keys, true);
    define("values", methods.values, true);
    define("forEach", methods.forEach, true);
    define(SymbolIterator, methods.entries, false);
  }

  const NO_OPTIONS = { __proto__: null };

  /**
   * Returns the rows of an object, a sequence of pairs or a record, as new pairs of texts. `convert` converts names and
   * values. Of a record, only the last of equal names stays (Web IDL, sections 3.2.22 and 3.2.24).
   */
  function pairsOf(init, convert) {
    const rows = [];
    const iterator = init[SymbolIterator];
    if (iterator !== undefined && iterator !== null) {
      if (typeof iterator !== "function") throw new TypeError("the rows must be iterable");
      for (const row of init) {
        const isObject = (typeof row === "object" && row !== null) || typeof row === "function";
        const pair = isObject ? [...row] : undefined;
        if (pair?.length !== 2) throw new TypeError("a row must be a name and a value");
        defineMember(rows, rows.length, [convert(pair[0]), convert(pair[1])]);
      }
      return rows;
    }
    const byName = new SafeMap();
    const keys = ReflectOwnKeys(init);
    for (let i = 0; i < keys.length; i++) {
      if (!ReflectGetOwnPropertyDescriptor(init, keys[i])?.enumerable) continue;
      const name = convert(keys[i]);
      const value = convert(init[keys[i]]);
      const row = byName.get(name);
      if (row === undefined) {
        const added = [name, value];
        byName.set(name, added);
        defineMember(rows, rows.length, added);
      } else row[1] = value;
    }
    return rows;
  }

  /** Converts a value to a dictionary: null and undefined have no members. `what` names its owner. */
  function dictionary(value, what) {
    if (value === undefined || value === null) return NO_OPTIONS;
    if (typeof value !== "object" && typeof value !== "function") throw new TypeError(`the options of \`${what}\` must be an object`);
    return value;
  }

  /** Converts a value to a string. Throws a TypeError for a symbol. */
  const domString = (value) => (typeof value === "string" ? value : `${value}`);

  /** Converts a value to a string without lone surrogates: each becomes U+FFFD. */
  const usvString = (value) => StringPrototypeToWellFormed(`${value}`);

  /** Converts a value to a finite number, or throws a TypeError that names it. */
  function finite(value, what) {
    const number = Number(value);
    if (!NumberIsFinite(number)) throw new TypeError(`${what} must be a finite number`);
    return number;
  }

  parts.operation = operation;
  parts.needArguments = needArguments;
  parts.exposeMembers = exposeMembers;
  parts.defineInterface = defineInterface;
  parts.adoptInterface = adoptInterface;
  parts.isInterfaceObject = isInterfaceObject;
  parts.defineOperation = defineOperation;
  parts.refuseConstruction = refuseConstruction;
  parts.construct = construct;
  parts.definePairs = definePairs;
  parts.pairsOf = pairsOf;
  parts.dictionary = dictionary;
  parts.domString = domString;
  parts.usvString = usvString;
  parts.finite = finite;
})(globalThis.__tollhouse);
