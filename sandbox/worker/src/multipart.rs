//! The parts of a `multipart/form-data` body (RFC 7578, and the Fetch standard where they differ).
//!
//! Every byte is read a bounded number of times, and the number of parts is limited.

use serde_json::{Value, json};
use tollhouse_protocol::limits::{FORM_HEAD_BYTES, FORM_PARTS};

/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES: usize = 70;

/// Returns a row for each part: its name, file name, content type, and where its content begins and
/// ends. A part without a file name is a text.
///
/// # Errors
///
/// If the body has no such form, with the reason.
pub(crate) fn parts(body: &[u8], boundary: &str) -> Result<Vec<Value>, String> {
    if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES {
        return Err(format!("a boundary has 1 to {BOUNDARY_BYTES} bytes"));
    }
    let delimiter = format!("\r\n--{boundary}");
    let finder = memchr::memmem::Finder::new(&delimiter);
    // The first delimiter can be at the very beginning.
    let mut at = if body.starts_with(&delimiter.as_bytes()[2..]) {
        delimiter.len() - 2
    } else {
        finder.find(body).ok_or("the form does not contain its boundary")? + delimiter.len()
    };
    let mut rows = Vec::new();
    loop {
        let rest = &body[at..];
        if rest.starts_with(b"--") {
            return Ok(rows);
        }
        if rows.len() >= FORM_PARTS {
            return Err(format!("a form has at most {FORM_PARTS} parts"));
        }
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if !rest[padding..].starts_with(b"\r\n") {
            return Err("the boundary of a part is not at the end of its line".into());
        }
        // Without headers, this line break is also the start of the empty line.
        let from = at + padding;
        let head = &body[from..body.len().min(from + FORM_HEAD_BYTES)];
        let length = memchr::memmem::find(head, b"\r\n\r\n").ok_or("the headers of a part do not end, or are too long")?;
        let head = read_head(&body[from..from + length])?;
        let content = from + length + 4;
        let end = content + finder.find(&body[content..]).ok_or("the form ends before its last boundary")?;
        rows.push(json!([head.name, head.filename, head.content_type.unwrap_or("text/plain"), content, end]));
        at = end + delimiter.len();
    }
}

struct Head<'a> {
    name: String,
    filename: Option<String>,
    content_type: Option<&'a str>,
}

fn read_head(head: &[u8]) -> Result<Head<'_>, String> {
    let text = std::str::from_utf8(head).map_err(|_| "the headers of a part are not UTF-8")?;
    let (mut name, mut filename, mut content_type) = (None, None, None);
    for line in text.split("\r\n").filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once(':').ok_or("a header of a part has no colon")?;
        if key.eq_ignore_ascii_case("content-disposition") {
            let mut rest = value.trim().strip_prefix("form-data").ok_or("a part is not `form-data`")?;
            while let Some((key, value, next)) = parameter(rest)? {
                match key {
                    "name" => name = Some(value),
                    "filename" => filename = Some(value),
                    _ => {}
                }
                rest = next;
            }
        } else if key.eq_ignore_ascii_case("content-type") {
            content_type = Some(value.trim());
        }
    }
    Ok(Head { name: name.ok_or("a part has no name")?, filename, content_type })
}

/// Returns the first parameter of a header value, and the rest of the value.
fn parameter(text: &str) -> Result<Option<(&str, String, &str)>, String> {
    let Some(text) = text.trim_start().strip_prefix(';') else { return Ok(None) };
    let (key, value) = text.split_once('=').ok_or("a parameter of a part has no value")?;
    let (value, rest) = match value.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or("a parameter of a part has no closing quote")?,
        None => value.split_at(value.find(';').unwrap_or(value.len())),
    };
    Ok(Some((key.trim(), unescape(value), rest)))
}

/// Undoes the three escapes of the standard. A backslash stays, because browsers send it as it is.
fn unescape(text: &str) -> String {
    text.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(body: &str) -> Result<Value, String> {
        parts(body.as_bytes(), "b").map(Value::from)
    }

    #[test]
    fn parts_have_their_names_types_and_places() {
        let body = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b \r\ncontent-type: image/png\r\nContent-disposition: form-data; \
                    filename=\"x%22.png\"; name=c\r\n\r\n\r\n--b--\r\n";
        let found = rows(body).unwrap();
        assert_eq!(found[0], json!(["a", null, "text/plain", 49, 50]));
        assert_eq!(&body[49..50], "1");
        assert_eq!((&found[1][0], &found[1][1], &found[1][2]), (&json!("c"), &json!("x\".png"), &json!("image/png")));
        assert_eq!(found[1][3], found[1][4]);
    }

    #[test]
    fn preamble_and_epilogue_are_ignored_and_a_form_can_be_empty() {
        assert_eq!(rows("--b--").unwrap(), json!([]));
        let one = rows("before\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--after").unwrap();
        assert_eq!(one.as_array().unwrap().len(), 1);
    }

    #[test]
    fn bodies_that_are_no_form_are_refused_with_a_reason() {
        for (body, reason) in [
            ("", "does not contain"),
            ("--c--", "does not contain"),
            ("--b", "not at the end of its line"),
            ("--bb\r\n", "not at the end of its line"),
            ("--b\r\n\r\n1\r\n--b--", "no name"),
            ("--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", "no name"),
            ("--b\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--b--", "not `form-data`"),
            ("--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--b--", "closing quote"),
            ("--b\r\nno header\r\n\r\n1\r\n--b--", "no colon"),
            ("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1", "before its last boundary"),
            ("--b\r\nContent-Disposition: form-data; name=a", "do not end"),
        ] {
            let error = rows(body).unwrap_err();
            assert!(error.contains(reason), "{body:?}: {error}");
        }
        assert!(parts(b"----", "").unwrap_err().contains("1 to 70"));
    }

    #[test]
    fn number_of_parts_and_length_of_headers_are_bounded() {
        let part = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n";
        let form = |count| format!("{}--b--", part.repeat(count));
        assert_eq!(rows(&form(FORM_PARTS)).unwrap().as_array().unwrap().len(), FORM_PARTS);
        assert!(rows(&form(FORM_PARTS + 1)).unwrap_err().contains("at most"));
        let long = format!("--b\r\nx: {}\r\n\r\n\r\n--b--", "y".repeat(FORM_HEAD_BYTES));
        assert!(rows(&long).unwrap_err().contains("too long"));
    }
}
