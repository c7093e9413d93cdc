//! Markup of a form.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    draft::{FormDraft, PREFIX, Problem},
    kind::{FieldKind, ListItem, TextKind},
    layout::{Field, Form, FormItem, Group, WORDS},
};
use crate::parts::{sample, text};

/// Maximum shown characters of a choice.
const VALUE: usize = 80;
/// Lines of a multi-line field, and of a JSON field.
const ROWS: &str = "3";
const JSON_ROWS: &str = "5";

/// Id of the JSON field for the rest.
const OTHERS: &str = "f0";

/// Typed contents and problems of a form.
struct FilledForm<'a> {
    draft: &'a FormDraft,
    problems: &'a [Problem],
    /// Whether the JSON field has contents, which may include required fields.
    others: bool,
}

impl Form<'_> {
    /// Shows the fields with their contents and problems.
    pub(crate) fn shown(&self, draft: &FormDraft, problems: &[Problem]) -> Markup {
        let filled = FilledForm { draft, problems, others: !draft.get("").is_empty() };
        html! {
            @for item in &self.root.items { (filled.item(item)) }
            @if self.is_open || self.more > 0 || !draft.get("").is_empty() { (filled.others(self)) }
        }
    }

    /// Returns the id of the field for a pointer, or of the closest parent with a field.
    pub(crate) fn place(&self, pointer: &str) -> String {
        let mut pointer = pointer;
        loop {
            if let Some(field) = self.field(pointer) {
                return format!("f{}", field.id);
            }
            match pointer.rsplit_once('/') {
                Some((above, _)) if !above.is_empty() => pointer = above,
                _ => return OTHERS.to_owned(),
            }
        }
    }
}

impl FilledForm<'_> {
    fn item(&self, item: &FormItem) -> Markup {
        match item {
            FormItem::Field(field) => self.field(field),
            FormItem::Group(group) => self.group(group),
        }
    }

    fn group(&self, group: &Group) -> Markup {
        html! {
            fieldset {
                legend { code { (text::words(group.name)) } @if group.required { " " span.must { "required" } } }
                @if !group.words.is_empty() { p.note { (text::summary(group.words, WORDS)) } }
                @for item in &group.items { (self.item(item)) }
            }
        }
    }

    fn field(&self, field: &Field) -> Markup {
        let id = format!("f{}", field.id);
        let note = format!("{id}-note");
        let wrong = self.problems.iter().any(|problem| is_of(&problem.pointer, &field.pointer));
        html! {
            div.field {
                label for=(id) { code { (text::words(field.name)) } @if field.required { " " span.must { "required" } } }
                (Control { id: &id, note: &note, typed: self.draft.get(&field.pointer), must: field.must && !self.others, wrong }.render(field))
                div.note id=(note) {
                    @if !field.words.is_empty() { p { (text::summary(field.words, WORDS)) } }
                    @if let Some(how) = how(&field.kind) { p { (how) } }
                    (field.bounds.render())
                }
            }
        }
    }

    /// Shows the JSON field for properties without a field.
    fn others(&self, form: &Form) -> Markup {
        let typed = self.draft.get("");
        let wrong = self.problems.iter().any(|problem| form.place(&problem.pointer) == OTHERS);
        html! {
            details.way open[!typed.is_empty() || wrong || form.more > 0] {
                summary { "Other fields, as JSON" }
                div.field {
                    label.aside for=(OTHERS) { "Other fields, as a JSON object" }
                    textarea.mono id=(OTHERS) name=(PREFIX) rows=(JSON_ROWS) spellcheck="false" autocomplete="off" aria-describedby="f0-note"
                        aria-invalid=[wrong.then_some("true")] { "\n" (typed) }
                    p.note #f0-note {
                        "A JSON object with the fields that are not listed above. It can be empty."
                        @if form.more > 0 { " " (form.more) " fields of the schema are not listed above." }
                    }
                }
            }
        }
    }
}

/// An input element.
struct Control<'a> {
    id: &'a str,
    note: &'a str,
    typed: &'a str,
    /// Whether the browser must require it.
    must: bool,
    wrong: bool,
}

impl Control<'_> {
    fn render(&self, field: &Field) -> Markup {
        match &field.kind {
            FieldKind::Text(TextKind::Long) => self.area(field, None, ROWS),
            FieldKind::Lines(_) => self.area(field, None, JSON_ROWS),
            FieldKind::Json => self.area(field, Some("mono"), JSON_ROWS),
            FieldKind::Flag => self.select(field, &["true".to_owned(), "false".to_owned()]),
            FieldKind::Choice(values) => self.select(field, values),
            FieldKind::Text(TextKind::Short) => self.input(field, "text", None),
            FieldKind::Text(TextKind::Email) => self.input(field, "email", None),
            FieldKind::Text(TextKind::Url) => self.input(field, "url", None),
            FieldKind::Text(TextKind::Date) => self.input(field, "date", None),
            FieldKind::Number { whole: true } => self.input(field, "number", Some("1")),
            FieldKind::Number { whole: false } => self.input(field, "number", Some("any")),
        }
    }

    fn input(&self, field: &Field, kind: &str, step: Option<&str>) -> Markup {
        let (limits, rendered) = (field.limits, |bound: Option<f64>| bound.map(|bound| bound.to_string()));
        html! {
            input id=(self.id) name={ (PREFIX) (field.pointer) } type=(kind) value=(self.typed) step=[step] required[self.must] autocomplete="off"
                min=[rendered(limits.least)] max=[rendered(limits.max)] minlength=[limits.shortest] maxlength=[limits.longest]
                aria-describedby=(self.note) aria-invalid=[self.wrong.then_some("true")];
        }
    }

    fn area(&self, field: &Field, class: Option<&str>, rows: &str) -> Markup {
        let (limits, skeleton) = (field.limits, field.skeleton.as_ref().map(skeleton));
        html! {
            textarea id=(self.id) name={ (PREFIX) (field.pointer) } class=[class] rows=(rows) required[self.must] autocomplete="off"
                minlength=[limits.shortest] maxlength=[limits.longest] spellcheck=[class.map(|_| "false")] placeholder=[skeleton]
                aria-describedby=(self.note) aria-invalid=[self.wrong.then_some("true")] {
                // Browsers drop the first line break of a text area.
                "\n" (self.typed)
            }
        }
    }

    fn select(&self, field: &Field, values: &[String]) -> Markup {
        html! {
            select id=(self.id) name={ (PREFIX) (field.pointer) } required[self.must] aria-describedby=(self.note)
                aria-invalid=[self.wrong.then_some("true")] {
                option value="" { @if field.required { "choose" } @else { "left out" } }
                @for value in values { option value=(value) selected[value == self.typed] { (label(value)) } }
            }
        }
    }
}

/// Returns whether a problem concerns this pointer or a part of it.
fn is_of(problem: &str, pointer: &str) -> bool {
    problem.strip_prefix(pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a hint for kinds that need one.
fn how(kind: &FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::Lines(ListItem::Text) => Some("One per line."),
        FieldKind::Lines(ListItem::Number) => Some("One number per line."),
        FieldKind::Lines(ListItem::Flag) => Some("`true` or `false`, one per line."),
        FieldKind::Json => Some("As JSON."),
        FieldKind::Text(_) | FieldKind::Number { .. } | FieldKind::Flag | FieldKind::Choice(_) => None,
    }
}

/// Returns the label of a choice, which is JSON: a string without its quotes.
fn label(value: &str) -> String {
    let bare = serde_json::from_str::<String>(value).ok().filter(|text| text::plain(text) == text.as_str() && !text.trim().is_empty());
    let message = bare.unwrap_or_else(|| value.to_owned());
    match message.char_indices().nth(VALUE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

fn skeleton(value: &Value) -> String {
    sample::visible(&serde_json::to_string_pretty(value).unwrap_or_default())
}
