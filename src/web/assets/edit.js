// The tool form's script: shortcuts, links to lines, and drafts of unpublished text in this
// browser.
import { drafts, offer } from "./drafts.js";

const sheet = document.querySelector("#sheet");

/** @param {string} selector */
const fields = (selector) => /** @type {NodeListOf<HTMLInputElement & HTMLTextAreaElement>} */ (sheet?.querySelectorAll(selector) ?? []);

/**
 * Returns the typed fields, without the form's own hidden ones.
 * @returns {[string, string][]}
 */
function typed() {
  if (!(sheet instanceof HTMLFormElement)) return [];
  const hidden = new Set(["csrf", "base", "revision", "version", "do", "attested"]);
  return [...new FormData(sheet)].flatMap(([name, value]) => (typeof value === "string" && !hidden.has(name) ? [[name, value.replaceAll("\r\n", "\n")]] : []));
}

/** @param {[string, string][]} text */
function put(text) {
  for (const field of fields("[name=capabilities], [name=paused], [name=refundBrokenStreams]")) {
    field.checked = text.some(([name, value]) => name === field.name && value === field.value);
  }
  for (const [name, value] of text) {
    const field = sheet?.querySelector(`[name="${CSS.escape(name)}"]:not([type=hidden], [type=checkbox])`);
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement)) continue;
    field.value = value;
    // The editor beside a field listens to this event.
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/**
 * Shows the builder's share of a price while it is typed.
 * @param {HTMLOutputElement} output
 */
function showNet(output) {
  const field = document.getElementById(output.htmlFor.value);
  if (!(field instanceof HTMLInputElement)) return;
  const usd = (/** @type {number} */ micros) => `$${(micros / 1e6).toFixed(6).replace(/\.?0+$/, "")}`;
  const { gets = "", mark = "" } = output.dataset;
  field.addEventListener("input", () => {
    const price = Math.round(Number(field.value.trim().replace(/^\$/, "")) * 1e6);
    const fee = Math.floor((price * Number(output.dataset.feeBps)) / 1e4);
    const words = price > 0 && Number.isSafeInteger(price) ? `Of ${usd(price)}${mark} ${gets} ${usd(price - fee)}${mark}: the host keeps ${usd(fee)}${mark}.` : "";
    if (output.textContent !== words) output.textContent = words;
  });
}

for (const output of /** @type {NodeListOf<HTMLOutputElement>} */ (document.querySelectorAll("output[data-fee-bps]"))) showNet(output);

/** The owner of the drafts. Another user who signs in here does not see them. */
const owner = sheet instanceof HTMLElement ? sheet.dataset.owner ?? "" : "";

/**
 * Returns the prefix of a tool's drafts. The revision follows.
 * @param {string} slug
 */
const of = (slug) => `draft:${owner}:${slug}:`;

/**
 * Describes a draft that is offered.
 * @param {HTMLFormElement} form
 * @param {ReturnType<typeof drafts.of>[number]} found
 */
function draftSentence(form, found) {
  const revision = Number(found.name.slice(found.name.lastIndexOf(":") + 1));
  const made = revision === Number(form.dataset.revision) ? "" : `, on revision ${revision}`;
  return `This browser stores unpublished text that was typed here ${new Date(found.at).toLocaleString()}${made}.`;
}

/**
 * The code editor, while it replaces the source field.
 * @type {import("./vendor/codemirror.js").Editor | undefined}
 */
let code;

/** Returns whether to keep the plain field: by choice, or on a device without a keyboard. */
function plain() {
  try {
    const chosen = localStorage.getItem("plain");
    if (chosen) return chosen === "yes";
  } catch { /* not stored */ }
  return matchMedia("(pointer: coarse)").matches;
}

/**
 * Replaces the source field with the code editor, once everything else is drawn.
 * @param {HTMLTextAreaElement} area
 */
async function edit(area) {
  const kind = document.querySelector("#field-kind");
  area.dataset.language = kind instanceof HTMLSelectElement ? kind.value : "js";
  const { editor } = await import("./codemirror.js");
  if (code || plain()) return;
  code = editor(area);
  const wrong = [...document.querySelectorAll("a[data-line][href='#field-source']")].map((link) => {
    const { line, column } = /** @type {HTMLElement} */ (link).dataset;
    const message = (link.parentElement?.textContent ?? "").replace(/\s+/g, " ").trim();
    return { line: Number(line), column: Number(column ?? 1), message };
  });
  if (wrong.length) code.mark(wrong);
  kind?.addEventListener("change", () => code?.language(/** @type {HTMLSelectElement} */ (kind).value));
}

/**
 * Goes to a line of a field.
 * @param {HTMLTextAreaElement} area
 * @param {number} line
 */
function goTo(area, line) {
  if (code && area.id === "field-source") return code.go({ line });
  const lines = area.value.split("\n");
  const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(from, from + (lines[line - 1] ?? "").length);
  area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
}

if (sheet instanceof HTMLFormElement) {
  const name = of(sheet.dataset.slug ?? "") + (sheet.dataset.revision ?? "");
  const begun = JSON.stringify(typed());
  if ("began" in sheet.dataset) {
    // A link could claim that something was done, so rely on what the host puts on the page.
    const done = /** @type {HTMLElement | null} */ (document.querySelector("[data-done]"))?.dataset.done;
    const found = drafts.of(of(sheet.dataset.slug ?? ""));
    // Forget drafts that were just published, including the one that a new tool began with. Only
    // once: after a reload, newer drafts must stay.
    if (done) history.replaceState(null, "", location.pathname);
    if (done === "updateEndpoint") for (const one of found) drafts.forget(one.name);
    else {
      if (done === "createEndpoint") for (const one of drafts.of(of(""))) drafts.forget(one.name);
      const [last] = found.filter((one) => JSON.stringify(one.text) !== begun);
      if (last) offer(sheet, draftSentence(sheet, last), last, put);
    }
  } else {
    document.querySelector("#told")?.scrollIntoView({ block: "nearest" });
  }

  let waits = 0;
  const keep = () => {
    const text = typed();
    if (JSON.stringify(text) === begun && "began" in sheet.dataset) drafts.forget(name);
    else drafts.keep(name, text);
  };
  sheet.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(keep, 400);
  });
  sheet.addEventListener("submit", () => { clearTimeout(waits); keep(); });

  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    const wanted = sheet.querySelector(`button[data-keys="${CSS.escape(event.key)}"]`);
    if (!(wanted instanceof HTMLButtonElement)) return;
    event.preventDefault();
    sheet.requestSubmit(wanted);
  });

  for (const link of document.querySelectorAll("a[data-line]")) {
    link.addEventListener("click", (event) => {
      const area = document.querySelector(/** @type {HTMLAnchorElement} */ (link).hash);
      if (!(area instanceof HTMLTextAreaElement)) return;
      event.preventDefault();
      goTo(area, Number(/** @type {HTMLElement} */ (link).dataset.line));
    });
  }

  const source = document.querySelector("#field-source");
  const choice = document.querySelector("#plain");
  if (source instanceof HTMLTextAreaElement && choice instanceof HTMLInputElement) {
    choice.checked = plain();
    const soon = globalThis.requestIdleCallback ?? ((/** @type {() => void} */ act) => setTimeout(act, 200));
    if (!choice.checked) soon(() => { edit(source); });
    choice.addEventListener("change", () => {
      try { localStorage.setItem("plain", choice.checked ? "yes" : "no"); } catch { /* not stored */ }
      if (choice.checked) {
        code?.close();
        code = undefined;
      } else {
        edit(source);
      }
    });
  }
}
