//! Content safety: which uploads are blocked, and which need an admin's review.
//!
//! A [`Scanner`] is created once, from the table `safety/rules.toml`, the terms of
//! `safety/terms.toml` and the operator's own lists. [`Scanner::scan`] reads one [`Upload`] and
//! returns a [`Report`], whose outcome is the highest severity found. It does no IO, and its time
//! is linear in the size of the upload.
//!
//! It reads the fields as they are; string literals of the source, unescaped, with concatenations
//! joined, and decoded once from base64, hex, percent-encoding or character codes; and comments
//! separately from code. It does *not* judge pictures or intent, nor content that a handler creates
//! or fetches at run time.
//!
//! Invariant: the matched text is never revealed. For admins, a
//! [`Finding`](tollhouse_tool::finding::Finding) has at most its first two characters and its
//! length; [`brief`](tollhouse_tool::finding::Finding::brief) has neither.

mod check;
mod code;
mod decode;
mod known;
mod operator;
mod phrase;
mod reach;
mod report;
mod rules;
mod scan;
mod unicode;

use tollhouse_api::SafetyRule;

use self::{operator::Operator, rules::Rules};
pub use self::{
    operator::{ListError, OperatorLists},
    reach::{ContextMember, WorkersHabit, line_of_code_from_strings, reaches, workers_habits},
    report::Report,
    rules::POLICY_VERSION,
    scan::Upload,
};

/// Scans uploads for violations of the policy. Created once; scanning needs only `&self`.
#[derive(Debug)]
pub struct Scanner {
    rules: Rules,
    operator: Operator,
    version: String,
}

impl Scanner {
    /// Creates a scanner with the built-in rules and the operator's lists.
    pub fn new(lists: &OperatorLists) -> Self {
        let version = match lists.fingerprint() {
            Some(fingerprint) => format!("{POLICY_VERSION}+{fingerprint}"),
            None => POLICY_VERSION.to_owned(),
        };
        Self { rules: Rules::shipped(), operator: Operator::new(lists), version }
    }

    /// Returns the version of the rules in force: [`POLICY_VERSION`], followed by `+` and eight hex
    /// digits that identify the operator's lists, if there are any. An endpoint scanned with
    /// another version needs a new scan.
    pub fn policy_version(&self) -> &str {
        &self.version
    }

    /// Returns every rule in force for the policy document.
    pub fn rules(&self) -> impl Iterator<Item = SafetyRule> {
        self.rules.public().chain(self.operator.public())
    }

    pub fn scan(&self, upload: &Upload<'_>) -> Report {
        scan::run(&self.rules, &self.operator, upload)
    }
}

/// Returns the part of a [version](Scanner::policy_version) that increases with each release.
/// Operators' lists have no order.
pub fn revision(policy_version: &str) -> &str {
    policy_version.split('+').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
