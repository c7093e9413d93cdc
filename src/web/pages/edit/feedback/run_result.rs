//! Outcomes of checks and runs.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_base::exact;
use tollhouse_protocol::limits::TABLE;

use crate::{
    pages::edit::problems::findings,
    parts::{
        facts,
        lines::lines,
        state::state,
        text::{first, line, words},
    },
};

/// Maximum shown characters of a result.
const RESULT_CHARS: usize = 20_000;
/// Maximum shown log lines.
const LINES: usize = 100;

pub(super) fn checked(check: &Value) -> Markup {
    let found = check["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let warnings: Vec<_> = check["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let held = check["needsReview"] == true;
    html! {
        section.told aria-labelledby="told-checked" role="status" {
            h2 #told-checked { "Checked: " @if held { (state("in review")) } @else { (state("passed")) } }
            p {
                @if held { "Published as it stands here, it would be paused until an admin has looked at it." }
                @else { "It loads, and it can be published as it stands here." }
            }
            (facts::list(&[
                ("Version", check["version"].as_str().map(facts::id)),
                ("May touch", named(&check["granted"])),
                ("Asks an admin for", named(&check["requested"])),
            ]))
            @if !found.is_empty() { h3 { "Found in it" } (findings(found)) }
            @if !warnings.is_empty() {
                h3 { "Likely mistakes" }
                ul.plain { @for warning in warnings { li { (line(warning)) } } }
            }
        }
    }
}

/// Shows the names of capabilities and hosts, if there are any.
fn named(touches: &Value) -> Option<Markup> {
    let on = touches["capabilities"].as_object().into_iter().flatten().filter(|(_, on)| **on == true).map(|(name, _)| name.as_str());
    let hosts = touches["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let all: Vec<_> = on.chain(hosts).collect();
    (!all.is_empty()).then(|| html! { span.marks { @for name in &all { code { (words(name)) } } } })
}

pub(super) fn ran(run: &Value, tool: &Value) -> Markup {
    let limit = |name: &str| {
        let usual = TABLE.iter().find(|row| row.name == name).map_or(0, |row| row.default);
        tool["limits"][name].as_u64().unwrap_or(usual)
    };
    let spent = &run["spent"];
    let of = |name: &str, unit: &str, limit: u64| Some(html! { (spent[name]) (unit) span.muted { " of " (limit) (unit) } });
    let log = run["log"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        section.told aria-labelledby="told-ran" role="status" {
            h2 #told-ran { "Run: " @if run.get("error").is_some() { (state("failed")) } @else { (state("succeeded")) } }
            @if let Some(error) = run.get("error") { (failed(error)) } @else { (result(run)) }
            (facts::list(&[
                ("Processor", of("cpuMs", " ms", limit("cpuMs"))),
                ("Time", of("wallMs", " ms", limit("wallMs"))),
                ("Heap", of("heapBytes", " bytes", limit("heapBytes"))),
                ("Ops", of("ops", "", limit("ops"))),
                ("Could touch", could(&run["granted"])),
            ]))
            h3 { "Log" }
            @if log.is_empty() { p.muted { "It wrote nothing." } } @else { (lines(log.iter().take(LINES), "", |_| None)) }
            @if log.len() > LINES { p.muted { (log.len() - LINES) " more lines are not shown here." } }
        }
    }
}

/// Shows the capabilities and hosts that a run could use.
fn could(granted: &Value) -> Option<Markup> {
    let on = granted.as_object().into_iter().flatten().filter(|(_, on)| **on == true).map(|(name, _)| name.as_str());
    let hosts = granted["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let all: Vec<_> = on.chain(hosts).collect();
    (!all.is_empty()).then(|| html! { span.marks { @for name in &all { code { (words(name)) } } } })
}

fn failed(error: &Value) -> Markup {
    let problems: Vec<_> = error["problems"].as_array().into_iter().flatten().collect();
    html! {
        p.problem { (line(error["message"].as_str().unwrap_or_default())) " (" (words(error["code"].as_str().unwrap_or_default())) ")" }
        @if !problems.is_empty() {
            ul.plain {
                @for problem in problems {
                    li { code { (words(problem["pointer"].as_str().unwrap_or_default())) } " " (line(problem["message"].as_str().unwrap_or_default())) }
                }
            }
        }
        p.muted { "Nothing is charged for a call that ends so." }
    }
}

fn result(run: &Value) -> Markup {
    // The run has the text of its result.
    let json = run["result"].as_str().unwrap_or("null");
    let text = exact::pretty(json).unwrap_or_else(|_| json.to_owned());
    let remaining = text.chars().count().saturating_sub(RESULT_CHARS);
    html! {
        p { "It answered, with status " (run["status"]) "." }
        div.scroll role="group" aria-label="Result" tabindex="0" { pre.result { (first(&text, RESULT_CHARS)) } }
        @if remaining > 0 { p.muted { (remaining) " more characters are not shown here." } }
    }
}
