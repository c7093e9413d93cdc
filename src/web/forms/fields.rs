//! Conversion of form fields to a JSON body. A field's name contains its type and its place.
//!
//! ```text
//! text:/name          as it is                       lines:/tags       a list: one per line, trimmed, without empty ones
//! some:/reason        left out when empty            each:/parts       a list of all fields of the name; an empty one adds nothing
//! number:/priceUsd    left out when empty            json:/inputSchema JSON; left out when empty
//! flag:/paused        `true` or `false`; the last    number:/limits/wallMs   creates the objects above it
//! ```

use serde_json::{Map, Number, Value};
use tollhouse_front::{ApiError, Code};

/// Maximum depth of a pointer.
const MAX_DEPTH: usize = 4;

/// The fields of a form, in order. Line ends are normalized to `\n`.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn read(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).map(|(name, value)| (name.into_owned(), value.replace("\r\n", "\n"))).collect())
    }

    /// Returns the last value of a name. A checked box follows the hidden field for the unchecked
    /// one.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Builds the body from the fields. Fields without a type prefix are ignored.
pub(crate) fn body(fields: &Fields) -> Result<Value, ApiError> {
    let mut body = Value::Object(Map::new());
    for (name, text) in fields.all() {
        let Some((kind, pointer)) = name.split_once(":/") else { continue };
        let pointer = format!("/{pointer}");
        let Some(value) = value(kind, &pointer, text)? else { continue };
        place(&mut body, &pointer, value, kind == "each")?;
    }
    Ok(body)
}

/// Converts a field. Returns `None` if it is left out or not part of the body.
fn value(kind: &str, pointer: &str, text: &str) -> Result<Option<Value>, ApiError> {
    let wrong = |what: &str| ApiError::invalid(Code::InvalidRequest, format!("`{pointer}` {what}"), pointer);
    let trimmed = text.trim();
    Ok(match kind {
        "text" => Some(text.into()),
        "some" | "number" | "json" if trimmed.is_empty() => None,
        "some" => Some(text.into()),
        "number" => Some(Value::Number(trimmed.parse::<Number>().map_err(|_| wrong("must be a number"))?)),
        "flag" => Some(Value::Bool(trimmed.parse().map_err(|_| wrong("must be `true` or `false`"))?)),
        "lines" => Some(text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()),
        "each" => Some(Value::Array(if trimmed.is_empty() { vec![] } else { vec![text.into()] })),
        "json" => Some(serde_json::from_str(text).map_err(|error| wrong(&format!("is not valid JSON: {error}")))?),
        _ => None,
    })
}

/// Puts a value at its pointer. Creates missing objects, and appends to lists.
fn place(body: &mut Value, pointer: &str, value: Value, gathers: bool) -> Result<(), ApiError> {
    let wrong = || ApiError::bad_request(format!("the form has no field for `{pointer}`"));
    let names: Vec<_> = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    let (last, above) = names.split_last().filter(|_| names.len() <= MAX_DEPTH).ok_or_else(wrong)?;
    let mut at = body.as_object_mut().ok_or_else(wrong)?;
    for name in above {
        at = at.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut().ok_or_else(wrong)?;
    }
    match (at.get_mut(last), value) {
        (Some(Value::Array(list)), Value::Array(more)) if gathers => list.extend(more),
        (_, value) => _ = at.insert(last.clone(), value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_body(fields: &[(&str, &str)]) -> Result<Value, ApiError> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        super::body(&Fields::read(body.as_bytes()))
    }

    #[test]
    fn field_names_determine_the_json_body() {
        let body = json_body(&[
            ("csrf", "x"),
            ("path:slug", "y"),
            ("text:/title", " a "),
            ("text:/description", ""),
            ("some:/reason", " "),
            ("number:/priceUsd", " 0.003 "),
            ("number:/limits/wallMs", "5000"),
            ("number:/limits/cpuMs", ""),
            ("flag:/paused", "false"),
            ("flag:/paused", "true"),
            ("lines:/tags", " a \r\n\r\nb"),
            ("each:/parts", ""),
            ("each:/parts", "kv"),
            ("each:/parts", "files"),
            ("each:/none", ""),
            ("json:/inputSchema", "{\"a\":1}"),
            ("json:/outputSchema", ""),
            ("text:/a~1b", "c"),
        ]);
        let requested = json!({
            "title": " a ", "description": "", "priceUsd": 0.003, "limits": { "wallMs": 5000 }, "paused": true, "tags": ["a", "b"],
            "parts": ["kv", "files"], "none": [], "inputSchema": { "a": 1 }, "a/b": "c",
        });
        assert_eq!(body.unwrap(), requested);
        assert_eq!(json_body(&[("number:/priceUsd", "0.003")]).unwrap().to_string(), r#"{"priceUsd":0.003}"#, "digit by digit");
    }

    #[test]
    fn last_value_of_a_name_counts_and_line_ends_are_normalized() {
        let fields = Fields::read(b"a=1&a=2&b=x%0D%0Ay&c=%F0%9F%8D%8B+%2B");
        assert_eq!((fields.get("a"), fields.get("b"), fields.get("c"), fields.get("d")), (Some("2"), Some("x\ny"), Some("🍋 +"), None));
    }

    #[test]
    fn invalid_field_is_refused_with_its_pointer() {
        for (name, text) in [("number:/a", "1,5"), ("number:/a", "NaN"), ("flag:/a", "on"), ("json:/a", "{"), ("json:/a", "1 2")] {
            let error = json_body(&[(name, text)]).unwrap_err();
            assert!(error.message().starts_with("`/a`"), "{}", error.message());
        }
        for clash in [&[("text:/a", "1"), ("text:/a/b", "2")][..], &[("text:/1/2/3/4/5", "x")]] {
            assert!(json_body(clash).is_err(), "{clash:?}");
        }
    }
}
