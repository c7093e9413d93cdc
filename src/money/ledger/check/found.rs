//! What a check found.

use std::fmt;

use serde::Serialize;

/// Disagreements that are told; all are counted.
const TOLD: usize = 100;

/// What was looked at, and what does not agree.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// How many there are.
    pub postings: u64,
    /// How many there are with a balance.
    pub accounts: u64,
    /// Of paid calls.
    pub receipts: u64,
    /// How many there are.
    pub credits: u64,
    /// Of all credits.
    pub movements: u64,
    /// Rows that wait to be paid out.
    pub unpaid: u64,
    /// Payout packets.
    pub packets: u64,
    /// Of all receipts.
    pub refunds: u64,
    /// Rows of the journal's archive that were held against the store.
    pub archived: u64,
    /// How many disagreements there are.
    pub disagreements: u64,
    /// The first of them.
    pub wrong: Vec<Wrong>,
}

/// One thing that does not agree with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wrong {
    /// The account or the record.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
    /// By how much of its unit, where that can be said. A text: it may be more than a number of JSON holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_by: Option<String>,
}

impl Found {
    pub(super) fn wrong(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.tell(Wrong { what: what.into(), why: why.into(), off_by: None });
    }

    /// Tells if two amounts differ, each of which says what it is.
    pub(super) fn agrees(&mut self, what: impl Into<String>, (one_is, one): (&str, i128), (other_is, other): (&str, i128)) {
        if one != other {
            let why = format!("{one_is} {one}, {other_is} {other}");
            self.tell(Wrong { what: what.into(), why, off_by: Some((one - other).to_string()) });
        }
    }

    fn tell(&mut self, wrong: Wrong) {
        self.disagreements += 1;
        if self.wrong.len() < TOLD {
            self.wrong.push(wrong);
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { postings, accounts, receipts, credits, movements, unpaid, packets, refunds, archived, .. } = self;
        write!(
            f,
            "{postings} postings in {accounts} accounts, {receipts} receipts, {movements} movements of {credits} credits, {unpaid} \
             amounts that wait to be paid out, {packets} packets, {refunds} refunds; {archived} rows of the archive"
        )
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        match &self.off_by {
            Some(by) => write!(f, " (off by {by})"),
            None => Ok(()),
        }
    }
}
