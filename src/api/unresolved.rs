//! Settlements with an unknown outcome.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{constant::True, money::MicroUsd, time::Timestamp};

/// A page of settlements with an unknown outcome, by payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnresolvedPage {
    /// Always true.
    pub ok: True,
    /// The settlements.
    pub settlements: Vec<UnresolvedSettlement>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A settlement with an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct UnresolvedSettlement {
    /// The payment.
    pub payment_id: String,
    /// When the settlement began.
    pub since: Timestamp,
    /// The network.
    pub network: String,
    /// Address of the token.
    pub asset: String,
    /// The amount, in the smallest unit of the token.
    pub amount: String,
    /// The payer's address.
    pub payer: String,
    /// The recipient's address.
    pub pay_to: String,
    /// The tool that was called.
    pub slug: String,
    /// The price of the call.
    pub price_usd: MicroUsd,
    /// The facilitator that was asked to settle.
    pub facilitator: Option<String>,
    /// The transaction that was prepared for it.
    pub transaction: Option<String>,
}

/// An admin's decision about a settlement with an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettlementVerdict {
    /// The decision.
    pub decision: SettlementDecision,
    /// With `paid`, the transaction of the transfer. It has to match the chain, if a node can be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
}

/// What an admin decides about a settlement: `look_up` asks the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SettlementDecision {
    /// Asks the chain.
    LookUp,
    /// The payment arrived.
    Paid,
    /// The payment did not arrive.
    Unpaid,
}
