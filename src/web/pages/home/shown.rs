//! What the page of a builder's tools is made of.

use serde_json::Value;

use crate::web::asked::Asked;

pub(super) const PATH: &str = "/dashboard/home";

/// What the page is made of.
pub(super) struct Shown<'a> {
    pub(super) asked: &'a Asked,
    /// A page of the builder's tools.
    pub(super) tools: &'a Value,
    /// The first of all, for what needs their builder.
    pub(super) looked_at: &'a Value,
    pub(super) report: &'a Value,
    pub(super) payout_settings: &'a Value,
    pub(super) simulated: bool,
}
