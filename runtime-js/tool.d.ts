/**
 * What a tool's handler gets and what it may answer.
 *
 * ```ts
 * export default async function (req: ToolRequest<{ text: string }>, ctx: ToolContext): Promise<ToolResult> {
 *   const calls = ((await ctx.kv.get<number>("calls")) ?? 0) + 1;
 *   await ctx.kv.set("calls", calls);
 *   return { text: req.body.text.toUpperCase(), calls };
 * }
 * ```
 *
 * A tool is one module. It imports nothing, evaluates no strings, and reaches the world through `ctx` alone.
 * A process that has served a version keeps its module state for later calls of that version, and may end at
 * any time: what must last belongs in `ctx.kv` or `ctx.files`.
 *
 * Time stands still while a handler computes: `Date.now()` is the start of the call, and moves on with each answer
 * to something awaited from `ctx` or a timer.
 *
 * A call ends when its handler does. Writes to `ctx.kv` and `ctx.files` that nobody awaits are done before that; reads and
 * timers left behind are forgotten.
 *
 * The web's globals that there are stand at the end of this file, and no others: no `fetch`, no `Buffer`, no `process`, no
 * `document`. Check a handler without the DOM's types:
 *
 * ```sh
 * tsc --noEmit --strict --lib es2023 tool.d.ts handler.ts
 * ```
 *
 * Of the language, `Atomics`, `SharedArrayBuffer` and `WebAssembly` are not there, and `Intl` only where the host runs on V8. `eval` and
 * `Function` are there, because packages name them as they load, and throw an `EvalError`: code from strings is not available.
 */

/**
 * Anything that JSON can say. Of what it cannot say, in an answer, in `ctx.kv` and in `ctx.files`: `NaN`, `Infinity` and invalid dates become null,
 * functions, symbols and undefined are left out (null in an array), `Map`, `Set`, errors and promises become `{}`, and a `BigInt` is a
 * `TypeError`. Of an answer the tool's log warns of that, but for undefined.
 */
type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A handler: the default export of a tool's module. */
type ToolHandler<Input = any> = (req: ToolRequest<Input>, ctx: ToolContext) => ToolResult | Promise<ToolResult>;

/**
 * What a handler answers. A JSON value is a 200 with it; nothing at all is `null`. A `Response` says status and headers too: of
 * the headers `content-type`, `content-language`, `content-disposition`, `location`, `retry-after` and `link` are told, 8 KiB at most.
 * A status from 300 to 399 with `location` fails the call: clients would send the caller's payment or key to that address.
 * A call that throws, answers what JSON cannot say, or says `application/json` of what is not JSON, is not charged; nor is
 * one with a status other than 2xx, or one of MCP's own blocks (`application/vnd.mcp.tool-result+json`) with `isError: true`.
 *
 * Every way to call gives the same. Where the caller gets JSON, a body that is not JSON is `{ mediaType, text }` if it is `text/*` in
 * UTF-8, else `{ mediaType, base64 }`; over MCP it is a block of its kind.
 */
type ToolResult = unknown | Response;

/** The call. */
interface ToolRequest<Input = any> {
  /** `POST` or `GET`. */
  readonly method: string;
  /** The whole URL, as the caller asked for it; over MCP that of the tool. */
  readonly url: string;
  readonly path: string;
  /**
   * The query's parameters; of a name that repeats the last, as `Object.fromEntries(url.searchParams)` has it. The
   * input of a GET is made of the query by `inputSchema`, and has lists. Without a prototype: a name that was not sent is undefined.
   */
  readonly query: Record<string, string>;
  /**
   * Of the request's headers those in an allow-list, names in lower case: `accept`, `accept-language`, `content-type`,
   * `user-agent`, `traceparent`, `tracestate`. Never credentials, never payment. Without a prototype, as `query`.
   */
  readonly headers: Record<string, string>;
  /** The input, already checked against the tool's `inputSchema`. */
  readonly body: Input;
  /** The same value as `body`. */
  readonly input: Input;
  /**
   * The JSON text of the input, as the caller sent it, over MCP too: with the digits of numbers that a double does not hold. Of a
   * GET it is what the host made of the query.
   */
  readonly inputText: string;
  readonly caller: ToolCaller;
  /** @deprecated As a web `Request` has it, and this has not: no call compiles, and each throws. Use `input`. */
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
  /** Address that pays, shortened; absent for a free call or one paid by credit. */
  readonly payer?: string;
  /** Whether nothing is charged for this call. */
  readonly free: boolean;
  /** The receipt this call gets if it succeeds. */
  readonly receiptId: string;
  /**
   * What the call is paid with: the key by which to do once what must happen once. A host that ended between a run and its
   * settlement, where nothing was charged, runs the handler again when the same payment is shown again, and so it does after a run
   * that failed. The payment has the same name then, after a restart too; a run that failed may be followed by one with another
   * input. What the run before did outside, or wrote to `ctx.kv` and `ctx.files`, stays done.
   *
   * Of a call on credit it is the same for the same `Idempotency-Key`; without one each call has its own, and no crash repeats
   * it. Absent where nobody pays: for a free call and the owner's, which no crash repeats either.
   */
  readonly paymentId?: string;
}

/**
 * What a handler may reach. Each part works once its capability is granted, and else rejects with `not_granted`.
 *
 * It belongs to its call. When that has ended each member rejects or throws with `call_ended`, also while another call runs: a charge, a
 * log line or a progress message is never another call's. So await what a call begins, and where calls share a promise let each
 * use its own `ctx`.
 *
 * An option that a function does not have is a `TypeError` that names those it has. Nothing is sent then.
 */
interface ToolContext {
  /** Capability `kv`. */
  readonly kv: ToolKv;
  /** Capability `files`. */
  readonly files: ToolFiles;
  /**
   * The endpoint's secrets by name, as they are when the call starts. Frozen; one that is not set, or is for `auth` only, is
   * undefined. The host hides their values, where they have 8 bytes or more, in results, errors and logs: as they are and in
   * base64, hex, percent-encoding and JSON escapes. It does not find what a handler encodes in a way of its own, cuts to
   * pieces, or stores in `ctx.kv` or `ctx.files`. A secret that the handler need not read is better set with
   * `visibility: "auth"` and sent with `httpGetJson(url, { auth })`.
   */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Capability `logs`. `console` writes the same lines. */
  readonly log: ToolLog;
  /** Capability `httpGetJson`. Asks one of the endpoint's allowed hosts for JSON. */
  readonly httpGetJson: <T = any>(url: string | URL, options?: HttpGetJsonOptions) => Promise<HttpGetJsonResult<T>>;
  /**
   * Tells the caller how far the call is: a `progress` event for who streams, a progress notification or a task's status over
   * MCP, nothing for others. It needs no capability, and goes out when the handler next waits for `ctx` or a timer.
   *
   * `fraction` is how much is done, from 0 to 1. A message is cut at 512 bytes, and those beyond 20 in a second or 256 in a call are
   * dropped, unless the endpoint's limits say otherwise. Secrets are hidden in it as in logs. Throws a `TypeError` for
   * what is no string and no such number.
   */
  readonly progress: (message: string, fraction?: number) => void;
  /**
   * Says what this call costs, where the endpoint has a `maxPriceUsd`: dollars with at most 6 decimals, as a number or as decimal text.
   * At most `maxPriceUsd`, which the payer has authorised; the last amount counts. It needs no capability, and is there for the
   * owner's free calls too, where nothing is taken.
   *
   * A call that does not say costs `priceUsd`, which may be nothing. One that costs nothing settles nothing. Only a call that
   * succeeds is charged. Rejects with `invalid_argument` for what is no amount, is more than the most, or on an endpoint whose
   * price is fixed; what was said before stays then.
   */
  readonly charge: (usd: number | string) => Promise<void>;
}

/** Keys and JSON values of this endpoint. A key is at most 512 bytes, a value at most 64 KiB as JSON unless limits say otherwise. */
interface ToolKv {
  /** The value, or null when there is none. */
  get<T = any>(key: string): Promise<T | null>;
  /** `ttlMs`: after so many milliseconds the key is gone. It has no other option. */
  set(key: string, value: unknown, options?: { ttlMs?: number }): Promise<void>;
  /** Whether the key was there or not. */
  delete(key: string): Promise<void>;
  /** Keys in byte order. `limit` is 100 unless given, at most 1000; `cursor` of one page begins the next. */
  list<T = any>(options?: { prefix?: string; limit?: number; cursor?: string | null }): Promise<{
    entries: { key: string; value: T }[];
    cursor: string | null;
  }>;
  /** Writes that happen together, or not at all. */
  atomic(): ToolAtomic;
}

/** Built up, then `commit()`ted once. */
interface ToolAtomic {
  /** Wants `key` to hold exactly this value at commit; null or nothing wants it absent. */
  check(key: string, value?: unknown): this;
  set(key: string, value: unknown, options?: { ttlMs?: number }): this;
  delete(key: string): this;
  /** Adds a whole number to the one at `key`, absent counting as 0. Never loses an update. */
  add(key: string, by: number): this;
  /** The same as `add`. */
  sum(key: string, by: number): this;
  /** `ok` is false, and nothing is written, when a check did not hold. */
  commit(): Promise<{ ok: boolean }>;
}

/** Files of this endpoint, by path. */
interface ToolFiles {
  /** The bytes, or null when there is no such file. */
  read(path: string): Promise<Uint8Array | null>;
  readText(path: string): Promise<string | null>;
  readJson<T = any>(path: string): Promise<T | null>;
  /** A string as UTF-8, bytes as they are, anything else as JSON. */
  write(path: string, content: string | ArrayBuffer | ArrayBufferView | Json): Promise<void>;
  delete(path: string): Promise<void>;
  list(options?: { prefix?: string; limit?: number; cursor?: string | null }): Promise<{
    files: { path: string; size: number; modifiedAt: string }[];
    cursor: string | null;
  }>;
}

/**
 * Lines of this call's log, which the tool's owner alone can read. Calling it is `info`. Errors are shown with their stack and causes, wherever
 * they stand. Where a line is too long for its fields, they are cut: `{ "cut": "…" }`.
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
  /** At most the limit of the endpoint, 5,000 unless raised. */
  timeoutMs?: number;
  /** Sends the secret named `env` in the header `header` to the URL's own host, never to one it redirects to. The handler need not hold it. */
  auth?: { header: string; env: string };
}

/**
 * The answer, whatever its status. It is read as JSON where it says `application/json` or `…+json`, and where it says `text/*`, bytes, JavaScript
 * or nothing and is JSON; in gzip and deflate too. What is no JSON rejects with `not_json`, and the error has the answer's `status`.
 */

interface HttpGetJsonResult<T = any> {
  status: number;
  /** Names in lower case. */
  headers: Record<string, string>;
  json: T;
}

/**
 * What an op rejects with. `code` is for programs: `not_granted`, `quota_exceeded`, `invalid_argument`, `forbidden_address`,
 * `timeout`, `not_json`, `call_ended`, ...
 */
interface ToolError extends Error {
  readonly name: "ToolError";
  readonly code: string;
  /** Of an answer of `httpGetJson` that is no JSON: its status, such as 404. */
  readonly status?: number;
}

// The web's globals that a handler has.

/** Bytes, as an `ArrayBuffer` or a view of one. */
type ToolBytes = ArrayBuffer | ArrayBufferView;

/** What a handler answers when a JSON value alone does not do. */
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
  /** From 200 to 599; 401, 402 and 407 are the host's own. A fraction is cut off. Default: 200. */
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
  /** Throws: a tool answers with a status. */
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
   * With `stream`, more of the text is to come, in this call: what a call leaves unfinished is forgotten at its end.
   * At most 256 texts are decoded in pieces at once. With `fatal`, throws a `TypeError` for what is not in the encoding.
   */
  decode(input?: ToolBytes, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  readonly prototype: TextDecoder;
  /**
   * `label`: any label of the [Encoding standard](https://encoding.spec.whatwg.org/#names-and-labels) but those of
   * `replacement`; a `RangeError` for others. UTF-8 unless given.
   */
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

declare function atob(data: string): string;
declare function btoa(data: string): string;

/** Plain data, `Map`, `Set`, `Date`, `RegExp`, errors, `DOMException`, buffers and their views, with cycles. */
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;

/** Random values and digests. Keys and ciphers are not here: bundle a package, for example `@noble/hashes` for HMAC. */
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

/** What `atob`, `structuredClone`, aborts and others throw. */
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

/** Timers of a call end with it; a callback that throws is a line of the log. */
declare function setTimeout<A extends any[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function setInterval<A extends any[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
declare function clearTimeout(timer?: number): void;
declare function clearInterval(timer?: number): void;
declare function queueMicrotask(callback: () => void): void;

/**
 * Writes the lines that `ctx.log` writes, with capability `logs`, for the call that runs. A first text may have `%s`, `%d`, `%i`, `%f`, `%o`,
 * `%O`, `%c` and `%%`.
 */
interface Console {
  debug(...values: any[]): void;
  log(...values: any[]): void;
  info(...values: any[]): void;
  warn(...values: any[]): void;
  error(...values: any[]): void;
  trace(...values: any[]): void;
  /** The options are not shown. */
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
  /** Does nothing, as the next two. */
  timeStamp(label?: string): void;
  profile(label?: string): void;
  profileEnd(label?: string): void;
}
declare var console: Console;

/** The same clock as `Date`: it stands still while a handler computes. */
interface Performance {
  /** Milliseconds since the call began. */
  now(): number;
  readonly timeOrigin: number;
  /** Marks and measures are of the call, and the newest 1,000 are kept. */
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
