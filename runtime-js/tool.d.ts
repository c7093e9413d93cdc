/**
 * The declarations for a tool's handler: its arguments, its result, and the available globals.
 *
 * ```ts
 * export default async function (req: ToolRequest<{ text: string }>, ctx: ToolContext): Promise<ToolResult> {
 *   const calls = ((await ctx.kv.get<number>("calls")) ?? 0) + 1;
 *   await ctx.kv.set("calls", calls);
 *   return { text: req.body.text.toUpperCase(), calls };
 * }
 * ```
 *
 * A tool is one module. It cannot import anything or evaluate strings, and reaches the world only through `ctx`. A
 * process that has served a version keeps its module state for later calls of that version, but can end at any time.
 * Store data that must last in `ctx.kv` or `ctx.files`.
 *
 * Time stands still while a handler computes: `Date.now()` returns the start of the call, and advances with each
 * answer that you await from `ctx` or a timer.
 *
 * A call ends when its handler does. Writes to `ctx.kv` and `ctx.files` that you do not await are completed first.
 * Pending reads and timers are dropped.
 *
 * The web's globals that there are stand at the end of this file, and no others: no `fetch`, no `Buffer`,
 * no `process`, no `document`. Type-check a handler without the DOM's types:
 *
 * ```sh
 * tsc --noEmit --strict --lib es2023 tool.d.ts handler.ts
 * ```
 *
 * `Atomics`, `SharedArrayBuffer` and `WebAssembly` are not available, and `Intl` only if the host runs on V8. `eval`
 * and `Function` exist, because packages refer to them while they load, but throw an `EvalError`: code from strings
 * is not allowed.
 */

/**
 * Any JSON value. Other values are converted as `JSON.stringify` does, in results, in `ctx.kv` and in `ctx.files`:
 * `NaN`, `Infinity` and invalid dates become null; functions, symbols and undefined are left out (null in an array);
 * `Map`, `Set`, errors and promises become `{}`; a `BigInt` throws a `TypeError`. If a result loses values other than
 * undefined this way, the tool's log gets a warning.
 */
type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A handler: the default export of a tool's module. */
type ToolHandler<Input = any> = (req: ToolRequest<Input>, ctx: ToolContext) => ToolResult | Promise<ToolResult>;

/**
 * The result of a handler. A JSON value is sent with status 200, and `undefined` as `null`. A `Response` has its own status
 * and headers. Of the headers, the caller gets `content-type`, `content-language`, `content-disposition`, `location`,
 * `retry-after` and `link`, 8 KiB at most. A status from 300 to 399 with `location` fails the call: clients would send the
 * caller's payment or key to that address.
 *
 * A call is not charged if the handler throws, returns a value without a JSON form, or sends `application/json` with
 * a body that is not JSON. It is not charged either if the status is not 2xx, or the result consists of MCP content
 * blocks (`application/vnd.mcp.tool-result+json`) with `isError: true`.
 *
 * Every way to call returns the same result. If the caller gets JSON, a body that is not JSON becomes
 * `{ mediaType, text }` for `text/*` in UTF-8, else `{ mediaType, base64 }`. Over MCP it becomes a content block of its kind.
 */
type ToolResult = unknown | Response;

/** The request of a call. */
interface ToolRequest<Input = any> {
  /** `POST` or `GET`. */
  readonly method: string;
  /** The complete URL that the caller requested. Over MCP, the URL of the tool. */
  readonly url: string;
  readonly path: string;
  /**
   * The query parameters. If a name repeats, the last value counts, as in `Object.fromEntries(url.searchParams)`. The
   * input of a GET is built from the query by `inputSchema`, including lists. Has no prototype: a name that was not
   * sent is undefined.
   */
  readonly query: Record<string, string>;
  /**
   * The request headers in an allow-list, with lowercase names: `accept`, `accept-language`, `content-type`,
   * `user-agent`, `traceparent`, `tracestate`. Never contains credentials or payments. Has no prototype, like
   * `query`.
   */
  readonly headers: Record<string, string>;
  /** The input, already validated against the tool's `inputSchema`. */
  readonly body: Input;
  /** The same value as `body`. */
  readonly input: Input;
  /**
   * The JSON text of the input as the caller sent it, also over MCP. It keeps the digits of numbers that exceed the
   * precision of a double. For a GET, the JSON that the host built from the query.
   */
  readonly inputText: string;
  readonly caller: ToolCaller;
  /** @deprecated Exists on a web `Request`, but not here: a call does not compile, and throws. Use `input`. */
  json(use: "input"): never;
  /** @deprecated Throws. Use `input`. */
  text(use: "input"): never;
  /** @deprecated Throws. Use `input`. */
  arrayBuffer(use: "input"): never;
  /** @deprecated Throws. Use `input`. */
  bytes(use: "input"): never;
  /** @deprecated Throws. Use `input`. */
  blob(use: "input"): never;
  /** @deprecated Throws. Use `input`. */
  formData(use: "input"): never;
}

interface ToolCaller {
  /** The paying address, shortened. Absent for a free call or one paid by credit. */
  readonly payer?: string;
  /** Whether this call is free of charge. */
  readonly free: boolean;
  /** The id of the receipt that this call gets if it succeeds. */
  readonly receiptId: string;
  /**
   * The id of the payment. Use it as an idempotency key for side effects.
   *
   * If the host crashes after a run and before the settlement, nothing is charged, and a retry with the same payment
   * runs the handler again. A retry after a failed run does so too, possibly with another input. `paymentId` is the
   * same in both runs, even after a restart. Effects of the earlier run, outside or in `ctx.kv` and `ctx.files`,
   * remain.
   *
   * For a call on credit it is the same for the same `Idempotency-Key`. Without that header each call has its own,
   * and no crash repeats it. Absent for free calls and the owner's calls, which no crash repeats either.
   */
  readonly paymentId?: string;
}

/**
 * The functions that a handler can use. A member that needs a capability rejects with `not_granted` until that is granted.
 *
 * A `ctx` belongs to its call. After the end of the call each member rejects or throws with `call_ended`, even while
 * another call runs, so that a charge, a log line or a progress message never counts for another call. So await what
 * a call begins. If calls share a promise, let each use its own `ctx`.
 *
 * An unknown option throws a `TypeError` that lists the known ones, and nothing is sent.
 */
interface ToolContext {
  /** Capability `kv`. */
  readonly kv: ToolKv;
  /** Capability `files`. */
  readonly files: ToolFiles;
  /**
   * The endpoint's secrets by name, as of the start of the call. Frozen. A secret that is not set, or is only for
   * `auth`, is undefined.
   *
   * The host hides values of 8 bytes or more in results, errors and logs: verbatim and in base64, hex,
   * percent-encoding and JSON escapes. It does not find values that a handler encodes differently, splits, or stores
   * in `ctx.kv` or `ctx.files`. If the handler need not read a secret, set it with `visibility: "auth"` and send it
   * with `httpGetJson(url, { auth })`.
   */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Capability `logs`. `console` writes the same lines. */
  readonly log: ToolLog;
  /** Capability `httpGetJson`. Requests JSON from one of the endpoint's allowed hosts. */
  readonly httpGetJson: <T = any>(url: string | URL, options?: HttpGetJsonOptions) => Promise<HttpGetJsonResult<T>>;
  /**
   * Reports progress to the caller: as a `progress` event of a stream, or over MCP as a progress notification or a
   * task's status. Other callers get nothing. It needs no capability, and is sent when the handler next waits for
   * `ctx` or a timer.
   *
   * `fraction` is the completed fraction, from 0 to 1. A message is cut at 512 bytes.
   * Messages beyond 20 in a second or 256 in a call are dropped, unless the endpoint's limits differ. Secrets are
   * hidden as in logs. Throws a `TypeError` if an argument is invalid.
   */
  readonly progress: (message: string, fraction?: number) => void;
  /**
   * Sets the price of this call, if the endpoint has a `maxPriceUsd`: dollars with at most 6 decimals, as a number or
   * a decimal string. At most `maxPriceUsd`, which the payer has authorized. The last amount counts. It needs no
   * capability, and also works in the owner's free calls, where nothing is charged.
   *
   * Without it a call costs `priceUsd`, which can be 0. A call that costs nothing settles nothing. Only a call that
   * succeeds is charged. Rejects with `invalid_argument` if the amount is invalid, exceeds the maximum, or the
   * endpoint has a fixed price. The previous amount remains then.
   */
  readonly charge: (usd: number | string) => Promise<void>;
}

/** Keys and JSON values of this endpoint. A key is at most 512 bytes, a value at most 64 KiB as JSON unless limits say otherwise. */
interface ToolKv {
  /** Returns the value, or null if there is none. */
  get<T = any>(key: string): Promise<T | null>;
  /** Sets a value. `ttlMs`: the key expires after this many milliseconds. There are no other options. */
  set(key: string, value: unknown, options?: { ttlMs?: number }): Promise<void>;
  /** Deletes a key, whether it exists or not. */
  delete(key: string): Promise<void>;
  /**
   * Lists keys in byte order. `limit` is 100 unless given, at most 1000; pass the `cursor` of a page to get the next.
   */
  list<T = any>(options?: { prefix?: string; limit?: number; cursor?: string | null }): Promise<{
    entries: { key: string; value: T }[];
    cursor: string | null;
  }>;
  /** Starts a transaction: its writes are applied together or not at all. */
  atomic(): ToolAtomic;
}

/** A transaction. Add checks and writes, then call `commit()` once. */
interface ToolAtomic {
  /** Requires that `key` holds exactly this value at commit. null or undefined requires that it is absent. */
  check(key: string, value?: unknown): this;
  set(key: string, value: unknown, options?: { ttlMs?: number }): this;
  delete(key: string): this;
  /** Adds a whole number to the value of `key`. An absent value counts as 0. Never loses an update. */
  add(key: string, by: number): this;
  /** The same as `add`. */
  sum(key: string, by: number): this;
  /** Applies the writes. `ok` is false, and nothing is written, if a check failed. */
  commit(): Promise<{ ok: boolean }>;
}

/** Files of this endpoint, by path. */
interface ToolFiles {
  /** Returns the bytes, or null if there is no such file. */
  read(path: string): Promise<Uint8Array | null>;
  readText(path: string): Promise<string | null>;
  readJson<T = any>(path: string): Promise<T | null>;
  /** Writes a string as UTF-8, bytes as they are, and anything else as JSON. */
  write(path: string, content: string | ArrayBuffer | ArrayBufferView | Json): Promise<void>;
  delete(path: string): Promise<void>;
  list(options?: { prefix?: string; limit?: number; cursor?: string | null }): Promise<{
    files: { path: string; size: number; modifiedAt: string }[];
    cursor: string | null;
  }>;
}

/**
 * The log of this call, which only the tool's owner can read. Calling it directly logs at level `info`. Errors are
 * shown with their stack and causes, wherever they occur in a value. If a line is too long, its fields are cut: `{
 * "cut": "…" }`.
 */
interface ToolLog {
  (message: unknown, fields?: object): void;
  debug(message: unknown, fields?: object): void;
  info(message: unknown, fields?: object): void;
  warn(message: unknown, fields?: object): void;
  error(message: unknown, fields?: object): void;
}

interface HttpGetJsonOptions {
  headers?: ToolHeadersInit;
  /** Milliseconds, at most the limit of the endpoint: 5,000 unless raised. */
  timeoutMs?: number;
  /**
   * Sends the secret `env` in the header `header` to the URL's own host, never to a redirect target. The handler does
   * not see it.
   */
  auth?: { header: string; env: string };
}

/**
 * An answer with any status. It is parsed as JSON if its type is `application/json` or `…+json`. It is also parsed if
 * its type is `text/*`, bytes, JavaScript or missing and the body is JSON. gzip and deflate are decoded. Otherwise
 * the call rejects with `not_json`, and the error has the answer's `status`.
 */

interface HttpGetJsonResult<T = any> {
  status: number;
  /** Names in lowercase. */
  headers: Record<string, string>;
  json: T;
}

/**
 * The error that an operation rejects with. `code` is for programs: `not_granted`, `quota_exceeded`,
 * `invalid_argument`, `forbidden_address`, `timeout`, `not_json`, `call_ended`, ...
 */
interface ToolError extends Error {
  readonly name: "ToolError";
  readonly code: string;
  /** If an answer of `httpGetJson` is not JSON: its status, for example 404. */
  readonly status?: number;
}

// The web's globals that a handler has.

/** Bytes, as an `ArrayBuffer` or a view of one. */
type ToolBytes = ArrayBuffer | ArrayBufferView;

/** An answer with status, headers and any body. Return it if a JSON value alone is not enough. */
interface Response {
  readonly status: number;
  readonly statusText: string;
  readonly ok: boolean;
  readonly headers: Headers;
  readonly type: "default";
  readonly url: string;
  readonly redirected: boolean;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  clone(): Response;
}
interface ToolResponseInit {
  /** From 200 to 599, except 401, 402 and 407, which only the host sends. Fractions are truncated. Default: 200. */
  status?: number;
  statusText?: string;
  headers?: ToolHeadersInit;
}
declare var Response: {
  readonly prototype: Response;
  new (body?: string | ToolBytes | URLSearchParams | null, init?: ToolResponseInit): Response;
  json(value: unknown, init?: ToolResponseInit): Response;
  /** A whole URL. `status` is 302 unless given. As an answer it fails the call: no tool redirects its callers. */
  redirect(url: string | URL, status?: number): Response;
  /** Throws, because an answer needs a status. */
  error(): never;
};

type ToolHeadersInit = Headers | Record<string, string> | readonly (readonly [string, string])[] | Iterable<readonly [string, string]>;
interface Headers {
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  getSetCookie(): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(callback: (value: string, name: string, headers: Headers) => void, self?: any): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
declare var Headers: {
  readonly prototype: Headers;
  new (init?: ToolHeadersInit): Headers;
};

interface URL {
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}
declare var URL: {
  readonly prototype: URL;
  new (url: string | URL, base?: string | URL): URL;
  canParse(url: string | URL, base?: string | URL): boolean;
  parse(url: string | URL, base?: string | URL): URL | null;
};

interface URLSearchParams {
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(callback: (value: string, name: string, params: URLSearchParams) => void, self?: any): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}
declare var URLSearchParams: {
  readonly prototype: URLSearchParams;
  new (
    init?: string | URLSearchParams | Record<string, string> | readonly (readonly [string, string])[] | Iterable<readonly [string, string]>,
  ): URLSearchParams;
};

interface TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
  encodeInto(text: string, target: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: {
  readonly prototype: TextEncoder;
  new (): TextEncoder;
};

interface TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  /**
   * With `stream`, more of the text follows in this call. Unfinished text is dropped at the end of the call.
   * At most 256 texts are decoded in pieces at once. With `fatal`, throws a `TypeError` for invalid bytes.
   */
  decode(input?: ToolBytes, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  readonly prototype: TextDecoder;
  /**
   * `label`: any label of the [Encoding standard](https://encoding.spec.whatwg.org/#names-and-labels) except those of
   * `replacement`. Throws a `RangeError` for others. Default: UTF-8.
   */
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

declare function atob(data: string): string;
declare function btoa(data: string): string;

/**
 * Clones plain data, `Map`, `Set`, `Date`, `RegExp`, errors, `DOMException`, buffers and their views, with cycles.
 */
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;

/**
 * Random values and digests. There are no keys or ciphers: bundle a package, for example `@noble/hashes` for HMAC.
 */
interface Crypto {
  getRandomValues<
    T extends
      | Int8Array
      | Uint8Array
      | Uint8ClampedArray
      | Int16Array
      | Uint16Array
      | Int32Array
      | Uint32Array
      | BigInt64Array
      | BigUint64Array,
  >(array: T): T;
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
  readonly subtle: SubtleCrypto;
}
interface SubtleCrypto {
  /** `SHA-1`, `SHA-256`, `SHA-384` or `SHA-512`. */
  digest(algorithm: string | { name: string }, data: ToolBytes): Promise<ArrayBuffer>;
}
declare var crypto: Crypto;

interface Event {
  readonly type: string;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly defaultPrevented: boolean;
  readonly target: EventTarget | null;
  readonly srcElement: EventTarget | null;
  readonly currentTarget: EventTarget | null;
  readonly eventPhase: number;
  readonly timeStamp: number;
  readonly isTrusted: boolean;
  composedPath(): EventTarget[];
  preventDefault(): void;
  stopPropagation(): void;
  stopImmediatePropagation(): void;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
}
interface ToolEventInit {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}
declare var Event: {
  readonly prototype: Event;
  new (type: string, init?: ToolEventInit): Event;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};

interface CustomEvent<T = any> extends Event {
  readonly detail: T;
}
declare var CustomEvent: {
  readonly prototype: CustomEvent;
  new <T = any>(type: string, init?: ToolEventInit & { detail?: T }): CustomEvent<T>;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};

type ToolEventListener = ((event: Event) => void) | { handleEvent(event: Event): void };
interface EventTarget {
  addEventListener(
    type: string,
    listener: ToolEventListener | null,
    options?: boolean | { capture?: boolean; once?: boolean; signal?: AbortSignal },
  ): void;
  removeEventListener(type: string, listener: ToolEventListener | null, options?: boolean | { capture?: boolean }): void;
  dispatchEvent(event: Event): boolean;
}
declare var EventTarget: {
  readonly prototype: EventTarget;
  new (): EventTarget;
};

interface AbortSignal extends EventTarget {
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: Event) => void) | null;
  throwIfAborted(): void;
}
declare var AbortSignal: {
  readonly prototype: AbortSignal;
  abort(reason?: any): AbortSignal;
  any(signals: Iterable<AbortSignal>): AbortSignal;
  timeout(ms: number): AbortSignal;
};

interface AbortController {
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}
declare var AbortController: {
  readonly prototype: AbortController;
  new (): AbortController;
};

/** The error of `atob`, `structuredClone`, aborts and others. */
interface DOMException extends Error {
  readonly name: string;
  readonly message: string;
  readonly code: number;
  readonly INDEX_SIZE_ERR: number;
  readonly DOMSTRING_SIZE_ERR: number;
  readonly HIERARCHY_REQUEST_ERR: number;
  readonly WRONG_DOCUMENT_ERR: number;
  readonly INVALID_CHARACTER_ERR: number;
  readonly NO_DATA_ALLOWED_ERR: number;
  readonly NO_MODIFICATION_ALLOWED_ERR: number;
  readonly NOT_FOUND_ERR: number;
  readonly NOT_SUPPORTED_ERR: number;
  readonly INUSE_ATTRIBUTE_ERR: number;
  readonly INVALID_STATE_ERR: number;
  readonly SYNTAX_ERR: number;
  readonly INVALID_MODIFICATION_ERR: number;
  readonly NAMESPACE_ERR: number;
  readonly INVALID_ACCESS_ERR: number;
  readonly VALIDATION_ERR: number;
  readonly TYPE_MISMATCH_ERR: number;
  readonly SECURITY_ERR: number;
  readonly NETWORK_ERR: number;
  readonly ABORT_ERR: number;
  readonly URL_MISMATCH_ERR: number;
  readonly QUOTA_EXCEEDED_ERR: number;
  readonly TIMEOUT_ERR: number;
  readonly INVALID_NODE_TYPE_ERR: number;
  readonly DATA_CLONE_ERR: number;
}
declare var DOMException: {
  readonly prototype: DOMException;
  new (message?: string, name?: string | { name?: string; cause?: unknown }): DOMException;
  readonly INDEX_SIZE_ERR: number;
  readonly DOMSTRING_SIZE_ERR: number;
  readonly HIERARCHY_REQUEST_ERR: number;
  readonly WRONG_DOCUMENT_ERR: number;
  readonly INVALID_CHARACTER_ERR: number;
  readonly NO_DATA_ALLOWED_ERR: number;
  readonly NO_MODIFICATION_ALLOWED_ERR: number;
  readonly NOT_FOUND_ERR: number;
  readonly NOT_SUPPORTED_ERR: number;
  readonly INUSE_ATTRIBUTE_ERR: number;
  readonly INVALID_STATE_ERR: number;
  readonly SYNTAX_ERR: number;
  readonly INVALID_MODIFICATION_ERR: number;
  readonly NAMESPACE_ERR: number;
  readonly INVALID_ACCESS_ERR: number;
  readonly VALIDATION_ERR: number;
  readonly TYPE_MISMATCH_ERR: number;
  readonly SECURITY_ERR: number;
  readonly NETWORK_ERR: number;
  readonly ABORT_ERR: number;
  readonly URL_MISMATCH_ERR: number;
  readonly QUOTA_EXCEEDED_ERR: number;
  readonly TIMEOUT_ERR: number;
  readonly INVALID_NODE_TYPE_ERR: number;
  readonly DATA_CLONE_ERR: number;
};

/** Timers end with their call. If a callback throws, the log gets a line. */
declare function setTimeout<A extends any[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function setInterval<A extends any[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearTimeout(timer?: number): void;
declare function clearInterval(timer?: number): void;
declare function queueMicrotask(callback: () => void): void;

/**
 * Writes to the same log as `ctx.log`, with capability `logs`, for the running call. If the first value is a string
 * it can contain `%s`, `%d`, `%i`, `%f`, `%o`, `%O`, `%c` and `%%`.
 */
interface Console {
  debug(...values: any[]): void;
  log(...values: any[]): void;
  info(...values: any[]): void;
  warn(...values: any[]): void;
  error(...values: any[]): void;
  trace(...values: any[]): void;
  /** The options are ignored. */
  dir(value?: any, options?: any): void;
  dirxml(...values: any[]): void;
  table(data?: any, columns?: any): void;
  group(...values: any[]): void;
  groupCollapsed(...values: any[]): void;
  groupEnd(): void;
  clear(): void;
  assert(holds?: boolean, ...values: any[]): void;
  count(label?: string): void;
  countReset(label?: string): void;
  time(label?: string): void;
  timeLog(label?: string, ...values: any[]): void;
  timeEnd(label?: string): void;
  /** Does nothing, like the next two. */
  timeStamp(label?: string): void;
  profile(label?: string): void;
  profileEnd(label?: string): void;
}
declare var console: Console;

/** Uses the same clock as `Date`, which stands still while a handler computes. */
interface Performance {
  /** Milliseconds since the call began. */
  now(): number;
  readonly timeOrigin: number;
  /** Marks and measures belong to the call. Only the newest 1,000 are stored. */
  mark(name: string, options?: { detail?: any; startTime?: number }): ToolPerformanceEntry;
  measure(
    name: string,
    from?: string | { start?: string | number; end?: string | number; detail?: any },
    to?: string,
  ): ToolPerformanceEntry;
  clearMarks(name?: string): void;
  clearMeasures(name?: string): void;
  getEntries(): ToolPerformanceEntry[];
  getEntriesByName(name: string, type?: string): ToolPerformanceEntry[];
  getEntriesByType(type: string): ToolPerformanceEntry[];
  toJSON(): { timeOrigin: number };
}
interface ToolPerformanceEntry {
  readonly name: string;
  readonly entryType: string;
  readonly startTime: number;
  readonly duration: number;
  readonly detail: any;
}
declare var performance: Performance;

declare var self: typeof globalThis;
