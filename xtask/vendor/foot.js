// The line below the text: how to leave, what is wrong where the cursor is, and where that is.
import { showPanel } from "@codemirror/view";
import { here } from "./marks.js";

/** @param {string} name @param {string} text */
function part(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}

/** @param {import("@codemirror/view").EditorView} view */
function panel(view) {
  const dom = document.createElement("div");
  dom.className = "foot";
  const [how, wrong, where] = [part("how", "Esc, then Tab leaves the editor"), part("what", ""), part("where", "")];
  how.id = "how";
  wrong.role = "status";
  dom.append(how, wrong, where);

  function tell() {
    const { head } = view.state.selection.main;
    const line = view.state.doc.lineAt(head);
    where.textContent = `${line.number}:${[...line.text.slice(0, head - line.from)].length + 1}`;
    const message = here(view.state)?.message ?? "";
    // What did not change is not said again.
    if (wrong.textContent !== message) wrong.textContent = message;
  }

  tell();
  return { dom, update: tell };
}

export const foot = showPanel.of(panel);
