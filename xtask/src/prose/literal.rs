//! Reads the text of a string literal.

use super::passage::{CODE, Passage};

/// Statements of SQL, by their first word.
const SQL: &[&str] = &[
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "WITH", "BEGIN", "DROP", "SET", "LOCK", "COMMIT", "TRUNCATE", "NOTIFY",
    "LISTEN", "COPY", "DO", "START", "SHOW", "ON", "AND", "WHERE", "VALUES", "FROM",
];

/// Pieces of code, which no text for people has.
const CODE_PIECES: &[&str] = &["=>", "();", ");", "= {", "};", "</", "/>", "::", " == ", "&&", "||", "$(", "#!", "var(", "px", "\\b", "(?"];

/// Appends the text of a literal to the passage. Line breaks stay. Values of `format!` become [`CODE`].
pub(super) fn push(passage: &mut Passage, literal: &str, line: usize) {
    if let Some(text) = text_of(literal) {
        passage.push_marked(&text, line);
    }
}

/// Returns whether a literal is a text for people, and not a name, a statement or code.
pub(super) fn is_prose(literal: &str) -> bool {
    let Some(text) = text_of(literal) else { return false };
    let is_word = |word: &&str| {
        let word = word.trim_matches(|char: char| char.is_ascii_punctuation());
        word.len() > 1 && word.bytes().skip(1).all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'\''))
    };
    let all: Vec<_> = text.split_whitespace().collect();
    let count = all.iter().filter(|word| is_word(word)).count();
    let is_sql = all.first().is_some_and(|first| SQL.contains(first));
    // A list of words, for example of keywords, has no punctuation.
    let is_list = all.len() > 12 && !text.contains(['.', ',', ';', ':', CODE]);
    count >= 3 && count * 2 > all.len() && !is_sql && !is_list && !CODE_PIECES.iter().any(|piece| text.contains(piece))
}

/// Returns the text of a string literal. `None` for another literal.
fn text_of(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('r') {
        return Some(values(raw.trim_matches('#').strip_prefix('"')?.strip_suffix('"')?));
    }
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        match (char, if char == '\\' { chars.next() } else { None }) {
            ('\\', Some('\n')) => {
                // The white space that a continued line begins with is not in the text. The line break stays, to
                // count lines: one space was before it.
                let rest = chars.as_str().trim_start();
                let skipped = &chars.as_str()[..chars.as_str().len() - rest.len()];
                text.push('\n');
                text.extend(skipped.chars().filter(|char| *char == '\n'));
                chars = rest.chars();
            }
            ('\\', Some('n' | 't' | 'r')) => text.push(' '),
            ('\\', Some('u')) => {
                let end = chars.as_str().find('}').map_or(0, |end| end + 1);
                text.push('…');
                chars = chars.as_str()[end..].chars();
            }
            ('\\', Some(escaped)) => text.push(escaped),
            (char, _) => text.push(char),
        }
    }
    Some(values(&text))
}

/// Replaces the values of `format!`.
fn values(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        shown.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.starts_with('{') {
            shown.push('{');
            rest = &rest[1..];
            continue;
        }
        let end = rest.find('}').filter(|end| !rest[..*end].contains(char::is_whitespace));
        shown.push(if end.is_some() { CODE } else { '{' });
        rest = &rest[end.map_or(0, |end| end + 1)..];
    }
    shown.push_str(rest);
    shown.replace("}}", "}")
}

#[cfg(test)]
mod tests {
    use super::{super::passage::Area, *};

    fn read(literal: &str) -> String {
        let mut passage = Passage::new(Area::Message);
        push(&mut passage, literal, 1);
        passage.text.replace(CODE, "@")
    }

    #[test]
    fn escapes_values_and_code_are_replaced() {
        assert_eq!(read(r#""the \"body\" has {count} of {} bytes: `{name}`, {{x}}""#), "the \"body\" has @ of @ bytes: @, {x}");
        assert_eq!(read("r#\"raw \\text\"#"), "raw \\text");
        assert_eq!(read("\"one \\\n     two\""), "one \ntwo");
        assert_eq!(read("b\"bytes\""), "");
    }

    #[test]
    fn statements_and_code_are_not_prose() {
        for prose in [r#""the store does not answer""#, r#""{0} is not a valid URL or path""#, r#""No calls yet.""#] {
            assert!(is_prose(prose), "{prose}");
        }
        for code in
            [r#""select_one""#, r#""SELECT value FROM rows where key""#, r#""export default () => one two three;""#, r#""p q r""#, "'c'"]
        {
            assert!(!is_prose(code), "{code}");
        }
    }
}
