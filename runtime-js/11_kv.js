// `ctx.kv`: the tool's own keys and JSON values.
"use strict";

((parts) => {
  const { ops, promised, request, requireRunning, check, define } = parts;
  const { JSONStringify, NumberMAX_SAFE_INTEGER, ObjectFreeze, TypeError } = parts.primordials;

  const orNull = (value) => (value === undefined ? null : value);

  const SET_OPTIONS = ["ttlMs"];

  /** Option names of other stores that correspond to `ttlMs` here. */
  const TTL = "after `ttlMs` milliseconds the key is gone";
  const INSTEAD = { __proto__: null, ttl: TTL, ex: TTL, px: TTL, expireIn: TTL, expiration: TTL, expirationTtl: TTL, ttlSeconds: TTL };

  const lifetime = (options, others, what) => {
    check.noArgumentsAfterOptions(others, what, 3);
    return check.whole(check.options(options, what, SET_OPTIONS, INSTEAD).ttlMs, "ttlMs", 1);
  };

  const kvOf = (call) => ({
    /** Returns the value of `key`, or null. */
    get(key, ...others) {
      return request(call, () => {
        check.noExtraArguments(others, "ctx.kv.get", 1);
        return promised(ops.op_kv_get(check.name(key, "key")), orNull);
      });
    },
    set(key, value, options, ...others) {
      return request(call, () => {
        const ttlMs = lifetime(options, others, "ctx.kv.set");
        return promised(ops.op_kv_set(check.name(key, "key"), check.json(value, "value"), ttlMs));
      });
    },
    delete(key, ...others) {
      return request(call, () => {
        check.noExtraArguments(others, "ctx.kv.delete", 1);
        return promised(ops.op_kv_delete(check.name(key, "key")));
      });
    },
    list(options, ...others) {
      return request(call, () => {
        const { prefix, limit, cursor } = check.listOptions(options, others, "ctx.kv.list");
        return promised(ops.op_kv_list(prefix, limit, cursor));
      });
    },
    atomic(...others) {
      requireRunning(call);
      check.noExtraArguments(others, "ctx.kv.atomic", 0);
      return new Atomic(call);
    },
  });

  /** Checks and writes that are applied together or not at all. */
  class Atomic {
    #call;
    #checks = [];
    #writes = [];

    constructor(call) {
      this.#call = call;
    }

    /** Requires that `key` has this value at commit. null or undefined requires that it is absent. */
    check(key, value, ...others) {
      requireRunning(this.#call);
      check.noExtraArguments(others, "check of ctx.kv.atomic", 2);
      check.name(key, "key");
      const held = value === undefined || value === null ? null : check.json(value, "value");
      define(this.#checks, this.#checks.length, { __proto__: null, key, value: held });
      return this;
    }
    set(key, value, options, ...others) {
      requireRunning(this.#call);
      const ttl = lifetime(options, others, "set of ctx.kv.atomic");
      const write = { __proto__: null, key: check.name(key, "key"), value: check.json(value, "value"), ttl_ms: ttl === -1 ? null : ttl };
      return this.#add({ __proto__: null, Set: write });
    }
    delete(key, ...others) {
      requireRunning(this.#call);
      check.noExtraArguments(others, "delete of ctx.kv.atomic", 1);
      return this.#add({ __proto__: null, Delete: { __proto__: null, key: check.name(key, "key") } });
    }
    /** Adds a whole number to the value of `key`. An absent value counts as 0. */
    add(key, by, ...others) {
      return this.#plus(key, by, others);
    }
    sum(key, by, ...others) {
      return this.#plus(key, by, others);
    }
    #plus(key, by, others) {
      requireRunning(this.#call);
      check.noExtraArguments(others, "add of ctx.kv.atomic", 2);
      if (typeof by !== "number" || by % 1 !== 0 || by > NumberMAX_SAFE_INTEGER || by < -NumberMAX_SAFE_INTEGER) {
        throw new TypeError("the number to add must be whole");
      }
      return this.#add({ __proto__: null, Add: { __proto__: null, key: check.name(key, "key"), by } });
    }
    commit(...others) {
      return request(this.#call, () => {
        check.noExtraArguments(others, "commit of ctx.kv.atomic", 0);
        return promised(ops.op_kv_atomic(list(this.#checks), list(this.#writes)));
      });
    }
    #add(write) {
      define(this.#writes, this.#writes.length, write);
      return this;
    }
  }
  // Only the runtime can create one: a handler could pass a call of its own.
  delete Atomic.prototype.constructor;

  /** Returns JSON text of our own array, unaffected by any `toJSON` of a handler. */
  function list(rows) {
    define(rows, "toJSON", undefined);
    return JSONStringify(rows);
  }

  ObjectFreeze(Atomic.prototype);
  ObjectFreeze(Atomic);
  parts.defineMember("kv", (call) => ObjectFreeze(kvOf(call)));
})(globalThis.__tollhouse);
