//! The result of a scan.

use std::collections::BTreeMap;

use tollhouse_tool::finding::{Finding, ScanOutcome};

/// Maximum reported findings of one rule in one field. More would add nothing.
const PER_RULE_AND_FIELD: usize = 3;
/// Maximum reported findings of one rule.
const FINDINGS: usize = 60;

/// The findings of a scan, most severe first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: ScanOutcome,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn and(mut self, other: Self) -> Self {
        self.findings.extend(other.findings);
        Findings { found: self.findings, ..Findings::default() }.report()
    }
}

/// Collects findings during a scan.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    /// By rule: the total, and the number for each field.
    count: BTreeMap<String, (usize, BTreeMap<String, usize>)>,
}

impl Findings {
    /// Returns whether further findings of this rule in this field would not be reported.
    pub(super) fn enough(&self, rule: &str, field: &str) -> bool {
        self.count(rule, field) >= PER_RULE_AND_FIELD || self.count.get(rule).is_some_and(|(all, _)| *all >= FINDINGS)
    }

    /// Returns whether this rule was reported for this line, or for the field if it has no lines.
    pub(super) fn has(&self, rule: &str, field: &str, line: Option<u32>) -> bool {
        self.count(rule, field) > 0 && self.found.iter().any(|one| (one.rule.as_str(), one.field.as_str(), one.line) == (rule, field, line))
    }

    pub(super) fn push(&mut self, finding: Finding) {
        let (all, fields) = self.count.entry(finding.rule.clone()).or_default();
        *all += 1;
        *fields.entry(finding.field.clone()).or_default() += 1;
        self.found.push(finding);
    }

    fn count(&self, rule: &str, field: &str) -> usize {
        self.count.get(rule).and_then(|(_, fields)| fields.get(field)).copied().unwrap_or(0)
    }

    pub(super) fn report(mut self) -> Report {
        self.found.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.rule.cmp(&b.rule)).then(a.line.cmp(&b.line)));
        let outcome = ScanOutcome::of(self.found.iter().map(|finding| finding.severity));
        self.found.truncate(FINDINGS);
        Report { outcome, findings: self.found }
    }
}

/// Returns the first two characters and the length.
pub(super) fn redacted(text: &str) -> String {
    let head: String = text.chars().take(2).filter(|char| !char.is_control()).collect();
    format!("{head}… ({} characters)", text.chars().count())
}
