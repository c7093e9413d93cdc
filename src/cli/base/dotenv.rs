//! Parses files of `NAME=value` lines like dotenv (npm's `dotenv` 17, its `LINE`), for which such files are written.
//!
//! A comment after a value is ignored. A quoted value can span several lines. In double quotes, `\n` and `\r` are line
//! breaks. Lines that dotenv would skip, or read with unbalanced quotes, are errors that name the line.

use std::sync::LazyLock;

use regex::Regex;
use zeroize::Zeroizing;

/// Matches an entry: its name, and its value with the quotes.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    let value = r#"[ \t]*'(?:\\'|[^'])*'|[ \t]*"(?:\\"|[^"])*"|[ \t]*`(?:\\`|[^`])*`|[^#\n]+"#;
    let entry = format!(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z0-9_.-]+)(?:[ \t]*=|:[ \t])({value})?[ \t]*(?:#.*)?$");
    Regex::new(&entry).expect("it is a pattern")
});

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// A name with its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The line where it begins, from 1.
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A malformed line and the reason. The message never contains a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MalformedLine {
    pub(crate) line: u32,
    pub(crate) reason: &'static str,
}

/// Parses a file. If a name occurs twice, the last entry counts.
///
/// # Errors
///
/// The first line that is neither an entry, a comment, nor empty.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, MalformedLine> {
    let text = Zeroizing::new(text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n"));
    let mut entries = Vec::<Entry>::new();
    let mut rest = 0;
    for found in ENTRY.captures_iter(&text) {
        let (Some(whole), name) = (found.get(0), &found[1]) else { continue };
        no_more(&text, rest, whole.start())?;
        rest = whole.end();
        let line = line_at(&text, found.get(1).map_or(whole.start(), |name| name.start()));
        let value = unquoted(found.get(2).map_or("", |value| value.as_str().trim())).map_err(|reason| MalformedLine { line, reason })?;
        entries.retain(|entry| entry.name != name);
        entries.push(Entry { line, name: name.to_owned(), value });
    }
    no_more(&text, rest, text.len())?;
    Ok(entries)
}

/// Refuses anything but comments between two entries or after the last one.
fn no_more(text: &str, from: usize, to: usize) -> Result<(), MalformedLine> {
    let mut at = from;
    for row in text[from..to].split_inclusive('\n') {
        let row_at = at;
        at += row.len();
        if !row.trim().is_empty() && !row.trim_start().starts_with('#') {
            return Err(MalformedLine { line: line_at(text, row_at), reason: "expected NAME=value" });
        }
    }
    Ok(())
}

fn unquoted(value: &str) -> Result<String, &'static str> {
    let Some(quote) = value.chars().next().filter(|first| QUOTES.contains(first)) else { return Ok(value.to_owned()) };
    let inside = value[1..].strip_suffix(quote).ok_or("the closing quote is missing, or text follows it")?;
    Ok(if quote == '"' { inside.replace("\\n", "\n").replace("\\r", "\r") } else { inside.to_owned() })
}

fn line_at(text: &str, at: usize) -> u32 {
    u32::try_from(text[..at].matches('\n').count() + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().map(|entry| (entry.name, entry.value)).collect()
    }

    #[track_caller]
    fn is(text: &str, value: &str) {
        assert_eq!(read(&format!("A={text}\nZ=1\n")), [("A".to_owned(), value.to_owned()), ("Z".to_owned(), "1".to_owned())], "{text}");
    }

    #[test]
    fn values_are_read_as_dotenv_reads_them() {
        for (text, value) in [
            ("1", "1"),
            ("", ""),
            ("  spaced  ", "spaced"),
            ("\"x\" # note", "x"),
            ("x # note", "x"),
            ("x#note", "x"),
            ("# note", ""),
            ("\"l1\\nl2\"", "l1\nl2"),
            ("'l1\\nl2'", "l1\\nl2"),
            ("l1\\nl2", "l1\\nl2"),
            ("'a#b'", "a#b"),
            ("\"a#b\"", "a#b"),
            ("`it's \"so\"`", "it's \"so\""),
            ("\"-----BEGIN\nAAAA\n-----END\"", "-----BEGIN\nAAAA\n-----END"),
            ("'-----BEGIN\nAAAA\n-----END' # key", "-----BEGIN\nAAAA\n-----END"),
            ("a=b==", "a=b=="),
            ("'it''s'", "it''s"),
            ("\"two words\"", "two words"),
            ("\" kept \"", " kept "),
            ("\"\"", ""),
            ("''", ""),
            ("\"a\\\"b\"", "a\\\"b"),
            ("\"C:\\dir\\\"", "C:\\dir\\"),
            ("{\"json\": \"too\"}", "{\"json\": \"too\"}"),
            ("$HOME and ${B}", "$HOME and ${B}"),
            ("é", "é"),
        ] {
            is(text, value);
        }
    }

    #[test]
    fn byte_order_marks_comments_exports_and_crlf_are_read() {
        let text = "\u{feff}A=1\r\n# comment\r\n\r\n  export B = two \r\nC: three\r\nD.e-f=4\rA=5";
        let requested = [("B", "two"), ("C", "three"), ("D.e-f", "4"), ("A", "5")];
        assert_eq!(read(text), requested.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let lines: Vec<_> = parse("A=1\nB=\"x\ny\"\n\nC=1").unwrap().into_iter().map(|entry| entry.line).collect();
        assert_eq!(lines, [1, 2, 5]);
    }

    #[test]
    fn malformed_line_is_rejected_with_its_number() {
        for (text, line) in [
            ("A", 1),
            ("A=1\n=2", 2),
            ("A=1\nI=\"un\n", 2),
            ("A=1\nI='un\nB=2", 2),
            ("A=\"x\" y\n", 1),
            ("\n\nA B=1", 3),
            ("A=\"x\ny\"\nnone", 3),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
