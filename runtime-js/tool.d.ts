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
 * - Storage is available through `ctx`, and the network through `fetch` and `ctx.httpGetJson`.
 *   There is no `Buffer`, `process` or `document`.
 * - A process keeps its module state for later calls of the same version, but can end at any time.
 *   Store data that must last in `ctx.kv` or `ctx.files`.
 * - A call ends when its handler does. Pending writes to `ctx.kv` and `ctx.files` are completed
 *   first; pending reads, requests and timers are dropped.
 * - Time stands still while a handler computes. `Date.now()` returns the start of the call, and
 *   advances with each answer that you await from `ctx` or a timer.
 * - `Atomics` and `SharedArrayBuffer` are not available. `Intl` is available on V8 only, and
 *   `WebAssembly` there with the capability `wasm`.
 * - `eval` and `Function` throw an `EvalError`. They exist because packages refer to them while
 *   they load.
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
 *
 * @example
 * ```ts
 * const report: Json = { title: "Sales", rows: [["EUR", 12.5], ["USD", null]] };
 * await ctx.files.write("report.json", report);
 * ```
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
 * The export `scheduled` of a tool's module, for the `schedules` in `tool.json`. Its result is
 * ignored. An error is in the record of the run.
 *
 * @example
 * ```ts
 * export default async (req: ToolRequest, ctx: ToolContext) => ctx.kv.get("ran");
 * export const scheduled: ScheduledHandler = async (event, ctx) => {
 *   await ctx.kv.set("ran", event.scheduledTime);
 * };
 * ```
 */
type ScheduledHandler = (event: ScheduledEvent, ctx: ToolContext) => unknown;

/**
 * The time for which `scheduled` runs.
 *
 * @example
 * ```ts
 * const report = (event: ScheduledEvent) => `${event.cron} at ${new Date(event.scheduledTime).toISOString()}`;
 * ```
 */
interface ScheduledEvent {
  /** The cron expression that was due. */
  readonly cron: string;
  /**
   * The time in milliseconds since 1970. If several were missed, it is the latest of them.
   */
  readonly scheduledTime: number;
}

/**
 * The result of a handler: a JSON value, a `Response`, or the chunks of a streamed answer.
 *
 * A JSON value is sent with status 200, and `undefined` as `null`. A `Response` has its own status
 * and headers. Of its headers, the caller gets `content-type`, `content-language`,
 * `content-disposition`, `location`, `retry-after` and `link`, at most 8 KiB together.
 *
 * The call fails and is not charged if:
 *
 * - the handler throws, or returns a value without a JSON form
 * - the `content-type` is `application/json` and the body is not JSON
 * - the status is not 2xx
 * - the response is a redirect (3xx with `location`), because clients would send the caller's
 *   payment or key to the new address
 * - the result is MCP content blocks (`application/vnd.mcp.tool-result+json`) with `isError: true`
 *
 * Callers over HTTP, streams and MCP get the same result. Where the protocol requires JSON, a body
 * that is not JSON becomes `{ mediaType, text }` for `text/*` in UTF-8, and `{ mediaType, base64 }`
 * otherwise. Over MCP it becomes a content block of the matching type.
 *
 * @example
 * ```ts
 * export default function (req: ToolRequest<{ id: number }>): ToolResult {
 *   if (req.input.id === 0) return Response.json({ error: "unknown id" }, { status: 404 });
 *   return new Response("<svg/>", { headers: { "content-type": "image/svg+xml" } });
 * }
 * ```
 *
 * A `Response` with a `ReadableStream`, an async generator and any other asynchronous iterable are
 * sent as they are produced, unless the content type is JSON. The next chunk is requested when the
 * caller has room for it. Without a `content-type`, the first value of an iterable decides:
 *
 * - text is `text/plain; charset=utf-8`, and bytes are `application/octet-stream`
 * - other values are lines of JSON, as `application/x-ndjson`
 *
 * If the caller leaves, a stream is canceled with a `ToolError`, and a generator continues at its
 * `finally`. An error before the first chunk fails the call, and a later one breaks the answer off.
 * A streamed answer has at most 10 MiB (`streamBytes`) and 100,000 chunks. The schema of the result
 * does not apply to it. Callers that take no stream get the whole, within `outputBytes`.
 *
 * @example
 * ```ts
 * export default async function* (req: ToolRequest<{ upTo: number }>): AsyncGenerator<string> {
 *   for (let n = 1; n <= req.input.upTo; n++) yield `${n}\n`;
 * }
 * ```
 *
 * @example
 * ```ts
 * export default async (req: ToolRequest): Promise<ToolResult> => {
 *   const body = JSON.stringify({ ...req.input, stream: true });
 *   const upstream = await fetch("https://api.example.com/v1/chat", { method: "POST", body });
 *   return new Response(upstream.body, { headers: { "content-type": "text/event-stream" } });
 * };
 * ```
 */
type ToolResult = unknown | Response | AsyncIterable<unknown>;

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
  /** The HTTP method: `POST` or `GET`. Over MCP, `POST`. */
  readonly method: string;
  /** The complete URL of the request, with its query. Over MCP, the URL of the tool. */
  readonly url: string;
  /** The path of the URL, for example `/tools/shout`. */
  readonly path: string;
  /**
   * The query parameters, by name.
   *
   * If a name repeats, the last value counts, as in `Object.fromEntries(url.searchParams)`. For a
   * GET, the host builds `input` from the query and `inputSchema`, including lists. The record has
   * no prototype: a name that was not sent is undefined.
   */
  readonly query: Record<string, string>;
  /**
   * Some of the request headers, with lowercase names.
   *
   * Contains `accept`, `accept-language`, `content-type`, `user-agent`, `traceparent` and
   * `tracestate`, and those that `requestHeaders` of the tool lists, if the caller sent them. Never
   * contains credentials or payments. Has no prototype, like `query`.
   */
  readonly headers: Record<string, string>;
  /** The same value as `input`. */
  readonly body: Input;
  /**
   * The input, which already matches the tool's `inputSchema`. Fields that the caller omitted have
   * the `default` of the schema, which is not validated.
   */
  readonly input: Input;
  /**
   * The JSON text of the input, exactly as the caller sent it over HTTP or MCP.
   *
   * Preserves the digits of numbers that exceed the precision of a double, and has no defaults of
   * the schema. For a GET, it is the JSON that the host built from the query.
   */
  readonly inputText: string;
  /** The caller, the payment and the receipt of this call. */
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

/**
 * The request of a call whose body is not JSON, for a tool with `requestTypes`.
 *
 * The body can be read once. The host keeps it until the call ends, and the worker reads it in
 * pieces of 256 KiB, each of which counts as an op. `inputSchema` does not apply, and
 * `headers["content-type"]` has the type.
 *
 * @example
 * ```ts
 * export default async (req: ToolBodyRequest) => {
 *   const bytes = await req.bytes();
 *   return { size: bytes.length, type: req.headers["content-type"] };
 * };
 * ```
 */
interface ToolBodyRequest extends Omit<ToolRequest<null>, "body" | "json" | "text" | "arrayBuffer" | "bytes" | "blob" | "formData"> {
  /**
   * The body as a `ReadableStream`, which gets a piece of 256 KiB whenever it is read. For bodies
   * above `bufferBytes`.
   */
  readonly body: AsyncIterable<Uint8Array>;
  /** Whether the body was read. */
  readonly bodyUsed: boolean;
  /** Reads the body as a `Blob` with its type. */
  blob(): Promise<any>;
  /** Reads the body as a `FormData`. Rejects with a `TypeError` if its type is not that of a form. */
  formData(): Promise<any>;
  /** Reads the body as bytes, which count toward `bufferBytes`. */
  bytes(): Promise<Uint8Array>;
  /** Reads the body as an `ArrayBuffer`, which counts toward `bufferBytes`. */
  arrayBuffer(): Promise<ArrayBuffer>;
  /** Reads the body as text, decoded as UTF-8. */
  text(): Promise<string>;
  /** Reads the body as JSON. Rejects with a `SyntaxError` if it is not JSON. */
  json(): Promise<any>;
}

/**
 * The caller of a request.
 *
 * @example
 * ```ts
 * const { payer, free, receiptId } = req.caller;
 * ctx.log.info("called", { payer: payer ?? "no address", free, receiptId });
 * ```
 */
interface ToolCaller {
  /** The paying address, shortened. Absent for free calls and calls on credit. */
  readonly payer?: string;
  /** Whether this call is free of charge. */
  readonly free: boolean;
  /** The id of the receipt that the caller gets if this call succeeds. */
  readonly receiptId: string;
  /**
   * The id of the payment. Use it as an idempotency key for side effects.
   *
   * A handler can run more than once for one payment:
   *
   * - If the host crashes after a run and before the settlement, nothing is charged, and a retry
   *   with the same payment runs the handler again.
   * - A retry after a failed run also runs the handler again, possibly with another input.
   *
   * The id is the same in each of these runs, even after a restart. Effects of an earlier run
   * remain, in `ctx.kv`, in `ctx.files` and outside.
   *
   * On credit, calls with the same `Idempotency-Key` have the same id. A call without that header
   * has an id of its own, and a crash never repeats it. Free calls and the owner's calls have no
   * id, and a crash never repeats them.
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
 * Access to the host: storage, secrets, the log, the network, progress and the price.
 *
 * A member that needs a capability rejects with the code `not_granted` until the capability is
 * granted. Request capabilities in `tool.json`.
 *
 * A `ctx` works during its own call only. Afterwards each member rejects or throws with
 * `call_ended`, even while another call runs. Await each operation before the handler returns, or
 * pass it to `waitUntil`, and do not store a `ctx` outside of the handler.
 *
 * An unknown option throws a `TypeError` that lists the known ones, and nothing is sent. A call
 * that exceeds its limit of operations (1,000) or timers (100) is stopped.
 *
 * @example
 * ```ts
 * export default async (req: ToolRequest<{ city: string }>, ctx: ToolContext): Promise<ToolResult> => {
 *   const cached = await ctx.kv.get(`weather/${req.input.city}`);
 *   if (cached !== null) return cached;
 *   const { json } = await ctx.httpGetJson(`https://api.example.com/weather?city=${req.input.city}`);
 *   await ctx.kv.set(`weather/${req.input.city}`, json, { ttlMs: 60_000 });
 *   return json;
 * };
 * ```
 */
interface ToolContext {
  /** Capability `kv`. Stores JSON values of this tool, by key. */
  readonly kv: ToolKv;
  /** Capability `files`. Stores files of this tool, by path. */
  readonly files: ToolFiles;
  /**
   * The tool's secrets by name, as of the start of the call. Frozen.
   *
   * A secret that is not set, or that has `visibility: "auth"`, is undefined.
   *
   * **Warning:** Do not return or store a secret. The host redacts values of 8 bytes or more in
   * results, errors and logs: verbatim and in base64, hex, percent-encoding and JSON escapes. It
   * does not find values that a handler splits, encodes differently, or stores in `ctx.kv` or
   * `ctx.files`.
   *
   * If the handler only sends a secret to a server, set it with `hosts`: then it is a placeholder,
   * different in each call. The host puts the value in its place in headers of requests to these
   * hosts, also in `Bearer` and `Basic` credentials, and rejects other requests that contain it.
   * Read it in each call, because it is valid only in that call.
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
   * Sends a GET without a body, and follows up to 3 redirects to allowed hosts. Resolves for a
   * response with any status. Default limits: 10 requests in a call, 5,000 ms and 1 MiB for each
   * request. A call that makes too many requests is stopped.
   *
   * Rejects with a `ToolError`:
   *
   * - `not_granted`: the capability, the host or the secret is not granted
   * - `invalid_argument`: the URL or a header is invalid, or only the host can set the header
   * - `forbidden_address`: the address is private, a redirect leads to a host that is not allowed,
   *   or `auth` is used without https
   * - `too_many_redirects`, `timeout`, `unreachable`, `body_too_large` or `bad_response`: the
   *   request failed
   * - `quota_exceeded`: the call has made its number of requests, those of `fetch` included
   * - `not_json`: the response is not JSON; `status` contains its HTTP status
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
   * A caller with a stream gets a `progress` event. An MCP client gets a progress notification or
   * the status of its task. Other callers get nothing. The message is sent when the handler next
   * awaits `ctx` or a timer.
   *
   * `fraction`: the completed part, from 0 to 1. Default: none. A message is cut at 512 bytes.
   * Messages beyond 20 in a second or 256 in a call are dropped, unless the tool's limits differ.
   * Secrets are redacted as in logs. Throws a `TypeError` if an argument is invalid.
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
   * `usd`: US dollars with at most 6 decimals, as a number or a decimal string, from 0 to
   * `maxPriceUsd`. The last amount counts. Default: the tool's `priceUsd`, which can be 0.
   *
   * The caller is charged once, after the handler has succeeded. A call that fails or costs nothing
   * is not charged, and neither are the owner's calls.
   *
   * Rejects with `invalid_argument` if the amount is invalid, exceeds the maximum, or the tool has
   * a fixed price. The previous amount then remains.
   *
   * @example
   * ```ts
   * const pages = 3;
   * await ctx.charge((pages * 0.002).toFixed(6));
   * ```
   */
  readonly charge: (usd: number | string) => Promise<void>;
  /**
   * Continues work after the answer, without a capability.
   *
   * The caller gets the answer and the call is settled, without waiting for `promise`. The work
   * stays within the limits of the call: `wallMs` and `cpuMs` count from its start. It can use `ctx`,
   * except that `charge` rejects with `call_ended` and progress is dropped. A rejection, or a stop
   * at a limit, is written to the log of the call and changes nothing for the caller.
   *
   * If too many calls of the tool or its owner work after their answer, further work ends with the
   * answer, and the log has a line about it. So await work that must happen before you return.
   *
   * @example
   * ```ts
   * ctx.waitUntil(ctx.kv.set("last-call", Date.now()));
   * ```
   */
  readonly waitUntil: (promise: Promise<any>) => void;
}

/**
 * Keys and JSON values of this tool, shared by all its calls and versions.
 *
 * A key is at most 512 bytes, a value at most 64 KiB as JSON. A tool has at most 10,000 keys with
 * 16 MiB together. The tool's `limits` can raise all of these except the size of a key.
 *
 * Rejects with a `ToolError`:
 *
 * - `not_granted`: the capability is not granted
 * - `invalid_argument`: a key is empty, too long or not well-formed Unicode, or an argument is
 *   invalid
 * - `quota_exceeded`: a value is too large, or the tool's storage is full
 * - `contended`: other writes of the same key came first at every attempt; try again
 * - `store_unavailable`: the host's storage is down; try again
 *
 * @example
 * ```ts
 * await ctx.kv.set("rate/eur", { usd: 1.1 }, { ttlMs: 60_000 });
 * const rate = await ctx.kv.get<{ usd: number }>("rate/eur");
 * ```
 */
interface ToolKv {
  /**
   * Returns the value of a key, or null if the key does not exist or has expired.
   *
   * @example
   * ```ts
   * const count = (await ctx.kv.get<number>("count")) ?? 0;
   * ```
   */
  get<T = any>(key: string): Promise<T | null>;
  /**
   * Sets the value of a key, and replaces its expiry.
   *
   * `ttlMs`: the key expires after this many milliseconds, from 1 to 10 years. Default: never.
   * Rejects with a `TypeError` if the value has no JSON form.
   *
   * @example
   * ```ts
   * await ctx.kv.set("session/1", { user: "ann" }, { ttlMs: 3_600_000 });
   * ```
   */
  set(key: string, value: unknown, options?: { ttlMs?: number }): Promise<void>;
  /**
   * Deletes a key. Succeeds if the key does not exist.
   *
   * @example
   * ```ts
   * await ctx.kv.delete("session/1");
   * ```
   */
  delete(key: string): Promise<void>;
  /**
   * Lists keys with their values, in the byte order of the keys.
   *
   * - `prefix`: lists only keys that start with it. Default: all keys.
   * - `limit`: entries per page, at least 1. Default: 100. Higher values than 1000 count as 1000.
   * - `cursor`: the `cursor` of the previous page. Default: the first page.
   *
   * A page also ends after 1 MiB, so it can have fewer entries than `limit`. The last page has the
   * cursor null.
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
  /**
   * Starts a transaction: its writes are applied together or not at all.
   *
   * @example
   * ```ts
   * await ctx.kv.atomic().add("calls", 1).set("last", Date.now()).commit();
   * ```
   */
  atomic(): ToolAtomic;
}

/**
 * A transaction of `ctx.kv`. Add checks and writes, then await `commit()` once.
 *
 * Has at most 100 checks and 100 writes. Writes are applied in the order in which you add them.
 * Methods other than `commit` throw at once if an argument is invalid.
 *
 * @example
 * ```ts
 * const stock = await ctx.kv.get<number>("stock");
 * if (stock === null || stock < 1) throw new Error("sold out");
 * const { ok } = await ctx.kv.atomic().check("stock", stock).set("stock", stock - 1).add("sold", 1).commit();
 * if (!ok) throw new Error("another call changed the stock");
 * ```
 */
interface ToolAtomic {
  /**
   * Requires at commit that `key` has this value, compared as JSON.
   *
   * Without a value, or with null, requires that the key does not exist.
   *
   * @example
   * ```ts
   * const { ok } = await ctx.kv.atomic().check("lock").set("lock", true, { ttlMs: 10_000 }).commit();
   * ```
   */
  check(key: string, value?: unknown): this;
  /**
   * Sets the value of a key, with the options of `ctx.kv.set`.
   *
   * @example
   * ```ts
   * await ctx.kv.atomic().set("a", 1).set("b", 2, { ttlMs: 60_000 }).commit();
   * ```
   */
  set(key: string, value: unknown, options?: { ttlMs?: number }): this;
  /**
   * Deletes a key. Succeeds if the key does not exist.
   *
   * @example
   * ```ts
   * await ctx.kv.atomic().delete("draft").set("published", true).commit();
   * ```
   */
  delete(key: string): this;
  /**
   * Adds a whole number, which can be negative, to the value of `key`. Never loses an update.
   *
   * A key that does not exist counts as 0. Its expiry remains. `commit` rejects with
   * `invalid_argument` if the value is not an integer, or the sum is not a safe integer.
   *
   * @example
   * ```ts
   * await ctx.kv.atomic().add("calls", 1).add("credits", -5).commit();
   * ```
   */
  add(key: string, by: number): this;
  /** The same as `add`, for code that was written for Deno KV. */
  sum(key: string, by: number): this;
  /**
   * Applies the writes if all checks hold.
   *
   * If a check fails, `ok` is false and nothing is written. Rejects with the codes of `ctx.kv`.
   * After `contended`, nothing is written either: build the transaction again.
   *
   * @example
   * ```ts
   * const { ok } = await ctx.kv.atomic().check("owner").set("owner", "ann").commit();
   * if (!ok) ctx.log.info("the owner is already set");
   * ```
   */
  commit(): Promise<{ ok: boolean }>;
}

/**
 * Files of this tool, by path, shared by all its calls and versions.
 *
 * Default limits: 1 MiB for each file, and 100 files with 16 MiB together. A path has at most 512
 * bytes, in parts of at most 255 bytes. It does not begin or end with `/` and contains no `..`, `\`
 * or control characters. Rejects with the codes of `ctx.kv`.
 *
 * @example
 * ```ts
 * await ctx.files.write("reports/2026.json", { total: 3 });
 * const report = await ctx.files.readJson<{ total: number }>("reports/2026.json");
 * const { files } = await ctx.files.list({ prefix: "reports/" });
 * ```
 */
interface ToolFiles {
  /**
   * Returns the bytes of a file, or null if it does not exist.
   *
   * @example
   * ```ts
   * const image = await ctx.files.read("logo.png");
   * return image === null ? null : new Response(image, { headers: { "content-type": "image/png" } });
   * ```
   */
  read(path: string): Promise<Uint8Array | null>;
  /**
   * Returns a file decoded as UTF-8, or null if it does not exist.
   *
   * @example
   * ```ts
   * const lines = ((await ctx.files.readText("names.txt")) ?? "").split("\n");
   * ```
   */
  readText(path: string): Promise<string | null>;
  /**
   * Returns a file parsed as JSON, or null if it does not exist.
   *
   * Rejects with a `SyntaxError` if the file is not JSON.
   *
   * @example
   * ```ts
   * const config = await ctx.files.readJson<{ limit: number }>("config.json");
   * const limit = config?.limit ?? 10;
   * ```
   */
  readJson<T = any>(path: string): Promise<T | null>;
  /**
   * Writes a file, and replaces it if it exists.
   *
   * A string is written as UTF-8, bytes as they are, and any other value as JSON. Rejects with a
   * `TypeError` if the content has no JSON form.
   *
   * @example
   * ```ts
   * await ctx.files.write("names.txt", "ann\nbob\n");
   * await ctx.files.write("pixel.bin", new Uint8Array([0, 255]));
   * await ctx.files.write("config.json", { limit: 10 });
   * ```
   */
  write(path: string, content: string | ArrayBuffer | ArrayBufferView | Json): Promise<void>;
  /**
   * Deletes a file. Succeeds if it does not exist.
   *
   * @example
   * ```ts
   * await ctx.files.delete("names.txt");
   * ```
   */
  delete(path: string): Promise<void>;
  /**
   * Lists files by path, with the same options and pages as `ctx.kv.list`.
   *
   * `size` is in bytes, `modifiedAt` an RFC 3339 time in UTC.
   *
   * @example
   * ```ts
   * const { files } = await ctx.files.list({ prefix: "reports/", limit: 10 });
   * for (const { path, size, modifiedAt } of files) ctx.log.info(path, { size, modifiedAt });
   * ```
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
 * they occur in a value. If a line is too long, its fields are cut: `{ "cut": "…" }`.
 *
 * Default limits: 4 KiB for each line, and 256 lines with 64 KiB for each call. Further lines are
 * dropped and counted.
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

/**
 * The options of `ctx.httpGetJson`.
 *
 * @example
 * ```ts
 * const options: HttpGetJsonOptions = {
 *   headers: { "accept-language": "en" },
 *   timeoutMs: 2_000,
 *   auth: { header: "x-api-key", env: "RATE_KEY" },
 * };
 * const { json } = await ctx.httpGetJson("https://api.example.com/rate", options);
 * ```
 */
interface HttpGetJsonOptions {
  /**
   * Request headers, at most 32 with 8 KiB together. Default: `accept: application/json`.
   *
   * Only the host can set headers of the connection and of the body, for example `host` and
   * `content-type`.
   */
  headers?: ToolHeadersInit;
  /**
   * The time limit in milliseconds, redirects included. At least 1.
   *
   * Default and maximum: the tool's limit `httpWallMs`, 5,000 unless raised.
   */
  timeoutMs?: number;
  /**
   * Sends the secret `env` in the header `header`, for example `authorization`.
   *
   * The handler does not see the value. The host sends it over https only, and only to the origin
   * of the URL: its scheme, host and port. A redirect within that origin gets the header too; a
   * redirect to another origin does not. If the server repeats a value of 8 bytes or more, the
   * handler gets `[redacted]`.
   */
  auth?: { header: string; env: string };
}

/**
 * The response of `ctx.httpGetJson`, with any status.
 *
 * The body is parsed as JSON if its type is `application/json` or `…+json`. It is also parsed if
 * its type is `text/*`, bytes, JavaScript or missing and the body is JSON. gzip, deflate, br and
 * zstd are decoded. Any other body rejects with `not_json`, and the error has the response's
 * `status`.
 *
 * @example
 * ```ts
 * const response = await ctx.httpGetJson<{ rate: number }>("https://api.example.com/rate");
 * if (response.status === 429) throw new Error(`retry after ${response.headers["retry-after"]} s`);
 * return { rate: response.json.rate, at: response.headers.date };
 * ```
 */
interface HttpGetJsonResult<T = any> {
  /** The HTTP status. */
  status: number;
  /**
   * Some of the response headers, with lowercase names.
   *
   * Contains headers about caching, rate limits, dates, types and links, for example `etag` and
   * `retry-after`. Repeated headers are joined with `, `.
   */
  headers: Record<string, string>;
  /** The parsed body, or null if the body is empty. */
  json: T;
}

/**
 * The error that an operation of `ctx` rejects with, and the `cause` of a failed `fetch`.
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
   * - `quota_exceeded`: a limit of the tool or of the call is reached
   * - `invalid_argument`: an argument is invalid
   * - `call_ended`: the call that this `ctx` belongs to has ended
   * - `contended`: other writes came first at every attempt; try again
   * - `store_unavailable`: the host's storage is down; try again
   * - `too_large`: the response is larger than the worker accepts
   * - `redirected`: the server redirected a `fetch` with `redirect: "error"`
   * - `forbidden_address`, `too_many_redirects`, `timeout`, `unreachable`, `body_too_large`,
   *   `bad_response`, `not_json`: see `ctx.httpGetJson`
   */
  readonly code: string;
  /** The HTTP status of a `not_json` response of `httpGetJson`, for example 404. */
  readonly status?: number;
}

// The web's globals that a handler has.

// Portable forms of Node's modules, which the bundler adds. They have no types here.
declare module "node:*";

/** A file of WebAssembly, which the bundler puts into the bundle as a module. */
declare module "*.wasm" {
  /** The compiled file. Undefined without a grant. */
  const module: WebAssembly.Module;
  /** The compiled file. Undefined without a grant. */
  export default module;
}

/** Bytes: an `ArrayBuffer`, or a view of one, for example a `Uint8Array`. */
type ToolBytes = ArrayBuffer | ArrayBufferView;

/**
 * The body of a request or a response.
 *
 * A `Blob` or a form sets the content type. A stream has chunks of `Uint8Array`, and is read whole.
 *
 * @example
 * ```ts
 * const body: ToolBody = new Blob(["text"], { type: "text/plain" });
 * return new Response(body);
 * ```
 */
type ToolBody = string | ToolBytes | Blob | FormData | URLSearchParams | ReadableStream<Uint8Array>;

/**
 * A response with a status, headers and any body: the answer of a server to `fetch`, or your own.
 *
 * Return one if a JSON value alone is not enough. The answer of a server can be returned as it is.
 * A body can be read once. A second read rejects with a `TypeError`.
 *
 * @example
 * ```ts
 * export default (): ToolResult => new Response("id,name\n1,one\n", { headers: { "content-type": "text/csv" } });
 * ```
 */
interface Response {
  /** The HTTP status, from 200 to 599. A server can answer with others. */
  readonly status: number;
  /** The status message. Default: empty. */
  readonly statusText: string;
  /** Whether the status is from 200 to 299. */
  readonly ok: boolean;
  /** The headers. You cannot change those of a server's answer. */
  readonly headers: Headers;
  /** `basic` for the answer of a server, `default` for your own, `error` for that of `Response.error()`. */
  readonly type: "basic" | "default" | "error";
  /** The URL that answered, after redirects. Empty for your own. */
  readonly url: string;
  /** Whether a redirect led to `url`. */
  readonly redirected: boolean;
  /** The body as a stream of bytes, or null without a body. */
  readonly body: ReadableStream<Uint8Array> | null;
  /** Whether the body was read. */
  readonly bodyUsed: boolean;
  /** Reads the body as text, decoded as UTF-8. */
  text(): Promise<string>;
  /** Reads the body as JSON. Rejects with a `SyntaxError` if it is not JSON. */
  json(): Promise<any>;
  /** Reads the body as bytes. */
  bytes(): Promise<Uint8Array>;
  /** Reads the body as an `ArrayBuffer`. */
  arrayBuffer(): Promise<ArrayBuffer>;
  /** Reads the body as a `Blob` with its content type. */
  blob(): Promise<Blob>;
  /** Reads the body as a form, of both encodings. A multipart form has at most 1000 parts. */
  formData(): Promise<FormData>;
  /** Copies the response. Throws a `TypeError` if the body was read. */
  clone(): Response;
}
/**
 * The options of a `Response`.
 *
 * @example
 * ```ts
 * const init: ToolResponseInit = { status: 404, headers: { "content-type": "text/plain" } };
 * return new Response("no such city", init);
 * ```
 */
interface ToolResponseInit {
  /**
   * The HTTP status, from 200 to 599. Default: 200. Fractions are truncated.
   *
   * Throws a `RangeError` for other values. Do not return 401, 402 or 407, which only the host
   * sends.
   */
  status?: number;
  /** The status message. Default: empty. Callers do not get it. */
  statusText?: string;
  /** The headers. A text body without `content-type` is `text/plain`, parameters are a form. */
  headers?: ToolHeadersInit;
}
declare var Response: {
  readonly prototype: Response;
  /**
   * Creates a response. Default body: none.
   *
   * Throws a `TypeError` if the status is 204, 205 or 304 and there is a body.
   */
  new (body?: ToolBody | null, init?: ToolResponseInit): Response;
  /**
   * Creates a response with a JSON body. Throws a `TypeError` if the value has no JSON form.
   *
   * @example
   * ```ts
   * return Response.json({ error: "unknown city" }, { status: 404 });
   * ```
   */
  json(value: unknown, init?: ToolResponseInit): Response;
  /**
   * Creates a redirect. Default status: 302.
   *
   * A tool cannot redirect: if a handler returns it, the call fails. Throws a `TypeError` if the
   * URL is not complete, and a `RangeError` for a status that is not a redirect.
   */
  redirect(url: string | URL, status?: number): Response;
  /** Creates the response of a network error. If a handler returns it, the call fails: an answer needs a status. */
  error(): Response;
};

/**
 * Capability `fetch`. Sends a request to one of the tool's `allowedHosts`, as in the
 * [Fetch standard](https://fetch.spec.whatwg.org/#fetch-method).
 *
 * Resolves for a response with any status, when its head has arrived. `body` brings the rest in pieces
 * as the server sends them, and the server waits while you read none. Follows up to 3 redirects to
 * allowed hosts. gzip, deflate, br and zstd are decoded. There are no cookies and no cache. It
 * shares its limits with `ctx.httpGetJson`, by default 10 requests in a call, 1 MiB for each response,
 * and 5,000 ms: here, to the head and then to each piece. The body of a request has at most 1 MiB.
 *
 * Rejects with a `TypeError` if the request fails. Its `cause` is a `ToolError` with the reason: see
 * `ctx.httpGetJson`. Rejects with the signal's reason if the signal aborts, which also ends the body.
 *
 * @example
 * ```ts
 * const response = await fetch("https://api.example.com/orders", {
 *   method: "POST",
 *   headers: { "content-type": "application/json", authorization: `Bearer ${ctx.env.ORDERS_KEY}` },
 *   body: JSON.stringify({ item: req.input.item }),
 *   signal: AbortSignal.timeout(2_000),
 * });
 * if (!response.ok) throw new Error(`the server answered ${response.status}`);
 * return await response.json();
 * ```
 */
declare function fetch(input: string | URL | Request, init?: ToolRequestInit): Promise<Response>;

/**
 * The options of `fetch` and of a `Request`.
 *
 * The host ignores headers that only it can set, for example `host` and `content-length`.
 *
 * @example
 * ```ts
 * const init: ToolRequestInit = { method: "PUT", body: new URLSearchParams({ city: "Oslo" }) };
 * const response = await fetch("https://api.example.com/city", init);
 * ```
 */
interface ToolRequestInit {
  /** The method. Default: GET. CONNECT, TRACE and TRACK throw a `TypeError`. */
  method?: string;
  /** The headers. A text body without `content-type` is `text/plain`, parameters are a form. */
  headers?: ToolHeadersInit;
  /** The body. Default: none. A GET or HEAD with a body throws a `TypeError`. */
  body?: ToolBody | null;
  /**
   * How to handle a redirect: follow it, return it as the response, or reject. Default: `follow`.
   *
   * Another origin does not get `authorization` and `cookie`.
   */
  redirect?: "follow" | "manual" | "error";
  /** Aborts the request. The host can still complete it, and it counts as a request of the call. */
  signal?: AbortSignal | null;
  /** No effect, because there is no cache. `only-if-cached` throws a `TypeError`. */
  cache?: "default" | "no-store" | "reload" | "no-cache" | "force-cache" | "only-if-cached";
  /** No effect, because there are no cookies. */
  credentials?: "omit" | "same-origin" | "include";
  /** No effect, because a tool has no origin. */
  mode?: "same-origin" | "no-cors" | "cors";
  /** No effect: the call ends when the handler does. */
  keepalive?: boolean;
  /** No effect. Other runtimes need it for a stream as a body. */
  duplex?: "half";
}
/**
 * A request for `fetch`. Its body can be read once, and `fetch` reads it.
 *
 * @example
 * ```ts
 * const request = new Request("https://api.example.com/orders", { method: "POST", body: "{}" });
 * request.headers.set("content-type", "application/json");
 * const response = await fetch(request);
 * ```
 */
interface Request {
  /** The method. `get` and other common ones are in upper case. */
  readonly method: string;
  /** The complete URL. */
  readonly url: string;
  /** The headers, which you can change. */
  readonly headers: Headers;
  /** Always empty. */
  readonly destination: "";
  /** The option `redirect`. */
  readonly redirect: "follow" | "manual" | "error";
  /** A signal that aborts with the option `signal`. */
  readonly signal: AbortSignal;
  /** The option `cache`. */
  readonly cache: string;
  /** The option `credentials`. */
  readonly credentials: string;
  /** The option `mode`. */
  readonly mode: string;
  /** The option `keepalive`. */
  readonly keepalive: boolean;
  /** The option `integrity`. A `fetch` rejects unless it is empty. */
  readonly integrity: string;
  /** The option `referrer`, which can be empty or `about:client`. */
  readonly referrer: string;
  /** The option `referrerPolicy`. */
  readonly referrerPolicy: string;
  /** Always `half`. */
  readonly duplex: "half";
  /** The body as a stream of bytes, or null without a body. */
  readonly body: ReadableStream<Uint8Array> | null;
  /** Whether the body was read. */
  readonly bodyUsed: boolean;
  /** Reads the body as text, decoded as UTF-8. */
  text(): Promise<string>;
  /** Reads the body as JSON. Rejects with a `SyntaxError` if it is not JSON. */
  json(): Promise<any>;
  /** Reads the body as bytes. */
  bytes(): Promise<Uint8Array>;
  /** Reads the body as an `ArrayBuffer`. */
  arrayBuffer(): Promise<ArrayBuffer>;
  /** Reads the body as a `Blob` with its content type. */
  blob(): Promise<Blob>;
  /** Reads the body as a form, of both encodings. A multipart form has at most 1000 parts. */
  formData(): Promise<FormData>;
  /** Copies the request. Throws a `TypeError` if the body was read. */
  clone(): Request;
}
declare var Request: {
  readonly prototype: Request;
  /** Creates a request. Throws a `TypeError` if the URL is not complete, or an option is invalid. */
  new (input: string | URL | Request, init?: ToolRequestInit): Request;
};

/**
 * Headers as a record, as rows of name and value, or as `Headers`.
 *
 * @example
 * ```ts
 * const record: ToolHeadersInit = { "content-type": "text/csv" };
 * const rows: ToolHeadersInit = [["link", "</a>; rel=next"], ["link", "</b>; rel=prev"]];
 * ```
 */
type ToolHeadersInit = Headers | Record<string, string> | readonly (readonly [string, string])[] | Iterable<readonly [string, string]>;
/**
 * HTTP headers. Names are case-insensitive, and sorted when you iterate.
 *
 * Throws a `TypeError` for a name or value that cannot be sent.
 *
 * @example
 * ```ts
 * const headers = new Headers({ "content-type": "text/csv" });
 * headers.append("link", '</docs>; rel="help"');
 * ```
 */
interface Headers {
  /** Adds a value. Existing values of the name remain. */
  append(name: string, value: string): void;
  /** Removes all values of a name. */
  delete(name: string): void;
  /** Returns the values of a name, joined with `, `, or null if there are none. */
  get(name: string): string | null;
  /** Returns each value of `set-cookie`. */
  getSetCookie(): string[];
  /** Returns whether the name has a value. */
  has(name: string): boolean;
  /** Replaces all values of a name. */
  set(name: string, value: string): void;
  /** Calls `callback` for each name, with `self` as its `this`. */
  forEach(callback: (value: string, name: string, headers: Headers) => void, self?: any): void;
  /** Iterates over names and values. */
  entries(): IterableIterator<[string, string]>;
  /** Iterates over names. */
  keys(): IterableIterator<string>;
  /** Iterates over values. */
  values(): IterableIterator<string>;
  /** The same as `entries`. */
  [Symbol.iterator](): IterableIterator<[string, string]>;
}
declare var Headers: {
  readonly prototype: Headers;
  /** Creates headers. Default: none. */
  new (init?: ToolHeadersInit): Headers;
};

/**
 * A URL, as in the [URL standard](https://url.spec.whatwg.org/#url-class).
 *
 * An assignment to a part is ignored if the part would be invalid.
 *
 * @example
 * ```ts
 * const url = new URL("/v1/rate", "https://api.example.com");
 * url.searchParams.set("currency", "EUR");
 * const { status } = await ctx.httpGetJson(url);
 * ```
 */
interface URL {
  /** The complete URL. Throws a `TypeError` if you assign an invalid one. */
  href: string;
  /** Scheme, host and port, for example `https://example.com:8443`. */
  readonly origin: string;
  /** The scheme with a colon, for example `https:`. */
  protocol: string;
  /** The user name, or an empty string. */
  username: string;
  /** The password, or an empty string. */
  password: string;
  /** The host with its port, for example `example.com:8443`. */
  host: string;
  /** The host without its port. */
  hostname: string;
  /** The port, or an empty string for the default port of the scheme. */
  port: string;
  /** The path, for example `/v1/rate`. */
  pathname: string;
  /** The query with its `?`, or an empty string. */
  search: string;
  /** The fragment with its `#`, or an empty string. */
  hash: string;
  /** The parameters of the query. Changes apply to the URL. */
  readonly searchParams: URLSearchParams;
  /** Returns `href`. */
  toString(): string;
  /** Returns `href`. */
  toJSON(): string;
}
declare var URL: {
  readonly prototype: URL;
  /** Parses a URL, relative to `base` if given. Throws a `TypeError` if it is invalid. */
  new (url: string | URL, base?: string | URL): URL;
  /**
   * Returns a URL with which `fetch` reads a `Blob`, in this call only.
   *
   * @example
   * ```ts
   * const url = URL.createObjectURL(new Blob(["hello"]));
   * const text = await (await fetch(url)).text();
   * URL.revokeObjectURL(url);
   * ```
   */
  createObjectURL(object: Blob): string;
  /** Removes a URL of `createObjectURL`. A `Request` that was made before keeps its `Blob`. */
  revokeObjectURL(url: string): void;
  /** Returns whether the URL is valid. */
  canParse(url: string | URL, base?: string | URL): boolean;
  /** Parses a URL. Returns null if it is invalid. */
  parse(url: string | URL, base?: string | URL): URL | null;
};

/**
 * The parameters of a query, as in the
 * [URL standard](https://url.spec.whatwg.org/#interface-urlsearchparams).
 *
 * @example
 * ```ts
 * const params = new URLSearchParams({ city: "Berlin", units: "metric" });
 * const { json } = await ctx.httpGetJson(`https://api.example.com/weather?${params}`);
 * ```
 */
interface URLSearchParams {
  /** The number of parameters. */
  readonly size: number;
  /** Adds a parameter. Existing parameters with the name remain. */
  append(name: string, value: string): void;
  /** Removes the parameters with the name, or only those with this value. */
  delete(name: string, value?: string): void;
  /** Returns the first value of a name, or null if there is none. */
  get(name: string): string | null;
  /** Returns all values of a name. */
  getAll(name: string): string[];
  /** Returns whether a parameter has the name, and the value if given. */
  has(name: string, value?: string): boolean;
  /** Replaces all values of a name. */
  set(name: string, value: string): void;
  /** Sorts the parameters by name. Those with the same name keep their order. */
  sort(): void;
  /** Calls `callback` for each parameter, with `self` as its `this`. */
  forEach(callback: (value: string, name: string, params: URLSearchParams) => void, self?: any): void;
  /** Iterates over names and values. */
  entries(): IterableIterator<[string, string]>;
  /** Iterates over names. */
  keys(): IterableIterator<string>;
  /** Iterates over values. */
  values(): IterableIterator<string>;
  /** The same as `entries`. */
  [Symbol.iterator](): IterableIterator<[string, string]>;
  /** Returns the query without `?`, percent-encoded. */
  toString(): string;
}
declare var URLSearchParams: {
  readonly prototype: URLSearchParams;
  /** Parses a query, with or without `?`, or takes rows or a record. Default: no parameters. */
  new (
    init?: string | URLSearchParams | Record<string, string> | readonly (readonly [string, string])[] | Iterable<readonly [string, string]>,
  ): URLSearchParams;
};

/**
 * Encodes text as UTF-8.
 *
 * @example
 * ```ts
 * const { byteLength } = new TextEncoder().encode(req.inputText);
 * ```
 */
interface TextEncoder {
  /** Always `utf-8`. */
  readonly encoding: "utf-8";
  /** Returns the bytes of a text. Default: no bytes. */
  encode(text?: string): Uint8Array;
  /**
   * Writes as many whole characters as fit into `target`.
   *
   * Returns the UTF-16 code units that were read and the bytes that were written.
   */
  encodeInto(text: string, target: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: {
  readonly prototype: TextEncoder;
  /** Creates an encoder. */
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
  /** The name of the encoding, in lower case. */
  readonly encoding: string;
  /** Whether invalid bytes throw. */
  readonly fatal: boolean;
  /** Whether a byte order mark is part of the text. */
  readonly ignoreBOM: boolean;
  /**
   * Decodes bytes. Default: no bytes.
   *
   * With `stream: true`, more bytes of the text follow in a later `decode` of the same call.
   * At most 256 texts are decoded in pieces at once; the next throws a `RangeError`.
   *
   * Invalid bytes become U+FFFD. With `fatal`, they throw a `TypeError`.
   */
  decode(input?: ToolBytes, options?: { stream?: boolean }): string;
}
declare var TextDecoder: {
  readonly prototype: TextDecoder;
  /**
   * Creates a decoder.
   *
   * `label`: any label of the
   * [Encoding standard](https://encoding.spec.whatwg.org/#names-and-labels) except those of
   * `replacement`. Default: `utf-8`. Throws a `RangeError` for other labels. Both options are false
   * by default.
   */
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder;
};

/**
 * Encodes a stream of text as UTF-8.
 *
 * @example
 * ```ts
 * return new Response(ReadableStream.from(["a\n", "b\n"]).pipeThrough(new TextEncoderStream()));
 * ```
 */
interface TextEncoderStream {
  /** Always `utf-8`. */
  readonly encoding: "utf-8";
  /** The bytes. */
  readonly readable: ReadableStream<Uint8Array>;
  /** Takes the text. */
  readonly writable: WritableStream<string>;
}
declare var TextEncoderStream: {
  readonly prototype: TextEncoderStream;
  /** Creates an encoder. */
  new (): TextEncoderStream;
};

/**
 * Decodes a stream of bytes to text. Characters that are divided between chunks stay whole.
 *
 * @example
 * ```ts
 * const response = await fetch("https://api.example.com/long.txt");
 * let lines = 0;
 * for await (const text of response.body!.pipeThrough(new TextDecoderStream())) lines += text.split("\n").length - 1;
 * return { lines };
 * ```
 */
interface TextDecoderStream {
  /** The name of the encoding, in lower case. */
  readonly encoding: string;
  /** Whether invalid bytes are an error of the stream. */
  readonly fatal: boolean;
  /** Whether a byte order mark is part of the text. */
  readonly ignoreBOM: boolean;
  /** The text. */
  readonly readable: ReadableStream<string>;
  /** Takes the bytes. */
  readonly writable: WritableStream<ToolBytes>;
}
declare var TextDecoderStream: {
  readonly prototype: TextDecoderStream;
  /** Creates a decoder. Labels and options are those of a `TextDecoder`. */
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoderStream;
};

/**
 * A stream that is read in chunks, as in the [Streams standard](https://streams.spec.whatwg.org/).
 *
 * @example
 * ```ts
 * const numbers = new ReadableStream<number>({
 *   start(controller) {
 *     for (const number of [1, 2, 3]) controller.enqueue(number);
 *     controller.close();
 *   },
 * });
 * let sum = 0;
 * for await (const number of numbers) sum += number;
 * return { sum };
 * ```
 */
interface ReadableStream<R = any> {
  /** Whether a reader has the stream. */
  readonly locked: boolean;
  /** Ends the stream, because nobody needs the rest. */
  cancel(reason?: any): Promise<void>;
  /** Returns a reader of chunks, which locks the stream. */
  getReader(options?: { mode?: undefined }): ReadableStreamDefaultReader<R>;
  /** Returns a reader, which locks the stream. A stream of bytes can fill your own buffers. */
  getReader(options: { mode: "byob" }): ReadableStreamBYOBReader;
  /** Writes the stream to the one side of a pair, and returns the other side. */
  pipeThrough<T>(pair: { writable: WritableStream<R>; readable: ReadableStream<T> }, options?: ToolPipeOptions): ReadableStream<T>;
  /** Writes the stream to another one. Resolves at the end. */
  pipeTo(destination: WritableStream<R>, options?: ToolPipeOptions): Promise<void>;
  /** Returns two streams with the same chunks. A chunk stays in memory until both are read. */
  tee(): [ReadableStream<R>, ReadableStream<R>];
  /** Iterates over the chunks. Leaving the loop cancels the stream, unless `preventCancel` is set. */
  values(options?: { preventCancel?: boolean }): AsyncIterableIterator<R>;
  /** The same as `values`. */
  [Symbol.asyncIterator](options?: { preventCancel?: boolean }): AsyncIterableIterator<R>;
}
declare var ReadableStream: {
  readonly prototype: ReadableStream;
  /** Creates a stream of bytes, whose reader can bring its own buffer. */
  new (source: ToolByteSource, strategy?: { highWaterMark?: number }): ReadableStream<Uint8Array>;
  /** Creates a stream of any chunks. By default, it has none and does not end. */
  new <R = any>(source?: ToolSource<R>, strategy?: ToolQueuingStrategy<R>): ReadableStream<R>;
  /** Makes a stream of an iterable, for example of an asynchronous generator. */
  from<R>(iterable: Iterable<R | PromiseLike<R>> | AsyncIterable<R>): ReadableStream<R>;
};
/**
 * The content of a `ReadableStream`.
 *
 * @example
 * ```ts
 * let next = 1;
 * const source: ToolSource<number> = { pull: (controller) => controller.enqueue(next++) };
 * const first = await new ReadableStream(source).getReader().read();
 * ```
 */
interface ToolSource<R = any> {
  /** Called once, when the stream is created. */
  start?: (controller: ReadableStreamDefaultController<R>) => any;
  /** Called when the stream has room for more. Not called again before its promise resolves. */
  pull?: (controller: ReadableStreamDefaultController<R>) => void | PromiseLike<void>;
  /** Called when nobody needs the rest. */
  cancel?: (reason: any) => void | PromiseLike<void>;
  /** Absent for a stream of any chunks. */
  type?: undefined;
}
/**
 * The content of a `ReadableStream` of bytes.
 *
 * @example
 * ```ts
 * const source: ToolByteSource = {
 *   type: "bytes",
 *   start(controller) {
 *     controller.enqueue(new Uint8Array([1, 2, 3]));
 *     controller.close();
 *   },
 * };
 * return new Response(new ReadableStream(source));
 * ```
 */
interface ToolByteSource {
  /** Always `bytes`. */
  type: "bytes";
  /** Called once, when the stream is created. */
  start?: (controller: ReadableByteStreamController) => any;
  /** Called when the stream has room for more. Not called again before its promise resolves. */
  pull?: (controller: ReadableByteStreamController) => void | PromiseLike<void>;
  /** Called when nobody needs the rest. */
  cancel?: (reason: any) => void | PromiseLike<void>;
  /** The length of a buffer to create for each read without one. */
  autoAllocateChunkSize?: number;
}
/**
 * How many chunks a stream holds before it asks its source to wait.
 *
 * @example
 * ```ts
 * const strategy: ToolQueuingStrategy<string> = { highWaterMark: 1_000, size: (text) => text.length };
 * const stream = new ReadableStream<string>({}, strategy);
 * ```
 */
interface ToolQueuingStrategy<T = any> {
  /** The size of all chunks together at which the stream is full. */
  highWaterMark?: number;
  /** Returns the size of a chunk. Default: 1. */
  size?: (chunk: T) => number;
}
/**
 * The options of `pipeTo` and `pipeThrough`.
 *
 * @example
 * ```ts
 * const options: ToolPipeOptions = { signal: AbortSignal.timeout(1_000) };
 * await ReadableStream.from(["a"]).pipeTo(new WritableStream(), options);
 * ```
 */
interface ToolPipeOptions {
  /** Whether the destination stays open at the end. */
  preventClose?: boolean;
  /** Whether an error of the source leaves the destination as it is. */
  preventAbort?: boolean;
  /** Whether an error of the destination leaves the source as it is. */
  preventCancel?: boolean;
  /** Stops the pipe. */
  signal?: AbortSignal;
}
/**
 * Reads the chunks of a stream one by one.
 *
 * @example
 * ```ts
 * const reader = ReadableStream.from(["a", "b"]).getReader();
 * for (let next = await reader.read(); !next.done; next = await reader.read()) ctx.log.info(next.value);
 * ```
 */
interface ReadableStreamDefaultReader<R = any> {
  /** Resolves when the stream ends, and rejects if it fails. */
  readonly closed: Promise<void>;
  /** Ends the stream, because nobody needs the rest. */
  cancel(reason?: any): Promise<void>;
  /** Returns the next chunk. */
  read(): Promise<{ done: false; value: R } | { done: true; value: undefined }>;
  /** Unlocks the stream. */
  releaseLock(): void;
}
declare var ReadableStreamDefaultReader: {
  readonly prototype: ReadableStreamDefaultReader;
  /** Creates a reader, as `getReader` does. */
  new <R = any>(stream: ReadableStream<R>): ReadableStreamDefaultReader<R>;
};
/**
 * Reads a stream of bytes into your own buffers.
 *
 * @example
 * ```ts
 * const reader = new Blob(["text"]).stream().getReader({ mode: "byob" });
 * const { value } = await reader.read(new Uint8Array(1_024));
 * return { bytes: value?.length };
 * ```
 */
interface ReadableStreamBYOBReader {
  /** Resolves when the stream ends, and rejects if it fails. */
  readonly closed: Promise<void>;
  /** Ends the stream, because nobody needs the rest. */
  cancel(reason?: any): Promise<void>;
  /** Fills a view, whose buffer moves into the result. `min`: how many elements to wait for. */
  read<T extends ArrayBufferView>(view: T, options?: { min?: number }): Promise<{ done: false; value: T } | { done: true; value: T | undefined }>;
  /** Unlocks the stream. */
  releaseLock(): void;
}
declare var ReadableStreamBYOBReader: {
  readonly prototype: ReadableStreamBYOBReader;
  /** Creates a reader, as `getReader` does. */
  new (stream: ReadableStream<Uint8Array>): ReadableStreamBYOBReader;
};
/**
 * A buffer of a reader that a stream of bytes can fill.
 *
 * @example
 * ```ts
 * const stream = new ReadableStream({
 *   type: "bytes",
 *   pull(controller) {
 *     const request = controller.byobRequest;
 *     if (request === null) return controller.enqueue(new Uint8Array(1));
 *     request.respond(1);
 *   },
 * });
 * ```
 */
interface ReadableStreamBYOBRequest {
  /** The rest of the buffer, or null after `respond`. */
  readonly view: Uint8Array | null;
  /** Says how many bytes of the view were written. */
  respond(bytesWritten: number): void;
  /** Answers with a view of the same buffer, for example if it was moved. */
  respondWithNewView(view: ArrayBufferView): void;
}
declare var ReadableStreamBYOBRequest: {
  readonly prototype: ReadableStreamBYOBRequest;
};
/**
 * Fills a stream of bytes.
 *
 * @example
 * ```ts
 * const start = (controller: ReadableByteStreamController) => controller.enqueue(new Uint8Array([1]));
 * const stream = new ReadableStream({ type: "bytes", start });
 * ```
 */
interface ReadableByteStreamController {
  /** The buffer of a reader that waits, or null. */
  readonly byobRequest: ReadableStreamBYOBRequest | null;
  /** How many bytes the stream has room for, or null after an error. */
  readonly desiredSize: number | null;
  /** Ends the stream after the chunks that wait. */
  close(): void;
  /** Adds a chunk, whose buffer moves into the stream. */
  enqueue(chunk: ArrayBufferView): void;
  /** Ends the stream with an error. */
  error(reason?: any): void;
}
declare var ReadableByteStreamController: {
  readonly prototype: ReadableByteStreamController;
};
/**
 * Fills a stream.
 *
 * @example
 * ```ts
 * const start = (controller: ReadableStreamDefaultController<string>) => controller.enqueue("first");
 * const stream = new ReadableStream<string>({ start });
 * ```
 */
interface ReadableStreamDefaultController<R = any> {
  /** How much the stream has room for, or null after an error. */
  readonly desiredSize: number | null;
  /** Ends the stream after the chunks that wait. */
  close(): void;
  /** Adds a chunk. */
  enqueue(chunk?: R): void;
  /** Ends the stream with an error. */
  error(reason?: any): void;
}
declare var ReadableStreamDefaultController: {
  readonly prototype: ReadableStreamDefaultController;
};

/**
 * A stream that takes chunks.
 *
 * @example
 * ```ts
 * const words: string[] = [];
 * await ReadableStream.from(["a", "b"]).pipeTo(new WritableStream<string>({ write: (word) => void words.push(word) }));
 * return { words };
 * ```
 */
interface WritableStream<W = any> {
  /** Whether a writer has the stream. */
  readonly locked: boolean;
  /** Ends the stream with an error, and drops the chunks that wait. */
  abort(reason?: any): Promise<void>;
  /** Ends the stream after the chunks that wait. */
  close(): Promise<void>;
  /** Returns a writer, which locks the stream. */
  getWriter(): WritableStreamDefaultWriter<W>;
}
declare var WritableStream: {
  readonly prototype: WritableStream;
  /** Creates a stream. By default, it takes everything and does nothing. */
  new <W = any>(sink?: ToolSink<W>, strategy?: ToolQueuingStrategy<W>): WritableStream<W>;
};
/**
 * The destination of a `WritableStream`.
 *
 * @example
 * ```ts
 * let bytes = 0;
 * const sink: ToolSink<Uint8Array> = { write: (chunk) => void (bytes += chunk.length) };
 * await new Blob(["text"]).stream().pipeTo(new WritableStream(sink));
 * ```
 */
interface ToolSink<W = any> {
  /** Called once, when the stream is created. */
  start?: (controller: WritableStreamDefaultController) => any;
  /** Called for each chunk. Not called again before its promise resolves. */
  write?: (chunk: W, controller: WritableStreamDefaultController) => void | PromiseLike<void>;
  /** Called at the end. */
  close?: () => void | PromiseLike<void>;
  /** Called if the stream is aborted. */
  abort?: (reason: any) => void | PromiseLike<void>;
}
/**
 * Controls a `WritableStream` from its destination.
 *
 * @example
 * ```ts
 * const write = (_chunk: string, controller: WritableStreamDefaultController) => controller.error(new Error("full"));
 * const stream = new WritableStream<string>({ write });
 * ```
 */
interface WritableStreamDefaultController {
  /** Aborts when the stream does. */
  readonly signal: AbortSignal;
  /** Ends the stream with an error. */
  error(reason?: any): void;
}
declare var WritableStreamDefaultController: {
  readonly prototype: WritableStreamDefaultController;
};
/**
 * Writes chunks to a stream.
 *
 * @example
 * ```ts
 * const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
 * const writer = writable.getWriter();
 * void writer.write(new TextEncoder().encode("text")).then(() => writer.close());
 * return new Response(readable);
 * ```
 */
interface WritableStreamDefaultWriter<W = any> {
  /** Resolves when the stream ends, and rejects if it fails. */
  readonly closed: Promise<void>;
  /** How much the stream has room for, or null after an error. */
  readonly desiredSize: number | null;
  /** Resolves when the stream has room for more. */
  readonly ready: Promise<void>;
  /** Ends the stream with an error, and drops the chunks that wait. */
  abort(reason?: any): Promise<void>;
  /** Ends the stream after the chunks that wait. */
  close(): Promise<void>;
  /** Unlocks the stream. */
  releaseLock(): void;
  /** Writes a chunk. Resolves when the destination has taken it. */
  write(chunk?: W): Promise<void>;
}
declare var WritableStreamDefaultWriter: {
  readonly prototype: WritableStreamDefaultWriter;
  /** Creates a writer, as `getWriter` does. */
  new <W = any>(stream: WritableStream<W>): WritableStreamDefaultWriter<W>;
};

/**
 * A pair of streams: what is written to one, is read from the other in a changed form.
 *
 * @example
 * ```ts
 * const upper = new TransformStream<string, string>({
 *   transform(chunk, controller) {
 *     controller.enqueue(chunk.toUpperCase());
 *   },
 * });
 * return new Response(ReadableStream.from(["a", "b"]).pipeThrough(upper).pipeThrough(new TextEncoderStream()));
 * ```
 */
interface TransformStream<I = any, O = any> {
  /** The changed chunks. */
  readonly readable: ReadableStream<O>;
  /** Takes the chunks. */
  readonly writable: WritableStream<I>;
}
declare var TransformStream: {
  readonly prototype: TransformStream;
  /** Creates a pair. By default, chunks stay as they are. */
  new <I = any, O = any>(
    transformer?: ToolTransformer<I, O>,
    writableStrategy?: ToolQueuingStrategy<I>,
    readableStrategy?: ToolQueuingStrategy<O>,
  ): TransformStream<I, O>;
};
/**
 * How a `TransformStream` changes chunks.
 *
 * @example
 * ```ts
 * const twice: ToolTransformer<number, number> = { transform: (chunk, controller) => controller.enqueue(chunk * 2) };
 * const stream = ReadableStream.from([1, 2]).pipeThrough(new TransformStream(twice));
 * ```
 */
interface ToolTransformer<I = any, O = any> {
  /** Called once, when the pair is created. */
  start?: (controller: TransformStreamDefaultController<O>) => any;
  /** Called for each chunk. Not called again before its promise resolves. */
  transform?: (chunk: I, controller: TransformStreamDefaultController<O>) => void | PromiseLike<void>;
  /** Called after the last chunk. */
  flush?: (controller: TransformStreamDefaultController<O>) => void | PromiseLike<void>;
  /** Called if one of the streams is canceled or aborted. */
  cancel?: (reason: any) => void | PromiseLike<void>;
}
/**
 * Controls a `TransformStream` from its transformer.
 *
 * @example
 * ```ts
 * const transform = (chunk: string, controller: TransformStreamDefaultController<string>) => controller.enqueue(`${chunk}\n`);
 * const lines = new TransformStream({ transform });
 * ```
 */
interface TransformStreamDefaultController<O = any> {
  /** How much the readable side has room for, or null after an error. */
  readonly desiredSize: number | null;
  /** Adds a chunk to the readable side. */
  enqueue(chunk?: O): void;
  /** Ends both sides with an error. */
  error(reason?: any): void;
  /** Closes the readable side, and ends the writable side with an error. */
  terminate(): void;
}
declare var TransformStreamDefaultController: {
  readonly prototype: TransformStreamDefaultController;
};
/**
 * Measures chunks by their bytes.
 *
 * @example
 * ```ts
 * const stream = new ReadableStream({}, new ByteLengthQueuingStrategy({ highWaterMark: 65_536 }));
 * ```
 */
interface ByteLengthQueuingStrategy {
  /** The number of bytes at which a stream is full. */
  readonly highWaterMark: number;
  /** Returns the bytes of a chunk. */
  readonly size: (chunk: any) => number;
}
declare var ByteLengthQueuingStrategy: {
  readonly prototype: ByteLengthQueuingStrategy;
  /** Creates a strategy. */
  new (options: { highWaterMark: number }): ByteLengthQueuingStrategy;
};
/**
 * Counts chunks.
 *
 * @example
 * ```ts
 * const stream = new ReadableStream({}, new CountQueuingStrategy({ highWaterMark: 4 }));
 * ```
 */
interface CountQueuingStrategy {
  /** The number of chunks at which a stream is full. */
  readonly highWaterMark: number;
  /** Returns 1. */
  readonly size: (chunk?: any) => number;
}
declare var CountQueuingStrategy: {
  readonly prototype: CountQueuingStrategy;
  /** Creates a strategy. */
  new (options: { highWaterMark: number }): CountQueuingStrategy;
};

/**
 * Compresses a stream of bytes.
 *
 * At most 32 streams of a call are compressed or decompressed at once; the next throws a `RangeError`.
 * Compression counts as processor time.
 *
 * @example
 * ```ts
 * const packed = new Blob(["text"]).stream().pipeThrough(new CompressionStream("gzip"));
 * await ctx.files.write("text.gz", await new Response(packed).bytes());
 * ```
 */
interface CompressionStream {
  /** The compressed bytes. */
  readonly readable: ReadableStream<Uint8Array>;
  /** Takes the bytes. */
  readonly writable: WritableStream<ToolBytes>;
}
declare var CompressionStream: {
  readonly prototype: CompressionStream;
  /** Creates a compressor. Throws a `TypeError` for another format. */
  new (format: "gzip" | "deflate" | "deflate-raw"): CompressionStream;
};
/**
 * Decompresses a stream of bytes. Invalid, incomplete or longer input is an error of the stream.
 *
 * The output counts as buffers of the worker.
 *
 * @example
 * ```ts
 * const packed = await ctx.files.read("text.gz");
 * if (packed === null) return null;
 * const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
 * return { text: await new Response(text).text() };
 * ```
 */
interface DecompressionStream {
  /** The bytes. */
  readonly readable: ReadableStream<Uint8Array>;
  /** Takes the compressed bytes. */
  readonly writable: WritableStream<ToolBytes>;
}
declare var DecompressionStream: {
  readonly prototype: DecompressionStream;
  /** Creates a decompressor. Throws a `TypeError` for another format. */
  new (format: "gzip" | "deflate" | "deflate-raw" | "brotli"): DecompressionStream;
};

/**
 * Bytes with a media type, which nobody can change.
 *
 * @example
 * ```ts
 * const blob = new Blob(["id,name\n", "1,one\n"], { type: "text/csv" });
 * return new Response(blob);
 * ```
 */
interface Blob {
  /** The number of bytes. */
  readonly size: number;
  /** The media type in lower case, or an empty text. */
  readonly type: string;
  /** Reads the bytes as an `ArrayBuffer`. */
  arrayBuffer(): Promise<ArrayBuffer>;
  /** Reads the bytes. */
  bytes(): Promise<Uint8Array>;
  /** Returns a part. Negative positions count from the end. Default: everything. */
  slice(start?: number, end?: number, type?: string): Blob;
  /** Returns a stream of the bytes. */
  stream(): ReadableStream<Uint8Array>;
  /** Reads the bytes as text, decoded as UTF-8. */
  text(): Promise<string>;
  /** Returns a stream of the text, decoded as UTF-8. */
  textStream(): ReadableStream<string>;
}
declare var Blob: {
  readonly prototype: Blob;
  /** Joins parts. Default: none, without a type. */
  new (parts?: Iterable<string | ToolBytes | Blob>, options?: { type?: string; endings?: "transparent" | "native" }): Blob;
};
/**
 * A `Blob` with a name, for example in a form.
 *
 * @example
 * ```ts
 * const form = new FormData();
 * form.append("photo", new File([new Uint8Array([1, 2])], "photo.png", { type: "image/png" }));
 * ```
 */
interface File extends Blob {
  /** The name. */
  readonly name: string;
  /** When it was changed, in milliseconds since 1970. */
  readonly lastModified: number;
}
declare var File: {
  readonly prototype: File;
  /** Joins parts to a file. Default: the start of the call as its time. */
  new (
    parts: Iterable<string | ToolBytes | Blob>,
    name: string,
    options?: { type?: string; endings?: "transparent" | "native"; lastModified?: number },
  ): File;
};

/**
 * The fields of a form, each a text or a file.
 *
 * As a body, it is sent as `multipart/form-data`.
 *
 * @example
 * ```ts
 * const form = new FormData();
 * form.append("title", "A photo");
 * form.append("photo", new Blob([new Uint8Array([1, 2])], { type: "image/png" }), "photo.png");
 * const response = await fetch("https://api.example.com/photos", { method: "POST", body: form });
 * ```
 */
interface FormData {
  /** Adds a field. Existing fields with the name remain. */
  append(name: string, value: string): void;
  /** Adds a file. A `Blob` without a name is called `blob`. */
  append(name: string, value: Blob, filename?: string): void;
  /** Removes the fields with the name. */
  delete(name: string): void;
  /** Returns the first field with the name, or null if there is none. */
  get(name: string): string | File | null;
  /** Returns all fields with the name. */
  getAll(name: string): (string | File)[];
  /** Returns whether a field has the name. */
  has(name: string): boolean;
  /** Replaces all fields with the name. */
  set(name: string, value: string): void;
  /** Replaces all fields with the name by a file. */
  set(name: string, value: Blob, filename?: string): void;
  /** Calls `callback` for each field, with `self` as its `this`. */
  forEach(callback: (value: string | File, name: string, form: FormData) => void, self?: any): void;
  /** Iterates over names and values. */
  entries(): IterableIterator<[string, string | File]>;
  /** Iterates over names. */
  keys(): IterableIterator<string>;
  /** Iterates over values. */
  values(): IterableIterator<string | File>;
  /** The same as `entries`. */
  [Symbol.iterator](): IterableIterator<[string, string | File]>;
}
declare var FormData: {
  readonly prototype: FormData;
  /** Creates a form without fields. */
  new (): FormData;
};

/**
 * A pattern that URLs are compared with, as in the
 * [URL Pattern standard](https://urlpattern.spec.whatwg.org/).
 *
 * @example
 * ```ts
 * const books = new URLPattern({ pathname: "/books/:id" });
 * return { id: books.exec(req.input.url)?.pathname.groups.id ?? null };
 * ```
 */
interface URLPattern {
  /** The pattern of the protocol. */
  readonly protocol: string;
  /** The pattern of the user name. */
  readonly username: string;
  /** The pattern of the password. */
  readonly password: string;
  /** The pattern of the host name. */
  readonly hostname: string;
  /** The pattern of the port. */
  readonly port: string;
  /** The pattern of the path. */
  readonly pathname: string;
  /** The pattern of the query. */
  readonly search: string;
  /** The pattern of the fragment. */
  readonly hash: string;
  /** Whether the pattern has regular expressions. */
  readonly hasRegExpGroups: boolean;
  /** Returns whether a URL matches. */
  test(input: string | ToolURLPatternInit, base?: string): boolean;
  /** Returns the parts of a URL that match, or null. */
  exec(input: string | ToolURLPatternInit, base?: string): ToolURLPatternResult | null;
}
declare var URLPattern: {
  readonly prototype: URLPattern;
  /** Creates a pattern. It and a URL have at most 16 KiB. Throws a `TypeError` if it is invalid. */
  new (input: string | ToolURLPatternInit, base: string, options?: { ignoreCase?: boolean }): URLPattern;
  /** Creates a pattern of a complete URL, or of components. Absent components match anything. */
  new (input?: string | ToolURLPatternInit, options?: { ignoreCase?: boolean }): URLPattern;
};
/**
 * The components of a URL or of a `URLPattern`.
 *
 * @example
 * ```ts
 * const components: ToolURLPatternInit = { protocol: "https", pathname: "/:name" };
 * const pattern = new URLPattern(components);
 * ```
 */
interface ToolURLPatternInit {
  /** The protocol, without a colon. */
  protocol?: string;
  /** The user name. */
  username?: string;
  /** The password. */
  password?: string;
  /** The host name. */
  hostname?: string;
  /** The port. */
  port?: string;
  /** The path. */
  pathname?: string;
  /** The query, without `?`. */
  search?: string;
  /** The fragment, without `#`. */
  hash?: string;
  /** A URL for components that are absent. */
  baseURL?: string;
}
/**
 * The parts of a URL that match a `URLPattern`.
 *
 * @example
 * ```ts
 * const result: ToolURLPatternResult | null = new URLPattern({ search: "q=:q" }).exec("https://a.example/?q=x");
 * return { q: result?.search.groups.q ?? null };
 * ```
 */
interface ToolURLPatternResult {
  /** The arguments of `exec`. */
  inputs: (string | ToolURLPatternInit)[];
  /** The protocol. */
  protocol: ToolURLPatternMatch;
  /** The user name. */
  username: ToolURLPatternMatch;
  /** The password. */
  password: ToolURLPatternMatch;
  /** The host name. */
  hostname: ToolURLPatternMatch;
  /** The port. */
  port: ToolURLPatternMatch;
  /** The path. */
  pathname: ToolURLPatternMatch;
  /** The query. */
  search: ToolURLPatternMatch;
  /** The fragment. */
  hash: ToolURLPatternMatch;
}
/**
 * One component of a URL that matches a `URLPattern`.
 *
 * @example
 * ```ts
 * const match: ToolURLPatternMatch | undefined = new URLPattern({ pathname: "/:a" }).exec("https://a.example/x")?.pathname;
 * ```
 */
interface ToolURLPatternMatch {
  /** The component. */
  input: string;
  /** The text of each group, by its name or number. */
  groups: Record<string, string | undefined>;
}

/**
 * Decodes base64 to a string with one character per byte.
 *
 * Throws a `DOMException` (`InvalidCharacterError`) for invalid base64.
 *
 * @example
 * ```ts
 * const bytes = Uint8Array.from(atob("AAH/"), (character) => character.charCodeAt(0));
 * ```
 */
declare function atob(data: string): string;
/**
 * Encodes a string with one character per byte as base64.
 *
 * Throws a `DOMException` (`InvalidCharacterError`) for a character above U+00FF.
 *
 * @example
 * ```ts
 * const base64 = btoa(String.fromCharCode(...new Uint8Array([0, 1, 255])));
 * ```
 */
declare function btoa(data: string): string;

/**
 * Copies a value deeply.
 *
 * Copies plain data, `Map`, `Set`, `Date`, `RegExp`, errors, `DOMException`, `CryptoKey`, buffers and
 * their views, with cycles. `transfer`: buffers to move instead of copying them. Throws a `DOMException`
 * (`DataCloneError`) for other values; no buffer is moved then.
 *
 * @example
 * ```ts
 * const copy = structuredClone(req.input);
 * ```
 */
declare function structuredClone<T>(value: T, options?: { transfer?: (ArrayBuffer | ReadableStream | WritableStream | MessagePort)[] }): T;

/**
 * Random values, and the algorithms of the
 * [Web Cryptography API](https://www.w3.org/TR/webcrypto-2/).
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
   * Fills an array of integers with random values, and returns it.
   *
   * Throws a `QuotaExceededError` for more than 65,536 bytes.
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
  /** Keys, signatures, ciphers and digests. */
  readonly subtle: SubtleCrypto;
}
/**
 * A use that a key permits.
 *
 * @example
 * ```ts
 * const usages: ToolKeyUsage[] = ["sign", "verify"];
 * ```
 */
type ToolKeyUsage = "encrypt" | "decrypt" | "sign" | "verify" | "deriveKey" | "deriveBits" | "wrapKey" | "unwrapKey";
/**
 * A format of keys: the bytes of a secret or public key, the DER of a public or private key, or a JWK.
 *
 * @example
 * ```ts
 * const format: ToolKeyFormat = "pkcs8";
 * ```
 */
type ToolKeyFormat = "raw" | "spki" | "pkcs8" | "jwk";
/**
 * An algorithm of `crypto.subtle` with its parameters.
 *
 * | name | for |
 * |---|---|
 * | `HMAC`, `Ed25519`, `ECDSA`, `RSA-PSS`, `RSASSA-PKCS1-v1_5` | signatures |
 * | `AES-GCM`, `AES-CBC`, `AES-CTR`, `RSA-OAEP` | encryption, wrapped keys |
 * | `AES-KW` | wrapped keys |
 * | `ECDH`, `X25519`, `HKDF`, `PBKDF2` | derived bits and keys |
 *
 * @example
 * ```ts
 * const algorithm: ToolAlgorithm = { name: "AES-GCM", iv: crypto.getRandomValues(new Uint8Array(12)) };
 * ```
 */
interface ToolAlgorithm {
  /** The name, in capitals or not. */
  name: string;
  /** The hash function: `SHA-1`, `SHA-256`, `SHA-384` or `SHA-512`. */
  hash?: string | { name: string };
  /** For AES and HMAC: the bits of the key. For `AES-CTR`: the bits of the counter. */
  length?: number;
  /** For `ECDSA` and `ECDH`: `P-256`, `P-384` or `P-521`. */
  namedCurve?: string;
  /** For RSA: the bits of a new key, from 1,024 to 8,192. */
  modulusLength?: number;
  /** For RSA: the exponent of a new key, usually `new Uint8Array([1, 0, 1])`. */
  publicExponent?: Uint8Array;
  /** For `RSA-PSS`: the bytes of the salt. */
  saltLength?: number;
  /** For `AES-GCM` and `AES-CBC`: the initialization vector. Use it once per key. */
  iv?: ToolBytes;
  /** For `AES-GCM`: data that are not encrypted, but protected by the tag. */
  additionalData?: ToolBytes;
  /** For `AES-GCM`: the bits of the tag. Default: 128. */
  tagLength?: number;
  /** For `AES-CTR`: the first block of the counter, 16 bytes. */
  counter?: ToolBytes;
  /** For `RSA-OAEP`: a label that decryption must repeat. */
  label?: ToolBytes;
  /** For `ECDH` and `X25519`: the other party's public key. */
  public?: CryptoKey;
  /** For `HKDF` and `PBKDF2`: the salt. */
  salt?: ToolBytes;
  /** For `HKDF`: the purpose of the bits. */
  info?: ToolBytes;
  /** For `PBKDF2`: the number of iterations, which count as processor time. */
  iterations?: number;
}
/**
 * The algorithm of a key.
 *
 * @example
 * ```ts
 * const key = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, true, ["encrypt"]);
 * const algorithm: ToolKeyAlgorithm = key.algorithm;
 * ```
 */
interface ToolKeyAlgorithm {
  /** The name. */
  name: string;
  /** For HMAC and RSA: the hash function. */
  hash?: { name: string };
  /** For AES and HMAC: the bits of the key. */
  length?: number;
  /** For `ECDSA` and `ECDH`: the curve. */
  namedCurve?: string;
  /** For RSA: the bits of the modulus. */
  modulusLength?: number;
  /** For RSA: the exponent. */
  publicExponent?: Uint8Array;
}
/**
 * A key of `crypto.subtle`. `structuredClone` copies it.
 *
 * @example
 * ```ts
 * const secret = new TextEncoder().encode(ctx.env["WEBHOOK_SECRET"]);
 * const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
 * ctx.log.info(key.type);
 * ```
 */
interface CryptoKey {
  /** Whether the key is secret, or which part of a pair it is. */
  readonly type: "secret" | "public" | "private";
  /** Whether `exportKey` and `wrapKey` accept the key. */
  readonly extractable: boolean;
  /** The algorithm for which the key is. */
  readonly algorithm: ToolKeyAlgorithm;
  /** The uses that the key permits. */
  readonly usages: ToolKeyUsage[];
}
/**
 * A private key with its public key.
 *
 * @example
 * ```ts
 * const pair: CryptoKeyPair = await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
 * ```
 */
interface CryptoKeyPair {
  /** The private key. */
  privateKey: CryptoKey;
  /** The public key, which is always extractable. */
  publicKey: CryptoKey;
}
/**
 * A key as JSON ([RFC 7517](https://www.rfc-editor.org/rfc/rfc7517)). Its numbers are base64url.
 *
 * @example
 * ```ts
 * const jwk: JsonWebKey = JSON.parse(ctx.env["SIGNING_KEY"] ?? "{}");
 * const key = await crypto.subtle.importKey("jwk", jwk, { name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
 * ```
 */
interface JsonWebKey {
  /** The type: `oct`, `RSA`, `EC` or `OKP`. */
  kty?: string;
  /** The algorithm, for example `ES256`. */
  alg?: string;
  /** `sig` or `enc`. */
  use?: string;
  /** The uses that the key permits. */
  key_ops?: string[];
  /** Whether the key is extractable. */
  ext?: boolean;
  /** A secret key. */
  k?: string;
  /** The curve. */
  crv?: string;
  /** The first coordinate of a point. */
  x?: string;
  /** The second coordinate of a point. */
  y?: string;
  /** The private key, or the private exponent of RSA. */
  d?: string;
  /** The modulus of RSA. */
  n?: string;
  /** The public exponent of RSA. */
  e?: string;
  /** The first prime of RSA. */
  p?: string;
  /** The second prime of RSA. */
  q?: string;
  /** `d` modulo `p - 1`. */
  dp?: string;
  /** `d` modulo `q - 1`. */
  dq?: string;
  /** The inverse of `q` modulo `p`. */
  qi?: string;
}
/**
 * Keys, signatures, ciphers and digests.
 *
 * All methods compute before they return their promise, and count as processor time. They reject
 * with a `TypeError` or a `DOMException`: `NotSupportedError` for an algorithm, `SyntaxError` for
 * usages, `DataError` for a key, `InvalidAccessError` for a key with another use, and
 * `OperationError`.
 *
 * @example
 * ```ts
 * const { subtle } = crypto;
 * const text = new TextEncoder().encode("text");
 * const key = await subtle.generateKey({ name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
 * const signature = await subtle.sign("HMAC", key, text);
 * const isValid = await subtle.verify("HMAC", key, signature, text);
 * ```
 */
interface SubtleCrypto {
  /** Hashes bytes with `SHA-1`, `SHA-256`, `SHA-384` or `SHA-512`. */
  digest(algorithm: string | { name: string }, data: ToolBytes): Promise<ArrayBuffer>;
  /** Signs data with a secret or private key that has the usage `sign`. */
  sign(algorithm: string | ToolAlgorithm, key: CryptoKey, data: ToolBytes): Promise<ArrayBuffer>;
  /** Returns whether a signature is valid, in constant time. The key has the usage `verify`. */
  verify(algorithm: string | ToolAlgorithm, key: CryptoKey, signature: ToolBytes, data: ToolBytes): Promise<boolean>;
  /** Encrypts data. The key has the usage `encrypt`. With AES-GCM, the tag follows the data. */
  encrypt(algorithm: string | ToolAlgorithm, key: CryptoKey, data: ToolBytes): Promise<ArrayBuffer>;
  /** Decrypts data. The key has the usage `decrypt`. */
  decrypt(algorithm: string | ToolAlgorithm, key: CryptoKey, data: ToolBytes): Promise<ArrayBuffer>;
  /** Makes a pair for `Ed25519` or `X25519`. */
  generateKey(
    algorithm: "Ed25519" | "X25519" | { name: "Ed25519" | "X25519" },
    extractable: boolean,
    usages: readonly ToolKeyUsage[],
  ): Promise<CryptoKeyPair>;
  /** Makes a pair for RSA, whose time is long and varies, or for a curve of NIST. */
  generateKey(
    algorithm: ToolAlgorithm & ({ modulusLength: number } | { namedCurve: string }),
    extractable: boolean,
    usages: readonly ToolKeyUsage[],
  ): Promise<CryptoKeyPair>;
  /** Makes a secret key, for AES or HMAC. */
  generateKey(algorithm: ToolAlgorithm, extractable: boolean, usages: readonly ToolKeyUsage[]): Promise<CryptoKey>;
  /** Derives bits from a key: their number is a multiple of 8, or null for all of `ECDH` or `X25519`. */
  deriveBits(algorithm: ToolAlgorithm, key: CryptoKey, length?: number | null): Promise<ArrayBuffer>;
  /** Derives a key for another algorithm. */
  deriveKey(
    algorithm: ToolAlgorithm,
    key: CryptoKey,
    derived: string | ToolAlgorithm,
    extractable: boolean,
    usages: readonly ToolKeyUsage[],
  ): Promise<CryptoKey>;
  /** Reads a key in a format: bytes, or for `jwk` an object. */
  importKey(
    format: ToolKeyFormat,
    data: ToolBytes | JsonWebKey,
    algorithm: string | ToolAlgorithm,
    extractable: boolean,
    usages: readonly ToolKeyUsage[],
  ): Promise<CryptoKey>;
  /** Returns a key as a JWK. */
  exportKey(format: "jwk", key: CryptoKey): Promise<JsonWebKey>;
  /** Returns the bytes of a key. `raw` is for secret and public keys. */
  exportKey(format: "raw" | "spki" | "pkcs8", key: CryptoKey): Promise<ArrayBuffer>;
  /** Exports a key, and encrypts it with another that has the usage `wrapKey`. */
  wrapKey(format: ToolKeyFormat, key: CryptoKey, wrapping: CryptoKey, algorithm: string | ToolAlgorithm): Promise<ArrayBuffer>;
  /** Decrypts a key with another that has the usage `unwrapKey`, and imports it. */
  unwrapKey(
    format: ToolKeyFormat,
    wrapped: ToolBytes,
    unwrapping: CryptoKey,
    algorithm: string | ToolAlgorithm,
    unwrapped: string | ToolAlgorithm,
    extractable: boolean,
    usages: readonly ToolKeyUsage[],
  ): Promise<CryptoKey>;
}
declare var Crypto: {
  readonly prototype: Crypto;
};
declare var CryptoKey: {
  readonly prototype: CryptoKey;
  /** Lets TypeScript accept `value instanceof CryptoKey`. */
  [Symbol.hasInstance](value: unknown): value is CryptoKey;
};
declare var SubtleCrypto: {
  readonly prototype: SubtleCrypto;
};
/** Random values and cryptography. */
declare var crypto: Crypto;

/**
 * An event, as in the [DOM standard](https://dom.spec.whatwg.org/#interface-event).
 *
 * Targets have no parents here, so an event reaches only the target to which it is dispatched.
 *
 * @example
 * ```ts
 * const target = new EventTarget();
 * target.addEventListener("ready", (event) => ctx.log.info(event.type));
 * target.dispatchEvent(new Event("ready"));
 * ```
 */
interface Event {
  /** The name of the event. */
  readonly type: string;
  /** As given to the constructor. Has no effect. */
  readonly bubbles: boolean;
  /** Whether `preventDefault` has an effect. */
  readonly cancelable: boolean;
  /** As given to the constructor. Has no effect. */
  readonly composed: boolean;
  /** Whether a listener canceled the event. */
  readonly defaultPrevented: boolean;
  /** False if a listener canceled the event. Assigning false cancels it, like `preventDefault`. */
  returnValue: boolean;
  /** Whether propagation was stopped. Assigning true stops it, like `stopPropagation`. */
  cancelBubble: boolean;
  /** The target to which the event was dispatched, or null before that. */
  readonly target: EventTarget | null;
  /** The same as `target`. */
  readonly srcElement: EventTarget | null;
  /** The target while its listeners run, otherwise null. */
  readonly currentTarget: EventTarget | null;
  /** `AT_TARGET` while listeners run, otherwise `NONE`. */
  readonly eventPhase: number;
  /** When the event was created, in milliseconds since 1970. */
  readonly timeStamp: number;
  /** Whether the runtime created the event, for example the `abort` of a signal. */
  readonly isTrusted: boolean;
  /** Returns the target while listeners run, otherwise an empty list. */
  composedPath(): EventTarget[];
  /** Cancels the event, if it is `cancelable` and the listener not `passive`. */
  preventDefault(): void;
  /** Before the dispatch, prevents it. In a capturing listener, skips those that do not capture. */
  stopPropagation(): void;
  /** Skips the remaining listeners. */
  stopImmediatePropagation(): void;
  /** Sets type and options again, unless listeners run. */
  initEvent(type: string, bubbles?: boolean, cancelable?: boolean): void;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
}
/** The options of an event. */
interface ToolEventInit {
  /** Default: false. Has no effect. */
  bubbles?: boolean;
  /** Whether `preventDefault` has an effect. Default: false. */
  cancelable?: boolean;
  /** Default: false. Has no effect. */
  composed?: boolean;
}
declare var Event: {
  readonly prototype: Event;
  /** Creates an event. */
  new (type: string, init?: ToolEventInit): Event;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};

/**
 * An event with data.
 *
 * @example
 * ```ts
 * const event = new CustomEvent("page", { detail: { number: 3 } });
 * ctx.log.info(event.type, { page: event.detail.number });
 * ```
 */
interface CustomEvent<T = any> extends Event {
  /** The data. Default: null. */
  readonly detail: T;
  /** Sets type, options and data again, unless listeners run. */
  initCustomEvent(type: string, bubbles?: boolean, cancelable?: boolean, detail?: T): void;
}
declare var CustomEvent: {
  readonly prototype: CustomEvent;
  /** Creates an event with `detail`. */
  new <T = any>(type: string, init?: ToolEventInit & { detail?: T }): CustomEvent<T>;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};

/** A function or object that receives events. */
type ToolEventListener = ((event: Event) => void) | { handleEvent(event: Event): void };
/**
 * Sends events to listeners.
 *
 * A listener that throws is reported like `reportError` does, and does not affect the others.
 *
 * @example
 * ```ts
 * const target = new EventTarget();
 * target.addEventListener("done", () => ctx.log.info("done"), { once: true });
 * target.dispatchEvent(new Event("done"));
 * ```
 */
interface EventTarget {
  /**
   * Adds a listener, unless it was already added for this type.
   *
   * `once`: removes it after the first event. `passive`: it cannot cancel events. `signal`: removes
   * it when the signal aborts. Listeners with `capture` are called first.
   */
  addEventListener(
    type: string,
    listener: ToolEventListener | null,
    options?: boolean | { capture?: boolean; once?: boolean; passive?: boolean; signal?: AbortSignal },
  ): void;
  /** Removes a listener that was added with the same `capture`. */
  removeEventListener(type: string, listener: ToolEventListener | null, options?: boolean | { capture?: boolean }): void;
  /** Calls the listeners of an event. Returns false if one of them canceled it. */
  dispatchEvent(event: Event): boolean;
}
declare var EventTarget: {
  readonly prototype: EventTarget;
  /** Creates a target without listeners. */
  new (): EventTarget;
};

/**
 * Adds a listener of the global object. The runtime dispatches `error`, an `ErrorEvent`, for
 * exceptions of timers, listeners and microtasks, and for `reportError`. The log gets a line unless
 * a listener cancels the event.
 *
 * It dispatches `unhandledrejection`, a `PromiseRejectionEvent`, for promises that were rejected and
 * have no handler once all microtasks have run, and `rejectionhandled` if one of them gets a handler
 * later. Neither affects the call or its log.
 *
 * @example
 * ```ts
 * addEventListener("error", (event) => {
 *   if (event instanceof ErrorEvent) ctx.log.error("in a timer", { reason: event.message });
 *   event.preventDefault();
 * });
 * ```
 */
declare var addEventListener: EventTarget["addEventListener"];
/**
 * Removes a listener of the global object.
 *
 * @example
 * ```ts
 * const listener = () => ctx.log.error("in a timer");
 * addEventListener("error", listener);
 * removeEventListener("error", listener);
 * ```
 */
declare var removeEventListener: EventTarget["removeEventListener"];
/**
 * Calls the listeners of the global object. Returns false if one of them canceled the event.
 *
 * @example
 * ```ts
 * addEventListener("ready", () => ctx.log.info("ready"));
 * dispatchEvent(new Event("ready"));
 * ```
 */
declare var dispatchEvent: EventTarget["dispatchEvent"];
/**
 * A listener of `error` of the global object. If it returns true, the log gets no line.
 *
 * @example
 * ```ts
 * globalThis.onerror = (message, file, line, column, error) => ctx.log.error("in a timer", { message });
 * ```
 */
declare var onerror: ((message: any, filename: string, lineno: number, colno: number, error: any) => any) | null;
/**
 * A listener of `unhandledrejection` of the global object.
 *
 * @example
 * ```ts
 * globalThis.onunhandledrejection = (event) => ctx.log.error("nobody waits", { reason: String(event.reason) });
 * ```
 */
declare var onunhandledrejection: ((event: PromiseRejectionEvent) => any) | null;
/**
 * A listener of `rejectionhandled` of the global object.
 *
 * @example
 * ```ts
 * globalThis.onrejectionhandled = (event) => ctx.log.info("handled late", { reason: String(event.reason) });
 * ```
 */
declare var onrejectionhandled: ((event: PromiseRejectionEvent) => any) | null;
/**
 * Reports an exception as if no code had caught it: to listeners of `error`, then to the log.
 *
 * @example
 * ```ts
 * reportError(new Error("the cache is unreadable"));
 * ```
 */
declare function reportError(error: any): void;

/**
 * An exception that no code caught.
 *
 * @example
 * ```ts
 * const event = new ErrorEvent("error", { error: new Error("no"), message: "no" });
 * dispatchEvent(event);
 * ```
 */
interface ErrorEvent extends Event {
  /** Name and message of the exception. */
  readonly message: string;
  /** As given to the constructor. Default: an empty string. */
  readonly filename: string;
  /** As given to the constructor. Default: 0. */
  readonly lineno: number;
  /** As given to the constructor. Default: 0. */
  readonly colno: number;
  /** The exception. */
  readonly error: any;
}
declare var ErrorEvent: {
  readonly prototype: ErrorEvent;
  /** Creates an event. */
  new (
    type: string,
    init?: ToolEventInit & { message?: string; filename?: string; lineno?: number; colno?: number; error?: any },
  ): ErrorEvent;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};

/**
 * Two ports that are connected. A port can move into the code that receives it.
 *
 * @example
 * ```ts
 * const { port1, port2 } = new MessageChannel();
 * const received = new Promise((resolve) => (port2.onmessage = (event: MessageEvent) => resolve(event.data)));
 * port1.postMessage({ n: 1 });
 * return await received;
 * ```
 */
interface MessageChannel {
  /** The one port. */
  readonly port1: MessagePort;
  /** The other port. */
  readonly port2: MessagePort;
}
declare var MessageChannel: {
  readonly prototype: MessageChannel;
  /** Creates two ports. */
  new (): MessageChannel;
};
/**
 * One end of a `MessageChannel`.
 *
 * @example
 * ```ts
 * const { port1, port2 } = new MessageChannel();
 * port2.onmessage = (event: MessageEvent) => console.log(event.data);
 * port1.postMessage("text");
 * ```
 */
interface MessagePort extends EventTarget {
  /** A listener of `message`. Setting it starts the port. */
  onmessage: ((event: any) => void) | null;
  /** A listener of `messageerror`, which never happens. */
  onmessageerror: ((event: any) => void) | null;
  /** Disconnects both ports. */
  close(): void;
  /** Sends a deep copy, soon after the running code. */
  postMessage(message: any, options?: { transfer?: any[] } | any[]): void;
  /** Begins to receive messages. */
  start(): void;
}
declare var MessagePort: {
  readonly prototype: MessagePort;
};
/**
 * A message of a `MessagePort`.
 *
 * @example
 * ```ts
 * const event = new MessageEvent("message", { data: { n: 1 } });
 * return event.data;
 * ```
 */
interface MessageEvent<T = any> extends Event {
  /** The message. */
  readonly data: T;
  /** The origin, which is empty. */
  readonly origin: string;
  /** An id, which is empty. */
  readonly lastEventId: string;
  /** The source, if the event was made with one. */
  readonly source: MessagePort | null;
  /** The ports that were sent with the message. */
  readonly ports: readonly MessagePort[];
}
declare var MessageEvent: {
  readonly prototype: MessageEvent;
  /** Creates an event. */
  new <T = any>(
    type: string,
    init?: ToolEventInit & { data?: T; origin?: string; lastEventId?: string; source?: MessagePort | null; ports?: MessagePort[] },
  ): MessageEvent<T>;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};
/**
 * An event about a rejected promise: `unhandledrejection` or `rejectionhandled` of the global object.
 *
 * If more than 4,096 promises are rejected before the microtasks end, none of them has an event.
 *
 * @example
 * ```ts
 * addEventListener("unhandledrejection", (event) => {
 *   if (event instanceof PromiseRejectionEvent) ctx.log.error("nobody waits", { reason: String(event.reason) });
 * });
 * ```
 */
interface PromiseRejectionEvent extends Event {
  /** The promise. */
  readonly promise: Promise<any>;
  /** Why it was rejected. */
  readonly reason: any;
}
declare var PromiseRejectionEvent: {
  readonly prototype: PromiseRejectionEvent;
  /** Creates an event. */
  new (type: string, init: ToolEventInit & { promise: Promise<any>; reason?: any }): PromiseRejectionEvent;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};
/**
 * An event about the progress of a `FileReader`.
 *
 * @example
 * ```ts
 * const event = new ProgressEvent("progress", { lengthComputable: true, loaded: 1, total: 2 });
 * return event.loaded / event.total;
 * ```
 */
interface ProgressEvent extends Event {
  /** Whether `total` is known. */
  readonly lengthComputable: boolean;
  /** The bytes so far. */
  readonly loaded: number;
  /** All bytes. */
  readonly total: number;
}
declare var ProgressEvent: {
  readonly prototype: ProgressEvent;
  /** Creates an event. */
  new (type: string, init?: ToolEventInit & { lengthComputable?: boolean; loaded?: number; total?: number }): ProgressEvent;
  readonly NONE: number;
  readonly CAPTURING_PHASE: number;
  readonly AT_TARGET: number;
  readonly BUBBLING_PHASE: number;
};
/**
 * Reads a `Blob` with events. The methods of `Blob` do the same with promises.
 *
 * @example
 * ```ts
 * const reader = new FileReader();
 * const read = new Promise((resolve) => (reader.onload = () => resolve(reader.result)));
 * reader.readAsDataURL(new Blob(["text"], { type: "text/plain" }));
 * return await read;
 * ```
 */
interface FileReader extends EventTarget {
  /** `EMPTY`, `LOADING` or `DONE`. */
  readonly readyState: number;
  /** The content once it was read, otherwise null. */
  readonly result: string | ArrayBuffer | null;
  /** Why reading failed, or null. */
  readonly error: DOMException | null;
  /** A listener of `loadstart`. */
  onloadstart: ((event: any) => void) | null;
  /** A listener of `progress`. */
  onprogress: ((event: any) => void) | null;
  /** A listener of `load`. */
  onload: ((event: any) => void) | null;
  /** A listener of `abort`. */
  onabort: ((event: any) => void) | null;
  /** A listener of `error`. */
  onerror: ((event: any) => void) | null;
  /** A listener of `loadend`, after `load`, `error` and `abort`. */
  onloadend: ((event: any) => void) | null;
  /** Ends a reading in progress. */
  abort(): void;
  /** Reads the bytes. */
  readAsArrayBuffer(blob: Blob): void;
  /** Reads each byte as one character. */
  readAsBinaryString(blob: Blob): void;
  /** Reads a `data:` URL. */
  readAsDataURL(blob: Blob): void;
  /** Reads text. Its encoding is that of a byte order mark, else `encoding`, else that of the type, else UTF-8. */
  readAsText(blob: Blob, encoding?: string): void;
  readonly EMPTY: number;
  readonly LOADING: number;
  readonly DONE: number;
}
declare var FileReader: {
  readonly prototype: FileReader;
  /** Creates a reader. */
  new (): FileReader;
  readonly EMPTY: number;
  readonly LOADING: number;
  readonly DONE: number;
};

/**
 * Aborts a `fetch`, or an operation of your own.
 *
 * The operations of `ctx` do not accept a signal. `httpGetJson` has `timeoutMs`.
 *
 * @example
 * ```ts
 * const signal = AbortSignal.timeout(1_000);
 * for (let page = 0; page < 10 && !signal.aborted; page++) await ctx.kv.get(`page/${page}`);
 * ```
 */
interface AbortSignal extends EventTarget {
  /** Whether the signal has aborted. */
  readonly aborted: boolean;
  /** The reason, or undefined before the abort. */
  readonly reason: any;
  /** A listener of `abort`. Default: null. Any other value than a function removes it. */
  onabort: ((event: Event) => void) | null;
  /** Throws the reason if the signal has aborted. */
  throwIfAborted(): void;
}
declare var AbortSignal: {
  readonly prototype: AbortSignal;
  /** Returns an aborted signal. Default reason: a `DOMException` (`AbortError`). */
  abort(reason?: any): AbortSignal;
  /** Returns a signal that aborts with the first of these. */
  any(signals: Iterable<AbortSignal>): AbortSignal;
  /**
   * Returns a signal that aborts after this many milliseconds.
   *
   * The reason is a `DOMException` (`TimeoutError`). The signal counts as a timer of the call.
   * Throws a `TypeError` for a negative number.
   */
  timeout(ms: number): AbortSignal;
};

/**
 * Creates and aborts an `AbortSignal`.
 *
 * @example
 * ```ts
 * const controller = new AbortController();
 * setTimeout(() => controller.abort(new Error("too slow")), 500);
 * while (!controller.signal.aborted) await new Promise<void>((done) => setTimeout(done, 100));
 * ```
 */
interface AbortController {
  /** The signal that `abort` aborts. */
  readonly signal: AbortSignal;
  /** Aborts the signal, once. Default reason: a `DOMException` (`AbortError`). */
  abort(reason?: any): void;
}
declare var AbortController: {
  readonly prototype: AbortController;
  /** Creates a controller with a new signal. */
  new (): AbortController;
};

/**
 * The error of `atob`, `btoa`, `structuredClone`, `crypto`, aborts and other globals.
 *
 * @example
 * ```ts
 * try {
 *   atob("*");
 * } catch (error) {
 *   if (!(error instanceof DOMException && error.name === "InvalidCharacterError")) throw error;
 * }
 * ```
 */
interface DOMException extends Error {
  /** The kind of error, for example `DataCloneError`. */
  readonly name: string;
  /** The reason, for people. */
  readonly message: string;
  /** The number of `name`: one of these constants, or 0 for newer names. */
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
  /** Creates an error. Default name: `Error`. */
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
 * The error of a limit on an amount, for example of `crypto.getRandomValues`.
 *
 * @example
 * ```ts
 * try {
 *   crypto.getRandomValues(new Uint8Array(100_000));
 * } catch (error) {
 *   if (error instanceof QuotaExceededError) ctx.log.warn("too much", { quota: error.quota });
 * }
 * ```
 */
interface QuotaExceededError extends DOMException {
  /** The limit, or null if it is not known. */
  readonly quota: number | null;
  /** The requested amount, or null if it is not known. */
  readonly requested: number | null;
}
declare var QuotaExceededError: {
  readonly prototype: QuotaExceededError;
  /** Creates an error. Throws a `RangeError` for a negative amount, and for one below the quota. */
  new (message?: string, options?: { quota?: number; requested?: number }): QuotaExceededError;
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
 * `ms`: from 1 to 2,147,483,647. Default: 1. Other values count as 1. `args` are passed to the
 * callback. If the callback throws, the log gets a line.
 *
 * Timers end with their call. A call with more than 100 timers at once is stopped.
 *
 * @example
 * ```ts
 * await new Promise<void>((done) => setTimeout(done, 200));
 * ```
 */
declare function setTimeout(callback: (...args: any[]) => void, ms?: number, ...args: any[]): number;
/**
 * Calls a function every `ms` milliseconds, until `clearInterval` or the end of the call.
 *
 * Has the arguments and limits of `setTimeout`.
 *
 * @example
 * ```ts
 * const timer = setInterval(() => ctx.progress("waiting"), 1_000);
 * await ctx.httpGetJson("https://api.example.com/slow");
 * clearInterval(timer);
 * ```
 */
declare function setInterval(callback: (...args: any[]) => void, ms?: number, ...args: any[]): number;
/**
 * Stops a timer of `setTimeout` or `setInterval`. Ignores an unknown number.
 *
 * @example
 * ```ts
 * const timer = setTimeout(() => ctx.log.warn("slow"), 1_000);
 * await ctx.kv.get("key");
 * clearTimeout(timer);
 * ```
 */
declare function clearTimeout(timer?: number): void;
/** The same as `clearTimeout`. */
declare function clearInterval(timer?: number): void;
/**
 * Calls a function after the current code, and before timers.
 *
 * If it throws, the log gets a line.
 *
 * @example
 * ```ts
 * queueMicrotask(() => ctx.log.debug("after the current code"));
 * ```
 */
declare function queueMicrotask(callback: () => void): void;

/**
 * Writes to the log of the running call, like `ctx.log`. Needs the capability `logs`.
 *
 * Shows values as Node.js does, in one line: `{ a: 1, m: Map(1) { 'k' => [ 2 ] } }`. If the first
 * value is a string, it can contain `%s`, `%d`, `%i`, `%f`, `%o`, `%O`, `%c` and `%%`.
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
  /** Logs a value at level `info`. `depth`: the levels of objects to show. Default: up to 32. */
  dir(value?: any, options?: { depth?: number | null }): void;
  /** Logs at level `info`. */
  dirxml(...values: any[]): void;
  /** Logs a table at level `info`: up to 50 rows and 10 columns, in one line of the log. */
  table(data?: any, columns?: readonly string[]): void;
  /** Logs the values at level `info`, if there are any, and indents later lines of the console. */
  group(...values: any[]): void;
  /** The same as `group`. */
  groupCollapsed(...values: any[]): void;
  /** Ends the last group. The end of the call ends all groups. */
  groupEnd(): void;
  /** Ends all groups. */
  clear(): void;
  /** Logs at level `error` if the condition is false or missing. */
  assert(condition?: boolean, ...values: any[]): void;
  /** Logs how often it was called with this label. Default label: `default`. */
  count(label?: string): void;
  /** Resets the count of a label to 0. */
  countReset(label?: string): void;
  /** Starts a timer, by the clock of `Date`. Default label: `default`. At most 100 run at once. */
  time(label?: string): void;
  /** Logs the milliseconds since `time`. */
  timeLog(label?: string, ...values: any[]): void;
  /** Logs the milliseconds since `time`, and stops the timer. */
  timeEnd(label?: string): void;
  /** Does nothing. */
  timeStamp(label?: string): void;
  /** Does nothing. */
  profile(label?: string): void;
  /** Does nothing. */
  profileEnd(label?: string): void;
}
/** The log of the running call. */
declare var console: Console;

/**
 * Times of the running call, in milliseconds.
 *
 * Uses the clock of `Date`, which stands still while a handler computes. Marks and measures belong
 * to the call. At most 1,000 are stored: the next one replaces all of them.
 *
 * @example
 * ```ts
 * performance.mark("request");
 * await ctx.httpGetJson("https://api.example.com/rate");
 * const { duration } = performance.measure("rate", "request");
 * ```
 */
interface Performance extends EventTarget {
  /** Returns the milliseconds since the call began. */
  now(): number;
  /** The start of the call, in milliseconds since 1970. */
  readonly timeOrigin: number;
  /** Stores a time under a name. Default: now. */
  mark(name: string, options?: { detail?: any; startTime?: number }): ToolPerformanceEntry;
  /**
   * Stores the time between two marks. Default: from the start of the call until now.
   *
   * Throws a `DOMException` (`SyntaxError`) if a mark does not exist.
   */
  measure(
    name: string,
    from?: string | { start?: string | number; end?: string | number; detail?: any },
    to?: string,
  ): ToolPerformanceEntry;
  /** Removes the marks with a name, or all. */
  clearMarks(name?: string): void;
  /** Removes the measures with a name, or all. */
  clearMeasures(name?: string): void;
  /** Returns all marks and measures, oldest first. */
  getEntries(): ToolPerformanceEntry[];
  /** Returns the marks and measures with a name, or those of one type. */
  getEntriesByName(name: string, type?: string): ToolPerformanceEntry[];
  /** Returns all entries of the type `mark` or `measure`. */
  getEntriesByType(type: string): ToolPerformanceEntry[];
  /** Returns the time origin. */
  toJSON(): { timeOrigin: number };
}
/** A mark or a measure. */
interface ToolPerformanceEntry {
  /** The name that it was stored under. */
  readonly name: string;
  /** `mark` or `measure`. */
  readonly entryType: string;
  /** Milliseconds from the start of the call to the mark, or to the start of the measure. */
  readonly startTime: number;
  /** The length of the measure in milliseconds, or 0 for a mark. */
  readonly duration: number;
  /** The `detail` option. Default: null. */
  readonly detail: any;
}
declare var Performance: {
  readonly prototype: Performance;
};
/** Times of the running call. */
declare var performance: Performance;

/**
 * Names the runtime, for packages that ask.
 *
 * @example
 * ```ts
 * const onTollhouse = navigator.userAgent === "Tollhouse";
 * ```
 */
interface Navigator {
  /** Always `Linux`, on every machine. */
  readonly platform: string;
  /** Always `Tollhouse`. */
  readonly userAgent: string;
}
declare var Navigator: {
  readonly prototype: Navigator;
};
/** Names the runtime. */
declare var navigator: Navigator;

/** The global object, the same as `globalThis`. */
declare var self: typeof globalThis;

/**
 * Capability `wasm`. Compiles and runs WebAssembly on V8, outside the tier `jitless`. Elsewhere it
 * is undefined.
 *
 * `tollhouse deploy` puts an imported `.wasm` file into the bundle. A module has at most 4 MiB, a
 * memory 128 MiB and a table 1,000,000 entries. All memories and all code count as memory of the
 * process, and the time to compile as time of the call. There are no threads, shared memories,
 * streaming functions or suspended calls.
 *
 * @example
 * ```ts
 * const bytes = await ctx.files.read("add.wasm");
 * const { instance } = await WebAssembly.instantiate(bytes!);
 * const add = instance.exports.add as (a: number, b: number) => number;
 * return { sum: add(1, 2) };
 * ```
 */
declare namespace WebAssembly {
  /** Values of imports, by module and name. */
  type Imports = Record<string, Record<string, any>>;
  /** The name and kind of an export. */
  type ModuleExport = { name: string; kind: "function" | "table" | "memory" | "global" | "tag" };
  /** The module, name and kind of an import. */
  type ModuleImport = ModuleExport & { module: string };

  /** Compiled code without state. */
  class Module {
    constructor(bytes: ToolBytes);
    static exports(module: Module): ModuleExport[];
    static imports(module: Module): ModuleImport[];
    static customSections(module: Module, name: string): ArrayBuffer[];
  }
  /** A module with its state. */
  class Instance {
    constructor(module: Module, imports?: Imports);
    readonly exports: Record<string, any>;
  }
  /** A memory in pages of 64 KiB. */
  class Memory {
    constructor(descriptor: { initial: number; maximum?: number });
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
  /** A table of references. */
  class Table {
    constructor(descriptor: { element: "anyfunc" | "externref"; initial: number; maximum?: number }, value?: any);
    readonly length: number;
    get(index: number): any;
    set(index: number, value?: any): void;
    grow(by: number, value?: any): number;
  }
  /** A global variable. */
  class Global {
    constructor(descriptor: { value: string; mutable?: boolean }, value?: any);
    value: any;
    valueOf(): any;
  }
  /** The type of an exception. */
  class Tag {
    constructor(type: { parameters: string[] });
  }
  /** An exception that code throws or catches. */
  class Exception {
    constructor(tag: Tag, payload: any[]);
    is(tag: Tag): boolean;
    getArg(tag: Tag, index: number): any;
  }
  /** Bytes that are not a valid module. */
  class CompileError extends Error {}
  /** Imports that do not fit a module. */
  class LinkError extends Error {}
  /** A trap, for example a division by zero. */
  class RuntimeError extends Error {}

  /** Returns whether bytes are a valid module. */
  function validate(bytes: ToolBytes): boolean;
  /** Compiles bytes. */
  function compile(bytes: ToolBytes): Promise<Module>;
  /** Compiles bytes, and makes an instance. */
  function instantiate(bytes: ToolBytes, imports?: Imports): Promise<{ module: Module; instance: Instance }>;
  /** Makes an instance of a module. */
  function instantiate(module: Module, imports?: Imports): Promise<Instance>;
}
