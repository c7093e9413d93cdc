//! Source code with linkable line numbers. A long source is split into pages, and long lines are
//! cut.

use maud::{Markup, html};

use super::{
    highlight::{Highlight, Piece},
    text::{classed, shown_bytes},
};

const MAX_LINES: usize = 500;
/// Approximate maximum size of a page, in bytes.
const MAX_BYTES: usize = 96 << 10;
/// Approximate size of a line without its text, in bytes.
const LINE_BYTES: usize = 60;
/// Approximate size of a highlighted token without its text, in bytes.
const MARK_BYTES: usize = 24;
/// Maximum shown characters of a line.
const MAX_CHARS: usize = 1_000;

pub(crate) struct Part<'a> {
    lines: Vec<Line<'a>>,
    /// Number of its first line, from 1.
    from: usize,
    /// Total number of lines.
    total: usize,
}

struct Line<'a> {
    pieces: Vec<Piece<'a>>,
    /// Number of omitted characters.
    remaining: usize,
}

/// Returns the part of a source that begins at a line.
pub(crate) fn part(source: &str, from: usize) -> Part<'_> {
    let total = source.lines().count();
    let from = from.clamp(1, total.max(1));
    let highlight = Highlight::new(source);
    let mut remaining = MAX_BYTES;
    let fits = |(start, line): &(usize, &str)| {
        let fits = remaining > 0;
        let marks = highlight.marks(*start, start + line.len()).min(MAX_CHARS);
        remaining = remaining.saturating_sub(LINE_BYTES + shown_bytes(line).min(MAX_CHARS * 2) + marks * MARK_BYTES);
        fits
    };
    let line = |(start, line): (usize, &str)| {
        let shown = line.char_indices().nth(MAX_CHARS).map_or(line.len(), |(at, _)| at);
        Line { pieces: highlight.pieces(start, start + shown), remaining: line[shown..].chars().count() }
    };
    let lines = placed(source).skip(from - 1).take(MAX_LINES).take_while(fits).map(line).collect();
    Part { lines, from, total }
}

/// Returns the lines of a source with their offsets.
fn placed(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    source.split_inclusive('\n').map(move |whole| {
        let start = at;
        at += whole.len();
        (start, whole.lines().next().unwrap_or_default())
    })
}

impl Part<'_> {
    /// Returns the number of its last line.
    fn to(&self) -> usize {
        self.from + self.lines.len() - usize::from(!self.lines.is_empty())
    }

    /// Shows the lines, with `marked` ones highlighted. `at` returns the address of the part that
    /// begins at a line.
    pub(crate) fn shown(&self, name: &str, marked: &[u64], at: impl Fn(usize) -> String) -> Markup {
        let is_marked = |line: usize| marked.contains(&(line as u64));
        html! {
            div.scroll role="group" aria-label=(name) tabindex="0" {
                pre.source {
                    code {
                        @for (position, line) in self.lines.iter().enumerate() {
                            @let number = self.from + position;
                            span.line.found[is_marked(number)] id={ "L" (number) } {
                                a href={ "#L" (number) } { (number) }
                                (classed(line.pieces.iter().copied()))
                                @if line.remaining > 0 { span.muted { "… " (line.remaining) " more characters" } }
                            }
                        }
                    }
                }
            }
            nav.pager aria-label={ "Lines of " (name) } {
                p { "Lines " (self.from) " to " (self.to()) " of " (self.total) }
                @if self.from > 1 { a.button.quiet href=(at(1)) { "First lines" } }
                @if self.to() < self.total { a.button href=(at(self.to() + 1)) rel="next" { "Next lines" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, from: usize) -> String {
        part(source, from).shown("Source", &[2], |from| format!("/v?from={from}")).into_string()
    }

    #[test]
    fn each_line_has_a_linkable_number() {
        let rendered = shown("one\n<two>\n", 1);
        assert!(rendered.contains("<span class=\"line\" id=\"L1\"><a href=\"#L1\">1</a><bdi>one</bdi></span>"), "{rendered}");
        assert!(rendered.contains("<span class=\"line found\" id=\"L2\"><a href=\"#L2\">2</a><bdi>&lt;two&gt;</bdi></span>"), "{rendered}");
        assert!(rendered.contains("Lines 1 to 2 of 2") && !rendered.contains("Next lines"), "{rendered}");
        assert!(shown("", 7).contains("of 0"));
        let rendered = shown("let a;\r\n// b", 1);
        assert!(rendered.contains("<bdi><span class=\"k\">let</span> a;</bdi></span><span class=\"line found\""), "{rendered}");
    }

    #[test]
    fn long_source_is_split_into_pages() {
        let many: String = (1..=1_200).map(|n| format!("{n}\n")).collect();
        let rendered = shown(&many, 501);
        assert!(rendered.contains("id=\"L501\"") && !rendered.contains("id=\"L500\"") && !rendered.contains("id=\"L1001\""));
        assert!(rendered.contains("/v?from=1001") && rendered.contains("Lines 501 to 1000 of 1200"), "{rendered}");
        assert!(shown(&many, 9_999).contains("Lines 1200 to 1200"));
        let odd = "\u{202e}a".repeat(400);
        for hostile in [
            "0 ".repeat(128 << 10),
            "0\n".repeat(128 << 10),
            "'' ".repeat(90_000),
            "\n".repeat(256 << 10),
            "&".repeat(256 << 10),
            format!("{odd}\n").repeat(300),
            "\0\n".repeat(9_000),
        ] {
            let rendered = shown(&hostile, 1);
            assert!(rendered.len() < 4 * MAX_BYTES, "{} bytes", rendered.len());
        }
        assert!(shown(&"x".repeat(1_500), 1).contains("500 more characters"));
    }
}
