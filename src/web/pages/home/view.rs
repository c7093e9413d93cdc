//! Data of the page with a builder's tools.

use tollhouse_api::{EndpointSummaryPage, PayoutSettingsResponse, Revenue};

use crate::{PageQuery, day, parts::time_range::days};

pub(super) const PATH: &str = "/dashboard/home";
/// Number of days in sums.
const DAYS: usize = 30;

pub(super) struct HomeView<'a> {
    pub(super) query: &'a PageQuery,
    /// One page of the builder's tools.
    pub(super) tools: &'a EndpointSummaryPage,
    /// The tools that are checked for tasks.
    pub(super) checked: &'a EndpointSummaryPage,
    pub(super) report: &'a Revenue,
    /// Payout settings, and the waiting amount.
    pub(super) payouts: &'a PayoutSettingsResponse,
    pub(super) simulated: bool,
    pub(super) today: &'a str,
}

impl HomeView<'_> {
    /// Returns the first day of the sums.
    pub(super) fn first(&self) -> String {
        day(&self.report.since.to_string()).to_owned()
    }

    pub(super) fn days(&self) -> Vec<String> {
        days(&self.first(), self.today, DAYS)
    }
}
