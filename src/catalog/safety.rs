//! Content safety: what an upload must not contain, and what an admin looks at first.
//!
//! A [`Scanner`] is made once, from the table `safety/rules.toml`, the terms of `safety/terms.toml`
//! and the operator's own lists. [`Scanner::scan`] reads one [`Upload`] and answers a [`Report`],
//! whose outcome is the highest severity found. It does no IO, and its time is linear in the upload.
//!
//! What it reads: the fields as they are; the string literals of the source, unescaped, joined where
//! they are added up, and decoded once where they are base64, hex, percent-encoding or character
//! codes; comments apart from code. It does *not* judge pictures or intent, nor what a handler
//! makes or fetches while it runs.
//!
//! Invariant: nothing here gives the matched text away. A [`Finding`](tollhouse_tool::finding::Finding) has at most its first two
//! characters and its length, for admins; [`brief`](tollhouse_tool::finding::Finding::brief) has neither.

mod check;
mod code;
mod decode;
mod operator;
mod phrase;
mod reach;
mod report;
mod rules;
mod scan;
mod unicode;
mod upload;

use self::{operator::Operator, rules::Rules};
pub use self::{
    operator::{ListError, OperatorLists},
    reach::{Reach, line_of_code_from_strings, reaches},
    report::Report,
    rules::{POLICY_VERSION, Rule},
    upload::Upload,
};

/// Finds what the policy names. Made once; scanning needs no more than `&self`.
#[derive(Debug)]
pub struct Scanner {
    rules: Rules,
    operator: Operator,
    version: String,
}

impl Scanner {
    /// The shipped rules, with the operator's lists.
    #[must_use]
    pub fn new(lists: &OperatorLists) -> Self {
        let version = match lists.fingerprint() {
            Some(fingerprint) => format!("{POLICY_VERSION}+{fingerprint}"),
            None => POLICY_VERSION.to_owned(),
        };
        Self { rules: Rules::shipped(), operator: Operator::new(lists), version }
    }

    /// Version of the rules in force: [`POLICY_VERSION`], and behind a `+` eight hex digits that
    /// stand for the operator's lists, if there are any. An endpoint scanned under another version
    /// is to be scanned again.
    #[must_use]
    pub fn policy_version(&self) -> &str {
        &self.version
    }

    /// Every rule in force, as the policy document shows it.
    pub fn rules(&self) -> impl Iterator<Item = Rule<'_>> {
        self.rules.public().chain(self.operator.public())
    }

    /// Reads an upload.
    #[must_use]
    pub fn scan(&self, upload: &Upload<'_>) -> Report {
        scan::run(&self.rules, &self.operator, upload)
    }
}

/// Of a [version](Scanner::policy_version) the part that grows from one to the next; operators' lists have no order.
#[must_use]
pub fn revision(policy_version: &str) -> &str {
    policy_version.split('+').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
