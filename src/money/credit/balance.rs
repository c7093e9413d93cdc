//! A credit, and what it has: its balance is the ledger's.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_account::credential::SecretHash;
use tollhouse_base::{clock::Timestamp, id::CreditId};
use tollhouse_store::{Store, StoreError, Table, schema};
use tollhouse_tool::MicroUsd;

use super::{
    budgets::Budgets,
    line::{LINES, Line},
    number::BALANCE,
};

pub(crate) const CREDITS: Table<CreditId, Holder> = schema::CREDITS.holding();
tollhouse_store::json_values!(Holder);

/// A prepaid balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// What is left of it.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// Whose it is.
    #[serde(flatten)]
    pub holder: Holder,
}

/// A credit as it is stored, without its balance: payments do not change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Never given twice.
    pub id: CreditId,
    /// For admins, and nobody else.
    pub label: String,
    /// When it was minted.
    pub created_at: Timestamp,
    /// While an admin has revoked it: it pays for nothing, and what it held is kept here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
    /// How much of it may go.
    #[serde(default)]
    pub budgets: Budgets,
    /// The balance, where a version without a ledger wrote it last.
    #[serde(default, rename = "balanceUsd", skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<MicroUsd>,
    pub(super) secret_sha256: SecretHash,
}

/// Since when a credit is revoked, and what is given back when it is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// When an admin decided.
    pub since: Timestamp,
    /// What was taken.
    #[serde(rename = "amountUsd")]
    pub amount: MicroUsd,
    /// Shown to the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Deref for Credit {
    type Target = Holder;

    fn deref(&self) -> &Holder {
        &self.holder
    }
}

impl Credit {
    /// As its holder and admins see it.
    #[must_use]
    pub fn public(&self) -> Value {
        json!({
            "creditId": self.id,
            "label": self.label,
            "balanceUsd": self.balance,
            "createdAt": self.created_at,
            "revoked": self.revoked,
            "budget": self.budgets.in_force(),
            "budgets": self.budgets,
        })
    }
}

impl Holder {
    /// With what it has at the moment.
    pub(super) async fn with_balance(self, store: &dyn Store) -> Result<Credit, StoreError> {
        let line = LINES.get(store, &(self.id.clone(), BALANCE)).await?;
        Ok(Credit { balance: balance(line), holder: self })
    }
}

/// The balance that lies beside the movements; nothing moved where there is none. No credit is below zero.
pub(super) fn balance(line: Option<Line>) -> MicroUsd {
    match line {
        Some(Line::Balance(sum)) => MicroUsd(u64::try_from(sum).unwrap_or(0)),
        Some(Line::Movement(_)) | None => MicroUsd::ZERO,
    }
}
