//! The rule table: `rules.toml`, read once.

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use tollhouse_tool::finding::Severity;

use super::check::Check;

/// Version of the shipped rules, terms and detectors; endpoints keep the one they were scanned under. Changes whenever
/// one of them does: a test holds the hash of the tables against it.
pub const POLICY_VERSION: &str = "2026-11-29";

/// The shipped rules.
pub(super) const RULES: &str = include_str!("rules.toml");
/// The shipped terms.
pub(super) const TERMS: &str = include_str!("terms.toml");

/// A rule as the policy document shows it.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Rule<'a> {
    /// `family.name`.
    pub id: &'a str,
    /// What it is about.
    pub family: &'a str,
    /// What it asks for.
    pub severity: Severity,
    /// What it finds, for who reads the policy.
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

/// How many scopes there are.
const SCOPES: usize = Scope::Prose as usize + 1;

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
    /// Rows with a regex and without keywords.
    always: RowSet,
    /// Rows of each scope.
    of_scope: [RowSet; SCOPES],
}

/// A bit for each row.
type RowSet = u128;

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
        assert!(rows.len() <= RowSet::BITS as usize, "a bit for each row");
        let set = |wanted: &dyn Fn(&Row) -> bool| {
            rows.iter().enumerate().filter(|(_, row)| wanted(row)).fold(0, |set, (index, _)| set | 1 << index)
        };
        let always = set(&|row| row.regex.is_some() && row.keywords.is_empty());
        let of_scope = std::array::from_fn(|scope| set(&|row| row.scope as usize == scope));
        Self { rows, finder, row_of, always, of_scope }
    }

    #[cfg(test)]
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

    /// The rows of `scopes` with a regex that may match in `text`.
    pub(super) fn candidates(&self, text: &[u8], scopes: &[Scope]) -> impl Iterator<Item = &Row> {
        let hits = self.finder.find_overlapping_iter(text).map(|hit| self.row_of[hit.pattern().as_usize()]);
        let wanted = hits.fold(self.always, |wanted, row| wanted | 1 << row);
        let in_scope = scopes.iter().fold(0, |rows, scope| rows | self.of_scope[*scope as usize]);
        let mut left = wanted & in_scope;
        std::iter::from_fn(move || {
            let row = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(&self.rows[row as usize])
        })
    }
}

fn compile(regex: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(regex).unicode(false).size_limit(2 << 20).build()
}
