//! Budgets, and the error for a call that exceeds one.

use serde::Serialize;
use tollhouse_api::{Budget, Budgets};
use tollhouse_base::clock::Timestamp;
use tollhouse_tool::MicroUsd;

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
    /// The limit.
    pub limit_usd: MicroUsd,
    /// The amount already spent.
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
