//! Fills a form with an input.

use serde_json::{Map, Value, value::RawValue};

use super::{
    draft::FormDraft,
    kind::type_of,
    layout::{Form, FormItem, Group},
    raw::{Members, members, object},
};
use crate::parts::{sample, schema::type_words};

/// Maximum size of an initial input, in bytes.
const MAX_BYTES: usize = 4 << 10;
/// Maximum depth and fields that are searched for initial values.
const DEPTH: usize = 3;
const MEMBERS: usize = 100;

impl Form<'_> {
    /// Returns the draft of an input, or `None` if it is not an object. A value that its field
    /// cannot hold goes to the JSON field.
    pub(crate) fn draft(&self, input: &str) -> Option<FormDraft> {
        let mut draft = FormDraft::default();
        let others = draft.group(&self.root, members(input)?);
        if !others.is_empty() {
            draft.0.insert(String::new(), sample::visible(object(&others).get()));
        }
        Some(draft)
    }
}

impl FormDraft {
    /// Takes the values that fields can hold, and returns the rest.
    fn group(&mut self, group: &Group<'_>, mut members: Members) -> Members {
        for item in &group.items {
            match item {
                FormItem::Field(field) => {
                    if let Some(typed) = members.get(field.name).and_then(|json| field.kind.typed(json)) {
                        members.remove(field.name);
                        self.0.insert(field.pointer.clone(), typed);
                    }
                }
                FormItem::Group(inner) => {
                    let Some(json) = members.remove(inner.name) else { continue };
                    if let Some(remaining) = self.inner(inner, &json) {
                        members.insert(inner.name.to_owned(), remaining);
                    }
                }
            }
        }
        members
    }

    /// Returns what remains of an object after its fields were filled.
    fn inner(&mut self, group: &Group<'_>, json: &RawValue) -> Option<Box<RawValue>> {
        let Some(inner) = members(json.get()) else { return Some(json.to_owned()) };
        let before = self.0.len();
        let remaining = self.group(group, inner);
        let is_told = self.0.len() > before || group.required;
        (!remaining.is_empty() || !is_told).then(|| object(&remaining))
    }
}

/// Returns the initial input of a schema as JSON: its first example, its default, or those of its
/// fields.
pub(crate) fn initial(schema: &Value) -> String {
    let whole = schema["examples"].get(0).or_else(|| schema.get("default")).filter(|given| given.is_object());
    let given = whole.cloned().unwrap_or_else(|| Value::Object(given(schema, schema, DEPTH)));
    let text = given.to_string();
    if text.len() <= MAX_BYTES { text } else { "{}".to_owned() }
}

fn given(root: &Value, schema: &Value, depth: usize) -> Map<String, Value> {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.len() <= MEMBERS && names.iter().any(|one| one == name));
    let members = schema["properties"].as_object().into_iter().flatten().take(MEMBERS);
    let own = |(name, member): (&String, &Value)| {
        let member = type_words(root, member);
        let fixed = member.get("const").filter(|_| required(name));
        let given = member.get("default").or_else(|| member["examples"].get(0)).or(fixed);
        let value = given.cloned().or_else(|| {
            let is_object = depth > 0 && type_of(member).is_none_or(|kind| kind == "object");
            let inner = if is_object { self::given(root, member, depth - 1) } else { Map::new() };
            (!inner.is_empty()).then_some(Value::Object(inner))
        });
        Some((name.clone(), value?))
    };
    members.filter_map(own).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_survives_its_form_unchanged() {
        let schema = json!({
            "required": ["must"],
            "properties": {
                "text": { "type": "string" }, "short": { "type": "string", "maxLength": 9 }, "url": { "type": "string", "format": "uri" },
                "n": { "type": "integer" }, "yes": { "type": "boolean" }, "mode": { "enum": ["a", 1] },
                "tags": { "type": "array", "items": { "type": "string" } }, "any": {},
                "o": { "properties": { "p": { "properties": { "q": { "type": "number" } } }, "r": { "type": "string" } } },
                "must": { "properties": { "s": { "type": "string" } } },
            },
        });
        let form = Form::from_schema(&schema).unwrap();
        for (input, others) in [
            (r#"{"must":{}}"#, ""),
            (
                r#"{"any":[1.0],"mode":"a","must":{"s":"x"},"n":12345678901234567890,"o":{"p":{"q":1.50},"r":"\n"},"short":"s","tags":["a","b"],"text":" t\n","url":"https://a.test","yes":false}"#,
                "",
            ),
            (
                r#"{"mode":2,"must":{},"n":1.5,"short":"a\nb","tags":[],"text":"","yes":null}"#,
                r#"{"mode":2,"n":1.5,"short":"a\nb","tags":[],"text":"","yes":null}"#,
            ),
            (r#"{"must":{"t":1},"o":{},"x":[]}"#, r#"{"must":{"t":1},"o":{},"x":[]}"#),
            (r#"{"must":1,"o":{"p":{"q":1,"z":2},"r":null}}"#, r#"{"must":1,"o":{"p":{"z":2},"r":null}}"#),
            (r#"{"must":{},"text":"\u202e"}"#, r#"{"text":"\u202e"}"#),
        ] {
            let draft = form.draft(input).unwrap();
            assert_eq!(draft.get(""), others, "{input}");
            let typed = form.typed(&draft);
            assert_eq!((typed.wrong, typed.missing), (vec![], vec![]), "{input}");
            assert_eq!(typed.json, input);
        }
        for none in ["[]", "1", "{", ""] {
            assert_eq!(form.draft(none), None);
        }
    }

    #[test]
    fn form_starts_with_examples_and_defaults() {
        let members = json!({
            "properties": {
                "a": { "default": 1 }, "b": { "examples": ["x", "y"] }, "c": { "type": "string" }, "d": { "const": "k" }, "e": { "const": "l" },
                "f": { "properties": { "g": { "default": false } } }, "h": { "$ref": "#" },
            },
            "required": ["d"],
        });
        let initial = |schema: &Value| serde_json::from_str::<Value>(&super::initial(schema)).unwrap();
        assert_eq!(initial(&members)["a"], 1);
        assert_eq!((&initial(&members)["b"], &initial(&members)["d"]), (&json!("x"), &json!("k")));
        assert_eq!((&initial(&members)["f"], initial(&members).get("e")), (&json!({ "g": false }), None));
        assert_eq!(initial(&json!({ "examples": [{ "a": 1 }], "properties": { "a": { "default": 2 } } })), json!({ "a": 1 }));
        for none in [json!(true), json!({}), json!({ "examples": ["x"] }), json!({ "default": { "a": "x".repeat(MAX_BYTES) } })] {
            assert_eq!(initial(&none), json!({}), "{none}");
        }
    }
}
