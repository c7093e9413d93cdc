//! Errors, and challenges of x402.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An error.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    #[schemars(extend("const" = false))]
    pub ok: bool,
    /// The error.
    pub error: ErrorDetails,
    /// The v2 object of an x402 challenge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_required: Option<Map<String, Value>>,
}

/// The problem, and the party that can fix it. Some codes have more fields than these.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ErrorDetails {
    /// Code for programs. It does not change. The page of errors lists all of them.
    pub code: String,
    /// The party that can fix it.
    pub fault: FaultParty,
    /// Message for people. It can change.
    pub message: String,
    /// Id of the request, also in `X-Request-Id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the caller was charged: `unknown` until the settlement is resolved, true if a payment was charged before and its answer
    /// is lost or still owed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged: Option<Charged>,
    /// Seconds to wait before a retry, as in `Retry-After`. Streams and MCP have no such header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The field of the body that is wrong, as a JSON Pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// All problems, if there can be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<Map<String, Value>>>,
    /// The payment that the error is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<String>,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The party that can fix an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FaultParty {
    /// The caller.
    Caller,
    /// The owner of the tool.
    Tool,
    /// The host.
    Host,
}

impl FaultParty {
    /// Returns its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Tool => "tool",
            Self::Host => "host",
        }
    }
}

/// Whether a caller was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Value", try_from = "Value")]
#[schemars(inline, extend("anyOf" = [{ "type": "boolean" }, { "const": "unknown" }]))]
pub enum Charged {
    /// Not charged.
    No,
    /// Charged.
    Yes,
    /// Not known until the settlement is resolved.
    Unknown,
}

impl Charged {
    /// Returns its name in logs and documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Charged> for Value {
    fn from(charged: Charged) -> Self {
        match charged {
            Charged::No => false.into(),
            Charged::Yes => true.into(),
            Charged::Unknown => "unknown".into(),
        }
    }
}

impl TryFrom<Value> for Charged {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::Bool(false) => Ok(Self::No),
            Value::Bool(true) => Ok(Self::Yes),
            Value::String(text) if text == "unknown" => Ok(Self::Unknown),
            _ => Err("expected true, false or `unknown`"),
        }
    }
}

/// An x402 challenge. This is v1; v2 is in the header `PAYMENT-REQUIRED`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentRequired {
    /// Version of x402.
    #[serde(rename = "x402Version")]
    #[schemars(extend("const" = 1))]
    pub x402_version: u64,
    /// The ways to pay, for clients of v1.
    pub accepts: Vec<Map<String, Value>>,
    /// Why a payment is required: a code of x402, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The whole v2 object, if the header has no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_required: Option<Map<String, Value>>,
    /// Further fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
