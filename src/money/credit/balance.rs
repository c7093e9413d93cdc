//! A developer credit, its budgets, and its balance, which the ledger keeps.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use tollhouse_account::credential::SecretHash;
use tollhouse_api::{Budget, Budgets, CreditRevocation};
use tollhouse_base::{clock::Timestamp, id::CreditId};
use tollhouse_store::{Store, StoreError, Table, schema};
use tollhouse_tool::MicroUsd;

use super::row::{BALANCE, CreditRow, LINES};

pub(crate) const CREDITS: Table<CreditId, StoredCredit> = schema::CREDITS.holding();
tollhouse_store::json_values!(StoredCredit);

/// A prepaid balance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// The remaining balance.
    #[serde(rename = "balanceUsd")]
    pub balance: MicroUsd,
    /// The credit's record.
    #[serde(flatten)]
    pub holder: StoredCredit,
}

/// A credit as it is stored. The balance is separate, so payments do not change this record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCredit {
    /// Its id, which is never reused.
    pub id: CreditId,
    /// A label that only admins see.
    pub label: String,
    /// When it was minted.
    pub created_at: Timestamp,
    /// Set while the credit is revoked. It then cannot pay for calls, and its balance is stored here.
    pub revoked: Option<CreditRevocation>,
    /// Its spending limits.
    pub budgets: Budgets,
    pub(super) secret_sha256: SecretHash,
}

impl Deref for Credit {
    type Target = StoredCredit;

    fn deref(&self) -> &StoredCredit {
        &self.holder
    }
}

impl StoredCredit {
    /// Returns its limits in force: the lower of each.
    pub fn budget(&self) -> Budget {
        in_force(&self.budgets)
    }

    pub(super) async fn with_balance(self, store: &dyn Store) -> Result<Credit, StoreError> {
        let line = LINES.get(store, &(self.id.clone(), BALANCE)).await?;
        Ok(Credit { balance: balance(line), holder: self })
    }
}

/// Returns the balance of a row, or zero if there is none. No balance is negative.
pub(super) fn balance(line: Option<CreditRow>) -> MicroUsd {
    match line {
        Some(CreditRow::Balance(sum)) => MicroUsd(u64::try_from(sum).unwrap_or(0)),
        Some(CreditRow::Movement(_)) | None => MicroUsd::ZERO,
    }
}

/// The party that sets a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// An admin.
    Admin,
    /// The holder of the token.
    Holder,
}

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetKind {
    /// The limit per UTC day.
    PerDay,
    /// The limit per call.
    PerCall,
    /// The limit per tool and UTC day.
    PerTool,
}

/// The budget that a call would exceed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("the credit's budget {} is {limit_usd} USD, of which {spent_usd} USD is spent or reserved by running calls, and the call costs {price_usd} USD", .kind.words())]
pub struct OverBudget {
    /// The kind of limit.
    pub kind: BudgetKind,
    /// The limit, in US dollars.
    pub limit_usd: MicroUsd,
    /// The amount already spent or reserved, in US dollars.
    pub spent_usd: MicroUsd,
    /// The price of the call.
    pub price_usd: MicroUsd,
    /// When the budget resets. `None` for the limit per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
}

impl BudgetKind {
    fn words(self) -> &'static str {
        match self {
            Self::PerDay => "per day",
            Self::PerCall => "per call",
            Self::PerTool => "per tool and day",
        }
    }
}

/// Returns the limits in force: the lower of each.
pub(super) fn in_force(Budgets { admin, holder, .. }: &Budgets) -> Budget {
    let lower = |of: fn(&Budget) -> Option<MicroUsd>| [of(admin), of(holder)].into_iter().flatten().min();
    Budget {
        per_day_usd: lower(|budget| budget.per_day_usd),
        per_call_usd: lower(|budget| budget.per_call_usd),
        per_tool_usd: lower(|budget| budget.per_tool_usd),
        alert_at_usd: lower(|budget| budget.alert_at_usd),
        frozen: admin.frozen || holder.frozen,
    }
}
