//! Displays foreign text on a terminal so that it cannot move the cursor, set colors, reverse text direction, or forge
//! a line.

use std::fmt::Write as _;

use serde::Serialize;
use tollhouse_base::{
    exact,
    invisible_chars::{is_invisible, marked},
};

/// Returns the text on one line. Line breaks, invisible characters and those that affect others are replaced by their
/// names.
pub(crate) fn line(text: &str) -> String {
    shown(text, name)
}

/// Returns the text on several lines, indented by `margin` except for the first, so that none looks like one of ours.
pub(crate) fn block(text: &str, margin: &str) -> String {
    let text = text.replace("\r\n", "\n");
    shown(&text, |out, char| match char {
        '\n' => {
            out.push('\n');
            out.push_str(margin);
        }
        '\t' => out.push('\t'),
        other => name(out, other),
    })
}

/// Returns at most `most` characters of one line, with an ellipsis if there were more.
pub(crate) fn first(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => line(&text[..end]) + "…",
        None => line(text),
    }
}

fn shown(text: &str, control: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len());
    for (char, unseen) in marked(text) {
        if unseen || char.is_control() { control(&mut out, char) } else { out.push(char) }
    }
    out
}

fn name(out: &mut String, char: char) {
    _ = write!(out, "U+{:04X}", u32::from(char));
}

/// Formats JSON on one line for programs. Characters that could control a terminal are escaped, which does not change
/// the meaning.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    escaped(&serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
}

/// Formats JSON on several lines for people, with the same escapes.
pub(crate) fn json_for_people<T: Serialize + ?Sized>(value: &T) -> String {
    escaped(&serde_json::to_string_pretty(value).unwrap_or_else(|_| "null".to_owned()))
}

/// Formats JSON text on several lines for people, with the same escapes. Its numbers keep their digits. Returns `None`
/// if it is not JSON.
pub(crate) fn json_text_for_people(json: &str) -> Option<String> {
    exact::pretty(json).ok().map(|text| escaped(&text))
}

/// Escapes invisible characters. Outside of strings, JSON contains none except line breaks, so that each of them is in
/// a string and may be escaped.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_invisible(char) {
            for unit in char.encode_utf16(&mut [0; 2]) {
                _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{202e}b\u{9b}c\r\nerror: forged\u{e0041}";

    #[test]
    fn foreign_text_does_not_control_a_terminal() {
        assert_eq!(line(HOSTILE), "aU+001B[2JU+202EbU+009BcU+000DU+000Aerror: forgedU+E0041");
        assert_eq!(block(HOSTILE, "  | "), "aU+001B[2JU+202EbU+009Bc\n  | error: forgedU+E0041");
        assert_eq!(block("a\rb\tc", ""), "aU+000Db\tc");
        assert_eq!(first("日本語", 2), "日本…");
        assert_eq!(line("naïve 👩\u{200d}💻"), "naïve 👩\u{200d}💻");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = json!({ HOSTILE: [HOSTILE, 1.5, null] });
        assert_eq!(json_text_for_people(&value.to_string()), Some(json_for_people(&value)));
        assert_eq!((json_text_for_people("0.1000").as_deref(), json_text_for_people("no")), (Some("0.1000"), None));
        for text in [json(&value), json_for_people(&value)] {
            assert!(text.chars().all(|char| !is_invisible(char)), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert!(!json(&value).contains('\n'));
    }
}
