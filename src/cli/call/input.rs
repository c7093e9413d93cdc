//! Reads the input of a call.

use std::{
    fs::File,
    io::{self, Read},
};

use crate::base::{Error, Result, without_mark};

/// Maximum size of the input, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the input from `@FILE`, from `-`, or as the text itself. It is sent unchanged.
///
/// # Errors
///
/// It cannot be read or is not JSON.
pub(super) fn read(message: &str) -> Result<String> {
    let (text, from) = match message.strip_prefix('@') {
        Some(path) => {
            let unread = |error: io::Error| Error::usage(format!("`{path}` cannot be read: {error}"));
            (bounded(File::open(path).map_err(unread)?).map_err(unread)?, format!("`{path}`"))
        }
        None if message == "-" => (bounded(io::stdin().lock())?, "standard input".to_owned()),
        None => (message.to_owned(), "the input".to_owned()),
    };
    let text = without_mark(text);
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            Err(Error::usage(format!("{from} is not JSON: {error}")).hint("use --json '{\"name\": \"value\"}', --json @FILE, or --json -"))
        }
    }
}

fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_json_from_every_source() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in.json");
        std::fs::write(&file, " {\"n\": 1.50}\n").unwrap();
        assert_eq!(read(&format!("@{}", file.display())).unwrap(), " {\"n\": 1.50}\n");
        std::fs::write(&file, "\u{feff}{\"n\": 1}").unwrap();
        assert_eq!(read(&format!("@{}", file.display())).unwrap(), "{\"n\": 1}");
        assert_eq!(read("[1]").unwrap(), "[1]");
        for none in ["", "{", "{} {}", "@/nowhere", &format!("@{}", folder.path().display()), "text"] {
            assert_eq!(read(none).unwrap_err().status(), 2, "{none}");
        }
    }
}
