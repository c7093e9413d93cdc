//! Findings of a scan in an upload, with their lines.

use maud::{Markup, html};
use tollhouse_tool::finding::Finding;

use crate::{state, text, word};

const SHOWN: usize = 50;
/// Lines of context around a finding.
const AROUND: usize = 2;
/// Maximum characters of a line.
const CHARS: usize = 240;

const SOURCE: &str = "/handler/source";

/// Shows the findings. `source` contains their lines, and `path` is the page that shows it.
pub(super) fn findings(findings: &[Finding], source: Option<&str>, path: &str) -> Markup {
    let whole: Vec<_> = source.into_iter().flat_map(str::lines).collect();
    html! {
        @if findings.is_empty() { p.muted { "The current rules found nothing." } }
        ol.findings {
            @for finding in findings.iter().take(SHOWN) {
                li {
                    p.marks { (state(&word(finding.severity))) code { (text::words(&finding.rule)) } (location(finding, path)) }
                    @if let Some(line) = line(finding).filter(|line| finding.field == SOURCE && (1..=whole.len()).contains(line)) {
                        (around(&whole, line, path))
                    }
                }
            }
        }
        @if findings.len() > SHOWN { p.note { (findings.len() - SHOWN) " more are in the tool's record." } }
    }
}

fn line(finding: &Finding) -> Option<usize> {
    finding.line.and_then(|line| usize::try_from(line).ok())
}

pub(super) fn lines(findings: &[Finding]) -> Vec<u64> {
    findings.iter().filter(|finding| finding.field == SOURCE).filter_map(|finding| finding.line.map(u64::from)).collect()
}

/// Shows the location: the field, and the line if it is the source.
fn location(finding: &Finding, path: &str) -> Markup {
    let field = finding.field.trim_start_matches('/');
    html! {
        span {
            "in " code { (text::words(field)) }
            @if let Some(line) = line(finding) {
                ", "
                @if finding.field == SOURCE { a href={ (path) "?from=" (line.saturating_sub(AROUND).max(1)) "#L" (line) } { "line " (line) } } @else { "line " (line) }
                @if let Some(column) = finding.column { ", character " (column) }
            }
        }
    }
}

/// Shows a line with its context. Each line links to the complete source.
fn around(lines: &[&str], line: usize, path: &str) -> Markup {
    let (from, to) = (line.saturating_sub(AROUND).max(1), (line + AROUND).min(lines.len()));
    html! {
        pre.source tabindex="0" {
            code {
                @for number in from..=to {
                    span.line.found[number == line] {
                        a href={ (path) "?from=" (from) "#L" (number) } { (number) }
                        (text::first(lines[number - 1], CHARS))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(finding: Value) -> Finding {
        serde_json::from_value(finding).unwrap()
    }

    #[test]
    fn finding_is_shown_with_the_lines_around_it() {
        let found = [
            json!({ "rule": "code.eval", "severity": "review", "field": "/handler/source", "line": 4, "column": 2 }),
            json!({ "rule": "text.title", "severity": "note", "field": "/title" }),
            json!({ "rule": "code.eval", "severity": "review", "field": "/handler/source", "line": 400 }),
        ]
        .map(read);
        let html = findings(&found, Some("1st\n2nd\n3rd\n<b>\n5th\n6th\n7th"), "/p").into_string();
        assert_eq!(lines(&found), [4, 400]);
        assert!(!html.contains("1st") && !html.contains("7th") && !html.contains("<b>"), "{html}");
        assert_eq!((html.matches("<pre").count(), html.matches("line found").count()), (1, 1), "{html}");
        assert!(html.contains("href=\"/p?from=2#L4\"") && html.contains("character 2") && html.contains("&lt;b&gt;"), "{html}");
    }

    #[test]
    fn many_findings_on_long_lines_stay_short() {
        let found: Vec<_> =
            (1..=5_000).map(|line| read(json!({ "rule": "r", "severity": "review", "field": SOURCE, "line": line }))).collect();
        let html = findings(&found, Some(&format!("{}\n", "\u{202e}a".repeat(500)).repeat(5_000)), "/p").into_string();
        assert!(html.len() < 400 << 10, "{} bytes", html.len());
        assert!(html.contains("4950 more are in the tool's record."));
    }
}
