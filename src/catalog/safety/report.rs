//! What a scan answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollhouse_tool::finding::{Finding, ScanOutcome, Severity};

/// Findings of one rule in one field that are reported; more say nothing new.
const PER_RULE_AND_FIELD: usize = 3;
/// Findings that are reported.
const FINDINGS: usize = 60;

/// What a scan found, gravest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The gravest of the findings.
    pub outcome: ScanOutcome,
    /// What was found, and where.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The ids of the rules that block, each once.
    #[must_use]
    pub fn blocking(&self) -> Vec<&str> {
        let mut rules: Vec<_> = self.findings.iter().filter(|found| found.severity == Severity::Block).map(|found| &*found.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// All that both found.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.findings.extend(other.findings);
        Findings { found: self.findings, ..Findings::default() }.report()
    }
}

/// Collects findings while a scan runs.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    /// By rule: how many, and how many in each field.
    count: BTreeMap<String, (usize, BTreeMap<String, usize>)>,
}

impl Findings {
    /// True when more of this rule in this field would not be reported.
    pub(super) fn enough(&self, rule: &str, field: &str) -> bool {
        self.count(rule, field) >= PER_RULE_AND_FIELD || self.count.get(rule).is_some_and(|(all, _)| *all >= FINDINGS)
    }

    /// True when this rule is reported for this line, or for the field where there are no lines.
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
        let outcome = match self.found.first().map(|gravest| gravest.severity) {
            Some(Severity::Block) => ScanOutcome::Block,
            Some(Severity::Review) => ScanOutcome::Review,
            Some(Severity::Note) | None => ScanOutcome::Pass,
        };
        self.found.truncate(FINDINGS);
        Report { outcome, findings: self.found }
    }
}

/// The first two characters and the length.
pub(super) fn redacted(text: &str) -> String {
    let head: String = text.chars().take(2).filter(|char| !char.is_control()).collect();
    format!("{head}… ({} characters)", text.chars().count())
}
