//! Calls by `POST /ai/invoke`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::receipt::Receipt;

/// The request to call a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvokeRequest {
    /// The tool.
    pub slug: String,
    /// The tool's input. Default: `{}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The quote to use, as in `X-Quote-Id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote_id: Option<String>,
    /// Whether to answer with Server-Sent Events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
}

/// The result of a call, with its receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvokeResponse {
    /// Whether the handler chose a status of success.
    pub ok: bool,
    /// The tool's result. A result that is not JSON is `{mediaType, text}` or `{mediaType, base64}`.
    pub result: Value,
    /// The receipt.
    pub receipt: Option<Receipt>,
    /// The status that the handler chose, unless it is 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// The headers that the handler chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// The payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<String>,
    /// The settlement, as in the header `PAYMENT-RESPONSE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Value>,
}
