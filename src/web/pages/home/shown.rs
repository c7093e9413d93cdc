//! Data of the page with a builder's tools.

use serde_json::Value;

use crate::{
    asked::Asked,
    parts::since::{day, days},
};

pub(super) const PATH: &str = "/dashboard/home";
/// Number of days in sums.
const DAYS: usize = 30;

/// The data of the page.
pub(super) struct Shown<'a> {
    pub(super) asked: &'a Asked,
    /// One page of the builder's tools.
    pub(super) tools: &'a Value,
    /// The tools that are checked for tasks.
    pub(super) looked_at: &'a Value,
    pub(super) report: &'a Value,
    /// Payout settings, and the waiting amount.
    pub(super) payouts: &'a Value,
    pub(super) simulated: bool,
    /// Today's date.
    pub(super) today: &'a str,
}

impl Shown<'_> {
    /// Returns the first day of the sums.
    pub(super) fn first(&self) -> &str {
        day(self.report["since"].as_str().unwrap_or_default())
    }

    /// Returns all days of the sums.
    pub(super) fn days(&self) -> Vec<String> {
        days(self.first(), self.today, DAYS)
    }
}
