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
 */

/** Anything that JSON can say. */
type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A handler: the default export of a tool's module. */
type ToolHandler<Input = any> = (req: ToolRequest<Input>, ctx: ToolContext) => ToolResult | Promise<ToolResult>;

/**
 * What a handler answers. A JSON value is a 200 with it; nothing at all is `null`. A `Response` says status and headers too.
 * A call that throws, or answers what JSON cannot say, is not charged.
 */
type ToolResult = unknown | Response;

/** The call. */
interface ToolRequest<Input = any> {
  /** `POST` or `GET`. */
  readonly method: string;
  /** The whole URL, as the caller asked for it. */
  readonly url: string;
  readonly path: string;
  /** The query's parameters; the last one wins where a name repeats. */
  readonly query: Record<string, string>;
  /** An allow-list, names in lower case. Never credentials, never payment. */
  readonly headers: Record<string, string>;
  /** The input, already checked against the tool's `inputSchema`. */
  readonly body: Input;
  /** The same value as `body`. */
  readonly input: Input;
  readonly caller: ToolCaller;
}

interface ToolCaller {
  /** Address that pays; absent for a free call or one paid by credit. */
  readonly payer?: string;
  /** Whether nothing is charged for this call. */
  readonly free: boolean;
  /** The receipt this call gets if it succeeds. */
  readonly receiptId: string;
}

/** What a handler may reach. Each part works once its capability is granted, and else rejects with `not_granted`. */
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
  /** Capability `httpGetJson`. */
  readonly httpGetJson: <T = any>(url: string | URL, options?: HttpGetJsonOptions) => Promise<HttpGetJsonResult<T>>;
}

/** Keys and JSON values of this endpoint. A key is at most 512 bytes, a value at most 64 KiB as JSON unless limits say otherwise. */
interface ToolKv {
  /** The value, or null when there is none. */
  get<T = any>(key: string): Promise<T | null>;
  /** `ttlMs`: after so many milliseconds the key is gone. */
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

/** Lines of this call's log, which the tool's builder can read. Calling it is `info`. */
interface ToolLog {
  (message: unknown, fields?: object): void;
  debug(message: unknown, fields?: object): void;
  info(message: unknown, fields?: object): void;
  warn(message: unknown, fields?: object): void;
  error(message: unknown, fields?: object): void;
}

interface HttpGetJsonOptions {
  headers?: Record<string, string> | Headers;
  /** At most the limit of the endpoint, 5,000 unless raised. */
  timeoutMs?: number;
  /** Sends the secret named `env` in the header `header` to the URL's own host, never to one it redirects to. The handler need not hold it. */
  auth?: { header: string; env: string };
}

interface HttpGetJsonResult<T = any> {
  status: number;
  /** Names in lower case. */
  headers: Record<string, string>;
  json: T;
}

/**
 * What an op rejects with. `code` is for programs: `not_granted`, `quota_exceeded`, `invalid_argument`, `forbidden_address`,
 * `timeout`, ...
 */
interface ToolError extends Error {
  readonly name: "ToolError";
  readonly code: string;
}
