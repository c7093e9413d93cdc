// Drafts: unsent text, stored in this browser. It is offered to the reader, and never filled in
// automatically. Without local storage nothing is stored.

export const drafts = {
  /**
   * Returns the drafts whose names begin so, latest first.
   * @param {string} begins
   */
  of(begins) {
    const found = [];
    try {
      for (let place = 0; place < localStorage.length; place++) {
        const name = localStorage.key(place) ?? "";
        if (!name.startsWith(begins)) continue;
        const { at, text } = JSON.parse(localStorage.getItem(name) ?? "{}");
        if (Array.isArray(text)) found.push({ name, at, text });
      }
    } catch { /* nothing is stored */ }
    return found.sort((a, b) => b.at - a.at);
  },
  /** @param {string} name @param {[string, string][]} text */
  keep(name, text) {
    try { localStorage.setItem(name, JSON.stringify({ at: Date.now(), text })); } catch { /* no room */ }
  },
  /** @param {string} name */
  forget(name) {
    try { localStorage.removeItem(name); } catch { /* nothing is stored */ }
  },
};

/** @param {string} words @param {() => void} act */
function button(words, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = words;
  made.addEventListener("click", act);
  return made;
}

/**
 * Offers a draft above a form.
 * @param {HTMLFormElement} form
 * @param {string} sentence
 * @param {{ name: string, text: [string, string][] }} found
 * @param {(text: [string, string][]) => void} put
 */
export function offer(form, sentence, found, put) {
  const box = document.createElement("div");
  box.className = "told offer";
  box.setAttribute("role", "status");
  const words = document.createElement("p");
  words.textContent = sentence;
  const buttons = document.createElement("p");
  buttons.className = "buttons";
  buttons.append(
    button("Restore the text", () => { put(found.text); box.remove(); }),
    button("Discard the text", () => { drafts.forget(found.name); box.remove(); }),
  );
  box.append(words, buttons);
  form.prepend(box);
}
