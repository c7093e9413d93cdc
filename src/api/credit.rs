//! Developer credit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    constant::True,
    money::{MicroUsd, UsdChange},
    present::present,
    time::Timestamp,
};

/// Limits on the spending of a credit. An absent field is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Limit per UTC day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_day_usd: Option<MicroUsd>,
    /// Limit per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_call_usd: Option<MicroUsd>,
    /// Limit per tool and UTC day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_tool_usd: Option<MicroUsd>,
    /// Spending per UTC day that triggers an alert.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_at_usd: Option<MicroUsd>,
    /// Whether the credit is frozen and pays for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
}

/// The budgets of a credit. The lower of two limits applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Budgets {
    /// The budget that an admin set.
    pub admin: Budget,
    /// The budget that the holder set.
    pub holder: Budget,
    /// Number of times that either was set.
    pub revision: u64,
}

/// A developer credit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    /// Id of the credit.
    pub credit_id: String,
    /// Its label.
    pub label: String,
    /// Its balance.
    pub balance_usd: MicroUsd,
    /// When it was created.
    pub created_at: Timestamp,
    /// When and why an admin revoked it.
    pub revoked: Option<CreditRevocation>,
    /// The budget in force.
    pub budget: Budget,
    /// The budgets of both parties.
    pub budgets: Budgets,
}

/// The revocation of a credit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CreditRevocation {
    /// When it was revoked.
    pub since: Timestamp,
    /// The balance that was taken.
    pub amount_usd: MicroUsd,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A developer credit, with its spending of today.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditResponse {
    /// Always true.
    pub ok: True,
    /// The credit.
    #[serde(flatten)]
    pub credit: Credit,
    /// Its spending of today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today: Option<CreditDay>,
}

/// The spending of a credit within the current UTC day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditDay {
    /// The amount that was spent.
    pub spent_usd: MicroUsd,
    /// The rest of the budget. Null if it has no limit per day.
    pub left_usd: Option<MicroUsd>,
    /// The spending by tool.
    pub by_tool: Vec<CreditToolDay>,
    /// Whether spending has reached the alert.
    pub alert: bool,
    /// When the next day begins.
    pub resets_at: Timestamp,
}

/// The spending of a credit for one tool within the current UTC day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CreditToolDay {
    /// The tool.
    pub slug: String,
    /// The amount that was spent.
    pub spent_usd: MicroUsd,
    /// The rest of the budget. Null if it has no limit per tool.
    pub left_usd: Option<MicroUsd>,
}

/// The request to mint a credit, or to add to one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MintCreditRequest {
    /// The amount to add.
    pub amount_usd: MicroUsd,
    /// Label of the credit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The credit to add to. Default: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_id: Option<String>,
}

/// The result of minting: a new credit with its token, or an existing one with its new balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MintCreditResponse {
    /// Always true.
    pub ok: True,
    /// The credit.
    #[serde(flatten)]
    pub credit: MintedCredit,
    /// The token of a new credit. It is shown only once.
    #[serde(rename = "credit", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A minted credit. An existing one has only its id, label and balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MintedCredit {
    /// Id of the credit.
    pub credit_id: String,
    /// Its label.
    pub label: String,
    /// Its balance.
    pub balance_usd: MicroUsd,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When and why an admin revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("nullable" = true))]
    pub revoked: Option<Option<CreditRevocation>>,
    /// The budget in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The budgets of both parties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
}

/// One credit with its movements, or all credits for admins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CreditsResponse {
    /// One credit.
    One(Box<CreditHistory>),
    /// All credits, for admins.
    All(CreditPage),
}

/// A credit with its movements, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CreditHistory {
    /// Always true.
    pub ok: True,
    /// The credit.
    #[serde(flatten)]
    pub credit: Credit,
    /// Its movements.
    pub movements: Vec<CreditMovement>,
    /// Its spending of today.
    pub today: CreditDay,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A page of all credits, for admins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CreditPage {
    /// Always true.
    pub ok: True,
    /// The credits.
    pub credits: Vec<Credit>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A change of a credit's balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditMovement {
    /// When the balance changed.
    pub at: Timestamp,
    /// The kind of change, which also gives its direction.
    pub kind: MovementKind,
    /// The amount.
    pub amount_usd: MicroUsd,
    /// The balance afterwards.
    pub balance_usd: UsdChange,
    /// Receipt of the call that was paid or refunded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// The tool that was paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
}

/// The kind of a change of a balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum MovementKind {
    /// Adds to the balance.
    Mint,
    /// Pays for a call.
    Debit,
    /// Takes the whole balance.
    Revoke,
    /// Returns the balance that was taken.
    Restore,
    /// Returns what a call paid, or a part of it.
    Refund,
}

/// An admin's decision about a credit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreditVerdict {
    /// The decision.
    pub decision: CreditDecision,
    /// The reason, shown to the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What an admin decides about a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum CreditDecision {
    /// Takes the balance until the credit is restored.
    Revoke,
    /// Undoes a revocation.
    Restore,
}
