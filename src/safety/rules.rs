//! The rule table: `rules.toml`, read once.

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{check::Check, report::Severity};

/// Version of the shipped rules, terms and detectors; endpoints keep the one they were scanned under. Changes whenever
/// one of them does: a test holds the hash of the tables against it.
pub const POLICY_VERSION: &str = "2026-11-21";

/// The shipped rules.
pub(super) const RULES: &str = include_str!("rules.toml");
/// The shipped terms.
pub(super) const TERMS: &str = include_str!("terms.toml");

/// A rule as the policy document shows it.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Rule<'a> {
    pub id: &'a str,
    pub family: &'a str,
    pub severity: Severity,
    pub description: &'a str,
}

/// Where a rule looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    /// Every field as it is, and what is decoded from it.
    #[default]
    Everywhere,
    /// String literals of the source, strings of the response, and what is decoded from them.
    Strings,
    /// The source without its comments, and strings as in `Strings`.
    Code,
    /// Comments of the source.
    Comments,
    /// Title, description and tags.
    Prose,
}

/// A row of `rules.toml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) family: String,
    pub(super) severity: Severity,
    pub(super) description: String,
    #[serde(default)]
    pub(super) scope: Scope,
    /// Words one of which every match has, in lower case; without them the regex is not run.
    #[serde(default)]
    pub(super) keywords: Vec<String>,
    /// ASCII only; of bounded length. Group 1, where there is one, is the value. Absent: code finds it.
    pub(super) regex: Option<String>,
    /// Least Shannon entropy of the value, in bits a byte.
    pub(super) entropy: Option<f64>,
    pub(super) check: Option<Check>,
    /// Texts, in lower case, that make a value a placeholder.
    #[serde(default)]
    pub(super) allow: Vec<String>,
    /// Texts, in lower case, one of which in the same scope makes up for every match: licences.
    #[serde(default)]
    pub(super) unless: Vec<String>,
    /// Distinct values of a rule that counts; see `block_above`.
    pub(super) review_above: Option<usize>,
    /// Above this many distinct values the severity is `block`.
    pub(super) block_above: Option<usize>,
    #[serde(skip)]
    compiled: Option<Regex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: Vec<Row>,
}

impl Row {
    pub(super) fn regex(&self) -> Option<&Regex> {
        self.compiled.as_ref()
    }
}

/// The table, compiled.
#[derive(Debug)]
pub(super) struct Rules {
    rows: Vec<Row>,
    finder: AhoCorasick,
    /// For each pattern of `finder`, its row.
    row_of: Vec<usize>,
    /// Rows without keywords.
    always: Vec<usize>,
}

impl Rules {
    pub(super) fn shipped() -> Self {
        let table: Table = toml::from_str(RULES).expect("the shipped rules are tested");
        let mut rows = table.rule;
        for row in &mut rows {
            row.compiled = row.regex.as_deref().map(|regex| compile(regex).expect("the shipped rules are tested"));
        }
        let (mut keywords, mut row_of) = (Vec::new(), Vec::new());
        for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.regex.is_some()) {
            keywords.extend(row.keywords.iter().cloned());
            row_of.extend(row.keywords.iter().map(|_| index));
        }
        let finder =
            AhoCorasick::builder().ascii_case_insensitive(true).build(keywords).expect("keywords are far below the finder's limits");
        let always = (0..rows.len()).filter(|&index| rows[index].regex.is_some() && rows[index].keywords.is_empty()).collect();
        Self { rows, finder, row_of, always }
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row of a rule that code finds.
    pub(super) fn row(&self, id: &str) -> &Row {
        self.rows.iter().find(|row| row.id == id).expect("each detector has its row: a test asks for all")
    }

    pub(super) fn public(&self) -> impl Iterator<Item = Rule<'_>> {
        self.rows.iter().map(|row| Rule { id: &row.id, family: &row.family, severity: row.severity, description: &row.description })
    }

    /// The rows with a regex that may match in `text`.
    pub(super) fn candidates(&self, text: &[u8]) -> Vec<&Row> {
        let mut wanted = vec![false; self.rows.len()];
        for &index in &self.always {
            wanted[index] = true;
        }
        for hit in self.finder.find_overlapping_iter(text) {
            wanted[self.row_of[hit.pattern().as_usize()]] = true;
        }
        self.rows.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(row, _)| row).collect()
    }
}

fn compile(regex: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(regex).unicode(false).size_limit(2 << 20).build()
}
