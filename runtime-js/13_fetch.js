// `fetch`: a request to another server, made by the host through its guard.
"use strict";

((parts) => {
  const { awaited, defineGlobal, forgetOp, ops, requireCall, setCause } = parts;
  const { Request } = parts.globals;
  const { ObjectKeys, Promise, PromisePrototypeThen, PromiseReject, PromiseResolve, TypeError, TypedArrayPrototypeGetLength,
    StringPrototypeStartsWith, Uint8Array } = parts.primordials;

  const EMPTY = new Uint8Array(0);

  /** Numbers of requests start again here. No call makes so many. */
  const MAX_ID = 0x3fffffff;

  const SIGNAL = "`signal: AbortSignal.timeout(ms)` limits its duration";
  const JSON_BODY = "`body: JSON.stringify(value)` with the header `content-type: application/json` sends JSON";
  const URL = "put them into the URL, for example with `URLSearchParams`";
  const CONNECTION = "the host makes all connections";

  /** Options of other functions, which would change the request if they were not ignored. */
  const UNKNOWN = {
    __proto__: null, auth: "`ctx.httpGetJson` sends secrets with it", timeout: SIGNAL, timeoutMs: SIGNAL, json: JSON_BODY, data: JSON_BODY,
    params: URL, query: URL, agent: CONNECTION, client: CONNECTION, dispatcher: CONNECTION, proxy: CONNECTION,
  };
  const UNKNOWN_NAMES = ObjectKeys(UNKNOWN);

  function refuseUnknown(init) {
    // A Request has a method `json`.
    if (init === null || typeof init !== "object" || parts.requestHead(init) !== undefined) return;
    for (let i = 0; i < UNKNOWN_NAMES.length; i++) {
      const name = UNKNOWN_NAMES[i];
      const given = init[name];
      if (given !== undefined && given !== null) throw new TypeError(`fetch has no option \`${name}\`: ${UNKNOWN[name]}`);
    }
  }

  function bytesOf(body) {
    if (body === null) return EMPTY;
    // Without a result, the call has been stopped.
    return typeof body === "string" ? (ops.op_text_encode(body) ?? EMPTY) : body;
  }

  /** Returns the response to a request for the URL of a Blob (Fetch standard, section 4.2). */
  function readBlob({ method, url, blob }) {
    if (blob === undefined) throw new TypeError("fetch failed: no Blob of this call has this URL");
    if (method !== "GET") throw new TypeError(`fetch failed: the URL of a Blob can only be read with GET, and not with ${method}`);
    const bytes = parts.blobBytes(blob);
    const headers = [["content-length", `${TypedArrayPrototypeGetLength(bytes)}`], ["content-type", parts.blobType(blob)]];
    return PromiseResolve(parts.receivedResponse({ __proto__: null, status: 200, statusText: "OK", url, redirected: false, headers }, bytes));
  }

  /** Sends a request. Its errors have the stack of this place. */
  function send({ settings, headers, body, signal }) {
    if (settings.integrity !== "") throw new TypeError("fetch does not support the option `integrity`");
    if (signal !== null && parts.isAborted(signal)) throw parts.abortReason(signal);
    const failure = new TypeError("fetch failed");
    if (StringPrototypeStartsWith(settings.url, "blob:")) return readBlob(settings);
    if (body.content !== undefined) return transmit(settings, headers, body.move().content, signal, failure);
    return readAndTransmit(settings, headers, body, signal, failure);
  }

  /** Reads a stream whole before it is sent. The host refuses a body above its limit. */
  async function readAndTransmit(settings, headers, body, signal, failure) {
    const call = parts.runningCall();
    const content = await untilAborted(body.whole(parts.limits.requestBodyBytes), signal);
    parts.requireRunning(call);
    return await transmit(settings, headers, content, signal, failure);
  }

  /** Returns a promise like `promise`, which a signal rejects. */
  function untilAborted(promise, signal) {
    if (signal === null) return promise;
    return new Promise((resolve, reject) => {
      if (parts.isAborted(signal)) return reject(parts.abortReason(signal));
      const release = parts.onAbort(signal, () => reject(parts.abortReason(signal)));
      const settle = (done) => (value) => {
        release();
        done(value);
      };
      PromisePrototypeThen(promise, settle(resolve), settle(reject));
    });
  }

  /** The number of the last request of this worker. */
  let lastId = 0;

  /** Ends a request at the host, or the body of its response. */
  function cancelRequest(call, id) {
    // The host has ended all requests of an ended call.
    if (parts.isRunning(call)) ops.op_fetch_cancel(id);
  }

  /** Sends a request with a whole body: a string, bytes or null. */
  function transmit({ method, url, redirect }, headers, content, signal, failure) {
    const call = parts.runningCall();
    lastId = (lastId + 1) % MAX_ID;
    const id = lastId;
    const number = ops.op_fetch(method, url, parts.headerRowsJson(headers), bytesOf(content), redirect, id);
    return new Promise((resolve, reject) => {
      let release;
      const convert = ({ head, bytes, more }) => {
        if (method === "HEAD") {
          if (more) cancelRequest(call, id);
          return parts.receivedResponse(head, null);
        }
        return parts.receivedResponse(head, more ? receive(call, id, bytes, signal) : bytes);
      };
      const succeed = (response) => {
        release?.();
        resolve(response);
      };
      const fail = (cause) => {
        release?.();
        reject(setCause(failure, `fetch failed: ${cause.message}`, cause));
      };
      awaited(number, convert, succeed, fail);
      if (signal === null) return;
      release = parts.onAbort(signal, () => {
        forgetOp(number);
        if (ops.op_forget(number)) cancelRequest(call, id);
        reject(parts.abortReason(signal));
      });
    });
  }

  /** Returns the stream of a response's body, which begins with `first`. The host reads on as its reader does. */
  function receive(call, id, first, signal) {
    let release;
    let isOpen = true;
    const end = () => {
      isOpen = false;
      release?.();
    };
    /** The number of the op that reads the next bytes, until it is answered. */
    let number = 0;
    const read = () => new Promise((resolve, reject) => {
      const fail = (cause) => {
        end();
        reject(setCause(new TypeError(), "the body of the response broke off: " + cause.message, cause));
      };
      try {
        parts.requireRunning(call);
      } catch (error) {
        return fail(error);
      }
      number = ops.op_fetch_read(id);
      const succeed = (bytes) => {
        number = 0;
        if (bytes === undefined) end();
        resolve(bytes);
      };
      awaited(number, undefined, succeed, fail);
    });
    const next = () => {
      if (TypedArrayPrototypeGetLength(first) === 0) return read();
      const bytes = first;
      first = EMPTY;
      return PromiseResolve(bytes);
    };
    const stop = () => {
      if (!isOpen) return;
      end();
      if (number !== 0 && parts.isRunning(call)) {
        forgetOp(number);
        ops.op_forget(number);
      }
      cancelRequest(call, id);
    };
    const { stream, fail } = parts.pulledStream(next, stop);
    if (signal !== null) {
      release = parts.onAbort(signal, () => {
        if (!isOpen) return;
        stop();
        fail(parts.abortReason(signal));
      });
    }
    return stream;
  }

  const { fetch } = {
    fetch(input, init = undefined) {
      try {
        requireCall("fetch");
        refuseUnknown(init);
        return send(parts.readRequest(new Request(input, init)));
      } catch (error) {
        return PromiseReject(error);
      }
    },
  };

  // Not `defineOperation`, because a missing argument rejects.
  parts.operations.fetch = true;
  defineGlobal("fetch", fetch);
})(globalThis.__tollhouse);
