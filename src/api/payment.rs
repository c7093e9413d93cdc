//! The state of payments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, present::present, receipt::Reorganization, time::Timestamp};

/// The state of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentResponse {
    /// Always true.
    pub ok: True,
    /// The payment.
    pub payment: Payment,
}

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Payment {
    /// Id of the payment.
    pub payment_id: String,
    /// Its state.
    pub state: PaymentState,
    /// When its state changed.
    pub updated_at: Timestamp,
    /// Its receipt. Only for callers who show the payment or its credit, the owner of the tool, and admins.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub receipt_id: Option<Option<String>>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub reason: Option<Option<String>>,
    /// Its transaction. For the same readers as the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub transaction: Option<Option<String>>,
    /// Present after a reorganization of the chain removed the payment's transaction from all blocks. For the same readers as the
    /// receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Reorganization>,
}

/// The state of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PaymentState {
    /// It is reserved for a call that runs.
    Reserved,
    /// It was released without being charged.
    Released,
    /// It is being settled.
    Settling,
    /// It was settled.
    Settled,
    /// It was refused.
    Refused,
    /// Its settlement has an unknown outcome.
    Unresolved,
    /// It was settled before the run, and the answer is still owed.
    Owed,
}
