//! A JSON Schema as a table: name, type, whether it is required, constraints, and description of
//! each field.

use maud::{Markup, html};
use serde_json::Value;

use super::text;

/// Maximum depth of nested fields.
const DEPTH: usize = 3;
/// Maximum rows of a table.
const ROWS: usize = 60;
/// Maximum shown values of an `enum`.
const VALUES: usize = 24;
/// Maximum characters of a description, and of a value.
const CHARS: usize = 400;
const VALUE_CHARS: usize = 80;
/// Approximate maximum size of a table, in bytes. A definition is repeated wherever it is
/// referenced.
const MAX_BYTES: usize = 20 << 10;
/// Approximate size of a row, and of a constraint, without their texts.
const ROW_BYTES: usize = 160;
const BOUND_BYTES: usize = 40;

/// Keywords that a table does not show.
const UNSHOWN: &str = "allOf anyOf oneOf not if dependentRequired dependentSchemas patternProperties propertyNames contains prefixItems \
    unevaluatedProperties";

struct Row {
    name: String,
    kind: String,
    required: bool,
    bounds: MemberBounds,
    words: String,
}

/// The constraints of a field.
#[derive(Debug, Default)]
pub(super) struct MemberBounds(Vec<BoundText>);

/// A constraint in the host's words, or a value from the schema.
#[derive(Debug)]
enum BoundText {
    Said(String),
    Value(&'static str, String),
}

impl Row {
    /// Returns the approximate size of its markup.
    fn bytes(&self) -> usize {
        ROW_BYTES + [&self.name, &self.kind, &self.words].map(|words| text::shown_bytes(words)).iter().sum::<usize>() + self.bounds.bytes()
    }
}

impl MemberBounds {
    pub(super) fn from_schema(schema: &Value) -> Self {
        Self(bounds(schema))
    }

    /// Returns the approximate size of their markup.
    pub(super) fn bytes(&self) -> usize {
        let of_bound = |bound: &BoundText| {
            let (BoundText::Said(words) | BoundText::Value(_, words)) = bound;
            BOUND_BYTES + text::shown_bytes(words)
        };
        self.0.iter().map(of_bound).sum()
    }

    pub(super) fn render(&self) -> Markup {
        html! {
            @if !self.0.is_empty() {
                p.bounds {
                    @for bound in &self.0 {
                        @match bound {
                            BoundText::Said(words) => span { (words) },
                            BoundText::Value(name, value) => span { (name) " " code { (text::first(value, VALUE_CHARS)) } },
                        }
                    }
                }
            }
        }
    }
}

/// State while a schema is read.
struct Reading<'a> {
    root: &'a Value,
    rows: Vec<Row>,
    /// Remaining bytes for rows.
    remaining: usize,
    /// Number of fields beyond the last row.
    more: usize,
    /// Whether there are constraints that no row shows.
    unshown: bool,
}

/// Shows a schema as a table. `must` is the word for required fields, and `whole` the address of
/// the full schema.
pub(crate) fn table(name: &str, must: &str, schema: &Value, whole: &str) -> Markup {
    let mut reading = Reading { root: schema, rows: vec![], remaining: MAX_BYTES, more: 0, unshown: false };
    reading.members(schema, "", DEPTH);
    let Reading { rows, more, unshown: unreported, .. } = reading;
    let is_open = schema["additionalProperties"] != false;
    html! {
        @if rows.is_empty() {
            p.muted { @if is_open { "Any JSON object." } @else { "An empty object." } }
        } @else {
            div.scroll role="group" aria-label=(name) tabindex="0" {
                table.schema {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Type" } th scope="col" { "Limits and meaning" } } }
                    tbody { @for row in &rows { (render_row(row, must)) } }
                }
            }
            p.note {
                @if is_open { "Other fields are allowed. " } @else { "No other fields. " }
                @if more > 0 { (more) " more are not shown here. " }
                @if unreported { "The schema has more rules. " }
                @if more > 0 || unreported { a href=(whole) { "See the complete schema as JSON" } }
            }
        }
    }
}

/// Returns whether a schema has one of these keywords, which are separated by spaces.
pub(super) fn has_any(schema: &Value, keywords: &str) -> bool {
    keywords.split(' ').any(|word| schema.get(word).is_some())
}

/// Returns the schema itself, or the one in the same document that it references.
pub(super) fn type_words<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?));
    // Only one step, so that a cycle of references ends.
    target.unwrap_or(schema)
}

fn render_row(row: &Row, must: &str) -> Markup {
    html! {
        tr {
            th scope="row" { code { (text::words(&row.name)) } @if row.required { " " span.must { (must) } } }
            td.kind { (text::words(&row.kind)) }
            td {
                @if !row.words.is_empty() { p { (text::line(&row.words)) } }
                (row.bounds.render())
            }
        }
    }
}

impl<'a> Reading<'a> {
    fn type_of(&self, schema: &'a Value) -> &'a Value {
        type_words(self.root, schema)
    }

    fn members(&mut self, schema: &'a Value, prefix: &str, depth: usize) {
        self.unshown |= has_any(schema, UNSHOWN);
        let required = |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if self.rows.len() == ROWS || self.remaining == 0 {
                self.more += 1;
                continue;
            }
            let member = self.type_of(member);
            let name = format!("{prefix}{}", name.chars().take(CHARS).collect::<String>());
            self.unshown |= has_any(member, UNSHOWN);
            let row = Row {
                kind: kind(member, self.type_of(&member["items"])),
                required: required(name.strip_prefix(prefix).unwrap_or(&name)),
                bounds: MemberBounds::from_schema(member),
                words: member["description"].as_str().unwrap_or_default().chars().take(CHARS).collect(),
                name: name.clone(),
            };
            self.remaining = self.remaining.saturating_sub(row.bytes());
            self.rows.push(row);
            let items = self.type_of(&member["items"]);
            match depth {
                0 => self.unshown |= member.get("properties").is_some() || items.get("properties").is_some(),
                _ if member.get("properties").is_some() => self.members(member, &format!("{name}."), depth - 1),
                _ if items.get("properties").is_some() => self.members(items, &format!("{name}[]."), depth - 1),
                _ => {}
            }
        }
    }
}

fn kind(schema: &Value, items: &Value) -> String {
    let named = |schema: &Value| match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ if schema.get("enum").is_some() => "one of".to_owned(),
        _ if schema.get("properties").is_some() => "object".to_owned(),
        _ => "any".to_owned(),
    };
    let kind = if schema["type"] == "array" { format!("list of {}", named(items)) } else { named(schema) };
    let format = schema["format"].as_str().map(|format| format!(", {format}")).unwrap_or_default();
    (kind + &format).chars().take(CHARS).collect()
}

fn bounds(schema: &Value) -> Vec<BoundText> {
    let mut bounds = Vec::new();
    for (least, max, unit) in
        [("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"), ("minProperties", "maxProperties", "fields")]
    {
        bounds.extend(range(&schema[least], &schema[max], unit));
    }
    bounds.extend(range(&schema["minimum"], &schema["maximum"], ""));
    for (word, message) in [("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than"), ("multipleOf", "a multiple of")] {
        bounds.extend(schema[word].as_f64().map(|number| BoundText::Said(format!("{message} {number}"))));
    }
    if let Some(values) = schema["enum"].as_array() {
        bounds.extend(values.iter().take(VALUES).map(|value| BoundText::Value("", bare(value))));
        if values.len() > VALUES {
            bounds.push(BoundText::Said(format!("and {} more", values.len() - VALUES)));
        }
    }
    for (word, name) in [("const", "always"), ("default", "default"), ("pattern", "matches")] {
        bounds.extend(schema.get(word).map(|value| BoundText::Value(name, bare(value))));
    }
    bounds
}

fn range(least: &Value, max: &Value, unit: &str) -> Option<BoundText> {
    let message = match (least.as_f64(), max.as_f64()) {
        (Some(least), Some(max)) => format!("{least} to {max} {unit}"),
        (Some(least), None) => format!("at least {least} {unit}"),
        (None, Some(max)) => format!("at most {max} {unit}"),
        (None, None) => return None,
    };
    Some(BoundText::Said(message.trim_end().to_owned()))
}

/// Returns a value without quotes, cut slightly above the shown length.
fn bare(value: &Value) -> String {
    let Some(text) = value.as_str() else { return written(value) };
    text.chars().take(VALUE_CHARS + 1).collect()
}

/// Returns the beginning of a value as JSON.
fn written(value: &Value) -> String {
    let mut beginning = vec![0; VALUE_CHARS * 4];
    let mut room = &mut beginning[..];
    // Writing fails when the buffer is full.
    let _ = serde_json::to_writer(&mut room, value);
    let remaining = room.len();
    beginning.truncate(VALUE_CHARS * 4 - remaining);
    String::from_utf8_lossy(&beginning).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_table_has_a_row_for_each_field() {
        let schema = json!({
            "type": "object", "required": ["url"], "additionalProperties": false,
            "$defs": { "item": { "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } } } },
            "properties": {
                "url": { "type": "string", "format": "uri", "maxLength": 2048, "description": "Of a `page`" },
                "items": { "type": "array", "items": { "$ref": "#/$defs/item" } },
                "mode": { "enum": ["a", 1], "default": "a" },
            },
        });
        let html = table("Input", "required", &schema, "/whole").into_string();
        for part in [
            "required",
            "at most 2048 characters",
            "string, uri",
            "<code>page</code>",
            "items[].n",
            "at least 1",
            "list of object",
            "default <code>",
            "No other fields.",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("/whole"));
    }

    #[test]
    fn table_of_any_schema_stays_short() {
        let odd = "\u{202e}a".repeat(200);
        let listed: Vec<_> = (0..24).map(|n| format!("{n}{odd}")).collect();
        let names = || (0..60).map(|n| (format!("m{n}"), json!({ "$ref": "#/$defs/x" }))).collect::<serde_json::Map<_, _>>();
        let long = json!({ "description": odd, "enum": listed, "const": odd, "default": vec![1; 28_000] });
        for x in [long, json!({ "enum": [1, 2, 3], "default": { "a": odd } }), json!({ "default": vec!["x".repeat(60_000)] })] {
            let table = table("Input", "required", &json!({ "$defs": { "x": x }, "properties": names() }), "/whole").into_string();
            assert!(table.len() < 2 * MAX_BYTES, "{} bytes", table.len());
        }
    }

    #[test]
    fn table_mentions_constraints_without_a_row() {
        let many = json!({ "properties": (0..100).map(|n| (format!("m{n}"), json!({}))).collect::<serde_json::Map<_, _>>() });
        assert!(table("Input", "required", &many, "/whole").into_string().contains("40 more are not shown here"));
        let choice = json!({ "properties": { "a": { "oneOf": [{}, {}] } } });
        assert!(table("Input", "required", &choice, "/whole").into_string().contains("/whole"));
        let mut deep = json!({ "type": "string" });
        for _ in 0..9 {
            deep = json!({ "properties": { "a": deep } });
        }
        assert!(table("Input", "required", &deep, "/whole").into_string().contains("/whole"));
        let ring = json!({ "properties": { "a": { "$ref": "#" } } });
        assert!(table("Input", "required", &ring, "/whole").into_string().contains("a.a.a"));
        assert!(table("Input", "required", &json!(true), "/whole").into_string().contains("Any JSON object"));
    }
}
