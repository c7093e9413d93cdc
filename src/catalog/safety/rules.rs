//! The rule table `rules.toml`.

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use tollhouse_api::SafetyRule;
use tollhouse_tool::finding::Severity;

use super::check::ValueCheck;

/// Version of the built-in rules, terms and detectors. Endpoints record the version of their scan.
/// It must change with any of them: a test compares a hash of the tables.
pub const POLICY_VERSION: &str = "2026-12-01.2";

/// The built-in rules.
pub(super) const RULES: &str = include_str!("rules.toml");
/// The built-in terms.
pub(super) const TERMS: &str = include_str!("terms.toml");

/// The part of an upload to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    /// Every field, and decoded content.
    #[default]
    Everywhere,
    /// String literals of the source, strings of the response, and content decoded from them.
    Strings,
    /// The source without comments, and strings as in `Strings`.
    Code,
    /// Comments of the source.
    Comments,
    /// Title, description and tags.
    Prose,
}

/// Number of scopes.
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
    /// Words in lowercase, one of which is in every match. Without any of them the regex is not
    /// run.
    #[serde(default)]
    pub(super) keywords: Vec<String>,
    /// Regex for ASCII with bounded length. Group 1, if present, is the value. If absent, code
    /// implements the rule.
    pub(super) regex: Option<String>,
    /// Minimum Shannon entropy of the value, in bits per byte.
    pub(super) entropy: Option<f64>,
    pub(super) check: Option<ValueCheck>,
    /// Texts in lowercase that mark a value as a placeholder.
    #[serde(default)]
    pub(super) allow: Vec<String>,
    /// Texts in lowercase that excuse every match in the same scope, for example licenses.
    #[serde(default)]
    pub(super) unless: Vec<String>,
    /// Number of distinct values above which the severity is `review`.
    pub(super) review_above: Option<usize>,
    /// Number of distinct values above which the severity is `block`.
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

/// The compiled table.
#[derive(Debug)]
pub(super) struct Rules {
    rows: Vec<Row>,
    finder: AhoCorasick,
    /// The row of each pattern of `finder`.
    row_of: Vec<usize>,
    /// Rows with a regex but without keywords.
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
        let set = |requested: &dyn Fn(&Row) -> bool| {
            rows.iter().enumerate().filter(|(_, row)| requested(row)).fold(0, |set, (index, _)| set | 1 << index)
        };
        let always = set(&|row| row.regex.is_some() && row.keywords.is_empty());
        let of_scope = std::array::from_fn(|scope| set(&|row| row.scope as usize == scope));
        Self { rows, finder, row_of, always, of_scope }
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the row of a rule that code implements.
    pub(super) fn row(&self, id: &str) -> &Row {
        self.rows.iter().find(|row| row.id == id).expect("each detector has its row: a test asks for all")
    }

    pub(super) fn public(&self) -> impl Iterator<Item = SafetyRule> {
        self.rows.iter().map(|row| SafetyRule {
            id: row.id.clone(),
            family: row.family.clone(),
            severity: row.severity,
            description: row.description.clone(),
        })
    }

    /// Returns the rows of `scopes` with a regex that may match in `text`.
    pub(super) fn candidates(&self, text: &[u8], scopes: &[Scope]) -> impl Iterator<Item = &Row> {
        let hits = self.finder.find_overlapping_iter(text).map(|hit| self.row_of[hit.pattern().as_usize()]);
        let requested = hits.fold(self.always, |requested, row| requested | 1 << row);
        let in_scope = scopes.iter().fold(0, |rows, scope| rows | self.of_scope[*scope as usize]);
        let mut remaining = requested & in_scope;
        std::iter::from_fn(move || {
            let row = (remaining != 0).then(|| remaining.trailing_zeros())?;
            remaining &= remaining - 1;
            Some(&self.rows[row as usize])
        })
    }
}

fn compile(regex: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(regex).unicode(false).size_limit(2 << 20).build()
}
