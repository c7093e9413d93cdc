// The editor of handlers: CodeMirror beside a textarea, which stays what a form sends. It is drawn in a shadow root, whose styles
// are made by script: so it runs on pages whose policy takes no style of its own and no markup out of text.
//
//   import { editor } from "./codemirror.js";
//   const { mark, go, close } = editor(document.querySelector("textarea"));
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascriptLanguage, typescriptLanguage } from "@codemirror/lang-javascript";
import { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { search, searchKeymap } from "@codemirror/search";
import { Annotation, Compartment, EditorState, Prec } from "@codemirror/state";
import { EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { foot } from "./foot.js";
import { marks, marksKeymap, place, setMarks } from "./marks.js";
import { look, sheet, words } from "./look.js";

/** @typedef {import("./marks.js").Diagnostic} Diagnostic */

/**
 * @typedef {object} Editor
 * @property {(diagnostics: readonly Diagnostic[]) => void} mark marks what is wrong, in place of all that was marked before
 * @property {(at: { line: number, column?: number }) => void} go moves the cursor there, and what is typed
 * @property {(name: string) => void} language `js` or `ts`: how it is coloured from now on
 * @property {() => void} focus
 * @property {() => void} close leaves the textarea alone, as it was before
 */

/** A change that came from the textarea, and need not go back there. */
const given = Annotation.define();

/** How long `Esc` waits for `Tab`: until another key is pressed, for whoever takes their time. */
const WAITS_MS = 3_600_000;

/** `Ctrl+Enter` is the page's. */
const keys = [...defaultKeymap.filter(({ key }) => key !== "Mod-Enter"), ...historyKeymap, ...searchKeymap, ...marksKeymap];

/** @param {import("@codemirror/view").EditorView} view */
function lets(view) {
  view.setTabFocusMode(WAITS_MS);
  return false;
}

/** @param {string | undefined} name */
const coloured = (name) => (name === "js" ? javascriptLanguage : typescriptLanguage).extension;

/**
 * An editor in the place of a textarea. What is typed is in the textarea at once, which says so by `input`; what others put into the
 * textarea is in the editor once they say so by `input`, or reset its form. The label of the textarea is the editor's.
 * @param {HTMLTextAreaElement} textarea with `data-language="js"` where its text is no TypeScript
 * @returns {Editor}
 */
export function editor(textarea) {
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  const tall = textarea.offsetHeight;
  const language = new Compartment();
  const label = [...textarea.labels].map((one) => one.textContent?.trim()).join(" ") || "Code";

  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        lineNumbers(), highlightActiveLine(), highlightSpecialChars(), history(), indentOnInput(), bracketMatching(), search(),
        language.of(coloured(textarea.dataset.language)), syntaxHighlighting(words), look, marks, foot,
        // `Esc` may close a search first; whatever else it does, the next `Tab` leaves.
        Prec.highest(keymap.of([{ key: "Escape", run: lets }])),
        keymap.of([...keys, indentWithTab]),
        Prec.lowest(keymap.of([{ key: "Escape", run: () => true }])),
        EditorState.tabSize.of(2),
        EditorState.readOnly.of(textarea.readOnly),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": "how", tabindex: "0" }),
        EditorView.updateListener.of(({ docChanged, transactions }) => {
          if (!docChanged || transactions.some((transaction) => transaction.annotation(given))) return;
          textarea.value = view.state.doc.toString();
          textarea.dispatchEvent(new InputEvent("input", { bubbles: true }));
        }),
      ],
    }),
  });

  /** Takes over what the textarea has and the editor has not: from where they begin to differ to where they cease to. */
  function read() {
    const [old, now] = [view.state.doc.toString(), textarea.value];
    if (old === now) return;
    let from = 0;
    while (from < old.length && old[from] === now[from]) from += 1;
    let same = 0;
    while (same < Math.min(old.length, now.length) - from && old.at(-1 - same) === now.at(-1 - same)) same += 1;
    const changes = { from, to: old.length - same, insert: now.slice(from, now.length - same) };
    view.dispatch({ changes, annotations: given.of(true) });
  }

  const heard = new AbortController();
  const { signal } = heard;
  textarea.addEventListener("input", read, { signal });
  // A label that is pressed, a form that leads to what is wrong in it.
  textarea.addEventListener("focus", () => view.focus(), { signal });
  // The form is as it was made only once everybody has heard of it.
  textarea.form?.addEventListener("reset", () => setTimeout(read), { signal });
  addEventListener("pageshow", read, { signal });

  root.adoptedStyleSheets = [sheet(), ...root.adoptedStyleSheets];
  root.append(document.createElement("slot"));
  textarea.replaceWith(host);
  host.append(textarea);
  // As tall as what was there: nothing moves.
  host.style.height = `${tall}px`;
  const { tabIndex } = textarea;
  textarea.tabIndex = -1;
  textarea.ariaHidden = "true";

  return {
    mark: (diagnostics) => view.dispatch({ effects: setMarks.of(diagnostics) }),
    go(at) {
      view.dispatch({ selection: { anchor: place(view.state.doc, at) }, scrollIntoView: true });
      view.focus();
    },
    language: (name) => view.dispatch({ effects: language.reconfigure(coloured(name)) }),
    focus: () => view.focus(),
    close() {
      heard.abort();
      view.destroy();
      host.replaceWith(textarea);
      textarea.tabIndex = tabIndex;
      textarea.ariaHidden = null;
    },
  };
}
