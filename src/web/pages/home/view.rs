//! Data of the page with a builder's tools.

use serde_json::Value;

use crate::{
    parts::time_range::{day, days},
    query::PageQuery,
};

pub(super) const PATH: &str = "/dashboard/home";
/// Number of days in sums.
const DAYS: usize = 30;

/// The data of the page.
pub(super) struct HomeView<'a> {
    pub(super) requested: &'a PageQuery,
    /// One page of the builder's tools.
    pub(super) tools: &'a Value,
    /// The tools that are checked for tasks.
    pub(super) checked_at: &'a Value,
    pub(super) report: &'a Value,
    /// Payout settings, and the waiting amount.
    pub(super) payouts: &'a Value,
    pub(super) simulated: bool,
    /// Today's date.
    pub(super) today: &'a str,
}

impl HomeView<'_> {
    /// Returns the first day of the sums.
    pub(super) fn first(&self) -> &str {
        day(self.report["since"].as_str().unwrap_or_default())
    }

    /// Returns all days of the sums.
    pub(super) fn days(&self) -> Vec<String> {
        days(self.first(), self.today, DAYS)
    }
}
