//! Untrusted text. Whatever it contains, it cannot create markup, hide content, or change the
//! direction of text around it.

use std::borrow::Cow;

use maud::{Markup, Render, html};
use tollhouse_base::invisible_chars::marked;

/// Number of odd characters of a text that are shown by name. Further runs become a single mark, so
/// that no text grows to a multiple of its length.
const NAMED: usize = 8;

/// Shows untrusted text with an isolated text direction. Empty text produces nothing.
pub(crate) fn words(text: impl AsRef<str>) -> Markup {
    let text = text.as_ref();
    html! { @if !text.is_empty() { bdi { (VisibleText::new(text)) } } }
}

/// Shows the first characters of a text, with an ellipsis if there are more.
pub(crate) fn first(text: impl AsRef<str>, chars: usize) -> Markup {
    let text = text.as_ref();
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    html! { @if !text.is_empty() { bdi { (VisibleText::new(&text[..end])) @if end < text.len() { "…" } } } }
}

/// Shows the first words of a text on one line, with backticks as code and an ellipsis if there are
/// more.
pub(crate) fn summary(text: &str, chars: usize) -> Markup {
    let Some((end, _)) = text.char_indices().nth(chars) else { return line(text) };
    let whole = text[..end].rfind(char::is_whitespace).unwrap_or(end);
    line(&format!("{} …", text[..whole].trim_end_matches([',', ';', ' '])))
}

/// Shows paragraphs, with backticks as code. No links or other markup.
pub(crate) fn paragraphs(text: &str) -> Markup {
    let text = text.replace("\r\n", "\n");
    let parts = text.split("\n\n").map(str::trim).filter(|part| !part.is_empty());
    html! { @for part in parts { p.words { (line(part)) } } }
}

/// Shows a line of untrusted text, with backticks as code.
pub(crate) fn line(text: &str) -> Markup {
    if text.is_empty() {
        return html! {};
    }
    // An unclosed backtick opens nothing.
    let pairs = text.matches('`').count() / 2;
    let mut named = 0;
    html! {
        bdi {
            @for (position, piece) in text.splitn(pairs * 2 + 1, '`').enumerate() {
                @let seen = VisibleText { text: piece, named };
                @let () = named += seen.invisible();
                @if position % 2 == 1 { code { (seen) } } @else { (seen) }
            }
        }
    }
}

/// Shows a text in pieces with optional classes. For screen readers it is one text.
pub(crate) fn classed<'a>(pieces: impl IntoIterator<Item = (Option<&'static str>, &'a str)>) -> Markup {
    let mut named = 0;
    html! {
        bdi {
            @for (class, piece) in pieces {
                @let seen = VisibleText { text: piece, named };
                @let () = named += seen.invisible();
                @if let Some(class) = class { span class=(class) { (seen) } } @else { (seen) }
            }
        }
    }
}

/// Returns the text for places without elements: attributes, and the window's title.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !marked(text).any(|(_, unseen)| unseen) {
        return Cow::Borrowed(text);
    }
    let shown = |(char, unseen)| if unseen { name(char) } else { String::from(char) };
    Cow::Owned(marked(text).map(shown).collect())
}

/// A text in which invisible characters, and those that change the direction, are shown by name.
struct VisibleText<'a> {
    text: &'a str,
    /// Number of characters that were named before.
    named: usize,
}

impl<'a> VisibleText<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, named: 0 }
    }

    fn invisible(&self) -> usize {
        marked(self.text).filter(|(_, unseen)| *unseen).count()
    }
}

impl Render for VisibleText<'_> {
    fn render_to(&self, out: &mut String) {
        let (mut named, mut shown) = (self.named, String::new());
        for (char, unseen) in marked(self.text) {
            if !unseen {
                shown.push(char);
                continue;
            }
            shown.render_to(out);
            shown.clear();
            if named < NAMED {
                html! { span.odd { (name(char)) } }.render_to(out);
            } else if !out.ends_with(char::REPLACEMENT_CHARACTER) {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            named += 1;
        }
        shown.render_to(out);
    }
}

/// Returns the approximate size of a text as markup.
pub(crate) fn shown_bytes(text: &str) -> usize {
    text.len() + VisibleText::new(text).invisible().min(NAMED) * "<span class=\"odd\">U+202E</span>".len()
}

fn name(char: char) -> String {
    format!("U+{:04X}", u32::from(char))
}

/// Formats a number with grouped digits.
pub(crate) fn grouped(amount: u64) -> String {
    let digits = amount.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.char_indices() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_text_renders_nothing() {
        for rendered in [words(""), first("", 3), line(""), summary("", 3), paragraphs("")] {
            assert_eq!(rendered.into_string(), "");
        }
    }

    #[test]
    fn untrusted_text_is_escaped() {
        assert_eq!(words("<b>\"&'</b>").into_string(), "<bdi>&lt;b&gt;&quot;&amp;'&lt;/b&gt;</bdi>");
        assert_eq!(words("a\u{202e}b\0").into_string(), "<bdi>a<span class=\"odd\">U+202E</span>b<span class=\"odd\">U+0000</span></bdi>");
        assert_eq!(plain("a\u{1b}[31m\u{2066}"), "aU+001B[31mU+2066");
        assert_eq!(words("👩\u{200d}💻 नमस्ते\n").into_string(), "<bdi>👩\u{200d}💻 नमस्ते\n</bdi>");
    }

    #[test]
    fn shown_text_has_bounded_length() {
        let html = words("\u{202e}".repeat(1_000)).into_string();
        assert!(html.ends_with("</span>\u{fffd}</bdi>"), "{html}");
        for hostile in ["\u{202e}", "a\u{202e}", "`\u{202e}`", "\0\0b"] {
            let text = hostile.repeat(2_000);
            let html = line(&text).into_string();
            assert_eq!(html.matches("<span").count(), NAMED);
            assert!(html.len() < text.len() * 6 + 500, "{hostile:?} becomes {} of {}", html.len(), text.len());
        }
    }

    #[test]
    fn paired_backticks_become_code() {
        assert_eq!(line("a `b` c").into_string(), "<bdi>a <code>b</code> c</bdi>");
        assert_eq!(line("a `<b>` c ` d").into_string(), "<bdi>a <code>&lt;b&gt;</code> c ` d</bdi>");
        assert_eq!(paragraphs("one\n\n\n\ntwo\r\n\r\n").into_string().matches("<p ").count(), 2);
    }

    #[test]
    fn classed_pieces_are_one_text() {
        let html = classed([(Some("k"), "if"), (None, " <b>"), (Some("s"), "\u{202e}")]).into_string();
        assert_eq!(html, "<bdi><span class=\"k\">if</span> &lt;b&gt;<span class=\"s\"><span class=\"odd\">U+202E</span></span></bdi>");
        let html = classed((0..1_000).map(|_| (Some("s"), "\u{202e}"))).into_string();
        assert_eq!(html.matches("odd").count(), NAMED);
    }

    #[test]
    fn cut_text_has_an_ellipsis() {
        assert_eq!(first("áéí", 2).into_string(), "<bdi>áé…</bdi>");
        assert_eq!(summary("one `two`, three", 12).into_string(), "<bdi>one <code>two</code> …</bdi>");
        assert_eq!(summary("áéí", 2).into_string(), "<bdi>áé …</bdi>");
        assert_eq!(first("áéí", 3).into_string(), "<bdi>áéí</bdi>");
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        for (amount, rendered) in [(0, "0"), (999, "999"), (1_000, "1,000"), (67_108_864, "67,108,864")] {
            assert_eq!(grouped(amount), rendered);
        }
    }
}
