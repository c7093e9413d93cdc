//! Revenue of builders and of the host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::{MicroUsd, Slug};

use crate::True;

/// Calls and revenue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevenueTotals {
    /// Number of calls, successful or not.
    pub calls: u64,
    /// Number of paid calls.
    pub paid_calls: u64,
    /// Number of failed calls.
    pub failed_calls: u64,
    /// Amount that callers paid.
    #[serde(deserialize_with = "crate::sum")]
    pub gross_usd: MicroUsd,
    /// Amount refunded.
    #[serde(deserialize_with = "crate::sum")]
    pub refunded_usd: MicroUsd,
    /// The host's share.
    #[serde(deserialize_with = "crate::sum")]
    pub fees_usd: MicroUsd,
    /// The builder's share.
    #[serde(deserialize_with = "crate::sum")]
    pub net_usd: MicroUsd,
}

/// The revenue of one tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointRevenue {
    /// The tool.
    pub endpoint_slug: Slug,
    /// Its calls and revenue.
    #[serde(flatten)]
    pub totals: RevenueTotals,
    /// With `daily`, the number of calls by UTC day. Days without calls are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_by_day: Option<BTreeMap<String, u64>>,
    /// With `daily`, the number of failed calls by UTC day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_by_day: Option<BTreeMap<String, u64>>,
}

/// The revenue of one day.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DayRevenue {
    /// The UTC day, for example `2026-11-21`.
    pub day: String,
    /// Its calls and revenue.
    #[serde(flatten)]
    pub totals: RevenueTotals,
}

/// The revenue of a builder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revenue {
    pub ok: True,
    /// Start of the report.
    pub since: Timestamp,
    /// The sum.
    pub totals: RevenueTotals,
    /// The revenue by tool.
    pub by_endpoint: Vec<EndpointRevenue>,
    /// The revenue by day.
    pub by_day: Vec<DayRevenue>,
}

/// The revenue of the whole host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostRevenue {
    pub ok: True,
    /// Start of the report.
    pub since: Timestamp,
    /// Fees from builders' tools, and revenue of the host's own.
    #[serde(deserialize_with = "crate::sum")]
    pub revenue_usd: MicroUsd,
    /// The sum of all tools.
    pub totals: RevenueTotals,
    /// The sum of builders' tools.
    pub builders: RevenueTotals,
    /// The sum of the host's own tools.
    pub own: RevenueTotals,
    /// The revenue by tool.
    pub by_endpoint: Vec<EndpointRevenue>,
    /// The revenue by day.
    pub by_day: Vec<HostDayRevenue>,
}

/// The revenue of the whole host on one day.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct HostDayRevenue {
    /// Fees from builders' tools, and revenue of the host's own.
    #[serde(deserialize_with = "crate::sum")]
    pub revenue_usd: MicroUsd,
    /// The day.
    #[serde(flatten)]
    pub day: DayRevenue,
}
