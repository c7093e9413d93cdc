//! Line-based comparison of two untrusted texts, with marks within changed lines.
//!
//! The cost is limited for any texts: the number of compared lines, the time, and the size of the
//! output. Omitted parts are mentioned.

mod line;
mod rows;

use maud::{Markup, html};
use tollhouse_base::plural::plural;

use self::{
    line::Piece,
    rows::{DiffResult, DiffRow},
};
use super::words;

/// The names of two texts.
#[derive(Clone, Copy)]
pub(crate) struct DiffNames<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
}

/// Shows the differences between two texts.
pub(crate) fn diff(names: DiffNames, old: &str, new: &str) -> Markup {
    let DiffResult { rows, removed, added, unshown, uncompared, in_time } = rows::compared(old, new);
    if removed + added == 0 && uncompared == 0 {
        let same = if old == new { "The texts are the same." } else { "Only the line endings differ." };
        return html! { p.muted { (same) } };
    }
    html! {
        p.muted {
            "From " (names.old) " to " (names.new) ": "
            (plural(added, "line")) " added, " (removed) " removed."
            @if !in_time { " The texts differ too much for a complete comparison. Some equal lines are marked as changed." }
            @if uncompared > 0 { " The last " (uncompared) " lines were not compared, because there are too many." }
            @if unshown > 0 { " " (unshown) " more changed lines are not shown here." }
        }
        div.scroll role="group" aria-label={ "Differences from " (names.old) " to " (names.new) } tabindex="0" {
            table.diff {
                thead {
                    tr {
                        th scope="col" { "Old" } th scope="col" { "New" } th scope="col" { span.aside { "Change" } } th scope="col" { "Line" }
                    }
                }
                tbody { @for row in &rows { (render_row(row)) } }
            }
        }
    }
}

fn render_row(row: &DiffRow) -> Markup {
    html! {
        @match row {
            DiffRow::Skipped(lines) => tr.skipped { td {} td {} td {} td { (lines) @if *lines == 1 { " line" } @else { " lines" } " as before" } },
            DiffRow::Same { old, new, pieces } => tr { td { (old) } td { (new) } td {} td { (in_pieces(pieces)) } },
            DiffRow::Removed { old, pieces } => tr.removed { td { (old) } td {} td { (sign("−", "removed")) } td { (in_pieces(pieces)) } },
            DiffRow::Added { new, pieces } => tr.added { td {} td { (new) } td { (sign("+", "added")) } td { (in_pieces(pieces)) } },
        }
    }
}

fn sign(sign: &str, word: &str) -> Markup {
    html! { span aria-hidden="true" { (sign) } span.aside { (word) } }
}

fn in_pieces(pieces: &[Piece]) -> Markup {
    html! {
        @for piece in pieces {
            @match piece {
                Piece::Same(text) => (words(text)),
                Piece::Marked(text) => mark { (words(text)) },
                Piece::Left(chars) => span.muted { "… " (chars) " characters …" },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const NAMES: DiffNames = DiffNames { old: "one", new: "two" };

    fn shown(old: &str, new: &str) -> String {
        diff(NAMES, old, new).into_string()
    }

    #[test]
    fn diff_counts_and_marks_changes() {
        let rendered = shown("a\nlet x = 1;\nb\n", "a\nlet x = 2;\nb\nc\n");
        assert!(rendered.contains("2 lines added, 1 removed."), "{rendered}");
        assert!(rendered.contains("<mark><bdi>1</bdi></mark>") && rendered.contains("<mark><bdi>2</bdi></mark>"), "{rendered}");
        assert_eq!(shown("a", "a"), "<p class=\"muted\">The texts are the same.</p>");
        assert!(shown("a\r\nb\r\n", "a\nb\n").contains("Only the line endings differ"));
    }

    #[test]
    fn diffed_text_is_escaped() {
        let rendered = shown("<script>\u{202e}</script>", "</td><img src=x onerror=alert(1)>");
        assert!(!rendered.contains("<script") && !rendered.contains("<img") && !rendered.contains('\u{202e}'), "{rendered}");
    }

    /// Texts for which an unlimited comparison would take minutes and gigabytes.
    fn hostile() -> Vec<(&'static str, String, String)> {
        let bytes = 256 << 10;
        let mixed = |seed: u32| {
            let mut state = seed;
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ["a\n", "b\n", "c\n", "d\n"][(state >> 24) as usize % 4]
            };
            (0..bytes / 2).map(next).collect::<String>()
        };
        vec![
            ("one line", "a".repeat(bytes), "b".repeat(bytes)),
            ("one line of words", "a b ".repeat(bytes / 4), "b a ".repeat(bytes / 4)),
            ("one line, odd", "\u{202e}a".repeat(bytes / 4), "\u{202e}b".repeat(bytes / 4)),
            ("lines of four kinds", mixed(1), mixed(2)),
            ("empty lines", "\n".repeat(bytes), "\n\n\n a".repeat(bytes / 4)),
            ("each line another", (0..40_000).map(|n| format!("{n}\n")).collect(), (0..40_000).rev().map(|n| format!("{n}\n")).collect()),
            ("long lines", format!("{}\n", "a&".repeat(500)).repeat(256), format!("{}\n", "&a".repeat(500)).repeat(256)),
            ("words", format!("{}\n", "a b ".repeat(90)).repeat(700), format!("{}\n", "b c a ".repeat(60)).repeat(700)),
        ]
    }

    #[test]
    fn diff_of_hostile_texts_is_cheap_and_short() {
        for (name, old, new) in hostile() {
            let started = Instant::now();
            let rendered = shown(&old, &new);
            assert!(started.elapsed() < rows::TIME * 20, "{name}: {:?}", started.elapsed());
            assert!(rendered.len() < 2 * rows::MAX_BYTES, "{name}: {} bytes", rendered.len());
            assert!(rendered.contains(" added, "), "{name}");
        }
    }
}
