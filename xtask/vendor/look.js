// How the editor looks: by the colours of the page around it, which reach into a shadow root; light or dark is the page's choice.
import { HighlightStyle } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** What code is made of. Names are ink, so that what is not a name stands out. */
export const words = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.self], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.character], color: "var(--ok)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.escape], color: "var(--warn)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.className, tags.namespace], color: "var(--ink)", fontStyle: "italic" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.typeName)], color: "var(--ink)", fontWeight: "600" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

/** Marks are underlined by the text itself: an image would be refused by the page's policy. @param {string} colour */
const underlined = (colour) => ({ textDecoration: `underline wavy 1.5px var(${colour})`, textUnderlineOffset: "3px" });

export const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--surface)", borderRadius: "inherit" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "14px", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 12px 0 8px" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
  ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--sunken)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 8px 0 12px" },
  ".cm-gutterElement.wrong": { fontWeight: "600", boxShadow: "inset 4px 0 currentColor" },
  ".cm-gutterElement.error": { color: "var(--bad)" },
  ".cm-gutterElement.warning": { color: "var(--warn)" },
  ".cm-gutterElement.note": { color: "var(--accent)" },
  ".cm-content .error": underlined("--bad"),
  ".cm-content .warning": underlined("--warn"),
  ".cm-content .note": underlined("--accent"),
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--edge)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--bad-tint)" },
  ".cm-specialChar": { color: "var(--bad)", backgroundColor: "var(--bad-tint)", borderRadius: "3px" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-tint)", outline: "1px solid var(--warn)" },
  ".cm-searchMatch-selected": { outline: "2px solid var(--warn)" },
  ".cm-panels": { color: "var(--ink)", backgroundColor: "var(--sunken)", font: "13px/1.5 system-ui, sans-serif" },
  ".cm-panels.cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  ".foot": { display: "flex", flexWrap: "wrap", gap: "0 16px", padding: "4px 12px", color: "var(--muted)" },
  ".foot .what": { flex: "1 1 12rem", color: "var(--bad)", overflowWrap: "anywhere" },
  ".foot .where": { marginLeft: "auto", fontVariantNumeric: "tabular-nums" },
  ".cm-panel.cm-search": { display: "flex", flexWrap: "wrap", gap: "6px 8px", alignItems: "center", padding: "8px 36px 8px 12px" },
  ".cm-panel.cm-search br": { flexBasis: "100%" },
  ".cm-panel.cm-search label": { display: "inline-flex", alignItems: "center", gap: "4px", minHeight: "28px", fontSize: "inherit" },
  ".cm-panel.cm-search [name=close]": { top: "6px", right: "6px", width: "28px", font: "inherit" },
  ".cm-textfield, .cm-button": {
    minHeight: "28px", margin: "0", padding: "2px 8px", font: "inherit", color: "inherit", backgroundColor: "var(--surface)",
    backgroundImage: "none", border: "1px solid var(--edge)", borderRadius: "3px",
  },
});

/** The box that it is drawn in. The textarea stays in it, seen by nobody. */
export function sheet() {
  const made = new CSSStyleSheet();
  made.replaceSync(`
    :host { display: block; position: relative; min-height: 8rem; max-width: 100%; resize: vertical; overflow: hidden; }
    .cm-editor { border: 1px solid var(--edge); border-radius: var(--radius); }
    ::slotted(textarea) {
      position: absolute !important; inset: 0 auto auto 0 !important; width: 1px !important; height: 1px !important; min-height: 0 !important;
      padding: 0 !important; border: 0 !important; opacity: 0 !important; overflow: hidden !important; white-space: pre !important;
      pointer-events: none !important; resize: none !important;
    }
    @media (forced-colors: active) { .cm-editor { border-color: CanvasText; } }
  `);
  return made;
}
