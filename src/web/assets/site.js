// What every page has of behaviour: copying, local times, the switches of the footer, one key. All of it can be read without.

/** What was chosen in this browser. Where nothing is kept, each page begins anew. */
const chosen = {
  /** @param {string} name */
  get(name) {
    try { return localStorage.getItem(name) ?? ""; } catch { return ""; }
  },
  /** @param {string} name @param {string} value */
  set(name, value) {
    try { value ? localStorage.setItem(name, value) : localStorage.removeItem(name); } catch { /* not kept */ }
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
      // Without the right to write the clipboard the text is chosen, for the reader to copy.
      getSelection()?.selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Times as their reader wants them, also those that came later. */
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

addEventListener("keydown", (event) => {
  // In a shadow root, what is typed into, and not the box around it.
  const into = /** @type {HTMLElement} */ (event.composedPath()[0]);
  const typing = into.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(into.tagName);
  if (typing || event.ctrlKey || event.metaKey || event.altKey || chosen.get("keys") === "off") return;
  const wanted = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!(wanted instanceof HTMLElement)) return;
  event.preventDefault();
  wanted.focus();
});
