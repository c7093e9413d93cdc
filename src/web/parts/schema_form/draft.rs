//! The typed contents of a form, and the resulting input.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{
    layout::{Field, Form, FormItem, Group},
    raw::{Members, members, object},
};

/// Prefix of the names of a form's fields. The JSON field for the rest has only the prefix.
pub(super) const PREFIX: &str = "f";

/// Maximum reported fields that do not exist anymore.
const MAX_STRAY: usize = 5;

/// Typed texts by JSON pointer. The empty pointer has an object with the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FormDraft(pub(super) BTreeMap<String, String>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) pointer: String,
    pub(crate) message: String,
}

#[derive(Debug)]
pub(crate) struct TypedInput {
    pub(crate) json: String,
    /// Parts of the draft that are not in it, with the reason.
    pub(crate) wrong: Vec<Problem>,
    /// Required fields that are missing.
    pub(crate) missing: Vec<Problem>,
}

impl Problem {
    pub(crate) fn new(pointer: &str, message: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), message: message.into() }
    }
}

impl FormDraft {
    /// Reads a draft from submitted fields.
    pub(crate) fn sent<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let own = fields.filter_map(|(name, text)| Some((name.strip_prefix(PREFIX)?, text)));
        Self(
            own.filter(|(pointer, _)| pointer.is_empty() || pointer.starts_with('/'))
                .map(|(pointer, text)| (pointer.to_owned(), text.to_owned()))
                .collect(),
        )
    }

    pub(super) fn get(&self, pointer: &str) -> &str {
        self.0.get(pointer).map(String::as_str).unwrap_or_default()
    }
}

impl Form<'_> {
    pub(crate) fn typed(&self, draft: &FormDraft) -> TypedInput {
        let mut typed = TypedInput { json: String::new(), wrong: self.stray(draft), missing: vec![] };
        let others = match draft.get("").trim() {
            "" => Some(Members::new()),
            text => members(text),
        };
        if others.is_none() {
            typed.wrong.push(Problem::new("", "the other fields are not a JSON object"));
        }
        typed.json = object(&typed.group(&self.root, draft, others.unwrap_or_default())).get().to_owned();
        typed
    }

    /// Reports texts for fields that do not exist anymore, because the schema has changed.
    fn stray(&self, draft: &FormDraft) -> Vec<Problem> {
        let stray = draft.0.iter().filter(|(pointer, text)| !pointer.is_empty() && !text.is_empty() && self.field(pointer).is_none());
        stray
            .take(MAX_STRAY)
            .map(|(pointer, _)| Problem::new(pointer, "the tool has changed, and the form no longer has this field"))
            .collect()
    }

    pub(super) fn field(&self, pointer: &str) -> Option<&Field<'_>> {
        self.root.field(pointer)
    }
}

impl Group<'_> {
    fn field(&self, pointer: &str) -> Option<&Field<'_>> {
        self.items.iter().find_map(|item| match item {
            FormItem::Field(field) => Some(field).filter(|field| field.pointer == pointer),
            FormItem::Group(group) => group.field(pointer),
        })
    }
}

impl TypedInput {
    /// Builds an object from its fields, and from `others` without a field.
    fn group(&mut self, group: &Group<'_>, draft: &FormDraft, mut others: Members) -> Members {
        for item in &group.items {
            let (name, pointer, built) = match item {
                FormItem::Field(field) => {
                    let built = self.member(field, draft);
                    if built.is_none() && field.required && !others.contains_key(field.name) {
                        self.missing.push(Problem::new(&field.pointer, "this is required"));
                    }
                    (field.name, &field.pointer, built)
                }
                FormItem::Group(inner) => {
                    let (built, rest) = self.inner(inner, draft, others.get(inner.name).map(AsRef::as_ref));
                    if rest == RestText::Taken {
                        others.remove(inner.name);
                    }
                    (inner.name, &inner.pointer, built)
                }
            };
            let Some(built) = built else { continue };
            if others.contains_key(name) {
                self.wrong.push(Problem::new(pointer, "this is also set in the other fields; remove it there"));
            } else {
                others.insert(name.to_owned(), built);
            }
        }
        others
    }

    /// Builds a nested object. It exists if any part of it does, or if it is required.
    fn inner(&mut self, group: &Group<'_>, draft: &FormDraft, other: Option<&RawValue>) -> (Option<Box<RawValue>>, RestText) {
        let (others, rest) = match other.map(|other| members(other.get())) {
            Some(Some(others)) => (others, RestText::Taken),
            Some(None) => (Members::new(), RestText::Stays),
            None => (Members::new(), RestText::None),
        };
        let before = self.missing.len();
        let built = self.group(group, draft, others);
        let is_there = !built.is_empty() || rest == RestText::Taken || group.required && rest == RestText::None;
        if !is_there {
            self.missing.truncate(before);
        }
        (is_there.then(|| object(&built)), rest)
    }

    fn member(&mut self, field: &Field<'_>, draft: &FormDraft) -> Option<Box<RawValue>> {
        match field.kind.json(draft.get(&field.pointer)) {
            Ok(json) => json,
            Err(message) => {
                self.wrong.push(Problem::new(&field.pointer, message));
                None
            }
        }
    }
}

/// The rest of an object, for the JSON field.
#[derive(Debug, PartialEq, Eq)]
enum RestText {
    None,
    /// Fields without an input.
    Taken,
    /// A value that is not an object.
    Stays,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["text", "at"],
            "properties": {
                "text": { "type": "string" }, "n": { "type": "number" }, "tags": { "type": "array", "items": { "type": "string" } },
                "at": { "type": "object", "required": ["city"], "properties": { "city": { "type": "string" }, "zip": { "type": "integer" } } },
                "by": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" }, "old": { "type": "boolean" } } },
                "any": {},
            },
        })
    }

    fn typed(fields: &[(&str, &str)]) -> TypedInput {
        Form::from_schema(&schema()).unwrap().typed(&FormDraft::sent(fields.iter().copied()))
    }

    fn pointers(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.pointer.as_str()).collect()
    }

    #[test]
    fn typed_fields_build_nested_objects_without_empty_ones() {
        let sent = [
            ("csrf", "x"),
            ("f/text", "a"),
            ("f/n", "1.10"),
            ("f/tags", "b\nc"),
            ("f/at/city", "Rome"),
            ("f/at/zip", "00100"),
            ("f/by/name", ""),
            ("f/by/old", ""),
            ("f/any", r#"{"o": [1.0]}"#),
            ("f", r#"{"more": 12345678901234567890}"#),
        ];
        let built = typed(&sent);
        assert_eq!((&*built.wrong, &*built.missing), (&[][..], &[][..]));
        let json =
            r#"{"any":{"o": [1.0]},"at":{"city":"Rome","zip":100},"more":12345678901234567890,"n":1.10,"tags":["b","c"],"text":"a"}"#;
        assert_eq!(built.json, json);
    }

    #[test]
    fn missing_required_fields_are_reported_within_present_objects() {
        let none = typed(&[]);
        assert_eq!((none.json.as_str(), pointers(&none.missing)), (r#"{"at":{}}"#, vec!["/text", "/at/city"]));
        let started = typed(&[("f/text", "a"), ("f/at/city", "b"), ("f/by/old", "true")]);
        assert_eq!(pointers(&started.missing), ["/by/name"]);
        let alongside = typed(&[("f", r#"{"text": "", "at": {"city": null}}"#)]);
        assert_eq!(pointers(&alongside.missing), Vec::<&str>::new());
    }

    #[test]
    fn invalid_fields_are_reported_and_never_dropped() {
        let wrong = typed(&[("f/n", "x"), ("f/at/zip", "1.5"), ("f/any", "{"), ("f", "[]"), ("f/gone", "y"), ("f/empty", "")]);
        assert_eq!(pointers(&wrong.wrong), ["/gone", "", "/at/zip", "/n", "/any"]);
        let twice =
            typed(&[("f/text", "a"), ("f/at/city", "b"), ("f", r#"{"text": "c", "at": 1, "by": {"name": 1}}"#), ("f/by/name", "d")]);
        assert_eq!(pointers(&twice.wrong), ["/text", "/at", "/by/name"]);
    }
}
