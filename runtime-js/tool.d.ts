/**
 * The declarations for a tool's handler: its arguments, its result and its globals.
 *
 * A tool is one module. Its default export is the handler:
 *
 * ```ts
 * export default async function (req: ToolRequest<{ text: string }>, ctx: ToolContext): Promise<ToolResult> {
 *   const calls = ((await ctx.kv.get<number>("calls")) ?? 0) + 1;
 *   await ctx.kv.set("calls", calls);
 *   return { text: req.input.text.toUpperCase(), calls };
 * }
 * ```
 *
 * - The module cannot import anything or evaluate strings. `tollhouse deploy` bundles imports
 *   first.
 * - It reaches the world only through `ctx`. There is no `fetch`, `Buffer`, `process` or
 *   `document`.
 * - A process keeps its module state for later calls of the same version, but can end at any time.
 *   Store data that must last in `ctx.kv` or `ctx.files`.
 * - A call ends when its handler does. Pending writes to `ctx.kv` and `ctx.files` are completed
 *   first; pending reads and timers are dropped.
 * - Time stands still while a handler computes. `Date.now()` returns the start of the call, and
 *   advances with each answer that you await from `ctx` or a timer.
 * - `Atomics`, `SharedArrayBuffer` and `WebAssembly` are not available. `Intl` is available on V8
 *   only.
 * - `eval` and `Function` exist, because packages refer to them while they load. They throw an
 *   `EvalError`.
 *
 * The end of this file declares the web's globals, and there are no others. Check the types of a
 * handler without the DOM:
 *
 * ```sh
 * tsc --noEmit --strict --target es2023 --lib es2023 tool.d.ts handler.ts
 * ```
 */

/**
 * Any JSON value.
 *
 * Results and values of `ctx.kv` and `ctx.files` are converted as `JSON.stringify` does:
 *
 * - `NaN`, `Infinity` and invalid dates become null.
 * - Functions, symbols and undefined are omitted, and become null in an array.
 * - `Map`, `Set`, errors and promises become `{}`.
 * - A `BigInt` throws a `TypeError`.
 *
 * If a result loses values other than undefined this way, the tool's log gets a warning.
 */
type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * A handler: the default export of a tool's module.
 *
 * @example
 * ```ts
 * const handler: ToolHandler<{ text: string }> = (req) => ({ text: req.input.text.toUpperCase() });
 * export default handler;
 * ```
 */
type ToolHandler<Input = any> = (req: ToolRequest<Input>, ctx: ToolContext) => ToolResult | Promise<ToolResult>;

/**
 * The result of a handler: a JSON value, or a `Response`.
 *
 * A JSON value has status 200, and `undefined` is sent as `null`. A `Response` has its own status
 * and headers. The caller gets these headers, 8 KiB at most: `content-type`, `content-language`,
 * `content-disposition`, `location`, `retry-after` and `link`.
 *
 * The call fails and is not charged if:
 *
 * - the handler throws, or returns a value without a JSON form
 * - the type is `application/json` and the body is not JSON
 * - the status is not 2xx
 * - the status is from 300 to 399 with `location`, because clients would send the caller's payment
 *   or key to that address
 * - the result is MCP content blocks (`application/vnd.mcp.tool-result+json`) with `isError: true`
 *
 * Every way to call returns the same result. If the caller gets JSON, another body becomes
 * `{ mediaType, text }` for `text/*` in UTF-8, else `{ mediaType, base64 }`. Over MCP it becomes a
 * content block of its kind.
 *
 * @example
 * ```ts
 * export default function (req: ToolRequest<{ id: number }>): ToolResult {
 *   if (req.input.id === 0) return Response.json({ error: "unknown id" }, { status: 404 });
 *   return new Response("<svg/>", { headers: { "content-type": "image/svg+xml" } });
 * }
 * ```
 */
type ToolResult = unknown | Response;

/**
 * The request of a call.
 *
 * @example
 * ```ts
 * export default (req: ToolRequest<{ text: string }>): ToolResult => ({
 *   text: req.input.text,
 *   language: req.headers["accept-language"] ?? "en",
 * });
 * ```
 */
interface ToolRequest<Input = any> {
  /** The HTTP method: `POST` or `GET`. */
  readonly method: string;
  /** The complete URL that the caller requested. Over MCP, the URL of the tool. */
  readonly url: string;
  /** The path of the URL, for example `/tools/shout`. */
  readonly path: string;
  /**
   * The query parameters, by name.
   *
   * If a name repeats, the last value counts, as in `Object.fromEntries(url.searchParams)`. For a
   * GET, the host builds `input` from the query and `inputSchema`, including lists. Has no
   * prototype: a name that was not sent is undefined.
   */
  readonly query: Record<string, string>;
  /**
   * Some of the request headers, with lowercase names.
   *
   * These are `accept`, `accept-language`, `content-type`, `user-agent`, `traceparent` and
   * `tracestate`. Never contains credentials or payments. Has no prototype, like `query`.
   */
  readonly headers: Record<string, string>;
  /** The same value as `input`. */
  readonly body: Input;
  /** The input, which already matches the tool's `inputSchema`. */
  readonly input: Input;
  /**
   * The JSON text of the input as the caller sent it, also over MCP.
   *
   * Keeps the digits of numbers that exceed the precision of a double. For a GET, the JSON that the
   * host built from the query.
   */
  readonly inputText: string;
  /** The caller, and how the call is paid. */
  readonly caller: ToolCaller;
  /** @deprecated Does not compile, and throws a `TypeError`. Use `input`. */
  json(use: "input"): never;
  /** @deprecated Does not compile, and throws a `TypeError`. Use `inputText`. */
  text(use: "input"): never;
  /** @deprecated Does not compile, and throws a `TypeError`. Use `input`. */
  arrayBuffer(use: "input"): never;
  /** @deprecated Does not compile, and throws a `TypeError`. Use `input`. */
  bytes(use: "input"): never;
  /** @deprecated Does not compile, and throws a `TypeError`. Use `input`. */
  blob(use: "input"): never;
  /** @deprecated Does not compile, and throws a `TypeError`. Use `input`. */
  formData(use: "input"): never;
}

/** The caller of a request. */
interface ToolCaller {
  /** The paying address, shortened. Absent for free calls and calls on credit. */
  readonly payer?: string;
  /** Whether this call is free of charge. */
  readonly free: boolean;
  /** The id of the receipt that this call gets if it succeeds. */
  readonly receiptId: string;
  /**
   * The id of the payment. Use it as an idempotency key for side effects.
   *
   * A handler can run more than once for one payment:
   *
   * - If the host crashes after a run and before the settlement, nothing is charged, and a retry
   *   with the same payment runs the handler again.
   * - A retry after a failed run does so too, possibly with another input.
   *
   * The id is the same in each of these runs, even after a restart. Effects of an earlier run
   * remain, in `ctx.kv`, in `ctx.files` and outside.
   *
   * On credit, the id is the same for the same `Idempotency-Key`. Without that header each call has
   * its own, and no crash repeats it. Absent for free calls and the owner's calls, which no crash
   * repeats either.
   *
   * @example
   * ```ts
   * export default async function (req: ToolRequest, ctx: ToolContext): Promise<ToolResult> {
   *   const key = `done/${req.caller.paymentId ?? req.caller.receiptId}`;
   *   const { ok } = await ctx.kv.atomic().check(key).set(key, true).add("orders", 1).commit();
   *   return { isNew: ok };
   * }
   * ```
   */
  readonly paymentId?: string;
}

/**
 * The functions that a handler can use.
 *
 * A member that needs a capability rejects with the code `not_granted` until the capability is
 * granted. Request capabilities in `tool.json`.
 *
 * A `ctx` belongs to its call. After the call has ended, each member rejects or throws with
 * `call_ended`, even while another call runs. So await what a call begins. If calls share a
 * promise, let each use its own `ctx`.
 *
 * An unknown option throws a `TypeError` that lists the known ones, and nothing is sent.
 */
interface ToolContext {
  /** Capability `kv`. Stores JSON values of this tool, by key. */
  readonly kv: ToolKv;
  /** Capability `files`. Stores files of this tool, by path. */
  readonly files: ToolFiles;
  /**
   * The tool's secrets by name, as of the start of the call. Frozen.
   *
   * A secret that is not set, or is only for `auth`, is undefined.
   *
   * The host hides values of 8 bytes or more in results, errors and logs: verbatim and in base64,
   * hex, percent-encoding and JSON escapes. It does not find values that a handler encodes
   * differently, splits, or stores in `ctx.kv` or `ctx.files`. If the handler need not read a
   * secret, set it with `visibility: "auth"` and send it with `httpGetJson(url, { auth })`.
   *
   * @example
   * ```ts
   * const key = ctx.env.WEATHER_KEY;
   * if (key === undefined) throw new Error("WEATHER_KEY is not set");
   * ```
   */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Capability `logs`. Writes lines to the log of this call; `console` writes the same lines. */
  readonly log: ToolLog;
  /**
   * Capability `httpGetJson`. Requests JSON from one of the tool's `allowedHosts`.
   *
   * Sends a GET without a body, and follows up to 3 redirects to allowed hosts. An answer with any
   * status resolves. Default limits of a call: 10 requests, 5,000 ms and 1 MiB for each.
   *
   * Rejects with a `ToolError`:
   *
   * - `not_granted`: the capability, the host or the secret is not granted
   * - `invalid_argument`: the URL or a header is invalid
   * - `forbidden_address`: the address is private, a redirect leads elsewhere, or `auth` is used
   *   without https
   * - `too_many_redirects`, `timeout`, `unreachable`, `body_too_large` or `bad_response`: the
   *   request failed
   * - `not_json`: the answer is not JSON; `status` has its status
   * - `quota_exceeded`: a limit of the call is reached
   *
   * @example
   * ```ts
   * const { status, json } = await ctx.httpGetJson<{ rate: number }>("https://api.example.com/rate", {
   *   auth: { header: "authorization", env: "RATE_KEY" },
   *   timeoutMs: 2_000,
   * });
   * if (status !== 200) throw new Error(`the server answered ${status}`);
   * ctx.log.info("rate", { rate: json.rate });
   * ```
   */
  readonly httpGetJson: <T = any>(url: string | URL, options?: HttpGetJsonOptions) => Promise<HttpGetJsonResult<T>>;
  /**
   * Reports progress to the caller, without a capability.
   *
   * Callers get it as a `progress` event of a stream, or over MCP as a progress notification or the
   * status of a task. Other callers get nothing. It is sent when the handler next waits for `ctx`
   * or a timer.
   *
   * `fraction` is the completed fraction, from 0 to 1. A message is cut at 512 bytes. Messages
   * beyond 20 in a second or 256 in a call are dropped, unless the tool's limits differ. Secrets
   * are hidden as in logs. Throws a `TypeError` if an argument is invalid.
   *
   * @example
   * ```ts
   * ctx.progress("half of the pages are read", 0.5);
   * ```
   */
  readonly progress: (message: string, fraction?: number) => void;
  /**
   * Sets the price of this call, if the tool has a `maxPriceUsd`. Needs no capability.
   *
   * `usd` is in dollars with at most 6 decimals, as a number or a decimal string. It is at most
   * `maxPriceUsd`, which the payer has authorized. The last amount counts.
   *
   * Without it a call costs `priceUsd`, which can be 0. A call that costs nothing settles nothing.
   * Only a call that succeeds is charged. It also works in the owner's calls, where nothing is
   * charged.
   *
   * Rejects with `invalid_argument` if the amount is invalid, exceeds the maximum, or the tool has
   * a fixed price. The previous amount remains then.
   *
   * @example
   * ```ts
   * const pages = 3;
   * await ctx.charge((pages * 0.002).toFixed(6));
   * ```
   */
  readonly charge: (usd: number | string) => Promise<void>;
}

/**
 * Keys and JSON values of this tool, shared by all its calls and versions.
 *
 * A key is at most 512 bytes, a value at most 64 KiB as JSON. A tool has at most 10,000 keys and 16
 * MiB. The tool's `limits` can raise all of these except the size of a key.
 *
 * Rejects with a `ToolError`: `not_granted`, `quota_exceeded`, `invalid_argument`, or
 * `store_unavailable` if the host's store is down. A key with half of a surrogate pair is an
 * `invalid_argument`.
 *
 * @example
 * ```ts
 * await ctx.kv.set("rate/eur", { usd: 1.1 }, { ttlMs: 60_000 });
 * const rate = await ctx.kv.get<{ usd: number }>("rate/eur");
 * ```
 */
interface ToolKv {
  /** Returns the value of a key, or null if there is none. */
  get<T = any>(key: string): Promise<T | null>;
  /**
   * Sets the value of a key.
   *
   * `ttlMs`: the key expires after this many milliseconds, at least 1. Default: never. There are no
   * other options. Throws a `TypeError` if the value has no JSON form.
   */
  set(key: string, value: unknown, options?: { ttlMs?: number }): Promise<void>;
  /** Deletes a key, whether it exists or not. */
  delete(key: string): Promise<void>;
  /**
   * Lists keys with their values, in byte order.
   *
   * `limit` is 100 unless given, at most 1000; pass the `cursor` of a page to get the next. The
   * last page has the cursor null.
   *
   * @example
   * ```ts
   * let cursor: string | null = null;
   * do {
   *   const page: Awaited<ReturnType<ToolKv["list"]>> = await ctx.kv.list({ prefix: "rate/", cursor });
   *   for (const { key, value } of page.entries) ctx.log.info(key, { value });
   *   cursor = page.cursor;
   * } while (cursor !== null);
   * ```
   */
  list<T = any>(options?: { prefix?: string; limit?: number; cursor?: string | null }): Promise<{
    entries: { key: string; value: T }[];
    cursor: string | null;
  }>;
  /** Starts a transaction: its writes are applied together or not at all. */
  atomic(): ToolAtomic;
}

/**
 * A transaction of `ctx.kv`. Add checks and writes, then call `commit()` once.
 *
 * @example
 * ```ts
 * const stock = (await ctx.kv.get<number>("stock")) ?? 0;
 * const { ok } = await ctx.kv.atomic().check("stock", stock).set("stock", stock - 1).add("sold", 1).commit();
 * if (!ok) throw new Error("another call was faster");
 * ```
 */
interface ToolAtomic {
  /**
   * Requires that `key` has exactly this value at commit. null or undefined requires that it is
   * absent.
   */
  check(key: string, value?: unknown): this;
  /** Sets the value of a key, with the options of `ctx.kv.set`. */
  set(key: string, value: unknown, options?: { ttlMs?: number }): this;
  /** Deletes a key, whether it exists or not. */
  delete(key: string): this;
  /**
   * Adds a whole number to the value of `key`. An absent value counts as 0. Never loses an update.
   */
  add(key: string, by: number): this;
  /** The same as `add`. */
  sum(key: string, by: number): this;
  /**
   * Applies the writes. `ok` is false, and nothing is written, if a check failed.
   *
   * Rejects with `contended` if other writes of the same keys came first at every attempt. Nothing
   * is written then, and you can try again.
   */
  commit(): Promise<{ ok: boolean }>;
}

/**
 * Files of this tool, by path, shared by all its calls and versions.
 *
 * Default limits: 1 MiB for each file, 100 files and 16 MiB in all. Rejects with the same codes as
 * `ctx.kv`.
 *
 * @example
 * ```ts
 * await ctx.files.write("reports/2026.json", { total: 3 });
 * const report = await ctx.files.readJson<{ total: number }>("reports/2026.json");
 * const { files } = await ctx.files.list({ prefix: "reports/" });
 * ```
 */
interface ToolFiles {
  /** Returns the bytes of a file, or null if there is no such file. */
  read(path: string): Promise<Uint8Array | null>;
  /** Returns a file decoded as UTF-8, or null if there is no such file. */
  readText(path: string): Promise<string | null>;
  /**
   * Returns a file parsed as JSON, or null if there is none. Rejects with a `SyntaxError` for other
   * content.
   */
  readJson<T = any>(path: string): Promise<T | null>;
  /** Writes a string as UTF-8, bytes as they are, and anything else as JSON. Replaces the file. */
  write(path: string, content: string | ArrayBuffer | ArrayBufferView | Json): Promise<void>;
  /** Deletes a file, whether it exists or not. */
  delete(path: string): Promise<void>;
  /**
   * Lists files by path, with their sizes in bytes and UTC times. Pages work as in `ctx.kv.list`.
   */
  list(options?: { prefix?: string; limit?: number; cursor?: string | null }): Promise<{
    files: { path: string; size: number; modifiedAt: string }[];
    cursor: string | null;
  }>;
}

/**
 * The log of this call, which only the tool's owner and admins can read.
 *
 * Calling it directly logs at level `info`. Errors are shown with their stack and causes, wherever
 * they occur in a value. If a line is too long, its fields are cut: `{ "cut": "…" }`. Default
 * limits: 256 lines of 4 KiB, and 64 KiB for each call; further lines are dropped and counted.
 *
 * @example
 * ```ts
 * ctx.log("started");
 * ctx.log.warn("slow answer", { ms: 1_200 });
 * ```
 */
interface ToolLog {
  /** Logs a line at level `info`, with optional fields. */
  (message: unknown, fields?: object): void;
  /** Logs a line at level `debug`. */
  debug(message: unknown, fields?: object): void;
  /** Logs a line at level `info`. */
  info(message: unknown, fields?: object): void;
  /** Logs a line at level `warn`. */
  warn(message: unknown, fields?: object): void;
  /** Logs a line at level `error`. Does not end the call. */
  error(message: unknown, fields?: object): void;
}

/** The options of `ctx.httpGetJson`. */
interface HttpGetJsonOptions {
  /** Request headers. */
  headers?: ToolHeadersInit;
  /**
   * Milliseconds, redirects included. Default and maximum: the tool's limit `httpWallMs`, 5,000
   * unless raised.
   */
  timeoutMs?: number;
  /**
   * Sends the secret `env` in the header `header`. The handler does not see its value.
   *
   * It is sent over https only, to the URL's own host, and never to the target of a redirect.
   */
  auth?: { header: string; env: string };
}

/**
 * The answer of `ctx.httpGetJson`, with any status.
 *
 * The body is parsed as JSON if its type is `application/json` or `…+json`. It is also parsed if
 * its type is `text/*`, bytes, JavaScript or missing and the body is JSON. gzip and deflate are
 * decoded. Otherwise the call rejects with `not_json`, and the error has the answer's `status`.
 */
interface HttpGetJsonResult<T = any> {
  /** The HTTP status. */
  status: number;
  /** The response headers, with lowercase names. */
  headers: Record<string, string>;
  /** The parsed body. */
  json: T;
}

/**
 * The error that an operation of `ctx` rejects with.
 *
 * @example
 * ```ts
 * try {
 *   await ctx.httpGetJson("https://api.example.com/rate");
 * } catch (error) {
 *   const { code, status } = error as ToolError;
 *   if (code !== "not_json") throw error;
 *   ctx.log.warn("no JSON", { status });
 * }
 * ```
 */
interface ToolError extends Error {
  /** Always `ToolError`. */
  readonly name: "ToolError";
  /**
   * The reason, for programs.
   *
   * - `not_granted`: a capability, host or secret is not granted
   * - `quota_exceeded`: a limit is reached
   * - `invalid_argument`: an argument is invalid
   * - `call_ended`: the call that this `ctx` belongs to has ended
   * - `contended`: other writes came first at every attempt; try again
   * - `store_unavailable`: the host's storage is down; try again
   * - `too_large`: the answer is more than the worker can take
   * - `forbidden_address`, `too_many_redirects`, `timeout`, `unreachable`, `body_too_large`,
   *   `bad_response`, `not_json`: see `ctx.httpGetJson`
   */
  readonly code: string;
  /** The status of the answer, for example 404, if an answer of `httpGetJson` is not JSON. */
  readonly status?: number;
}

// The web's globals that a handler has.

/** Bytes, as an `ArrayBuffer` or a view of it. */
type ToolBytes = ArrayBuffer | ArrayBufferView;

/**
 * An answer with a status, headers and any body. Return it if a JSON value alone is not enough.
 *
 * @example
 * ```ts
 * export default (): ToolResult => new Response("id,name\n1,one\n", { headers: { "content-type": "text/csv" } });
 * ```
 */
interface Response {
  /** The HTTP status. */
  readonly status: number;
  /** The text of the status. */
  readonly statusText: string;
  /** Whether the status is from 200 to 299. */
  readonly ok: boolean;
  /** The headers. */
  readonly headers: Headers;
  readonly type: "default";
  readonly url: string;
  readonly redirected: boolean;
  readonly bodyUsed: boolean;
  /** Reads the body as text. A body can be read once. */
  text(): Promise<string>;
  /** Reads the body as JSON. */
  json(): Promise<any>;
  /** Reads the body as bytes. */
  bytes(): Promise<Uint8Array>;
  /** Reads the body as an `ArrayBuffer`. */
  arrayBuffer(): Promise<ArrayBuffer>;
  /** Copies an answer whose body was not read yet. */
  clone(): Response;
}
/** The options of a `Response`. */
interface ToolResponseInit {
  /**
   * From 200 to 599, except 401, 402 and 407, which only the host sends. Fractions are truncated.
   * Default: 200.
   */
  status?: number;
  statusText?: string;
  headers?: ToolHeadersInit;
}
declare var Response: {
  readonly prototype: Response;
  new (body?: string | ToolBytes | URLSearchParams | null, init?: ToolResponseInit): Response;
  /** Creates an answer with a JSON body. */
  json(value: unknown, init?: ToolResponseInit): Response;
  /**
   * Creates a redirect. Default status: 302. If a handler returns it, the call fails: a tool cannot
   * redirect.
   */
  redirect(url: string | URL, status?: number): Response;
  /** Throws a `TypeError`, because an answer needs a status. */
  error(): never;
};

/** Headers as an object, rows of name and value, or `Headers`. */
type ToolHeadersInit = Headers | Record<string, string> | readonly (readonly [string, string])[] | Iterable<readonly [string, string]>;
/**
 * HTTP headers. Names are case-insensitive.
 *
 * @example
 * ```ts
 * const headers = new Headers({ "content-type": "text/csv" });
 * headers.append("link", '</docs>; rel="help"');
 * ```
 */
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

/**
 * A URL, as in the URL standard.
 *
 * @example
 * ```ts
 * const url = new URL("/v1/rate", "https://api.example.com");
 * url.searchParams.set("currency", "EUR");
 * ```
 */
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

/** The parameters of a query, as in the URL standard. */
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

/** Encodes text as UTF-8. */
interface TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
  encodeInto(text: string, target: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: {
  readonly prototype: TextEncoder;
  new (): TextEncoder;
};

/**
 * Decodes bytes to text.
 *
 * @example
 * ```ts
 * const text = new TextDecoder("windows-1252").decode(new Uint8Array([0xe9]));
 * ```
 */
interface TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  /**
   * Decodes bytes.
   *
   * With `stream`, more of the text follows in this call. Unfinished text is dropped at the end of
   * the call. At most 256 texts are decoded in pieces at once. With `fatal`, throws a `TypeError`
   * for invalid bytes.
   */
  decode(input?: ToolBytes, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  readonly prototype: TextDecoder;
  /**
   * Creates a decoder.
   *
   * `label`: any label of the [Encoding
   * standard](https://encoding.spec.whatwg.org/#names-and-labels) except those of `replacement`.
   * Throws a `RangeError` for others. Default: UTF-8.
   */
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

/**
 * Decodes base64 to a string with one character per byte. Throws a `DOMException` for invalid text.
 */
declare function atob(data: string): string;
/**
 * Encodes a string with one character per byte as base64. Throws a `DOMException` for other
 * characters.
 */
declare function btoa(data: string): string;

/**
 * Copies a value deeply.
 *
 * Copies plain data, `Map`, `Set`, `Date`, `RegExp`, errors, `DOMException`, buffers and their
 * views, with cycles. Throws a `DOMException` (`DataCloneError`) for other values.
 */
declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;

/**
 * Random values and digests.
 *
 * There are no keys or ciphers: bundle a package, for example `@noble/hashes` for HMAC.
 *
 * @example
 * ```ts
 * const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("text"));
 * const hex = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
 * const id = crypto.randomUUID();
 * ```
 */
interface Crypto {
  /**
   * Fills an array of integers with random values, and returns it. At most 65,536 bytes at once.
   */
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
  /** Returns a random UUID (version 4). */
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`;
  /** Digests. */
  readonly subtle: SubtleCrypto;
}
/** Digests. */
interface SubtleCrypto {
  /**
   * Hashes bytes with `SHA-1`, `SHA-256`, `SHA-384` or `SHA-512`.
   *
   * Rejects with a `DOMException` (`NotSupportedError`) for another algorithm.
   */
  digest(algorithm: string | { name: string }, data: ToolBytes): Promise<ArrayBuffer>;
}
declare var crypto: Crypto;

/** An event, as in the DOM standard. */
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
/** The options of an event. */
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

/** An event with data. */
interface CustomEvent<T = any> extends Event {
  /** The data. */
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

/** A function or object that receives events. */
type ToolEventListener = ((event: Event) => void) | { handleEvent(event: Event): void };
/** Sends events to listeners. */
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

/**
 * Reports that something was aborted.
 *
 * Operations of `ctx` take no signal; `httpGetJson` has `timeoutMs`.
 *
 * @example
 * ```ts
 * const signal = AbortSignal.timeout(1_000);
 * for (let page = 0; page < 10 && !signal.aborted; page++) await ctx.kv.get(`page/${page}`);
 * ```
 */
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
  /** Returns a signal that aborts after this many milliseconds. */
  timeout(ms: number): AbortSignal;
};

/** Creates and aborts an `AbortSignal`. */
interface AbortController {
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}
declare var AbortController: {
  readonly prototype: AbortController;
  new (): AbortController;
};

/** The error of `atob`, `structuredClone`, aborts and other globals. Its `name` says which. */
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

/**
 * Calls a function once, after `ms` milliseconds. Returns the number of the timer.
 *
 * Timers end with their call, and a call can have 100 at once. Default: 1 ms. If a callback throws,
 * the log gets a line.
 *
 * @example
 * ```ts
 * await new Promise<void>((done) => setTimeout(done, 200));
 * ```
 */
declare function setTimeout<A extends any[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
/** Calls a function every `ms` milliseconds, until `clearInterval` or the end of the call. */
declare function setInterval<A extends any[]>(callback: (...args: A) => void, ms?: number, ...args: A): number;
/** Stops a timer. */
declare function clearTimeout(timer?: number): void;
/** Stops an interval. */
declare function clearInterval(timer?: number): void;
/** Calls a function after the current one, before timers. */
declare function queueMicrotask(callback: () => void): void;

/**
 * Writes to the log of the running call, like `ctx.log`. Needs the capability `logs`.
 *
 * If the first value is a string, it can contain `%s`, `%d`, `%i`, `%f`, `%o`, `%O`, `%c` and `%%`.
 *
 * @example
 * ```ts
 * console.info("%d pages", 3);
 * console.error(new Error("no pages"));
 * ```
 */
interface Console {
  /** Logs at level `debug`. */
  debug(...values: any[]): void;
  /** Logs at level `info`. */
  log(...values: any[]): void;
  /** Logs at level `info`. */
  info(...values: any[]): void;
  /** Logs at level `warn`. */
  warn(...values: any[]): void;
  /** Logs at level `error`. */
  error(...values: any[]): void;
  /** Logs at level `debug`, with the stack. */
  trace(...values: any[]): void;
  /** Logs a value at level `info`. The options are ignored. */
  dir(value?: any, options?: any): void;
  dirxml(...values: any[]): void;
  /** Logs a value as JSON, not as a table. The columns are ignored. */
  table(data?: any, columns?: any): void;
  /** Logs a line. There is no indentation. */
  group(...values: any[]): void;
  groupCollapsed(...values: any[]): void;
  /** Does nothing. */
  groupEnd(): void;
  /** Does nothing. */
  clear(): void;
  /** Logs at level `error` if `holds` is false or missing. */
  assert(holds?: boolean, ...values: any[]): void;
  /** Logs how often it was called with this label. */
  count(label?: string): void;
  /** Starts to count from 0 again. */
  countReset(label?: string): void;
  /** Starts to measure time, by the clock of `Date`. */
  time(label?: string): void;
  /** Logs the milliseconds since `time`. */
  timeLog(label?: string, ...values: any[]): void;
  /** Logs the milliseconds since `time`, and ends the measurement. */
  timeEnd(label?: string): void;
  /** Does nothing. */
  timeStamp(label?: string): void;
  /** Does nothing. */
  profile(label?: string): void;
  /** Does nothing. */
  profileEnd(label?: string): void;
}
declare var console: Console;

/**
 * Times of the running call, in milliseconds.
 *
 * Uses the same clock as `Date`, which stands still while a handler computes. Marks and measures
 * belong to the call. At most 1,000 are stored: the next one replaces them all.
 */
interface Performance {
  /** Milliseconds since the call began. */
  now(): number;
  /** The start of the call, in milliseconds since 1970. */
  readonly timeOrigin: number;
  /** Stores the current time under a name. */
  mark(name: string, options?: { detail?: any; startTime?: number }): ToolPerformanceEntry;
  /**
   * Stores the time between two marks. Throws a `DOMException` (`SyntaxError`) if a mark is
   * missing.
   */
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
/** A mark or a measure. Times are in milliseconds. */
interface ToolPerformanceEntry {
  readonly name: string;
  readonly entryType: string;
  readonly startTime: number;
  readonly duration: number;
  readonly detail: any;
}
declare var performance: Performance;

/** The global object. */
declare var self: typeof globalThis;
