//! Problems with links to their fields, and findings of a scan.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::draft::FIELDS;
use crate::parts::text::{line, words};

/// Returns the problems of a refusal.
pub(super) fn each(error: &Value) -> Vec<Value> {
    let all = error["problems"].as_array().filter(|all| !all.is_empty());
    match all {
        // A schema violation locates the problem within the input.
        Some(all) if error["code"] == "invalid_input" => {
            let of_input = |problem: &Value| {
                let pointer = problem["pointer"].as_str().unwrap_or_default();
                json!({ "pointer": format!("/input{pointer}"), "message": problem["message"] })
            };
            all.iter().map(of_input).collect()
        }
        Some(all) => all.clone(),
        None => vec![error.clone()],
    }
}

/// Returns the form field of a problem.
pub(super) fn field_of(problem: &Value) -> Option<&'static str> {
    match problem["code"].as_str() {
        Some("invalid_handler") => Some("source"),
        Some("attestation_required") => Some("attested"),
        Some("slug_taken") => Some("slug"),
        _ => field_at(problem["pointer"].as_str().unwrap_or_default()),
    }
}

/// Returns the form field for a pointer into an upload.
fn field_at(pointer: &str) -> Option<&'static str> {
    let fields = [
        "slug",
        "title",
        "description",
        "priceUsd",
        "maxPriceUsd",
        "tags",
        "inputSchema",
        "outputSchema",
        "capabilities",
        "allowedHosts",
        "input",
    ];
    match pointer.split('/').nth(1)? {
        "handler" => Some("source"),
        "handlerType" => Some("kind"),
        name => fields.into_iter().find(|field| *field == name),
    }
}

/// Shows all problems above the form.
pub(super) fn render_problems(problems: &[Value]) -> Markup {
    html! {
        section.told.problems role="alert" aria-labelledby="told-problems" {
            h2 #told-problems { (problems.len()) @if problems.len() == 1 { " problem" } @else { " problems" } }
            ul.plain {
                @for problem in problems {
                    li {
                        (at_field(field_of(problem), problem["at"]["line"].as_u64(), problem["at"]["column"].as_u64()))
                        (line(problem["message"].as_str().unwrap_or("the host did not say why")))
                        @if let (Some(line), Some(column)) = (problem["at"]["line"].as_u64(), problem["at"]["column"].as_u64()) {
                            ", line " (line) ", column " (column)
                        }
                        @if let Some(pointer) = problem["pointer"].as_str().filter(|pointer| pointer.matches('/').count() > 1) {
                            ", at " code { (words(pointer)) }
                        }
                        @if let Some(hint) = problem["hint"].as_str() { " — " (line(hint)) }
                        @if let Some(findings) = problem["findings"].as_array() { (self::findings(findings)) }
                    }
                }
            }
        }
    }
}

/// Links to a field, and to a line in it.
fn at_field(field: Option<&str>, line: Option<u64>, column: Option<u64>) -> Markup {
    html! {
        @if let Some(field) = field { a href={ "#field-" (field) } data-line=[line] data-column=[column] { (named(field)) } ": " }
    }
}

/// Returns the label of a field.
fn named(field: &str) -> &'static str {
    let of_tool = FIELDS.iter().find(|(name, _)| *name == field).map(|(_, title)| *title);
    of_tool.unwrap_or(match field {
        "slug" => "Name",
        "input" => "Input",
        _ => "What you vouch for",
    })
}

/// Shows the findings of the scan: rules and locations, never the text.
pub(super) fn findings(findings: &[Value]) -> Markup {
    html! {
        ul.plain {
            @for finding in findings {
                li {
                    (at_field(field_at(finding["field"].as_str().unwrap_or_default()), finding["line"].as_u64(), finding["column"].as_u64()))
                    code { (words(finding["rule"].as_str().unwrap_or_default())) }
                    @match finding["severity"].as_str() {
                        Some("block") => { ", which is not published here" }
                        Some("review") => { ", which an admin looks at" }
                        _ => { ", for you to know" }
                    }
                    @if let Some(line) = finding["line"].as_u64() { ", line " (line) }
                    @if let Some(column) = finding["column"].as_u64() { ", column " (column) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_leads_to_its_field() {
        for (problem, field) in [
            (json!({ "pointer": "/tags/1" }), Some("tags")),
            (json!({ "pointer": "/handler/response/a" }), Some("source")),
            (json!({ "pointer": "/handlerType" }), Some("kind")),
            (json!({ "code": "invalid_handler", "at": { "line": 1, "column": 2 } }), Some("source")),
            (json!({ "code": "attestation_required" }), Some("attested")),
            (json!({ "pointer": "/limits/cpuMs" }), None),
            (json!({ "pointer": "" }), None),
        ] {
            assert_eq!(field_of(&problem), field, "{problem}");
        }
    }

    #[test]
    fn what_does_not_fit_the_input_schema_learns_of_the_input() {
        let error = json!({ "code": "invalid_input", "message": "no", "problems": [{ "pointer": "/n", "message": "it is no number" }] });
        assert_eq!(each(&error), [json!({ "pointer": "/input/n", "message": "it is no number" })]);
        assert_eq!(each(&json!({ "code": "busy", "message": "later" })).len(), 1);
    }
}
