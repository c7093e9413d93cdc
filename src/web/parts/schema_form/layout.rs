//! Layout of a form: one field for each property that a field can represent completely.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::{FieldKind, TextKind, type_of};
use crate::parts::{
    sample,
    schema::{MemberBounds, has_any, type_words},
    text,
};

/// Maximum depth of nested objects with their own fields.
const DEPTH: usize = 2;
const FIELDS: usize = 40;
/// Approximate maximum size of a form, in bytes. If a schema is larger, only its first properties
/// get fields.
const MAX_BYTES: usize = 24 << 10;
/// Approximate size of a field, and of a choice, without their texts.
const FIELD_BYTES: usize = 240;
const CHOICE_BYTES: usize = 40;
/// Maximum characters of a field's name, and of its description.
const NAME: usize = 100;
pub(super) const WORDS: usize = 200;

/// Keywords that make an object schema more than a list of properties.
const FURTHER: &str = "$ref $dynamicRef allOf anyOf oneOf not if patternProperties";

#[derive(Debug)]
pub(crate) struct Form<'a> {
    pub(super) root: Group<'a>,
    /// Number of properties without a field.
    pub(super) more: usize,
    /// Whether additional properties are allowed.
    pub(super) is_open: bool,
}

/// An object whose properties have fields.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    pub(super) pointer: String,
    /// Whether it is required within its parent object.
    pub(super) required: bool,
    pub(super) words: &'a str,
    pub(super) items: Vec<FormItem<'a>>,
}

#[derive(Debug)]
pub(super) enum FormItem<'a> {
    Field(Field<'a>),
    Group(Group<'a>),
}

#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) pointer: String,
    /// Whether it is required within its parent object.
    pub(super) required: bool,
    pub(super) kind: FieldKind,
    /// Number of its element in the markup.
    pub(super) id: usize,
    pub(super) words: &'a str,
    pub(super) bounds: MemberBounds,
    pub(super) limits: Limits,
    /// Whether the browser must require it, because none of its parents is optional.
    pub(super) must: bool,
    /// Initial value of a JSON field.
    pub(super) skeleton: Option<Value>,
}

/// Constraints for the browser.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Limits {
    pub(super) least: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) shortest: Option<u64>,
    pub(super) longest: Option<u64>,
}

struct Reading<'a> {
    root: &'a Value,
    fields: usize,
    remaining: usize,
    more: usize,
}

#[derive(Debug, Clone, Copy)]
struct ObjectPlace<'a> {
    pointer: &'a str,
    /// Remaining depth of nested objects with their own fields.
    depth: usize,
    /// Whether it is always present.
    must: bool,
}

impl<'a> Form<'a> {
    /// Returns the form of a schema, or `None` if no field can represent any of it.
    pub(crate) fn from_schema(schema: &'a Value) -> Option<Self> {
        let mut reading = Reading { root: schema, fields: 0, remaining: MAX_BYTES, more: 0 };
        let items = reading.items(schema, ObjectPlace { pointer: "", depth: DEPTH, must: true });
        let is_open = schema["additionalProperties"] != false;
        let root = Group { name: "", pointer: String::new(), required: true, words: "", items };
        (reading.fields > 0).then_some(Self { root, more: reading.more, is_open })
    }
}

impl<'a> Reading<'a> {
    /// Returns the fields of an object, required ones first.
    fn items(&mut self, schema: &'a Value, position: ObjectPlace<'_>) -> Vec<FormItem<'a>> {
        let required: BTreeSet<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let members = || schema["properties"].as_object().into_iter().flatten();
        let first = members().filter(|(name, _)| required.contains(name.as_str()));
        let then = members().filter(|(name, _)| !required.contains(name.as_str()));
        let mut items = Vec::new();
        for (name, member) in first.chain(then) {
            let is_shown = name.chars().nth(NAME).is_none() && !name.contains(['\n', '\r']) && text::plain(name) == name.as_str();
            if !is_shown || self.fields == FIELDS || self.remaining == 0 {
                self.more += 1;
                continue;
            }
            let member = type_words(self.root, member);
            let pointer = format!("{}/{}", position.pointer, name.replace('~', "~0").replace('/', "~1"));
            let required = required.contains(name.as_str());
            let words = member["description"].as_str().unwrap_or_default();
            self.remaining = self.remaining.saturating_sub(FIELD_BYTES + 2 * pointer.len() + text::shown_bytes(words).min(6 * WORDS));
            let must = position.must && required;
            let inner = match position.depth.checked_sub(1).filter(|_| is_object(member)) {
                Some(depth) => self.items(member, ObjectPlace { pointer: &pointer, depth, must }),
                None => vec![],
            };
            items.push(match inner.is_empty() {
                false => FormItem::Group(Group { name, pointer, required, words, items: inner }),
                true => FormItem::Field(Field { name, pointer, required, must, ..self.field(member) }),
            });
        }
        items
    }

    /// Returns the field of a property, without its name.
    fn field(&mut self, schema: &'a Value) -> Field<'a> {
        let kind = FieldKind::from_schema(schema, type_words(self.root, &schema["items"]));
        let skeleton = (kind == FieldKind::Json).then(|| sample::part(first(self.root, schema)));
        let (choices, bounds) = match &kind {
            FieldKind::Choice(values) => (values.as_slice(), MemberBounds::default()),
            _ => (&[][..], MemberBounds::from_schema(schema)),
        };
        let bytes = choices.iter().map(|value| CHOICE_BYTES + 2 * value.len()).sum::<usize>() + bounds.bytes();
        self.remaining = self.remaining.saturating_sub(bytes + skeleton.as_ref().map_or(0, |skeleton| skeleton.to_string().len()));
        self.fields += 1;
        let words = schema["description"].as_str().unwrap_or_default();
        let limits = Limits::from_schema(&kind, schema);
        Field { name: "", pointer: String::new(), required: false, must: false, kind, id: self.fields, words, bounds, limits, skeleton }
    }
}

impl Limits {
    fn from_schema(kind: &FieldKind, schema: &Value) -> Self {
        let number = |name: &str| schema[name].as_f64();
        match kind {
            // Browsers count integer steps from the minimum.
            FieldKind::Number { whole: true } => {
                let whole = |name: &str| number(name).filter(|bound| bound.fract() == 0.0);
                Self { least: whole("minimum"), max: whole("maximum"), ..Self::default() }
            }
            FieldKind::Number { whole: false } => Self { least: number("minimum"), max: number("maximum"), ..Self::default() },
            FieldKind::Text(TextKind::Date) => Self::default(),
            FieldKind::Text(_) => Self { shortest: schema["minLength"].as_u64(), longest: schema["maxLength"].as_u64(), ..Self::default() },
            FieldKind::Flag | FieldKind::Choice(_) | FieldKind::Lines(_) | FieldKind::Json => Self::default(),
        }
    }
}

/// Returns whether a schema only lists properties.
fn is_object(schema: &Value) -> bool {
    type_of(schema).is_none_or(|kind| kind == "object") && schema["properties"].is_object() && !has_any(schema, FURTHER)
}

/// Returns the first alternative of a schema, if it has any.
fn first<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let choice = ["oneOf", "anyOf", "allOf"].into_iter().find_map(|word| schema[word].get(0));
    choice.map_or(schema, |choice| type_words(root, choice))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the pointers of a form's fields in order.
    fn pointers(items: &[FormItem]) -> Vec<String> {
        let of = |item: &FormItem| match item {
            FormItem::Field(field) => vec![field.pointer.clone()],
            FormItem::Group(group) => pointers(&group.items),
        };
        items.iter().flat_map(of).collect()
    }

    fn of(schema: &Value) -> Vec<String> {
        Form::from_schema(schema).map(|form| pointers(&form.root.items)).unwrap_or_default()
    }

    #[test]
    fn required_fields_come_first() {
        let schema = json!({ "required": ["z"], "properties": { "a": {}, "z": {}, "a/b~": {} } });
        assert_eq!(of(&schema), ["/z", "/a", "/a~1b~0"]);
    }

    #[test]
    fn nested_objects_have_fields_to_depth_two() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..5 {
            schema = json!({ "type": "object", "properties": { "o": schema, "s": { "type": "string" } } });
        }
        assert_eq!(of(&schema), ["/o/o/o", "/o/o/s", "/o/s", "/s"]);
        let ring = json!({ "properties": { "a": { "$ref": "#" } } });
        assert_eq!(of(&ring), ["/a/a/a"], "a ring ends");
        let choice = json!({ "properties": { "a": { "properties": { "b": {} }, "oneOf": [{}, {}] }, "c": { "properties": {} } } });
        assert_eq!(of(&choice), ["/a", "/c"]);
    }

    #[test]
    fn json_field_starts_with_a_skeleton() {
        let schema = json!({
            "$defs": { "p": { "type": "object", "required": ["x"], "properties": { "x": { "type": "integer", "minimum": 3 } } } },
            "properties": { "a": { "oneOf": [{ "$ref": "#/$defs/p" }, { "type": "null" }] } },
        });
        let form = Form::from_schema(&schema).unwrap();
        let FormItem::Field(field) = &form.root.items[0] else { panic!("a choice is no group") };
        assert_eq!((&field.kind, &field.skeleton), (&FieldKind::Json, &Some(json!({ "x": 3 }))));
    }

    #[test]
    fn form_of_any_schema_stays_short() {
        let many = |member: Value, count: usize| {
            let members: serde_json::Map<_, _> = (0..count).map(|n| (format!("m{n}"), member.clone())).collect();
            json!({ "properties": members })
        };
        let form = |schema: &Value| Form::from_schema(schema).map(|form| (pointers(&form.root.items).len(), form.more)).unwrap();
        assert_eq!(form(&many(json!({}), 10_000)), (FIELDS, 10_000 - FIELDS));
        let (fields, more) = form(&many(json!({ "enum": (0..50).map(|n| format!("{n}{}", "x".repeat(150))).collect::<Vec<_>>() }), 30));
        assert!(fields < 4 && fields + more == 30, "{fields} and {more}");
        let (fields, _) = form(&many(many(many(json!({ "description": "\u{202e}a".repeat(500) }), 9), 9), 9));
        assert!(fields < 40, "{fields}");
        for unseen in ["\u{202e}", "a\nb", &"n".repeat(101)] {
            assert!(Form::from_schema(&json!({ "properties": { unseen: {} } })).is_none(), "{unseen}");
        }
        for none in [json!(true), json!(null), json!({ "oneOf": [] }), json!({ "properties": [] })] {
            assert!(Form::from_schema(&none).is_none(), "{none}");
        }
    }
}
