// `ctx.kv`: the endpoint's own keys and JSON values.
"use strict";

((parts) => {
  const { ops, promised, request, check, define } = parts;
  const { JSONStringify, NumberMAX_SAFE_INTEGER, ObjectFreeze, TypeError } = parts.primordials;

  const orNull = (value) => (value === undefined ? null : value);

  const kv = {
    /** The value of `key`, or null. */
    get(key) {
      return request(() => promised(ops.op_kv_get(check.name(key, "key")), orNull));
    },
    set(key, value, options) {
      return request(() =>
        promised(ops.op_kv_set(check.name(key, "key"), check.json(value, "value"), check.whole(options?.ttlMs, "ttlMs", 1))),
      );
    },
    delete(key) {
      return request(() => promised(ops.op_kv_delete(check.name(key, "key"))));
    },
    list(options) {
      return request(() => {
        const prefix = options?.prefix;
        const cursor = options?.cursor;
        return promised(
          ops.op_kv_list(
            prefix === undefined || prefix === null ? "" : check.name(prefix, "prefix"),
            check.whole(options?.limit, "limit", 1),
            cursor === undefined || cursor === null ? "" : check.name(cursor, "cursor"),
          ),
        );
      });
    },
    atomic() {
      return new Atomic();
    },
  };

  /** Checks and writes that happen together or not at all. */
  class Atomic {
    #checks = [];
    #writes = [];

    /** Wants `key` to hold `value` now; null or nothing wants it absent. */
    check(key, value) {
      check.name(key, "key");
      const held = value === undefined || value === null ? null : check.json(value, "value");
      define(this.#checks, this.#checks.length, { __proto__: null, key, value: held });
      return this;
    }
    set(key, value, options) {
      const ttl = check.whole(options?.ttlMs, "ttlMs", 1);
      const write = { __proto__: null, key: check.name(key, "key"), value: check.json(value, "value"), ttl_ms: ttl === -1 ? null : ttl };
      return this.#add({ __proto__: null, Set: write });
    }
    delete(key) {
      return this.#add({ __proto__: null, Delete: { __proto__: null, key: check.name(key, "key") } });
    }
    /** Adds a whole number to the one at `key`; absent counts as 0. */
    add(key, by) {
      if (typeof by !== "number" || by % 1 !== 0 || by > NumberMAX_SAFE_INTEGER || by < -NumberMAX_SAFE_INTEGER) {
        throw new TypeError("the number to add must be whole");
      }
      return this.#add({ __proto__: null, Add: { __proto__: null, key: check.name(key, "key"), by } });
    }
    sum(key, by) {
      return this.add(key, by);
    }
    commit() {
      return request(() => promised(ops.op_kv_atomic(list(this.#checks), list(this.#writes))));
    }
    #add(write) {
      define(this.#writes, this.#writes.length, write);
      return this;
    }
  }

  /** JSON text of an array of ours, untouched by any `toJSON` of a handler's. */
  function list(rows) {
    define(rows, "toJSON", undefined);
    return JSONStringify(rows);
  }

  ObjectFreeze(Atomic.prototype);
  ObjectFreeze(Atomic);
  parts.give("kv", parts.freeze(kv));
})(globalThis.__tollhouse);
