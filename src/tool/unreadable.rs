//! Explains why a result is valid JSON only for JavaScript.

/// The construct that other JSON readers reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A lone surrogate such as `"\ud83d"`, which only JavaScript strings can contain.
    #[error("a text in it has half of a surrogate pair, so it is no Unicode; `toWellFormed()` of a text mends it")]
    Surrogate,
    /// A number such as `1e999`, which readers change in different ways.
    #[error("a number in it is larger than 1.8e308, which is the most that readers of JSON hold")]
    Number,
    /// It claims to be JSON but is not.
    #[error("it says that it is JSON, and is not")]
    NotJson,
}

impl Unreadable {
    /// Returns why `json` could not be parsed. Call it after parsing failed.
    #[must_use]
    pub fn why(json: &[u8]) -> Self {
        // Skipping a value checks its syntax without interpreting it.
        match serde_json::from_slice::<serde::de::IgnoredAny>(json) {
            Ok(_) if has_half_a_pair(json) => Self::Surrogate,
            Ok(_) => Self::Number,
            Err(_) => Self::NotJson,
        }
    }
}

/// Explains why a text from a client is not JSON, and where, given the parser's `error`.
#[must_use]
pub fn not_json(text: &[u8], error: &serde_json::Error) -> String {
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] = text {
        return "it is UTF-16 or UTF-32, and JSON is sent as UTF-8 (RFC 8259, 8.1)".to_owned();
    }
    let place = format!("at line {} column {}", error.line(), error.column());
    match Unreadable::why(text) {
        Unreadable::Surrogate => format!("a text has half of a surrogate pair, such as `\\ud83d` alone, which is not Unicode, {place}"),
        Unreadable::Number => format!("a number is larger than 1.8e308 {place}"),
        Unreadable::NotJson => error.to_string(),
    }
}

/// Returns whether JSON contains an escaped lone surrogate.
fn has_half_a_pair(json: &[u8]) -> bool {
    let (mut at, mut high) = (0, false);
    while at < json.len() {
        let unit = match &json[at..] {
            [b'\\', b'u', digits @ ..] => {
                at += 6;
                digits.get(..4).and_then(|digits| u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok())
            }
            [b'\\', ..] => {
                at += 2;
                None
            }
            _ => {
                at += 1;
                None
            }
        };
        match unit {
            Some(0xdc00..=0xdfff) if high => high = false,
            Some(0xdc00..=0xdfff) => return true,
            _ if high => return true,
            Some(0xd800..=0xdbff) => high = true,
            _ => {}
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_others_do_not_read_is_told_by_its_kind() {
        for (json, why) in [
            (r#"{"a":"\ud83d"}"#, Unreadable::Surrogate),
            (r#"{"a":"\ude00"}"#, Unreadable::Surrogate),
            (r#"["\ud83dx\ude00"]"#, Unreadable::Surrogate),
            (r#"["\ud83d\ud83d\ude00"]"#, Unreadable::Surrogate),
            (r#"{"\ud83d":1}"#, Unreadable::Surrogate),
            (r#"{"a":1e999}"#, Unreadable::Number),
            (r#"["\ud83d\ude00\\ud83d",-1e999]"#, Unreadable::Number),
            ("{oops", Unreadable::NotJson),
            ("", Unreadable::NotJson),
        ] {
            assert!(serde_json::from_str::<Value>(json).is_err(), "{json}");
            assert_eq!(Unreadable::why(json.as_bytes()), why, "{json}");
        }
    }

    #[test]
    fn a_refusal_names_what_is_wrong_and_where() {
        for (text, word) in [
            (&br#"{"t":"\ud83d"}"#[..], "surrogate"),
            (br#"{"\udc00":1}"#, "surrogate"),
            (br#"{"a": 1e999}"#, "1.8e308"),
            (b"\xff\xfe{\0}\0", "UTF-16"),
            (b"{\0}\0", "UTF-16"),
            (b"{oops", "line 1 column"),
        ] {
            let error = serde_json::from_slice::<Value>(text).unwrap_err();
            let why = not_json(text, &error);
            assert!(why.contains(word), "{why}");
        }
    }
}
