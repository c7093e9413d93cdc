//! An operator's own lists: hashes of known material, and terms in addition to the built-in ones.
//!
//! The hash list has one SHA-256 in hex per line. The rest of the line is ignored, so the output of `sha256sum` works. Lines that begin
//! with `#` are comments. The hashes are compared with the source, each string literal, and each block of base64 or hex after decoding.
//!
//! The term list is TOML, like the built-in `terms.toml`:
//!
//! ```toml
//! [[list]]
//! category = "weapons"      # names the rule: operator.weapons
//! language = "en"
//! severity = "review"       # or "block"
//! terms = ["first term", "second"]
//! ```
//!
//! Terms match whole words, ignoring case. White space in a term matches any run of white space.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tollhouse_api::SafetyRule;
use tollhouse_tool::finding::Severity;

use super::rules::TERMS;

/// Rule of the hash list.
pub(super) const HASH_RULE: &str = "operator.known-hash";
const HASH_DESCRIPTION: &str =
    "A source, string or encoded block whose SHA-256 is on this host's list of known illegal or licensed material";

/// Family of term lists without a built-in category.
const FAMILY: &str = "illegal-material";

/// An operator's additions to the rules.
#[derive(Debug, Clone, Default)]
pub struct OperatorLists {
    hashes: HashSet<String>,
    lists: Vec<TermList>,
    fingerprint: Option<String>,
}

/// Terms of one category in one language.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TermList {
    pub(super) category: String,
    /// BCP 47 tag, shown in the policy document.
    pub(super) language: String,
    pub(super) severity: ListSeverity,
    pub(super) terms: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ListSeverity {
    Review,
    Block,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermFile {
    #[serde(default)]
    list: Vec<TermList>,
}

/// A list is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("line {0} of the hash list must begin with a SHA-256 in hex")]
    Hash(usize),
    #[error("the term list is malformed: {0}")]
    Terms(#[from] toml::de::Error),
    #[error("category `{0}` of the term list must have only lower-case letters, digits and hyphens")]
    Category(String),
    #[error("category `{0}` of the term list has a term without letters or digits")]
    EmptyTerm(String),
}

impl OperatorLists {
    /// Parses a hash list and a term list. Either can be absent.
    pub fn parse(hashes: Option<&str>, terms: Option<&str>) -> Result<Self, ListError> {
        let given = [hashes, terms];
        let fingerprint = given.iter().any(Option::is_some).then(|| sha256_hex(format!("{given:?}"))[..8].to_owned());
        Ok(Self {
            hashes: hashes.map(parse_hashes).transpose()?.unwrap_or_default(),
            lists: terms.map(parse_terms).transpose()?.unwrap_or_default(),
            fingerprint,
        })
    }

    pub(super) fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }
}

fn parse_hashes(text: &str) -> Result<HashSet<String>, ListError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let hash = line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            let fits = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            if fits { Ok(hash) } else { Err(ListError::Hash(number)) }
        })
        .collect()
}

fn parse_terms(text: &str) -> Result<Vec<TermList>, ListError> {
    let file: TermFile = toml::from_str(text)?;
    for list in &file.list {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if list.category.is_empty() || !list.category.bytes().all(plain) {
            return Err(ListError::Category(list.category.clone()));
        }
        if list.terms.iter().any(|term| !term.chars().any(char::is_alphanumeric)) {
            return Err(ListError::EmptyTerm(list.category.clone()));
        }
    }
    Ok(file.list)
}

/// The lists in searchable form.
#[derive(Debug)]
pub(super) struct Operator {
    hashes: HashSet<String>,
    rules: Vec<TermRule>,
    finder: AhoCorasick,
    /// The rule of each pattern of `finder`.
    rule_of: Vec<usize>,
    /// Length of the shortest term, in bytes.
    shortest: usize,
}

/// The rule for the terms of a category.
#[derive(Debug)]
pub(super) struct TermRule {
    pub(super) id: String,
    pub(super) severity: Severity,
    description: String,
    languages: Vec<String>,
}

impl Operator {
    pub(super) fn new(lists: &OperatorLists) -> Self {
        let shipped = parse_terms(TERMS).expect("the shipped terms are tested");
        let all = shipped.iter().map(|list| ("terms", list)).chain(lists.lists.iter().map(|list| ("operator", list)));
        let (mut rules, mut terms, mut rule_of) = (Vec::<TermRule>::new(), Vec::new(), Vec::new());
        for (prefix, list) in all {
            let severity = match list.severity {
                ListSeverity::Review => Severity::Review,
                ListSeverity::Block => Severity::Block,
            };
            let suffix = if severity == Severity::Block && prefix == "operator" { "-blocked" } else { "" };
            let id = format!("{prefix}.{}{suffix}", list.category);
            let rule = rules.iter().position(|rule| rule.id == id).unwrap_or_else(|| {
                let owner = if prefix == "terms" { "the shipped list" } else { "this host's own list" };
                let description =
                    format!("Words that offer or ask for what is illegal, category `{}` of {owner}; languages: ", list.category);
                rules.push(TermRule { id, severity, description, languages: Vec::new() });
                rules.len() - 1
            });
            if !rules[rule].languages.contains(&list.language) {
                let comma = if rules[rule].languages.is_empty() { "" } else { ", " };
                rules[rule].description += &format!("{comma}{}", list.language);
                rules[rule].languages.push(list.language.clone());
            }
            for term in &list.terms {
                terms.push(folded(term).0);
                rule_of.push(rule);
            }
        }
        let finder =
            AhoCorasick::builder().match_kind(MatchKind::Standard).build(&terms).expect("term lists are far below the finder's limits");
        let shortest = terms.iter().map(String::len).min().unwrap_or(0);
        Self { hashes: lists.hashes.clone(), rules, finder, rule_of, shortest }
    }

    pub(super) fn public(&self) -> impl Iterator<Item = SafetyRule> {
        let rule = |id: &str, severity, description: &str| SafetyRule {
            id: id.to_owned(),
            family: FAMILY.to_owned(),
            severity,
            description: description.to_owned(),
        };
        let hash = rule(HASH_RULE, Severity::Block, HASH_DESCRIPTION);
        let terms = self.rules.iter().map(move |term| rule(&term.id, term.severity, &term.description));
        terms.chain((!self.hashes.is_empty()).then_some(hash))
    }

    pub(super) fn has_hash(&self, bytes: &[u8]) -> bool {
        !self.hashes.is_empty() && self.hashes.contains(&sha256_hex(bytes))
    }

    /// Returns the rules whose terms are in `text`, with the location of the first match of each.
    pub(super) fn terms<'s>(&'s self, text: &str) -> Vec<(&'s TermRule, std::ops::Range<usize>)> {
        // Case folding changes the length of some letters, but at most to three times.
        if text.len() * 3 < self.shortest {
            return Vec::new();
        }
        let (folded, positions) = folded(text);
        if self.finder.find(&folded).is_none() {
            return Vec::new();
        }
        let mut found: Vec<Option<std::ops::Range<usize>>> = vec![None; self.rules.len()];
        let mut missing = self.rules.len();
        for hit in self.finder.find_overlapping_iter(&folded) {
            let slot = &mut found[self.rule_of[hit.pattern().as_usize()]];
            if slot.is_none() && word_bounded(&folded, hit.start(), hit.end()) {
                *slot = Some(positions.original(hit.start())..positions.original(hit.end()));
                missing -= 1;
                if missing == 0 {
                    break;
                }
            }
        }
        self.rules.iter().zip(found).filter_map(|(rule, position)| Some((rule, position?))).collect()
    }
}

/// Returns whether a match is a whole word. Scripts without spaces have no word boundaries.
fn word_bounded(text: &str, start: usize, end: usize) -> bool {
    let unspaced =
        |char: char| matches!(u32::from(char), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x9FFF);
    let joined = |inner: Option<char>, outer: Option<char>| match (inner, outer) {
        (Some(inner), Some(outer)) => inner.is_alphanumeric() && outer.is_alphanumeric() && !unspaced(inner) && !unspaced(outer),
        _ => false,
    };
    let inside = &text[start..end];
    !joined(inside.chars().next(), text[..start].chars().next_back()) && !joined(inside.chars().next_back(), text[end..].chars().next())
}

/// Maps positions in a folded text to the original. It stores only places where the offset changes, so it is short for most texts.
#[derive(Default)]
struct Places {
    /// `(byte of the folded text, byte of the original)`, ascending.
    drifts: Vec<(usize, usize)>,
}

impl Places {
    fn original(&self, folded: usize) -> usize {
        match self.drifts.partition_point(|(at, _)| *at <= folded).checked_sub(1).map(|index| self.drifts[index]) {
            Some((at, original)) => original + (folded - at),
            None => folded,
        }
    }
}

/// Folds case, and turns runs of white space, hyphens and underscores into one space.
fn folded(text: &str) -> (String, Places) {
    let mut folded = String::with_capacity(text.len());
    let mut positions = Places::default();
    let mut drift = 0isize;
    for (at, char) in text.char_indices() {
        let now = at as isize - folded.len() as isize;
        if now != drift {
            drift = now;
            positions.drifts.push((folded.len(), at));
        }
        if char.is_whitespace() || char == '-' || char == '_' {
            if !folded.ends_with(' ') {
                folded.push(' ');
            }
        } else {
            folded.extend(char.to_lowercase());
        }
    }
    (folded, positions)
}

/// Returns the SHA-256 in hex, as in hash lists.
pub(super) fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(bytes))
}
