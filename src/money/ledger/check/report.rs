//! The result of a check.

use std::fmt;

use serde::Serialize;
use tollhouse_base::plural::{plural, plural_range};

const MAX_LISTED: usize = 100;

/// The counts of checked rows, and the inconsistencies.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerReport {
    /// Number of postings.
    pub postings: u64,
    /// Number of accounts with a balance.
    pub accounts: u64,
    /// Number of receipts of paid calls.
    pub receipts: u64,
    /// Number of credits.
    pub credits: u64,
    /// Number of movements of all credits.
    pub movements: u64,
    /// Number of unpaid earnings.
    pub unpaid: u64,
    /// Number of payouts.
    pub packets: u64,
    /// Number of refunds of all receipts.
    pub refunds: u64,
    /// Number of rows of the journal's archive that were compared with the store.
    pub archived: u64,
    /// Frames of the journal whose rows the archive lacks, so that they were not compared.
    pub archive_gaps: Vec<ArchiveGapReport>,
    /// Number of inconsistencies.
    pub disagreements: u64,
    /// The first inconsistencies.
    pub wrong: Vec<LedgerMismatch>,
}

/// Frames of the journal, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ArchiveGapReport {
    /// The first frame.
    pub from: u64,
    /// The last frame.
    pub to: u64,
}

/// An inconsistency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerMismatch {
    /// The affected account or record.
    pub what: String,
    /// The problem.
    #[serde(rename = "why")]
    pub reason: String,
    /// The difference in units, if it can be determined. It is a text, because it may exceed a JSON number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_by: Option<String>,
}

impl LedgerReport {
    pub(super) fn mismatch(&mut self, what: impl Into<String>, reason: impl Into<String>) {
        self.add(LedgerMismatch { what: what.into(), reason: reason.into(), off_by: None });
    }

    /// Reports an inconsistency if two labeled amounts differ.
    pub(super) fn expect_equal(&mut self, what: impl Into<String>, (one_is, one): (&str, i128), (other_is, other): (&str, i128)) {
        if one != other {
            let reason = format!("{one_is} {one}, {other_is} {other}");
            self.add(LedgerMismatch { what: what.into(), reason, off_by: Some((one - other).to_string()) });
        }
    }

    fn add(&mut self, wrong: LedgerMismatch) {
        self.disagreements += 1;
        if self.wrong.len() < MAX_LISTED {
            self.wrong.push(wrong);
        }
    }
}

impl fmt::Display for LedgerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { postings, accounts, receipts, credits, movements, unpaid, packets, refunds, archived, archive_gaps, .. } = self;
        write!(
            f,
            "{} in {}, {}, {} of {}, {} to be paid out, {}, {}; {} of the archive",
            plural(postings, "posting"),
            plural(accounts, "account"),
            plural(receipts, "receipt"),
            plural(movements, "movement"),
            plural(credits, "credit"),
            plural(unpaid, "amount"),
            plural(packets, "payout"),
            plural(refunds, "refund"),
            plural(archived, "row")
        )?;
        archive_gaps.iter().try_for_each(|ArchiveGapReport { from, to }| {
            write!(f, ", which lacks the money records of {}", plural_range("frame", *from, *to))
        })
    }
}

impl fmt::Display for LedgerMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.reason)?;
        match &self.off_by {
            Some(by) => write!(f, " (off by {by})"),
            None => Ok(()),
        }
    }
}
