//! The input of a call. Form fields and JSON are two views of the same state.

use maud::{Markup, html};
use serde_json::Value;

use super::file;
use crate::{
    Fields,
    parts::schema_form::{Form, FormDraft, Problem, initial, minified, spread},
    sample, text,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputState {
    Form,
    Json,
}

/// The typed text, and the resulting input.
#[derive(Debug)]
pub(super) struct GivenInput {
    typed: TypedInput,
    /// JSON on a single line. `None` if it is not valid yet.
    pub(super) input: Option<String>,
    pub(super) problems: Vec<Problem>,
    /// Whether the visitor tried to send it.
    pub(super) refused: bool,
}

#[derive(Debug)]
enum TypedInput {
    Fields(FormDraft),
    Json(String),
}

/// Maximum size of an input, in bytes. Forms contain it several times.
const MAX_BYTES: usize = 256 << 10;

/// Maximum lines of the JSON field.
const MAX_ROWS: usize = 20;

impl GivenInput {
    pub(super) fn initial(schema: &Value, state: InputState) -> Self {
        let given = initial(schema);
        let started = match state {
            // A JSON field has no labels, so it starts with the required fields.
            InputState::Json if given == "{}" => sample::input(schema).to_string(),
            InputState::Json | InputState::Form => given,
        };
        Self { input: None, ..Self::from_json(schema, &started, state) }
    }

    /// Reads the input that a form sent, and changes the view to `again` if it is given. In that case
    /// required fields may be missing.
    pub(super) fn sent(schema: &Value, fields: &Fields, again: Option<InputState>) -> Self {
        let (form, file) = (Form::from_schema(schema), file::input(fields));
        match (fields.get("input").or(file.as_deref()), form.filter(|_| fields.get("as") != Some("json"))) {
            (Some(input), _) => Self::in_view(schema, Self::json(input), again),
            (None, None) => Self::in_view(schema, Self::json(fields.get("json").unwrap_or_default()), again),
            (None, Some(form)) => {
                let draft = FormDraft::sent(fields.all());
                let typed = form.typed(&draft);
                let mut problems = typed.wrong;
                if again == Some(InputState::Json) && problems.is_empty() {
                    return Self::from_json(schema, &typed.json, InputState::Json);
                }
                if again.is_none() {
                    problems.extend(typed.missing);
                }
                let input = problems.is_empty().then_some(typed.json).and_then(|json| line(&json));
                Self { typed: TypedInput::Fields(draft), input, problems, refused: false }.bounded()
            }
        }
    }

    /// Returns an input with the problems that the tool reported.
    pub(super) fn with_problems(schema: &Value, input: &str, state: InputState, problems: Vec<Problem>) -> Self {
        Self { problems, refused: true, ..Self::from_json(schema, input, state) }
    }

    pub(super) fn refused(self) -> Self {
        Self { refused: true, ..self }
    }

    /// Parses typed JSON.
    fn json(text: &str) -> Self {
        let text = if text.trim().is_empty() { "{}" } else { text };
        let input = line(text);
        let problems = if input.is_some() { vec![] } else { vec![Problem::new("", "this is not valid JSON")] };
        Self { typed: TypedInput::Json(text.to_owned()), input, problems, refused: false }.bounded()
    }

    /// Rejects an input that is too large for a page.
    fn bounded(mut self) -> Self {
        if self.input.take_if(|input| input.len() > MAX_BYTES).is_some() {
            let kib = MAX_BYTES >> 10;
            self.problems.push(Problem::new(
                "",
                format!("longer than {kib} KiB, the maximum on this page; call the tool with a command from its page"),
            ));
        }
        self
    }

    fn in_view(schema: &Value, given: Self, again: Option<InputState>) -> Self {
        match (again, given.input.as_deref()) {
            (Some(state), Some(input)) => Self::from_json(schema, input, state),
            _ => given,
        }
    }

    /// Shows an input in fields if it is an object that the form supports, else as JSON.
    fn from_json(schema: &Value, input: &str, state: InputState) -> Self {
        let input = line(input);
        let text = input.as_deref().unwrap_or_default();
        let draft = Form::from_schema(schema).filter(|_| state == InputState::Form).and_then(|form| form.draft(text));
        let typed = draft.map_or_else(|| TypedInput::Json(spread(text)), TypedInput::Fields);
        Self { typed, input, problems: vec![], refused: false }
    }

    /// Shows the input fields, with their problems.
    pub(super) fn view(&self, schema: &Value) -> Markup {
        let form = Form::from_schema(schema);
        html! {
            @if !self.problems.is_empty() { (self.render(form.as_ref())) }
            @match (&self.typed, &form) {
                (TypedInput::Fields(draft), Some(form)) => {
                    input type="hidden" name="as" value="form";
                    (form.shown(draft, &self.problems))
                }
                (TypedInput::Fields(_), None) => {}
                (TypedInput::Json(json), form) => {
                    input type="hidden" name="as" value="json";
                    div.field {
                        label for="json" { "Input, as JSON" }
                        textarea.mono #json name="json" rows=(json.lines().count().clamp(6, MAX_ROWS)) spellcheck="false" autocomplete="off"
                            aria-invalid=[(!self.problems.is_empty()).then_some("true")] { "\n" (json) }
                    }
                    @if form.is_none() { p.note { "There are no form fields for the input of this tool. Enter it as JSON." } }
                }
            }
        }
    }

    fn render(&self, form: Option<&Form>) -> Markup {
        let position = |pointer: &str| match (&self.typed, form) {
            (TypedInput::Fields(_), Some(form)) => form.place(pointer),
            _ => "json".to_owned(),
        };
        html! {
            div.problem role="alert" {
                p { "The input does not match the schema. " @if self.refused { "Nothing was charged." } }
                ul.plain {
                    @for problem in &self.problems {
                        li {
                            a href={ "#" (position(&problem.pointer)) } {
                                @if problem.pointer.is_empty() { "The input" } @else { code { (text::first(&problem.pointer, 100)) } }
                            }
                            ": " (text::line(&problem.message))
                        }
                    }
                }
            }
        }
    }

    /// Returns the other view and the label of its button, if there is one.
    pub(super) fn other(&self, schema: &Value) -> Option<(&'static str, &'static str)> {
        match self.typed {
            TypedInput::Fields(_) => Some(("json", "Edit as JSON")),
            TypedInput::Json(_) if Form::from_schema(schema).is_some() => Some(("form", "Edit in fields")),
            TypedInput::Json(_) => None,
        }
    }
}

/// Returns JSON on a single line, with invisible characters escaped.
fn line(text: &str) -> Option<String> {
    minified(text).map(|json| sample::visible(&json))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "required": ["a"], "properties": { "a": { "type": "string" }, "n": { "type": "number" } } })
    }

    fn sent(body: &str, again: Option<InputState>) -> GivenInput {
        GivenInput::sent(&schema(), &Fields::read(body.as_bytes()), again)
    }

    fn pointers(given: &GivenInput) -> Vec<&str> {
        given.problems.iter().map(|problem| problem.pointer.as_str()).collect()
    }

    #[test]
    fn input_survives_switching_views() {
        let fields = sent("as=form&f/a=&f/n=1.10&f={\"x\":[1.0]}", Some(InputState::Json));
        let TypedInput::Json(json) = &fields.typed else { panic!("{fields:?}") };
        assert_eq!(json, "{\n  \"n\": 1.10,\n  \"x\": [\n    1.0\n  ]\n}");
        let body = form_urlencoded::Serializer::new(String::new()).append_pair("as", "json").append_pair("json", json).finish();
        let back = sent(&body, Some(InputState::Form));
        let TypedInput::Fields(draft) = &back.typed else { panic!("{back:?}") };
        assert_eq!(draft, &FormDraft::sent([("f/n", "1.10"), ("f", r#"{"x":[1.0]}"#)].into_iter()));
        assert_eq!((back.input.as_deref(), back.problems.len()), (Some(r#"{"n":1.10,"x":[1.0]}"#), 0));
    }

    #[test]
    fn invalid_input_stays_in_its_view() {
        let number = sent("as=form&f/n=x", Some(InputState::Json));
        assert!(matches!(&number.typed, TypedInput::Fields(_)));
        assert_eq!(pointers(&number), ["/n"]);
        let broken = sent("as=json&json={", Some(InputState::Form));
        assert!(matches!(&broken.typed, TypedInput::Json(json) if json == "{"));
        assert_eq!((pointers(&broken), broken.input.as_deref()), (vec![""], None));
        let list = sent("as=json&json=[1]", Some(InputState::Form));
        assert!(matches!(list.typed, TypedInput::Json(_)));
    }

    #[test]
    fn required_fields_must_be_present() {
        assert_eq!(pointers(&sent("as=form&f/n=1", None)), ["/a"]);
        assert_eq!(sent("as=form&f/a=x", None).input.as_deref(), Some(r#"{"a":"x"}"#));
        assert_eq!(sent("as=json&json=+", None).input.as_deref(), Some("{}"));
        let long = sent(&format!("as=json&json=\"{}\"", "x".repeat(MAX_BYTES)), None);
        assert_eq!((pointers(&long), long.input.as_deref()), (vec![""], None));
        assert_eq!(sent("as=form&f/a=y&input={ \"a\": 1.0 }", None).input.as_deref(), Some(r#"{"a":1.0}"#), "what was asked for is sent");
    }
}
