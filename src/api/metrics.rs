//! Statistics of calls.

use std::borrow::Cow;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::{MicroUsd, Slug};

use crate::True;

/// Statistics of a tool's calls over time, oldest bucket first, without gaps.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// Start of the first bucket.
    pub since: Timestamp,
    /// Length of a bucket.
    #[schemars(extend("enum" = ["1m", "5m", "1h", "1d"]))]
    pub step: Cow<'static, str>,
    /// The buckets.
    pub buckets: Vec<MetricsBucket>,
    pub ok: True,
}

/// The calls within one bucket.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MetricsBucket {
    /// Start of the bucket.
    pub at: Timestamp,
    /// Number of calls.
    pub calls: u64,
    /// Number of paid calls.
    pub paid: u64,
    /// Number of failed calls, by error code.
    pub failed: BTreeMap<String, u64>,
    /// Amount that callers paid.
    #[serde(deserialize_with = "crate::sum")]
    pub gross_usd: MicroUsd,
    /// Median duration, in milliseconds.
    #[serde(rename = "p50Ms", skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// 95th percentile of the duration, in milliseconds.
    #[serde(rename = "p95Ms", skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
}

/// The calls of a tool within 30 days, oldest day first, without gaps.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DailyUsage {
    pub ok: True,
    /// Start of the first day.
    pub since: Timestamp,
    /// The days.
    pub days: Vec<UsageDay>,
}

/// The calls of a tool on one day.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UsageDay {
    /// Start of the day, in UTC.
    pub at: Timestamp,
    /// Number of calls.
    pub calls: u64,
    /// Median duration, in milliseconds.
    #[serde(rename = "p50Ms", skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// 95th percentile of the duration, in milliseconds.
    #[serde(rename = "p95Ms", skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<f64>,
}

/// The recent calls of a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentUsage {
    /// Calls within 30 days, without those of its builder.
    pub calls30d: u64,
    /// Median duration, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<f64>,
}

/// Activity of the sandbox since the process started.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeStats {
    pub ok: True,
    /// The tools that were called most.
    pub endpoints: Vec<RuntimeEndpoint>,
    /// Number of tools that were called.
    pub total: usize,
}

/// Activity of the sandbox for one tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RuntimeEndpoint {
    /// The tool.
    pub slug: Slug,
    /// Calls that are in the sandbox or wait for a place there.
    pub running: u64,
    /// Calls that ran, whatever their outcome.
    pub calls: u64,
    /// Calls that had to load their handler first.
    pub cold_calls: u64,
    /// Calls that were stopped at a limit.
    pub stops: u64,
    /// Calls that got no place, because the host was busy or the tool was held.
    pub refused: u64,
    /// Processor time of all calls, in microseconds.
    pub cpu_us: u64,
}
