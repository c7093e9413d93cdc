// Calls a tool without leaving its page, and shows events as they arrive. It sends the page's own
// form as the browser would, so a retry is the same call with the same payment. Without this script
// the answer is a new page. Rarely needed scripts load on demand: the wallet's if there is a
// wallet, that of drafts if there is one.

/** Maximum progress lines, and maximum characters of a shown result. */
const LINES = 200;
const SHOWN = 20000;

const SIGNS = { ok: "✓", warn: "?", bad: "✕" };
const AGAIN = "Send the same payment again · cannot be charged twice";
const RUN_AGAIN = "Run again with the same payment";

/** @param {string} name @param {string} [text] @param {Record<string, string>} [attributes] */
function made(name, text = "", attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

const place = document.querySelector("[data-happens]") ?? document.querySelector("main .wrap")?.appendChild(made("section", "", { "data-happens": "" }));

/**
 * Yields the events of a stream, each with its original text.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<[string, any, string]>}
 */
async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split("\n");
      const field = (/** @type {string} */ name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join("\n");
      const data = field("data");
      if (data) yield [field("event"), JSON.parse(data), data];
    }
  }
}

/**
 * Enables or disables the buttons of forms.
 * @param {boolean} on
 * @param {string} [which]
 */
function press(on, which = "main form") {
  for (const form of document.querySelectorAll(which)) for (const button of form.querySelectorAll("button")) button.disabled = !on;
}

/**
 * Returns whether a form pays.
 * @param {HTMLFormElement} form
 */
const pays = (form) => form.dataset.told !== undefined;

/** The list of events of a call. */
class CallLog {
  constructor() {
    this.messages = 0;
    /** @type {HTMLElement | undefined} */
    this.more = undefined;
    this.list = made("ol", "", { class: "plain" });
    this.after = made("div", "", { class: "form" });
    const log = made("div", "", { role: "log", "aria-label": "What happens" });
    log.append(this.list);
    place?.replaceChildren(made("h2", "What happens"), log, this.after);
    place?.removeAttribute("hidden");
    place?.scrollIntoView({ block: "nearest" });
  }

  /** @param {string} text @param {keyof typeof SIGNS} [state] */
  line(text, state) {
    const line = made("li", state ? `${SIGNS[state]} ${text}` : text);
    this.list.append(line);
    return line;
  }

  /**
   * Adds a progress message of the tool. Beyond the maximum, only counts them.
   * @param {string} text
   */
  progress(text) {
    this.messages += 1;
    if (this.messages <= LINES) this.line(text);
    else (this.more ??= this.line("")).textContent = `and ${this.messages - LINES} more messages of the tool`;
  }

  /** @param {string} text @param {string} path */
  link(text, path) {
    this.line("").append(made("a", text, { href: path }));
  }

  /** @param {string} label @param {() => void} does */
  button(label, does) {
    const button = made("button", label, { type: "button", class: "primary" });
    button.addEventListener("click", does);
    this.after.append(button);
    button.focus();
  }
}

/**
 * Counts the seconds of a run.
 * @param {HTMLElement} line
 */
function counts(line) {
  const began = performance.now();
  const show = () => { line.textContent = `running ${((performance.now() - began) / 1000).toFixed(1)} s`; };
  show();
  const timer = setInterval(show, 100);
  return () => { clearInterval(timer); show(); };
}

/**
 * Returns elements that show a text, cut to the maximum.
 * @param {string} text
 */
function box(text) {
  const code = made("div", "", { class: "code" });
  code.append(made("pre", text.slice(0, SHOWN), { tabindex: "0" }));
  return text.length > SHOWN ? [code, made("p", `These are the first ${SHOWN} characters.`, { class: "note" })] : [code];
}

/**
 * Returns a closed section with a text.
 * @param {string} name
 * @param {string} text
 */
function folded(name, text) {
  const folded = made("details", "", { class: "way" });
  folded.append(made("summary", name), ...box(text));
  return folded;
}

/** @param {any} answer @param {CallLog} log @param {Headers} headers @param {string} raw */
function showResult(answer, log, headers, raw) {
  const { status = 200, result, receipt, paymentId, settlement } = answer;
  if (settlement?.transaction) log.line(`settled, transaction ${settlement.transaction}`, "ok");
  else if (paymentId) log.line("settled", "ok");
  log.line(answer.ok ? `answered with ${status}` : `the tool reported a failure with status ${status}; nothing was charged`, answer.ok ? "ok" : "bad");
  if (receipt?.receiptId) log.link(`receipt ${receipt.receiptId}`, new URL(`../../dashboard/receipts/${encodeURIComponent(receipt.receiptId)}`, import.meta.url).href);
  const text = result && typeof result.base64 === "string" && result.mediaType ? `${result.mediaType}, ${Math.floor(result.base64.length * 3 / 4)} bytes`
    : result && typeof result.text === "string" && result.mediaType ? result.text : JSON.stringify(result, null, 2) ?? "";
  const chosen = Object.entries({ ...Object.fromEntries(headers), ...answer.headers });
  log.after.append(
    made("h3", "Result"), ...box(text),
    folded("Headers", chosen.map(([name, value]) => `${name}: ${value}`).join("\n")),
    folded("Raw answer", raw),
  );
}

/**
 * Returns the state of a payment.
 * @param {string | undefined} id
 * @returns {Promise<string>}
 */
async function state(id) {
  if (!id) return "";
  try {
    const answer = await fetch(new URL(`../../ai/payments/${encodeURIComponent(id)}`, import.meta.url), { headers: { accept: "application/json" } });
    // A call on credit without a key has no record while it runs.
    if (answer.status === 404) return "unknown";
    return (await answer.json()).payment?.state ?? "unknown";
  } catch {
    return "unknown";
  }
}

/**
 * Offers a retry of the same call after no answer came.
 * @param {HTMLFormElement} form
 * @param {CallLog} log
 * @param {string} [id]
 */
async function lost(form, log, id) {
  const known = await state(id ?? form.dataset.payment);
  if (known) log.line(`the payment is ${known}`);
  log.button(pays(form) ? AGAIN : "Call again", () => call(form));
}

/**
 * Sends a call. Other buttons are disabled until it has ended.
 * @param {HTMLFormElement} form
 */
async function call(form) {
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (typeof value === "string") body.append(name, value);
  press(false);
  const log = new CallLog();
  if (form.dataset.told) log.line(`terms: ${form.dataset.told}`, "ok");
  const payment = body.get("payment") ? form.dataset.payment ?? "" : "";
  if (payment) log.line(`signed: ${payment}`, "ok");
  let stop = () => {};
  let ended = false;
  let known = payment || undefined;
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "text/event-stream" } });
    if (!answer.headers.get("content-type")?.startsWith("text/event-stream") || !answer.body) {
      // The answer is a page. Let the browser submit the same form.
      HTMLFormElement.prototype.submit.call(form);
      return;
    }
    stop = counts(log.line(""));
    for await (const [name, data, raw] of events(answer.body)) {
      if (name === "accepted") known = data.paymentId ?? known;
      if (name === "progress" && data.message) log.progress(data.message);
      if (name !== "result" && name !== "error") continue;
      ended = true;
      stop();
      if (name === "result") {
        wallet?.answered(form);
        showResult(data, log, answer.headers, raw);
        // Do not pay again for a paid call from this page.
        press(true, pays(form) ? "main form:not([data-call])" : "main form");
      } else {
        await showError(data.error ?? {}, form, log, known, data.settlement);
      }
    }
  } catch {
    // Reported below.
  }
  stop();
  if (!ended) {
    log.line("the answer was lost", "bad");
    await lost(form, log, known);
  }
}

/**
 * The script for the browser's wallet, once loaded.
 * @type {typeof import("./wallet.js").wallet | undefined}
 */
let wallet;

/** The button that pays for a new call, if the tool charges before it runs. */
const restart = document.querySelector("[data-restart]");

/**
 * Shows what can be done about a call that was charged before its run and not answered: another run
 * with the same payment, or another payment.
 * @param {any} error
 * @param {HTMLFormElement} form
 * @param {CallLog} log
 * @param {any} settlement
 */
function showOwed(error, form, log, settlement) {
  const left = error.runsLeft ?? 0;
  log.line(settlement?.transaction ? `charged once, transaction ${settlement.transaction}` : "charged once", "ok");
  if (error.receiptId) log.link(`receipt ${error.receiptId}`, new URL(`../../dashboard/receipts/${encodeURIComponent(error.receiptId)}`, import.meta.url).href);
  if (left > 0) log.line(`you are owed a run: ${left} left until ${new Date(error.repeatUntil).toLocaleString()}`, "warn");
  else log.line("no runs are left for this payment", "bad");
  if (error.hint) log.line(error.hint);
  press(true, pays(form) ? "main form:not([data-call])" : "main form");
  if (left > 0) log.button(RUN_AGAIN, () => call(form));
  // A browser wallet signs nothing else while it holds a payment.
  if (restart instanceof HTMLElement && !form.closest("[data-wallet]")) {
    restart.hidden = false;
    log.after.append(restart);
  }
}

/** @param {any} error @param {HTMLFormElement} form @param {CallLog} log @param {string} [id] @param {any} [settlement] */
async function showError(error, form, log, id, settlement) {
  const open = error.charged !== false || error.code === "payment_in_progress";
  log.line(`${error.message ?? "no answer"} (${error.code ?? "unknown"})`, "bad");
  for (const problem of (error.problems ?? []).slice(0, 20)) log.line(`${problem.pointer || "the input"}: ${problem.message}`, "bad");
  if (["paid_run_failed", "no_more_runs"].includes(error.code)) return showOwed(error, form, log, settlement);
  log.line(open ? "not known yet whether it was charged, at most once" : "nothing was charged", open ? "warn" : "ok");
  if (error.hint) log.line(error.hint);
  if (open && pays(form)) return lost(form, log, error.paymentId ?? id);
  wallet?.answered(form);
  press(true, pays(form) ? "main form:not([data-call])" : "main form");
  if (error.code !== "payment_required") log.button(pays(form) ? AGAIN : "Call again", () => call(form));
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const button = event.submitter;
  if (!(form instanceof HTMLFormElement) || form.dataset.call === undefined || !place || event.defaultPrevented) return;
  // The other buttons of a form only change how it shows its input.
  if (button instanceof HTMLButtonElement && button.name) return;
  event.preventDefault();
  void call(form);
});

/**
 * Returns the typed fields, without the form's own hidden ones.
 * @param {HTMLFormElement} form
 * @returns {[string, string][]}
 */
const typed = (form) => [...new FormData(form)].flatMap(([name, value]) => {
  const field = form.querySelector(`[name="${CSS.escape(name)}"]:not([type=hidden])`);
  return field && typeof value === "string" ? [[name, value.replaceAll("\r\n", "\n")]] : [];
});

/** @param {HTMLFormElement} form @param {[string, string][]} text */
function put(form, text) {
  for (const field of form.elements) {
    if (field instanceof HTMLInputElement && (field.type === "checkbox" || field.type === "radio")) {
      field.checked = text.some(([name, value]) => name === field.name && value === field.value);
    } else if (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement) {
      const [, value] = text.find(([name]) => name === field.name) ?? [];
      if (value !== undefined && field.type !== "hidden") field.value = value;
    }
  }
}

// Read a chosen file into the fields of its form, which can also be filled in without this script.
const chosen = document.querySelector("[data-file]");
const fileForm = chosen?.closest("form");
if (chosen instanceof HTMLInputElement && chosen.parentElement && fileForm) {
  chosen.parentElement.hidden = false;
  /** @param {string} name @param {string} value */
  const fill = (name, value) => {
    const field = fileForm.elements.namedItem(name);
    if (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) field.value = value;
  };
  chosen.addEventListener("change", () => {
    const file = chosen.files?.[0];
    if (!file) return;
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      fill("file", String(reader.result).split(",", 2)[1] ?? "");
      if (file.type) fill("file-type", file.type);
      fill("file-name", file.name);
    });
    reader.readAsDataURL(file);
  });
}

// Keep the input of each tool for each user, separately for fields and JSON.
const input = document.querySelector("form.try[data-slug]");
if (input instanceof HTMLFormElement) {
  const { owner = "", slug = "" } = input.dataset;
  const name = `input:${owner}:${slug}:${input.elements.namedItem("json") ? "json" : "fields"}`;
  const begun = JSON.stringify(typed(input));
  const drafts = () => import("./drafts.js");
  const offered = async () => {
    const { drafts: { of }, offer } = await drafts();
    const [found] = of(name);
    if (found && JSON.stringify(found.text) !== begun) {
      offer(input, `Input that was typed here ${new Date(found.at).toLocaleString()} is stored in this browser.`, found, (text) => put(input, text));
    }
  };
  try { if (localStorage.getItem(name)) void offered(); } catch { /* nothing is stored */ }
  input.addEventListener("focusin", drafts, { once: true });
  let waits = 0;
  const keep = async () => {
    clearTimeout(waits);
    const text = typed(input);
    if (JSON.stringify(text) !== begun) (await drafts()).drafts.keep(name, text);
  };
  input.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(keep, 400);
  });
  input.addEventListener("submit", keep);
}

const pocket = document.querySelector("[data-wallet]");
if (pocket instanceof HTMLElement && globalThis.isSecureContext && "ethereum" in globalThis) {
  ({ wallet } = await import("./wallet.js"));
  wallet.begin(pocket, call);
}
