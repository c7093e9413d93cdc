//! Removes characters from a log line that would affect a terminal or break the line.

use serde_json::Value;

/// Returns `text` on one line, without control characters, terminal sequences, and direction marks.
pub(crate) fn sanitize(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.peek() {
                Some('[') => skip_control_sequence(&mut chars),
                Some(']') => skip_system_command(&mut chars),
                _ => {}
            },
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => clean.push(' '),
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {}
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Applies [`sanitize`] to every string in `value`, including names.
pub(super) fn sanitize_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(sanitize(&text)),
        Value::Array(items) => items.into_iter().map(sanitize_json).collect(),
        Value::Object(members) => members.into_iter().map(|(name, item)| (sanitize(&name), sanitize_json(item))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips `ESC [`, parameters, and one final character from `@` to `~`.
fn skip_control_sequence(chars: &mut Chars<'_>) {
    chars.next();
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    let _ = chars.next_if(|c| matches!(c, '@'..='~'));
}

/// Skips `ESC ]` and text up to BEL or `ESC \`, or to the end of the line.
fn skip_system_command(chars: &mut Chars<'_>) {
    while let Some(c) = chars.next_if(|&c| c != '\n') {
        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_acts_on_a_terminal() {
        let cases = [
            ("plain, with ünïcode 🙂", "plain, with ünïcode 🙂"),
            ("a\u{1b}[31mred\u{1b}[0m", "ared"),
            ("a\u{1b}[2J\u{1b}[1;1Hb", "ab"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("a\u{1b}cb", "acb"),
            ("a\rb\u{8}c\0d", "abcd"),
            ("one\ntwo\u{2028}three\u{2029}four\tfive", "one two three four five"),
            ("\u{9b}31mx\u{85}y", "31mxy"),
            ("ab\u{202e}cd\u{2066}e\u{200f}", "abcde"),
        ];
        for (text, expected) in cases {
            assert_eq!(sanitize(text), expected, "{text:?}");
        }
    }
}
