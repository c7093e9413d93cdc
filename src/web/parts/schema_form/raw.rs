//! JSON as text, so that numbers keep their digits on the way through a form.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Maximum indentation depth.
const DEPTH: usize = 12;
/// Maximum size of JSON that is formatted on several lines, in bytes.
const SPREAD_BYTES: usize = 16 << 10;

/// The fields of an object, each as JSON text.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// Parses the fields of an object.
pub(super) fn members(text: &str) -> Option<Members> {
    serde_json::from_str(text).ok()
}

pub(super) fn raw(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::from_str(text)
}

/// Returns the text of a JSON string.
pub(super) fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Builds an object from its fields.
pub(super) fn object(members: &Members) -> Box<RawValue> {
    serde_json::value::to_raw_value(members).expect("keys are strings")
}

/// Removes white space between the tokens of JSON. Returns `None` if it is not valid JSON.
pub(crate) fn minified(text: &str) -> Option<String> {
    raw(text).ok()?;
    let (mut quoted, mut escaped) = (false, false);
    let stored = text.chars().filter(|char| {
        let keep = quoted || !matches!(char, ' ' | '\t' | '\n' | '\r');
        quoted ^= *char == '"' && !escaped;
        escaped = *char == '\\' && !escaped;
        keep
    });
    Some(stored.collect())
}

/// Formats minified JSON on several lines. Beyond the maximum depth there is no further
/// indentation. Very long JSON stays on one line.
pub(crate) fn spread(minified: &str) -> String {
    if minified.len() > SPREAD_BYTES {
        return minified.to_owned();
    }
    let (mut spread, mut depth, mut quoted, mut escaped) = (String::with_capacity(minified.len() * 2), 0_usize, false, false);
    let mut before = ' ';
    let line = |spread: &mut String, depth: usize| {
        spread.push('\n');
        spread.extend(std::iter::repeat_n("  ", depth.min(DEPTH)));
    };
    for char in minified.chars() {
        let outside = !quoted;
        quoted ^= char == '"' && !escaped;
        escaped = char == '\\' && !escaped && !outside;
        let closes = outside && matches!(char, '}' | ']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        let is_empty = closes && matches!(before, '{' | '[');
        if outside && (closes && !is_empty || !closes && matches!(before, '{' | '[' | ',')) {
            line(&mut spread, depth);
        }
        spread.push(char);
        // Brackets within strings do not count.
        before = if outside { char } else { '"' };
        match char {
            '{' | '[' if outside => depth += 1,
            ':' if outside => spread.push(' '),
            _ => {}
        }
    }
    spread
}

/// Converts a number that browsers accept to JSON, for example `.5` or `007`.
pub(super) fn number(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    rest.strip_prefix('.').unwrap_or(rest).starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    let whole = match rest[..end].trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let number = format!("{sign}{whole}{}", &rest[end..]);
    raw(&number).ok().map(|_| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minified_json_is_equivalent() {
        let text = "{\r\n  \"a b\" : [ 1.50, \"x \\\" y\\\\\" ,12345678901234567890 ],\t\"c\": null }";
        assert_eq!(minified(text).unwrap(), r#"{"a b":[1.50,"x \" y\\",12345678901234567890],"c":null}"#);
        for none in ["", "{", "{}{}", "nul", "{a:1}", "1 2"] {
            assert_eq!(minified(none), None, "{none}");
        }
    }

    #[test]
    fn spread_json_is_equivalent() {
        let text = r#"{"a":[1.50,{"b":"x,{y\\\"}"}],"c":{},"d":[]}"#;
        let spread = spread(text);
        assert_eq!(spread, "{\n  \"a\": [\n    1.50,\n    {\n      \"b\": \"x,{y\\\\\\\"}\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
        assert_eq!(minified(&spread).as_deref(), Some(text));
        let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
        assert!(super::spread(&deep).len() < 30 * deep.len());
        assert_eq!(super::spread("1"), "1");
    }

    #[test]
    fn number_keeps_its_digits() {
        for (typed, json) in [
            ("12345678901234567890.10", "12345678901234567890.10"),
            (" -0.50 ", "-0.50"),
            (".5", "0.5"),
            ("-.5e3", "-0.5e3"),
            ("007", "7"),
            ("0", "0"),
            ("1e400", "1e400"),
        ] {
            assert_eq!(number(typed).as_deref(), Some(json), "{typed}");
        }
        for none in ["", "-", ".", "e5", "+1", "1.", "1,5", "0x10", "NaN", "1 2", "--1", "١"] {
            assert_eq!(number(none), None, "{none}");
        }
    }
}
