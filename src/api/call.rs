//! Calls of a tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_protocol::Tier;

use crate::{constant::True, error::Charged, money::MicroUsd, time::Timestamp};

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Id of the call.
    pub call_id: String,
    /// When it began.
    pub at: Timestamp,
    /// Whether it succeeded.
    pub outcome: CallOutcome,
    /// Whether the caller was charged.
    pub charged: Charged,
    /// Its price.
    pub price_usd: MicroUsd,
    /// How it was paid.
    pub payment: CallPayment,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// Size of its input, in bytes.
    pub input_bytes: u64,
    /// The version that ran.
    pub version: String,
    /// Its method, as its handler saw it. Absent for calls that an older host recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The HTTP status that its handler chose. Absent if the handler did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// The error code, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error message, up to 300 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where its handler threw, innermost place first, as `tool:/SLUG/VERSION:LINE:COLUMN` of the published source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thrown_at: Option<Vec<String>>,
    /// Whether the owner made the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<bool>,
    /// Its processor time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// How its code ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Whether a worker had to load the handler for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<bool>,
    /// Its receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
}

/// Whether a call succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum CallOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
}

/// How a call was paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum CallPayment {
    /// It was free.
    Free,
    /// With x402.
    X402,
    /// With developer credit.
    Credit,
}

/// An HTTP method of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
}

/// A page of a tool's calls, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallPage {
    /// Always true.
    pub ok: True,
    /// The calls.
    pub calls: Vec<Call>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
