//! What the page of a builder's tools is made of.

use serde_json::Value;

use crate::{
    asked::Asked,
    parts::since::{day, days},
};

pub(super) const PATH: &str = "/dashboard/home";
/// Days that are added up.
const DAYS: usize = 30;

/// What the page is made of.
pub(super) struct Shown<'a> {
    pub(super) asked: &'a Asked,
    /// A page of the builder's tools.
    pub(super) tools: &'a Value,
    /// The first of all, for what needs their builder.
    pub(super) looked_at: &'a Value,
    pub(super) report: &'a Value,
    /// Where payouts go, and what waits for one.
    pub(super) payouts: &'a Value,
    pub(super) simulated: bool,
    /// Day of now.
    pub(super) today: &'a str,
}

impl Shown<'_> {
    /// The first day that is added up.
    pub(super) fn first(&self) -> &str {
        day(self.report["since"].as_str().unwrap_or_default())
    }

    /// All days that are added up.
    pub(super) fn days(&self) -> Vec<String> {
        days(self.first(), self.today, DAYS)
    }
}
