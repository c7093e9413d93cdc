// What is wrong in the text: underlined where it is, its line's number beside it marked, told in the line below when the cursor is there.
import { RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, GutterMarker, gutterLineClass } from "@codemirror/view";

/**
 * @typedef {object} Diagnostic
 * @property {number} line from 1
 * @property {number} [column] character of the line, from 1; the whole line, where there is none
 * @property {string} message
 * @property {"error" | "warning" | "note"} [severity] `error`, where there is none
 */

/** @typedef {Diagnostic & { from: number, to: number }} Mark */

/** @type {import("@codemirror/state").StateEffectType<readonly Diagnostic[]>} */
export const setMarks = StateEffect.define();

/** Where a place is in the text, or the nearest that is there. @param {import("@codemirror/state").Text} doc @param {{ line: number, column?: number }} at */
export function place(doc, { line, column = 1 }) {
  const found = doc.line(Math.min(Math.max(line, 1), doc.lines));
  // Characters, of which some are two units of the text.
  return found.from + [...found.text].slice(0, Math.max(column, 1) - 1).join("").length;
}

/** @param {import("@codemirror/state").EditorState} state @param {Diagnostic} diagnostic @returns {Mark} */
function placed(state, diagnostic) {
  const from = place(state.doc, diagnostic);
  const line = state.doc.lineAt(from);
  if (!diagnostic.column) return { ...diagnostic, from: line.from, to: line.to };
  const word = state.wordAt(from);
  return { ...diagnostic, from, to: word && word.to > from ? word.to : Math.min(from + 1, line.to) };
}

/** @type {Record<string, GutterMarker>} */
const numbered = { error: new (gutter("error"))(), warning: new (gutter("warning"))(), note: new (gutter("note"))() };

/** @param {string} severity */
function gutter(severity) {
  return class extends GutterMarker {
    elementClass = `wrong ${severity}`;
  };
}

/** @param {readonly Mark[]} all @param {number} length */
function drawn(all, length) {
  const seen = all.filter(({ from, to }) => from < to && to <= length);
  return Decoration.set(seen.map(({ from, to, message, severity = "error" }) =>
    Decoration.mark({ class: `wrong ${severity}`, attributes: { title: message } }).range(from, to)), true);
}

/** All marks, which move with the text that they are of. */
const known = StateField.define({
  create: () => /** @type {readonly Mark[]} */ ([]),
  update(all, { state, changes, docChanged, effects }) {
    const moved = docChanged
      ? all.map((mark) => ({ ...mark, from: changes.mapPos(mark.from, 1), to: changes.mapPos(mark.to, -1) }))
      : all;
    return effects.reduce((now, effect) => (effect.is(setMarks) ? effect.value.map((one) => placed(state, one)) : now), moved);
  },
  provide: (field) => [
    EditorView.decorations.from(field, (all) => (view) => drawn(all, view.state.doc.length)),
    gutterLineClass.compute([field], (state) => RangeSet.of(state.field(field)
      .map(({ from, severity = "error" }) => numbered[severity].range(state.doc.lineAt(from).from)), true)),
  ],
});

/** What is marked where the cursor is: at it, else in its line. @param {import("@codemirror/state").EditorState} state */
export function here(state) {
  const { head } = state.selection.main;
  const line = state.doc.lineAt(head);
  const all = state.field(known).filter(({ from, to }) => from <= line.to && to >= line.from);
  return all.find(({ from, to }) => from <= head && head <= to) ?? all.at(0);
}

/** To the next mark after the cursor, and from the last one to the first. @param {EditorView} view */
function next(view) {
  const all = [...view.state.field(known)].sort((a, b) => a.from - b.from);
  const to = all.find(({ from }) => from > view.state.selection.main.head) ?? all.at(0);
  if (to) view.dispatch({ selection: { anchor: to.from }, scrollIntoView: true });
  return Boolean(to);
}

export const marks = known;

export const marksKeymap = [{ key: "F8", run: next }];
