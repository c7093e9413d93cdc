//! Requests and responses about developer credit.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tollhouse_base::{clock::Timestamp, id::CreditId};
use tollhouse_tool::{MicroUsd, Slug, UsdChange};

use crate::True;

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
    /// Whether the credit is frozen and cannot pay for calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
}

/// The budgets of a credit. The lower of two limits applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credit {
    /// Id of the credit.
    pub credit_id: CreditId,
    /// Its label.
    pub label: String,
    /// Its balance, in US dollars.
    #[serde(deserialize_with = "crate::sum")]
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
    /// The reason for the revocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A developer credit, with its spending of today.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreditResponse {
    /// The credit.
    #[serde(flatten)]
    pub credit: Credit,
    pub ok: True,
    /// Its spending of today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today: Option<CreditDay>,
}

/// The spending of a credit within the current UTC day.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditDay {
    /// The amount that was spent.
    #[serde(deserialize_with = "crate::sum")]
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CreditToolDay {
    /// The tool.
    pub slug: String,
    /// The amount that was spent.
    #[serde(deserialize_with = "crate::sum")]
    pub spent_usd: MicroUsd,
    /// The rest of the budget. Null if it has no limit per tool.
    pub left_usd: Option<MicroUsd>,
}

/// The request to mint a credit, or to add to one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MintCreditResponse {
    /// A new credit.
    New(MintedCredit),
    /// The credit that was added to.
    Existing(Box<CreditResponse>),
}

impl<'de> Deserialize<'de> for MintCreditResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The existing credit first: it has all fields that a new one must have.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Known {
            Existing(Box<CreditResponse>),
            New(MintedCredit),
        }
        Ok(match Known::deserialize(deserializer)? {
            Known::Existing(credit) => Self::Existing(credit),
            Known::New(credit) => Self::New(credit),
        })
    }
}

/// A new credit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MintedCredit {
    pub ok: True,
    /// Id of the credit.
    pub credit_id: CreditId,
    /// Its balance, in US dollars.
    #[serde(deserialize_with = "crate::sum")]
    pub balance_usd: MicroUsd,
    /// Its label.
    pub label: String,
    /// The token. It is shown only once: a repeated request does not return it.
    #[serde(rename = "credit", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// One credit with its movements, or all credits for admins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CreditsResponse {
    /// One credit.
    One(Box<CreditHistory>),
    /// All credits, for admins.
    All(CreditPage),
}

/// A credit with its movements, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditHistory {
    /// The credit.
    #[serde(flatten)]
    pub credit: Credit,
    pub ok: True,
    /// Its movements.
    pub movements: Vec<CreditMovement>,
    /// Its spending of today.
    pub today: CreditDay,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A page of all credits, for admins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditPage {
    pub ok: True,
    /// The credits.
    pub credits: Vec<Credit>,
    /// Cursor of the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<CreditId>,
}

/// A change of a credit's balance.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreditMovement {
    /// When the balance changed.
    pub at: Timestamp,
    /// The kind of change, which also gives its direction.
    pub kind: MovementKind,
    /// The amount, in US dollars.
    pub amount_usd: MicroUsd,
    /// Receipt of the call that was paid or refunded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// The tool that was paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
    /// The balance afterwards.
    pub balance_usd: UsdChange,
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreditVerdict {
    /// The decision.
    pub decision: CreditDecision,
    /// The reason, shown to the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An admin's decision about a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum CreditDecision {
    /// Takes the balance until the credit is restored.
    Revoke,
    /// Undoes a revocation.
    Restore,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn minted_and_existing_credits_keep_their_fields() {
        let minted = json!({ "ok": true, "creditId": CreditId::generate(), "balanceUsd": 1, "label": "a" });
        let existing = json!({
            "creditId": CreditId::generate(), "label": "a", "balanceUsd": 2_000_000, "createdAt": "2026-11-22T09:58:03.000Z", "revoked": null,
            "budget": {}, "budgets": { "admin": {}, "holder": {}, "revision": 0 }, "ok": true,
        });
        for response in [minted, existing] {
            let read: MintCreditResponse = serde_json::from_value(response.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), response);
        }
    }
}
