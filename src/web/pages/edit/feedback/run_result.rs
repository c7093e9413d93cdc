//! Outcomes of checks and runs.

use maud::{Markup, html};
use serde_json::{Map, Value};
use tollhouse_api::{DryRun, EndpointCheck, Grants, OwnEndpoint};
use tollhouse_base::exact;
use tollhouse_protocol::limits::TABLE;

use crate::{facts, first, line, lines, pages::edit::problems::findings, state, words};

/// Maximum shown characters of a result.
const RESULT_CHARS: usize = 20_000;
/// Maximum shown log lines.
const LINES: usize = 100;

pub(super) fn checked(check: &EndpointCheck) -> Markup {
    let held = check.needs_review;
    html! {
        section.told aria-labelledby="told-checked" role="status" {
            h2 #told-checked { "Checked: " @if held { (state("in review")) } @else { (state("passed")) } }
            p {
                @if held { "If you publish this, it stays paused until an admin has reviewed it." }
                @else { "It loads and can be published." }
            }
            (facts::list(&[
                ("Version", Some(facts::id(&check.version))),
                ("Granted", grants(&check.granted)),
                ("Needs approval", grants(&check.requested)),
            ]))
            @if !check.findings.is_empty() { h3 { "Findings" } (findings(&check.findings)) }
            @if !check.warnings.is_empty() {
                h3 { "Likely mistakes" }
                ul.plain { @for warning in &check.warnings { li { (line(warning)) } } }
            }
        }
    }
}

/// Shows the names of capabilities and hosts, if there are any.
fn grants(Grants { capabilities, hosts }: &Grants) -> Option<Markup> {
    names(capabilities.names().map(|name| name as &str).chain(hosts.iter().map(String::as_str)).collect())
}

fn names(names: Vec<&str>) -> Option<Markup> {
    (!names.is_empty()).then(|| html! { span.marks { @for name in names { code { (words(name)) } } } })
}

pub(super) fn ran(run: &DryRun, tool: Option<&OwnEndpoint>) -> Markup {
    let limit = |name: &str| {
        let default = TABLE.iter().find(|row| row.name == name).map_or(0, |row| row.default);
        tool.and_then(|tool| tool.limits.get(name)).unwrap_or(default)
    };
    let spent = &run.spent;
    let of = |spent: String, name: &str, unit: &str| Some(html! { (spent) (unit) span.muted { " of " (limit(name)) (unit) } });
    html! {
        section.told aria-labelledby="told-ran" role="status" {
            h2 #told-ran { "Run: " @if run.error.is_some() { (state("failed")) } @else { (state("succeeded")) } }
            @if let Some(error) = &run.error { (failed(error)) } @else { (result(run)) }
            (facts::list(&[
                ("CPU", of(spent.cpu_ms.to_string(), "cpuMs", " ms")),
                ("Time", of(spent.wall_ms.to_string(), "wallMs", " ms")),
                ("Heap", of(spent.heap_bytes.to_string(), "heapBytes", " bytes")),
                ("Ops", of(spent.ops.to_string(), "ops", "")),
                ("Granted", granted(&run.granted)),
            ]))
            h3 { "Log" }
            @if run.log.is_empty() { p.muted { "No log lines." } } @else { (lines(run.log.iter().take(LINES), "", |_| None)) }
            @if run.log.len() > LINES { p.muted { (run.log.len() - LINES) " more lines are not shown here." } }
        }
    }
}

/// Shows the capabilities and hosts that a run could use.
fn granted(granted: &Map<String, Value>) -> Option<Markup> {
    let on = granted.iter().filter(|(_, on)| **on == true).map(|(name, _)| name.as_str());
    let hosts = granted.get("hosts").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names(on.chain(hosts).collect())
}

/// Shows the error that a call would get.
fn failed(error: &Value) -> Markup {
    let text = |fields: &Value, name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let problems: Vec<_> = error.get("problems").and_then(Value::as_array).into_iter().flatten().collect();
    html! {
        p.problem { (line(&text(error, "message"))) " (" (words(text(error, "code"))) ")" }
        @if !problems.is_empty() {
            ul.plain {
                @for problem in problems {
                    li { code { (words(text(problem, "pointer"))) } " " (line(&text(problem, "message"))) }
                }
            }
        }
        p.muted { "A call that ends like this is not charged, unless the tool charges before the run." }
    }
}

fn result(run: &DryRun) -> Markup {
    // The run has the text of its result.
    let json = run.result.as_ref().and_then(Value::as_str).unwrap_or("null");
    let text = exact::pretty(json).unwrap_or_else(|_| json.to_owned());
    let remaining = text.chars().count().saturating_sub(RESULT_CHARS);
    html! {
        p { "It answered with status " (run.status.unwrap_or_default()) "." }
        div.scroll role="group" aria-label="Result" tabindex="0" { pre.result { (first(&text, RESULT_CHARS)) } }
        @if remaining > 0 { p.muted { (remaining) " more characters are not shown here." } }
    }
}
