//! Calls of a tool: the requests, the results, the history and the log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollhouse_base::{
    clock::Timestamp,
    id::{CallId, PaymentId, ReceiptId},
};
use tollhouse_protocol::{LogLevel, Tier};
use tollhouse_tool::MicroUsd;

use crate::{Charged, Handler, Receipt, ReceiptKind, True};

/// The request to call a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound(deserialize = "I: Deserialize<'de>"))]
#[schemars(rename = "InvokeRequest")]
pub struct InvokeRequest<I = Value> {
    /// The tool.
    pub slug: String,
    /// The tool's input. Default: `{}`.
    #[serde(default, deserialize_with = "crate::present_value")]
    #[schemars(with = "Option<Value>")]
    pub input: Option<I>,
    /// The quote to use, as in `X-Quote-Id`.
    pub quote_id: Option<String>,
    /// Whether to answer with Server-Sent Events. Long-running tools require it.
    #[serde(default)]
    pub stream: bool,
}

/// The result of a call, with its receipt. `R` is the JSON text of the result, which keeps the digits of numbers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InvokeResponse")]
pub struct InvokeResponse<R = Value, C = Receipt> {
    /// Whether the handler chose a status of success.
    pub ok: bool,
    /// The status that the handler chose, unless it is 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The headers that the handler chose.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The tool's result. A result that is not JSON is `{mediaType, text}` or `{mediaType, base64}`.
    #[schemars(with = "Value")]
    pub result: R,
    /// The receipt.
    pub receipt: Option<C>,
    /// Id of the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<PaymentId>,
    /// The settlement, as in the header `PAYMENT-RESPONSE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Value>,
}

/// The request to run a draft, or a stored version, without publishing it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "I: Deserialize<'de>, H: Deserialize<'de>"))]
#[schemars(rename = "DryRunRequest")]
pub struct DryRunRequest<I = Value, H = Handler> {
    /// The input. Default: `{}`.
    #[serde(default, deserialize_with = "crate::present_value")]
    #[schemars(with = "Option<Value>")]
    pub input: Option<I>,
    /// The version to run. Default: the current one.
    pub version: Option<String>,
    /// The handler to run.
    #[schemars(with = "Option<Handler>")]
    pub handler: Option<H>,
    /// A cron expression, to run `scheduled` for it in place of the handler.
    pub schedule: Option<String>,
}

/// The result of a dry run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DryRunResponse")]
pub struct DryRunResponse<R = Value> {
    pub ok: True,
    /// The run.
    #[schemars(with = "DryRun")]
    pub run: DryRun<R>,
}

/// A dry run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct DryRun<R = Value> {
    /// Hash of the version that ran.
    pub version: String,
    /// The log of the run.
    pub log: Vec<LogLine>,
    /// Resources that the run used.
    pub spent: DryRunUsage,
    /// The capabilities and hosts that the run could use.
    pub granted: Map<String, Value>,
    /// The status that the handler chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub result: Option<R>,
    /// The error that a call would get, in place of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub error: Option<Value>,
}

/// Resources that a dry run used.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DryRunUsage {
    /// Processor time, in milliseconds.
    pub cpu_ms: f64,
    /// Duration, in milliseconds.
    pub wall_ms: f64,
    /// Memory, in bytes.
    pub heap_bytes: u64,
    /// Number of ops.
    pub ops: u64,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Id of the call.
    pub call_id: CallId,
    /// When it ended.
    pub at: Timestamp,
    /// The cause of the call. Absent for requests.
    #[serde(default, skip_serializing_if = "CallKind::is_request")]
    pub kind: CallKind,
    /// The schedule that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduledRun>,
    /// Whether it succeeded.
    pub outcome: CallOutcome,
    /// The error code, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error message, up to 300 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where its handler threw, innermost place first, as `tool:/SLUG/VERSION:LINE:COLUMN` of the published source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thrown_at: Vec<String>,
    /// Whether the caller was charged.
    pub charged: Charged,
    /// Its price, in US dollars.
    pub price_usd: MicroUsd,
    /// Whether the owner made the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// How it was paid.
    pub payment: ReceiptKind,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// Its processor time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// How its code ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Whether a worker had to load the handler for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<bool>,
    /// Size of its input, in bytes.
    pub input_bytes: u64,
    /// Id of its receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<ReceiptId>,
    /// The version that ran.
    pub version: String,
    /// Its method, as its handler saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Method>")]
    pub method: Option<String>,
    /// The HTTP status that its handler chose. Absent if the handler did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The cause of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum CallKind {
    /// A request of a caller.
    #[default]
    Request,
    /// A schedule of the tool.
    Scheduled,
}

impl CallKind {
    /// Returns whether a caller's request began it.
    #[must_use]
    pub fn is_request(&self) -> bool {
        *self == Self::Request
    }
}

/// The schedule of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ScheduledRun {
    /// The cron expression.
    pub cron: String,
    /// The time for which it ran.
    pub scheduled_time: Timestamp,
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallPage {
    pub ok: True,
    /// The calls.
    pub calls: Vec<Call>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A line in the log of a handler.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// When it was written.
    pub at: Timestamp,
    /// Its severity.
    pub level: LogLevel,
    /// Its text.
    pub message: String,
    /// Its fields, as the handler wrote them.
    pub fields: Map<String, Value>,
    /// The call that wrote it.
    pub call_id: Option<CallId>,
    /// Whether the owner made the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
}

/// A page of a handler's log, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPage {
    pub ok: True,
    /// The lines.
    pub logs: Vec<LogLine>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
