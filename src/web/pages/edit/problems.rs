//! Problems with links to their fields, and findings of a scan.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use tollhouse_api::ErrorDetails;
use tollhouse_tool::finding::{Finding, Severity};

use crate::{line, words};

/// The fields of a tool: name in the form, and label.
pub(super) const FIELDS: [(&str, &str); 13] = [
    ("title", "Title"),
    ("description", "Description"),
    ("priceUsd", "Price"),
    ("maxPriceUsd", "Maximum price"),
    ("tags", "Tags"),
    ("kind", "Kind"),
    ("source", "Handler"),
    ("inputSchema", "Input schema"),
    ("outputSchema", "Output schema"),
    ("capabilities", "Capabilities"),
    ("allowedHosts", "Hosts"),
    ("schedules", "Schedules"),
    ("refundBrokenStreams", "Refund of broken streams"),
];

/// A problem with an upload or a run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    /// The wrong field, as a JSON Pointer. Empty if it is none.
    pub(super) pointer: String,
    pub(super) message: String,
    code: String,
    hint: Option<String>,
    at: Option<SourcePosition>,
    findings: Option<Vec<Finding>>,
}

/// A position in a source, from 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct SourcePosition {
    line: u64,
    column: u64,
}

impl Problem {
    pub(super) fn new(pointer: &str, message: &str) -> Self {
        Self { pointer: pointer.to_owned(), message: message.to_owned(), ..Self::default() }
    }

    /// Returns the problem of a text that is not JSON.
    pub(super) fn no_json(pointer: &str, error: &serde_json::Error) -> Self {
        let at = SourcePosition { line: error.line().max(1) as u64, column: error.column().max(1) as u64 };
        Self { at: Some(at), ..Self::new(pointer, "not valid JSON") }
    }

    fn read(fields: &Map<String, Value>) -> Self {
        serde_json::from_value(Value::Object(fields.clone())).unwrap_or_default()
    }

    pub(super) fn line(&self) -> Option<u64> {
        self.at.as_ref().map(|at| at.line)
    }

    pub(super) fn field(&self) -> Option<&'static str> {
        match &*self.code {
            "invalid_handler" => Some("source"),
            "attestation_required" => Some("attested"),
            "slug_taken" => Some("slug"),
            _ => field_at(&self.pointer),
        }
    }
}

pub(super) fn each(error: &ErrorDetails) -> Vec<Problem> {
    let all: Vec<_> = error.problems.iter().flatten().map(Problem::read).collect();
    match all.is_empty() {
        // A schema violation locates the problem within the input.
        false if error.code == "invalid_input" => {
            all.into_iter().map(|problem| Problem::new(&format!("/input{}", problem.pointer), &problem.message)).collect()
        }
        false => all,
        true => vec![Problem {
            pointer: error.pointer.clone().unwrap_or_default(),
            message: error.message.clone(),
            code: error.code.clone(),
            hint: error.hint.clone(),
            ..Problem::read(&error.more)
        }],
    }
}

/// Returns the form field for a pointer into an upload.
fn field_at(pointer: &str) -> Option<&'static str> {
    let mut fields = FIELDS.iter().map(|(name, _)| *name).filter(|name| !matches!(*name, "kind" | "source")).chain(["slug", "input"]);
    match pointer.split('/').nth(1)? {
        "handler" => Some("source"),
        "handlerType" => Some("kind"),
        name => fields.find(|field| *field == name),
    }
}

pub(super) fn render_problems(problems: &[Problem]) -> Markup {
    html! {
        section.told.problems role="alert" aria-labelledby="told-problems" {
            h2 #told-problems { (problems.len()) @if problems.len() == 1 { " problem" } @else { " problems" } }
            ul.plain {
                @for problem in problems {
                    li {
                        (at_field(problem.field(), problem.line(), problem.at.as_ref().map(|at| at.column)))
                        (line(&problem.message))
                        @if let Some(at) = &problem.at { ", line " (at.line) ", column " (at.column) }
                        @if problem.pointer.matches('/').count() > 1 { ", at " code { (words(&problem.pointer)) } }
                        @if let Some(hint) = &problem.hint { " — " (line(hint)) }
                        @if let Some(findings) = &problem.findings { (self::findings(findings)) }
                    }
                }
            }
        }
    }
}

/// Links to a field, and to a line in it.
fn at_field(field: Option<&str>, line: Option<u64>, column: Option<u64>) -> Markup {
    html! {
        @if let Some(field) = field { a href={ "#field-" (field) } data-line=[line] data-column=[column] { (label(field)) } ": " }
    }
}

fn label(field: &str) -> &'static str {
    let of_tool = FIELDS.iter().find(|(name, _)| *name == field).map(|(_, title)| *title);
    of_tool.unwrap_or(match field {
        "slug" => "Name",
        "input" => "Input",
        _ => "Attestation",
    })
}

/// Shows the findings of the scan: rules and locations, never the text.
pub(super) fn findings(findings: &[Finding]) -> Markup {
    html! {
        ul.plain {
            @for finding in findings {
                li {
                    (at_field(field_at(&finding.field), finding.line.map(u64::from), finding.column.map(u64::from)))
                    code { (words(&finding.rule)) }
                    @match finding.severity {
                        Severity::Block => ", which this host does not publish",
                        Severity::Review => ", which an admin must review",
                        Severity::Note => ", for your information",
                    }
                    @if let Some(line) = finding.line { ", line " (line) }
                    @if let Some(column) = finding.column { ", column " (column) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problem_belongs_to_its_field() {
        for (problem, field) in [
            (json!({ "pointer": "/tags/1" }), Some("tags")),
            (json!({ "pointer": "/handler/response/a" }), Some("source")),
            (json!({ "pointer": "/handlerType" }), Some("kind")),
            (json!({ "code": "invalid_handler", "at": { "line": 1, "column": 2 } }), Some("source")),
            (json!({ "code": "attestation_required" }), Some("attested")),
            (json!({ "pointer": "/limits/cpuMs" }), None),
            (json!({ "pointer": "" }), None),
        ] {
            assert_eq!(Problem::read(problem.as_object().unwrap()).field(), field, "{problem}");
        }
    }

    #[test]
    fn problems_of_an_input_are_located_in_its_field() {
        let error = |error: Value| serde_json::from_value::<ErrorDetails>(error).unwrap();
        let problems = json!([{ "pointer": "/n", "message": "it is no number" }]);
        let invalid = error(json!({ "code": "invalid_input", "fault": "caller", "message": "no", "problems": problems }));
        assert_eq!(each(&invalid), [Problem::new("/input/n", "it is no number")]);
        let at = json!({ "line": 3, "column": 1 });
        let one = each(&error(json!({ "code": "invalid_handler", "fault": "caller", "message": "no", "at": at })));
        assert_eq!((one.len(), one[0].line(), one[0].field()), (1, Some(3), Some("source")));
    }
}
