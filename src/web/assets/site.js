// Behavior of every page: copy buttons, local times, settings in the footer, keyboard shortcuts.
// Pages work without it.

/** Settings of this browser. Without storage each page starts with the defaults. */
const chosen = {
  /** @param {string} name */
  get(name) {
    try { return localStorage.getItem(name) ?? ""; } catch { return ""; }
  },
  /** @param {string} name @param {string} value */
  set(name, value) {
    try { value ? localStorage.setItem(name, value) : localStorage.removeItem(name); } catch { /* not stored */ }
  },
};

/** @param {Element} button */
function copies(button) {
  const code = button.closest(".code, .id")?.querySelector("code");
  if (!code) return;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText((code.textContent ?? "").trimEnd());
      button.textContent = "Copied";
    } catch {
      // Without clipboard permission, select the text for the reader to copy.
      getSelection()?.selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Shows times as the reader prefers, also those added later. */
export function showTimes() {
  const utc = chosen.get("times") === "utc";
  for (const time of document.querySelectorAll("time[datetime]")) {
    const written = /** @type {HTMLElement} */ (time);
    written.dataset.utc ??= written.textContent ?? "";
    const at = new Date(written.getAttribute("datetime") ?? "");
    if (Number.isNaN(at.getTime())) continue;
    written.textContent = utc ? written.dataset.utc : local.format(at);
    written.title = utc ? local.format(at) : written.dataset.utc;
  }
}

/**
 * Fetches a page as a parsed document with the usual escaping, so that text written by others stays
 * text.
 * @param {URL} address
 * @returns {Promise<Document>}
 */
export const part = (address) => new Promise((done, failed) => {
  const asked = new XMLHttpRequest();
  asked.open("GET", address);
  asked.responseType = "document";
  // A redirect means that the session has ended.
  const isIt = () => asked.status === 200 && new URL(asked.responseURL).pathname === address.pathname;
  asked.onload = () => (isIt() && asked.responseXML ? done(asked.responseXML) : failed(new Error(`the host answered ${asked.status}`)));
  asked.onerror = () => failed(new Error("the host does not answer"));
  asked.send();
});

/**
 * Returns whether the pointer or the focus is in an element, which must not move then.
 * @param {Element} part
 */
export const held = (part) => part.matches(":hover, :focus-within");

function showTheme() {
  const theme = chosen.get("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

for (const button of document.querySelectorAll(".copy")) copies(button);
showTimes();

for (const element of document.querySelectorAll("select[data-switch]")) {
  const select = /** @type {HTMLSelectElement} */ (element);
  const name = select.dataset.switch ?? "";
  select.value = chosen.get(name);
  select.addEventListener("change", () => {
    chosen.set(name, select.value);
    showTheme();
    showTimes();
  });
}

/**
 * Returns whether a key is meant for the page, and not for a field or the browser.
 * @param {KeyboardEvent} event
 */
function heard(event) {
  // In a shadow root, the inner element that has the focus.
  const into = /** @type {HTMLElement} */ (event.composedPath()[0]);
  const typing = into.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(into.tagName);
  // Escape first leaves the field.
  if (event.key === "Escape" && typing && !into.isContentEditable && chosen.get("keys") !== "off") into.blur();
  return !typing && !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented && chosen.get("keys") !== "off" && !document.querySelector("dialog[open]");
}

const ROWS = "main .rows > li, main .lines > li, main tbody > tr";
const anyRow = () => document.querySelector(ROWS);
const row = () => /** @type {HTMLElement | null | undefined} */ (document.activeElement?.closest(ROWS));

/**
 * Goes to the next or previous row.
 * @param {1 | -1} by
 * @param {string} [only] selector that the row must match
 */
function goes(by, only) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(ROWS)]);
  const here = row();
  const place = here ? rows.indexOf(here) : by > 0 ? -1 : rows.length;
  const beside = by > 0 ? rows.slice(place + 1) : rows.slice(0, place).reverse();
  const next = beside.find((other) => !only || other.matches(only));
  if (!next) return;
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: only ? "center" : "nearest" });
}

/** Returns whether there is typed text that would be lost. */
const typed = () => [...document.querySelectorAll("main input, main textarea")].some((field) => {
  const { type, value, defaultValue, checked, defaultChecked } = /** @type {HTMLInputElement} */ (field);
  return type === "checkbox" || type === "radio" ? checked !== defaultChecked : value !== defaultValue;
});

const ERROR = "[data-level=error]";
const errors = () => document.querySelector(`.lines ${ERROR}`);
/** Returns the link to the parent page. */
const above = () => /** @type {HTMLElement | null} */ (document.querySelector(".crumbs li:last-child a"));
/** Returns the button that copies the id of the row, or of the page. */
const copier = () => /** @type {HTMLElement | null} */ ((row() ?? document).querySelector(".id .copy"));

/**
 * The shortcuts: key, description, element that must exist, action.
 * @type {[key: string, words: string, on: () => Element | null, act: () => void][]}
 */
const KEYS = [
  ["j", "next row", anyRow, () => goes(1)],
  ["k", "previous row", anyRow, () => goes(-1)],
  // Only on the row itself. A focused link or button handles the key.
  ["Enter", "open the row", anyRow, () => {
    const here = document.activeElement;
    if (here?.matches(ROWS)) /** @type {HTMLElement | null} */ (here.querySelector("a[href], summary, button"))?.click();
  }],
  ["e", "next error", errors, () => goes(1, ERROR)],
  ["E", "previous error", errors, () => goes(-1, ERROR)],
  ["c", "copy the id", copier, () => copier()?.click()],
  ["Escape", "leave a field, then go to the parent page", above, () => { if (!typed()) above()?.click(); }],
  ["Ctrl Enter", "send the form", () => document.querySelector("main form:not(:has([data-keys]))"), () => {}],
  ["?", "show this list", () => document.body, help],
];

/**
 * Returns elements with their own key: a field gets the focus, a button is pressed. If two have the
 * same key, the one on the page itself wins over the header.
 * @type {() => Map<string, HTMLElement>}
 */
const own = () => new Map([.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-key], [aria-keyshortcuts]"))]
  .map((element) => [element.dataset.key ?? element.ariaKeyShortcuts ?? "", element]));

/** Shows the shortcuts of this page. */
function help() {
  const title = "Keyboard shortcuts";
  const [dialog, heading, list, close] = ["dialog", "h2", "dl", "button"].map((name) => document.createElement(name));
  dialog.ariaLabel = heading.textContent = title;
  list.className = "facts";
  const named = [...own()].map(([key, element]) => [key, /** @type {HTMLInputElement} */ (element).labels?.[0]?.textContent || (element.textContent ?? "")]);
  const ways = [...document.querySelectorAll("[data-keys]")].map((element) => [`Ctrl ${/** @type {HTMLElement} */ (element).dataset.keys}`, element.textContent ?? ""]);
  const shown = KEYS.filter(([, , on]) => on()).map(([key, words]) => [key, words]);
  for (const [key, words] of [...named, ...ways, ...shown]) {
    const [pair, term, name, fact] = ["div", "dt", "kbd", "dd"].map((element) => document.createElement(element));
    name.textContent = key;
    fact.textContent = words;
    term.append(name);
    pair.append(term, fact);
    list.append(pair);
  }
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.remove());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.append(heading, list, close);
  document.body.append(dialog);
  /** @type {HTMLDialogElement} */ (dialog).showModal();
}

document.querySelector("#keys")?.addEventListener("click", help);

/**
 * Submits the current form with its first button, unless its buttons have keys of their own.
 * @param {KeyboardEvent} event
 */
function sends(event) {
  const form = /** @type {HTMLInputElement} */ (event.composedPath()[0]).form;
  const [first] = form?.querySelectorAll("button:not([type=button])") ?? [];
  if (!form || !first || form.querySelector("[data-keys]")) return;
  event.preventDefault();
  form.requestSubmit(/** @type {HTMLButtonElement} */ (first));
}

addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return sends(event);
  if (!heard(event)) return;
  const wanted = own().get(event.key);
  const [, , , act] = KEYS.find(([key, , on]) => key === event.key && on()) ?? [];
  if (wanted?.dataset.key) wanted.focus();
  else if (wanted) wanted.click();
  else if (act) act();
  if (wanted) event.preventDefault();
});
