//! Kinds of fields: input element, and conversion to and from JSON.

use serde_json::{Value, value::RawValue};
use tollhouse_base::invisible_chars::marked;

use super::raw::{number, raw, string};
use crate::parts::{sample, schema::has_any};

/// Maximum number of choices, and maximum bytes of each.
const CHOICES: usize = 50;
const CHOICE_BYTES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldKind {
    Text(TextKind),
    Number {
        /// Whether only integers are accepted.
        whole: bool,
    },
    Flag,
    /// One of these values, each as JSON with visible characters.
    Choice(Vec<String>),
    /// A list, with one entry per line.
    Lines(ListItem),
    /// Anything else, as JSON.
    Json,
}

/// The input element of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Several lines.
    Long,
    /// A single line.
    Short,
    Email,
    Url,
    Date,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListItem {
    Text,
    Number,
    Flag,
}

/// Keywords that a simple field cannot represent.
const FURTHER: &str = "$ref $dynamicRef allOf anyOf oneOf not if contains prefixItems patternProperties dependentSchemas unevaluatedItems";

/// Maximum length of a single-line text, in characters.
const SHORT: u64 = 200;

impl FieldKind {
    /// Returns the kind for a schema that is not an object with properties. `items` is the schema
    /// of list entries.
    pub(super) fn from_schema(schema: &Value, items: &Value) -> Self {
        if has_any(schema, FURTHER) {
            return Self::Json;
        }
        if let Some(choices) = choices(schema) {
            return choices;
        }
        match (type_of(schema), schema["format"].as_str()) {
            (Some("string"), Some("email")) => Self::Text(TextKind::Email),
            (Some("string"), Some("uri" | "url")) => Self::Text(TextKind::Url),
            (Some("string"), Some("date")) => Self::Text(TextKind::Date),
            (Some("string"), _) if schema["maxLength"].as_u64().is_some_and(|max| max <= SHORT) => Self::Text(TextKind::Short),
            (Some("string"), _) => Self::Text(TextKind::Long),
            (Some("number"), _) => Self::Number { whole: false },
            (Some("integer"), _) => Self::Number { whole: true },
            (Some("boolean"), _) => Self::Flag,
            (Some("array"), _) if !has_any(items, FURTHER) => match type_of(items) {
                Some("string") => Self::Lines(ListItem::Text),
                Some("number" | "integer") => Self::Lines(ListItem::Number),
                Some("boolean") => Self::Lines(ListItem::Flag),
                _ => Self::Json,
            },
            _ => Self::Json,
        }
    }

    /// Converts typed text to JSON. Returns `None` if nothing was typed.
    ///
    /// # Errors
    ///
    /// A description of the problem.
    pub(super) fn json(&self, typed: &str) -> Result<Option<Box<RawValue>>, String> {
        let is_empty = match self {
            Self::Text(TextKind::Long | TextKind::Short) => typed.is_empty(),
            _ => typed.trim().is_empty(),
        };
        if is_empty {
            return Ok(None);
        }
        let text = match self {
            Self::Text(TextKind::Long | TextKind::Short) => quoted(typed),
            Self::Text(_) => quoted(typed.trim()),
            Self::Number { whole } => {
                let number = number(typed).filter(|number| !whole || !number.contains('.'));
                number.ok_or(if *whole { "this is not a whole number" } else { "this is not a number" })?
            }
            Self::Flag => Some(typed.to_owned()).filter(|typed| is_flag(typed)).ok_or("this is neither `true` nor `false`")?,
            Self::Choice(values) => Some(typed.to_owned()).filter(|typed| values.contains(typed)).ok_or("this is not one of the values")?,
            Self::Lines(item) => {
                let lines = typed.lines().filter(|line| !line.trim().is_empty());
                let items: Result<Vec<_>, _> = lines.map(|line| item.json(line)).collect();
                format!("[{}]", items?.join(","))
            }
            Self::Json => typed.trim().to_owned(),
        };
        raw(&text).map(Some).map_err(|error| format!("this is not valid JSON: {error}"))
    }

    /// Converts JSON to typed text. Returns `None` if this field cannot hold it unchanged.
    pub(super) fn typed(&self, json: &RawValue) -> Option<String> {
        let typed = match self {
            Self::Text(TextKind::Long) => string(json).filter(|text| is_seen(text)),
            Self::Text(TextKind::Short) => string(json).filter(|text| is_seen(text) && !text.contains('\n')),
            Self::Text(TextKind::Date) => string(json).filter(|text| is_date(text)),
            Self::Text(TextKind::Email | TextKind::Url) => string(json).filter(|text| is_seen(text) && !text.contains(char::is_whitespace)),
            Self::Number { whole } => {
                // Browsers discard numbers beyond these.
                let is_held = |number: &String| number.parse::<f64>().is_ok_and(f64::is_finite) && !(*whole && number.contains('.'));
                number(json.get()).filter(is_held)
            }
            Self::Flag => Some(json.get().to_owned()).filter(|text| is_flag(text)),
            Self::Choice(values) => {
                let same = |value: &&String| {
                    *value == json.get() || raw(value).is_ok_and(|value| string(&value).is_some() && string(&value) == string(json))
                };
                values.iter().find(same).cloned()
            }
            Self::Lines(item) => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(json.get()).ok()?;
                let lines: Option<Vec<_>> = items.iter().map(|value| item.typed(value)).collect();
                lines.map(|lines| lines.join("\n"))
            }
            Self::Json => Some(sample::visible(json.get()).replace('\r', "")),
        };
        // An empty field is left out.
        typed.filter(|typed| !typed.is_empty())
    }
}

impl ListItem {
    fn json(self, line: &str) -> Result<String, String> {
        match self {
            Self::Text => Ok(quoted(line)),
            Self::Number => number(line).ok_or_else(|| format!("`{}` is not a number", line.chars().take(40).collect::<String>())),
            Self::Flag if is_flag(line.trim()) => Ok(line.trim().to_owned()),
            Self::Flag => Err("each line must be `true` or `false`".to_owned()),
        }
    }

    fn typed(self, json: &RawValue) -> Option<String> {
        match self {
            Self::Text => string(json).filter(|text| is_seen(text) && !text.contains('\n') && !text.trim().is_empty()),
            Self::Number => number(json.get()),
            Self::Flag => Some(json.get().to_owned()).filter(|text| is_flag(text)),
        }
    }
}

/// Returns the values of `enum` or `const`, if they are few, short and scalar.
fn choices(schema: &Value) -> Option<FieldKind> {
    let fixed = schema.get("const").map(std::slice::from_ref);
    let values = fixed.or_else(|| schema["enum"].as_array().map(Vec::as_slice))?;
    let is_part = |value: &Value| value.is_object() || value.is_array();
    if values.is_empty() || values.len() > CHOICES || values.iter().any(is_part) {
        return Some(FieldKind::Json);
    }
    let texts: Vec<_> = values.iter().map(sample::json).collect();
    Some(if texts.iter().all(|text| text.len() <= CHOICE_BYTES) { FieldKind::Choice(texts) } else { FieldKind::Json })
}

/// Returns the only type of a schema besides null.
pub(super) fn type_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(types) => {
            let mut named = types.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            named.next().filter(|_| named.next().is_none())
        }
        kind => kind.as_str(),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn is_flag(text: &str) -> bool {
    matches!(text, "true" | "false")
}

/// Returns whether a field displays and returns a text unchanged.
fn is_seen(text: &str) -> bool {
    !text.contains('\r') && !marked(text).any(|(_, unseen)| unseen)
}

/// Returns whether browsers accept it as a date.
fn is_date(text: &str) -> bool {
    text.is_ascii() && text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok_and(|date| date.year() > 0 && date.to_string() == text)
}

#[cfg(test)]
mod tests;
